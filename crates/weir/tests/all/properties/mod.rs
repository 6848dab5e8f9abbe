//! Properties of the whole program: they hold for any filter and any traffic. Every failure prints the seed
//! that reproduces it.
//!
//! * `engines`: native ≡ interpreter, optimised ≡ unoptimised.
//! * `libpcap`: ours ≡ libpcap, on the common subset of filters.
//! * `streams`: streams are delivered as sent, with gaps where bytes are missing.
//! * `strict`: strict reassembly delivers only bytes that the receiver accepts.
//! * `evasion`: forged segments change no answer; every captured byte is in one column.
//! * `subscriptions`: several questions share one reassembly; cutoffs, chunks, classes, memory.
//! * `packet_keys`: packets have equal keys exactly if the fields are equal.
//! * `packets`: the packets of a stream, in the order of its bytes.
//! * `probing`: a protocol is recognised however its first bytes are segmented.
//! * `registry`: a registry of many session protocols.
//! * `aggregates`: the rows of aggregates are those of a naive model, `aggregate_model`.
//! * `answers`: originators and responders when packets are missing.
//! * `unions`: `A or B` matches what `A` or `B` matches; `not A` matches the rest.
//! * `workers`: the same items in the same order, with any number of workers.
//! * `accounts`: every packet read is delivered, filtered or dropped, exactly once.
//! * `events`: each row of an event is filtered by itself.  `gaps`: statements and events for missing bytes.
//! * `clock`: wrong packet times.  `anomalies`: abnormal TCP segments.
//! * `idle`: time passes without packets.
//! * `messages`: messages in streams.  `wholes`: messages made of chunks.
//! * `above`: filters on layers above a connection.
//! * `claims`: headers and ports with false claims.
//! * `many`: stacks of many layers and many events.
//! * `memory`: packet memory that is returned to its source with each burst.
//! * `layers`: `engines` for damaged packets of every layer that has a capture.
//! * `fragments`: all fragments of a datagram that matches are delivered.
//! * `detail`: layers and fields of packets, and their bytes.
//! * `account`: what connections cost is counted.
//! * `hostile`: malicious traffic: no panics, bounded memory.
//! * `samples`: a share of the connections.
//! * `kernel`: filters in the kernel pass all packets that matter.
//! * `taken_over`: connections that the kernel takes over have the same rows; `taken_over_bounds`: with full
//!   tables, and on bad networks; `taken_over_changes`: while questions change.
//! * `keys`: flows keyed by something other than addresses and ports.
//! * `texts`: randomly generated protocols give the same results in every engine.
//! * `joined`: exchanges whose messages are in two connections are one row.
//! * `quic_midway`: QUIC connections without their handshake.
//! * `corpus`: seeds of fuzzers, replayed.  `shipped`: the capture in `examples/` and its servers' logs.
//!
//! `weir_testing` generates packets (`frames`), conversations (`traffic`) and filters (`filters`); `drive`
//! runs them.

mod above;
mod account;
mod accounts;
mod aggregate_model;
mod aggregates;
mod announced;
mod anomalies;
mod answers;
mod carried;
mod claims;
mod clock;
mod corpus;
mod detail;
mod drive;
mod ends;
mod engines;
mod evasion;
mod events;
mod fragments;
mod gaps;
mod header_rules;
mod hostile;
mod idle;
mod joined;
mod kernel;
mod keys;
mod layers;
mod libpcap;
mod many;
mod memory;
mod messages;
mod pacing;
mod packet_keys;
mod packets;
mod probing;
mod quality;
mod question_losses;
mod quic_midway;
mod ranges;
mod registry;
mod reuse;
mod samples;
mod sharing;
mod shipped;
mod streams;
mod strict;
mod subscriptions;
mod taken_over;
mod taken_over_bounds;
mod taken_over_changes;
mod texts;
mod tunnels;
mod unions;
mod wholes;
mod workers;
