//! A recorder in a program of its own: keeps the packets of a capture in memory, where `weir -r ring:example`
//! finds them, and writes each connection that matches a filter to a file.
//!
//! ```text
//! cargo run -p weir-recorder --example recorder -- examples/first-light.pcap dns dumps
//! ```

use std::path::Path;
use weir_questions::Input;
use weir_questions::messages::Failure;
use weir_questions::run::{Run, RunSettings};
use weir_questions::source::Ender;
use weir_recorder::{RecorderOptions, Recording};

/// Records a capture; returns the recording, which goes on until it is finished.
pub fn record(capture: &Path, trigger: &str, dumps: &Path) -> Result<Recording, Failure> {
    let recorder = RecorderOptions {
        name: "example".to_string(),
        ring: "64M".to_string(),
        trigger: vec![trigger.to_string()],
        dumps: Some(dumps.to_path_buf()),
        ..RecorderOptions::default()
    };
    let mut input = Input { read: vec![capture.into()], ..Input::default() };
    recorder.reserve(&mut input)?;
    let mut run = Run::new(&input, RunSettings::default(), &[])?;
    let asking = recorder.ask(&mut run)?;
    let mut captures = run.open(false, &Ender::default())?;
    let recording = recorder.start(&run, &mut captures, &asking, recorder.take_name()?)?;
    let outcome = run.over(&mut captures, &mut |_| {})?;
    run.report(outcome, true, None);
    Ok(recording)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [capture, trigger, dumps] = &words[..] else { panic!("give CAPTURE TRIGGER DIR") };
    let recorded = record(Path::new(capture), trigger, Path::new(dumps));
    let recording = recorded.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{} packets are in ring:example", recording.packets().0.counters().packets);
    recording.finish();
}
