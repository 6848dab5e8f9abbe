//! Signals that end a run: the packets read so far are processed, and output files are complete. A second
//! signal terminates the process.

use crate::shortage;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use weir_questions::messages::Failure;
use weir_questions::source::Cut;
use weir_questions::source::Ender;

/// Signals that end a run, with their names.
const SIGNALS: [(i32, &str); 3] = [(SIGINT, "SIGINT"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")];

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
    let (is_stopped, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let ends = |number: i32| number != SIGHUP || hangup == Hangup::Ends;
    for (number, _) in SIGNALS.into_iter().filter(|(number, _)| ends(*number)) {
        // The order matters: the first handler must find the flag unset, and terminates the process at the
        // second signal.
        signal_hook::flag::register_conditional_default(number, Arc::clone(&is_stopped))
            .map_err(Failure::new)?;
        signal_hook::flag::register(number, Arc::clone(&is_stopped)).map_err(Failure::new)?;
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
