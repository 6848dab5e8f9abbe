//! `weir stats`: what a capture consists of.

use super::ask;
use crate::args::Ask;
use crate::failure::Failure;
use std::process::ExitCode;
use weir::packet::{Column, Value, ValueType};
use weir::{Item, Shape, Stats, Want, stats_need};

const COLUMNS: &[Column] = &[
    Column::new("section", ValueType::Text, "what the row counts"),
    Column::new("name", ValueType::Text, "of what"),
    Column::new("packets", ValueType::Unsigned, "packets"),
    Column::new("bytes", ValueType::Unsigned, "bytes on the wire"),
    Column::new("share", ValueType::Text, "share of all bytes"),
];

/// Paths and hosts listed at most.
const TOP: usize = 10;

pub fn run(args: &Ask) -> Result<ExitCode, Failure> {
    let question = ask::compile(args, stats_need(), Want::Packets)?;
    let mut stats = Stats::default();
    let (outcome, status) = question.run(Shape::default(), &mut |item| {
        if let Item::Packet { meta, path, .. } = item {
            stats.packet(&meta, path);
        }
        Ok(())
    })?;
    let flows = ask::compile(args, weir::Need::default(), Want::Connections)?;
    if !args.input.read.iter().any(|p| p.as_os_str() == "-") {
        flows.run(Shape::default(), &mut |item| {
            if let Item::Connection(connection) = item {
                stats.connection(&connection);
            }
            Ok(())
        })?;
    }
    let stack = &question.compiled.stack;
    let mut sink = crate::output::sink(&args.output)?;
    sink.begin(COLUMNS)?;
    let all = stats.wire_bytes.max(1) as f64;
    let mut row = |section: &str, name: String, packets: u64, bytes: u64| {
        let share = format!("{:.2} %", bytes as f64 * 100.0 / all);
        sink.row(&[
            Value::Text(section.to_string().into()),
            Value::Text(name.into()),
            Value::Unsigned(packets),
            Value::Unsigned(bytes),
            Value::Text(share.into()),
        ])
    };
    row("all", "wire".into(), stats.packets, stats.wire_bytes)?;
    row("all", "captured".into(), stats.packets, stats.captured_bytes)?;
    if let (Some(first), Some(last)) = (stats.first, stats.last) {
        let seconds = last.since_ns(first) as f64 / 1e9;
        row("time", format!("{first} to {last} ({seconds:.6} s)"), stats.packets, stats.wire_bytes)?;
    }
    for (name, packets, bytes) in stats.by_layer(stack) {
        row("layer", name, packets, bytes)?;
    }
    let mut paths: Vec<_> = stats.paths.iter().collect();
    paths.sort_by_key(|(path, count)| (std::cmp::Reverse(count.1), **path));
    for (path, (packets, bytes)) in paths.into_iter().take(TOP) {
        row("path", Stats::path_name(stack, *path), *packets, *bytes)?;
    }
    let mut hosts: Vec<_> = stats.hosts.iter().collect();
    hosts.sort_by_key(|(host, c)| (std::cmp::Reverse(c[1] + c[3]), **host));
    for (host, c) in hosts.into_iter().take(TOP) {
        row("talker", host.to_string(), c[0] + c[2], c[1] + c[3])?;
    }
    for (reason, count) in outcome.counters.met.iter() {
        row("drop", reason.label().to_string(), count, 0)?;
    }
    sink.end()?;
    Ok(status)
}
