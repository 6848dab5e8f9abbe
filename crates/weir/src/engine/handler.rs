//! Handlers: run on the workers, one per worker, share nothing, and are merged at the end by whoever made them.

use super::datum::Needs;
use crate::connection::Connection;
use crate::item::Flow;
use std::any::Any;
use weir_packet::PacketMeta;
use weir_sessions::Session;

/// What is done with what a question gives, where it is found. One per worker and subscription.
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
    /// What it is to be given.
    fn needs(needs: &mut Needs);

    /// A packet, where it [needs](Needs::packets) them. The filter must be one on packets alone.
    fn packet(&mut self, packet: &PacketMeta, frame: &[u8]) {
        let _ = (packet, frame);
    }

    /// A session, where it [needs](Needs::sessions) them.
    fn session(&mut self, flow: &Flow, session: &dyn Session) {
        let _ = (flow, session);
    }

    /// A connection that is over, where it [needs](Needs::connections) them.
    fn connection(&mut self, connection: &Connection) {
        let _ = connection;
    }
}

/// A handler, its type forgotten.
pub(crate) trait HandlerSink: Send {
    fn packet(&mut self, packet: &PacketMeta, frame: &[u8]);
    fn session(&mut self, flow: &Flow, session: &dyn Session);
    fn connection(&mut self, connection: &Connection);
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

impl<H: Handler> HandlerSink for H {
    fn packet(&mut self, packet: &PacketMeta, frame: &[u8]) {
        Handler::packet(self, packet, frame);
    }

    fn session(&mut self, flow: &Flow, session: &dyn Session) {
        Handler::session(self, flow, session);
    }

    fn connection(&mut self, connection: &Connection) {
        Handler::connection(self, connection);
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
