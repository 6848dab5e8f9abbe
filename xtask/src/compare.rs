//! `cargo xtask compare OLD NEW [FILE|FOLDER…]`: two builds of `weir` give the same answers.
//!
//! Both programs run each question of [`QUESTIONS`] over every capture, and each command of [`COMMANDS`]
//! once. Each time they run in an empty folder. Standard output, standard error, the exit status and the
//! files in the folder must be equal, byte for byte. Without file arguments: all captures of the project, and
//! those of `../shared` if that folder exists. Run it before landing a refactoring; a commit that changes
//! rows on purpose names them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use crate::shell::{Result, root, said, write};

/// The questions: arguments before and after `-r FILE`. Together they cover every command that reads
/// captures, and all kinds of results: packets, lines, files, connections, sessions, parts of sessions,
/// events, streams, matches, statistics; filters on each layer; one worker and two; both engines.
const QUESTIONS: &[(&[&str], &[&str])] = &[
    (&["packets"], &[]),
    (&["packets", "-w", "x.pcap"], &["tcp or udp"]),
    (&["packets", "-w", "x.pcapng"], &["ip or ipv6"]),
    (&["packets"], &["tls or dns"]),
    (&["packets", "--count"], &["tcp.flags.syn == 1 and not tcp.port == 443"]),
    (&["flows", "--format", "zeek"], &[]),
    (&["flows", "-j", "2"], &["conn.duration > 0 and not icmp"]),
    (&["flows", "--engine", "interpreter"], &["tls or http"]),
    (&["sessions"], &[]),
    (&["sessions", "-j", "2", "--stack", "quic"], &["udp or tcp"]),
    (&["tls"], &["tls.sni contains \"e\""]),
    (&["files"], &[]),
    (&["x509"], &[]),
    (&["zeek", "-d", "logs"], &[]),
    (&["run", FILE_OF_QUESTIONS], &[]),
    (&["events"], &[]),
    (&["streams", "--digest", "sha256"], &[]),
    (&["streams", "--digest", "sha256", "-o", "streams", "--mode", "strict"], &["tls or http or ssh"]),
    (&["match", "-e", "[A-Za-z]{4}: "], &[]),
    (&["stats"], &[]),
];

const FILE_OF_QUESTIONS: &str = "questions.toml";

/// The types of questions in the file of questions, each with options of its own.
const ASKS: &[(&str, &str)] = &[
    ("packets", "output = \"packets.pcapng\""),
    ("flows", "format = \"csv\"\noutput = \"flows.csv\""),
    ("sessions", "filter = \"tls or dns\""),
    ("http", ""),
    ("files", "output = \"files.json\""),
    ("events", ""),
    ("streams", "digest = \"sha256\"\ncutoff = [\"dns:100\", \"10k\"]"),
    ("match", "patterns = [\"[A-Za-z]{4}: \"]\nmax_count = 2"),
    ("stats", ""),
];

/// Commands that read no capture.
const COMMANDS: &[&[&str]] = &[
    &["fields"],
    &["stacks"],
    &["docs", "internet"],
    &["docs", "http"],
    &["explain", "tls.sni contains \"e\" and tcp.port == 443"],
    &["explain", "--wants", "stats", "--stage", "opt"],
    &["explain", "--wants", "sessions", "--stage", "trie", "ip"],
];

/// File name extensions of captures.
const ENDINGS: &[&str] = &["pcap", "pcapng", "cap", "gz", "zst", "lz4"];

/// Maximum number of printed differences per question.
const SHOWN_MAX: usize = 5;

/// Compares two builds.
pub fn run(args: &[String]) -> Result {
    let [old, new, places @ ..] = args else {
        return Err("usage: cargo xtask compare OLD NEW [FILE|FOLDER…]".into());
    };
    if let Some(missing) = places.iter().find(|place| !Path::new(place).exists()) {
        return Err(format!("{missing}: no such file or folder"));
    }
    let mut captures = vec![];
    let own = ["examples", "protocols", "corpus", "../shared/traces", "../shared/found"];
    match places {
        [] => own.iter().for_each(|folder| find_captures(&root().join(folder), &mut captures)),
        places => places.iter().for_each(|place| find_captures(Path::new(place), &mut captures)),
    }
    captures.sort();
    let program = |name: &String| std::path::absolute(name).map_err(said(name));
    let both = Both { old: program(old)?, new: program(new)?, differing: Mutex::default() };
    both.compare_commands(&Scratch::new(0)?);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let workers = 1..=std::thread::available_parallelism().map_or(1, usize::from);
        let start = |number| {
            let (both, captures, next) = (&both, &captures, &next);
            scope.spawn(move || both.compare_captures(captures, next, &Scratch::new(number)?))
        };
        let running: Vec<_> = workers.map(start).collect();
        let ended =
            |work: ScopedJoinHandle<'_, Result>| work.join().map_err(|_| "a thread panicked".to_string())?;
        running.into_iter().try_for_each(ended)
    })?;
    let differing = both.differing.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    println!("{} commands; {} captures, {} questions each", COMMANDS.len(), captures.len(), QUESTIONS.len());
    for (command, differences) in &differing {
        println!("{command}: {} differ", differences.len());
        differences.iter().take(SHOWN_MAX).for_each(|difference| println!("  {difference}"));
    }
    if captures.is_empty() {
        Err("there are no captures".into())
    } else if differing.is_empty() {
        Ok(())
    } else {
        Err(format!("{} commands have different output", differing.len()))
    }
}

