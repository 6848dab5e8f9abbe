//! The contents of files, passed on as they arrive: bodies, parts of mails.
//!
//! Parsers write no files and keep no contents. If the caller of a run asks for contents, it gives the
//! registry a [`ContentStore`]; parsers then pass the bytes of each file on in order, decoded, with the
//! number of missing ones. Without a store, nothing is done. The session refers to the [`Content`]; the
//! store's writer is dropped with the last reference, so a writer of which nobody takes over the content can
//! undo it.

use crate::coding::BoundedDecoder;
use sha2::{Digest, Sha256};
use std::any::Any;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum length of a content, bytes; missing ones count. Offsets come from the traffic (SMB), and file
/// systems refuse large ones.
pub const CONTENT_BYTES_MAX: u64 = 1 << 40;

/// Where the contents of files go.
pub trait ContentStore: Debug + Send + Sync {
    /// Begins a content. Called by the worker that parses the session.
    fn begin(&self) -> Box<dyn ContentWriter>;

    /// Whether the SHA-256 of each content is computed, for [`ContentFacts::sha256`].
    fn with_digest(&self) -> bool {
        true
    }
}

/// Takes the bytes of one content.
pub trait ContentWriter: Any + Debug + Send {
    /// Takes bytes at an offset of the content, and returns their number. Bytes that no call covers are
    /// missing. If the writer takes fewer bytes than given, the content is cut there.
    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> usize;

    /// No bytes follow.
    fn end(&mut self);

    /// Bytes of memory.
    fn held_bytes(&self) -> usize;

    /// For the owner of the store, who downcasts the writer to its type.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// A content as it was passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContentFacts {
    /// Length up to the last byte that was passed on, bytes; missing ones before it count.
    pub size_bytes: u64,
    /// SHA-256 of the content, if the store [asks](ContentStore::with_digest), the content is complete, and
    /// its bytes came in order.
    pub sha256: Option<[u8; 32]>,
    /// The content is incomplete: bytes are missing, its coding is wrong or unfinished, or a bound cut it.
    pub is_cut: bool,
}

/// A content that is passed on to a store. Clones refer to the same content.
#[derive(Debug, Clone)]
pub struct Content(Arc<Mutex<State>>);

/// Two contents are equal if they are the same one.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Content {}

#[derive(Debug)]
struct State {
    decoder: BoundedDecoder,
    sink: Sink,
    sha256: Option<[u8; 32]>,
    is_over: bool,
}

/// The decoded bytes.
#[derive(Debug)]
struct Sink {
    writer: Box<dyn ContentWriter>,
    digest: Option<Sha256>,
    /// Offset of the next byte.
    at_bytes: u64,
    /// Offset after the last byte that was taken.
    size_bytes: u64,
    is_cut: bool,
    /// The bound on the length cut the content.
    is_too_long: bool,
    /// The digest does not apply.
    is_out_of_order: bool,
}

/// What a parser is asked to do with contents: to pass them on to a store, or nothing.
#[derive(Debug, Clone, Default)]
pub struct Contents(pub(crate) Option<Arc<dyn ContentStore>>);

impl Contents {
    /// Nobody asks for contents.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Begins a content with this Content-Encoding, which may name several codings. A content in an unknown
    /// coding is passed on as sent. `None`: nobody asks for contents.
    pub fn begin(&self, coding: Option<&[u8]>) -> Option<Content> {
        let store = self.0.as_ref()?;
        let writer = store.begin();
        let decoder = BoundedDecoder::of(coding);
        let sink = Sink {
            writer,
            digest: store.with_digest().then(Sha256::new),
            at_bytes: 0,
            size_bytes: 0,
            is_cut: false,
            is_too_long: false,
            is_out_of_order: false,
        };
        Some(Content(Arc::new(Mutex::new(State { decoder, sink, sha256: None, is_over: false }))))
    }
}

