//! The data path: tables, sequences, timers, counters.
//!
//! * [`table`]: flows by key; entries that never move, buckets of one cache line.
//! * [`timer`]: when flows end for want of packets.
//!
//! No input or output, no clock (time is an argument), and no protocol is named here.
#![deny(unsafe_code)]

pub mod table;
pub mod timer;
