//! Bytes of a direction, in order.

use super::CarrierPacket;

use weir_packet::Direction;

/// In-order bytes of a direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InOrder<'a> {
    /// Time at which the bytes arrived or became in order, nanoseconds since 1970.
    pub now: i64,
    /// The sender.
    pub side: Direction,
    /// Bytes missing before them.
    pub gap_bytes: u64,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// The number of bytes that the headers claim.
    pub claimed_bytes: u64,
    /// The stream ends here: all its bytes have been in order.
    pub ends: bool,
    /// The packet that the bytes came in, if known.
    pub packet: Option<CarrierPacket<'a>>,
}

impl InOrder<'_> {
    /// The end of a stream, after its last byte.
    pub fn end(now: i64, side: Direction) -> Self {
        Self { now, side, gap_bytes: 0, bytes: &[], claimed_bytes: 0, ends: true, packet: None }
    }

    /// Bytes that the capture cut off; they are missing from the stream.
    pub fn cut_bytes(&self) -> u64 {
        self.claimed_bytes.saturating_sub(self.bytes.len() as u64)
    }
}