impl Content {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next bytes, as sent.
    pub fn write(&self, bytes: &[u8]) {
        let State { decoder, sink, is_over, .. } = &mut *self.lock();
        if *is_over || sink.is_cut && !decoder.is_plain() {
            return;
        }
        if decoder.decode(bytes, &mut |bytes| sink.take(bytes)).is_err() {
            sink.is_cut = true;
        }
    }

    /// Takes bytes at an offset of a plain content: over SMB, clients read and write in any order. Bytes
    /// before the end of those so far replace earlier ones if `is_changed`; otherwise they are the same
    /// again.
    pub fn write_at(&self, offset_bytes: u64, bytes: &[u8], is_changed: bool) {
        let end_bytes = offset_bytes.saturating_add(bytes.len() as u64);
        let State { sink, is_over, .. } = &mut *self.lock();
        if *is_over || end_bytes <= sink.at_bytes && !is_changed {
            return;
        }
        let (at_bytes, size_bytes) = (sink.at_bytes, sink.size_bytes);
        sink.is_out_of_order |= offset_bytes != at_bytes;
        sink.at_bytes = offset_bytes;
        sink.is_cut |= !sink.take(bytes);
        sink.at_bytes = sink.at_bytes.max(at_bytes);
        sink.size_bytes = sink.size_bytes.max(size_bytes);
    }

    /// Takes note of missing bytes. A coded content ends here.
    pub fn lose(&self, length_bytes: u64) {
        let State { decoder, sink, is_over, .. } = &mut *self.lock();
        if *is_over {
            return;
        }
        sink.is_cut = true;
        if decoder.is_plain() {
            sink.at_bytes = sink.at_bytes.saturating_add(length_bytes);
        } else {
            decoder.stop();
        }
    }

    /// Ends the content: `is_whole` if all of its bytes were sent. Returns whether a bound cut the content.
    /// Further calls have no effect.
    pub fn end(&self, is_whole: bool) -> bool {
        let State { decoder, sink, sha256, is_over } = &mut *self.lock();
        if std::mem::replace(is_over, true) {
            return false;
        }
        sink.is_cut |= !is_whole || !decoder.is_whole();
        decoder.stop();
        sink.writer.end();
        let digest = sink.digest.take().filter(|_| !sink.is_cut && !sink.is_out_of_order);
        *sha256 = digest.map(|digest| digest.finalize().into());
        sink.is_too_long || decoder.is_cut()
    }

    /// The content so far.
    pub fn facts(&self) -> ContentFacts {
        let state = self.lock();
        ContentFacts { size_bytes: state.sink.size_bytes, sha256: state.sha256, is_cut: state.sink.is_cut }
    }

    /// Calls `act` with the store's writer of the content.
    pub fn with_writer<T>(&self, act: impl FnOnce(&mut dyn Any) -> T) -> T {
        act(self.lock().sink.writer.as_any_mut())
    }

    /// Bytes of memory.
    pub fn held_bytes(&self) -> usize {
        let state = self.lock();
        size_of::<State>() + state.decoder.held_bytes() + state.sink.writer.held_bytes()
    }
}

impl Sink {
    /// Takes decoded bytes; returns whether more may follow.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let room = usize::try_from(CONTENT_BYTES_MAX.saturating_sub(self.at_bytes)).unwrap_or(usize::MAX);
        let allowed = &bytes[..bytes.len().min(room)];
        let taken = match allowed {
            [] => 0,
            _ => self.writer.write(self.at_bytes, allowed).min(allowed.len()),
        };
        if let Some(digest) = &mut self.digest {
            digest.update(&allowed[..taken]);
        }
        if taken > 0 {
            self.at_bytes = self.at_bytes.saturating_add(taken as u64);
            self.size_bytes = self.at_bytes;
        }
        self.is_too_long |= allowed.len() < bytes.len();
        taken == bytes.len()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::coding::{DECODED_BYTES_FREE, DECODED_PER_BYTE_MAX};
    use std::io::Write;

