//! A header block: what HEADERS or PUSH_PROMISE and their CONTINUATIONs carry (RFC 9113 §4.3) → a head.

use super::frame::{CONTINUATION, Frame};
use super::hpack::{Decoder, Unreadable};
use crate::http::head::{Head, HeadBuilder, Version};

/// Longest block that is kept, bytes: compressed, in however many frames. Beyond it nothing can be read any more.
pub(super) const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// Most frames of a block: empty CONTINUATIONs cost nothing but time (CVE-2024-27316).
const BLOCK_FRAMES_MAX: u32 = 1024;

/// What a block is.
#[derive(Debug)]
pub(super) enum Kind {
    /// It has a `:method`.
    Request(Head),
    /// It has a `:status`.
    Response(Head),
    /// It has neither: trailers (RFC 9113 §8.1).
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
    /// A frame of a block begins; whether it may stand here.
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

    /// Adds bytes of the block; whether they were not too many.
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

    /// The frame that began it.
    pub(super) fn frame(&self) -> Frame {
        self.frame
    }

    /// Reads the block, which is whole.
    pub(super) fn read(&mut self) -> Result<Kind, Unreadable> {
        self.is_open = false;
        let bytes = std::mem::take(&mut self.bytes);
        let mut builder = HeadBuilder::default();
        let (mut method, mut path, mut status) = (None, None, None);
        self.decoder.decode(&bytes, |name, value| {
            // The first of each counts; more of them are not allowed (RFC 9113 §8.3).
            match name {
                b":method" if method.is_none() => method = Some(value.to_vec()),
                b":path" if path.is_none() => path = Some(value.to_vec()),
                b":status" if status.is_none() => status = Some(value.to_vec()),
                _ => {}
            }
            builder.push(name, value);
        })?;
        let version = Version(2, 0);
        Ok(match (method, status.as_deref()) {
            (Some(method), _) => {
                Kind::Request(builder.request(&method, path.as_deref().unwrap_or_default(), version))
            }
            (None, Some([a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'])) => {
                let code = [a, b, c].iter().fold(0, |code, digit| code * 10 + u16::from(**digit - b'0'));
                Kind::Response(builder.response(code, version))
            }
            (None, Some(_)) => return Err(Unreadable),
            (None, None) => Kind::Trailers,
        })
    }

    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.decoder.held_bytes()
    }
}
