//! Runs one fuzz target with libFuzzer's options, and collects its result.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::Target;
use super::build::folder;
use crate::shell::{Result, read, said, write};

/// Bounds of every input: memory and time. Slow inputs within the bounds are not reported.
const BOUNDS: &[&str] = &["-rss_limit_mb=2048", "-timeout=10", "-report_slow_units=10000"];

/// Maximum length of an input. Not an option for minimising, which sets its own.
const LENGTH: &str = "-max_len=8192";

/// Maximum time to minimise a find, in seconds.
const MINIMIZE_SECONDS: u64 = 60;

/// The name of the session protocol, for the program `session`.
const PROTOCOL: &str = "WEIR_PROTOCOL";

/// If set, `session` prints its input as text.
const SHOW: &str = "WEIR_SHOW";

/// The result of a run.
pub struct Fuzzed {
    pub executions: u64,
    /// Number of libFuzzer's features: edges by how often they ran, and pairs of compared values.
    pub features: u64,
    pub find: Option<Find>,
}

/// An input that violates a property, or takes too much time or memory.
pub struct Find {
    pub file: PathBuf,
    /// The panic's message, or libFuzzer's.
    pub message: String,
}

/// The folder that [`distill`] fills.
pub fn distilled(target: &Target) -> PathBuf {
    folder().join("distilled").join(&target.name)
}

/// Fuzzes one target, until the time is over or something is found.
pub fn fuzz(programs: &Path, target: &Target, seconds: u64) -> Result<Fuzzed> {
    let finds = emptied(folder().join("finds").join(&target.name))?;
    let cache = cache(target)?;
    let log = folder().join("logs").join(format!("{}.log", target.name));
    let mut program = program(programs, target);
    program.arg(LENGTH).arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
    program.arg(format!("-artifact_prefix={}/", finds.display()));
    program.arg(cache).arg(target.corpus());
    let status = logged(&mut program, &log)?;
    let text = read(&log)?;
    let mut fuzzed = Fuzzed {
        executions: last_number(&text, "stat::number_of_executed_units:").unwrap_or_default(),
        features: last_number(&text, " ft: ").unwrap_or_default(),
        find: None,
    };
    let found = std::fs::read_dir(&finds).map_err(said(finds.display()))?.flatten().next();
    match found {
        Some(found) => {
            let file = keep(programs, target, &found.path())?;
            fuzzed.find = Some(Find { file, message: message(&text) });
            Ok(fuzzed)
        }
        None if status.success() => Ok(fuzzed),
        None => Err(format!("{status}; see {}", log.display())),
    }
}

/// Runs a target on one file. Whether it violates no property and no bound.
pub fn replay(programs: &Path, target: &Target, file: &Path) -> Result<bool> {
    let mut program = program(programs, target);
    let status = program.env(SHOW, "1").arg(file).status().map_err(said(&target.program))?;
    Ok(status.success())
}

/// Writes the fewest inputs that reach all code that the corpus and the cache reach. Returns their number.
pub fn distill(programs: &Path, target: &Target) -> Result<usize> {
    let chosen = emptied(distilled(target))?;
    let mut program = program(programs, target);
    program.args([LENGTH, "-set_cover_merge=1"]).arg(&chosen).arg(target.corpus()).arg(cache(target)?);
    let log = folder().join("logs").join(format!("{}-distilled.log", target.name));
    let status = logged(&mut program, &log)?;
    if !status.success() {
        return Err(format!("{}: {status}; see {}", target.name, log.display()));
    }
    Ok(std::fs::read_dir(&chosen).map_err(said(chosen.display()))?.count())
}

/// A target's program with the bounds.
fn program(programs: &Path, target: &Target) -> Command {
    let mut program = Command::new(programs.join(&target.program));
    program.args(BOUNDS).env(PROTOCOL, &target.name).stdin(Stdio::null());
    program
}

fn cache(target: &Target) -> Result<PathBuf> {
    let cache = folder().join("cache").join(&target.name);
    std::fs::create_dir_all(&cache).map_err(said(cache.display()))?;
    Ok(cache)
}

