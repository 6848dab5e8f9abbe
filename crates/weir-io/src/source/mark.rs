//! Places inside of a capture where reading can begin.

/// Limit of bytes of the blocks that describe the interfaces of a section. A section with more has no
/// [`Mark`]s.
pub(crate) const HEAD_BYTES_MAX: usize = 256 << 10;

/// A place between two packets of a capture. A reader of [`head`](Self::head), followed by the capture's
/// uncompressed bytes from [`offset_bytes`](Self::offset_bytes) on, reads the packets behind the place as a
/// reader of the whole capture does; only their numbers and those of their interfaces begin anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Offset in the uncompressed capture.
    pub offset_bytes: u64,
    /// What a reader must know: the file header of pcap, or the section and its interfaces of pcapng. At most
    /// 256 KiB.
    pub head: Vec<u8>,
    /// The number in the run of the first interface that `head` describes.
    pub first_interface: u16,
}
