//! Application sessions (TLS …): one parser a file, behind one trait, one registry line each.
//!
//! A parser is handed the bytes of both directions of a connection in order, in pieces of any size,
//! and told of gaps. It keeps its state between calls, holds a bounded number of bytes, never panics,
//! and says when it has no further use for the connection's bytes. It knows nothing of packets.
#![forbid(unsafe_code)]

pub mod bittorrent;
mod der;
pub mod dhcp;
pub mod dhcpv6;
pub mod dns;
pub mod dtls;
mod frames;
pub mod ftp;
#[doc(hidden)]
pub mod fuzz;
pub mod http;
pub mod imap;
pub mod kerberos;
mod line;
pub mod modbus;
pub mod mqtt;
pub mod mysql;
pub mod ntp;
pub mod openvpn;
mod pieces;
pub mod pop3;
pub mod postgresql;
pub mod quic;
pub mod radius;
pub mod rdp;
pub mod redis;
pub mod rtp;
mod session;
pub mod sip;
pub mod smb;
pub mod smtp;
pub mod snmp;
pub mod ssdp;
pub mod ssh;
pub mod stun;
pub mod tls;
mod values;
mod waiting;
mod wire;
pub mod wireguard;

#[doc(hidden)]
pub use fuzz::fuzz_session;
pub use session::{
    CutOff, Data, Direction, Field, Opening, Probe, Progress, Session, SessionParser, SessionProtocol,
    SessionType,
};

/// Every session protocol, in the order in which they are probed. A new protocol is one line here.
#[rustfmt::skip]
pub const PROTOCOLS: &[&SessionProtocol] = &[
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
    &rtp::PROTOCOL,
    &rdp::PROTOCOL,
    &mqtt::PROTOCOL,
    &modbus::PROTOCOL,
    &postgresql::PROTOCOL,
    &mysql::PROTOCOL,
    &smb::PROTOCOL,
    &redis::PROTOCOL,
    &bittorrent::PROTOCOL,
];
