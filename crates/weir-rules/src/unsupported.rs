//! What Suricata has and Weir does not: keywords, protocols and actions, with the reason. A rule that has one
//! of these is refused, because a rule that is accepted and never matches would be worse.
//!
//! A row is removed once the engine can run the keyword.

use weir_lang::diag::{Diagnostic, Span};

/// A code for what Weir does not have.
const CODE: &str = "W0210";

/// Protocols that no session parser of Weir reads: the name in headers of rules, the begin of their keywords,
/// the name for readers.
const PROTOCOLS: &[(&str, &[&str], &str)] = &[
    ("dnp3", &["dnp3"], "DNP3"),
    ("enip", &["enip", "cip_"], "EtherNet/IP"),
    ("nfs", &["nfs"], "NFS"),
    ("ike", &["ike."], "IKE"),
    ("tftp", &["tftp."], "TFTP"),
    ("rfb", &["rfb."], "RFB"),
    ("telnet", &[], "Telnet"),
    ("ldap", &["ldap."], "LDAP"),
    ("websocket", &["websocket."], "WebSocket"),
    ("doh2", &["doh2."], "DNS over HTTP/2"),
    ("sdp", &["sdp."], "SDP"),
    ("arp", &["arp."], "ARP for rules"),
    ("template", &["template"], "Suricata's example protocol"),
];

/// Keywords, with the end of the sentence "Weir …".
const KEYWORDS: &[(&[&str], &str)] = &[
    (&["frame"], "has no frames of protocols"),
    (&["dataset", "datarep"], "has no sets of data yet"),
    (&["lua", "luajit", "luaxform"], "does not run scripts of Lua in rules"),
    (&["geoip"], "does not look up countries in rules yet"),
    (&["iprep"], "has no lists of reputations yet"),
    (&["asn1"], "does not decode ASN.1 in payloads"),
    (&["entropy"], "does not compute entropies in rules yet"),
    (&["rpc"], "does not parse calls of Sun RPC yet"),
    (&["replace", "nfq_set_mark"], "observes traffic, and does not change it"),
    (&["flowvar", "pktvar"], "has no variables with bytes of connections and packets yet"),
    (&["txbits"], "has no bits of transactions yet"),
    (&["engine-event"], "has no events of Suricata's engine"),
    (&["igmp.type", "igmp.hdr"], "does not read messages of IGMP yet"),
    (
        &["sctp.hdr", "sctp.vtag", "sctp.chunk_cnt", "sctp.chunk_type", "sctp.chunk_data"],
        "does not read chunks of SCTP for rules yet",
    ),
    (&["ip.src", "ip.dst"], "does not pass addresses on to rules as bytes yet"),
    (&["flow.elephant"], "does not mark large flows in rules yet"),
    (&["l3_proto"], "does not compare the version of IP by a keyword: the header says `ip4` or `ip6`"),
    (&["ether.hdr"], "does not pass headers of Ethernet on to rules yet"),
    (&["krb5.malformed_ticket"], "does not report malformed tickets of Kerberos"),
    (
        &[
            "ipv4-csum",
            "tcpv4-csum",
            "tcpv6-csum",
            "udpv4-csum",
            "udpv6-csum",
            "icmpv4-csum",
            "icmpv6-csum",
            "igmp-csum",
        ],
        "does not verify checksums in rules yet",
    ),
];

/// Why a keyword is refused, if it is one of Suricata that Weir does not have.
pub(crate) fn keyword(name: &str) -> Option<String> {
    if let Some((_, why)) = KEYWORDS.iter().find(|(names, _)| names.contains(&name)) {
        return Some(format!("`{name}`: Weir {why}"));
    }
    let is_of = |begins: &[&str]| begins.iter().any(|begin| name.starts_with(begin));
    let (_, _, readable) = PROTOCOLS.iter().find(|(_, begins, _)| is_of(begins))?;
    Some(format!("`{name}`: Weir does not parse {readable} yet"))
}

/// Why a protocol in the header of a rule is refused, and the remedy.
pub(crate) fn protocol(name: &str) -> Option<(String, &'static str)> {
    if let Some((protocol, hook)) = name.split_once(':') {
        let why = format!("`{name}`: Weir does not run rules at a hook (`{hook}`) of `{protocol}`");
        return Some((why, "leave the hook out: the rule then holds for the whole connection"));
    }
    let (_, _, readable) = PROTOCOLS.iter().find(|(known, _, _)| *known == name)?;
    Some((format!("`{name}`: Weir does not parse {readable} yet"), "the rule is left out"))
}

/// Why an action is refused, and the remedy.
pub(crate) fn action(word: &str) -> Option<(String, &'static str)> {
    let first = word.split([':', ',']).next().unwrap_or(word);
    if word.contains(':') || first == "accept" {
        let why = format!(
            "`{word}` is an action of firewall rules: Weir observes traffic, and has no policy that drops"
        );
        return Some((why, "write `alert`, or leave rules of firewalls out"));
    }
    let why = "`config` changes what Suricata logs: Weir has no such rules".to_string();
    (word == "config").then_some((why, "leave the rule out"))
}

/// A diagnostic about what Weir does not have.
pub(crate) fn diagnostic(why: String, span: Span, help: &str) -> Diagnostic {
    Diagnostic::error(CODE, why).at(span).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_the_protocol() {
        assert_eq!(keyword("dnp3_data").as_deref(), Some("`dnp3_data`: Weir does not parse DNP3 yet"));
        assert_eq!(keyword("frame").as_deref(), Some("`frame`: Weir has no frames of protocols"));
        assert_eq!(
            protocol("nfs").map(|(why, _)| why).as_deref(),
            Some("`nfs`: Weir does not parse NFS yet")
        );
        assert!(
            protocol("tcp:flow_start").is_some_and(|(why, _)| why.contains("a hook (`flow_start`) of `tcp`"))
        );
        assert!(
            action("accept:hook").is_some()
                && action("drop:flow,alert").is_some()
                && action("config").is_some()
        );
        assert!(action("alerted").is_none() && keyword("http.uri").is_none() && protocol("http").is_none());
    }
}
