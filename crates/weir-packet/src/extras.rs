//! The side table of a burst: additional data of a source about a few packets, beyond
//! [`PacketMeta`](crate::PacketMeta).

use crate::{Burst, LinkType};
use std::borrow::Cow;
use std::ops::Range;

/// Bytes of the two addresses at the start of an Ethernet frame; a VLAN tag follows them.
const ADDRESSES_BYTES: usize = 12;

/// A VLAN tag that a device or kernel removed from a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanTag {
    /// Tag protocol identifier: 0x8100 for IEEE 802.1Q, 0x88a8 for IEEE 802.1ad.
    pub tpid: u16,
    /// Tag control information: priority, drop eligibility, VLAN.
    pub tci: u16,
}

/// Whether the machine that captured a packet received or sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketDirection {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// The state of the checksums above layer 2, as a device or kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChecksumState {
    /// Not reported.
    #[default]
    Unknown,
    /// They were verified.
    Valid,
    /// Verified; at least one is wrong.
    Invalid,
    /// The sending device computes the checksums, so those in the packet are meaningless.
    Partial,
}

/// Additional data about a packet, beyond its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketExtra<'a> {
    /// The VLAN tag that is missing in the frame. Filters do not see the tag: sources that deliver it restore
    /// it in the frame.
    pub vlan: Option<VlanTag>,
    /// The hash by which the device chose the queue.
    pub rss_hash: Option<u32>,
    /// Received or sent.
    pub direction: Option<PacketDirection>,
    /// The receive queue of the device.
    pub queue: Option<u16>,
    /// The state of the checksums.
    pub checksum: ChecksumState,
    /// Comments and other packet options of the capture's format. The reader encodes them in the form that
    /// the writer expects; no other code depends on this form.
    pub annotations: &'a [u8],
}

impl PacketExtra<'_> {
    /// The frame with its VLAN tag restored after the addresses, as it was on the wire. Returns the frame
    /// itself if no tag is missing, if the link type is not Ethernet, or if the frame was cut within its
    /// addresses.
    pub fn frame_with_vlan<'f>(&self, link: LinkType, frame: &'f [u8]) -> Cow<'f, [u8]> {
        let Some(VlanTag { tpid, tci }) = self.vlan.filter(|_| link == LinkType::ETHERNET) else {
            return Cow::Borrowed(frame);
        };
        let Some((addresses, rest)) = frame.split_at_checked(ADDRESSES_BYTES) else {
            return Cow::Borrowed(frame);
        };
        Cow::Owned([addresses, &tpid.to_be_bytes(), &tci.to_be_bytes(), rest].concat())
    }
}

/// The row of one packet. The annotations are a range of the table's.
#[derive(Debug, Clone)]
struct Row {
    index: u16,
    extra: PacketExtra<'static>,
    annotations: Range<usize>,
}

/// Additional data about packets of a burst, by their index in the burst. An empty table costs nothing.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    rows: Vec<Row>,
    annotations: Vec<u8>,
}

impl Extras {
    /// A table without rows. Allocates nothing.
    pub const fn new() -> Self {
        Self { rows: Vec::new(), annotations: Vec::new() }
    }

    /// Whether the table has no rows.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Removes all rows. Their memory is reused.
    #[inline]
    pub fn clear(&mut self) {
        self.rows.clear();
        self.annotations.clear();
    }

    /// Adds the row of packet `index`, which must be greater than those added before.
    pub fn push(&mut self, index: usize, extra: PacketExtra<'_>) {
        debug_assert!(self.rows.last().is_none_or(|last| usize::from(last.index) < index), "rows are sorted");
        let start = self.annotations.len();
        self.annotations.extend_from_slice(extra.annotations);
        self.rows.push(Row {
            index: u16::try_from(index).expect("a burst is shorter than that"),
            extra: PacketExtra { annotations: &[], ..extra },
            annotations: start..self.annotations.len(),
        });
    }

