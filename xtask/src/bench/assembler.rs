//! Rubik's data assembler (NSDI'21, section 7) over each stack: reassembles and counts all payload of both
//! directions on one core, with and without the optimiser.
//!
//! The traces are smaller than those of the other tables, so compilation is a considerable part of a run. The
//! table therefore also shows the time of packet processing alone: the run without all compilation steps.

use std::fmt::Write;
use std::path::Path;

use super::child::{self, Run};
use super::compile::{QUESTION, STEPS, steps};
use super::{Options, Programs, progress, table, warm};
use crate::shell::{Result, said};

pub const TITLE: &str = "Data assembler over each stack";

/// Stack and trace.
const CASES: &[(&str, &str)] = &[
    ("tcpip", "https"),
    ("tcpip", "http"),
    ("internet", "https"),
    ("internet", "http"),
    ("gtp", "gtp"),
    ("pptp", "pptp"),
    ("sctp", "sctp"),
    ("quic", "quic"),
];

/// The optimiser on and off.
const WAYS: [&[&str]; 2] = [&[], &["--without", "all"]];

/// The measurements of one variant.
#[derive(Default)]
struct Way {
    runs: Vec<Run>,
    compiling_s: Vec<f64>,
}

impl Way {
    /// Wall times of the runs, in order.
    fn wall_s(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.wall_s).collect()
    }

    /// Packet processing times of the runs.
    fn packets_s(&self) -> Vec<f64> {
        self.runs.iter().zip(&self.compiling_s).map(|(run, compiling_s)| run.wall_s - compiling_s).collect()
    }

    fn answer(&self) -> Option<u64> {
        self.runs.first().filter(|run| run.succeeded)?.answer
    }
}

/// The slowdown of `off`, as the median over rounds: both runs of a round see the same load of the machine.
fn ratio(on_s: &[f64], off_s: &[f64]) -> f64 {
    table::median(on_s.iter().zip(off_s).map(|(on_s, off_s)| off_s / on_s))
}

/// The table. Cases of unselected traces are omitted.
pub(super) fn table(options: &Options, programs: &Programs) -> Result<String> {
    let mut text = format!(
        "\n### {TITLE}\n\nThe example `assembler`: all payload in order, both directions, counted; `off` \
         is with `--without all`. Gbit/s of whole runs, and of packet processing without compilation; \
         `on / off` is the median over rounds.\n\n| stack, trace | MB | M packets | floor | on | off | \
         on / off | packets alone: on | off | on / off | MB in order \
         |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut differing = String::new();
    for (stack, trace) in CASES {
        if options.trace.as_ref().is_some_and(|wanted| wanted != trace) {
            continue;
        }
        let file = crate::traces::folder().join(format!("{trace}.pcap"));
        if !file.exists() {
            return Err(format!("bench/data/{trace}.pcap is missing: cargo xtask traces {trace}"));
        }
        warm(&file)?;
        let (floor, ways) = measure(stack, &file, options, programs)?;
        let bytes = std::fs::metadata(&file).map_err(said(file.display()))?.len() as f64;
        let gbits = |s: f64| bytes * 8.0 / s / 1e9;
        let [on, off] = &ways;
        let _ = write!(
            text,
            "| `{stack}`, {trace} | {:.0} | {:.2} | {:.1} |",
            bytes / 1e6,
            table::packets(&file)? as f64 / 1e6,
            gbits(table::median(floor.iter().map(|run| run.wall_s)))
        );
        let mut add = |on_s: Vec<f64>, off_s: Vec<f64>| {
            let rate = |s: &[f64]| gbits(table::median(s.iter().copied()));
            let _ = write!(text, " {:.1} | {:.1} | {:.2} |", rate(&on_s), rate(&off_s), ratio(&on_s, &off_s));
        };
        add(on.wall_s(), off.wall_s());
        add(on.packets_s(), off.packets_s());
        let in_order = on.answer().map_or("–".into(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
        let _ = writeln!(text, " {in_order} |");
        if on.answer().is_none() || on.answer() != off.answer() {
            let _ = writeln!(
                differing,
                "\n**The answers differ:** {stack}, {trace}: {:?}",
                ways.map(|w| w.answer())
            );
        }
    }
    Ok(text + &differing)
}

/// Runs floor, on and off, interleaved.
fn measure(stack: &str, file: &Path, options: &Options, programs: &Programs) -> Result<(Vec<Run>, [Way; 2])> {
    let mut floor = vec![];
    let mut ways: [Way; 2] = Default::default();
    let trace = file.display().to_string();
    for round in 0..options.runs {
        progress(&format!("{TITLE} · {stack} · {trace} · {}", round + 1));
        let words =
            |words: &[&str]| -> Vec<String> { words.iter().map(|w| programs.fill(w, file)).collect() };
        floor.push(child::measure(&words(&["{floor}", "{trace}"]), &programs.scratch, false)?);
        for (way, without) in ways.iter_mut().zip(WAYS) {
            let command = [&["{assembler}", "--stack", stack, "{trace}"], without].concat();
            way.runs.push(child::measure(&words(&command), &programs.scratch, true)?);
            let args = [&QUESTION, &["--stack", stack][..], without].concat();
            let taken: [f64; STEPS.len()] = steps(&programs.weir, &args, "", &[file])?;
            way.compiling_s.push(taken.iter().sum::<f64>() / 1e6);
        }
    }
    progress("");
    Ok((floor, ways))
}
