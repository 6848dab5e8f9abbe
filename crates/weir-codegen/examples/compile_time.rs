//! Measures the compile time of filters with N terms, each `load, mask, compare` with its own length check.
//! The time of verification, which is included, is also printed separately.
//!
//! `cargo run --release -p weir-codegen --example compile_time`

use std::time::{Duration, Instant};
use weir_codegen::{Effort, NativeProgram, compile_with};
use weir_ir::abi::{Continuation, Program};
use weir_ir::build::{Builder, to};
use weir_ir::graph::{BinaryOp, CompareOp, Graph, NumberFormat, Op, Terminator, Type, Width};
use weir_ir::verify::verify;
use weir_packet::PacketMeta;

const REPETITIONS: usize = 30;

/// A chain of `terms` terms. Block parameters pass the number of the last term that holds to the end.
fn filter(terms: u32) -> Graph {
    let mut b = Builder::new(Graph::default());
    let buf = b.one(Op::Frame);
    let answer = b.variable(Type::Int);
    let zero = b.int(0);
    b.write(answer, zero);
    for term in 0..terms {
        let [there, holds, next] = [(); 3].map(|()| b.block());
        let offset = b.int(u64::from(term % 50));
        b.end(Terminator::Check { buf, offset, bytes: 2, then: to(there), otherwise: to(next) });
        b.seal(there);
        b.switch_to(there);
        let value = b.one(Op::Load {
            format: NumberFormat { width: Width::W2, little: false },
            buf,
            offset,
            displacement: 0,
        });
        let mask = b.int(0xfff);
        let masked = b.binary(BinaryOp::And, value, mask);
        let wanted = b.int(u64::from(term));
        let equal = b.compare(CompareOp::Eq, masked, wanted);
        b.branch(equal, holds, next);
        b.seal(holds);
        b.switch_to(holds);
        let number = b.int(u64::from(term) + 1);
        b.write(answer, number);
        b.jump(next);
        b.seal(next);
        b.switch_to(next);
    }
    let terms = b.read(answer);
    b.done(terms, None);
    b.finish()
}

fn fastest<T>(mut f: impl FnMut() -> T) -> (Duration, T) {
    let mut run = || {
        let start = Instant::now();
        let made = f();
        (start.elapsed(), made)
    };
    let mut best = run();
    for _ in 1..REPETITIONS {
        let next = run();
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}

fn ns_per_packet(program: &NativeProgram) -> f64 {
    const PACKETS: u32 = 100_000;
    let (packet, frame, mut k) = (PacketMeta::default(), [0; 64], Continuation::default());
    let (time, ()) = fastest(|| {
        for _ in 0..PACKETS {
            program.head(&packet, std::hint::black_box(&frame), &mut k);
        }
    });
    time.as_nanos() as f64 / f64::from(PACKETS)
}

fn main() {
    println!("terms  effort    verify µs  compile µs  code bytes  ns/packet");
    for terms in [0, 4, 16, 64, 256, 1024] {
        let graph = filter(terms);
        let (verified, _) = fastest(|| verify(&graph));
        let verified = verified.as_nanos() as f64 / 1e3;
        for effort in [Effort::Least, Effort::Quick, Effort::Thorough] {
            let (time, program) = fastest(|| compile_with(graph.clone(), effort).expect("it compiles"));
            let (micros, bytes) = (time.as_nanos() as f64 / 1e3, program.code_bytes());
            let effort = format!("{effort:?}");
            println!(
                "{terms:5}  {effort:8}  {verified:9.1}  {micros:10.1}  {bytes:10}  {:9.1}",
                ns_per_packet(&program)
            );
        }
    }
}
