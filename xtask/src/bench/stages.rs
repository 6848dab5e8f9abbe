//! The time per stage of a run, and the cost of adding and removing questions, from `--stats`.

use super::table::median;
use crate::shell::{Result, said};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub const FUNNEL_TITLE: &str = "The funnel";
pub const SWAPS_TITLE: &str = "Questions that come and go";

/// Number of runs of each question.
const RUNS: usize = 5;
/// Commands and traces.
const QUESTIONS: &[(&str, &str)] = &[("flows", "https"), ("tls", "https"), ("http", "http"), ("dns", "dns")];
/// The stages in `--stats`, in their order.
const STAGES: [&str; 6] = ["read", "head", "tail", "sessions", "expire", "output"];
/// Number of questions that are added and removed.
const SWAPS: usize = 11;
/// Bytes before a capture file's first record.
const FILE_HEADER_BYTES: usize = 24;

/// The input of a stage: its number and unit, percent of packets, percent of cycles, cycles per item.
struct Share {
    what: String,
    packets: f64,
    cycles: f64,
    each: f64,
}

/// Shares of packets and cycles, by stage.
pub fn funnel(weir: &Path, _: &Path) -> Result<String> {
    let mut text = format!(
        "\n### {FUNNEL_TITLE}\n\nThe share of the traffic that reaches each stage of a run, and its cost \
         (`--stats`; Retina, SIGCOMM'22, figure 7); one worker, medians of {RUNS} runs. Percent are of \
         packets, and of the cycles of the run after compilation; `read` includes the kernel's \
         copying.\n\n| | | comes to it | % of packets | % of cycles | cycles each \
         |\n|---|---|--:|--:|--:|--:|\n"
    );
    for (command, trace) in QUESTIONS {
        let file = trace_file(trace)?;
        let mut runs: Vec<Vec<Share>> = vec![];
        for _ in 0..RUNS {
            let mut run = Command::new(weir);
            run.args([command, "-j", "1", "--stats", "-o", "/dev/null", "-r"]).arg(&file);
            let report = run.output().map_err(said(weir.display()))?.stderr;
            let report = String::from_utf8_lossy(&report);
            let stages: Option<Vec<Share>> = STAGES.iter().map(|stage| share(&report, stage)).collect();
            runs.push(stages.ok_or(format!("weir {command}: --stats does not name all stages"))?);
        }
        for (index, stage) in STAGES.iter().enumerate() {
            let of = |value: fn(&Share) -> f64| median(runs.iter().map(|run| value(&run[index])));
            let name = if index == 0 { format!("{command}, {trace}") } else { String::new() };
            let _ = writeln!(
                text,
                "| {name} | {stage} | {} | {:.2} | {:.1} | {:.0} |",
                runs[0][index].what,
                of(|share| share.packets),
                of(|share| share.cycles),
                of(|share| share.each)
            );
        }
    }
    Ok(text)
}

/// Parses a line such as `tail 740088 packets (100.00 % of packets), 169674641 cycles, 13.5 %, 229.3 each`.
fn share(report: &str, stage: &str) -> Option<Share> {
    let line = report.lines().find(|line| line.split_whitespace().next() == Some(stage))?;
    let (what, rest) = line.strip_prefix(stage)?.split_once('(')?;
    let (packets, rest) = rest.split_once(" %")?;
    let mut parts = rest.split(", ").skip(2);
    let cycles = parts.next()?.strip_suffix(" %")?.parse().ok()?;
    let each = parts.next()?.trim().strip_suffix(" each")?.parse().ok()?;
    Some(Share { what: what.trim().to_string(), packets: packets.parse().ok()?, cycles, each })
}

fn trace_file(trace: &str) -> Result<PathBuf> {
    let file = crate::traces::folder().join(format!("{trace}.pcap"));
    if file.exists() {
        return Ok(file);
    }
    Err(format!("bench/data/{trace}.pcap is missing: cargo xtask traces {trace}, as root"))
}

