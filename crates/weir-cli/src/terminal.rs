//! The terminal: messages on standard error, colours, and width.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use weir::packet::printable;

/// Whether diagnostics are coloured.
pub fn stderr_color() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Whether rows are coloured.
pub fn stdout_color() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Prints a message to standard error, without characters that control the terminal: it may name files, or repeat text
/// of others. A closed standard error is not a failure of the run.
pub fn say(words: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", printable(&words.to_string(), &['\n', '\t']));
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
