//! The progress bar of a run over large files.

use crate::terminal;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use weir::packet::Source;

/// Minimum input size, in bytes, for a progress bar.
const BYTES_MIN: u64 = 64 << 20;

/// A progress bar, if standard error is a terminal and the input is large.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// The bar of a run over this source.
    pub fn of(source: &dyn Source) -> Self {
        Self(Self::bar(source))
    }

    fn bar(source: &dyn Source) -> Option<ProgressBar> {
        let total = source.progress().1?;
        let has_no_line = !std::io::stderr().is_terminal() || terminal::is_quiet() || terminal::is_held();
        if total < BYTES_MIN || has_no_line {
            return None;
        }
        let style =
            ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}").ok()?;
        Some(ProgressBar::new(total).with_style(style))
    }

    /// Shows how far the source has come.
    pub fn show(&self, source: &dyn Source) {
        self.0.iter().for_each(|bar| bar.set_position(source.progress().0));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.iter().for_each(ProgressBar::finish_and_clear);
    }
}
