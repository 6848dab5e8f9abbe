//! [`BoundedDecoder`]: undoes the codings of a content, with a bound on the result.
//!
//! Senders name several codings, wrong ones, and codings that were not applied. What is not in the coding
//! that it is said to be in is passed on as it is, as browsers and libhtp do. The content then counts as
//! incomplete.

use super::decoder::{Decoder, Stopped};
use std::borrow::Cow;

/// Decoded bytes of a content for each of its coded bytes …
pub(crate) const DECODED_PER_BYTE_MAX: u64 = 256;
/// … in addition to this many bytes.
pub(crate) const DECODED_BYTES_FREE: u64 = 64 * 1024;
/// Maximum number of codings that are undone. If a content has more, those applied first remain, and it
/// counts as cut.
pub(crate) const CODINGS_MAX: usize = 4;
/// Bytes kept of a content of which nothing has been decoded yet.
const FIRST_BYTES_MAX: usize = 1024;

/// A decoder whose output is bounded by its input.
#[derive(Debug)]
pub(crate) struct BoundedDecoder {
    /// The codings, in the order in which they are undone. Without codings, the content is passed on as it
    /// is.
    layers: Vec<Bounded>,
    is_cut: bool,
}

/// A layer, and the number of decoded bytes that it may still yield. Each layer has a bound, because the work
/// of the next one grows with its output.
#[derive(Debug)]
struct Bounded {
    layer: Layer,
    room_bytes: u64,
}

/// One coding of a content.
#[derive(Debug)]
struct Layer {
    decoder: Decoder,
    /// All bytes so far, while nothing has been decoded; `None` later, and if they are too many.
    first: Option<Vec<u8>>,
    /// The content is not in this coding.
    is_absent: bool,
}

impl BoundedDecoder {
    /// Undoes the codings that a value of Content-Encoding names, the last one first. Names of unknown
    /// codings are ignored.
    pub(crate) fn of(codings: Option<&[u8]>) -> Self {
        let codings = codings.unwrap_or_default();
        let codings: Cow<'_, [u8]> = match memchr::memchr(0, codings) {
            None => Cow::Borrowed(codings),
            // Zero bytes are ignored within words, too.
            Some(_) => Cow::Owned(codings.iter().copied().filter(|byte| *byte != 0).collect()),
        };
        let is_separator = |byte: &u8| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_');
        let mut decoders = codings
            .rsplit(is_separator)
            .filter(|word| !word.is_empty())
            .filter_map(|word| Decoder::of(Some(word)).filter(|decoder| !matches!(decoder, Decoder::Plain)));
        let layer = |decoder| Layer { decoder, first: Some(vec![]), is_absent: false };
        let bounded = |decoder| Bounded { layer: layer(decoder), room_bytes: DECODED_BYTES_FREE };
        let layers = decoders.by_ref().take(CODINGS_MAX).map(bounded).collect();
        Self { layers, is_cut: decoders.next().is_some() }
    }

    /// As [`Decoder::decode`]; the bound, too, stops the decoder.
    pub(crate) fn decode(&mut self, input: &[u8], out: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Stopped> {
        let allowed = input.len() as u64 * DECODED_PER_BYTE_MAX;
        for bounded in &mut self.layers {
            bounded.room_bytes = bounded.room_bytes.saturating_add(allowed);
        }
        undo(&mut self.layers, &mut self.is_cut, input, out)
    }

    /// Decodes nothing further, and releases the memory of the decoders.
    pub(crate) fn stop(&mut self) {
        for Bounded { layer, .. } in &mut self.layers {
            *layer = Layer { decoder: Decoder::Stopped, first: None, ..*layer };
        }
    }

    /// Whether the content is passed on as it is.
    pub(crate) fn is_plain(&self) -> bool {
        self.layers.iter().all(|bounded| matches!(bounded.layer.decoder, Decoder::Plain))
    }

    /// Whether the content may end here.
    pub(crate) fn is_whole(&self) -> bool {
        self.layers.iter().all(|bounded| bounded.layer.decoder.is_whole() && !bounded.layer.is_absent)
    }

    /// Whether a bound has cut the content.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Bytes of memory.
    pub(crate) fn held_bytes(&self) -> usize {
        let of = |Bounded { layer, .. }: &Bounded| {
            size_of::<Bounded>() + layer.decoder.held_bytes() + layer.first.as_ref().map_or(0, Vec::capacity)
        };
        self.layers.iter().map(of).sum()
    }
}

/// Undoes the first of the layers, then the others.
fn undo(
    layers: &mut [Bounded],
    is_cut: &mut bool,
    input: &[u8],
    out: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), Stopped> {
    let Some((Bounded { layer, room_bytes }, others)) = layers.split_first_mut() else {
        return if input.is_empty() || out(input) { Ok(()) } else { Err(Stopped) };
    };
    layer.decode(input, &mut |decoded| {
        let allowed = decoded.len().min(usize::try_from(*room_bytes).unwrap_or(usize::MAX));
        *room_bytes -= allowed as u64;
        let is_all = allowed == decoded.len();
        *is_cut |= !is_all;
        (allowed == 0 || undo(others, is_cut, &decoded[..allowed], out).is_ok()) && is_all
    })
}

