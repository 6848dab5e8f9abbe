//! The form of a question's answers.

use weir::io::{CaptureFormat, Format};

/// The form of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Rows in a format.
    Rows(Format),
    /// Lines in the question's own format (`grep`), with or without colours.
    Lines { color: bool },
    /// Frames, in a capture file.
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
