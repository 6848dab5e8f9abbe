//! Generators, oracles and fuzz entry points; for tests and fuzzers only. No crate depends on this one outside its
//! tests.
//!
//! | module | feature | generates | checks |
//! |---|---|---|---|
//! | [`Random`] | | numbers from a seed | |
//! | [`graph`] | `graph` | valid graphs and frames | that two programs have equal outcomes of `drive` |
//! | [`language`] | `language` | a catalogue of fields | that texts and filters are refused with a diagnostic, or printed and read again |
//! | [`conversation`] | `conversation` | both directions of a connection | the properties of every session parser |
//! | [`capture`] | `capture` | | the guarantees of a source; pcapng written and read again |
//! | [`engines`] | `engines` | protocol texts, filters, packets | native code and passes against the interpreter |
//!
//! The functions named `fuzz_*` take any bytes and panic if a property does not hold. The fuzzers in `fuzz/` (at the
//! root of the repository) call them, and `crates/weir/tests/properties/corpus.rs` calls them for the files in
//! `corpus/`.
//!
//! Unit tests of `weir-sessions` and `weir-io` include `conversation.rs` and `capture.rs` by path: for a unit test, the
//! types of a dev-dependency are not those of the crate under test.
#![forbid(unsafe_code)]

#[cfg(feature = "capture")]
pub mod capture;
#[cfg(feature = "engines")]
mod choices;
#[cfg(feature = "conversation")]
pub mod conversation;
#[cfg(feature = "engines")]
pub mod engines;
#[cfg(feature = "graph")]
pub mod graph;
#[cfg(feature = "language")]
pub mod language;
mod random;
#[cfg(feature = "engines")]
mod texts;

pub use random::Random;
