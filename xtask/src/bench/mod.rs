//! `cargo xtask bench`: the tables of `docs/benchmarks.md`.
//!
//! Every program runs as a whole process over a file in the page cache. The runs of a question are
//! interleaved, so that a temporary slowdown of the machine affects all programs. The tables show medians.
//! `cases.rs` lists the cases, `child.rs` measures, `table.rs` prints.
//!
//! `cargo xtask bench "Compiling each"` measures and rewrites only the tables whose titles contain these
//! words.
//!
//! Options: `--runs N` (5); `--trace NAME` and `--only WORDS` (of a title or a program's name) select cases
//! without writing; `--weir FILE` uses another binary; `--dry` leaves the pages unchanged. `links` has tables
//! that are measured only if they are named; `--minutes N` (10) is for the one that takes any time.

mod agreement;
mod assembler;
mod attacks;
mod cases;
mod child;
mod compile;
mod front_end;
mod kernel;
mod links;
mod pipelines;
mod python;
mod questions;
mod ring;
mod rules;
mod scripts;
mod stages;
mod table;

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{Result, find, output, root, said};
use cases::{QUESTIONS, Question, Row};
use child::Run;

/// Runs longer than this are not repeated.
const SLOW_S: f64 = 10.0;

struct Options {
    /// Words of titles; empty for all tables.
    titles: Vec<String>,
    runs: usize,
    trace: Option<String>,
    only: Option<String>,
    weir: Option<PathBuf>,
    dry: bool,
    /// The time of a table that takes any time.
    minutes: u64,
}

/// The path of Go if it is not on `PATH`: that of its own archive.
const GO: &str = "/usr/local/go/bin/go";

const WARM_BLOCK_BYTES: usize = 4 << 20;

/// One program's runs over one trace.
pub struct Measured<'a> {
    row: &'a Row,
    runs: Vec<Run>,
}

impl Options {
    fn wants(&self, title: &str) -> bool {
        self.titles.is_empty() || self.titles.iter().any(|words| title.contains(words))
    }

    /// The selected rows of a question for a trace.
    fn rows<'a>(&self, question: &'a Question, trace: &str) -> impl Iterator<Item = &'a Row> {
        let all = self.only.as_ref().is_none_or(|words| question.title.contains(words));
        question.rows.iter().filter(move |row| {
            (all || self.only.as_ref().is_some_and(|words| row.name.contains(words)))
                && !row.not_on.contains(&trace)
        })
    }

    /// The traces with selected rows.
    fn traces<'a>(&self, question: &'a Question) -> impl Iterator<Item = &'a str> {
        let is_wanted = |trace: &&str| self.trace.as_ref().is_none_or(|wanted| wanted == trace);
        let traces = question.traces.iter().copied().filter(is_wanted);
        traces.filter(|trace| self.rows(question, trace).next().is_some())
    }

    /// Whether a table of fixed shape is selected; such tables are measured completely.
    fn wants_whole(&self, title: &str) -> bool {
        self.wants(title) && self.only.as_ref().is_none_or(|words| title.contains(words))
    }
}

pub fn run(args: &[String]) -> Result {
    let options = parse(args)?;
    if !links::enter(&options, args)? {
        return Ok(());
    }
    let asked = QUESTIONS.iter().filter(|question| options.wants(question.title));
    let mut missing: Vec<&str> = asked.flat_map(|question| options.traces(question)).collect();
    missing.sort_unstable();
    missing.dedup();
    missing.retain(|trace| !trace_file(trace).exists());
    if !missing.is_empty() {
        let names = missing.join(" ");
        return Err(format!("bench/data has no {names}: cargo xtask traces {names}, as root"));
    }
    let has_peers = options.wants_whole(assembler::TITLE)
        || QUESTIONS.iter().any(|question| options.wants(question.title));
    let programs = Programs::build(options.weir.clone(), has_peers)?;
    let mut tables = String::new();
    let mut add = |text: String| {
        println!("{text}");
        tables += &text;
    };
    for question in QUESTIONS.iter().filter(|question| options.wants(question.title)) {
        for trace in options.traces(question) {
            ask(question, trace, &options, &programs)?.into_iter().for_each(&mut add);
        }
    }
    whole_tables(&options, &programs, &mut add)?;
    let agrees = options.wants_whole(agreement::TITLE);
    if agrees {
        agreement::run(&programs.weir, &programs.scratch, options.dry)?;
    }
    if tables.is_empty() && agrees {
        return Ok(());
    }
    if tables.is_empty() {
        return Err("no table has this title, trace or program".into());
    }
    for missing in programs.missing.iter().filter(|_| options.titles.is_empty()) {
        let line = format!("not measured: {missing}\n");
        print!("{line}");
        tables += &line;
    }
    let page = root().join("docs/benchmarks.md");
    if options.dry || options.trace.is_some() || options.only.is_some() {
        return Ok(());
    }
    if !options.titles.is_empty() {
        return table::publish_some(&page, &tables);
    }
    table::publish(&page, &(table::machine()? + &tables))
}

