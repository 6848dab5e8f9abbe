//! Packets over UDP.
//!
//! A [`FrontEnd`] sends packets to instances of applications. The key of a packet selects the instance. A
//! [`Receiver`] gives the packets back, in order, and counts those that are missing. It also reads TZSP,
//! which routers and access points send.
//!
//! * [`Name`]: the names of both ends on the command line.
//! * [`wire`]: the form of datagrams.  `pack`: packets into datagrams.  `unpack`: one datagram into packets.
//! * [`Balance`]: keys to instances.  `front_end`: sockets and datagrams of all instances.
//! * `streams`: the order of datagrams, and which are missing. `tzsp`: the other form of datagrams.
//!   `receiver`: the socket and its form.
//! * `socket`: the system calls.
//!
//! `wire`, `pack`, `unpack`, `streams`, `tzsp` and `balance` do no input or output, and time is an argument.
#![deny(unsafe_code)]

mod balance;
mod counters;
mod front_end;
mod name;
mod pack;
mod receiver;
mod socket;
mod streams;
mod tzsp;
mod unpack;
pub mod wire;

pub use balance::{Balance, INSTANCES_MAX, hash};
pub use counters::{ArrivalCounts, Arrivals};
pub use front_end::{FrontEnd, SendLosses, SendNote};
pub use name::{End, Form, Name};
pub use receiver::{Received, Receiver};
pub use streams::Streams;
pub use tzsp::Senders;

use weir_packet::{LinkType, Timestamp};

/// Bytes of a packet at most: the largest snapshot length of captures. Longer ones are not sent, and not
/// accepted.
pub const PACKET_BYTES_MAX: usize = 262_144;

/// A packet that is sent or received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Time of capture.
    pub time: Timestamp,
    /// Bytes on the wire; at least those of `frame`.
    pub wire_bytes: u32,
    /// Link type of the interface.
    pub link: LinkType,
    /// The captured bytes.
    pub frame: &'a [u8],
}
