//! The terminal: messages on standard error, colours, and width.

use clap::ValueEnum;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir::io::{Format, sink};
use weir::packet::RowSink;
use weir_questions::messages::{Failure, Level, Listener, Message};
use weir_questions::output::place;
use weir_questions::{Screen, Stdout};

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

/// Prints the messages of the process from now on.
pub fn listen() {
    Listener::new(hear).of_process();
}

/// Prints a message to standard error, unless only errors are printed.
fn hear(message: Message) {
    if is_quiet() && matches!(message.level(), Level::Warning | Level::Progress) {
        return;
    }
    if let Some(messages) = &mut *held() {
        if messages.len() == HELD_MAX {
            messages.pop_front();
        }
        return messages.push_back(message);
    }
    print_line(&message);
}

/// A closed standard error is not a failure of the run.
fn print_line(message: &Message) {
    let _ = writeln!(io::stderr(), "{}", message.line(stderr_color()));
}

/// The terminal of standard output.
pub fn screen() -> Option<Screen> {
    let is_terminal = io::stdout().is_terminal();
    is_terminal.then(|| Screen { is_colored: stdout_color(), width: width() })
}

/// The sink of a listing command: rows on standard output, in the given format or a default.
///
/// # Errors
/// There is no such format, or a terminal cannot show it.
pub fn listing(format: Option<&str>) -> Result<Box<dyn RowSink + Send>, Failure> {
    let stdout = Stdout { is_shared: false, screen: screen() };
    let format: Format = match format {
        Some(name) => name.parse().map_err(Failure::new)?,
        None if stdout.screen.is_some() => Format::Table,
        None => Format::Json,
    };
    place::refuse_terminal(format, None, stdout)?;
    Ok(sink::create(format, Box::new(place::open(None)?), &place::options("", None, stdout)))
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
static HELD: Mutex<Option<VecDeque<Message>>> = Mutex::new(None);

/// Messages that wait at most; earlier ones are lost.
const HELD_MAX: usize = 100;

fn held() -> MutexGuard<'static, Option<VecDeque<Message>>> {
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
    held().as_ref()?.back().map(|message| message.line(false).to_string())
}

/// Prints the messages that were held back, and further ones as before.
pub fn release() {
    let messages = held().take();
    messages.into_iter().flatten().for_each(|message| print_line(&message));
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

/// Width of the terminal in columns.
fn width() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    said.or_else(|| console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns)))
}