fn emptied(new: PathBuf) -> Result<PathBuf> {
    let _ = std::fs::remove_dir_all(&new);
    std::fs::create_dir_all(&new).map_err(said(new.display()))?;
    Ok(new)
}

/// Runs a program with its output in a file.
fn logged(program: &mut Command, log: &Path) -> Result<ExitStatus> {
    write(log, "")?;
    let file = File::create(log).map_err(said(log.display()))?;
    let same = file.try_clone().map_err(said(log.display()))?;
    program.stdout(file).stderr(same).status().map_err(said(format!("{program:?}")))
}

/// Minimises a find and writes it to the corpus, conversations as text. Returns the path.
fn keep(programs: &Path, target: &Target, found: &Path) -> Result<PathBuf> {
    let smaller = found.with_extension("minimized");
    let mut program = program(programs, target);
    program.arg("-minimize_crash=1").arg(format!("-max_total_time={MINIMIZE_SECONDS}"));
    program.arg(format!("-exact_artifact_path={}", smaller.display())).arg(found);
    // A find of too much time or memory can not always be minimised.
    logged(&mut program, &folder().join("logs").join(format!("{}-minimized.log", target.name)))?;
    let file =
        if smaller.is_file() && fails(programs, target, &smaller)? { smaller } else { found.to_path_buf() };
    let bytes = match text(programs, target, &file)? {
        Some(text) => text.into_bytes(),
        None => std::fs::read(&file).map_err(said(file.display()))?,
    };
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let kept = target.corpus().join(format!("found-{:08x}", hasher.finish() as u32));
    write(&kept, bytes)?;
    Ok(kept)
}

/// A conversation as text, if the target prints it and the text violates the property, too.
fn text(programs: &Path, target: &Target, file: &Path) -> Result<Option<String>> {
    let mut session = program(programs, target);
    let out = session.env(SHOW, "1").arg(file).output().map_err(said(&target.program))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if text.is_empty() {
        return Ok(None);
    }
    let as_text = file.with_extension("text");
    write(&as_text, &text)?;
    Ok(fails(programs, target, &as_text)?.then_some(text))
}

/// Whether a file violates a property or a bound.
fn fails(programs: &Path, target: &Target, file: &Path) -> Result<bool> {
    let mut program = program(programs, target);
    let status = program.arg(file).stdout(Stdio::null()).stderr(Stdio::null()).status();
    Ok(!status.map_err(said(&target.program))?.success())
}

/// The number behind the last `label`.
fn last_number(log: &str, label: &str) -> Option<u64> {
    let (_, rest) = log.rsplit_once(label)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The message of the first panic with the place, or libFuzzer's own.
fn message(log: &str) -> String {
    let mut lines = log.lines();
    let is_panic = |line: &&str| line.starts_with("thread ") && line.contains(" panicked at ");
    if let Some(panic) = lines.find(is_panic) {
        let place = panic.split_once(" panicked at ").map_or(panic, |(_, place)| place);
        return format!("{place} {}", lines.next().unwrap_or_default());
    }
    let is_error = |line: &&str| line.contains("ERROR: libFuzzer") || line.contains("ALARM: ");
    log.lines().find(is_error).unwrap_or("no message").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_tells_numbers_and_faults() {
        let log = "#8 NEW cov: 5 ft: 9 corp: 2\n#9 DONE cov: 6 ft: 12 corp: 3\nstat::number_of_executed_units: 77\n";
        assert_eq!(last_number(log, " ft: "), Some(12));
        assert_eq!(last_number(log, "stat::number_of_executed_units:"), Some(77));
        assert_eq!(last_number(log, "stat::new_units_added:"), None);
        let log = "x\nthread '<unnamed>' (7) panicked at src/a.rs:3:5:\nbad index\n==9== ERROR: libFuzzer: deadly signal\n";
        assert_eq!(message(log), "src/a.rs:3:5: bad index");
        assert_eq!(
            message("==9== ERROR: libFuzzer: timeout after 10 s"),
            "==9== ERROR: libFuzzer: timeout after 10 s"
        );
        assert_eq!(message(""), "no message");
    }
}
