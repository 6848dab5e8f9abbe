//! The head of an executable (Microsoft's PE format):
//!
//! ```text
//! 0     "MZ" …                a program of DOS; at 60, the offset of the rest
//! at    "PE\0\0"
//! + 4   COFF head             20 bytes: machine, sections, time, length of the optional head, characteristics
//! + 24  optional head         versions, subsystem, flags; at its end, the places of tables
//!       a section each        40 bytes, of which the first 8 are its name
//! ```

use crate::values::readable;

/// Bytes of the head of DOS, and the place in it of the offset.
const DOS_BYTES: usize = 64;
const OFFSET_AT: usize = 60;

/// Bytes of the signature and the COFF head.
const COFF_BYTES: usize = 24;

/// Bytes of a section's head.
const SECTION_BYTES: usize = 40;

/// Bytes of a section's name.
const NAME_BYTES: usize = 8;

/// The head of an executable, as far as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeHead {
    /// Number of the machine.
    pub machine: u16,
    /// Time of the build, seconds since 1970.
    pub built_seconds: u32,
    /// Whether it is an image, and not an object file: it has an optional head.
    pub is_image: bool,
    /// Whether it is marked as an executable of 32 bits.
    pub is_32bit: bool,
    /// The optional head; `None` if there is none, or if it is incomplete.
    pub optional: Option<OptionalHead>,
    /// Names of the sections, filled with zeros.
    names: Box<[[u8; NAME_BYTES]]>,
}

/// What is kept of the optional head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalHead {
    /// Version of the system that is required: major, minor.
    pub system: (u16, u16),
    /// Number of the subsystem.
    pub subsystem: u16,
    /// Flags (`DllCharacteristics`).
    pub flags: u16,
    /// The tables that are not empty, a bit each; the first is the lowest.
    pub tables: u16,
}

/// How many of the first bytes are needed to read all of the head, as far as `bytes` tell. `None`: they are
/// no executable.
pub(crate) fn needed(bytes: &[u8]) -> Option<usize> {
    let magic = bytes.iter().zip(b"MZ");
    if magic.clone().any(|(byte, of)| byte != of) {
        return None;
    }
    let Some(at) = offset(bytes) else { return Some(DOS_BYTES) };
    let coff_end = at.saturating_add(COFF_BYTES);
    let Some(coff) = bytes.get(at..coff_end) else { return Some(coff_end) };
    let is_signed = coff.starts_with(b"PE\0\0");
    let rest = usize::from(read_u16(coff, 20)?) + usize::from(read_u16(coff, 6)?) * SECTION_BYTES;
    is_signed.then_some(coff_end.saturating_add(rest))
}

fn offset(bytes: &[u8]) -> Option<usize> {
    read_u32(bytes.get(..DOS_BYTES)?, OFFSET_AT)?.try_into().ok()
}

impl PeHead {
    /// Reads what there is of a head. `None` without a COFF head.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        const OF_32_BITS: u16 = 0x100;
        needed(bytes)?;
        let rest = bytes.get(offset(bytes)?..)?;
        let coff = rest.get(..COFF_BYTES)?;
        let optional_bytes = usize::from(read_u16(coff, 20)?);
        let behind = &rest[COFF_BYTES..];
        let sections = behind.get(optional_bytes..).unwrap_or_default();
        let names = sections.chunks_exact(SECTION_BYTES).take(read_u16(coff, 6)?.into());
        Some(Self {
            machine: read_u16(coff, 4)?,
            built_seconds: read_u32(coff, 8)?,
            is_image: optional_bytes > 0,
            is_32bit: read_u16(coff, 22)? & OF_32_BITS != 0,
            optional: behind.get(..optional_bytes).and_then(OptionalHead::read),
            names: names.filter_map(|section| section.first_chunk().copied()).collect(),
        })
    }

    /// Names of the sections, in order.
    pub fn section_names(&self) -> impl Iterator<Item = String> {
        self.names.iter().map(|name| {
            let end = memchr::memchr(0, name).unwrap_or(NAME_BYTES);
            readable(&name[..end]).into_owned()
        })
    }

    /// Allocated bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.names)
    }
}

impl OptionalHead {
    fn read(bytes: &[u8]) -> Option<Self> {
        const TABLES_MAX: usize = 16;
        // Addresses are longer in executables of 64 bits, which moves the list of tables.
        let count_at = match read_u16(bytes, 0)? {
            0x10b => 92,
            0x20b => 108,
            _ => return None,
        };
        let count = usize::try_from(read_u32(bytes, count_at)?).unwrap_or(TABLES_MAX).min(TABLES_MAX);
        let is_table = |index: &usize| read_u32(bytes, count_at + 8 + index * 8).is_some_and(|size| size > 0);
        Some(Self {
            system: (read_u16(bytes, 40)?, read_u16(bytes, 42)?),
            subsystem: read_u16(bytes, 68)?,
            flags: read_u16(bytes, 70)?,
            tables: (0..count).filter(is_table).fold(0, |tables, index| tables | 1 << index),
        })
    }
}

