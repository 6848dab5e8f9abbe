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
//! let mut reader = weir_io::packed::Reader::new(std::io::BufReader::new(file)).expect("packed rows");
//! println!("{:?}", reader.columns());
//! while let Some(batch) = reader.read().expect("an intact block") {
//!     batch.iter().for_each(|row| println!("{row:?}"));
//! }
//! ```

mod decode;
mod encode;
mod error;
mod form;
mod read;
mod write;

pub use error::ReadError;
pub use form::{BLOCK_BYTES_MAX, CELLS_MAX, COLUMNS_MAX, ELEMENTS_MAX, ROWS_MAX};
pub use read::Reader;
pub use write::PackedSink;
