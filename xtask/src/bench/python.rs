//! The flows of a trace as a table of pandas: the Python package, and other packages of Python.

use super::child::{self, Run};
use super::{Options, Programs, SLOW_S, progress, trace_file, warm};
use crate::python;
use crate::shell::{Result, find, output, read, root, said};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

pub const TITLE: &str = "Python: flows as a table of pandas";

const TRACES: &[&str] = &["https", "http"];

/// Packages of the other programs, from PyPI.
const PEERS: &[&str] = &["nfstream", "scapy", "dpkt", "pcaptoparquet", "pandas", "pyarrow"];

/// Names in the table, and in `bench/python/flows.py`; whether the interpreter is that of the package.
const ROWS: &[(&str, &str, bool)] = &[
    ("weir, to pandas", "weir", true),
    ("weir, rows as objects", "weir_rows", true),
    ("NFStream", "nfstream", false),
    ("tshark → CSV → pandas", "tshark", false),
    ("dpkt", "dpkt", false),
    ("pcaptoparquet → pandas", "pcaptoparquet", false),
    ("scapy", "scapy", false),
];

/// The table, and where the time of the package goes.
pub fn table(options: &Options, programs: &Programs) -> Result<String> {
    let own = python::with_package()?;
    let peers = python::environment("python-bench", PEERS)?;
    let script = root().join("bench/python/flows.py");
    let mut text = format!(
        "\n### {TITLE}\n\nWhole processes; `× weir` is without imports. NFStream and Weir know connections; the others group packets by their 5-tuple, \
         and dpkt and scapy count in a dictionary (`bench/python/flows.py`). Numbers of rows differ with the rules for the end of a connection.\n\n\
         | trace | | s | without imports, s | × weir | peak MB | rows |\n|---|---|--:|--:|--:|--:|--:|\n"
    );
    let mut parts = String::new();
    for trace in TRACES {
        let file = trace_file(trace);
        if !file.exists() {
            return Err(format!("bench/data/{trace}.pcap is missing: cargo xtask traces {trace}"));
        }
        warm(&file)?;
        let command = |program: &str, is_own: bool| -> Vec<String> {
            let (path, python) = match is_own {
                true => (own.1.display().to_string(), &own.0),
                false => (String::new(), &peers),
            };
            let words = [python.as_path(), &script, Path::new(program), &file];
            let words = words.map(|word| word.display().to_string());
            ["env".into(), format!("PYTHONPATH={path}")].into_iter().chain(words).collect()
        };
        let mut all: Vec<Vec<(Run, f64)>> = vec![vec![]; ROWS.len()];
        for round in 0..options.runs {
            for ((name, program, is_own), runs) in ROWS.iter().zip(&mut all) {
                if runs.first().is_some_and(|(first, _)| first.wall_s > SLOW_S || !first.succeeded)
                    || *program == "tshark" && find("tshark").is_none()
                {
                    continue;
                }
                progress(&format!("{TITLE} · {trace} · {} · {name}", round + 1));
                let run = child::measure(&command(program, *is_own), &programs.scratch, true)?;
                let said = read(programs.scratch.join("stdout"))?;
                let seconds = said.split_whitespace().nth(1).and_then(|word| word.parse().ok());
                runs.push((run, seconds.unwrap_or(f64::NAN)));
            }
        }
        progress("");
        let median =
            |runs: &[(Run, f64)], of: fn(&(Run, f64)) -> f64| super::table::median(runs.iter().map(of));
        let weir_s = median(&all[0], |(_, seconds)| *seconds);
        for ((name, ..), runs) in ROWS.iter().zip(&all).filter(|(_, runs)| !runs.is_empty()) {
            let (wall_s, peak) =
                (median(runs, |(run, _)| run.wall_s), median(runs, |(run, _)| run.peak_bytes as f64));
            let rows =
                runs.first().and_then(|(run, _)| run.answer).map_or("–".into(), |rows| rows.to_string());
            let remark = match (runs.iter().any(|(run, _)| !run.succeeded), runs.len()) {
                (true, _) => " (fails)",
                (false, 1) => " (one run)",
                _ => "",
            };
            let own_s = median(runs, |(_, seconds)| *seconds);
            let (times, megabytes) = (own_s / weir_s, peak / 1e6);
            writeln!(
                text,
                "| {trace} | {name}{remark} | {wall_s:.2} | {own_s:.2} | {times:.1} | {megabytes:.0} | {rows} |"
            )
            .map_err(said(TITLE))?;
        }
        let mut words = command("weir_parts", true).into_iter();
        let said = output(Command::new(words.next().unwrap_or_default()).args(words))?;
        parts += &format!("{trace}: {}\n", said.trim());
    }
    Ok(format!(
        "{text}\nSeconds of one run of *weir, to pandas*: importing the packages, reading the capture into Arrow (the engine, and the waiting \
         reader), and converting Arrow to pandas.\n\n```\n{parts}```\n"
    ))
}
