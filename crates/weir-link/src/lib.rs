//! Capture on links.
//!
//! [`Links`] is a source of packets over one or several interfaces. It has a part for each worker: `fanout` assigns
//! packets to parts in the kernel, so that both directions and all fragments of a connection reach the same part.
//!
//! * `links`: the source, its parts, and how a run ends.  `part`: the sockets of one worker.
//! * `link_socket`: what all sockets have in common.
//! * `xdp_socket`: a socket of the family AF_XDP for each queue; `umem`: its memory and rings; `redirect`: the XDP program that
//!   feeds it; `bpf`: loads programs.
//! * `packet_socket`: a socket of the family AF_PACKET with a ring of version TPACKET_V3; `ring`: the ring's memory.
//! * [`Sender`]: sends frames.
//! * [`interfaces`]: the interfaces of the machine, and what a process lacks to capture on them.
//! * `system`: the system calls.
//!
//! A packet stays in the ring while it is processed, and the kernel gets a block of the ring back once all of its packets are
//! processed: a ring's memory has [`Retention::Copy`](weir_packet::Retention::Copy). The ring is bounded. The kernel counts
//! packets that find the ring full.
#![deny(unsafe_code)]

mod bpf;
mod fanout;
pub mod interfaces;
mod link_socket;
mod links;
mod names;
mod options;
mod packet_socket;
mod part;
mod redirect;
mod ring;
mod sender;
mod system;
mod umem;
mod xdp_socket;

pub use links::Links;
pub use names::NamedInterface;
pub use options::{LinkOptions, Method, Note, Notes};
pub use sender::Sender;
