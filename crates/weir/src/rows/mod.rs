//! The rows that are reported: of packets, sessions and their parts, events, tunnels, and of what is odd.
//! Each file has the columns of one kind of row, and writes their cells; `format_packet` writes the line of
//! a packet. [`shape`] says which of these rows, and which of their columns, a question wants; `values` are
//! the values by which rows and packets are grouped.

pub(crate) mod events;
pub(crate) mod format_packet;
pub(crate) mod odd;
pub(crate) mod packet;
pub(crate) mod row_maker;
pub(crate) mod session;
pub(crate) mod shape;
pub(crate) mod tunnel;
pub(crate) mod values;
