//! The buffers that rules inspect, by name: sticky buffers, and the older words behind a `content`.

/// The number of a buffer in [`BUFFERS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u16);

impl BufferId {
    /// The payload of packets, or the bytes of a stream.
    pub const PAYLOAD: Self = Self(0);

    /// What is known of it.
    pub fn info(self) -> &'static BufferInfo {
        &BUFFERS[usize::from(self.0)]
    }

    /// A transaction may have several such buffers: each mention of the sticky buffer is about another one.
    pub fn is_multiple(self) -> bool {
        MULTIPLE.contains(&self.info().name)
    }

    /// The buffer with this name as a sticky buffer.
    pub fn of(name: &str) -> Option<Self> {
        let at = BUFFERS.iter().position(|buffer| buffer.name == name || buffer.others.contains(&name))?;
        (at > 0).then_some(Self(at as u16))
    }

    /// The buffer of an older word behind a `content`.
    pub fn of_modifier(word: &str) -> Option<Self> {
        let at = BUFFERS.iter().position(|buffer| buffer.modifier == Some(word))?;
        Some(Self(at as u16))
    }
}

/// Which side of a connection sends a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Side {
    Client,
    Server,
    /// Either.
    Both,
}

/// A buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferInfo {
    /// Its name in rules.
    pub name: &'static str,
    /// Other names of the sticky buffer.
    pub others: &'static [&'static str],
    /// The word behind a `content`.
    pub modifier: Option<&'static str>,
    /// The session protocol, as in rules; empty for packets.
    pub protocol: &'static str,
    /// Who sends it.
    pub side: Side,
}

const fn b(
    name: &'static str,
    others: &'static [&'static str],
    modifier: Option<&'static str>,
    protocol: &'static str,
    side: Side,
) -> BufferInfo {
    BufferInfo { name, others, modifier, protocol, side }
}

use Side::{Both, Client, Server};

/// Buffers of which a transaction may have several (Suricata's guide, "multiple buffer matching").
const MULTIPLE: &[&str] = &[
    "dns.query",
    "dns.queries.rrname",
    "dns.answers.rrname",
    "dns.answer.name",
    "dns.authorities.rrname",
    "dns.additionals.rrname",
    "dns.response.rrname",
    "mdns.queries.rrname",
    "mdns.answers.rrname",
    "mdns.authorities.rrname",
    "mdns.additionals.rrname",
    "mdns.response.rrname",
    "llmnr.queries.rrname",
    "llmnr.answers.rrname",
    "llmnr.authorities.rrname",
    "llmnr.additionals.rrname",
    "llmnr.response.rrname",
    "sctp.chunk_data",
    "file.data",
    "file.name",
    "file.magic",
    "http.request_header",
    "http.response_header",
    "tls.certs",
    "tls.subjectaltname",
    "tls.alpn",
    "mqtt.subscribe.topic",
    "mqtt.unsubscribe.topic",
    "krb5.cname",
    "krb5.sname",
    "quic.cyu.hash",
    "quic.cyu.string",
    "email.received",
    "email.url",
];