/// Measures the tables of fixed shape that are selected.
fn whole_tables(options: &Options, programs: &Programs, add: &mut impl FnMut(String)) -> Result {
    if options.trace.is_none() {
        for (title, table) in [
            (compile::TITLE, compile::table as fn(&Path, &Path) -> Result<String>),
            (compile::STACKS_TITLE, compile::stacks_table),
            (stages::FUNNEL_TITLE, stages::funnel),
            (stages::SWAPS_TITLE, stages::swaps),
            (front_end::TITLE, front_end::table),
        ] {
            if options.wants_whole(title) {
                add(table(&programs.weir, &programs.scratch)?);
            }
        }
    }
    if options.wants_whole(assembler::TITLE) {
        add(assembler::table(options, programs)?);
    }
    for (title, table) in [
        (pipelines::TITLE, pipelines::table as fn(&Options, &Programs) -> Result<String>),
        (pipelines::GROUPS_TITLE, pipelines::groups),
        (pipelines::VECTORS_TITLE, pipelines::vectors),
        (ring::TITLE, ring::table),
        (rules::TITLE, rules::table),
        (scripts::TITLE, scripts::table),
        (python::TITLE, python::table),
    ] {
        if options.wants_whole(title) {
            add(table(options, programs)?);
        }
    }
    if options.wants_whole(front_end::BALANCE_TITLE) {
        add(front_end::balance_table()?);
    }
    if options.wants_whole(attacks::TITLE) {
        match attacks::table(&programs.weir, &programs.scratch)? {
            Some(table) => add(table),
            None => println!("not measured: {} (../shared/attack/gen.c, and cc)", attacks::TITLE),
        }
    }
    if options.wants_whole(kernel::TITLE) {
        match kernel::table() {
            Ok(table) => add(table),
            Err(why) => println!("not measured: {} ({why})", kernel::TITLE),
        }
    }
    links::tables(options, &programs.weir, &programs.scratch, add)
}

fn trace_file(trace: &str) -> PathBuf {
    crate::traces::folder().join(format!("{trace}.pcap"))
}

/// Runs every program of a question over one trace, interleaved.
fn ask(question: &Question, trace: &str, options: &Options, programs: &Programs) -> Result<Option<String>> {
    let file = trace_file(trace);
    let mut results: Vec<Measured> = (options.rows(question, trace))
        .filter(|row| programs.has(row))
        .map(|row| Measured { row, runs: vec![] })
        .collect();
    if results.is_empty() {
        return Ok(None);
    }
    warm(&file)?;
    for round in 0..options.runs {
        for result in &mut results {
            if result.runs.first().is_some_and(|first| first.wall_s > SLOW_S || !first.succeeded) {
                continue;
            }
            progress(&format!("{} · {trace} · {} · {}", question.title, round + 1, result.row.name));
            let command = programs.command(result.row, &file);
            result.runs.push(child::measure(&command, &programs.scratch, result.row.says)?);
        }
    }
    progress("");
    Ok(Some(table::print(question, trace, &file, &results)?))
}

/// A progress line that is overwritten, on a terminal.
fn progress(line: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{:100}\r{line}", "");
    }
}

/// Reads the file into the page cache, so that no run reads from the disk. Its cached pages are dropped
/// first, and read again in large blocks: the kernel reclaims cached pages one by one, and reading a file in
/// such small pieces takes twice as long (2026-11-22).
fn warm(file: &Path) -> Result {
    let forget = format!("if={}", file.display());
    output(Command::new("dd").args([forget.as_str(), "iflag=nocache", "count=0", "status=none"]))?;
    let mut file_in = std::fs::File::open(file).map_err(said(file.display()))?;
    let mut block = vec![0; WARM_BLOCK_BYTES];
    while file_in.read(&mut block).map_err(said(file.display()))? > 0 {}
    Ok(())
}

