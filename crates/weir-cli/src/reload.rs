//! SIGHUP reads the file of questions again, while packets go on: kept questions continue with all of their
//! state. A file with mistakes changes nothing.
//!
//! A run on a terminal is different: there, SIGHUP says that the terminal was closed, and ends the run.

use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use std::io::IsTerminal;
use std::sync::{Arc, Weak};
use weir::WeakControl;
use weir_questions::Input;
use weir_questions::messages::Failure;
use weir_questions::run::QuestionChanges;
use weir_questions::run::QuestionSet;
use weir_questions::source::input;
use weir_questions::{QuestionSpec, RunLink};

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
    input::is_live(input) && !std::io::stdin().is_terminal() && !std::io::stderr().is_terminal()
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
            match (reload.read_again)().and_then(|now| changes.replace(&stated, now, &reload.file)) {
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
