//! [`View`]: the bytes of HTTP/1 with decoded bodies. The parser reports which bytes each of its steps
//! consumed.

use super::stream::Piece;
use crate::Direction;
use crate::coding::BoundedDecoder;

/// The bytes of the view that the parser has not passed on yet.
#[derive(Debug, Default)]
pub(super) struct View {
    shown: Vec<u8>,
    /// The decoder of each direction's body; `None`: bytes are shown as sent.
    decoders: [Option<BoundedDecoder>; 2],
    /// Bodies that the bound on decoded bytes cut.
    cut: u64,
}

impl View {
    /// Takes a step of the parser: the bytes that it consumed, whether they began in a body, and the piece
    /// that they made.
    pub(super) fn take(
        &mut self,
        from: Direction,
        (consumed, is_in_body): (&[u8], bool),
        piece: Option<&Piece<'_>>,
    ) {
        let decoder = &mut self.decoders[from as usize];
        match piece {
            Some(Piece::Unchunked(bytes)) => {
                self.cut += u64::from(show(bytes.as_slice(), decoder.as_mut(), &mut self.shown));
            }
            Some(Piece::Body(bytes)) => {
                // The rest of a head that is too long to keep.
                let before = if is_in_body { 0 } else { consumed.len() - bytes.len() };
                self.shown.extend_from_slice(&consumed[..before]);
                self.cut += u64::from(show(bytes, decoder.as_mut(), &mut self.shown));
            }
            Some(Piece::Kept(bytes, _)) if is_in_body => {
                self.cut += u64::from(show(bytes, decoder.as_mut(), &mut self.shown));
            }
            Some(Piece::Next(bytes)) => self.shown.extend_from_slice(bytes),
            // Framing of chunks, and trailers.
            None | Some(Piece::End) if is_in_body => {}
            _ => self.shown.extend_from_slice(consumed),
        }
        if let Some(Piece::Head { head, .. }) = piece {
            let coded = BoundedDecoder::of(head.list("content-encoding").as_deref());
            self.cut += u64::from(coded.is_cut());
            *decoder = Some(coded);
        }
    }

    /// Missing bytes: what follows in the body cannot be decoded.
    pub(super) fn lose(&mut self, from: Direction) {
        self.decoders[from as usize].take_if(|decoder| !decoder.is_plain());
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
        let decoders = self.decoders.iter().flatten();
        self.shown.capacity() + decoders.map(BoundedDecoder::held_bytes).sum::<usize>()
    }
}

/// Shows bytes of a body, decoded. Returns whether the bound cuts the body here.
fn show(bytes: &[u8], decoder: Option<&mut BoundedDecoder>, shown: &mut Vec<u8>) -> bool {
    let Some(decoder) = decoder else {
        shown.extend_from_slice(bytes);
        return false;
    };
    let was_cut = decoder.is_cut();
    // Behind wrong bytes, nothing is shown.
    let _ = decoder.decode(bytes, &mut |plain| {
        shown.extend_from_slice(plain);
        true
    });
    decoder.is_cut() && !was_cut
}