/// The two programs, and the differences by command.
struct Both {
    old: PathBuf,
    new: PathBuf,
    differing: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Both {
    fn compare_commands(&self, work: &Scratch) {
        for command in COMMANDS {
            let args: Vec<&OsStr> = command.iter().map(OsStr::new).collect();
            if let Err(what) = compare(&self.old, &self.new, &args, work) {
                self.note(command.join(" "), what);
            }
        }
    }

    /// Runs the questions over captures, until no capture is left.
    fn compare_captures(&self, captures: &[PathBuf], next: &AtomicUsize, work: &Scratch) -> Result {
        while let Some(capture) = captures.get(next.fetch_add(1, Ordering::Relaxed)) {
            for (before, after) in QUESTIONS {
                let words = |words: &'static [&str]| words.iter().map(OsStr::new);
                let file = [OsStr::new("-r"), capture.as_os_str()];
                let args: Vec<&OsStr> = words(before).chain(file).chain(words(after)).collect();
                if let Err(what) = compare(&self.old, &self.new, &args, work) {
                    let command = format!("{} -r FILE {}", before.join(" "), after.join(" "));
                    self.note(command, format!("{}: {what}", capture.display()));
                }
            }
        }
        Ok(())
    }

    fn note(&self, command: String, difference: String) {
        let mut differing = self.differing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        differing.entry(format!("weir {command}")).or_default().push(difference);
    }
}

/// A folder that the programs run in, empty except for the file of questions.
struct Scratch(PathBuf);

impl Scratch {
    fn new(number: usize) -> Result<Self> {
        let scratch =
            Self(std::env::temp_dir().join(format!("weir-compare-{}-{number}", std::process::id())));
        scratch.empty()?;
        Ok(scratch)
    }

    fn empty(&self) -> Result {
        let _ = std::fs::remove_dir_all(&self.0);
        std::fs::create_dir_all(&self.0).map_err(said(self.0.display()))?;
        let question = |(ask, options): &(&str, &str)| {
            format!("[[question]]\nname = \"{ask}\"\nask = \"{ask}\"\n{options}\n")
        };
        write(self.0.join(FILE_OF_QUESTIONS), ASKS.iter().map(question).collect::<String>())
    }

    /// The files that the program wrote, by path.
    fn files(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let (mut files, mut folders) = (BTreeMap::new(), vec![self.0.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).map_err(said(folder.display()))? {
                let path = entry.map_err(said(folder.display()))?.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = std::fs::read(&path).map_err(said(path.display()))?;
                    files.insert(path.strip_prefix(&self.0).unwrap_or(&path).to_path_buf(), bytes);
                }
            }
        }
        Ok(files)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn find_captures(place: &Path, captures: &mut Vec<PathBuf>) {
    if place.is_file() {
        // The programs run in another folder.
        captures.extend(std::path::absolute(place));
        return;
    }
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_capture = path.extension().and_then(OsStr::to_str).is_some_and(|end| ENDINGS.contains(&end));
        if path.is_dir() || is_capture {
            find_captures(&path, captures);
        }
    }
}

/// The first difference, in a few words.
fn compare(old: &Path, new: &Path, args: &[&OsStr], work: &Scratch) -> Result {
    let [(old, old_files), (new, new_files)] = [ask(old, args, work)?, ask(new, args, work)?];
    if old.status != new.status {
        return Err(format!("{}, then {}", old.status, new.status));
    }
    // Two equal complaints about the command line would compare nothing.
    if String::from_utf8_lossy(&new.stderr).contains("Usage: ") {
        return Err("the command line is wrong".into());
    }
    if !old_files.keys().eq(new_files.keys()) {
        return Err("other files were written".into());
    }
    let files = old_files.iter().zip(new_files.values());
    let files = files.map(|((path, old), new)| (path.display().to_string(), old, new));
    let said = [("output", &old.stdout, &new.stdout), ("messages", &old.stderr, &new.stderr)];
    let said = said.into_iter().map(|(name, old, new)| (name.to_string(), old, new));
    for (name, old, new) in said.chain(files) {
        if old != new {
            let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
            let line = old[..same].iter().filter(|byte| **byte == b'\n').count() + 1;
            return Err(format!("{name}: {} and {} bytes, equal up to line {line}", old.len(), new.len()));
        }
    }
    Ok(())
}

/// The answers of a program, and the files that it wrote.
fn ask(program: &Path, args: &[&OsStr], work: &Scratch) -> Result<(Output, BTreeMap<PathBuf, Vec<u8>>)> {
    work.empty()?;
    let mut weir = Command::new(program);
    weir.args(args).current_dir(&work.0).stdin(Stdio::null());
    let output = weir.output().map_err(said(program.display()))?;
    Ok((output, work.files()?))
}
