//! Rules: `weir rules` next to Suricata, with the same rules and captures, on one thread.

use super::child::{Run, measure};
use super::{Options, Programs, progress, table, trace_file, warm};
use crate::shell::{Result, find, output, root, said};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const TITLE: &str = "Rules";

const TRACES: &[&str] = &["http", "https", "hostile", MERGE];

/// A run over one packet.
const START_UP: &str = "start-up";

/// All captures of [`CAPTURES`] in one.
const MERGE: &str = "merge";

/// ET Open of March 2017 and captures of others: beside the project, no part of it.
const RULES: &str = "../shared/rules/et-open-2017.tar.gz";
const CAPTURES: &str = "../shared/traces";

/// Rules about TCP and HTTP, as many as Rubik's paper gives to Snort (NSDI'21, section 7.3).
const RUBIK_RULES: usize = 2_800;

/// The time and the memory of both programs without packets, and packets for each second of processor time.
pub fn table(options: &Options, programs: &Programs) -> Result<String> {
    let archive = root().join(RULES);
    if !archive.exists() {
        return Err(format!("{} is missing", archive.display()));
    }
    let folder = programs.scratch.join("et");
    std::fs::create_dir_all(&folder).map_err(said(folder.display()))?;
    output(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&folder)).map(drop)?;
    let sets = sets(&folder.join("rules"), &programs.scratch)?;
    let has_suricata = find("suricata").is_some();
    let mut text = format!(
        "\n### {TITLE}\n\nET Open of March 2017 ({} rules), {RUBIK_RULES} of these about TCP and HTTP, and a rule that never matches; one thread. \
         Start-up: processor time of a run over one packet. Packets for each second of processor time behind that, reading included. \
         Suricata 7 with its default configuration{}, `-k none --runmode single`. `merge`: the Ethernet packets of all captures in `../shared/traces`.\n\n\
         | trace | rules | weir | Suricata | × | weir, MB | Suricata, MB |\n|---|---|--:|--:|--:|--:|--:|\n",
        sets[2].count,
        if has_suricata { "" } else { " (not installed here)" }
    );
    let first = root().join("examples/bfd.pcap");
    let merged = merge(&programs.weir, &programs.scratch)?;
    let traces =
        TRACES.iter().map(|name| (*name, if *name == MERGE { merged.clone() } else { trace_file(name) }));
    let mut start_up: [Option<Medians>; 3] = [None; 3];
    for (name, file) in std::iter::once((START_UP, first)).chain(traces) {
        let is_left_out = options.trace.as_ref().is_some_and(|wanted| wanted != name && name != START_UP);
        if !file.exists() || is_left_out {
            continue;
        }
        warm(&file)?;
        let packets = packets_of(&programs.weir, &file)?;
        for (set, start_up) in sets.iter().zip(&mut start_up) {
            let medians = medians(name, &file, set, options, programs)?;
            let before = start_up.get_or_insert(medians);
            let before = if name == START_UP { None } else { Some(&*before) };
            text += &row(name, set.name, &medians, before, packets);
        }
    }
    let peaks = [0, 2].map(|set| start_up[set].map_or([0.0; 2], |medians| medians.peak_mb));
    let each = |program: usize| (peaks[1][program] - peaks[0][program]) / (sets[2].count as f64 / 10_000.0);
    let _ = write!(text, "\nMemory for 10 000 rules: {:.0} MB", each(0));
    let _ = writeln!(
        text,
        "{}.",
        if has_suricata { format!(", Suricata {:.0} MB", each(1)) } else { String::new() }
    );
    Ok(text)
}

/// Weir's and Suricata's; 0 for a program that is missing.
#[derive(Debug, Clone, Copy)]
struct Medians {
    busy_s: [f64; 2],
    peak_mb: [f64; 2],
}

/// Runs both programs over a capture, in turns.
fn medians(trace: &str, file: &Path, set: &Set, options: &Options, programs: &Programs) -> Result<Medians> {
    let suricata = find("suricata").map(|_| suricata(file, &set.file, &programs.scratch));
    let commands = [Some(weir(&programs.weir, file, &set.file)), suricata];
    let mut runs: [Vec<Run>; 2] = Default::default();
    for round in 0..options.runs {
        for (command, runs) in commands.iter().zip(&mut runs) {
            let Some(command) = command else { continue };
            progress(&format!("{TITLE} · {trace} · {} · {}", set.name, round + 1));
            runs.push(measure(command, &programs.scratch, false)?);
        }
    }
    progress("");
    let of = |runs: &Vec<Run>, value: fn(&Run) -> f64| match runs.is_empty() {
        true => 0.0,
        false => table::median(runs.iter().map(value)),
    };
    Ok(Medians {
        busy_s: runs.each_ref().map(|runs| of(runs, |run| run.busy_s)),
        peak_mb: runs.each_ref().map(|runs| of(runs, |run| run.peak_bytes as f64 / 1e6)),
    })
}

