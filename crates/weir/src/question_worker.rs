//! How a worker processes the results of a question itself.

use crate::aggregate::PacketAggregator;
use crate::engine::{ErasedHandler, TrackStore};
use crate::records::RecordGrouper;
use crate::stream_handler::ErasedStreamHandler;
use std::sync::Arc;

/// How a worker processes the results of a question.
pub(crate) enum QuestionWorker {
    /// Not at all: results go to the caller of the run.
    None,
    /// A handler of streams.
    Stream(Box<dyn ErasedStreamHandler>),
    /// User-defined state per connection.
    Track(Box<dyn TrackStore>),
    /// The groups of an aggregate of packets.
    Aggregate(Box<PacketAggregator>),
    /// The packet vectors of groups.
    Records(Box<RecordGrouper>),
    /// A handler of packets, sessions and connections.
    Handler(Box<dyn ErasedHandler>),
    /// As for the question this many places before, which has the same handler.
    Behind(usize),
}

/// Creates a worker's part of a question.
pub(crate) type MakeQuestionWorker = Arc<dyn Fn() -> QuestionWorker + Send + Sync>;
