//! RTP (RFC 3550) and RTCP in the same flow (RFC 5761): one [`RtpStream`] for each source in each direction,
//! yielded when the flow ends.
//!
//! | file | what it does |
//! |---|---|
//! | `packet` | RTP headers, and payload types (RFC 3551) |
//! | `rtcp` | reports and names of sources |
//! | `sequence` | lost, late and repeated packets (RFC 3550 §A.1, §A.3) |
//! | `jitter` | interarrival jitter (§A.8) |
//! | `stream` | the output and its field names |
//! | `parser` | assigns packets to streams; the probe |
//!
//! RTP has no signature: it is recognised by three consecutive datagrams of one source, or by a complete RTCP
//! compound. STUN or DTLS may come first in the same flow. Their own parsers handle them and do not hand over
//! to this one.

mod jitter;
mod packet;
mod parser;
mod rtcp;
mod sequence;
mod stream;

pub use parser::{RtpParser, STREAMS_MAX};
pub use stream::RtpStream;

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "rtp",
    service: "rtp",
    log: "rtp",
    transports: &["udp"],
    ports: &[],
    hands_over: &["stun", "dtls"],
    doc: "RTP streams: payload types, losses and jitter, with the reports of RTCP (RFC 3550)",
    probe: parser::probe,
    may_begin,
    open: |_| Box::new(RtpParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "payload", "duration", "packets", "lost", "mean_jitter"],
    fields: stream::FIELDS,
};

/// First byte: version 2.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| byte >> 6 == 2),
        _ => ByteSet::ALL,
    }
}