/// The paths of the programs, and a scratch folder.
struct Programs {
    scratch: PathBuf,
    weir: PathBuf,
    assembler: PathBuf,
    missing: Vec<String>,
}

impl Programs {
    /// Builds `weir`, and the other programs if a selected table compares them.
    fn build(weir: Option<PathBuf>, has_peers: bool) -> Result<Self> {
        let scratch = std::env::temp_dir().join(format!("weir-bench-{}", std::process::id()));
        std::fs::create_dir_all(&scratch).map_err(said(scratch.display()))?;
        questions::write(&scratch.join("questions"))?;
        let weir = match weir {
            Some(file) => file,
            None => crate::shell::build_weir(true)?,
        };
        let mut missing = Vec::new();
        if !has_peers {
            return Ok(Self { scratch, weir, assembler: PathBuf::new(), missing });
        }
        let assembler = crate::shell::build_example("assembler")?;
        let bench = root().join("bench");
        for (name, source, libraries, package) in [
            ("floor", "floor.c", &[][..], "gcc libc6-dev"),
            ("nids", "peers/nids.c", &["-lnids", "-lpcap"], "gcc libc6-dev libnids-dev libpcap-dev"),
            (
                "vectorscan",
                "peers/vectorscan.c",
                &["-lnids", "-lpcap", "-lhs"],
                "gcc libc6-dev libnids-dev libpcap-dev libvectorscan-dev",
            ),
        ] {
            let mut cc = Command::new("cc");
            cc.args(["-O2", "-o"]).arg(scratch.join(name)).arg(bench.join(source)).args(libraries);
            if output(&mut cc).is_err() {
                missing.push(format!("{name} (apt-get install {package})"));
            }
        }
        let mut go = Command::new(find("go").unwrap_or_else(|| GO.into()));
        go.arg("build").arg("-C").arg(bench.join("peers/gopacket")).arg("-o").arg(scratch.join("gopacket"));
        if output(&mut go).is_err() {
            missing
                .push("gopacket (Go 1.25, and its module: go mod download in bench/peers/gopacket)".into());
        }
        let mut programs = Self { scratch, weir, assembler, missing };
        for row in QUESTIONS.iter().flat_map(|q| q.rows) {
            let line = format!("{} (apt-get install {})", row.command[0], row.package);
            if !row.command[0].starts_with('{')
                && find(row.command[0]).is_none()
                && !programs.missing.contains(&line)
            {
                programs.missing.push(line);
            }
        }
        Ok(programs)
    }

    fn has(&self, row: &Row) -> bool {
        let program = self.fill(row.command[0], Path::new(""));
        Path::new(&program).is_file() || find(&program).is_some()
    }

    fn command(&self, row: &Row, trace: &Path) -> Vec<String> {
        let mut command: Vec<String> = row.command.iter().map(|word| self.fill(word, trace)).collect();
        if let Some(path) = find(&command[0]) {
            command[0] = path.display().to_string();
        }
        command
    }

    fn fill(&self, word: &str, trace: &Path) -> String {
        let ours = |name: &str| self.scratch.join(name).display().to_string();
        word.replace("{trace}", &trace.display().to_string())
            .replace("{weir}", &self.weir.display().to_string())
            .replace("{assembler}", &self.assembler.display().to_string())
            .replace("{floor}", &ours("floor"))
            .replace("{nids}", &ours("nids"))
            .replace("{gopacket}", &ours("gopacket"))
            .replace("{vectorscan}", &ours("vectorscan"))
            .replace("{root}", &root().display().to_string())
            .replace("{tmp}", &self.scratch.display().to_string())
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch); // a leftover in the temporary folder is harmless
    }
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options =
        Options { titles: vec![], runs: 5, trace: None, only: None, weir: None, dry: false, minutes: 10 };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().ok_or(format!("{arg} wants a value"));
        match arg.as_str() {
            "--runs" => options.runs = value()?.parse().map_err(said("--runs"))?,
            "--trace" => options.trace = Some(value()?),
            "--only" => options.only = Some(value()?),
            "--weir" => options.weir = Some(value()?.into()),
            "--minutes" => options.minutes = value()?.parse().map_err(said("--minutes"))?,
            "--dry" => options.dry = true,
            words if !words.starts_with('-') => options.titles.push(words.into()),
            _ => {
                return Err(format!("{arg}: known are --runs, --trace, --only, --weir, --minutes and --dry"));
            }
        }
    }
    if options.runs == 0 { Err("--runs must be at least 1".into()) } else { Ok(options) }
}
