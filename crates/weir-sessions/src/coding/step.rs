//! [`Step`]: what a decoder did with bytes.

use flate2::{Decompress, FlushDecompress, Status};

/// What a decoder did with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Bytes of the input that were read.
    pub(super) read: usize,
    /// Bytes of the buffer that were written; also if the bytes behind them are wrong.
    pub(super) written: usize,
    /// The next bytes violate the coding.
    pub(super) is_wrong: bool,
    /// The coded data has ended.
    pub(super) is_over: bool,
}

impl Step {
    /// Bytes were read and written.
    pub(super) fn moved(read: usize, written: usize) -> Self {
        Self { read, written, is_wrong: false, is_over: false }
    }
}

/// Decodes deflate.
pub(super) fn step_inflate(inflate: &mut Decompress, input: &[u8], buffer: &mut [u8]) -> Step {
    let (read, written) = (inflate.total_in(), inflate.total_out());
    let status = inflate.decompress(input, buffer, FlushDecompress::None);
    // The bytes before a mistake count.
    let (read, written) = (inflate.total_in() - read, inflate.total_out() - written);
    Step {
        read: (read as usize).min(input.len()),
        written: (written as usize).min(buffer.len()),
        is_wrong: status.is_err(),
        is_over: matches!(status, Ok(Status::StreamEnd)),
    }
}
