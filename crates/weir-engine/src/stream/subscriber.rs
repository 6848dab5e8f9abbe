//! The receiver of streams.

use super::{Chunk, StreamHandle};
use crate::flow::EndReason;
use crate::order::Order;

/// Receives the streams that questions asked for: the part of a [`Subscriber`](crate::subscriber::Subscriber)
/// for streams.
///
/// All references are valid during the call only.
pub trait StreamSubscriber {
    /// A stream begins: called before its first bytes, or before its end.
    fn stream_created(&mut self, order: Order, question: usize, stream: &mut StreamHandle<'_>) {
        let _ = (order, question, stream);
    }

    /// Bytes of a stream, in order.
    fn stream_data(
        &mut self,
        order: Order,
        question: usize,
        stream: &mut StreamHandle<'_>,
        chunk: &Chunk<'_>,
    ) {
        let _ = (order, question, stream, chunk);
    }

    /// All bytes of a stream have been delivered: its end was in order.
    fn stream_closed(&mut self, order: Order, question: usize, stream: &mut StreamHandle<'_>) {
        let _ = (order, question, stream);
    }

    /// A stream ends with its flow.
    fn stream_terminated(
        &mut self,
        order: Order,
        question: usize,
        stream: &mut StreamHandle<'_>,
        reason: EndReason,
    ) {
        let _ = (order, question, stream, reason);
    }
}
