//! The terminal: what is said on standard error, whether colours are used, how wide it is.

use std::fmt;
use std::io::{self, IsTerminal, Write};

/// Whether diagnostics are coloured.
pub fn stderr_color() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Whether rows are coloured.
pub fn stdout_color() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Says something on standard error. That nobody listens is no trouble of the run.
pub fn say(words: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{words}");
}

/// Columns of the terminal.
pub fn width() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    said.or_else(|| console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns)))
}
