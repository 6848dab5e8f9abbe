//! Sends frames on an interface, for tests and for replay.

use crate::system::{Socket, interface_index, wait_to_send};
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
        socket.bind(&libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: 0,
            sll_ifindex: interface_index(name)? as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        })?;
        Ok(Self(socket))
    }

    /// Sends a frame, beginning with its link layer. Waits while the interface's queue is full.
    ///
    /// # Errors
    /// If the frame is shorter than its link layer or longer than the interface allows (`EMSGSIZE`), or the interface is
    /// down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        loop {
            match self.0.send(frame) {
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => wait_to_send(&self.0)?,
                result => return result,
            }
        }
    }
}