    /// Contents in memory, in the order of their begin.
    #[derive(Debug, Default)]
    pub(crate) struct InMemory(pub(crate) Mutex<Vec<Arc<Mutex<Vec<u8>>>>>);

    #[derive(Debug)]
    struct Writer(Arc<Mutex<Vec<u8>>>);

    impl ContentStore for InMemory {
        fn begin(&self) -> Box<dyn ContentWriter> {
            let bytes = Arc::<Mutex<Vec<u8>>>::default();
            self.0.lock().unwrap().push(Arc::clone(&bytes));
            Box::new(Writer(bytes))
        }
    }

    impl ContentWriter for Writer {
        fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> usize {
            let mut all = self.0.lock().unwrap();
            all.resize(offset_bytes as usize, 0);
            all.extend_from_slice(bytes);
            bytes.len()
        }

        fn end(&mut self) {}

        fn held_bytes(&self) -> usize {
            0
        }

        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    }

    impl InMemory {
        /// The contents that a parser passed on.
        pub(crate) fn all(&self) -> Vec<Vec<u8>> {
            self.0.lock().unwrap().iter().map(|bytes| bytes.lock().unwrap().clone()).collect()
        }
    }

    fn begin(coding: &[u8]) -> (Arc<InMemory>, Content) {
        let store = Arc::<InMemory>::default();
        let contents = Contents(Some(Arc::clone(&store) as Arc<dyn ContentStore>));
        let content = contents.begin(Some(coding)).expect("there is a store");
        (store, content)
    }

    #[test]
    fn a_complete_content_has_a_digest_and_one_with_gaps_has_zeros() {
        let (store, content) = begin(b"");
        content.write(b"abc");
        assert!(!content.end(true));
        // SHA-256 of `abc` (FIPS 180-2, appendix B.1).
        assert_eq!(content.facts().sha256.expect("complete")[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(store.all(), [b"abc"]);
        let (store, content) = begin(b"identity");
        content.write(b"ab");
        content.lose(2);
        content.write(b"c");
        content.end(true);
        let facts = ContentFacts { size_bytes: 5, sha256: None, is_cut: true };
        assert_eq!((content.facts(), store.all()), (facts, vec![b"ab\0\0c".to_vec()]));
    }

    #[test]
    fn a_bomb_is_cut_at_the_bound() {
        let mut bomb = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
        bomb.write_all(&vec![0; 16 << 20]).expect("memory");
        let bomb = bomb.finish().expect("memory");
        let (store, content) = begin(b"gzip");
        content.write(&bomb);
        assert!(content.end(true), "the bound cut it");
        let bound = bomb.len() as u64 * DECODED_PER_BYTE_MAX + DECODED_BYTES_FREE;
        let facts = content.facts();
        assert_eq!((facts.size_bytes, facts.is_cut, facts.sha256), (bound, true, None));
        assert_eq!(store.all()[0].len() as u64, bound);
    }

    #[test]
    fn offsets_of_the_traffic_are_bounded() {
        for offset_bytes in [CONTENT_BYTES_MAX, u64::MAX - 1, u64::MAX] {
            let (store, content) = begin(b"");
            content.write_at(0, b"ab", true);
            content.write_at(offset_bytes, b"c", true);
            content.lose(u64::MAX);
            content.write(b"d");
            content.end(true);
            let facts = ContentFacts { size_bytes: 2, sha256: None, is_cut: true };
            assert_eq!((content.facts(), store.all()), (facts, vec![b"ab".to_vec()]), "{offset_bytes}");
        }
    }

    #[test]
    fn behind_a_gap_nothing_is_decoded() {
        let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        packed.write_all(b"some text").expect("memory");
        let packed = packed.finish().expect("memory");
        let (_, content) = begin(b"gzip");
        content.write(&packed[..12]);
        content.lose(4);
        content.write(&packed[16..]);
        content.end(true);
        assert!(content.facts().is_cut && content.facts().sha256.is_none());
    }
}
