//! The system refuses memory while a run holds more and more.

use crate::cli::{scratch, text};
use std::process::Command;
use weir_testing::frames::{ACK, PSH, ethernet, ipv4, pcap, tcp};

/// A capture with this number of connections, each of which has one HTTP request and no answer.
fn unanswered(connections: u32) -> Vec<u8> {
    let head = [b"GET /".as_slice(), &[b'a'; 3000], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    let frame = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        let segment = tcp((40_000, 80), 1, 1, ACK | PSH, &[], &head);
        ethernet(0x0800, &ipv4(([10, a, b, c], [192, 168, 0, 1]), 6, 0, 0, &[], &segment))
    };
    pcap(&(0..connections).map(frame).collect::<Vec<_>>())
}

/// Each limit is reached elsewhere: while the program reads, at the end, never. Lower limits than these leave
/// no room for the stacks of threads.
#[test]
fn refused_memory_ends_the_run_in_order() {
    let file = scratch("shortage.pcap");
    std::fs::write(&file, unanswered(40_000)).unwrap();
    let rows = scratch("shortage.json");
    let mut ends = [0, 0];
    let mut rows_max = 0;
    for limit_kib in (220_000..400_000).step_by(40_000) {
        let script = "ulimit -d $0; exec \"$@\"";
        let output = Command::new("sh")
            .args([
                "-c",
                script,
                &limit_kib.to_string(),
                env!("CARGO_BIN_EXE_weir"),
                "http",
                "--memory",
                "1G",
            ])
            .arg(&file)
            .args(["--format", "json", "-o"])
            .arg(&rows)
            .output()
            .expect("a shell");
        let said = text(&output.stderr);
        match output.status.code() {
            Some(0) => ends[0] += 1,
            Some(2) if said.contains("the system refused a request") => {
                assert!(said.contains("a smaller --memory"), "{said}");
                ends[1] += 1;
                let rows = std::fs::read_to_string(&rows).unwrap();
                rows_max = rows_max.max(rows.lines().count());
                assert!(rows.lines().all(|row| row.starts_with('{') && row.ends_with('}')), "whole rows");
            }
            code => panic!("{limit_kib} KiB: {code:?}: {said}"),
        }
    }
    assert!(ends.iter().all(|count| *count > 0), "{ends:?}");
    assert!(rows_max > 0, "what was read is processed");
}
