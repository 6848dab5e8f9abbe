//! Rows in a compact binary form: [`PackedSink`] writes it, [`Reader`] reads it.
//!
//! The form describes itself: the names, types and descriptions of the columns are in the file. Numbers are
//! stored as differences where these are shorter, so that lists of times and sequence numbers take few bytes.
//! `docs/formats.md` specifies the form.
//!
//! The reader trusts nothing: every length is checked against the bytes that are there, every block has a
//! checksum, and no block is larger than [`BLOCK_BYTES_MAX`]. What comes before an error is read; the error
//! says at which byte reading ended.
//!
//! ```no_run
//! let file = std::fs::File::open("capture.packed").expect("a file");
//! let mut reader = weir_packed::Reader::new(std::io::BufReader::new(file)).expect("packed rows");
//! println!("{:?}", reader.columns());
//! while let Some(batch) = reader.read().expect("an intact block") {
//!     batch.iter().for_each(|row| println!("{row:?}"));
//! }
//! ```
#![forbid(unsafe_code)]

mod decode;
mod encode;
mod error;
mod read;
mod write;

pub use error::ReadError;
pub use read::Reader;
pub use write::PackedSink;

use weir_packet::ValueType;

/// The first bytes of a file: as in PNG, a byte that is no text, the name, and line ends that a conversion of
/// texts changes.
const MAGIC: &[u8; 8] = b"\x89WPK\r\n\x1a\n";
/// The version of the form.
const VERSION: u8 = 1;
/// Kinds of blocks.
const COLUMNS: u8 = 1;
const ROWS: u8 = 2;
const END: u8 = 3;

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
const WRITTEN_BYTES: usize = 256 << 10;

/// The numbers of types: never changed, since files have them.
const TYPES: &[(u8, ValueType)] = &[
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
mod mode {
    /// Each number as it is.
    pub const PLAIN: u8 = 0;
    /// The difference from the number before: in a list, from the one before in the list.
    pub const DELTA: u8 = 1;
}
