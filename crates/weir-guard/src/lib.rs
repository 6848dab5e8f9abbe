//! What other users of the machine may not reach.
//!
//! Packets, contents and rows say what people do, and another user of the machine is a stranger to them. Each
//! rule is here once; every crate that creates a file, opens a socket file or accepts a connection calls it.
//!
//! - [`files`]: files are 0600 and directories 0700 from their creation on; no link is followed
//! - [`sockets`]: socket files with these rights, without a moment in which they have others
//! - [`owner`]: the user whose files these are
//! - [`peers`]: which users may connect over the loopback; `diag.rs` asks the kernel whose a connection is
//! - [`secrets`]: files with a token, which others must not read; random texts
//!
//! Nothing here knows packets.
#![forbid(unsafe_code)]

mod diag;
pub mod files;
pub mod owner;
pub mod peers;
pub mod secrets;
pub mod sockets;