/// All buffers.
pub const BUFFERS: &[BufferInfo] = &[
    b("payload", &[], None, "", Both),
    // HTTP
    b("http.uri", &[], Some("http_uri"), "http", Client),
    b("http.uri.raw", &[], Some("http_raw_uri"), "http", Client),
    b("http.method", &[], Some("http_method"), "http", Client),
    b("http.request_body", &[], Some("http_client_body"), "http", Client),
    b("http.user_agent", &[], Some("http_user_agent"), "http", Client),
    b("http.host", &[], Some("http_host"), "http", Client),
    b("http.host.raw", &[], Some("http_raw_host"), "http", Client),
    b("http.referer", &["http_referer"], None, "http", Client),
    b("http.accept", &["http_accept"], None, "http", Client),
    b("http.accept_lang", &["http_accept_lang"], None, "http", Client),
    b("http.accept_enc", &["http_accept_enc"], None, "http", Client),
    b("http.request_line", &["http_request_line"], None, "http", Client),
    b("http.request_header", &[], None, "http", Client),
    b("http.response_header", &[], None, "http", Server),
    b("http.response_line", &["http_response_line"], None, "http", Server),
    b("http.response_body", &[], Some("http_server_body"), "http", Server),
    b("http.stat_code", &[], Some("http_stat_code"), "http", Server),
    b("http.stat_msg", &[], Some("http_stat_msg"), "http", Server),
    b("http.server", &[], None, "http", Server),
    b("http.location", &[], None, "http", Server),
    b("http.header", &[], Some("http_header"), "http", Both),
    b("http.header.raw", &[], Some("http_raw_header"), "http", Both),
    b("http.header_names", &["http_header_names"], None, "http", Both),
    b("http.content_type", &["http_content_type"], None, "http", Both),
    b("http.content_len", &["http_content_len"], None, "http", Both),
    b("http.cookie", &[], Some("http_cookie"), "http", Both),
    b("http.protocol", &["http_protocol"], None, "http", Both),
    b("http.connection", &["http_connection"], None, "http", Both),
    b("http.start", &["http_start"], None, "http", Both),
    // Files
    b("file.data", &["file_data"], None, "file", Both),
    b("file.name", &["filename"], None, "file", Both),
    b("file.magic", &["filemagic"], None, "file", Both),
    // DNS
    b("dns.query", &["dns_query", "dns.query.name"], None, "dns", Both),
    b("dns.answer.name", &[], None, "dns", Both),
    b("dns.queries.rrname", &[], None, "dns", Both),
    b("dns.answers.rrname", &[], None, "dns", Both),
    b("dns.authorities.rrname", &[], None, "dns", Both),
    b("dns.additionals.rrname", &[], None, "dns", Both),
    b("dns.response.rrname", &[], None, "dns", Both),
    b("mdns.queries.rrname", &[], None, "mdns", Both),
    b("mdns.answers.rrname", &[], None, "mdns", Both),
    b("mdns.authorities.rrname", &[], None, "mdns", Both),
    b("mdns.additionals.rrname", &[], None, "mdns", Both),
    b("mdns.response.rrname", &[], None, "mdns", Both),
    b("llmnr.queries.rrname", &[], None, "llmnr", Both),
    b("llmnr.answers.rrname", &[], None, "llmnr", Both),
    b("llmnr.authorities.rrname", &[], None, "llmnr", Both),
    b("llmnr.additionals.rrname", &[], None, "llmnr", Both),
    b("llmnr.response.rrname", &[], None, "llmnr", Both),
    // TLS
    b("tls.sni", &["tls_sni"], None, "tls", Client),
    b("tls.certs", &[], None, "tls", Both),
    b("tls.cert_subject", &["tls_cert_subject"], None, "tls", Both),
    b("tls.cert_issuer", &["tls_cert_issuer"], None, "tls", Both),
    b("tls.cert_serial", &["tls_cert_serial"], None, "tls", Both),
    b("tls.cert_fingerprint", &["tls_cert_fingerprint"], None, "tls", Both),
    b("tls.random", &[], None, "tls", Both),
    b("tls.random_time", &[], None, "tls", Both),
    b("tls.random_bytes", &[], None, "tls", Both),
    b("tls.subjectaltname", &[], None, "tls", Both),
    b("tls.alpn", &[], None, "tls", Both),
    b("ja3.hash", &["ja3_hash"], None, "tls", Client),
    b("ja3.string", &["ja3_string"], None, "tls", Client),
    b("ja3s.hash", &["ja3s_hash"], None, "tls", Server),
    b("ja3s.string", &["ja3s_string"], None, "tls", Server),
    b("ja4.hash", &["ja4_hash"], None, "tls", Client),
    // SSH
    b("ssh.proto", &["ssh_proto"], None, "ssh", Both),
    b("ssh.software", &["ssh_software"], None, "ssh", Both),
    b("ssh.hassh", &[], None, "ssh", Client),
    b("ssh.hassh.string", &[], None, "ssh", Client),
    b("ssh.hassh.server", &[], None, "ssh", Server),
    b("ssh.hassh.server.string", &[], None, "ssh", Server),
    // SMB and DCE/RPC
    b("smb.named_pipe", &["smb_named_pipe"], None, "smb", Both),
    b("smb.share", &["smb_share"], None, "smb", Both),
    b("smb.ntlmssp_user", &[], None, "smb", Client),
    b("smb.ntlmssp_domain", &[], None, "smb", Client),
    b("dcerpc.stub_data", &["dce_stub_data"], None, "dcerpc", Both),
    // FTP
    b("ftp.command", &[], None, "ftp", Client),
    b("ftp.command_data", &[], None, "ftp", Client),
    b("ftp.reply", &[], None, "ftp", Server),
    b("ftp.completion_code", &[], None, "ftp", Server),
    // Mail
    b("smtp.helo", &[], None, "smtp", Client),
    b("smtp.mail_from", &[], None, "smtp", Client),
    b("smtp.rcpt_to", &[], None, "smtp", Client),
    b("email.from", &[], None, "smtp", Both),
    b("email.to", &[], None, "smtp", Both),
    b("email.cc", &[], None, "smtp", Both),
    b("email.subject", &[], None, "smtp", Both),
    b("email.date", &[], None, "smtp", Both),
    b("email.message_id", &[], None, "smtp", Both),
    b("email.x_mailer", &[], None, "smtp", Both),
    b("email.received", &[], None, "smtp", Both),
    b("email.url", &[], None, "smtp", Both),
    b("email.body_md5", &[], None, "smtp", Both),
    // SIP and SDP
    b("sip.method", &[], None, "sip", Client),
    b("sip.uri", &[], None, "sip", Client),
    b("sip.request_line", &[], None, "sip", Client),
    b("sip.stat_code", &[], None, "sip", Server),
    b("sip.stat_msg", &[], None, "sip", Server),
    b("sip.response_line", &[], None, "sip", Server),
    b("sip.protocol", &[], None, "sip", Both),
    b("sip.from", &[], None, "sip", Both),
    b("sip.to", &[], None, "sip", Both),
    b("sip.via", &[], None, "sip", Both),
    b("sip.user_agent", &[], None, "sip", Both),
    b("sip.content_type", &[], None, "sip", Both),
    b("sip.content_length", &[], None, "sip", Both),
    // MQTT
    b("mqtt.connect.clientid", &[], None, "mqtt", Client),
    b("mqtt.connect.protocol_string", &[], None, "mqtt", Client),
    b("mqtt.connect.username", &[], None, "mqtt", Client),
    b("mqtt.connect.password", &[], None, "mqtt", Client),
    b("mqtt.connect.willtopic", &[], None, "mqtt", Client),
    b("mqtt.connect.willmessage", &[], None, "mqtt", Client),
    b("mqtt.publish.topic", &[], None, "mqtt", Both),
    b("mqtt.publish.message", &[], None, "mqtt", Both),
    b("mqtt.subscribe.topic", &[], None, "mqtt", Client),
    b("mqtt.unsubscribe.topic", &[], None, "mqtt", Client),
    // QUIC
    b("quic.version", &[], None, "quic", Both),
    b("quic.sni", &[], None, "quic", Client),
    b("quic.ua", &[], None, "quic", Client),
    b("quic.cyu.hash", &[], None, "quic", Client),
    b("quic.cyu.string", &[], None, "quic", Client),
    // Kerberos, SNMP, PostgreSQL
    b("krb5.cname", &["krb5_cname"], None, "krb5", Both),
    b("krb5.sname", &["krb5_sname"], None, "krb5", Both),
    b("krb5.ticket_encryption", &[], None, "krb5", Both),
    b("snmp.community", &[], None, "snmp", Both),
    b("snmp.usm", &[], None, "snmp", Both),
    b("snmp.trap_oid", &[], None, "snmp", Both),
    b("snmp.trap_address", &[], None, "snmp", Both),
    b("pgsql.query", &[], None, "pgsql", Client),
    // Headers of packets
    b("ipv4.hdr", &[], None, "", Both),
    b("ipv6.hdr", &[], None, "", Both),
    b("tcp.hdr", &[], None, "", Both),
    b("udp.hdr", &[], None, "", Both),
    b("icmpv4.hdr", &[], None, "", Both),
    b("icmpv6.hdr", &[], None, "", Both),
    b("igmp.hdr", &[], None, "", Both),
    b("sctp.hdr", &[], None, "", Both),
    b("sctp.chunk_data", &[], None, "", Both),
    // Addresses: 4 or 16 bytes.
    b("ip.src", &[], None, "", Both),
    b("ip.dst", &[], None, "", Both),
    // What base64_decode has made.
    b("base64_data", &[], None, "", Both),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let mut names = BTreeSet::new();
        for buffer in BUFFERS {
            for name in buffer.others.iter().chain([&buffer.name]).chain(buffer.modifier.as_ref()) {
                assert!(names.insert(*name), "{name}");
            }
        }
        assert_eq!(BufferId::of("http.uri").map(|id| id.info().name), Some("http.uri"));
        assert_eq!(BufferId::of_modifier("http_uri"), BufferId::of("http.uri"));
        assert_eq!(BufferId::of("payload"), None);
    }
}
