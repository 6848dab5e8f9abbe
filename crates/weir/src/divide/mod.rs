//! For programs that divide a capture: the class of a packet (`packet_classes`), the pair of hosts to which
//! it belongs (`host_pairs`), and where its headers are (`header_finder`). Each compiles a small program
//! of its own.

pub(crate) mod header_finder;
pub(crate) mod host_pairs;
pub(crate) mod packet_classes;
pub(crate) mod ticked_worker;
