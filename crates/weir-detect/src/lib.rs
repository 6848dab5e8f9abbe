//! Runs [rules](weir_rules) over packets, streams and sessions.
//!
//! A [`RuleProgram`] is built once from the rules: it numbers buffers, expressions and names of bits, sorts
//! the rules, and searches the best pattern of each rule with those of all others. [`Detection`] is the
//! question of a run: which sessions are parsed, whether streams are reassembled, and a
//! [`FlowTask`](weir::flow_task::FlowTask) on each worker that inspects each packet with the bytes and the
//! sessions that the packet completed. An alert is a row with the [`COLUMNS`].
//!
//! Read in this order: `ruleset` (what is prepared), `worker` (a packet's way), `candidates`, `ports` and
//! `patterns` (which rules are looked at), `verdict` (whether a rule matches), `buffers` (what a session's
//! buffers hold), `ongoing` (sessions that go on), `state` (bits, counters and thresholds), `alert` (the
//! row).

#![forbid(unsafe_code)]

mod addresses;
mod alert;
mod app;
mod buffers;
mod candidates;
mod contents;
mod counters;
mod events;
mod expressions;
mod fields;
mod flow;
mod http;
mod ongoing;
mod packet;
mod patterns;
mod ports;
mod ruleset;
mod session_tests;
mod state;
mod support;
mod transforms;
mod verdict;
mod worker;

pub use alert::COLUMNS;
pub use contents::FirstBytes;
pub use counters::Counters;
pub use ruleset::RuleProgram;
pub use worker::Detection;
