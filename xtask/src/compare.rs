//! `cargo xtask compare OLD NEW [FILE|FOLDER…]`: two builds of `weir` give the same answers.
//!
//! Each question of [`QUESTIONS`] is run by both programs over every capture. Standard output, standard error
//! and the exit status must be equal, byte for byte. Without file arguments: all captures of the project, and
//! those of `../shared` if that folder exists. Run it before landing a refactoring; a commit that changes
//! rows on purpose names them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::shell::{Result, root, said};

/// The questions: arguments before and after `-r FILE`. Together they cover all kinds of results: packets,
/// lines, files, connections, sessions, parts of sessions, events, streams, matches, statistics; filters on
/// each layer; one worker and two; both engines.
const QUESTIONS: &[(&[&str], &[&str])] = &[
    (&["packets"], &[]),
    (&["packets", "-w", "-"], &["tcp or udp"]),
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
    (&["events"], &[]),
    (&["streams", "--digest", "sha256"], &[]),
    (&["streams", "--digest", "sha256", "--strict"], &["tls or http or ssh"]),
    (&["match", "-e", "[A-Za-z]{4}: "], &[]),
    (&["stats"], &[]),
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
    let mut captures = vec![];
    let own = ["examples", "protocols", "corpus", "../shared/traces", "../shared/found"];
    match places {
        [] => own.iter().for_each(|folder| find_captures(&root().join(folder), &mut captures)),
        places => places.iter().for_each(|place| find_captures(Path::new(place), &mut captures)),
    }
    captures.sort();
    let differing = Mutex::new(BTreeMap::<usize, Vec<String>>::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(capture) = captures.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for (number, question) in QUESTIONS.iter().enumerate() {
                        let difference = compare(old, new, question, capture);
                        let Err(what) = difference else { continue };
                        let mut differing = differing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        differing.entry(number).or_default().push(format!("{}: {what}", capture.display()));
                    }
                }
            });
        }
    });
    let differing = differing.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    println!("{} captures, {} questions each", captures.len(), QUESTIONS.len());
    for (&number, captures) in &differing {
        let (before, after) = QUESTIONS[number];
        println!("weir {} -r FILE {}: {} differ", before.join(" "), after.join(" "), captures.len());
        captures.iter().take(SHOWN_MAX).for_each(|capture| println!("  {capture}"));
    }
    if captures.is_empty() {
        Err("there are no captures".into())
    } else if differing.is_empty() {
        Ok(())
    } else {
        Err(format!("{} questions of {} have different output", differing.len(), QUESTIONS.len()))
    }
}

fn find_captures(place: &Path, captures: &mut Vec<PathBuf>) {
    if place.is_file() {
        return captures.push(place.to_path_buf());
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
fn compare(old: &str, new: &str, question: &(&[&str], &[&str]), capture: &Path) -> Result {
    let [old, new] = [ask(old, question, capture)?, ask(new, question, capture)?];
    if old.status != new.status {
        return Err(format!("{}, then {}", old.status, new.status));
    }
    for (name, old, new) in [("output", &old.stdout, &new.stdout), ("messages", &old.stderr, &new.stderr)] {
        if old != new {
            let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
            let line = old[..same].iter().filter(|byte| **byte == b'\n').count() + 1;
            return Err(format!("{name}: {} and {} bytes, equal up to line {line}", old.len(), new.len()));
        }
    }
    Ok(())
}

fn ask(program: &str, (before, after): &(&[&str], &[&str]), capture: &Path) -> Result<std::process::Output> {
    let mut weir = Command::new(program);
    weir.args(*before).arg("-r").arg(capture).args(*after).stdin(Stdio::null());
    weir.output().map_err(said(program))
}