impl Layer {
    /// As [`Decoder::decode`]. If the content does not begin as its coding does, it is passed on as it is.
    fn decode(&mut self, input: &[u8], out: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Stopped> {
        let Some(mut first) = self.first.take() else { return self.decoder.decode(input, out) };
        let mut has_output = false;
        let result = self.decoder.decode(input, &mut |decoded| {
            has_output = true;
            out(decoded)
        });
        match result {
            _ if has_output => result,
            Ok(()) => {
                if first.len() + input.len() <= FIRST_BYTES_MAX {
                    first.extend_from_slice(input);
                    self.first = Some(first);
                }
                Ok(())
            }
            Err(Stopped) => {
                (self.decoder, self.is_absent) = (Decoder::Plain, true);
                let are_taken = [&first, input].into_iter().all(|bytes| bytes.is_empty() || out(bytes));
                if are_taken { Ok(()) } else { Err(Stopped) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        out.write_all(plain).and_then(|()| out.finish()).expect("memory")
    }

    fn deflate(plain: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::DeflateEncoder::new(vec![], flate2::Compression::fast());
        out.write_all(plain).and_then(|()| out.finish()).expect("memory")
    }

    /// The content, and whether it is whole; the same for pieces of any size.
    fn decoded(codings: &str, bytes: &[u8]) -> (String, bool) {
        let of = |piece_bytes: usize| {
            let (mut decoder, mut plain) = (BoundedDecoder::of(Some(codings.as_bytes())), vec![]);
            for piece in bytes.chunks(piece_bytes) {
                let _ = decoder.decode(piece, &mut |bytes| {
                    plain.extend_from_slice(bytes);
                    true
                });
            }
            (String::from_utf8_lossy(&plain).into_owned(), decoder.is_whole())
        };
        let whole = of(bytes.len().max(1));
        assert_eq!(of(1), whole, "{codings}");
        whole
    }

    const TEXT: &str = "X5O and some text, and some more text";

    #[test]
    fn codings_are_undone_from_the_last_to_the_first() {
        let text = TEXT.as_bytes();
        for (codings, bytes) in [
            ("gzip, deflate", deflate(&gzip(text))),
            ("deflate,gzip,, deflate", deflate(&gzip(&deflate(text)))),
            ("identity, GZIP", gzip(text)),
            ("x-gzip x;", gzip(text)),
            ("\u{b}g\0zip\0", gzip(text)),
            (": deflate", deflate(text)),
            ("deflate", gzip(text)),
            ("identity", text.to_vec()),
            ("unknown", text.to_vec()),
            ("", text.to_vec()),
        ] {
            assert_eq!(decoded(codings, &bytes), (TEXT.to_owned(), true), "{codings:?}");
        }
    }

    #[test]
    fn what_is_not_coded_is_passed_on_and_counts_as_incomplete() {
        let text = TEXT.as_bytes();
        for (codings, bytes) in [
            ("gzip", text.to_vec()),
            ("deflate", text.to_vec()),
            ("gzip, deflate", text.to_vec()),
            ("gzip, zstd", text.to_vec()),
            ("gzip, gzip", gzip(text)),
            ("gzip, deflate", gzip(text)),
        ] {
            assert_eq!(decoded(codings, &bytes), (TEXT.to_owned(), false), "{codings}");
        }
    }

    #[test]
    fn headers_of_gzip_may_be_wrong_and_trailers_are_checked() {
        let text = TEXT.as_bytes();
        let with_flags = |flags: u8, more: &[u8]| {
            let mut bytes = gzip(text);
            bytes[3] = flags;
            bytes.splice(10..10, more.iter().copied());
            bytes
        };
        for (flags, more) in [
            (0xe0, &b""[..]),
            (0x02, b"??"),
            (0x04, b"\x02\0ab"),
            (0x04, b"\0\0"),
            (0x1e, b"\x01\0abc\0d\0??"),
        ] {
            assert_eq!(decoded("gzip", &with_flags(flags, more)), (TEXT.to_owned(), true), "{flags:x}");
        }
        let mut wrong = gzip(text);
        *wrong.last_mut().expect("a byte") ^= 1;
        assert_eq!(decoded("gzip", &wrong), (TEXT.to_owned(), false));
    }

    #[test]
    fn layers_and_their_output_are_bounded() {
        let five = "gzip,gzip,gzip,gzip,gzip";
        assert!(BoundedDecoder::of(Some(five.as_bytes())).is_cut());
        assert!(!BoundedDecoder::of(Some(&five.as_bytes()[5..])).is_cut());
        // The outer layer yields no more than it may, although the inner one makes little of its output.
        let bomb = gzip(&gzip(&vec![0; 16 << 20]));
        let (mut decoder, mut bytes) = (BoundedDecoder::of(Some(b"gzip, gzip")), 0);
        let _ = decoder.decode(&bomb, &mut |decoded| {
            bytes += decoded.len() as u64;
            true
        });
        assert_eq!(bytes, bomb.len() as u64 * DECODED_PER_BYTE_MAX + DECODED_BYTES_FREE);
        assert!(decoder.is_cut() && !decoder.is_whole());
        decoder.stop();
        assert!(decoder.held_bytes() < 1000);
    }
}