/// Reads a little-endian number.
fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|number| u16::from_le_bytes(*number))
}

/// Reads a little-endian number.
fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|number| u32::from_le_bytes(*number))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The head of an executable for AMD64 of 2020-09-13, with two sections; `offset` bytes are in front of
    /// the signature.
    pub(crate) fn executable(offset: usize) -> Vec<u8> {
        let mut bytes = b"MZ".to_vec();
        bytes.resize(offset, 0);
        bytes[OFFSET_AT..][..4].copy_from_slice(&(offset as u32).to_le_bytes());
        bytes.extend(b"PE\0\0");
        let mut optional = vec![0; 240];
        for (at, number) in [(0, 0x20b_u16), (40, 6), (42, 1), (68, 3), (70, 0x140), (108, 16)] {
            optional[at..at + 2].copy_from_slice(&number.to_le_bytes());
        }
        // Imports and debug data.
        for table in [1, 6] {
            optional[112 + table * 8 + 4] = 9;
        }
        bytes.extend(0x8664_u16.to_le_bytes());
        bytes.extend(2_u16.to_le_bytes());
        bytes.extend(1_600_000_000_u32.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend((optional.len() as u16).to_le_bytes());
        bytes.extend(0x22_u16.to_le_bytes());
        bytes.extend(optional);
        for name in [b".text\0\0\0", b"longname"] {
            bytes.extend(name);
            bytes.resize(bytes.len() + SECTION_BYTES - NAME_BYTES, 0);
        }
        bytes
    }

    #[test]
    fn a_head_has_machine_time_flags_tables_and_sections() {
        let bytes = executable(128);
        assert_eq!(needed(&bytes), Some(bytes.len()));
        let head = PeHead::read(&bytes).expect("a head");
        assert_eq!((head.machine, head.built_seconds), (0x8664, 1_600_000_000));
        assert!(head.is_image && !head.is_32bit);
        let optional = OptionalHead { system: (6, 1), subsystem: 3, flags: 0x140, tables: 0b100_0010 };
        assert_eq!(head.optional, Some(optional));
        assert_eq!(head.section_names().collect::<Vec<_>>(), [".text", "longname"]);
    }

    #[test]
    fn of_a_cut_head_there_is_what_was_seen() {
        let bytes = executable(64);
        for length in 0..bytes.len() {
            let (needed, head) = (needed(&bytes[..length]), PeHead::read(&bytes[..length]));
            assert!(needed.is_some_and(|needed| needed > length), "{length}: {needed:?}");
            assert_eq!(head.is_some(), length >= 64 + COFF_BYTES);
            if let Some(head) = head {
                let optional_end = 64 + COFF_BYTES + 240;
                assert_eq!(head.optional.is_some(), length >= optional_end, "{length}");
                let sections = length.saturating_sub(optional_end) / SECTION_BYTES;
                assert_eq!(head.section_names().count(), sections, "{length}");
            }
        }
    }

    #[test]
    fn an_object_file_has_no_optional_head_and_32_bits_have_another_one() {
        let mut bytes = executable(64);
        let (optional_at, flags_at) = (64 + COFF_BYTES, 64 + COFF_BYTES - 2);
        bytes[flags_at + 1] |= 1;
        bytes[optional_at..optional_at + 2].copy_from_slice(&0x10b_u16.to_le_bytes());
        bytes[optional_at + 92] = 2;
        // Of two tables, the second; the third does not count.
        (bytes[optional_at + 96 + 12], bytes[optional_at + 96 + 20]) = (1, 1);
        let head = PeHead::read(&bytes).expect("a head");
        assert!(head.is_32bit);
        assert_eq!(head.optional.map(|optional| optional.tables), Some(0b10));
        bytes[flags_at - 2..flags_at].fill(0);
        let head = PeHead::read(&bytes).expect("a head");
        assert_eq!((head.is_image, head.optional), (false, None));
    }

    #[test]
    fn other_programs_and_wild_offsets_are_no_executables() {
        let mut bytes = executable(64);
        bytes[64] = b'N';
        assert_eq!((needed(&bytes), PeHead::read(&bytes)), (None, None), "another format");
        assert_eq!((needed(b"ZM"), PeHead::read(b"M")), (None, None));
        bytes[OFFSET_AT..][..4].fill(0xff);
        assert_eq!(PeHead::read(&bytes), None);
        assert!(needed(&bytes).is_none_or(|needed| needed > 1 << 31));
    }
}
