//! [`Decoder`]: decodes one content coding.
//!
//! The memory of a decoder is bounded by the window of its coding, which the sender chooses: 32 KiB for gzip
//! and deflate, 16 MiB for Brotli, 8 MiB for zstd (RFC 9659). Larger windows are errors. A [`Decoder`] has no
//! bound on its output: `out` returns false at the caller's bound. A `BoundedDecoder` has one.

use super::gzip::Member;
use super::step::{Step, step_inflate};
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::Decompress;
use std::fmt;
use weir_memory::Foreign;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Bytes of the buffer for output.
const OUT_BYTES: usize = 8 << 10;
/// Bits of the largest window of zstd (RFC 9659 §3).
const ZSTD_WINDOW_BITS_MAX: u32 = 23;
/// Bytes of a decoder besides its window: tables and buffers, rounded up.
const TABLES_BYTES: usize = 64 << 10;

/// Decodes one content.
pub(crate) enum Decoder {
    /// The content is not coded.
    Plain,
    Gzip(Box<Member>),
    /// Deflate before its first two bytes: they say whether it has the wrapper of zlib.
    Deflate(Vec<u8>),
    /// Deflate, and zlib.
    Inflate(Decompress),
    /// Brotli, and the bytes of its window.
    Brotli(Box<Brotli>, usize),
    /// Zstd, whether it is between frames, and its memory.
    Zstd(DCtx<'static>, bool, Foreign),
    /// Behind the end of gzip, which another member may follow (RFC 1952 §2.2).
    AfterGzip,
    /// Behind the end of the content; further bytes are ignored.
    Over,
    /// The bytes violate the coding, or `out` refused their result.
    Stopped,
}

type Brotli = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

/// The rest of the content cannot be decoded, or is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

impl Decoder {
    /// A decoder for a value of Content-Encoding; `None` if the coding is unknown, or if there are several.
    pub(crate) fn of(coding: Option<&[u8]>) -> Option<Self> {
        let coding = coding.map_or(&b""[..], <[u8]>::trim_ascii);
        let is = |name: &str| coding.eq_ignore_ascii_case(name.as_bytes());
        Some(match () {
            () if coding.is_empty() || is("identity") => Self::Plain,
            () if is("gzip") || is("x-gzip") => Self::Gzip(Member::new()),
            () if is("deflate") || is("x-deflate") => Self::Deflate(vec![]),
            () if is("br") => {
                let alloc = StandardAlloc::default;
                // Without large windows, which would allow 1 GiB.
                Self::Brotli(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())), 0)
            }
            () if is("zstd") => {
                let mut decoder = DCtx::try_create()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_BITS_MAX)).ok()?;
                let memory = Foreign::new(decoder.sizeof());
                Self::Zstd(decoder, true, memory)
            }
            () => return None,
        })
    }

    /// Decodes the next bytes, and passes the result to `out` in pieces, until `out` returns false.
    pub(crate) fn decode(
        &mut self,
        mut input: &[u8],
        out: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Stopped> {
        if matches!(self, Self::Plain) {
            return if input.is_empty() || out(input) { Ok(()) } else { Err(Stopped) };
        }
        if let Some(first) = self.begin_deflate(&mut input) {
            self.decode(&first, out)?;
        }
        let mut buffer = [0; OUT_BYTES];
        while self.is_coded(input) {
            let Step { read, written, is_wrong, is_over } = self.step(input, &mut buffer);
            input = &input[read..];
            if (written > 0 && !out(&buffer[..written])) || is_wrong {
                *self = Self::Stopped;
                return Err(Stopped);
            }
            if (input.is_empty() && written < buffer.len()) || (read == 0 && written == 0 && !is_over) {
                return Ok(());
            }
        }
        if matches!(self, Self::Stopped) { Err(Stopped) } else { Ok(()) }
    }

    /// Whether the content may end here.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Self::Plain | Self::AfterGzip | Self::Over | Self::Zstd(_, true, _))
    }

    /// Bytes of memory.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Plain | Self::Deflate(_) | Self::AfterGzip | Self::Over | Self::Stopped => 0,
            Self::Gzip(_) | Self::Inflate(_) => TABLES_BYTES,
            Self::Brotli(_, window_bytes) => TABLES_BYTES + window_bytes,
            Self::Zstd(decoder, ..) => decoder.sizeof(),
        }
    }

    /// Whether the next bytes have to be decoded.
    fn is_coded(&mut self, input: &[u8]) -> bool {
        if matches!(self, Self::AfterGzip) && input.first() == Some(&0x1f) {
            *self = Self::Gzip(Member::new());
        }
        matches!(self, Self::Gzip(_) | Self::Inflate(_) | Self::Brotli(..) | Self::Zstd(..))
    }

    /// Takes the first two bytes of deflate off the front of `input`; once both are known, returns them, to
    /// be decoded.
    fn begin_deflate(&mut self, input: &mut &[u8]) -> Option<[u8; 2]> {
        let Self::Deflate(first) = self else { return None };
        let (taken, rest) = input.split_at(input.len().min(2 - first.len()));
        first.extend_from_slice(taken);
        *input = rest;
        let [method, flags] = first[..] else { return None };
        // RFC 1950 §2.2; some senders omit the wrapper that RFC 9110 §8.4.1.2 requires.
        let is_zlib = method & 15 == 8 && (u16::from(method) << 8 | u16::from(flags)).is_multiple_of(31);
        *self = match (method, flags) {
            // Deflate never begins so, and some senders call gzip deflate.
            (0x1f, 0x8b) => Self::Gzip(Member::new()),
            _ => Self::Inflate(Decompress::new(is_zlib)),
        };
        Some([method, flags])
    }

    /// Decodes bytes into the buffer.
    fn step(&mut self, input: &[u8], buffer: &mut [u8]) -> Step {
        match self {
            Self::Gzip(member) => {
                let step = member.step(input, buffer);
                if member.is_over() {
                    *self = Self::AfterGzip;
                }
                step
            }
            Self::Inflate(inflate) => {
                let step = step_inflate(inflate, input, buffer);
                if step.is_over {
                    *self = Self::Over;
                }
                step
            }
            Self::Brotli(state, window_bytes) => {
                if let (0, Some(first)) = (*window_bytes, input.first()) {
                    *window_bytes = brotli_window_bytes(*first);
                }
                let (mut input_left, mut read, mut room, mut written, mut total) =
                    (input.len(), 0, buffer.len(), 0, 0);
                let result = BrotliDecompressStream(
                    &mut input_left,
                    &mut read,
                    input,
                    &mut room,
                    &mut written,
                    buffer,
                    &mut total,
                    state,
                );
                let is_over = matches!(result, BrotliResult::ResultSuccess);
                if is_over {
                    *self = Self::Over;
                }
                Step { read, written, is_over, is_wrong: matches!(result, BrotliResult::ResultFailure) }
            }
            Self::Zstd(decoder, is_between, memory) => {
                let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(buffer));
                let result = decoder.decompress_stream(&mut to, &mut from);
                memory.set(decoder.sizeof());
                match result {
                    Ok(wanted_bytes) => {
                        *is_between = wanted_bytes == 0;
                        Step::moved(from.pos, to.pos())
                    }
                    Err(_) => Step { is_wrong: true, ..Step::moved(0, 0) },
                }
            }
            _ => Step::moved(0, 0),
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

/// The window that the first byte of Brotli states (RFC 7932 §9.1).
fn brotli_window_bytes(first: u8) -> usize {
    let bits = match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, small) => 8 + small,
        (_, large, _) => 17 + large,
    };
    1 << bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn coded(coding: &str, plain: &[u8]) -> Vec<u8> {
        let fast = flate2::Compression::fast();
        let all = |mut out: flate2::write::GzEncoder<Vec<u8>>| {
            out.write_all(plain).and_then(|()| out.finish()).expect("memory")
        };
        match coding {
            "gzip" => all(flate2::write::GzEncoder::new(vec![], fast)),
            "deflate" => {
                let mut out = flate2::write::ZlibEncoder::new(vec![], fast);
                out.write_all(plain).and_then(|()| out.finish()).expect("memory")
            }
            "bare" => {
                let mut out = flate2::write::DeflateEncoder::new(vec![], fast);
                out.write_all(plain).and_then(|()| out.finish()).expect("memory")
            }
            "zstd" => zstd::encode_all(plain, 1).expect("memory"),
            _ => plain.to_vec(),
        }
    }

    fn decoded(coding: &str, bytes: &[u8], piece_bytes: usize) -> (Vec<u8>, bool) {
        let coding = if coding == "bare" { "deflate" } else { coding };
        let (mut decoder, mut plain) = (Decoder::of(Some(coding.as_bytes())).expect("known"), vec![]);
        let mut is_sound = true;
        for piece in bytes.chunks(piece_bytes) {
            let mut out = |bytes: &[u8]| {
                plain.extend_from_slice(bytes);
                true
            };
            is_sound &= decoder.decode(piece, &mut out).is_ok();
        }
        (plain, is_sound && decoder.is_whole())
    }

    #[test]
    fn contents_are_decoded_however_they_are_cut() {
        let plain: Vec<u8> = (0..40_000_u32).flat_map(|number| (number / 7).to_be_bytes()).collect();
        for coding in ["gzip", "deflate", "bare", "zstd", "identity"] {
            let bytes = coded(coding, &plain);
            for piece_bytes in [1, 1460, bytes.len()] {
                assert!(
                    decoded(coding, &bytes, piece_bytes) == (plain.clone(), true),
                    "{coding} {piece_bytes}"
                );
            }
            if coding != "identity" {
                let (part, is_whole) = decoded(coding, &bytes[..bytes.len() / 2], 1000);
                assert!(
                    !is_whole && plain.starts_with(&part),
                    "{coding}: half of the bytes are not the whole"
                );
            }
        }
        let twice = [coded("gzip", b"one "), coded("gzip", b"two")].concat();
        assert_eq!(decoded("gzip", &twice, 5), (b"one two".to_vec(), true));
    }

    #[test]
    fn brotli_is_decoded_and_its_window_is_known() {
        // Output of Debian's brotli for `<html><body>` and eight paragraphs: see `http::media`.
        let brotli = b"\x1f\x9b\x00\x00\xa4}x\xc2\xe0\x82C\x0e\\\x8e_\xc8\x91&\x845\x85\xa6+*\t*=\x8cnf \xb3\xa0\xd7\xd2\xfc/\x05";
        let (plain, is_whole) = decoded("br", brotli, 7);
        assert!(plain.starts_with(b"<html><body>") && is_whole);
        assert_eq!([0x0c, 0x01, 0x21, 0x0f].map(brotli_window_bytes), [1 << 16, 1 << 17, 1 << 10, 1 << 24]);
    }

    #[test]
    fn wrong_bytes_and_refused_ones_stop_the_decoder() {
        for coding in ["gzip", "deflate", "br", "zstd"] {
            let mut decoder = Decoder::of(Some(coding.as_bytes())).expect("known");
            let wrong = [0xff; 64];
            assert_eq!(decoder.decode(&wrong, &mut |_| true), Err(Stopped), "{coding}");
            assert_eq!(decoder.decode(b"more", &mut |_| true), Err(Stopped), "{coding}");
        }
        let (mut decoder, mut seen) = (Decoder::of(Some(b"gzip")).expect("known"), 0);
        let zeros = coded("gzip", &vec![0; 1 << 20]);
        let bounded = decoder.decode(&zeros, &mut |bytes| {
            seen += bytes.len();
            seen < 100_000
        });
        assert!(bounded == Err(Stopped) && seen < 100_000 + OUT_BYTES, "{seen}");
        assert!(Decoder::of(Some(b"gzip, br")).is_none() && Decoder::of(None).is_some());
    }
}
