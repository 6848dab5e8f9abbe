//! Handlers: one per worker, run there, share nothing, and are merged at the end by the caller.

use super::datum::Needs;
use super::isolation::Isolation;
use crate::flow::connection::Connection;
use crate::items::item::Flow;
use std::any::Any;
use weir_packet::PacketMeta;
use weir_sessions::Session;

/// Processes the results of a question on the worker that finds them. One per worker and subscription.
///
/// ```
/// use weir::{Handler, Needs};
/// use weir::packet::PacketMeta;
///
/// /// Counts bytes on the wire.
/// #[derive(Debug, Default)]
/// struct Count(u64);
///
/// impl Handler for Count {
///     fn needs(needs: &mut Needs) {
///         needs.packets();
///     }
///
///     fn packet(&mut self, packet: &PacketMeta, _: &[u8]) {
///         self.0 += u64::from(packet.wire_bytes);
///     }
/// }
/// ```
pub trait Handler: Send + 'static {
    /// Adds the needs of the handler to those of the program.
    fn needs(needs: &mut Needs);

    /// Receives a packet, if the handler [needs](Needs::packets) packets. The filter may only depend on
    /// packets. Packets come as they arrive: of the fragments of a datagram, a filter on layers above selects
    /// the one that completes it.
    fn packet(&mut self, packet: &PacketMeta, frame: &[u8]) {
        let _ = (packet, frame);
    }

    /// Receives a session, if the handler [needs](Needs::sessions) sessions.
    fn session(&mut self, flow: &Flow, session: &dyn Session) {
        let _ = (flow, session);
    }

    /// Receives the record of a connection that has ended, if the handler [needs](Needs::connections)
    /// records.
    fn connection(&mut self, connection: &Connection) {
        let _ = connection;
    }
}

/// A handler with its type erased.
pub(crate) trait ErasedHandler: Send {
    fn packet(&mut self, packet: &PacketMeta, frame: &[u8]);
    fn session(&mut self, flow: &Flow, session: &dyn Session);
    fn connection(&mut self, connection: &Connection);
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// A handler whose panics are isolated.
struct Isolated<H> {
    handler: H,
    isolation: Isolation,
}

/// A handler with its type erased, and its panics isolated.
pub(crate) fn isolated<H: Handler>(handler: H, isolation: Isolation) -> Box<dyn ErasedHandler> {
    Box::new(Isolated { handler, isolation })
}

impl<H: Handler> ErasedHandler for Isolated<H> {
    fn packet(&mut self, packet: &PacketMeta, frame: &[u8]) {
        self.isolation.call(|| self.handler.packet(packet, frame));
    }

    fn session(&mut self, flow: &Flow, session: &dyn Session) {
        self.isolation.call(|| self.handler.session(flow, session));
    }

    fn connection(&mut self, connection: &Connection) {
        self.isolation.call(|| self.handler.connection(connection));
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        Box::new(self.handler)
    }
}
