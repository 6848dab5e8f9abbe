//! A connection whose other end sends a capture.

use super::{Endpoint, Listener, connect_to};
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;

/// A message about a connection that says everything: neither a prefix nor a cause needs to be added.
#[derive(Debug)]
pub(crate) struct Unreadable(pub String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

/// Reads what the other end sends. The first read connects, or waits for a sender.
pub(crate) enum Sender {
    Named(Endpoint),
    Awaited(Listener),
    Connected(TcpStream),
}

impl Sender {
    fn connect(&mut self) -> io::Result<&mut TcpStream> {
        let stream = match self {
            Self::Connected(stream) => return Ok(stream),
            Self::Named(Endpoint::Connect { host, port }) => connect_to(host, *port)?,
            Self::Named(Endpoint::Listen { address, port }) => {
                let listener = Listener::bind(*address, *port)
                    .map_err(|error| io::Error::new(error.kind(), Unreadable(explain_unbound(&error))))?;
                await_sender(&listener)?
            }
            Self::Named(other) => unreachable!("{other} is no connection"),
            Self::Awaited(listener) => await_sender(listener)?,
        };
        *self = Self::Connected(stream);
        self.connect()
    }
}

/// Waits for one sender. The listener closes with its first connection, so that another sender is refused
/// instead of waiting.
fn await_sender(listener: &Listener) -> io::Result<TcpStream> {
    let accepted = listener.accept(|| false);
    accepted.map(|(stream, _)| stream).ok_or_else(|| ErrorKind::NotConnected.into())
}

/// Explains that no socket can listen, with a remedy.
pub fn explain_unbound(error: &io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::AddrInUse => ": another process listens on this port; use another port",
        ErrorKind::AddrNotAvailable => ": this host does not have the address",
        ErrorKind::PermissionDenied => ": ports below 1024 need a privilege; use another port",
        _ => "",
    };
    format!("cannot listen: {error}{remedy}")
}

impl Read for Sender {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.connect()?.read(out).map_err(|error| match error.kind() {
            ErrorKind::Interrupted => error,
            ErrorKind::ConnectionReset => {
                explained(&error, "the sender has ended, or rejected the connection")
            }
            ErrorKind::TimedOut => explained(&error, "the sender does not answer any more"),
            _ => explained(&error, "the connection failed"),
        })
    }
}

fn explained(error: &io::Error, why: &str) -> io::Error {
    let message = format!("the connection was lost: {why} ({error}); packets before are processed");
    io::Error::new(error.kind(), Unreadable(message))
}
