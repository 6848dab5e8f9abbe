//! The constants of the form, which writer and reader share.

use weir_packet::ValueType;

/// The first bytes of a file: as in PNG, a byte that is no text, the name, and line ends that a conversion of
/// texts changes.
pub(super) const MAGIC: &[u8; 8] = b"\x89WPK\r\n\x1a\n";
/// The version of the form.
pub(super) const VERSION: u8 = 1;
/// Kinds of blocks.
pub(super) const COLUMNS: u8 = 1;
pub(super) const ROWS: u8 = 2;
pub(super) const END: u8 = 3;

/// The most bytes of a block that a reader accepts.
pub const BLOCK_BYTES_MAX: usize = 64 << 20;
/// The most columns.
pub const COLUMNS_MAX: usize = 4_096;
/// The most rows of a block.
pub const ROWS_MAX: usize = 1 << 16;
/// The most values of a block, with the absent ones.
pub const CELLS_MAX: usize = 1 << 22;
/// The most elements of all lists of a block.
pub const ELEMENTS_MAX: usize = 1 << 22;
/// Rows are written as a block at this many bytes of memory.
pub(super) const WRITTEN_BYTES: usize = 256 << 10;

/// The numbers of types: never changed, since files have them.
pub(super) const TYPES: &[(u8, ValueType)] = &[
    (1, ValueType::Bool),
    (2, ValueType::Unsigned),
    (3, ValueType::Fraction),
    (4, ValueType::Time),
    (5, ValueType::Interval),
    (6, ValueType::Ipv4),
    (7, ValueType::Ipv6),
    (8, ValueType::Address),
    (9, ValueType::Mac),
    (10, ValueType::Text),
    (11, ValueType::Bytes),
    (12, ValueType::Texts),
    (13, ValueType::Numbers),
];

/// How numbers of a column are stored.
pub(super) mod mode {
    /// Each number as it is.
    pub const PLAIN: u8 = 0;
    /// The difference from the number before: in a list, from the one before in the list.
    pub const DELTA: u8 = 1;
}