/// A row of the table. Without `before`, the row is the start-up, and shows its processor time. Otherwise
/// `before` is the start-up with the same rules: the row shows packets for each further second of processor
/// time.
fn row(trace: &str, set: &str, medians: &Medians, before: Option<&Medians>, packets: f64) -> String {
    let rate = |program: usize, before: &Medians| {
        packets / (medians.busy_s[program] - before.busy_s[program]).max(1e-3)
    };
    let shown = |program: usize| match before {
        None => format!("{:.2} s", medians.busy_s[program]),
        Some(before) => format!("{:.0} k/s", rate(program, before) / 1e3),
    };
    let [ours, theirs] = medians.busy_s;
    let (other, other_peak, ratio) = match theirs > 0.0 {
        false => ("–".into(), "–".into(), "–".into()),
        true => {
            let ratio = before.map_or(theirs / ours, |before| rate(0, before) / rate(1, before));
            (shown(1), format!("{:.0}", medians.peak_mb[1]), format!("{ratio:.1}"))
        }
    };
    let peak = medians.peak_mb[0];
    format!("| {trace} | {set} | {} | {other} | {ratio} | {peak:.0} | {other_peak} |\n", shown(0))
}

/// Rules in a file.
struct Set {
    name: &'static str,
    file: PathBuf,
    count: usize,
}

/// One rule that never matches, those of Rubik's paper, and all.
fn sets(folder: &Path, scratch: &Path) -> Result<[Set; 3]> {
    let all = rules_in(folder)?;
    let is_rubik = |rule: &&String| ["alert tcp ", "alert http "].iter().any(|begin| rule.starts_with(begin));
    let of_rubik: Vec<&String> = all.iter().filter(is_rubik).collect();
    // From all parts of the list.
    let some = (0..RUBIK_RULES).map(|at| of_rubik[at * of_rubik.len() / RUBIK_RULES].clone()).collect();
    let none = vec!["alert tcp 192.0.2.1 any -> 192.0.2.2 1 (msg:\"nothing\"; sid:1;)".to_string()];
    let write = |name: &'static str, rules: Vec<String>| {
        let file = scratch.join(format!("{name}.rules"));
        std::fs::write(&file, rules.join("\n") + "\n").map_err(said(file.display()))?;
        Ok::<_, String>(Set { name, file, count: rules.len() })
    };
    Ok([write("one", none)?, write("2 800", some)?, write("all", all)?])
}

/// The packets of Ethernet of all captures in one file, which both programs read, unless the folder with them
/// is missing.
fn merge(weir: &Path, scratch: &Path) -> Result<PathBuf> {
    let merged = scratch.join("merge.pcap");
    let mut captures = vec![];
    let mut folders = vec![root().join(CAPTURES)];
    while let Some(folder) = folders.pop().filter(|folder| folder.is_dir()) {
        for entry in
            std::fs::read_dir(&folder).map_err(said(folder.display()))?.filter_map(|entry| entry.ok())
        {
            let path = entry.path();
            let is_capture =
                path.extension().is_some_and(|end| end == "pcap" || end == "pcapng" || end == "cap");
            match path.is_dir() {
                true => folders.push(path),
                false => captures.extend(is_capture.then_some(path)),
            }
        }
    }
    captures.sort();
    if !captures.is_empty() {
        let mut all = Command::new(weir);
        all.args(["packets", "-q", "-w"]).arg(&merged);
        captures.iter().for_each(|capture| _ = all.arg("-r").arg(capture));
        // Some captures are damaged: what could be read is there.
        let _ = output(all.arg("eth"));
    }
    Ok(merged)
}

/// All rules of a folder.
fn rules_in(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).map_err(said(folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "rules"));
    files.sort();
    let mut all = vec![];
    for file in files {
        let text = std::fs::read(&file).map_err(said(file.display()))?;
        let text = String::from_utf8_lossy(&text);
        all.extend(text.lines().filter(|line| line.starts_with("alert ")).map(str::to_string));
    }
    Ok(all)
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
