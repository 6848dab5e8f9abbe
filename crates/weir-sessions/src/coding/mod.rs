//! Content codings (RFC 9110 §8.4.1): gzip, deflate, Brotli (RFC 7932) and zstd (RFC 8878), decoded as the
//! bytes arrive.
//!
//! | file | what it does |
//! |---|---|
//! | `bounded` | the codings of a content, one within the other, with a bound on the result |
//! | `decoder` | one coding |
//! | `gzip` | one member of gzip |
//! | `step` | what a decoder did with bytes |

mod bounded;
mod decoder;
mod gzip;
mod step;

pub(crate) use bounded::BoundedDecoder;
#[cfg(test)]
pub(crate) use bounded::{DECODED_BYTES_FREE, DECODED_PER_BYTE_MAX};
pub(crate) use decoder::Decoder;
