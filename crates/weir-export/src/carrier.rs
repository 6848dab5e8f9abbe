//! What carries messages to a peer ([`Carrier`]), and what a protocol adds to them on the way ([`Protocol`]).

use crate::message::Message;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// Carries messages to a peer: `udp.rs` at once, `link.rs` over TCP from a queue.
pub trait Carrier: Send {
    /// Carries a message of this number of rows. A message that cannot be carried is lost, counted, and reported as an
    /// [`Event`]: this is no error, since the peer may come back.
    fn send(&mut self, rows: u32, bytes: Vec<u8>);

    /// Carries what it can, and ends.
    fn end(&mut self);
}

/// What a protocol adds to messages.
pub trait Protocol: Send {
    /// A stream to a peer begins: nothing was sent on this stream.
    fn begin(&mut self);

    /// Appends what the peer needs before messages with this context.
    fn announce(&mut self, context: &[u8], now: SystemTime, out: &mut Vec<u8>);

    /// Appends a message.
    fn frame(&mut self, message: &Message, now: SystemTime, out: &mut Vec<u8>);

    /// Appends a report about the exporter, if the protocol has one. `lost_rows`: the rows that were not sent so far.
    fn report(&mut self, lost_rows: u64, now: SystemTime, out: &mut Vec<u8>);
}

/// What happens to messages on their way.
#[derive(Debug)]
pub enum Event {
    /// Rows are lost: the queue was full, the peer refused them, or they were not sent before the end.
    Lost(u64),
    /// The connection is established.
    Connected,
    /// There is no connection, for this reason: another attempt follows. Reported once for each interruption.
    Disconnected(io::Error),
    /// The peer's host answers that nothing receives datagrams. Reported once.
    Refused,
    /// The queue on disk fails. Reported once.
    Disk(io::Error),
    /// Bytes of the queue on disk were damaged, and are given up.
    Damaged(u64),
    /// Rows stay in the queue on disk, at least this number: the next run sends them.
    Kept(u64),
    /// A message was acknowledged, at the end of the run.
    Progress,
}

/// Receives [`Event`]s, on any thread. May be called while a queue is locked: must not block.
#[derive(Clone)]
pub struct Notify(Arc<dyn Fn(Event) + Send + Sync>);

impl Notify {
    /// Calls `notify` for each event.
    pub fn new(notify: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(notify))
    }

    pub(crate) fn tell(&self, event: Event) {
        (self.0)(event);
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notify")
    }
}
