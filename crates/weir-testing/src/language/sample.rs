//! A catalogue for tests and fuzzing: fields of every type, with names of the real catalogue.

use weir_lang::filter::{Catalog, FieldInfo, Stage};
use weir_packet::ValueType;

/// About fifty fields.
pub struct SampleCatalog {
    fields: Vec<FieldInfo>,
}

impl Default for SampleCatalog {
    fn default() -> Self {
        Self::new()
    }
}

impl SampleCatalog {
    /// The catalogue.
    pub fn new() -> SampleCatalog {
        use Stage::{Connection, Packet, Session};
        use ValueType::{
            Address, Bool, Bytes, Interval, Ipv4, Ipv6, Mac, Numbers, Text, Texts, Time, Unsigned,
        };
        let mut fields = Vec::new();
        let protocols = "eth vlan mpls arp ip ipv6 ipv6.fraghdr tcp udp sctp icmp icmpv6 tls http dns";
        for name in protocols.split(' ') {
            let stage = if matches!(name, "tls" | "http" | "dns") { Session } else { Packet };
            fields.push(field(name, "", Bool, 0, stage, true));
        }
        let rows: &[(&str, &str, ValueType, u32, Stage)] = &[
            ("frame", "", Bytes, 0, Packet),
            ("frame.len", "", Unsigned, 32, Packet),
            ("frame.time", "frame.time_epoch", Time, 0, Packet),
            ("eth.dst", "", Mac, 0, Packet),
            ("eth.src", "", Mac, 0, Packet),
            ("eth.addr", "", Mac, 0, Packet),
            ("eth.type", "", Unsigned, 16, Packet),
            ("vlan.id", "", Unsigned, 12, Packet),
            ("mpls.label", "", Unsigned, 20, Packet),
            ("arp.src.proto_ipv4", "", Ipv4, 0, Packet),
            ("arp.dst.proto_ipv4", "", Ipv4, 0, Packet),
            ("ip.src", "", Ipv4, 0, Packet),
            ("ip.dst", "", Ipv4, 0, Packet),
            ("ip.addr", "", Ipv4, 0, Packet),
            ("ip.proto", "ip.protocol", Unsigned, 8, Packet),
            ("ip.ttl", "", Unsigned, 8, Packet),
            ("ip.frag_offset", "", Unsigned, 64, Packet),
            ("ip.flags.df", "", Unsigned, 1, Packet),
            ("ip.options", "", Bytes, 0, Packet),
            ("ipv6.src", "", Ipv6, 0, Packet),
            ("ipv6.dst", "", Ipv6, 0, Packet),
            ("ipv6.addr", "", Ipv6, 0, Packet),
            ("ipv6.nxt", "ipv6.next_header", Unsigned, 8, Packet),
            ("ipv6.fraghdr.nxt", "", Unsigned, 8, Packet),
            ("tcp.srcport", "tcp.src_port", Unsigned, 16, Packet),
            ("tcp.dstport", "tcp.dst_port", Unsigned, 16, Packet),
            ("tcp.port", "", Unsigned, 16, Packet),
            ("tcp.flags", "", Unsigned, 12, Packet),
            ("tcp.flags.syn", "", Unsigned, 1, Packet),
            ("tcp.flags.ack", "", Unsigned, 1, Packet),
            ("tcp.options.mss", "", Bool, 0, Packet),
            ("tcp.options.mss_val", "", Unsigned, 16, Packet),
            ("udp.srcport", "", Unsigned, 16, Packet),
            ("udp.dstport", "", Unsigned, 16, Packet),
            ("udp.port", "", Unsigned, 16, Packet),
            ("icmp.type", "", Unsigned, 8, Packet),
            ("conn.duration", "", Interval, 0, Connection),
            ("conn.orig_addr", "", Address, 0, Connection),
            ("conn.bytes", "", Unsigned, 64, Connection),
            ("tls.sni", "tls.handshake.extensions_server_name", Text, 0, Session),
            ("tls.ciphers", "", Numbers, 16, Session),
            ("tls.random", "", Bytes, 0, Session),
            ("tls.resumed", "", Bool, 0, Session),
            ("http.host", "", Text, 0, Session),
            ("dns.qry.name", "", Texts, 0, Session),
        ];
        for &(name, alias, value_type, bits, stage) in rows {
            fields.push(field(name, alias, value_type, bits, stage, false));
        }
        for (key, field) in fields.iter_mut().enumerate() {
            field.key = key as u32;
        }
        SampleCatalog { fields }
    }
}

fn field(
    name: &str,
    alias: &str,
    value_type: ValueType,
    bits: u32,
    stage: Stage,
    is_protocol: bool,
) -> FieldInfo {
    let aliases = if alias.is_empty() { Vec::new() } else { vec![alias.to_string()] };
    FieldInfo {
        name: name.to_string(),
        aliases,
        value_type,
        bits,
        stage,
        doc: String::new(),
        is_protocol,
        is_frame: name == "frame",
        key: 0,
    }
}

impl Catalog for SampleCatalog {
    fn fields(&self) -> &[FieldInfo] {
        &self.fields
    }
}
