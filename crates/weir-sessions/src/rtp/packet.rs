//! A [`Packet`] of RTP: its header (RFC 3550 §5.1); and payload types (RFC 3551 §6).

/// Length of the fixed header, bytes.
const HEADER_BYTES: usize = 12;

/// The header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    /// Marker: the start of a talk spurt, the end of a picture.
    pub(super) is_marked: bool,
    pub(super) payload_type: u8,
    pub(super) sequence: u16,
    /// In units of the payload's clock.
    pub(super) timestamp: u32,
    pub(super) source: u32,
    /// Payload length without header and padding.
    pub(super) payload_bytes: usize,
}

impl Packet {
    /// Parses a datagram. `None` if it is not RTP.
    pub(super) fn parse(datagram: &[u8]) -> Option<Self> {
        let header = datagram.first_chunk::<HEADER_BYTES>()?;
        let [first, second, s0, s1, t0, t1, t2, t3, source @ ..] = *header;
        let payload_type = second & 0x7f;
        // 64 to 95 are RTCP (RFC 5761 §4).
        if first >> 6 != 2 || (64..=95).contains(&payload_type) {
            return None;
        }
        let sources_bytes = usize::from(first & 15) * 4;
        let mut rest = datagram[HEADER_BYTES..].get(sources_bytes..)?;
        if first & 0x10 != 0 {
            let words = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]);
            rest = rest.get(4 + usize::from(words) * 4..)?;
        }
        let padding = if first & 0x20 != 0 { usize::from(*rest.last()?) } else { 0 };
        Some(Self {
            is_marked: second & 0x80 != 0,
            payload_type,
            sequence: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            source: u32::from_be_bytes(source),
            payload_bytes: rest.len().checked_sub(padding)?,
        })
    }

    /// Whether the payload type is registered or dynamic, and the source looks like a random number.
    pub(super) fn is_likely(&self) -> bool {
        (matches!(self.payload_type, 35..=63 | 96..=127) || payload(self.payload_type).is_some())
            && self.source != 0
    }
}

/// Name and clock (Hz) of a payload type. `None` for dynamic types.
pub(super) fn payload(payload_type: u8) -> Option<(&'static str, u32)> {
    Some(match payload_type {
        0 => ("PCMU", 8000),
        3 => ("GSM", 8000),
        4 => ("G723", 8000),
        5 => ("DVI4", 8000),
        6 => ("DVI4", 16_000),
        7 => ("LPC", 8000),
        8 => ("PCMA", 8000),
        // The true rate is 16 kHz; the wrong value is kept for compatibility (§4.5.2).
        9 => ("G722", 8000),
        10 | 11 => ("L16", 44_100),
        12 => ("QCELP", 8000),
        13 => ("CN", 8000),
        14 => ("MPA", 90_000),
        15 => ("G728", 8000),
        16 => ("DVI4", 11_025),
        17 => ("DVI4", 22_050),
        18 => ("G729", 8000),
        25 => ("CelB", 90_000),
        26 => ("JPEG", 90_000),
        28 => ("nv", 90_000),
        31 => ("H261", 90_000),
        32 => ("MPV", 90_000),
        33 => ("MP2T", 90_000),
        34 => ("H263", 90_000),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_extensions_and_padding_are_no_payload() {
        let mut datagram = vec![0xb1, 0x80, 0, 7, 0, 0, 0, 9, 1, 2, 3, 4];
        datagram.extend([5; 4]); // one more source
        datagram.extend([0xbe, 0xde, 0, 1, 1, 1, 1, 1]);
        datagram.extend([6; 10]);
        datagram.extend([0, 0, 3]);
        let packet = Packet::parse(&datagram).expect("one");
        assert_eq!((packet.payload_bytes, packet.sequence, packet.source), (10, 7, 0x0102_0304));
        for length in 0..24 {
            assert_eq!(Packet::parse(&datagram[..length]), None, "{length}");
        }
    }
}
