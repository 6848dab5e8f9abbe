//! Memory under attack: the peak memory of whole processes over hostile traffic at two budgets, and their
//! speed. The generator of the traffic is not part of the project (`../shared/attack/gen.c`); without it, the
//! table is not measured. `weir-cli/tests/all/memory.rs` has smaller attacks of its own.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use super::child::{self, Run};
use super::progress;
use crate::shell::{Result, output, root, said};

pub const TITLE: &str = "Memory under attack";

/// The generator's kind, its arguments, and the commands that run over the traffic.
type Attack = (&'static str, &'static [&'static str], &'static [&'static [&'static str]]);

const SESSIONS: &[&[&str]] = &[&["sessions"]];
const BYTES: &[&[&str]] = &[&["sessions"], &["streams", "--count"]];
const ALL: &[&[&str]] =
    &[&["sessions"], &["streams", "--count"], &["flows", "--count"], &["packets", "--count"]];

/// The first one is harmless traffic, for comparison. Without bounds, the larger ones would need more than
/// the larger budget.
const ATTACKS: &[Attack] = &[
    ("benign", &["90000"], BYTES),
    ("syn", &["10000000"], ALL),
    ("udprand", &["8000000"], BYTES),
    ("half", &["4000000"], ALL),
    ("frag", &["6000000"], ALL),
    ("fragtiny", &["2000000"], BYTES),
    ("bigwin", &["25000", "100000"], BYTES),
    ("httphead", &["40000", "60000"], SESSIONS),
    ("h2head", &["40000", "60000"], SESSIONS),
    ("h2table", &["20000"], SESSIONS),
    ("h2amp", &["20000", "66"], SESSIONS),
    ("h2amp", &["100", "2000"], SESSIONS),
    ("tlshold", &["100000", "16000"], SESSIONS),
    ("sshhold", &["40000", "60000"], SESSIONS),
    ("redis", &["20000"], SESSIONS),
    ("dnspend", &["1000000"], SESSIONS),
    ("httppipe", &["500000"], SESSIONS),
    ("vlan", &["1000"], BYTES),
    ("vxlan", &["4000"], BYTES),
    ("rtpssrc", &["1000000"], SESSIONS),
];

/// Budgets, as `--memory` takes them, with their bytes.
const BUDGETS: [(&str, u64); 2] = [("256M", 256 << 20), ("2G", 2 << 30)];

/// The peak that a budget allows, in tenths of the budget.
const ALLOWED_TENTHS: u64 = 12;

/// One attack, one command, one budget.
struct Measured {
    run: Run,
    written_bytes: u64,
}

/// The table. `None` without the generator, or without a compiler for it.
pub fn table(weir: &Path, scratch: &Path) -> Result<Option<String>> {
    let (source, generator) = (root().join("../shared/attack/gen.c"), scratch.join("attack"));
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-w", "-o"]).arg(&generator).arg(&source);
    if !source.is_file() || output(&mut cc).is_err() {
        return Ok(None);
    }
    let mut table = format!(
        "\n### {TITLE}\n\nPeak memory of the process, processor time for each captured byte, and bytes written for each captured \
         byte, at two budgets. A peak above {}.{} times the budget is marked with `!`.\n\n\
         | traffic | captured | command | peak at 256M | peak at 2G | rate at 2G | written |\n|---|---|---|---|---|---|---|\n",
        ALLOWED_TENTHS / 10,
        ALLOWED_TENTHS % 10
    );
    for (kind, args, commands) in ATTACKS {
        let name = format!("{kind} {}", args.join(" "));
        progress(&name);
        let capture = scratch.join("attack.pcap");
        let file = File::create(&capture).map_err(said(capture.display()))?;
        let mut generate = Command::new(&generator);
        generate.arg(kind).args(*args).stdout(Stdio::from(file));
        if !generate.status().map_err(said(generator.display()))?.success() {
            return Err(format!("{name}: the generator failed"));
        }
        let captured_bytes = fs::metadata(&capture).map_err(said(capture.display()))?.len();
        for command in *commands {
            let mut peaks = vec![];
            let mut last = None;
            for (budget, budget_bytes) in BUDGETS {
                let measured = measure(weir, command, &capture, budget, scratch)?;
                let is_over = measured.run.peak_bytes * 10 > budget_bytes * ALLOWED_TENTHS;
                let mark = if is_over || !measured.run.succeeded { " !" } else { "" };
                peaks.push(format!("{} MB{mark}", measured.run.peak_bytes >> 20));
                last = Some(measured);
            }
            let Some(Measured { run, written_bytes }) = last else { continue };
            let rate = captured_bytes as f64 / run.busy_s / 1e6;
            writeln!(
                table,
                "| {name} | {} MB | `{}` | {} | {rate:.0} MB/s | {:.1} B/B |",
                captured_bytes >> 20,
                command.join(" "),
                peaks.join(" | "),
                written_bytes as f64 / captured_bytes as f64
            )
            .map_err(said(TITLE))?;
        }
        fs::remove_file(&capture).map_err(said(capture.display()))?;
    }
    Ok(Some(table))
}

/// Rows are written to a file and counted.
fn measure(weir: &Path, command: &[&str], capture: &Path, budget: &str, scratch: &Path) -> Result<Measured> {
    let rows = scratch.join("rows");
    let mut words = vec![weir.display().to_string()];
    words.extend(command.iter().map(ToString::to_string));
    words.extend(["-r".into(), capture.display().to_string(), "--memory".into(), budget.into()]);
    if !command.contains(&"--count") {
        words.extend(["--format".into(), "json".into(), "-o".into(), rows.display().to_string()]);
    }
    let run = child::measure(&words, scratch, false)?;
    let written_bytes = fs::metadata(&rows).map_or(0, |rows| rows.len());
    let _ = fs::remove_file(&rows);
    Ok(Measured { run, written_bytes })
}
