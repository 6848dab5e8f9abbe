//! The key of a packet: fields of packets as one number. Packets with equal fields have equal numbers, in
//! every run and on every machine, so that a front end sends them to the same instance
//! ([`Balance`](weir_io::udp::Balance)).
//!
//! * `shared`: the key, and its numbers.  `plan`: the key of a text, and the question with the key.

mod plan;
mod shared;

pub use shared::PacketKey;
pub(crate) use shared::PlacedKey;
