//! Libraries of the system that Weir loads when it needs them. Nothing is linked against them, so Weir starts
//! where they are not installed.
//!
//! - `loader.rs`: [`Library`], which loads a library and finds its functions
//! - [`vectorscan`]: literals, searched in blocks of bytes
//! - [`ndpi`]: the application protocol of a flow
//!
//! Each library has a folder. In `library.rs` are the types of its functions and the check of its version, in
//! `mod.rs` the calls. No other file has `unsafe` code. `weir-dpdk` loads its plug-in with the same loader.

mod loader;
pub mod ndpi;
pub mod vectorscan;

pub use loader::{Library, LoadError};
