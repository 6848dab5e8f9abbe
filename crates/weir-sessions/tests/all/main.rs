//! Parsers of sessions: ladders, properties, and the shared captures. One program, so that the crate is
//! linked once.

mod ftp;
mod handshakes;
mod http;
mod mailbox;
mod properties;
mod smtp;
mod support;
mod traces;
