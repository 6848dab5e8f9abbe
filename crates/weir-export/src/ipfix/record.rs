//! A row as a data record (RFC 7011, section 3.4.3).

use super::elements::{Content, Element, Family, Sender, Transport};
use std::net::IpAddr;
use weir_packet::{Cell, Row};

/// Protocol numbers of IANA.
const ICMP: u64 = 1;
const TCP: u64 = 6;
const ICMPV6: u64 = 58;

/// The longest text with a length of one byte (RFC 7011, section 7).
const TEXT_BYTES_MAX: usize = 254;

/// The family and the transport protocol of a row. `None`: the row has no two addresses of one family, and is
/// no IP flow.
pub(super) fn kind_of(
    row: Row<'_>,
    orig_h: usize,
    resp_h: usize,
    protocol: usize,
) -> Option<(Family, Transport)> {
    let family = match (row.cell(orig_h), row.cell(resp_h)) {
        (Cell::Address(IpAddr::V4(_)), Cell::Address(IpAddr::V4(_))) => Family::V4,
        (Cell::Address(IpAddr::V6(_)), Cell::Address(IpAddr::V6(_))) => Family::V6,
        _ => return None,
    };
    let transport = match number(row.cell(protocol)) {
        TCP => Transport::Tcp,
        ICMP | ICMPV6 => Transport::Icmp,
        _ => Transport::Other,
    };
    Some((family, transport))
}

/// Appends the record of a row, which has the addresses of the template's family.
pub(super) fn push_record(elements: &[Element], row: Row<'_>, out: &mut Vec<u8>) {
    for element in elements {
        let value = match element.content {
            Content::Start(start) => milliseconds(row.cell(start), 0),
            Content::End(start, duration) => {
                let duration = duration.map_or(0, |duration| number(row.cell(duration)));
                milliseconds(row.cell(start), duration)
            }
            Content::Address(at) => {
                push_address(row.cell(at), out);
                continue;
            }
            Content::Text(at) => {
                push_text(row.cell(at).text().unwrap_or_default(), out);
                continue;
            }
            Content::Number(at) => number(row.cell(at)),
            Content::TypeAndCode(kind, code, family) => {
                type_and_code(number(row.cell(kind)), number(row.cell(code)), family)
            }
            Content::Flags(history, sender) => flags(row.cell(history).text().unwrap_or_default(), sender),
            Content::EndReason(protocol, state) => {
                end_reason(number(row.cell(protocol)), row.cell(state).text().unwrap_or_default())
            }
            Content::Direction => 1,
            Content::Identifier(at) => identifier(row.cell(at).text().unwrap_or_default()),
        };
        push_number(value, element.length.into(), out);
    }
}

/// A number of this many bytes, at most 8; the largest one if the value does not fit.
fn push_number(value: u64, length: usize, out: &mut Vec<u8>) {
    let largest = if length < 8 { (1 << (8 * length)) - 1 } else { u64::MAX };
    let bytes = value.min(largest).to_be_bytes();
    out.extend_from_slice(&bytes[8 - length.min(8)..]);
}

fn push_address(cell: Cell<'_>, out: &mut Vec<u8>) {
    match cell {
        Cell::Address(IpAddr::V4(address)) => out.extend_from_slice(&address.octets()),
        Cell::Address(IpAddr::V6(address)) => out.extend_from_slice(&address.octets()),
        _ => {}
    }
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    let mut length = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    out.push(length as u8);
    out.extend_from_slice(&text.as_bytes()[..length]);
}

fn number(cell: Cell<'_>) -> u64 {
    match cell {
        Cell::Unsigned(value) | Cell::Interval(value) => value,
        _ => 0,
    }
}

/// Type and code of an ICMP message. `second` is the code, or, as in Zeek's logs, the type of the reply if
/// messages of this type have replies. Such messages have the code 0 (RFC 792, RFC 4443, RFC 4861).
fn type_and_code(kind: u64, second: u64, family: Family) -> u64 {
    let has_reply = match family {
        Family::V4 => matches!(kind, 0 | 8 | 10 | 13..=15 | 17),
        Family::V6 => matches!(kind, 128 | 129 | 133..=136),
    };
    let code = if has_reply { 0 } else { second };
    (kind & 0xff) << 8 | code & 0xff
}

/// Milliseconds since 1970 of a time and an interval in nanoseconds after it; 0 for times before 1970.
fn milliseconds(time: Cell<'_>, interval_ns: u64) -> u64 {
    let Cell::Time(time) = time else { return 0 };
    u64::try_from(time.0).map_or(0, |ns| ns.saturating_add(interval_ns) / 1_000_000)
}

/// Flags of TCP (RFC 9293, section 3.1) that the letters of a history show. A history does not show PSH, URG
/// and those of ECN.
fn flags(history: &str, sender: Sender) -> u64 {
    const FIN: u64 = 0x01;
    const SYN: u64 = 0x02;
    const RST: u64 = 0x04;
    const ACK: u64 = 0x10;
    let own = history.chars().filter(|letter| letter.is_ascii_uppercase() == (sender == Sender::Originator));
    let of_letter = |letter: char| match letter.to_ascii_uppercase() {
        'S' => SYN,
        'H' => SYN | ACK,
        'F' => FIN,
        'R' => RST,
        'I' => FIN | RST,
        'A' => ACK,
        _ => 0,
    };
    own.map(of_letter).fold(0, |all, one| all | one)
}

/// The reason why a flow ended (`flowEndReason`): 3, an end was seen; 1, no packets came any longer.
fn end_reason(protocol: u64, state: &str) -> u64 {
    const IDLE: u64 = 1;
    const END_SEEN: u64 = 3;
    let is_closed = matches!(state, "SF" | "REJ" | "RSTO" | "RSTR" | "RSTOS0" | "RSTRH");
    if protocol == TCP && is_closed { END_SEEN } else { IDLE }
}

/// FNV-1a of the uid, 64 bits.
fn identifier(uid: &str) -> u64 {
    uid.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
