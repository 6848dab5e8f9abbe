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
        Some(median_of(first, |m| m.wall_s))
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
    let base = results.iter().find(|r| r.row.name == BASE).map(|r| median_of(r, |m| m.peak_bytes as f64));
    for result in results {
        let s = median_of(result, |m| m.wall_s);
        let peak = median_of(result, |m| m.peak_bytes as f64);
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
    let (wall, busy) = (median_of(result, |m| m.wall_s), median_of(result, |m| m.busy_s));
    if busy > 1.2 * wall {
        remarks += &format!(" ({:.1} cores)", busy / wall);
    }
    remarks
}

/// Reports programs whose results differ, under the table: a fast wrong result is worthless.
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

fn median_of(result: &Measured, value: impl Fn(&Run) -> f64) -> f64 {
    median(result.runs.iter().map(value))
}

pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Counts the records of a little-endian pcap file, the format of our traces.
pub fn packets(file: &Path) -> Result<u64> {
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

/// The machine's description.
pub fn machine() -> Result<String> {
    Ok(format!(
        "{}\n`× floor` is against reading the file in 1 MiB blocks and walking its records (`bench/floor.c`), \
         `× weir` against\nthe first line of weir's.\n",
        measured()?
    ))
}

/// Date and machine of the measurement.
pub fn measured() -> Result<String> {
    let cpu = read("/proc/cpuinfo")?
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|m| m.1.to_string()))
        .unwrap_or_else(|| "an unknown processor".into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let shell = |script: &str| output(std::process::Command::new("sh").args(["-c", script]));
    let (date, kernel) = (shell("date -u +%F")?, shell("uname -sr")?);
    Ok(format!(
        "Measured on {} on {cores} cores of {cpu}, {}, page cache warm. Medians of interleaved runs of whole \
         processes, unless a table says otherwise.",
        date.trim(),
        kernel.trim()
    ))
}

/// Replaces the tables between the two marks of the page.
pub fn publish(page: &Path, tables: &str) -> Result {
    let (head, _, tail) = parts(page)?;
    write(page, format!("{head}{BEGIN}\n\n{tables}\n{END}{tail}"))
}

/// Replaces the tables with these titles, or appends new ones. Each has its own measurement line, because the
/// one above all tables applies to the others.
pub fn publish_some(page: &Path, tables: &str) -> Result {
    let (head, old, tail) = parts(page)?;
    let measured = measured()?;
    let dated = |section: &str| match section.split_once("\n\n") {
        Some((title, rest)) if title.starts_with(SECTION) => format!("{title}\n\n{measured}\n\n{rest}"),
        _ => section.to_string(),
    };
    let new: String = sections(tables).map(dated).collect();
    write(page, format!("{head}{BEGIN}{}{END}{tail}", replace(&old, &new)))
}

/// The parts of a page: before the marks, between them, and after.
fn parts(page: &Path) -> Result<(String, String, String)> {
    let text = read(page)?;
    let (head, rest) = text.split_once(BEGIN).ok_or(format!("{} has no line {BEGIN}", page.display()))?;
    let (tables, tail) = rest.split_once(END).ok_or(format!("{} has no line {END}", page.display()))?;
    Ok((head.into(), tables.into(), tail.into()))
}

const SECTION: &str = "### ";

/// Splits tables at their titles.
fn sections(tables: &str) -> impl Iterator<Item = &str> {
    let begins_line = |at: &usize| *at == 0 || tables[..*at].ends_with('\n');
    let starts = tables.match_indices(SECTION).map(|(at, _)| at).filter(begins_line);
    let starts: Vec<usize> = starts.chain([tables.len()]).collect();
    (1..starts.len()).map(move |end| &tables[starts[end - 1]..starts[end]])
}

/// A title without the trace's size, which follows the comma.
fn title(section: &str) -> &str {
    section.split([',', '\n']).next().unwrap_or(section)
}

fn replace(old: &str, new: &str) -> String {
    let mut text = old.trim_end().to_string();
    for section in sections(new) {
        let before = sections(&text).find(|at| title(at) == title(section)).map(str::to_string);
        text = match before {
            Some(before) => text.replace(before.trim_end(), section.trim_end()),
            None => format!("{text}\n\n{}", section.trim_end()),
        };
    }
    text + "\n\n"
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn tables_are_replaced_by_title_and_the_others_stay() {
        let old = "\n\nMeasured.\n\n### One: x, 5 MB\n\nold\n\n### Two\n\nstays\n\n";
        let new = "### One: x, 6 MB\n\nnew\n\n### Three\n\nadded\n";
        let want = "\n\nMeasured.\n\n### One: x, 6 MB\n\nnew\n\n### Two\n\nstays\n\n### Three\n\nadded\n\n";
        assert_eq!(replace(old, new), want);
    }
}
