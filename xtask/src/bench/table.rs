//! Medians as Markdown, and their place in `docs/benchmarks.md`.

use std::path::Path;

use super::Measured;
use super::cases::{BASE, FLOW_TRACE, Question};
use super::child::Run;
use crate::shell::{Result, output, read, said, write};

const BEGIN: &str = "<!-- tables: cargo xtask bench -->";
const END: &str = "<!-- end of tables -->";

/// One question over one trace.
pub fn print(question: &Question, trace: &str, file: &Path, results: &[Measured]) -> Result<String> {
    let bytes = std::fs::metadata(file).map_err(said(file.display()))?.len();
    let wall = |name: &str| {
        let first = results.iter().find(|r| r.row.name.starts_with(name) && r.row.name != BASE)?;
        Some(median(first, |m| m.wall_s))
    };
    let (floor, weir) = (wall("floor"), wall("weir"));
    let packets = packets(file)?;
    let with_flows = trace == FLOW_TRACE.0 && results.iter().any(|r| r.row.name == BASE);
    let mut text = format!(
        "\n### {}: {trace}, {} MB, {:.2} M packets\n\n{}\n\n\
         | | s | × floor | × weir | Gbit/s | Mpps | peak MB |{}\n|---|--:|--:|--:|--:|--:|--:|{}\n",
        question.title,
        bytes / 1_000_000,
        packets as f64 / 1e6,
        question.note,
        if with_flows { " bytes per flow |" } else { "" },
        if with_flows { "--:|" } else { "" },
    );
    let ratio = |s: f64, of: Option<f64>| of.map_or("–".into(), |of| format!("{:.2}", s / of));
    let base = results.iter().find(|r| r.row.name == BASE).map(|r| median(r, |m| m.peak_bytes as f64));
    for result in results {
        let s = median(result, |m| m.wall_s);
        let peak = median(result, |m| m.peak_bytes as f64);
        text += &format!(
            "| {}{} | {s:.3} | {} | {} | {:.1} | {:.1} | {:.0} |",
            result.row.name,
            remarks(result),
            ratio(s, floor),
            ratio(s, weir),
            bytes as f64 * 8.0 / s / 1e9,
            packets as f64 / s / 1e6,
            peak / 1e6
        );
        if with_flows {
            let flows = FLOW_TRACE.1 * packets as f64 / 10e6;
            text += &match base {
                Some(base) if result.row.name.starts_with("weir flows") => {
                    format!(" {:.0} |", (peak - base).max(0.0) / flows)
                }
                _ => " |".into(),
            };
        }
        text.push('\n');
    }
    text += &disagreement(results);
    Ok(text)
}

fn remarks(result: &Measured) -> String {
    let mut remarks = String::new();
    if result.runs.iter().any(|r| !r.succeeded) {
        remarks += " (fails)";
    }
    if result.runs.len() == 1 {
        remarks += " (one run)";
    }
    let (wall, busy) = (median(result, |m| m.wall_s), median(result, |m| m.busy_s));
    if busy > 1.2 * wall {
        remarks += &format!(" ({:.1} cores)", busy / wall);
    }
    remarks
}

/// A faster wrong answer is no answer: say so under the table.
fn disagreement(results: &[Measured]) -> String {
    let answers: Vec<_> = results
        .iter()
        .filter(|r| r.row.says)
        .map(|r| (r.row.name, r.runs.first().and_then(|m| m.answer)))
        .collect();
    match answers.split_first() {
        Some((first, rest)) if rest.iter().any(|a| a.1 != first.1) => {
            let list: Vec<_> = answers.iter().map(|a| format!("{} {:?}", a.0, a.1)).collect();
            format!("\n**The answers differ:** {}\n", list.join(", "))
        }
        Some(((_, Some(answer)), _)) => format!("\nAll answer {answer}.\n"),
        _ => String::new(),
    }
}

fn median(result: &Measured, value: impl Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = result.runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Walks the records of a little-endian pcap file, as our own traces are.
fn packets(file: &Path) -> Result<u64> {
    use std::io::{BufReader, Read};
    let open = std::fs::File::open(file).map_err(said(file.display()))?;
    let mut records = BufReader::with_capacity(1 << 20, open);
    records.seek_relative(24).map_err(said(file.display()))?;
    let (mut count, mut head) = (0, [0u8; 16]);
    while records.read_exact(&mut head).is_ok() {
        let captured = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        records.seek_relative(i64::from(captured)).map_err(said(file.display()))?;
        count += 1;
    }
    Ok(count)
}

/// What the numbers depend on.
pub fn machine() -> Result<String> {
    let cpu = read("/proc/cpuinfo")?
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|m| m.1.to_string()))
        .unwrap_or_else(|| "an unknown processor".into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let shell = |script: &str| output(std::process::Command::new("sh").args(["-c", script]));
    let (date, kernel) = (shell("date -u +%F")?, shell("uname -sr")?);
    Ok(format!(
        "Measured on {} on {cores} cores of {cpu}, {}, page cache warm, medians of interleaved runs of whole \
         processes.\n`× floor` is against reading the file in 1 MiB blocks and walking its records (`bench/floor.c`), \
         `× weir` against\nthe first line of weir's.\n",
        date.trim(),
        kernel.trim()
    ))
}

/// Puts the tables between the two marks of the page.
pub fn publish(page: &Path, tables: &str) -> Result {
    let old = read(page)?;
    let (head, rest) = old.split_once(BEGIN).ok_or(format!("{} has no line {BEGIN}", page.display()))?;
    let (_, tail) = rest.split_once(END).ok_or(format!("{} has no line {END}", page.display()))?;
    write(page, format!("{head}{BEGIN}\n\n{tables}\n{END}{tail}"))
}
