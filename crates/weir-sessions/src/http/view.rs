//! [`View`]: the bytes of HTTP/1 with decoded bodies. The parser reports which bytes each of its steps consumed.

use super::stream::Piece;
use crate::coding::Decoder;
use crate::{DECODED_BYTES_FREE, DECODED_PER_BYTE_MAX, Direction};

/// The bytes of the view that the parser has not passed on yet.
#[derive(Debug, Default)]
pub(super) struct View {
    shown: Vec<u8>,
    bodies: [Body; 2],
    /// Bodies that the bound on decoded bytes cut.
    cut: u64,
}

/// The body of one direction.
#[derive(Debug)]
struct Body {
    /// The decoder; `None`: bytes are shown as sent.
    decoder: Option<Decoder>,
    /// Decoded bytes that may follow.
    room_bytes: u64,
}

impl Default for Body {
    fn default() -> Self {
        Self { decoder: None, room_bytes: DECODED_BYTES_FREE }
    }
}

impl View {
    /// Takes a step of the parser: the bytes that it consumed, whether they began in a body, and the piece that they made.
    pub(super) fn take(
        &mut self,
        from: Direction,
        (consumed, is_in_body): (&[u8], bool),
        piece: Option<&Piece<'_>>,
    ) {
        let body = &mut self.bodies[from as usize];
        match piece {
            Some(Piece::Body(bytes)) => {
                // The rest of a head that is too long to keep.
                let before = if is_in_body { 0 } else { consumed.len() - bytes.len() };
                self.shown.extend_from_slice(&consumed[..before]);
                self.cut += u64::from(body.show(bytes, &mut self.shown));
            }
            // Framing of chunks, and trailers.
            None | Some(Piece::End) if is_in_body => {}
            _ => self.shown.extend_from_slice(consumed),
        }
        if let Some(Piece::Head { head, .. }) = piece {
            let decoder = Decoder::of(head.header("content-encoding"));
            *body = Body { decoder, ..Body::default() };
        }
    }

    /// Missing bytes: what follows in the body cannot be decoded.
    pub(super) fn lose(&mut self, from: Direction) {
        let body = &mut self.bodies[from as usize];
        if !matches!(body.decoder, Some(Decoder::Plain)) {
            body.decoder = None;
        }
    }

    /// Number of bodies that the bound on decoded bytes cut.
    pub(super) fn cut(&self) -> u64 {
        self.cut
    }

    /// Takes the bytes so far.
    pub(super) fn take_shown(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.shown)
    }

    /// Bytes of memory.
    pub(super) fn held_bytes(&self) -> usize {
        let decoders = self.bodies.iter().filter_map(|body| body.decoder.as_ref());
        self.shown.capacity() + decoders.map(Decoder::held_bytes).sum::<usize>()
    }
}

impl Body {
    /// Shows bytes of the body, decoded. Returns whether the bound cuts the body here.
    fn show(&mut self, bytes: &[u8], shown: &mut Vec<u8>) -> bool {
        let Some(decoder) = &mut self.decoder else {
            shown.extend_from_slice(bytes);
            return false;
        };
        self.room_bytes = self.room_bytes.saturating_add(bytes.len() as u64 * DECODED_PER_BYTE_MAX);
        let (room_bytes, mut is_cut) = (&mut self.room_bytes, false);
        let _ = decoder.decode(bytes, &mut |plain| {
            let take = plain.len().min(usize::try_from(*room_bytes).unwrap_or(usize::MAX));
            shown.extend_from_slice(&plain[..take]);
            *room_bytes -= take as u64;
            is_cut = take < plain.len();
            !is_cut
        });
        is_cut
    }
}
