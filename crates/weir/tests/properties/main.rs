//! Properties of the whole: they hold for any filter and any traffic. Every failure prints the seed
//! that brings it back.
//!
//! * `engines`: native ≡ interpreter, optimised ≡ unoptimised.
//! * `libpcap`: ours ≡ libpcap's, on what both can be asked.
//! * `streams`: streams come out as they were sent, with gaps where bytes are missing.
//! * `subscriptions`: several questions share one reassembly; cutoffs, chunks, classes, memory.
//! * `packets`: the packets of a stream, in the order of its bytes.
//! * `probing`: a protocol is recognised however its first bytes are cut.
//! * `registry`: a registry of many session protocols.
//! * `unions`: `A or B` is what `A` is and what `B` is; `not A` the rest.
//! * `workers`: the same items in the same order, whatever the number of workers.
//! * `accounts`: every packet read is delivered, filtered or dropped, once.
//! * `events`: rows of events fulfil their filters themselves.
//! * `clock`: wrong times of packets.  `anomalies`: segments that nobody honest sends.
//! * `idle`: time passes without packets.
//! * `wholes`: messages made of chunks.
//! * `above`: what layers above a connection say of it.
//! * `claims`: headers and ports that claim what is not.
//! * `many`: stacks of many layers and many events.
//! * `layers`: the same of damaged packets of every layer that has a capture.
//! * `hostile`: traffic that means harm: nothing panics, nothing grows without bound.
//! * `texts`: protocols that nobody wrote mean the same to every engine.
//! * `corpus`: what fuzzers start from, replayed.  `shipped`: what we know of the capture that we ship.
//!
//! What they share: `frames` builds packets, `traffic` conversations, `filters` filters, `drive` runs.

mod above;
mod accounts;
mod anomalies;
mod answers;
mod claims;
mod clock;
mod corpus;
mod drive;
mod engines;
mod events;
mod filters;
mod frames;
mod hostile;
mod idle;
mod layers;
mod libpcap;
mod many;
mod messages;
mod packets;
mod probing;
mod registry;
mod shipped;
mod streams;
mod strict;
mod subscriptions;
mod texts;
mod traffic;
mod unions;
mod wholes;
mod workers;
