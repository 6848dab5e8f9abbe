//! `cargo xtask fuzz [NAME…]`: runs the fuzz targets with libFuzzer, on stable Rust.
//!
//! A name is a folder of `corpus/`: a program of `fuzz/fuzz_targets`, or a session protocol; `session` means
//! all protocols. Without names, all folders.
//!
//! * `--seconds N` (60) for each name, or `--minutes N` in total
//! * `--jobs N` (1): number of names that run at the same time
//! * `--replay FILE…` runs each name's program on a file of its folder, and prints conversations as text
//! * `--distill` writes to `target/fuzz/distilled/NAME` the fewest inputs that reach all code reached so far
//!
//! `build.rs` builds the programs, `libfuzzer.rs` runs one. Inputs that reach new code are kept in
//! `target/fuzz/cache/NAME` and used by later runs. A find is minimised, written to `corpus/NAME/found-HASH`,
//! and makes the chore fail.

mod build;
mod libfuzzer;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::shell::{Result, root, said};
pub use build::{host, wrap_compiler};
use libfuzzer::Fuzzed;

/// The program for the folders of session protocols, which gets the protocol's name from the environment.
const SESSION: &str = "session";

const DEFAULT_SECONDS: u64 = 60;

/// A folder of `corpus/`, and the program that takes its files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    /// Name of the folder.
    name: String,
    /// Name of the program.
    program: String,
}

impl Target {
    fn corpus(&self) -> PathBuf {
        root().join("corpus").join(&self.name)
    }

    /// The target of a file in `corpus/NAME`, or in another folder of that name.
    fn of_file(file: &Path, all: &[Target]) -> Result<Self> {
        let folder = std::path::absolute(file).map_err(said(file.display()))?;
        let name = folder.parent().and_then(Path::file_name).unwrap_or_default();
        let target = all.iter().find(|target| target.name.as_str() == name);
        target.cloned().ok_or_else(|| {
            format!(
                "{}: its folder's name is no name of corpus/; copy the file to such a folder",
                file.display()
            )
        })
    }
}

struct Options {
    names: Vec<String>,
    /// Of each name; `None` if `minutes` is given.
    seconds: Option<u64>,
    minutes: Option<u64>,
    jobs: usize,
    replay: bool,
    distill: bool,
}

impl Options {
    fn read(args: &[String]) -> Result<Self> {
        let mut options =
            Self { names: vec![], seconds: None, minutes: None, jobs: 1, replay: false, distill: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut number = || -> Result<u64> {
                let number = args.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                number.ok_or_else(|| format!("{arg} needs a number above 0"))
            };
            match arg.as_str() {
                "--seconds" => options.seconds = Some(number()?),
                "--minutes" => options.minutes = Some(number()?),
                "--jobs" => options.jobs = usize::try_from(number()?).map_err(said(arg))?,
                "--replay" => options.replay = true,
                "--distill" => options.distill = true,
                _ if arg.starts_with('-') => {
                    return Err(format!("{arg}: unknown; see xtask/src/fuzz/mod.rs"));
                }
                _ => options.names.push(arg.clone()),
            }
        }
        match (options.seconds, options.minutes) {
            (Some(_), Some(_)) => {
                Err("--seconds is for each name, --minutes in total: give one of them".into())
            }
            _ if options.replay && options.names.is_empty() => Err("--replay needs a file".into()),
            _ => Ok(options),
        }
    }

    /// Seconds for each of `count` names.
    fn seconds_each(&self, count: usize) -> u64 {
        let jobs = self.jobs.min(count).max(1);
        let share = |minutes: u64| (minutes * 60 * jobs as u64 / count.max(1) as u64).max(1);
        self.minutes.map(share).or(self.seconds).unwrap_or(DEFAULT_SECONDS)
    }
}

