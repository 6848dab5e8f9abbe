//! Tests on headers of packets.

use super::{Applied, value};
use crate::model::{FlagsKind, PacketField, PacketTest};

use crate::builder::{Builder, wrong_value};
use crate::number::NumberTest;
use crate::options::OptionText;
use weir_lang::diag::Diagnostic;

/// Keywords with a number.
const NUMBERS: &[(&[&str], PacketField)] = &[
    (&["dsize"], PacketField::PayloadSize),
    (&["ttl"], PacketField::Ttl),
    (&["tos"], PacketField::Tos),
    (&["id"], PacketField::IpId),
    (&["fragoffset"], PacketField::FragmentOffset),
    (&["seq", "tcp.seq"], PacketField::TcpSeq),
    (&["ack", "tcp.ack"], PacketField::TcpAck),
    (&["window", "tcp.window"], PacketField::TcpWindow),
    (&["tcp.mss"], PacketField::TcpMss),
    (&["tcp.wscale"], PacketField::TcpWindowScale),
    (&["itype"], PacketField::IcmpType),
    (&["icode"], PacketField::IcmpCode),
    (&["icmp_id"], PacketField::IcmpId),
    (&["icmp_seq"], PacketField::IcmpSeq),
    (&["icmpv6.mtu"], PacketField::IcmpMtu),
    (&["vlan.id"], PacketField::VlanId),
    (&["vlan.layers"], PacketField::VlanLayers),
    (&["vxlan_vni"], PacketField::VxlanVni),
    (&["flow.age"], PacketField::FlowAge),
    (&["flow.pkts_toclient"], PacketField::FlowPacketsToClient),
    (&["flow.pkts_toserver"], PacketField::FlowPacketsToServer),
    (&["flow.bytes_toclient"], PacketField::FlowBytesToClient),
    (&["flow.bytes_toserver"], PacketField::FlowBytesToServer),
];

/// Numbers of protocols by name, as in `/etc/protocols`.
const PROTOCOLS: &[(&str, u64)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("ipencap", 4),
    ("tcp", 6),
    ("egp", 8),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("icmp6", 58),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
];

const IP_OPTIONS: &[&str] =
    &["any", "rr", "eol", "nop", "ts", "sec", "esec", "lsrr", "lsrre", "ssrr", "satid", "cipso", "rtralt"];

