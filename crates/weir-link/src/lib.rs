//! Capture on links.
//!
//! [`Links`] is a source of packets over one or several interfaces. It has a share for each worker:
//! `fanout_program` assigns packets to shares in the kernel, so that both directions and all fragments of a
//! connection reach the same share.
//!
//! * `links`: the source. `share`: the sockets of one worker, and how a capture ends. `interface_states`:
//!   which interfaces are down.
//! * `clock_watch`: whether the machine's clock is set.
//! * `link_socket`: what all sockets have in common.
//! * `xdp_socket`: a socket of the family AF_XDP for each queue; `umem`: its memory and rings.
//! * [`dpdk`]: whether devices of DPDK can be captured, and its thread. `dpdk_queue`: a queue of a device of
//!   DPDK, which is captured without the kernel.
//! * `header_rules`: rules by which a device of DPDK discards packets that no question needs.
//! * `sieve`: discards packets in the kernel that no question needs. `place`: where its filters run.
//!   `loader`: who loads them, this process or its `keeper`; `proof`: what the keeper accepts.
//! * `flow_map`: the connections whose packets the kernel counts; `flow_maps`: their current table.
//! * `programs`: the programs that the kernel runs, with the filters of the questions; `assembly`: writes
//!   them; `bpf`: loads them; [`trial`]: runs them on single frames.
//! * `fanout`: the number of a packet's pair of hosts; `fanout_program`: selects the worker by this number;
//!   `placement`: loads that program, and has its tables. `balance`: moves new pairs away from workers that
//!   fall behind; `places`: which ones.
//! * `packet_socket`: a socket of the family AF_PACKET with a ring of version TPACKET_V3; `ring`: the ring's
//!   memory.
//! * [`Sender`]: sends frames.  [`live_frames`]: sends more of them than programs receive, for benchmarks.
//! * [`interfaces`]: the interfaces of the machine, and what a process lacks to capture on them.
//! * `system`: the system calls.
//!
//! A packet stays in the ring while it is processed, and the kernel gets a block of the ring back once all of
//! its packets are processed: a ring's memory has [`Retention::Copy`](weir_packet::Retention::Copy). The ring
//! is bounded. The kernel counts packets that find the ring full.
#![deny(unsafe_code)]

mod assembly;
mod balance;
mod bpf;
mod card;
mod clock_watch;
pub mod dpdk;
mod dpdk_queue;
mod fanout;
mod fanout_program;
mod flow_map;
mod flow_maps;
mod header_rules;
mod interface_states;
pub mod interfaces;
mod keeper;
mod link_socket;
mod links;
pub mod live_frames;
mod loader;
mod names;
mod options;
mod packet_socket;
mod place;
mod placement;
mod places;
mod programs;
mod proof;
mod ring;
mod sender;
mod share;
mod sieve;
mod system;
pub mod trial;
mod umem;
mod xdp_socket;

pub use keeper::Keeper;
pub use links::Links;
pub use loader::{Divided, Loader};
pub use names::NamedInterface;
pub use options::{LinkOptions, Method, Note, Notes};
pub use sender::Sender;
pub use system::{keep_lookups_built_in, unacknowledged_bytes};
