//! The options of a run of several questions.

use crate::options;
use std::path::PathBuf;

options! {
    /// The options of `run` beside those of its input.
    #[derive(Clone)]
    pub struct RunOptions {
        "" {
            /// Listen on this socket for requests of `weir ctl`
            control: Option<PathBuf>, shown("SOCKET");
        }
        "Output" {
            /// Print counters, memory by owner, and counts and cycles per stage to standard error at the end
            stats: bool;
        }
    }
    beside {}
}
