//! How a worker processes the results of a question itself.

use super::flow_inspector::ErasedInspector;
use super::flow_task::FlowWorker;
use super::handler::ErasedHandler;
use super::stream_handler::ErasedStreamHandler;
use super::track::TrackStore;
use super::worker_pipeline::WorkerPipeline;
use std::sync::Arc;

/// How a worker processes the results of a question.
pub(crate) enum QuestionWorker {
    /// Not at all: results go to the caller of the run.
    None,
    /// A handler of streams.
    Stream(Box<dyn ErasedStreamHandler>),
    /// User-defined state per connection.
    Track(Box<dyn TrackStore>),
    /// An inspector of connections, which adds columns to their rows.
    Inspector(Box<dyn ErasedInspector>),
    /// The operators that take the question's packets.
    Pipeline(Box<dyn WorkerPipeline>),
    /// The task that takes the question's connections.
    Flows(Box<FlowWorker>),
    /// A handler of packets, sessions and connections.
    Handler(Box<dyn ErasedHandler>),
    /// As for the question this many places before, which has the same handler.
    Behind(usize),
}

/// Creates a worker's part of a question.
pub(crate) type MakeQuestionWorker = Arc<dyn Fn() -> QuestionWorker + Send + Sync>;
