//! The rules of a question, or of a recorder: files of rules, variables, classes, thresholds and
//! suppressions.

use crate::messages::{Failure, Level, Message};
use crate::source::input;
use crate::spec::QuestionSpec;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir::Compiler;
use weir::lang::diag::{Diagnostic, Diagnostics, Sources};
use weir_detect::{Counters, Detection, RuleProgram};
use weir_rules::{Classes, RuleFile, RuleSet, Tunings, Variables, load};

/// The rules of a question.
pub struct Loaded {
    /// The rules, and those that are refused.
    pub set: RuleSet,
    classes: Classes,
    tunings: Tunings,
}

impl Loaded {
    /// Reads all files of a question.
    pub fn of(spec: &QuestionSpec) -> Result<Self, Failure> {
        let mut variables = Variables::default();
        if let Some(path) = &spec.variables {
            let is_toml = path.extension().is_some_and(|end| end == "toml");
            read(path, |text| match is_toml {
                true => variables.read_toml(text, 0),
                false => variables.read_yaml(text, 0),
            })?;
        }
        let mut classes = Classes::default();
        if let Some(path) = &spec.classes {
            read(path, |text| classes.read(text, 0))?;
        }
        let mut tunings = Tunings::default();
        if let Some(path) = &spec.tunings {
            read(path, |text| tunings.read(text, 0, &variables))?;
        }
        let paths = files_of(&spec.rules)?;
        let texts: Result<Vec<String>, Failure> = paths.iter().map(|path| input::read_text(path)).collect();
        let (texts, names): (_, Vec<String>) =
            (texts?, paths.iter().map(|path| path.display().to_string()).collect());
        let files: Vec<RuleFile<'_>> =
            names.iter().zip(&texts).map(|(name, text)| RuleFile { name, text }).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let set = load(&files, &variables, threads);
        Ok(Self { set, classes, tunings })
    }

    /// The program. `check_filter` says why a filter of a rule is wrong: see [`filter_checker`].
    pub fn into_program(self, check_filter: impl Fn(&str) -> Result<(), String>) -> RuleProgram {
        let rules = self.set.rules.into_iter().map(|listed| listed.rule).collect();
        RuleProgram::of(rules, &self.classes, &self.tunings, check_filter)
    }

    /// Says how many rules are refused, and why the first one is.
    pub fn say_refusals(&self) {
        let Some(first) = self.set.refusals.first() else { return };
        Message::rendered(|is_colored| first.render(is_colored), Level::Warning).tell();
        let count = self.set.refusals.len();
        let are = if count == 1 { "rule is" } else { "rules are" };
        note!(
            "weir: {count} {are} refused, of {}: `weir rules --check` shows why",
            count + self.set.rules.len()
        );
    }
}

/// Says why a filter of a rule is wrong.
pub fn filter_checker(compiler: &Compiler) -> impl Fn(&str) -> Result<(), String> {
    |filter| {
        let first =
            |wrong: Diagnostics| wrong.list.first().map_or(String::new(), |first| first.message.clone());
        compiler.check_filter(filter, false).map_err(first)
    }
}

/// Reads a file, and says what is wrong in it.
fn read(path: &Path, take: impl FnOnce(&str) -> Vec<Diagnostic>) -> Result<(), Failure> {
    let text = input::read_text(path)?;
    let list = take(&text);
    if list.is_empty() {
        return Ok(());
    }
    let mut sources = Sources::new();
    sources.add(path.display().to_string().as_str(), text.as_str());
    Err(Failure::Mistakes(Diagnostics { sources, list }))
}

/// The files of rules: of directories, those whose names end in `.rules`, in the order of their names.
fn files_of(paths: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = vec![];
    for path in paths.iter().map(PathBuf::from) {
        if !path.is_dir() {
            files.push(path);
            continue;
        }
        let entries = std::fs::read_dir(&path).map_err(|error| Failure::reading(path.display(), &error))?;
        let mut within: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        within.retain(|file| file.extension().is_some_and(|end| end == "rules"));
        within.sort();
        if within.is_empty() {
            return Err(Failure::new(format!("{}: no file's name ends in `.rules`", path.display())));
        }
        files.append(&mut within);
    }
    Ok(files)
}

/// The text of a path.
///
/// # Errors
/// A name that is not UTF-8.
pub fn utf8(path: &Path) -> Result<String, Failure> {
    let wrong = || Failure::new(format!("{}: the name is not UTF-8", path.display()));
    path.to_str().map(str::to_string).ok_or_else(wrong)
}

/// The rules in these files and directories, for the triggers of a recorder.
///
/// # Errors
/// A file that cannot be read.
pub fn for_recorder(paths: &[PathBuf], compiler: &Compiler) -> Result<Detection, Failure> {
    let rules = paths.iter().map(|path| utf8(path)).collect::<Result<Vec<String>, Failure>>()?;
    let loaded = Loaded::of(&QuestionSpec { rules, ..QuestionSpec::default() })?;
    loaded.say_refusals();
    Ok(Detection::new(Arc::new(loaded.into_program(filter_checker(compiler)))))
}

/// Prints the counters that are not 0.
pub fn report(counters: &Counters) {
    let Counters {
        bounded,
        waiting_lost,
        undecided_lost,
        state_refused,
        sessions_refused,
        pieces_lost,
        flows_forgotten,
    } = counters;
    for (counter, what) in [
        (bounded, "inspections ended at their bound of steps (rules_bounded)"),
        (waiting_lost, "rules that waited for more of a stream were given up (rules_waiting_lost)"),
        (undecided_lost, "alerts that waited for the protocol were given up (rules_undecided_lost)"),
        (state_refused, "bits and counts of rules were not kept (rules_state_refused)"),
        (sessions_refused, "sessions were not inspected (rules_sessions_refused)"),
        (pieces_lost, "parts of streams before missing bytes were not inspected (rules_pieces_lost)"),
        (flows_forgotten, "connections were forgotten, for lack of memory (rules_flows_forgotten)"),
    ] as [(&AtomicU64, &str); 7]
    {
        let count = counter.load(Ordering::Relaxed);
        if count > 0 {
            note!("weir: {count} {what}");
        }
    }
}
