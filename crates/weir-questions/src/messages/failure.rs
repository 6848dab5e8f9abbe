//! Errors and their messages.

use super::file_bounds;
use super::listener::{Level, Message};
use std::fmt;
use std::io;
use weir::lang::diag::Diagnostics;

/// Why something stopped.
pub enum Failure {
    /// The author's mistake, in a filter or `.weir` text.
    Mistakes(Diagnostics),
    /// The author's mistake in the question of this name.
    MistakesOf(String, Diagnostics),
    /// The reader of our output closed it. This counts as success.
    BrokenPipe,
    /// An error of the environment, or of usage; one line.
    Message(String),
    /// Several failures; at least one.
    Several(Vec<Failure>),
    /// A failure that was said before.
    Reported,
}

/// An error of writing, with its remedy.
pub fn of_writing(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!(
                "{error}: free space, or bound the files with --rotate and --keep; nothing more is written here"
            )
        }
        io::ErrorKind::FileTooLarge => {
            format!("{error}: divide the output with --rotate; nothing more is written here")
        }
        io::ErrorKind::PermissionDenied => format!("{error}{}", file_bounds::remedy_of_writing()),
        _ => error.to_string(),
    }
}

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::Message(message.to_string())
    }

    /// All failures as one; `Ok` if there are none.
    pub fn all(failures: Vec<Self>) -> Result<(), Self> {
        if failures.is_empty() { Ok(()) } else { Err(Self::Several(failures)) }
    }

    /// Both failures. A broken pipe is not reported beside another failure.
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

    /// A failure to write a file, or standard output, of this name.
    pub fn writing(name: impl fmt::Display, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::Message(format!("{name}: {}", of_writing(error))),
        }
    }

    /// A failure to read a file of this name.
    pub fn reading(name: impl fmt::Display, error: &io::Error) -> Self {
        Failure::Message(format!("{name}: {error}{}", file_bounds::remedy_of_reading(error)))
    }

    /// The same failure, with the name of the question that it belongs to.
    pub fn of_question(self, name: &str) -> Self {
        match self {
            same @ (Failure::BrokenPipe | Failure::Reported) => same,
            Failure::Mistakes(list) => Failure::MistakesOf(name.to_string(), list),
            named @ Failure::MistakesOf(..) => named,
            Failure::Message(message) => Failure::Message(format!("question `{name}`: {message}")),
            Failure::Several(all) => {
                Failure::Several(all.into_iter().map(|one| one.of_question(name)).collect())
            }
        }
    }

    /// Says what failed.
    pub fn report(&self) {
        let show = |list: &Diagnostics| {
            Message::rendered(|is_colored| list.render(is_colored), Level::Error).tell();
        };
        match self {
            Failure::BrokenPipe | Failure::Reported => {}
            Failure::Mistakes(list) => show(list),
            Failure::MistakesOf(name, list) => {
                say!("weir: question `{name}`:");
                show(list);
            }
            Failure::Message(message) => say!("weir: {message}"),
            Failure::Several(all) => all.iter().for_each(Failure::report),
        }
    }

    /// Whether the failure counts as success: the reader of the output closed it.
    pub fn is_success(&self) -> bool {
        matches!(self, Failure::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Mistakes(list) => f.write_str(&list.render(false)),
            Failure::MistakesOf(name, list) => write!(f, "question `{name}`:\n{}", list.render(false)),
            Failure::BrokenPipe => f.write_str("the reader of the output has closed it"),
            Failure::Message(message) => f.write_str(message),
            Failure::Reported => Ok(()),
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
            // Errors of this kind come from a sink, whose format cannot hold such rows.
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
