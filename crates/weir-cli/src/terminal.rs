//! The terminal: messages on standard error, colours, and width.

use crate::listener::Listener;
use clap::ValueEnum;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir::packet::printable;

/// Only errors are printed.
static IS_QUIET: AtomicBool = AtomicBool::new(false);
/// Counters are printed at the end.
static IS_VERBOSE: AtomicBool = AtomicBool::new(false);

/// Sets what is printed beside errors.
pub fn set_verbosity(is_quiet: bool, is_verbose: bool) {
    IS_QUIET.store(is_quiet, Ordering::Relaxed);
    IS_VERBOSE.store(is_verbose, Ordering::Relaxed);
}

/// Whether only errors are printed.
pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Whether counters are printed at the end of a run.
pub fn is_verbose() -> bool {
    IS_VERBOSE.load(Ordering::Relaxed)
}

/// Prints a warning, unless only errors are printed. A [`Listener`] of the thread receives the warning
/// instead.
pub fn note(words: fmt::Arguments<'_>) {
    if !is_quiet() {
        say(words);
    }
}

/// As [`note`], for a message that says how the run proceeds.
pub fn inform(words: fmt::Arguments<'_>) {
    match Listener::current() {
        Some(listener) => listener.hear(&words.to_string(), false),
        None => note(words),
    }
}

/// When to use colours.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    Auto,
    Always,
    Never,
}

impl Colors {
    /// Whether rows for this output are coloured; `None`: standard output.
    pub fn are_used(self, output: Option<&Path>) -> bool {
        match self {
            Self::Auto => output.is_none() && stdout_color(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Whether diagnostics are coloured.
pub fn stderr_color() -> bool {
    is_coloured(&io::stderr())
}

/// Whether rows are coloured.
pub fn stdout_color() -> bool {
    is_coloured(&io::stdout())
}

/// <https://no-color.org>
fn is_coloured(out: &impl IsTerminal) -> bool {
    out.is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Messages that wait because the terminal shows a screen; `None`: messages are printed.
static HELD: Mutex<Option<VecDeque<String>>> = Mutex::new(None);

/// Messages that wait at most; earlier ones are lost.
const HELD_MAX: usize = 100;

fn held() -> MutexGuard<'static, Option<VecDeque<String>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds messages back from now on: the terminal shows a screen, which they would damage.
pub fn hold() {
    held().get_or_insert_default();
}

/// Whether messages are held back.
pub fn is_held() -> bool {
    held().is_some()
}

/// The last message that is held back.
pub fn last_held() -> Option<String> {
    held().as_ref()?.back().cloned()
}

/// Prints the messages that were held back, and further ones as before.
pub fn release() {
    let messages = held().take();
    messages.into_iter().flatten().for_each(|message| say(format_args!("{message}")));
}

/// Prints a message to standard error, without characters that control the terminal: it may name files, or
/// repeat text of others. A closed standard error is not a failure of the run. A [`Listener`] of the thread
/// receives the message instead.
pub fn say(words: fmt::Arguments<'_>) {
    if let Some(listener) = Listener::current() {
        return listener.hear(&printable(&words.to_string(), &['\n', '\t']), true);
    }
    if let Some(messages) = &mut *held() {
        if messages.len() == HELD_MAX {
            messages.pop_front();
        }
        return messages.push_back(words.to_string());
    }
    let _ = writeln!(io::stderr(), "{}", printable(&words.to_string(), &['\n', '\t']));
}

/// Prints to standard output.
///
/// # Errors
/// Those of standard output.
pub fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Prints rendered diagnostics to standard error, with their colours.
pub fn say_rendered(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Width of the terminal in columns.
pub fn width() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    said.or_else(|| console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns)))
}
