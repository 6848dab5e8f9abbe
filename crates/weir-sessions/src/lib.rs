//! Application sessions (TLS …): one parser per file, one trait for all parsers, and one line for each in the
//! initial table of a [`SessionRegistry`].
//!
//! A parser receives the bytes of both directions of a connection in order, in pieces of any size, and is
//! informed of gaps. It keeps its state between calls, holds a bounded number of bytes, never panics, and
//! reports when it needs no further bytes of the connection. A parser has no access to packets.
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as weir_sessions;

mod announcements;
pub mod bittorrent;
mod byte_set;
mod coding;
mod content;
mod context;
#[cfg(test)]
#[path = "../../weir-testing/src/conversation.rs"]
pub mod conversation;
mod der;
pub mod dhcp;
pub mod dhcpv6;
pub mod dns;
pub mod dtls;
pub mod files;
mod frames;
pub mod ftp;
pub mod http;
pub mod imap;
mod joins;
pub mod kerberos;
mod line;
pub mod modbus;
pub mod mqtt;
pub mod mysql;
pub mod nbdgm;
pub mod ntp;
pub mod openvpn;
mod pairing;
pub mod part_logs;
pub mod pe;
mod pieces;
pub mod pop3;
pub mod postgresql;
mod probe_decision;
pub mod quic;
pub mod radius;
pub mod rdp;
pub mod redis;
mod registry;
pub mod rtp;
mod session;
pub mod sip;
pub mod smb;
pub mod smtp;
pub mod snmp;
pub mod socks;
pub mod ssdp;
pub mod ssh;
pub mod stun;
pub mod tds;
pub mod tls;
mod values;
mod wire;
pub mod wireguard;
pub mod x509;

pub use announcements::Announcement;
pub use byte_set::ByteSet;
pub use content::{CONTENT_BYTES_MAX, Content, ContentFacts, ContentStore, ContentWriter, Contents};
pub use context::{Context, Early, Setting};
pub use joins::{Join, Place, Sum, UIDS};
pub use pairing::Exchange;
pub use probe_decision::{DECIDED_BYTES, ProbeDecision};
pub use registry::{PROTOCOLS_MAX, ProtocolSet, RegisterError, SessionRegistry, UnknownSetting};
pub use session::{
    CutOff, Data, Field, FirstPlace, InnerPiece, OpenParser, Opening, PartLog, PartsOf, Probe, Progress,
    Session, SessionParser, SessionProtocol, SessionType, Within, Words,
};
pub use weir_packet::Direction;

/// The session protocols of this crate, in the order in which they are probed: what a [`SessionRegistry`]
/// begins with. A new protocol is one line here.
#[rustfmt::skip]
pub(crate) const PROTOCOLS: &[&SessionProtocol] = &[
    &tls::PROTOCOL,
    &http::PROTOCOL,
    &smtp::PROTOCOL,
    &ftp::PROTOCOL,
    &pop3::PROTOCOL,
    &imap::PROTOCOL,
    &ssh::PROTOCOL,
    &dns::PROTOCOL,
    &quic::PROTOCOL,
    &dtls::PROTOCOL,
    &dhcp::PROTOCOL,
    &ntp::PROTOCOL,
    &stun::PROTOCOL,
    &dhcpv6::PROTOCOL,
    &snmp::PROTOCOL,
    &radius::PROTOCOL,
    &kerberos::PROTOCOL,
    &wireguard::PROTOCOL,
    &openvpn::PROTOCOL,
    &sip::PROTOCOL,
    &ssdp::PROTOCOL,
    &nbdgm::PROTOCOL,
    &rtp::PROTOCOL,
    &rdp::PROTOCOL,
    &mqtt::PROTOCOL,
    &modbus::PROTOCOL,
    &postgresql::PROTOCOL,
    &mysql::PROTOCOL,
    &smb::PROTOCOL,
    &redis::PROTOCOL,
    &bittorrent::PROTOCOL,
    &socks::PROTOCOL,
    &tds::PROTOCOL,
];

/// The protocols that are recognised also behind other bytes of a stream ([`SessionRegistry::late`]).
pub(crate) const LATE: &[&str] = &["tls", "http", "ssh", "sip"];

/// Protocols whose exchanges may be in two connections.
pub(crate) const JOINS: &[Join] = &[dhcp::JOIN, dhcpv6::JOIN];

/// Logs whose rows may be parts of a whole.
pub(crate) const SUMS: &[Sum] = &[files::SUM];

/// Protocols whose sessions announce connections of other protocols.
pub(crate) const ANNOUNCEMENTS: &[Announcement] = &[sip::ANNOUNCEMENT];

/// Every log of parts of sessions. A new one is one line here; another protocol with such parts a line there
/// (`of`).
#[rustfmt::skip]
pub(crate) const PART_LOGS: &[&PartLog] = &[
    &part_logs::FILES,
    &x509::LOG,
    &smb::file_actions::LOG,
    &smb::mapping::LOG,
    &part_logs::EXECUTABLES,
    &mqtt::publish::LOG,
    &mqtt::subscription::LOG,
];

/// Sessions of one protocol within those of another; one line each.
pub(crate) const WITHIN: &[Within] =
    &[Within { carrier: "quic", protocol: "tls", sessions: quic::tls_handshake }];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_within_sessions_is_of_protocols_that_there_are() {
        let is_one = |name: &str| PROTOCOLS.iter().any(|protocol| protocol.name == name);
        for Within { carrier, protocol, .. } in WITHIN {
            assert!(is_one(carrier) && is_one(protocol) && carrier != protocol, "{carrier} {protocol}");
        }
    }

    #[test]
    fn logs_of_parts_are_of_protocols_that_there_are_and_have_names_of_their_own() {
        for log in PART_LOGS {
            let is_taken = |name: &str| PROTOCOLS.iter().any(|p| p.name == name || p.log == name);
            assert!(!is_taken(log.name), "{}", log.name);
            for (protocol, _) in log.of {
                assert!(PROTOCOLS.iter().any(|p| p.name == *protocol), "{protocol}");
            }
            let known_by = |field: &&Field| field.column == log.known_by;
            assert!(
                log.known_by.is_empty() || log.fields.iter().any(|field| known_by(&field)),
                "{}",
                log.name
            );
        }
    }
}

/// Tests measure what parsers hold.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: weir_memory::Counted<std::alloc::System> = weir_memory::Counted(std::alloc::System);
