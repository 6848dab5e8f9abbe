//! The form of a question's answers.

use weir::io::{CaptureFormat, Format};

/// The form that answers take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Rows in a format.
    Rows(Format),
    /// Lines of the question's own format (`grep`), in colours or without.
    Lines { color: bool },
    /// The frames, as a capture file.
    Capture(CaptureFormat),
    /// The number of answers.
    Count,
}

impl Form {
    /// Whether rows are written in this format.
    pub fn is(self, format: Format) -> bool {
        self == Form::Rows(format)
    }
}
