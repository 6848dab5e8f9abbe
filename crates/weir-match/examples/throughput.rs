//! Measures the search speed for patterns that do not match: `cargo run --release -p weir-match --example
//! throughput`.
//!
//! The input is synthetic, in pieces of packet size: text similar to web pages, and bytes that look random.

use std::time::Instant;

use weir_match::{EngineChoice, Pattern, Patterns};

const STREAM_BYTES: usize = 64 << 20;
const PIECE_BYTES: usize = 1_448;

fn main() {
    let words = "the quick brown fox GET /index.html HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: curl/8.5 \
                 <div class=\"item\"> a href lorem ipsum dolor sit amet 12345 2026-11-22 {\"id\": 17} \r\n";
    let words: Vec<&str> = words.split_inclusive(' ').collect();
    let mut seed = 1;
    let mut text = vec![];
    while text.len() < STREAM_BYTES {
        text.extend_from_slice(words[(next(&mut seed) >> 33) as usize % words.len()].as_bytes());
    }
    text.truncate(STREAM_BYTES);
    let random: Vec<u8> = (0..STREAM_BYTES).map(|_| (next(&mut seed) >> 56) as u8).collect();

    println!(
        "{:<22} {:>9} {:>10} {:>10} {:>10} {:>10}",
        "patterns", "engine", "prefilter", "build ms", "text GB/s", "random GB/s"
    );
    for (name, patterns) in cases() {
        for engine in [EngineChoice::Rust, EngineChoice::Vectorscan] {
            let started = Instant::now();
            let Ok(compiled) = Patterns::compile(&patterns, engine) else { continue };
            let build_ms = started.elapsed().as_secs_f64() * 1e3;
            let [text, random] = [&text, &random].map(|bytes| throughput(&compiled, bytes));
            let (engine, prefilter) = (compiled.engine(), compiled.prefilter());
            println!("{name:<22} {engine:>9} {prefilter:>10} {build_ms:>10.1} {text:>10.2} {random:>10.2}");
        }
    }
}

fn cases() -> Vec<(String, Vec<Pattern>)> {
    let expression = |text: String| Pattern { text, ignore_case: false, literal: false };
    let any_case = |text: String| Pattern { text, ignore_case: true, literal: false };
    let names: Vec<String> =
        (0..50u64).map(|n| format!("{:x}evil", (n + 3).wrapping_mul(0x9e37_79b9))).collect();
    let ordinary = |n: usize| match n % 5 {
        0 => format!("{}[0-9]{{2,8}}\\.exe", names[n]),
        1 => format!("User-Agent: [^\\r\\n]*{}", names[n]),
        2 => format!("{}|{}x", names[n], names[n + 1]),
        3 => format!("/{}/[a-z]+\\?id=", names[n]),
        _ => format!("password={}", names[n]),
    };
    vec![
        ("1 string".into(), vec![expression("xmrig-donate".into())]),
        ("1 class first".into(), vec![expression(r"[0-9]{1,3}\.exe".into())]),
        ("1 words first".into(), vec![expression(r"\w+@evil\.com".into())]),
        ("10 strings".into(), names[..10].iter().cloned().map(expression).collect()),
        ("50 strings".into(), names.iter().cloned().map(expression).collect()),
        ("50 strings, any case".into(), names.iter().cloned().map(any_case).collect()),
        ("10 expressions".into(), (0..10).map(ordinary).map(expression).collect()),
        ("49 expressions".into(), (0..49).map(ordinary).map(expression).collect()),
        ("49 of any case".into(), (0..49).map(ordinary).map(any_case).collect()),
        (
            "30 of a.*b".into(),
            (0..30).map(|n| expression(format!("{}.*{}", names[n], names[n + 1]))).collect(),
        ),
    ]
}

/// The best of three runs, in GB/s.
fn throughput(patterns: &Patterns, bytes: &[u8]) -> f64 {
    let run = || {
        let (mut scratch, mut stream, mut matches) = (patterns.scratch(), patterns.start(), 0);
        let started = Instant::now();
        for piece in bytes.chunks(PIECE_BYTES) {
            patterns.feed(&mut scratch, &mut stream, piece, &mut |_| matches += 1);
        }
        patterns.finish(&mut scratch, &mut stream, &mut |_| matches += 1);
        let rate = bytes.len() as f64 / started.elapsed().as_secs_f64() / 1e9;
        assert!(matches < 10, "{matches} matches");
        rate
    };
    (0..3).map(|_| run()).fold(0.0, f64::max)
}

/// The next pseudo-random number (PCG's multiplier).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed
}
