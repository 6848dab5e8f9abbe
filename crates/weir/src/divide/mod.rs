//! For programs that divide a capture: the class of a packet (`packet_classes`), and the pair of hosts to
//! which it belongs (`host_pairs`). Each compiles a small program, and runs it on a worker of its own.

pub(crate) mod host_pairs;
pub(crate) mod packet_classes;
pub(crate) mod ticked_worker;