    /// The additional data about packet `index`.
    #[inline]
    pub fn get(&self, index: usize) -> PacketExtra<'_> {
        if self.is_empty() { PacketExtra::default() } else { self.find(index) }
    }

    fn find(&self, index: usize) -> PacketExtra<'_> {
        match self.rows.binary_search_by_key(&index, |row| usize::from(row.index)) {
            Ok(at) => {
                let Row { extra, annotations, .. } = &self.rows[at];
                PacketExtra { annotations: &self.annotations[annotations.clone()], ..*extra }
            }
            Err(_) => PacketExtra::default(),
        }
    }
}

impl Burst {
    /// The additional data about packet `index`.
    pub fn extra(&self, index: usize) -> PacketExtra<'_> {
        self.extras.get(index)
    }

    /// Adds packets of another burst, which lie in the same block, and their additional data.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn extend_from(&mut self, other: &Burst, range: Range<usize>) {
        if !other.extras.is_empty() {
            for (index, at) in (self.packets.len()..).zip(range.clone()) {
                let extra = other.extra(at);
                if extra != PacketExtra::default() {
                    self.extras.push(index, extra);
                }
            }
        }
        self.packets.extend_from_slice(&other.packets[range]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, PacketMeta};
    use std::sync::Arc;

    const TAG: VlanTag = VlanTag { tpid: 0x8100, tci: 0x602a };

    fn burst(frames: &[&[u8]]) -> Burst {
        let mut bytes = vec![];
        let mut packets = vec![];
        for frame in frames {
            let (offset, captured_bytes) = (bytes.len() as u32, frame.len() as u32);
            packets.push(PacketMeta {
                offset,
                captured_bytes,
                link: LinkType::ETHERNET,
                ..PacketMeta::default()
            });
            bytes.extend_from_slice(frame);
        }
        Burst { block: Arc::new(Block::shared(bytes)), packets, ..Burst::default() }
    }

    #[test]
    fn a_row_is_found_by_its_packet_and_survives_a_split() {
        let mut whole = burst(&[b"a", b"b", b"c", b"d"]);
        whole.extras.push(1, PacketExtra { annotations: b"first", queue: Some(3), ..PacketExtra::default() });
        whole.extras.push(3, PacketExtra { vlan: Some(TAG), annotations: b"last", ..PacketExtra::default() });
        assert_eq!((whole.extra(1).annotations, whole.extra(1).queue), (&b"first"[..], Some(3)));
        assert_eq!(whole.extra(2), PacketExtra::default());
        let mut part = Burst { block: Arc::clone(&whole.block), ..Burst::default() };
        part.extend_from(&whole, 0..1);
        part.extend_from(&whole, 3..4);
        assert_eq!((part.packets.len(), part.data(1)), (2, &b"d"[..]));
        assert_eq!((part.extra(1).annotations, part.extra(1).vlan), (&b"last"[..], Some(TAG)));
        part.extras.clear();
        assert!(part.extras.is_empty() && part.extra(1) == PacketExtra::default());
    }

    #[test]
    fn a_tag_out_of_band_is_written_back_behind_the_addresses() {
        let mut burst = burst(&[b"\x01\x02\x03\x04\x05\x06\x0a\x0b\x0c\x0d\x0e\x0f\x08\x00ip", b"cut"]);
        for index in 0..2 {
            burst.extras.push(index, PacketExtra { vlan: Some(TAG), ..PacketExtra::default() });
        }
        let frame = |burst: &Burst, index: usize| {
            burst.extra(index).frame_with_vlan(burst.packets[index].link, burst.data(index)).into_owned()
        };
        let tagged = b"\x01\x02\x03\x04\x05\x06\x0a\x0b\x0c\x0d\x0e\x0f\x81\x00\x60\x2a\x08\x00ip";
        assert_eq!(frame(&burst, 0), tagged);
        assert_eq!(frame(&burst, 1), b"cut", "there is no place for the tag");
        burst.packets[0].link = LinkType(101);
        assert_eq!(frame(&burst, 0).len(), 16, "a tag is of Ethernet");
    }
}
