//! What workers do themselves with what a question is given.

use crate::engine::{HandlerSink, TrackSink};
use crate::stream_handler::StreamSink;
use std::sync::Arc;

/// What a worker does itself with what a question is given.
pub(crate) enum WorkerSink {
    /// Nothing: it goes to whoever started the run.
    None,
    /// Streams.
    Stream(Box<dyn StreamSink>),
    /// What is kept of each connection.
    Track(Box<dyn TrackSink>),
    /// Anything.
    Handler(Box<dyn HandlerSink>),
    /// What the question so many before this one does: they are of one handler.
    Behind(usize),
}

/// Makes a worker's part of a question.
pub(crate) type MakeWorkerSink = Arc<dyn Fn() -> WorkerSink + Send + Sync>;
