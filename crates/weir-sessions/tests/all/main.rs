//! Parsers of sessions: ladders, properties, and the shared captures. One program, so that the crate is
//! linked once.

/// Tests measure what parsers hold.
#[global_allocator]
static ALLOCATOR: weir_memory::Counted<std::alloc::System> = weir_memory::Counted(std::alloc::System);

mod ftp;
mod handshakes;
mod http;
mod mailbox;
mod properties;
mod smtp;
mod support;
mod traces;
