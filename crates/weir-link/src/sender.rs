//! Sends frames on an interface, for tests and for replay.

use crate::system::{Socket, interface_index, link_address, wait_to_send};
use std::io;

/// Sends frames on one interface. A frame includes its link-layer header.
#[derive(Debug)]
pub struct Sender(Socket);

impl Sender {
    /// Opens the interface of this name. Receives nothing.
    ///
    /// # Errors
    /// If there is no such interface, or the process lacks CAP_NET_RAW.
    pub fn open(name: &str) -> io::Result<Self> {
        let socket = Socket::new(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
        // Without a protocol the socket receives nothing.
        socket.bind(&link_address(interface_index(name)?, 0))?;
        Ok(Self(socket))
    }

    /// Sends a frame, beginning with its link layer. Waits while the interface's queue is full.
    ///
    /// # Errors
    /// If the frame is shorter than its link layer or longer than the interface allows (`EMSGSIZE`), or the
    /// interface is down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        loop {
            match self.0.send(frame) {
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => wait_to_send(&self.0)?,
                result => return result,
            }
        }
    }
}
