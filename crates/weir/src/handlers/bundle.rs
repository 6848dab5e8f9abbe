//! The data for one call of a callback.

use crate::flow::connection::Connection;
use crate::items::item::{Bytes, Flow, Item};
use std::any::Any;
use std::sync::Arc;
use weir_packet::{PacketMeta, Row, Value};
use weir_sessions::Session;

/// A packet of matching traffic.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The metadata of the packet.
    pub meta: PacketMeta,
    /// The captured bytes.
    pub bytes: Vec<u8>,
}

/// An event, with the columns that the stack declares for it.
#[derive(Debug, Clone)]
pub struct EventRow {
    /// Values, in the order of [`EventRows::columns`](crate::EventRows).
    pub values: Vec<Value<'static>>,
}

/// The data for one call of a callback.
#[derive(Debug, Default, Clone)]
pub struct Bundle {
    pub(crate) flow: Option<Flow>,
    pub(crate) frame: Option<Frame>,
    pub(crate) connection: Option<Box<Connection>>,
    pub(crate) session: Option<Arc<dyn Session>>,
    pub(crate) sessions: Vec<Arc<dyn Session>>,
    pub(crate) event: Option<EventRow>,
    pub(crate) bytes: Option<Arc<Bytes>>,
    pub(crate) tracked: Option<Arc<dyn Any + Send + Sync>>,
    /// The connection is over.
    pub(crate) is_over: bool,
}

impl Bundle {
    pub(crate) fn of(item: Item<'_>) -> Self {
        let mut bundle = Self::default();
        match item {
            Item::Packet { meta, frame: bytes, .. } => bundle.frame = Some(Frame { meta, bytes }),
            Item::Whole(flow, session) => {
                bundle.flow = Some(*flow);
                bundle.session = Some(session);
            }
            Item::Connection(connection) => {
                bundle.flow = Some(Flow::of_record(&connection));
                bundle.connection = Some(connection);
                bundle.is_over = true;
            }
            Item::Tracked { connection, state, is_over } => {
                bundle.flow = Some(Flow::of_record(&connection));
                bundle.connection = Some(connection);
                bundle.tracked = Some(state);
                bundle.is_over = is_over;
            }
            Item::Bytes(flow, bytes) => {
                bundle.flow = Some(*flow);
                bundle.bytes = Some(bytes);
            }
            // Rows go to subscriptions of rows; pauses concern no callback.
            Item::Rows(_) | Item::Part(..) | Item::Pipeline(_) | Item::Pause => {}
        }
        bundle
    }

    /// The data of an event.
    pub(crate) fn of_event(row: Row<'_>) -> Self {
        let values = row.iter().map(|cell| cell.value().into_owned()).collect();
        Self { event: Some(EventRow { values }), ..Self::default() }
    }
}
