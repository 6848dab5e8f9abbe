//! Scripts in Lua over packets and flows: FlowScope's interface, with filters, keys and fields that Weir
//! compiles.
//!
//! A [`Script`] is a file of Lua that returns a table, its module. Each worker has a machine of LuaJIT of its
//! own, which has loaded the file. Packets are given to it in batches, and its flows are rows of a table of
//! Weir.
//!
//! | file | has |
//! |---|---|
//! | `script.rs`, `options.rs`, `shared.rs` | [`Script`]: the file, its question, and what its workers share |
//! | `manifest.rs` | what a module states |
//! | `c_struct.rs` | the layout of C structs, for machines without FFI |
//! | `machine.rs` | a machine of Lua, trusted or not; the file with `unsafe` |
//! | `runtime.rs` | the calls of a module |
//! | `trusted.rs`, `trusted.lua` | calls of a module with FFI: one for each batch |
//! | `untrusted.rs`, `views.rs`, `untrusted.lua` | calls of a module without FFI: one for each packet, with a time limit |
//! | `batch.rs` | packets that wait for their call |
//! | `tables.rs` | the flows, of a worker or shared by workers |
//! | `worker.rs`, `checker.rs` | a module on a worker: batches, flows, checks |
//! | `host.rs` | what a module may call: rows, printing, the time; counters of its mistakes |
//!
//! Without the feature `vm` the crate is empty.
#![deny(unsafe_code)]

#[cfg(feature = "vm")]
mod batch;
#[cfg(feature = "vm")]
mod c_struct;
#[cfg(feature = "vm")]
mod checker;
#[cfg(feature = "vm")]
mod host;
#[cfg(feature = "vm")]
mod machine;
#[cfg(feature = "vm")]
mod manifest;
#[cfg(feature = "vm")]
mod options;
#[cfg(feature = "vm")]
mod runtime;
#[cfg(feature = "vm")]
mod script;
#[cfg(feature = "vm")]
mod shared;
#[cfg(feature = "vm")]
mod tables;
#[cfg(feature = "vm")]
mod trusted;
#[cfg(feature = "vm")]
mod untrusted;
#[cfg(feature = "vm")]
mod views;
#[cfg(feature = "vm")]
mod worker;

#[cfg(feature = "vm")]
pub use host::{Counters, DumpRequest, FAILURES_MAX, Host, Notice};
#[cfg(feature = "vm")]
pub use options::{ScriptError, ScriptOptions};
#[cfg(feature = "vm")]
pub use script::Script;
