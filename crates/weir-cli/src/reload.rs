//! SIGHUP reads the file of questions again, while packets go on: kept questions continue with all of their
//! state. A file with mistakes changes nothing.
//!
//! A run on a terminal is different: there, SIGHUP says that the terminal was closed, and ends the run.

use crate::failure::Failure;
use crate::input;
use crate::input_options::Input;
use crate::output;
use crate::question_changes::QuestionChanges;
use crate::question_set::QuestionSet;
use crate::spec::{QuestionSpec, RunLink};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use std::io::IsTerminal;
use std::sync::{Arc, Weak};
use weir::WeakControl;

/// Reads the questions of a file again.
pub type ReadAgain = Box<dyn Fn() -> Result<Vec<QuestionSpec>, Failure> + Send>;

/// Reads the script or the rules of a question again: the question goes on.
pub fn again_of(link: &RunLink, spec: &QuestionSpec) -> ReadAgain {
    let (spec, link) = (spec.clone(), link.clone());
    Box::new(move || {
        link.0.reload.get().map_or(Ok(()), |reload| reload())?;
        Ok(vec![spec.clone()])
    })
}

/// The file of questions of a run.
pub struct Reload {
    /// Its name.
    pub file: String,
    pub read_again: ReadAgain,
}

/// Whether SIGHUP reloads questions: the run is live, and has no terminal that could be closed.
pub fn applies(input: &Input) -> bool {
    output::is_live(input) && !std::io::stdin().is_terminal() && !std::io::stderr().is_terminal()
}

/// From now on, SIGHUP does not end the process: the file of questions has just been read.
///
/// # Errors
/// The handler of the signal cannot be created.
pub fn prepare() -> Result<(), Failure> {
    signal_hook::flag::register(SIGHUP, Arc::default()).map_err(Failure::new).map(drop)
}

/// Reloads at each SIGHUP, until the run ends.
///
/// # Errors
/// The thread, or the handler of the signal, cannot be created.
pub fn watch(
    reload: Reload,
    first: &[QuestionSpec],
    control: WeakControl,
    set: &Arc<QuestionSet>,
) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGHUP]).map_err(Failure::new)?;
    let (mut stated, set) = (first.to_vec(), Arc::downgrade(set));
    let thread = std::thread::Builder::new().name("weir-reload".into());
    let waiting = thread.spawn(move || {
        input::read_again();
        for _ in signals.forever() {
            let Some(changes) = changes(&control, &set) else { return };
            match again(&reload, &stated, &changes) {
                Ok(now) => stated = now,
                Err(failure) => {
                    say!("weir: {}: the questions stay as they are, because of mistakes:", reload.file);
                    failure.report();
                }
            }
            changes.reopen();
        }
    });
    waiting.map(drop).map_err(Failure::new)
}

/// `None`: the run has ended.
fn changes(control: &WeakControl, set: &Weak<QuestionSet>) -> Option<QuestionChanges> {
    Some(QuestionChanges::new(control.upgrade()?, set.upgrade()?))
}

/// Changes the questions `before` of the file to those that it has now, which are returned.
fn again(
    reload: &Reload,
    before: &[QuestionSpec],
    changes: &QuestionChanges,
) -> Result<Vec<QuestionSpec>, Failure> {
    let now = (reload.read_again)()?;
    let active = changes.list().map_err(Failure::new)?;
    // A question that failed, for instance because of a full disk, begins again. One that reached its limit
    // does not.
    let is_kept = |spec: &QuestionSpec| before.contains(spec) && !changes.has_failed(&spec.name);
    let (kept, new): (Vec<QuestionSpec>, Vec<QuestionSpec>) = now.into_iter().partition(is_kept);
    // A question that only gets other instances continues; `weir ctl` may have changed them since the last
    // reload.
    let is_of_file = |one: &QuestionSpec| before.iter().any(|spec| spec == one || spec.is_rescaled(one));
    let rescales = |spec: &QuestionSpec| active.iter().any(|one| is_of_file(one) && spec.is_rescaled(one));
    let (rescaled, new): (Vec<QuestionSpec>, Vec<QuestionSpec>) =
        new.into_iter().partition(|spec| rescales(spec) && !changes.has_failed(&spec.name));
    let continues = |one: &QuestionSpec| rescaled.iter().any(|spec| spec.name == one.name);
    let stays = |one: &QuestionSpec| kept.iter().any(|spec| spec.name == one.name) || continues(one);
    let gone = active.iter().filter(|one| is_of_file(one) && !stays(one));
    let previous: Vec<&QuestionSpec> = gone.collect();
    let gone: Vec<&str> = previous.iter().map(|one| one.name.as_str()).collect();
    let stay = active.iter().filter(|one| !continues(one)).map(|one| one.name.as_str());
    let stay: Vec<&str> = stay.filter(|name| !gone.contains(name)).collect();
    let _handover = changes.hand_over(&previous, &new);
    changes.check(&[&new[..], &rescaled].concat(), &stay)?;
    // A changed question may write to the same file, so the previous one ends first.
    for why in gone.iter().filter_map(|name| changes.remove(name).err()) {
        say!("weir: {}: {why}", reload.file);
    }
    let (gone, mut now, mut begun) = (gone.len(), kept, 0);
    let continuing = now.len() + rescaled.len();
    for spec in rescaled {
        match changes.change(&spec.name, spec.output.clone().unwrap_or_default()) {
            Ok(()) => now.push(spec),
            Err(why) => {
                say!("weir: {}: {why}", reload.file);
                now.extend(active.iter().find(|one| one.name == spec.name).cloned());
            }
        }
    }
    for spec in new {
        match changes.add(spec.clone()) {
            Ok(remark) => {
                remark.iter().for_each(|remark| say!("weir: {}: `{}`: {remark}", reload.file, spec.name));
                begun += 1;
                now.push(spec);
            }
            // Some mistakes are found only when all questions are compiled together. The run then continues
            // with the previous version of the question. The next reload tries the new version again.
            Err(why) => {
                say!("weir: {}: {why}", reload.file);
                let previous = previous.iter().find(|one| one.name == spec.name);
                if let Some(previous) = previous
                    && changes.add((*previous).clone()).is_ok()
                {
                    now.push((*previous).clone());
                }
            }
        }
    }
    note!("weir: {}: reloaded: {begun} questions begin, {gone} end, {continuing} continue", reload.file);
    Ok(now)
}
