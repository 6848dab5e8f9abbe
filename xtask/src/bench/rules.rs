//! Rules: `weir rules` next to Suricata, with the same rules and captures, on one thread.

use super::child::{Run, measure};
use super::{Options, Programs, progress, table, trace_file, warm};
use crate::shell::{Result, find, output, root, said};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const TITLE: &str = "Rules";

const TRACES: &[&str] = &["http", "https", "hostile"];

/// ET Open of March 2017: beside the project, no part of it.
const RULES: &str = "../shared/rules/et-open-2017.tar.gz";

/// The time and the memory of both programs without packets, and packets for each second of processor time.
pub fn table(options: &Options, programs: &Programs) -> Result<String> {
    let archive = root().join(RULES);
    if !archive.exists() {
        return Err(format!("{} is missing", archive.display()));
    }
    let folder = programs.scratch.join("et");
    std::fs::create_dir_all(&folder).map_err(said(folder.display()))?;
    output(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&folder)).map(drop)?;
    let rules = folder.join("rules");
    let (all, none) = (programs.scratch.join("all.rules"), programs.scratch.join("none.rules"));
    join(&rules, &all)?;
    std::fs::write(&none, "alert tcp 192.0.2.1 any -> 192.0.2.2 1 (msg:\"nothing\"; sid:1;)\n")
        .map_err(said(none.display()))?;
    let has_suricata = find("suricata").is_some();
    let mut text = format!(
        "\n### {TITLE}\n\nET Open of March 2017, 19 556 rules; one thread; processor time with reading and all other work. Start-up: over a capture with \
         one packet. Suricata 7 with its default configuration{}, `-k none --runmode single`.\n\n\
         | trace | rules | weir, k packets/s | Suricata, k packets/s | × | weir, MB | Suricata, MB |\n|---|---|--:|--:|--:|--:|--:|\n",
        if has_suricata { "" } else { " (not installed here)" }
    );
    let first = root().join("examples/bfd.pcap");
    for (name, file) in
        std::iter::once(("start-up", first)).chain(TRACES.iter().map(|name| (*name, trace_file(name))))
    {
        if !file.exists() {
            continue;
        }
        warm(&file)?;
        let packets = packets_of(&programs.weir, &file)?;
        for (what, rules) in [("one", &none), ("all", &all)] {
            let commands = [
                Some(weir(&programs.weir, &file, rules)),
                has_suricata.then(|| suricata(&file, rules, &programs.scratch)),
            ];
            let mut runs: [Vec<Run>; 2] = Default::default();
            for round in 0..options.runs {
                for (command, runs) in commands.iter().zip(&mut runs) {
                    let Some(command) = command else { continue };
                    progress(&format!("{TITLE} · {name} · {what} · {}", round + 1));
                    runs.push(measure(command, &programs.scratch, false)?);
                }
            }
            progress("");
            let of = |runs: &[Run], value: fn(&Run) -> f64| table::median(runs.iter().map(value));
            let rate = |runs: &[Run]| match name {
                "start-up" => format!("{:.2} s", of(runs, |run| run.busy_s)),
                _ => format!("{:.0}", packets / of(runs, |run| run.busy_s) / 1e3),
            };
            let peak = |runs: &[Run]| format!("{:.0}", of(runs, |run| run.peak_bytes as f64) / 1e6);
            let (other, other_peak, ratio) = match runs[1].is_empty() {
                true => ("–".into(), "–".into(), "–".into()),
                false => {
                    let ratio = of(&runs[1], |run| run.busy_s) / of(&runs[0], |run| run.busy_s);
                    (rate(&runs[1]), peak(&runs[1]), format!("{ratio:.1}"))
                }
            };
            let _ = writeln!(
                text,
                "| {name} | {what} | {} | {other} | {ratio} | {} | {other_peak} |",
                rate(&runs[0]),
                peak(&runs[0])
            );
        }
    }
    Ok(text)
}

/// All rules of a folder in one file: Suricata takes no folder.
fn join(folder: &Path, to: &Path) -> Result {
    let entries = std::fs::read_dir(folder).map_err(said(folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "rules"));
    files.sort();
    let mut all = vec![];
    for file in files {
        all.extend(std::fs::read(&file).map_err(said(file.display()))?);
        all.push(b'\n');
    }
    std::fs::write(to, all).map_err(said(to.display()))
}

fn packets_of(weir: &Path, file: &Path) -> Result<f64> {
    let count = output(Command::new(weir).args(["packets", "--count", "-r"]).arg(file))?;
    count.trim().parse().map_err(|_| format!("{}: `{count}` is no number", file.display()))
}

fn weir(weir: &Path, file: &Path, rules: &Path) -> Vec<String> {
    let [weir, file, rules] = [weir, file, rules].map(|path| path.display().to_string());
    ["rules", "-r", &file, "-S", &rules, "-j", "1", "--complete", "-q"].map(String::from).into_iter().fold(
        vec![weir],
        |mut words, word| {
            words.push(word);
            words
        },
    )
}

fn suricata(file: &Path, rules: &Path, scratch: &Path) -> Vec<String> {
    let [file, rules, scratch] = [file, rules, scratch].map(|path| path.display().to_string());
    ["suricata", "-r", &file, "-S", &rules, "-l", &scratch, "-k", "none", "--runmode", "single"]
        .map(String::from)
        .to_vec()
}
