//! RTCP: sender reports, receiver reports and names of sources (RFC 3550 §6).

use crate::line::text;

/// Maximum number of packets read of a compound, and of parts read of a packet.
const PARTS_MAX: usize = 32;

/// A statement about a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// A sender report.
    Sent {
        /// Source.
        source: u32,
        /// Packets sent so far.
        packets: u32,
        /// Payload sent so far, bytes.
        bytes: u32,
    },
    /// A receiver's report block.
    Received {
        /// Source that it reports on.
        source: u32,
        /// Packets lost so far; negative if duplicates exceed losses.
        lost: i32,
        /// Jitter, in units of the payload's clock.
        jitter: u32,
    },
    /// The name of a source (CNAME).
    Name {
        /// Source.
        source: u32,
        /// `bob@host`.
        name: String,
    },
}

/// A packet of RTCP.
#[derive(Debug, Clone, Copy)]
struct Packet<'a> {
    count: usize,
    kind: u8,
    body: &'a [u8],
}

/// The packets of a compound, up to the first malformed one.
fn packets(datagram: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let [first, kind, high, low, ..] = *rest else { return None };
        let end = (usize::from(u16::from_be_bytes([high, low])) + 1) * 4;
        let packet = rest.get(4..end).filter(|_| first >> 6 == 2 && (192..=223).contains(&kind))?;
        rest = &rest[end..];
        Some(Packet { count: usize::from(first & 31), kind, body: packet })
    })
    .take(PARTS_MAX)
}

/// Whether a datagram is one or several packets of RTCP.
pub(super) fn is_rtcp(datagram: &[u8]) -> bool {
    packets(datagram).next().is_some()
}

/// Whether a datagram is a valid compound (§6.1): a report, names, and no trailing bytes.
pub(super) fn is_compound(datagram: &[u8]) -> bool {
    let mut length = 0;
    let mut kinds = packets(datagram).map(|packet| {
        length += packet.body.len() + 4;
        let is_whole = match packet.kind {
            200 => packet.body.len() >= 24 + 24 * packet.count,
            201 => packet.body.len() >= 4 + 24 * packet.count,
            _ => true,
        };
        (packet.kind, is_whole)
    });
    let begins = matches!(kinds.next(), Some((200 | 201, true)));
    let goes_on = matches!(kinds.next(), Some((202, true)));
    begins && goes_on && kinds.all(|kind| kind.1) && length == datagram.len()
}

fn read(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Passes each statement of a compound to `take`.
pub(super) fn read_all(datagram: &[u8], mut take: impl FnMut(Said)) {
    for packet in packets(datagram) {
        let reports = match packet.kind {
            200 => {
                let [source, packets, bytes] = [0, 16, 20].map(|at| read(packet.body, at));
                if let (Some(source), Some(packets), Some(bytes)) = (source, packets, bytes) {
                    take(Said::Sent { source, packets, bytes });
                }
                packet.body.get(24..)
            }
            201 => packet.body.get(4..),
            202 => {
                read_names(&packet, &mut take);
                None
            }
            _ => None,
        };
        let reports = reports.unwrap_or_default().as_chunks::<24>().0;
        for report in reports.iter().take(packet.count) {
            let [a, b, c, d, _, high, mid, low, ..] = *report;
            // 24 bits, signed.
            let lost = i32::from_be_bytes([high, mid, low, 0]) >> 8;
            let jitter = read(report, 12).unwrap_or(0);
            take(Said::Received { source: u32::from_be_bytes([a, b, c, d]), lost, jitter });
        }
    }
}

/// Reads chunks of names (§6.5): a source, items, zeros up to a multiple of 32 bits.
fn read_names(packet: &Packet<'_>, take: &mut impl FnMut(Said)) {
    let mut rest = packet.body;
    for _ in 0..packet.count {
        let Some(source) = read(rest, 0) else { return };
        let mut at = 4;
        while let Some(kind) = rest.get(at).copied().filter(|kind| *kind != 0) {
            let Some(length) = rest.get(at + 1).copied().map(usize::from) else { return };
            let Some(item) = rest.get(at + 2..at + 2 + length) else { return };
            if kind == 1 {
                take(Said::Name { source, name: text(item, 255) });
            }
            at += 2 + length;
        }
        let end = (at + 1).next_multiple_of(4);
        rest = rest.get(end..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender's report with one block, and its name.
    fn compound() -> Vec<u8> {
        let mut bytes = vec![0x81, 200, 0, 12, 0, 0, 0, 7];
        bytes.extend([0; 12]);
        bytes.extend([0, 0, 0, 50, 0, 0, 31, 64]);
        bytes.extend([0, 0, 0, 8, 0, 0xff, 0xff, 0xfe, 0, 0, 0, 99, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(b"\x81\xca\0\x03\0\0\0\x07\x01\x04a@bc\0\0");
        bytes
    }

    #[test]
    fn a_compound_says_what_was_sent_and_received() {
        let mut said = Vec::new();
        read_all(&compound(), |one| said.push(one));
        assert_eq!(
            said,
            [
                Said::Sent { source: 7, packets: 50, bytes: 8000 },
                Said::Received { source: 8, lost: -2, jitter: 16 },
                Said::Name { source: 7, name: "a@bc".into() },
            ]
        );
    }

    #[test]
    fn a_compound_is_told_by_its_lengths() {
        let bytes = compound();
        assert!(is_compound(&bytes));
        for length in 0..bytes.len() {
            assert!(!is_compound(&bytes[..length]), "{length}");
        }
        assert!(!is_compound(&[&bytes[..], &[0]].concat()));
        assert!(!is_rtcp(&[0x80, 0, 0, 1, 0, 0, 0, 0]));
    }
}
