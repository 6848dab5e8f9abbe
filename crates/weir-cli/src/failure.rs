//! What went wrong, as people are told it, and the exit status.

use crate::terminal;
use std::fmt;
use std::io;
use std::process::ExitCode;
use weir::lang::diag::Diagnostics;

/// Why a command stopped.
pub enum Failure {
    /// The author's mistake: filter or `.weir` text.
    Mistakes(Diagnostics),
    /// Whoever read our output went away: success.
    BrokenPipe,
    /// The environment's, or a wrong use; one line.
    Message(String),
    /// Several at once, at least one.
    Several(Vec<Failure>),
}

impl Failure {
    /// A message.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::Message(message.to_string())
    }

    /// All of them, where there is one at all.
    pub fn all(failures: Vec<Self>) -> Result<(), Self> {
        if failures.is_empty() { Ok(()) } else { Err(Self::Several(failures)) }
    }

    /// Both. Who went away is said nothing of beside another failure.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Failure::BrokenPipe, other) | (other, Failure::BrokenPipe) => other,
            (Failure::Several(mut all), other) => {
                all.push(other);
                Failure::Several(all)
            }
            (one, other) => Failure::Several(vec![one, other]),
        }
    }

    /// What stopped us from writing a file, or standard output, of this name.
    pub fn writing(name: impl fmt::Display, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::Message(format!("{name}: {error}")),
        }
    }

    /// The same, of one question of several.
    pub fn of_question(self, name: &str) -> Self {
        match self {
            Failure::BrokenPipe => Failure::BrokenPipe,
            Failure::Mistakes(list) => {
                Failure::Message(format!("question `{name}`:\n{}", list.render(terminal::stderr_color())))
            }
            Failure::Message(message) => Failure::Message(format!("question `{name}`: {message}")),
            Failure::Several(all) => {
                Failure::Several(all.into_iter().map(|one| one.of_question(name)).collect())
            }
        }
    }

    /// Prints it to standard error; the exit status.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::BrokenPipe => return ExitCode::SUCCESS,
            Failure::Mistakes(list) => say!("{}", list.render(terminal::stderr_color())),
            Failure::Message(message) => say!("weir: {message}"),
            Failure::Several(all) => {
                for one in all {
                    one.report();
                }
            }
        }
        ExitCode::from(2)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Mistakes(list) => f.write_str(&list.render(false)),
            Failure::BrokenPipe => f.write_str("the reader of the output has closed it"),
            Failure::Message(message) => f.write_str(message),
            Failure::Several(all) => {
                let lines: Vec<String> = all.iter().map(Failure::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // A sink's own words: the format has no room for such rows.
            io::ErrorKind::Other => Failure::new(error),
            _ => Failure::writing("cannot write the output", &error),
        }
    }
}

impl From<Diagnostics> for Failure {
    fn from(list: Diagnostics) -> Self {
        Failure::Mistakes(list)
    }
}
