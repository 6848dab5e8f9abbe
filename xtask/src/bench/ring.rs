//! The ring of a recorder: the cost of a packet, and the time of a question about the past.

use super::{Options, Programs};
use crate::shell::{Result, build_example_of, output};
use std::process::Command;

pub const TITLE: &str = "Ring of a recorder";

/// Nanoseconds a packet, and seconds of a query.
pub fn table(_: &Options, _: &Programs) -> Result<String> {
    let example = build_example_of("weir-ring", "ring_bench")?;
    let costs = output(&mut Command::new(&example))?;
    let query = output(Command::new(&example).arg("query"))?;
    let spool = output(Command::new(&example).arg("spool").arg(crate::shell::target()?))?;
    Ok(format!(
        "\n### {TITLE}\n\nNanoseconds to write a packet, with the index, next to `memcpy` of its bytes alone, medians (the example \
         `ring_bench`). 64-byte packets have 40 bytes of a pcapng block and of the index each.\n\n| packets | flows | writers | ring \
         | memcpy | × |\n|---|--:|--:|--:|--:|--:|\n{costs}\nA hundredth of the packets, those of some flows, is found by the index and \
         written to a file while a writer goes on.\n\n| ring | written in all | found | time |\n|---|--:|--:|--:|\n{query}\n\
         Megabytes a second that a spool writes to the disk, next to `dd oflag=direct`.\n\n| spool | dd | × |\n|--:|--:|--:|\n{spool}"
    ))
}
