//! Processing of a question's results on the worker itself.

use crate::engine::{HandlerSink, TrackSink};
use crate::stream_handler::StreamSink;
use std::sync::Arc;

/// How a worker processes the results of a question.
pub(crate) enum WorkerSink {
    /// Not at all: results go to the caller of the run.
    None,
    /// A handler of streams.
    Stream(Box<dyn StreamSink>),
    /// User-defined state per connection.
    Track(Box<dyn TrackSink>),
    /// A handler of packets, sessions and connections.
    Handler(Box<dyn HandlerSink>),
    /// As for the question this many places before, which has the same handler.
    Behind(usize),
}

/// Creates a worker's part of a question.
pub(crate) type MakeWorkerSink = Arc<dyn Fn() -> WorkerSink + Send + Sync>;
