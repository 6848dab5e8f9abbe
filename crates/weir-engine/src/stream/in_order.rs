//! Bytes of a direction, in order.

use super::CarrierPacket;

use weir_packet::Direction;

/// Bytes of a direction whose turn it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InOrder<'a> {
    /// When they came, or their turn did.
    pub now: i64,
    /// Who sent them.
    pub side: Direction,
    /// Missing before them.
    pub gap_bytes: u64,
    /// As many as were captured.
    pub bytes: &'a [u8],
    /// As many as the headers claim.
    pub claimed_bytes: u64,
    /// The packet that they came in, where it is known.
    pub packet: Option<CarrierPacket<'a>>,
}

impl InOrder<'_> {
    /// What the capture cut off the packet is missing from the stream.
    pub fn cut_bytes(&self) -> u64 {
        self.claimed_bytes.saturating_sub(self.bytes.len() as u64)
    }
}
