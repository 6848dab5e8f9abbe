//! RTP (RFC 3550) and what its RTCP says in the same flow (RFC 5761): one [`RtpStream`] for each source in each direction,
//! yielded when the flow ends.
//!
//! | file | what it does |
//! |---|---|
//! | `packet` | headers of RTP, and payload types (RFC 3551) |
//! | `rtcp` | reports and names of sources |
//! | `sequence` | what was lost, came late, came twice (RFC 3550 §A.1, §A.3) |
//! | `jitter` | how unevenly packets came (§A.8) |
//! | `stream` | what comes out, and its names in filters |
//! | `parser` | which packet is of which stream; the probe |
//!
//! RTP has no signature: it is recognised by three datagrams of one source, one behind the other, or by a whole compound of
//! RTCP. What goes before in the same flow (STUN, DTLS) is told by their own parsers, which do not hand over here.

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
    hands_over: &["stun", "dtls"],
    doc: "RTP streams: what is sent, how much of it was lost and how evenly it came, with what RTCP says of it (RFC 3550)",
    probe: parser::probe,
    may_begin,
    parser: || Box::new(RtpParser::default()),
    carrier: None,
    fields: stream::FIELDS,
};

/// Version 2.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| byte >> 6 == 2),
        _ => ByteSet::ALL,
    }
}
