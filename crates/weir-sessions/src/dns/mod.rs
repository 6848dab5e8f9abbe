//! DNS over UDP and TCP (RFC 1035, RFC 7766), and the protocols that share its messages: multicast DNS (RFC
//! 6762), LLMNR (RFC 4795) and NetBIOS name service (RFC 1002).
//!
//! One [`DnsTransaction`] per query and answer. Bottom up:
//!
//! | file | what it does |
//! |---|---|
//! | `probe` | detection |
//! | `name` | labels and pointers → text |
//! | `record` | contents of records, and how a log shows them |
//! | `message` | header, questions, records, EDNS |
//! | `parser` | messages in a stream; matching of answers and queries |
//! | `transaction` | the session, and its filter fields |
//! | `names` | Zeek's names of numbers |

mod message;
mod name;
pub mod names;
mod parser;
mod probe;
mod record;
#[cfg(test)]
mod tests;
mod transaction;

pub use message::{Edns, Header, Message, QUESTIONS_MAX, Question, RECORDS_MAX};
pub(crate) use name::{decode_netbios, escape};
pub use parser::{DnsParser, WAITING_BYTES_MAX, WAITING_MAX};
pub use record::{Naptr, Record, RecordData, Soa, Svcb, TXT_BYTES_MAX};
pub use transaction::DnsTransaction;

use crate::{ByteSet, FirstPlace, SessionProtocol};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "dns",
    service: "dns",
    log: "dns",
    transports: &["udp", "tcp"],
    // DNS, NetBIOS name service (RFC 1002), multicast DNS (RFC 6762), LLMNR (RFC 4795).
    ports: probe::PORTS,
    hands_over: &[],
    doc: "DNS queries with their answers (RFC 1035), including multicast DNS and LLMNR",
    probe: probe::probe,
    may_begin,
    open: |_| Box::new(DnsParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "query", "qtype_name", "rcode_name", "answers", "rtt"],
    fields: transaction::FIELDS,
};

/// Flags of the header (known operation, reserved bit zero but in datagrams on the port), and number of
/// questions.
fn may_begin(place: FirstPlace) -> ByteSet {
    let at = if place.is_datagram { place.at } else { place.at.wrapping_sub(2) };
    match at {
        2 => ByteSet::of(|byte| byte >> 3 & 15 <= 8),
        3 if !(place.is_datagram && place.is_on_port) => ByteSet::of(|byte| byte & 0x40 == 0),
        // At most 255 questions.
        4 => ByteSet::of(|byte| byte == 0),
        _ => ByteSet::ALL,
    }
}
