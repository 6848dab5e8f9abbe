//! Who is given streams.

use super::{Chunk, StreamHandle};
use crate::flow::EndReason;
use crate::order::Order;

/// Is given the streams that questions asked for: the part of a [`Subscriber`](crate::subscriber::Subscriber) that is
/// about streams.
///
/// Everything handed over is valid during the call only.
pub trait StreamSubscriber {
    /// A stream of which there is something to tell: its first bytes, or its end.
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

    /// A stream's flow is over.
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
