//! The costs of pipelines and of groups, and the sizes of packet vectors.

use super::{Options, Programs, warm};
use crate::shell::{Result, build_example_of, output, said};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

pub const TITLE: &str = "Pipelines";
pub const GROUPS_TITLE: &str = "Groups of aggregates";
pub const VECTORS_TITLE: &str = "Sizes of packet vectors";

/// Features as in Jetstream's grouped packet vectors.
const FEATURES: &str = "ts,len,flags,ip.id,seq";
/// The traces of the sizes.
const TRACES: &[&str] = &["https", "http", "udp64"];
/// Formats of rows with lists.
const FORMATS: &[&str] = &["packed", "parquet", "arrow", "json"];

/// Operators fused, queued and staged; rings and tables instead of others.
pub fn table(_: &Options, _: &Programs) -> Result<String> {
    let example = build_example_of("weir-pipeline", "pipeline_cost")?;
    let lines = output(&mut Command::new(example))?;
    Ok(format!(
        "\n### {TITLE}\n\nNanoseconds for each item, medians of interleaved rounds (the example `pipeline_cost`; Jetstream, TNSM'21, \
         section VIII). With a queue before each operator, each is a thread; this machine has fewer processors than \
         threads.\n\n{lines}"
    ))
}

/// The groups of aggregates, compared with maps of libraries.
pub fn groups(_: &Options, _: &Programs) -> Result<String> {
    let example = build_example_of("weir-aggregate", "record_cost")?;
    let lines = output(&mut Command::new(example))?;
    Ok(format!(
        "\n### {GROUPS_TITLE}\n\nCount and sum by a key of five words, with windows and bounds, next to maps of libraries without them \
         (the example `record_cost`).\n\n```\n{lines}```\n"
    ))
}

/// The bytes of a packet in records of groups, and in records of single packets.
pub fn vectors(_: &Options, programs: &Programs) -> Result<String> {
    let mut text = format!(
        "\n### {VECTORS_TITLE}\n\nBytes for each packet: the features `{FEATURES}` by 5-tuple, grouped (up to 1 024 packets of a flow \
         in a record), and as a record for each packet. Jetstream reports a ratio of 7.7.\n\n| trace | format | grouped | single \
         | × |\n|---|---|--:|--:|--:|\n"
    );
    for trace in TRACES {
        let file = super::trace_file(trace);
        if !file.exists() {
            return Err(format!("bench/data/{trace}.pcap is missing: cargo xtask traces {trace}"));
        }
        warm(&file)?;
        let packets = super::table::packets(&file)? as f64;
        for format in FORMATS {
            let grouped = bytes(programs, &file, format, "1024")? / packets;
            let single = bytes(programs, &file, format, "1")? / packets;
            let _ = writeln!(
                text,
                "| {trace} | {format} | {grouped:.1} | {single:.1} | {:.1} |",
                single / grouped
            );
        }
    }
    Ok(text)
}

/// The size of the records of a trace.
fn bytes(programs: &Programs, trace: &Path, format: &str, packets: &str) -> Result<f64> {
    let file = programs.scratch.join(format!("vectors.{format}"));
    let mut weir = Command::new(&programs.weir);
    weir.args([
        "records",
        "--key",
        "5tuple",
        "--features",
        FEATURES,
        "--packets",
        packets,
        "--format",
        format,
    ])
    .arg("-r")
    .arg(trace)
    .arg("-o")
    .arg(&file);
    output(&mut weir)?;
    let bytes = std::fs::metadata(&file).map_err(said(file.display()))?.len();
    std::fs::remove_file(&file).map_err(said(file.display()))?;
    Ok(bytes as f64)
}