/// The time until an added question is answered, under traffic.
pub fn swaps(weir: &Path, scratch: &Path) -> Result<String> {
    let mut text = format!(
        "\n### {SWAPS_TITLE}\n\n`weir ctl add` and `remove` while `weir run` answers another question and \
         reads without a pause: milliseconds from the start of `weir ctl` to its end, by when the new \
         program runs; most of it is compiling beside the run. The last column is the longest pause of \
         the reading thread for the change; no packet was lost. Medians of {SWAPS}.\n\n| trace, over and \
         over | asked | added | add | remove | longest standstill |\n|---|---|---|--:|--:|--:|\n"
    );
    for (trace, asked, added) in [("https", "flows", "tls"), ("http", "tls", "http"), ("dns", "flows", "dns")]
    {
        let (times, standstill) = swap(weir, scratch, &trace_file(trace)?, asked, added)?;
        let of = |index: usize| median(times.iter().map(|pair: &[f64; 2]| pair[index]));
        let _ =
            writeln!(text, "| {trace} | {asked} | {added} | {:.1} | {:.1} | {standstill} |", of(0), of(1));
    }
    Ok(text)
}

/// Milliseconds of each addition and removal, and the longest pause in `--stats`.
fn swap(
    weir: &Path,
    scratch: &Path,
    trace: &Path,
    asked: &str,
    added: &str,
) -> Result<(Vec<[f64; 2]>, String)> {
    let socket = scratch.join("swaps.sock");
    let questions = scratch.join("swaps.toml");
    let text = format!("[[question]]\nname = \"first\"\nask = \"{asked}\"\noutput = \"/dev/null\"\n");
    std::fs::write(&questions, text).map_err(said(questions.display()))?;
    let mut run = Command::new(weir);
    run.arg("run").arg(&questions).args(["-r", "-", "-j", "1", "--stats", "--control"]).arg(&socket);
    run.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = run.spawn().map_err(said(weir.display()))?;
    let is_over = Arc::new(AtomicBool::new(false));
    let feeder = feed(&mut child, trace, Arc::clone(&is_over))?;
    let times = (0..SWAPS).map(|_| one_swap(weir, &socket, added)).collect::<Result<Vec<_>>>();
    is_over.store(true, Ordering::Relaxed);
    feeder.join().map_err(|_| "the thread that feeds the run panicked")?;
    let report = child.wait_with_output().map_err(said(weir.display()))?.stderr;
    let report = String::from_utf8_lossy(&report);
    let line = report.lines().find(|line| line.starts_with("swaps ")).ok_or("--stats shows no swaps")?;
    let standstill = line.split_once("slowest took ").and_then(|(_, rest)| rest.split_once(" ms"));
    let (standstill, _) = standstill.ok_or(format!("a line that was not expected: {line}"))?;
    Ok((times?, standstill.to_string()))
}

/// Writes the trace to the run repeatedly until the measurement is over.
fn feed(child: &mut Child, trace: &Path, is_over: Arc<AtomicBool>) -> Result<std::thread::JoinHandle<()>> {
    let bytes = std::fs::read(trace).map_err(said(trace.display()))?;
    let mut pipe = child.stdin.take().ok_or("the run has no standard input")?;
    Ok(std::thread::spawn(move || {
        let (head, records) = bytes.split_at(FILE_HEADER_BYTES);
        let _ = pipe.write_all(head);
        // Ends after a complete record, so that the run reads a valid file.
        while !is_over.load(Ordering::Relaxed) && pipe.write_all(records).is_ok() {}
    }))
}

fn one_swap(weir: &Path, socket: &Path, added: &str) -> Result<[f64; 2]> {
    let ctl = |args: &[&str]| -> Result<f64> {
        let start = Instant::now();
        let mut command = Command::new(weir);
        crate::shell::output(command.arg("ctl").arg(socket).args(args))?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    // The socket is created shortly after the start of the run.
    let begun = Instant::now();
    while !socket.exists() && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok([ctl(&["add", "second", added, "-o", "/dev/null"])?, ctl(&["remove", "second"])?])
}
