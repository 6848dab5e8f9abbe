//! All interleavings and reorderings of a writer that reuses a segment and of a reader that copies it (loom).

use crate::layout::{DESCRIPTOR_WORDS, Descriptor, WORD, copy_out};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};

/// A segment of two words, whose packets are words with the number of the use.
struct Segment {
    descriptor: Vec<AtomicU64>,
    words: Vec<AtomicU64>,
}

impl Segment {
    fn new() -> Arc<Self> {
        let words = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { descriptor: words(DESCRIPTOR_WORDS), words: words(2) })
    }

    fn descriptor(&self) -> Descriptor<'_> {
        Descriptor::new(&self.descriptor)
    }

    /// A use with this serial: both words, one after the other.
    fn write(&self, serial: u64) {
        let descriptor = self.descriptor();
        descriptor.take().expect("nobody else writes");
        descriptor.begin(serial, 0, 0);
        for (at, word) in self.words.iter().enumerate() {
            word.store(serial, Ordering::Relaxed);
            descriptor.publish((at + 1) * WORD, at as u64 + 1, (0, 0));
        }
        descriptor.complete();
    }

    /// Copies what is there. A copy of which the reader is told that it is good has only words of one use,
    /// and all that were published.
    fn read(&self) -> bool {
        let Some(used) = self.descriptor().read() else { return false };
        let mut bytes = vec![0; used.bytes];
        copy_out(&self.words[..used.bytes / WORD], &mut bytes);
        if !self.descriptor().is_still(used.serial) {
            return false;
        }
        for word in bytes.chunks_exact(WORD) {
            assert_eq!(u64::from_ne_bytes(word.try_into().expect("a word")), used.serial, "a torn copy");
        }
        assert!(!used.is_complete || used.bytes == 2 * WORD, "a complete use has all words");
        true
    }
}

#[test]
fn no_reader_takes_a_torn_copy_for_a_good_one() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let segment = Segment::new();
        segment.write(1);
        let writer = {
            let segment = Arc::clone(&segment);
            loom::thread::spawn(move || segment.write(2))
        };
        segment.read();
        writer.join().expect("the writer ends");
        assert!(segment.read(), "nobody writes any more");
    });
}

#[test]
fn a_segment_has_one_writer_at_a_time() {
    loom::model(|| {
        let segment = Segment::new();
        let other = {
            let segment = Arc::clone(&segment);
            loom::thread::spawn(move || segment.descriptor().take().is_some())
        };
        let own = segment.descriptor().take().is_some();
        assert!(own ^ other.join().expect("the thread ends"));
    });
}
