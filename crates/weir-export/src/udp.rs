//! Messages as datagrams: [`Datagrams`]. UDP promises nothing: datagrams may be lost on the way, without a
//! trace here.

use crate::carrier::{Carrier, Event, Notify, Protocol};
use crate::message::Message;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How often the context is announced again, since a collector may start late or lose a datagram (RFC 7011,
/// section 8.4).
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(60);
/// Likewise, in messages.
const ANNOUNCE_MESSAGES: u32 = 1000;

/// Sends each message as a datagram, at once.
pub struct Datagrams {
    socket: UdpSocket,
    protocol: Box<dyn Protocol>,
    context: Arc<[u8]>,
    notify: Notify,
    /// When the context was announced, and the number of messages since.
    announced: Option<(Instant, u32)>,
    /// Rows of the message before.
    last_rows: u32,
    lost_rows: u64,
    was_refused: bool,
}

impl std::fmt::Debug for Datagrams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Datagrams").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Datagrams {
    /// Sends messages with this context to the peer of a connected socket.
    pub fn new(
        socket: UdpSocket,
        mut protocol: Box<dyn Protocol>,
        context: Arc<[u8]>,
        notify: Notify,
    ) -> Self {
        protocol.begin();
        Self {
            socket,
            protocol,
            context,
            notify,
            announced: None,
            last_rows: 0,
            lost_rows: 0,
            was_refused: false,
        }
    }

    /// Announces the context if the peer may not have it.
    fn announce(&mut self, now: SystemTime) {
        let is_due = self.announced.is_none_or(|(when, messages)| {
            messages >= ANNOUNCE_MESSAGES || when.elapsed() >= ANNOUNCE_INTERVAL
        });
        if !is_due {
            return;
        }
        let mut datagram = vec![];
        self.protocol.announce(&self.context, now, &mut datagram);
        self.transmit(&datagram, 0);
        self.announced = Some((Instant::now(), 0));
        self.report(now);
    }

    fn report(&mut self, now: SystemTime) {
        let mut datagram = vec![];
        self.protocol.report(self.lost_rows, now, &mut datagram);
        self.transmit(&datagram, 0);
    }

    fn transmit(&mut self, datagram: &[u8], rows: u32) {
        if datagram.is_empty() {
            return;
        }
        let mut sent = self.socket.send(datagram);
        if sent.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
            // The error is that of the datagram before; this one was not sent.
            self.add_lost(self.last_rows);
            // A collector that starts has no context.
            self.announced = None;
            if !std::mem::replace(&mut self.was_refused, true) {
                self.notify.tell(Event::Refused);
            }
            sent = self.socket.send(datagram);
        }
        let is_sent = sent.is_ok();
        if !is_sent {
            self.add_lost(rows);
        }
        self.last_rows = if is_sent { rows } else { 0 };
    }

    fn add_lost(&mut self, rows: u32) {
        if rows > 0 {
            self.lost_rows += u64::from(rows);
            self.notify.tell(Event::Lost(rows.into()));
        }
    }
}

impl Carrier for Datagrams {
    fn send(&mut self, rows: u32, bytes: Vec<u8>) {
        let now = SystemTime::now();
        self.announce(now);
        let message = Message { rows, bytes, context: Arc::clone(&self.context) };
        let mut datagram = vec![];
        self.protocol.frame(&message, now, &mut datagram);
        self.transmit(&datagram, rows);
        if let Some((_, messages)) = &mut self.announced {
            *messages += 1;
        }
    }

    fn end(&mut self) {
        if self.announced.is_some() {
            self.report(SystemTime::now());
        }
    }
}