pub(super) fn apply(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Applied {
    if let Some((_, field)) = NUMBERS.iter().find(|(names, _)| names.contains(&option.name)) {
        return Some(number(option).map(|test| builder.rule.packet.push(PacketTest::Number(*field, test))));
    }
    let made = match option.name {
        "ip_proto" => ip_protocol(option),
        "flags" | "tcp.flags" => flags(option),
        "fragbits" => fragment_bits(option),
        "ipopts" => value(option, "ipopts:lsrr").and_then(|text| {
            let known = IP_OPTIONS.iter().find(|known| **known == text);
            known.map(|name| PacketTest::IpOption(name)).ok_or_else(|| {
                wrong_value(
                    option,
                    format!("there is no option `{text}`"),
                    &format!("there are {}", IP_OPTIONS.join(", ")),
                )
            })
        }),
        "sameip" => Ok(PacketTest::SameIp),
        "stream_size" => stream_size(option),
        "flow.pkts" | "flow.bytes" => flow_size(option),
        _ => return None,
    };
    Some(made.map(|test| builder.rule.packet.push(test)))
}

fn number(option: &OptionText<'_>) -> Result<NumberTest, Diagnostic> {
    let example = format!("{}:>10", option.name);
    let text = value(option, &example)?.trim_matches('"');
    NumberTest::parse(text)
        .map_err(|why| wrong_value(option, why, &format!("write for example `{example};`")))
}

fn ip_protocol(option: &OptionText<'_>) -> Result<PacketTest, Diagnostic> {
    let text = value(option, "ip_proto:47")?;
    let bare = text.trim_start_matches(['!', '<', '>', '=']).trim();
    let named = PROTOCOLS.iter().find(|(name, _)| name.eq_ignore_ascii_case(bare));
    let test = match named {
        Some((_, number)) => {
            let sign = text[..text.len() - bare.len()].trim();
            NumberTest::parse(&format!("{sign}{number}"))
        }
        None => NumberTest::parse(text),
    };
    let test =
        test.map_err(|why| wrong_value(option, why, "write for example `ip_proto:47;` or `ip_proto:gre;`"))?;
    Ok(PacketTest::Number(PacketField::IpProtocol, test))
}

/// `tcp.flags:+SA,CE`
fn flags(option: &OptionText<'_>) -> Result<PacketTest, Diagnostic> {
    let text = value(option, "tcp.flags:S,CE")?;
    let wrong = || {
        wrong_value(
            option,
            format!("`{text}` are no flags of TCP"),
            "write for example `tcp.flags:S;`, `tcp.flags:+SA;` or `tcp.flags:S,CE;`",
        )
    };
    let (asked, ignored) = text.split_once(',').unwrap_or((text, ""));
    let (kind, letters) = kind_of(asked.trim());
    let bits = |letters: &str| -> Option<u8> {
        letters.trim().chars().try_fold(0, |bits, letter| {
            Some(
                bits | match letter.to_ascii_uppercase() {
                    'F' => 0x01,
                    'S' => 0x02,
                    'R' => 0x04,
                    'P' => 0x08,
                    'A' => 0x10,
                    'U' => 0x20,
                    'E' | '2' => 0x40,
                    'C' | '1' => 0x80,
                    '0' => 0,
                    _ => return None,
                },
            )
        })
    };
    let (flags, ignored) = (bits(letters).ok_or_else(wrong)?, bits(ignored).ok_or_else(wrong)?);
    Ok(PacketTest::TcpFlags { kind, flags, ignored })
}

fn kind_of(text: &str) -> (FlagsKind, &str) {
    match text.chars().next() {
        Some('+') => (FlagsKind::AtLeast, &text[1..]),
        Some('*') => (FlagsKind::Any, &text[1..]),
        Some('!') => (FlagsKind::Not, &text[1..]),
        // The sign may come behind the letters.
        _ => match text.chars().last() {
            Some('+') => (FlagsKind::AtLeast, &text[..text.len() - 1]),
            Some('*') => (FlagsKind::Any, &text[..text.len() - 1]),
            _ => (FlagsKind::Exactly, text.strip_prefix('=').unwrap_or(text)),
        },
    }
}

/// `fragbits:+MD`
fn fragment_bits(option: &OptionText<'_>) -> Result<PacketTest, Diagnostic> {
    let text = value(option, "fragbits:M")?;
    let (kind, letters) = kind_of(text);
    let bits = letters.chars().try_fold(0, |bits, letter| {
        Some(
            bits | match letter.to_ascii_uppercase() {
                'R' => 4,
                'D' => 2,
                'M' => 1,
                _ => return None,
            },
        )
    });
    let wrong = || {
        wrong_value(
            option,
            format!("`{text}` are no bits of fragments"),
            "write for example `fragbits:M;` or `fragbits:+D;`",
        )
    };
    Ok(PacketTest::FragmentBits { kind, bits: bits.ok_or_else(wrong)? })
}

/// `stream_size:client,>,1000`
fn stream_size(option: &OptionText<'_>) -> Result<PacketTest, Diagnostic> {
    value(option, "stream_size:client,>,1000")?;
    let parts: Vec<&str> = option.list().collect();
    let wrong = |why: String| wrong_value(option, why, "write for example `stream_size:client,>,1000;`");
    let [side, comparison, number, ..] = parts[..] else {
        return Err(wrong("a part is missing".to_string()));
    };
    let field = match side {
        "client" => PacketField::StreamSizeClient,
        "server" => PacketField::StreamSizeServer,
        "both" => PacketField::StreamSizeBoth,
        "either" => PacketField::StreamSizeEither,
        _ => return Err(wrong(format!("there is no side `{side}`"))),
    };
    let test = NumberTest::parse(&format!("{comparison}{number}")).map_err(wrong)?;
    Ok(PacketTest::Number(field, test))
}

/// `flow.pkts:toserver,>10`, `flow.bytes:either,>1000`
fn flow_size(option: &OptionText<'_>) -> Result<PacketTest, Diagnostic> {
    let example = format!("{}:toserver,>10", option.name);
    let text = value(option, &example)?;
    let wrong = |why: String| wrong_value(option, why, &format!("write for example `{example};`"));
    let Some((side, number)) = text.split_once(',') else {
        return Err(wrong("a part is missing".to_string()));
    };
    let field = match (side.trim(), option.name == "flow.pkts") {
        ("toserver", true) => PacketField::FlowPacketsToServer,
        ("toclient", true) => PacketField::FlowPacketsToClient,
        ("toserver", false) => PacketField::FlowBytesToServer,
        ("toclient", false) => PacketField::FlowBytesToClient,
        ("either", _) => return Err(wrong("`either` is not compared yet: name a direction".to_string())),
        (side, _) => return Err(wrong(format!("there is no side `{side}`"))),
    };
    Ok(PacketTest::Number(field, NumberTest::parse(number).map_err(wrong)?))
}
