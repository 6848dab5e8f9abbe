//! What carries messages to a peer: [`Carrier`] from the side of a sink, [`Peer`] and [`Connection`] from the
//! side of a queue.

use crate::message::Message;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// Carries messages to a peer: `udp.rs` at once, `link.rs` from a queue.
pub trait Carrier: Send {
    /// Carries a message of this number of rows. A message that cannot be carried is lost, counted, and
    /// reported as an [`Event`]: this is no error, since the peer may come back.
    fn send(&mut self, rows: u32, bytes: Vec<u8>);

    /// Carries what it can, and ends.
    fn end(&mut self);
}

/// A remote receiver of messages, such as a collector of IPFIX or a broker. A [`Link`](crate::Link) connects
/// to it.
pub trait Peer: Send {
    /// Connects. May block for some seconds.
    ///
    /// # Errors
    /// There is no connection. The link tries again later.
    fn connect(&mut self) -> Result<Box<dyn Connection + '_>, Interruption>;
}

/// A connection to a receiver that acknowledges messages. All calls come from the thread of the link.
pub trait Connection {
    /// Whether the connection takes one more message now. Bounds the messages that are taken and not
    /// acknowledged.
    fn has_room(&self) -> bool;

    /// Takes a message. False: the message needs another connection, which follows when all others are
    /// acknowledged.
    fn take(&mut self, message: &Message) -> bool;

    /// Sends messages that were taken, as far as possible within a short time. Also called while there is
    /// nothing to send. `lost_rows`: the rows that were not sent so far.
    ///
    /// # Errors
    /// The connection cannot be used any longer.
    fn work(&mut self, lost_rows: u64) -> Result<(), Interruption>;

    /// The number of messages that the receiver has acknowledged since the last call, in the order in which
    /// they were taken. Also called after a failure.
    fn acknowledged(&mut self) -> usize;

    /// Whether the receiver accepts messages.
    fn standing(&mut self) -> Standing;

    /// Ends the connection, whose messages are all acknowledged. `lost_rows`: as for [`work`](Self::work).
    fn end(&mut self, lost_rows: u64);
}

/// Whether a receiver accepts messages.
#[derive(Debug)]
pub enum Standing {
    /// Not known yet.
    Unknown,
    /// The receiver accepts messages.
    Accepting,
    /// The receiver does not accept messages at present; the connection itself goes on to try.
    Interrupted(Interruption),
}

/// Why a receiver does not accept messages.
#[derive(Debug)]
pub enum Interruption {
    /// There is no connection.
    Connection(io::Error),
    /// The receiver has refused, for this reason.
    Refusal(String),
}

impl From<io::Error> for Interruption {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

/// What a protocol adds to messages in datagrams, or in a stream of bytes.
pub trait Protocol: Send {
    /// A stream to a peer begins: nothing was sent on this stream.
    fn begin(&mut self);

    /// Appends what the peer needs before messages with this context.
    fn announce(&mut self, context: &[u8], now: SystemTime, out: &mut Vec<u8>);

    /// Appends a message.
    fn frame(&mut self, message: &Message, now: SystemTime, out: &mut Vec<u8>);

    /// Appends a report about the exporter, if the protocol has one. `lost_rows`: the rows that were not sent
    /// so far.
    fn report(&mut self, lost_rows: u64, now: SystemTime, out: &mut Vec<u8>);
}

/// What happens to messages on their way.
#[derive(Debug)]
pub enum Event {
    /// Rows are lost: the queue was full, the peer refused them, or they were not sent before the end.
    Lost(u64),
    /// The receiver accepts messages.
    Connected,
    /// There is no connection, for this reason: another attempt follows. Reported once for each interruption.
    Disconnected(io::Error),
    /// The receiver has refused messages, for this reason: another attempt follows. Reported once for each
    /// interruption.
    Rejected(String),
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
