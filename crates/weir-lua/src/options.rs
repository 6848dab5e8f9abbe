//! The text of a script, and what is wrong with it.

use std::fmt;
use weir::lang::diag::Diagnostics;

/// The text of a script, and what it may do.
#[derive(Debug, Clone)]
pub struct ScriptOptions {
    /// The name of the file, for messages.
    pub name: String,
    /// The text of the file.
    pub text: String,
    /// The arguments of the module: `weir.args`.
    pub arguments: Vec<String>,
    /// The script may use FFI and all libraries: it has the rights of the process, and nothing ends its
    /// loops.
    pub is_trusted: bool,
}

/// Why a script cannot run.
#[derive(Debug)]
pub enum ScriptError {
    /// In the file: a line with its name.
    Message(String),
    /// Mistakes in a text that Weir compiles.
    Mistakes(Diagnostics),
}

impl ScriptError {
    pub(crate) fn new(name: &str, message: String) -> Self {
        Self::Message(if message.starts_with(name) { message } else { format!("{name}: {message}") })
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message) => f.write_str(message),
            Self::Mistakes(list) => f.write_str(&list.render(false)),
        }
    }
}
