//! Prints connections whose first bytes look random, by the heuristic that the Great Firewall uses to find
//! fully encrypted proxies (Wu et al., USENIX Security 2023, Algorithm 1). A connection is exempt if its
//! first packet with data (1) has on average at most 3.4 or at least 4.6 set bits per byte, (2) begins with
//! six or more printable bytes, (3) consists of more than half printable bytes, (4) has more than 20
//! consecutive printable bytes, or (5) begins like TLS or HTTP.
//!
//! `cargo run --example fully_encrypted -- capture.pcap`

use weir::Engine;
use weir::io::CaptureReader;
use weir::stream::{Chunk, Stream, StreamHandler, StreamParams};

/// The connections that are not exempt.
#[derive(Debug, Default)]
struct Suspects {
    lines: Vec<String>,
    seen: u64,
}

impl StreamHandler for Suspects {
    type State = ();

    fn data(&mut self, _: &mut (), stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        if stream.is_orig() && chunk.gap_bytes == 0 {
            self.seen += 1;
            if !is_exempt(chunk.bytes) {
                let [from, to] = stream.endpoints();
                self.lines.push(format!("{}:{} -> {}:{}", from.0, from.1, to.0, to.1));
            }
        }
        // Only the first packet with data is needed.
        stream.discard();
    }
}

fn is_exempt(bytes: &[u8]) -> bool {
    let is_printable = |byte: &u8| (0x20..=0x7e).contains(byte);
    let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
    let average = f64::from(ones) / bytes.len().max(1) as f64;
    let printable = bytes.iter().filter(|byte| is_printable(byte)).count();
    let longest = bytes.split(|byte| !is_printable(byte)).map(<[u8]>::len).max().unwrap_or(0);
    let is_tls = matches!(bytes, [0x16..=0x17, 0x03, 0x00..=0x09, ..]);
    let is_http = [&b"GET "[..], b"PUT ", b"POST ", b"HEAD "].iter().any(|method| bytes.starts_with(method));
    average <= 3.4
        || average >= 4.6
        || bytes.len() >= 6 && bytes[..6].iter().all(is_printable)
        || printable * 2 > bytes.len()
        || longest > 20
        || is_tls
        || is_http
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut engine = Engine::new();
    let params = StreamParams { cutoff: [1500, 0], ..StreamParams::default() };
    let suspects = engine.subscribe_streams("tcp", params, Suspects::default)?;
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    let outcome = engine.run(&mut CaptureReader::open(&files), 1)?;
    for one in outcome.handlers.of::<Suspects>(suspects) {
        one.lines.iter().for_each(|line| println!("{line}"));
        println!("{} of {} connections", one.lines.len(), one.seen);
    }
    outcome.errors.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
}
