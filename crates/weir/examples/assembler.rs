//! The data assembler: all bytes in order, both directions, counted.
//!
//! `cargo run --release -p weir --example assembler -- FILE.pcap
//! [--stack NAME] [--without PASS] [--cutoff BYTES]`

use std::error::Error;
use std::ffi::OsString;
use weir::io::CaptureReader;
use weir::stream::{Chunk, Stream, StreamHandler, StreamParams};
use weir::{Compiler, Engine, Options};

/// Counts bytes.
#[derive(Default)]
struct Assembler {
    bytes: u64,
}

impl StreamHandler for Assembler {
    type State = ();

    fn data(&mut self, (): &mut (), _: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        self.bytes += chunk.gap_bytes + chunk.bytes.len() as u64;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut compiler, mut options, mut files) = (Compiler::default(), Options::default(), vec![]);
    let mut params = StreamParams::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--stack" => compiler.use_stack(&words.next().ok_or("--stack wants a name")?)?,
            "--without" => options.without_passes.push(words.next().ok_or("--without wants a pass")?),
            "--cutoff" => params.cutoff = [words.next().ok_or("--cutoff wants bytes")?.parse()?; 2],
            _ => files.push(OsString::from(word)),
        }
    }
    let mut engine = Engine::with(compiler, options);
    let all = engine.subscribe_streams("", params, Assembler::default).map_err(|wrong| wrong.to_string())?;
    let mut reader = CaptureReader::open(&files);
    let outcome = engine.run(&mut reader, 1).map_err(|wrong| wrong.to_string())?;
    for error in &outcome.errors {
        eprintln!("{error}");
    }
    println!("{}", outcome.handlers.of::<Assembler>(all).iter().map(|one| one.bytes).sum::<u64>());
    Ok(())
}