/// Runs the chore.
pub fn run(args: &[String]) -> Result {
    let options = Options::read(args)?;
    let all = targets()?;
    if options.replay {
        return replay(&options.names, &all);
    }
    let targets = selected(&options.names, &all)?;
    let programs = build::programs()?;
    if options.distill {
        return targets.iter().try_for_each(|target| {
            let count = libfuzzer::distill(&programs, target)?;
            println!("{:12} {count:5} inputs in {}", target.name, libfuzzer::distilled(target).display());
            Ok(())
        });
    }
    let seconds = options.seconds_each(targets.len());
    println!("{} names, {seconds} s each, {} at a time", targets.len(), options.jobs);
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let fuzzed = libfuzzer::fuzz(&programs, target, seconds);
                    println!("{}", line(target, &fuzzed));
                    if !fuzzed.is_ok_and(|fuzzed| fuzzed.find.is_none()) {
                        failed
                            .lock()
                            .unwrap_or_else(|poisoned| poisoned.into_inner())
                            .push(target.name.clone());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    if failed.is_empty() { Ok(()) } else { Err(format!("{} failed: {}", failed.len(), failed.join(", "))) }
}

/// The result of one name, for the user.
fn line(target: &Target, fuzzed: &Result<Fuzzed>) -> String {
    match fuzzed {
        Err(trouble) => format!("{:12} {trouble}", target.name),
        Ok(Fuzzed { executions, features, find: None }) => {
            format!("{:12} {executions:>10} inputs {features:>7} features", target.name)
        }
        Ok(Fuzzed { find: Some(find), .. }) => {
            let file = find.file.strip_prefix(root()).unwrap_or(&find.file).display();
            format!(
                "{:12} FOUND: {}\n    {file}\n    cargo xtask fuzz --replay {file}",
                target.name, find.message
            )
        }
    }
}

fn replay(files: &[String], all: &[Target]) -> Result {
    let of_file = |file: &String| Ok((PathBuf::from(file), Target::of_file(Path::new(file), all)?));
    let files = files.iter().map(of_file).collect::<Result<Vec<_>>>()?;
    let programs = build::programs()?;
    let mut failed = vec![];
    for (file, target) in files {
        println!("── {}", file.display());
        if !libfuzzer::replay(&programs, &target, &file)? {
            failed.push(file.display().to_string());
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("{} failed", failed.join(", "))) }
}

/// All folders of `corpus/`, sorted by name.
fn targets() -> Result<Vec<Target>> {
    let programs = names_in("fuzz/fuzz_targets")?;
    let programs: Vec<&str> = programs.iter().filter_map(|file| file.strip_suffix(".rs")).collect();
    let target = |name: String| {
        let program = programs.iter().find(|program| **program == name).copied().unwrap_or(SESSION);
        Target { program: program.to_string(), name }
    };
    Ok(names_in("corpus")?.into_iter().map(target).collect())
}

fn names_in(folder: &str) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(root().join(folder)).map_err(said(folder))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// The targets of these names; without names, all.
fn selected(names: &[String], all: &[Target]) -> Result<Vec<Target>> {
    if names.is_empty() {
        return Ok(all.to_vec());
    }
    let mut selected = vec![];
    for name in names {
        let before = selected.len();
        let is_it = |target: &&Target| target.name == *name || name == SESSION && target.program == SESSION;
        selected.extend(all.iter().filter(is_it).cloned());
        if selected.len() == before {
            let known: Vec<&str> = all.iter().map(|target| target.name.as_str()).collect();
            return Err(format!("no folder corpus/{name}; there are {}", known.join(", ")));
        }
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Result<Options> {
        Options::read(&args.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn minutes_are_shared_and_seconds_are_not() {
        assert_eq!(options(&["--minutes", "2", "--jobs", "2"]).unwrap().seconds_each(4), 60);
        assert_eq!(options(&["--minutes", "2", "--jobs", "9"]).unwrap().seconds_each(1), 120);
        assert_eq!(options(&["--seconds", "7"]).unwrap().seconds_each(4), 7);
        assert_eq!(options(&[]).unwrap().seconds_each(4), DEFAULT_SECONDS);
        for wrong in [&["--seconds"][..], &["--jobs", "0"], &["--x"], &["--replay"]] {
            assert!(options(wrong).is_err(), "{wrong:?}");
        }
        assert!(options(&["--seconds", "1", "--minutes", "1"]).is_err());
    }

    #[test]
    fn every_folder_has_a_program() {
        let all = targets().unwrap();
        let program = |name: &str| all.iter().find(|target| target.name == name).map(|t| t.program.as_str());
        assert_eq!((program("reader"), program("tls"), program("x")), (Some("reader"), Some(SESSION), None));
        let sessions = selected(&[SESSION.to_string()], &all).unwrap();
        assert!(sessions.len() > 20 && sessions.iter().all(|target| target.program == SESSION));
        assert!(selected(&["x".to_string()], &all).unwrap_err().contains("tls"));
        let found = Target::of_file(Path::new("/tmp/tls/found"), &all).unwrap();
        assert_eq!(found.name, "tls");
        assert!(Target::of_file(Path::new("/tmp/found"), &all).is_err());
    }
}
