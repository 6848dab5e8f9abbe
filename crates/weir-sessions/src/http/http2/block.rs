//! A header block: the fragments of HEADERS or PUSH_PROMISE and their CONTINUATIONs (RFC 9113 §4.3) → a head.

use super::frame::{CONTINUATION, Frame};
use super::hpack::{Decoder, Unreadable};
use crate::CutOff;
use crate::http::head::{Head, HeadBuilder};
use crate::http::start_line::Version;

/// Maximum length of a block, compressed, in any number of frames. After a longer one nothing can be decoded.
pub(super) const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of frames of a block: empty CONTINUATIONs would take unbounded time (CVE-2024-27316).
const BLOCK_FRAMES_MAX: u32 = 1024;

/// Values up to this length are kept in any case: methods, status codes.
const SHORT_BYTES_MAX: usize = 16;

/// The type of a block.
#[derive(Debug)]
pub(super) enum Kind {
    /// Has a `:method`, or another field that only requests have, if the method is not known.
    Request(Head),
    /// Has a `:status`.
    Response(Head),
    /// Has neither: trailers (RFC 9113 §8.1).
    Trailers,
}

/// One direction's header blocks.
#[derive(Debug, Default)]
pub(super) struct Block {
    decoder: Decoder,
    bytes: Vec<u8>,
    frame: Frame,
    frames: u32,
    is_open: bool,
}

impl Block {
    /// The blocks of a direction whose earlier ones were not seen.
    pub(super) fn in_the_middle() -> Self {
        Self { decoder: Decoder::in_the_middle(), ..Self::default() }
    }

    /// Begins with a frame of a block; returns whether the frame is allowed here.
    pub(super) fn begin(&mut self, frame: Frame) -> bool {
        self.frames += 1;
        if frame.kind == CONTINUATION {
            return self.is_open
                && frame.stream_id == self.frame.stream_id
                && self.frames <= BLOCK_FRAMES_MAX;
        }
        (self.frame, self.frames, self.is_open) = (frame, 1, true);
        true
    }

    /// Adds bytes of the block; returns whether they fit the bound.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = self.bytes.len() + bytes.len() <= BLOCK_BYTES_MAX;
        if fits {
            self.bytes.extend_from_slice(bytes);
        }
        fits
    }

    /// Whether a block has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The first frame of the block.
    pub(super) fn frame(&self) -> Frame {
        self.frame
    }

    /// Decodes the complete block. A value that exceeds the `allowance` for decoded bytes is left out, and
    /// [`CutOff::parts`] counts the block.
    pub(super) fn read(&mut self, allowance: &mut u64, cut_off: &mut CutOff) -> Result<Kind, Unreadable> {
        self.is_open = false;
        let bytes = std::mem::take(&mut self.bytes);
        let mut builder = HeadBuilder::default();
        let (mut method, mut path, mut status) = (None, None, None);
        let (mut is_cut, mut is_request) = (false, false);
        self.decoder.decode(&bytes, |name, value| {
            let decoded_bytes = (name.len() + value.len()) as u64;
            let is_allowed = decoded_bytes <= *allowance || value.len() <= SHORT_BYTES_MAX;
            *allowance = allowance.saturating_sub(if is_allowed { decoded_bytes } else { 0 });
            is_cut |= !is_allowed;
            let value = if is_allowed { value } else { &[] };
            // Only the first field of each name is used; repeated ones are invalid (RFC 9113 §8.3).
            match name {
                b":method" if method.is_none() => method = Some(value.to_vec()),
                b":path" if path.is_none() => path = Some(value.to_vec()),
                b":status" if status.is_none() => status = Some(value.to_vec()),
                b":scheme" | b":authority" => is_request = true,
                _ => {}
            }
            builder.push(name, value);
        })?;
        cut_off.parts += u64::from(is_cut);
        let version = Version(2, 0);
        is_request |= method.is_some() || path.is_some();
        Ok(match (is_request, status.as_deref()) {
            (true, _) => {
                let (method, path) = (method.unwrap_or_default(), path.unwrap_or_default());
                Kind::Request(builder.request(&method, &path, version))
            }
            (false, Some([a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'])) => {
                let code = [a, b, c].iter().fold(0, |code, digit| code * 10 + u16::from(**digit - b'0'));
                Kind::Response(builder.response(code, version))
            }
            (false, Some(_)) => return Err(Unreadable),
            (false, None) => Kind::Trailers,
        })
    }
}
