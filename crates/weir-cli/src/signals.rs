//! Signals that end a run: the packets read so far are processed, and output files are complete. A second
//! signal terminates the process, if it comes [later](SECOND_AFTER). One that goes to all processes of the
//! name, or of a unit, reaches the worker of a capture twice: directly, and by its keeper.

use crate::shortage;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;
use weir_questions::messages::Failure;
use weir_questions::source::Cut;
use weir_questions::source::Ender;

/// Signals that end a run, with their names.
const SIGNALS: [(i32, &str); 3] = [(SIGINT, "SIGINT"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")];

/// Time between the first signal and one that is meant as a second one.
pub const SECOND_AFTER: Duration = Duration::from_millis(250);

/// The next signal terminates the process.
static IS_STOPPED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Handlers that make the next signal terminate the process, as soon as the first one comes. They are removed
/// when a thread [waits](wait_elsewhere) for signals.
static FIRST_SIGNAL_HANDLERS: Mutex<Vec<SigId>> = Mutex::new(vec![]);

/// The caller waits for signals from now on, and [says](terminate_at_next) when the next one is a second one.
pub fn wait_elsewhere() {
    let handlers = std::mem::take(&mut *FIRST_SIGNAL_HANDLERS.lock().unwrap_or_else(PoisonError::into_inner));
    for handler in handlers {
        signal_hook::low_level::unregister(handler);
    }
}

/// The next signal terminates the process.
pub fn terminate_at_next() {
    IS_STOPPED.store(true, Ordering::Relaxed);
}

/// What SIGHUP means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// The terminal was closed: the run ends.
    Ends,
    /// The file of questions is read again.
    Reloads,
}

/// Installs the handlers of the signals. Returns what they do to captures.
///
/// # Errors
/// The system refuses a handler.
pub fn install(hangup: Hangup) -> Result<Ender, Failure> {
    let signal = Arc::new(AtomicUsize::new(0));
    let ends = |number: i32| number != SIGHUP || hangup == Hangup::Ends;
    for (number, _) in SIGNALS.into_iter().filter(|(number, _)| ends(*number)) {
        // The order matters: the first handler must find the flag unset.
        signal_hook::flag::register_conditional_default(number, Arc::clone(&IS_STOPPED))
            .map_err(Failure::new)?;
        let handler = signal_hook::flag::register(number, Arc::clone(&IS_STOPPED)).map_err(Failure::new)?;
        FIRST_SIGNAL_HANDLERS.lock().unwrap_or_else(PoisonError::into_inner).push(handler);
        signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)
            .map_err(Failure::new)?;
    }
    let ender = Ender(signal);
    shortage::ends(&ender);
    Ok(ender)
}

/// If a signal cut the captures short: reports the signal, and returns the exit status of a process that it
/// ended. Live input returns `None`, since only a signal ends it.
pub fn status_of(cut: Cut) -> Option<ExitCode> {
    let (_, name) = SIGNALS.iter().find(|(signal, _)| *signal as usize == cut.number)?;
    say!("weir: {name} after {} packets; the packets before are processed", cut.packets);
    (!cut.is_live).then(|| ExitCode::from(128 + cut.number as u8))
}
