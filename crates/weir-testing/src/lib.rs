//! Generators, oracles and fuzz entry points; for tests and fuzzers only. No crate depends on this one
//! outside its tests; `xtask` takes [`Random`] and [`tshark`]. `examples/kernel_costs.rs` (feature `kernel`)
//! measures filters in the kernel.
//!
//! | module | feature | generates | checks |
//! |---|---|---|---|
//! | [`Random`] | | numbers from a seed | |
//! | [`graph`] | `graph` | valid graphs and frames | two programs: equal outcomes of `drive` |
//! | [`language`] | `language` | a catalogue of fields | protocol texts and filters: refused with a diagnostic, or printed and read again |
//! | [`conversation`] | `conversation` | both sides of a connection | what holds of every session parser |
//! | [`frames`] | `frames` | frames of Ethernet, IP, TCP …, random and damaged ones | |
//! | [`traffic`] | `frames` | TCP conversations over a bad network | |
//! | [`filters`] | `language` | filters over all fields | |
//! | [`capture`] | `capture` | | what a source promises; pcapng written and read again |
//! | [`datagrams`] | `capture` | | what receivers of packets over UDP promise |
//! | [`rules`] | `rules` | | texts of rules and of their settings: refused with a diagnostic, or run over a payload |
//! | [`engines`] | `engines` | protocol texts, filters, packets | native code and passes against the interpreter |
//! | [`tshark`] | `tshark` | | bytes of connections and contents of files, as tshark has them |
//!
//! The functions named `fuzz_*` take any bytes and panic if a property does not hold. The fuzzers in `fuzz/`
//! (at the root of the repository) call them, and `crates/weir/tests/all/properties/corpus.rs` calls them for
//! the files in `corpus/`.
//!
//! Unit tests of `weir-sessions` and `weir-io` include `conversation.rs` and `capture.rs` by path: for a unit
//! test, the types of a dev-dependency are not those of the crate under test.
#![forbid(unsafe_code)]

#[cfg(feature = "capture")]
pub mod capture;
#[cfg(feature = "engines")]
mod choices;
#[cfg(feature = "conversation")]
pub mod conversation;
#[cfg(feature = "capture")]
pub mod datagrams;
#[cfg(feature = "engines")]
pub mod engines;
#[cfg(feature = "language")]
pub mod filters;
#[cfg(feature = "frames")]
pub mod frames;
#[cfg(feature = "graph")]
pub mod graph;
#[cfg(feature = "language")]
pub mod language;
mod random;
#[cfg(feature = "rules")]
pub mod rules;
#[cfg(feature = "engines")]
mod texts;
#[cfg(feature = "frames")]
pub mod traffic;
#[cfg(feature = "tshark")]
pub mod tshark;

pub use random::Random;
