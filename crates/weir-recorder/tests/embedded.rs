//! The example is a recorder: its ring has the packets, and its dumps the connections of the trigger.

#[allow(dead_code)]
#[path = "../examples/recorder.rs"]
mod example;

use std::path::Path;
use weir_questions::Input;
use weir_questions::by_name::{Ender, Listener, Question, Questions, TakeRows};

/// Counts rows.
struct Count(std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl TakeRows for Count {
    fn rows(&mut self, rows: &weir::packet::Batch) -> std::io::Result<bool> {
        self.0.fetch_add(rows.rows(), std::sync::atomic::Ordering::Relaxed);
        Ok(true)
    }

    fn pause(&mut self) -> std::io::Result<bool> {
        Ok(true)
    }

    fn end(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The number of connections in these packets that match a filter.
fn connections(read: &str, filter: &str) -> usize {
    let count = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
    let input = Input { read: vec![read.into()], ..Input::default() };
    let question = Question::of("q", "flows", &format!("{{\"filter\": \"{filter}\"}}")).expect("a question");
    let questions = Questions::of(&input, vec![question]).expect("questions");
    let takers: Vec<Box<dyn TakeRows>> = vec![Box::new(Count(count.clone()))];
    let ended = questions.run(takers, &Ender::default(), Listener::new(|_| {}), &mut |_, _| {});
    assert!(ended.expect("a run").errors.is_empty());
    count.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn the_ring_has_the_packets_and_the_dumps_have_the_connections() {
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");
    let dumps = tempfile::tempdir().expect("a directory");
    let recorded = example::record(Path::new(capture), "dns", dumps.path());
    let recording = recorded.unwrap_or_else(|wrong| panic!("{wrong}"));
    for filter in ["", "dns", "tls"] {
        assert_eq!(connections("ring:example", filter), connections(capture, filter), "{filter}");
    }
    recording.finish();
    let files: Vec<_> = std::fs::read_dir(dumps.path()).expect("a directory").flatten().collect();
    assert_eq!(files.len(), connections(capture, "dns"), "a file for each connection");
    assert!(!files.is_empty());
    for file in files {
        assert_eq!(connections(&file.path().to_string_lossy(), ""), 1, "{:?}", file.file_name());
    }
}
