//! Messages over TCP, to a peer without acknowledgements of its own: [`StreamPeer`].
//!
//! A message is acknowledged when the system of the peer has acknowledged its last byte. The peer's system
//! acknowledges before its program reads: TCP does not tell what a program that was killed had read.

use crate::carrier::{Connection, Interruption, Peer, Protocol, Standing};
use crate::message::Message;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Bytes that are written together.
const WRITE_BYTES: usize = 64 << 10;
/// How long a write may block.
const WRITE_WAIT: Duration = Duration::from_millis(100);
/// How often the exporter reports about itself.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Connects to the peer. May block for some seconds.
pub type Connect = Box<dyn FnMut() -> io::Result<TcpStream> + Send>;

/// A peer that reads a stream of bytes.
pub struct StreamPeer {
    connect: Connect,
    unacknowledged: fn(&TcpStream) -> io::Result<usize>,
    protocol: Box<dyn Protocol>,
}

impl fmt::Debug for StreamPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamPeer").finish_non_exhaustive()
    }
}

impl StreamPeer {
    /// A peer that `connect` connects to. `unacknowledged`: the bytes that were written and that the peer's
    /// system has not acknowledged, also after the connection has failed.
    pub fn new(
        connect: Connect,
        unacknowledged: fn(&TcpStream) -> io::Result<usize>,
        protocol: Box<dyn Protocol>,
    ) -> Self {
        Self { connect, unacknowledged, protocol }
    }
}

impl Peer for StreamPeer {
    fn connect(&mut self) -> Result<Box<dyn Connection + '_>, Interruption> {
        let stream = (self.connect)()?;
        stream.set_write_timeout(Some(WRITE_WAIT))?;
        self.protocol.begin();
        Ok(Box::new(Stream {
            stream,
            unacknowledged: self.unacknowledged,
            protocol: &mut *self.protocol,
            bytes: vec![],
            done: 0,
            written: 0,
            in_flight: VecDeque::new(),
            context: None,
            reported: Instant::now(),
        }))
    }
}

/// A connection over TCP.
struct Stream<'p> {
    stream: TcpStream,
    unacknowledged: fn(&TcpStream) -> io::Result<usize>,
    protocol: &'p mut dyn Protocol,
    /// Bytes to write, of which `done` are written.
    bytes: Vec<u8>,
    done: usize,
    /// Bytes written on this connection.
    written: u64,
    /// The messages that are not acknowledged: where they end.
    in_flight: VecDeque<u64>,
    /// The context that was announced.
    context: Option<Arc<[u8]>>,
    reported: Instant,
}

impl Stream<'_> {
    /// Writes a part of the bytes. Returns when the write would block for long.
    fn write(&mut self) -> io::Result<()> {
        let blocked = [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted];
        match self.stream.write(&self.bytes[self.done..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                self.written += written as u64;
                self.done += written;
            }
            Err(error) if blocked.contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
        if self.done == self.bytes.len() {
            self.bytes.clear();
            self.done = 0;
        }
        Ok(())
    }
}

impl Connection for Stream<'_> {
    /// Messages that are being written are not added to.
    fn has_room(&self) -> bool {
        self.done == 0 && self.bytes.len() < WRITE_BYTES
    }

    fn take(&mut self, message: &Message) -> bool {
        let now = SystemTime::now();
        match &self.context {
            Some(context) if *context == message.context => {}
            Some(_) => return false,
            None => {
                self.protocol.announce(&message.context, now, &mut self.bytes);
                self.context = Some(Arc::clone(&message.context));
            }
        }
        self.protocol.frame(message, now, &mut self.bytes);
        self.in_flight.push_back(self.written + self.bytes.len() as u64);
        true
    }

    fn work(&mut self, lost_rows: u64) -> Result<(), Interruption> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error.into());
        }
        if self.context.is_some() && self.has_room() && self.reported.elapsed() >= REPORT_INTERVAL {
            self.reported = Instant::now();
            self.protocol.report(lost_rows, SystemTime::now(), &mut self.bytes);
        }
        if !self.bytes.is_empty() {
            self.write()?;
        }
        Ok(())
    }

    fn acknowledged(&mut self) -> usize {
        if self.in_flight.is_empty() {
            return 0;
        }
        // A system that does not tell leaves only one assumption.
        let waiting = (self.unacknowledged)(&self.stream).unwrap_or(0) as u64;
        let acknowledged = self.written.saturating_sub(waiting);
        let count = self.in_flight.partition_point(|end| *end <= acknowledged);
        self.in_flight.drain(..count);
        count
    }

    fn standing(&mut self) -> Standing {
        Standing::Accepting
    }

    fn end(&mut self, lost_rows: u64) {
        if self.context.is_some() {
            self.protocol.report(lost_rows, SystemTime::now(), &mut self.bytes);
        }
        // A peer that does not read does not get the report; a peer may also have closed its end first.
        let begin = Instant::now();
        while !self.bytes.is_empty() && begin.elapsed() < WRITE_WAIT && self.write().is_ok() {}
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
