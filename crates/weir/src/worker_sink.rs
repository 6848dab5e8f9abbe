//! Processing of a question's results on the worker itself.

use crate::engine::{HandlerSink, TrackSink};
use crate::stream_handler::StreamSink;
use std::sync::Arc;

/// How a worker processes the results of a question.
pub(crate) enum WorkerSink {
    /// The worker does not process them: results go to the caller of the run.
    None,
    /// A handler of streams.
    Stream(Box<dyn StreamSink>),
    /// User-defined state per connection.
    Track(Box<dyn TrackSink>),
    /// A handler of packets, sessions and connections.
    Handler(Box<dyn HandlerSink>),
    /// By the handler of the question this many places before.
    Behind(usize),
}

/// Creates a worker's part of a question.
pub(crate) type MakeWorkerSink = Arc<dyn Fn() -> WorkerSink + Send + Sync>;
