//! [`Start`]: the first bytes of a content, while they may be the head of an executable.

use super::head::{PeHead, needed};

/// Maximum number of bytes kept of a content until the head of an executable in it is complete.
pub const HEAD_BYTES_MAX: usize = 4096;

/// The first bytes of a content. Nothing is kept of contents that are no executables, and of executables only
/// the head, once it is complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Start(Option<Box<State>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// The bytes so far, and the number of bytes that are needed to read on.
    Kept { bytes: Vec<u8>, needed: usize },
    /// The head.
    Read(Box<PeHead>),
    /// The head is longer than the bound: what was seen of it. Counted at the end of the content.
    Cut(Option<Box<PeHead>>),
}

impl Start {
    /// Takes bytes at an offset of the content, in order.
    pub(crate) fn take(&mut self, at_bytes: u64, bytes: &[u8]) {
        if at_bytes == 0 && self.0.is_none() && bytes.first() == Some(&b'M') {
            self.0 = Some(Box::new(State::Kept { bytes: vec![], needed: 2 }));
        }
        let Some(State::Kept { bytes: kept, needed: bytes_needed }) = self.0.as_deref_mut() else { return };
        let room = HEAD_BYTES_MAX - kept.len();
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        // One look may ask for more bytes than those before, which are there already.
        while kept.len() >= *bytes_needed || kept.len() == HEAD_BYTES_MAX {
            match needed(kept) {
                Some(all) if all <= kept.len() => {
                    self.0 = PeHead::read(kept).map(|head| Box::new(State::Read(Box::new(head))));
                    return;
                }
                Some(_) if kept.len() == HEAD_BYTES_MAX => {
                    self.0 = Some(Box::new(State::Cut(PeHead::read(kept).map(Box::new))));
                    return;
                }
                Some(all) => *bytes_needed = all,
                None => {
                    self.0 = None;
                    return;
                }
            }
        }
    }

    /// The next bytes are missing: the head ends here.
    pub(crate) fn lose(&mut self) {
        if let Some(State::Kept { bytes, .. }) = self.0.as_deref() {
            self.0 = PeHead::read(bytes).map(|head| Box::new(State::Read(Box::new(head))));
        }
    }

    /// No bytes follow. Returns 1 if the bound cut the head, once; otherwise 0.
    pub(crate) fn end(&mut self) -> u64 {
        self.lose();
        let Some(State::Cut(head)) = self.0.as_deref_mut() else { return 0 };
        self.0 = head.take().map(|head| Box::new(State::Read(head)));
        1
    }

    /// The head, as far as it was seen.
    pub(crate) fn head(&self) -> Option<Box<PeHead>> {
        match self.0.as_deref()? {
            State::Kept { bytes, .. } => PeHead::read(bytes).map(Box::new),
            State::Read(head) => Some(head.clone()),
            State::Cut(head) => head.clone(),
        }
    }

    /// Allocated bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let state = self.0.as_deref().map(|state| match state {
            State::Kept { bytes, .. } => bytes.capacity(),
            State::Read(head) => head.held_bytes(),
            State::Cut(head) => head.as_ref().map_or(0, |head| head.held_bytes()),
        });
        state.map_or(0, |state| size_of::<State>() + state)
    }
}

#[cfg(test)]
mod tests {
    use super::super::head::tests::executable;
    use super::*;

    /// What a content in pieces of this size leaves, and the cuts.
    fn start(content: &[u8], piece_bytes: usize) -> (Start, u64) {
        let mut start = Start::default();
        for (index, piece) in content.chunks(piece_bytes).enumerate() {
            start.take((index * piece_bytes) as u64, piece);
            assert!(start.held_bytes() <= 2 * HEAD_BYTES_MAX + 64, "bounded");
        }
        let cut = start.end();
        assert_eq!(start.end(), 0, "counted once");
        (start, cut)
    }

    #[test]
    fn a_head_is_the_same_in_any_pieces_and_the_rest_is_not_kept() {
        let head = executable(256);
        let content = [&head[..], &[7; 10_000]].concat();
        let expected = PeHead::read(&head).map(Box::new);
        assert!(expected.is_some());
        for piece_bytes in [1, 2, 63, 1460, 100_000] {
            let (start, cut) = start(&content, piece_bytes);
            assert_eq!((start.head(), cut), (expected.clone(), 0), "in pieces of {piece_bytes}");
            assert!(start.held_bytes() < 256);
        }
    }

    #[test]
    fn nothing_is_kept_of_other_contents() {
        for content in [&b"GIF89a"[..], b"Mail", b"MZ\0\0", b"", b"M"] {
            let (start, cut) = start(content, 1);
            assert_eq!((start.held_bytes(), cut), (0, 0), "{content:?}");
        }
        let mut late = Start::default();
        late.take(1, &executable(64));
        assert_eq!(late.held_bytes(), 0, "the first byte is missing");
    }

    #[test]
    fn a_head_that_ends_early_has_what_was_seen_and_too_long_ones_are_counted() {
        let content = executable(64);
        let (ended, cut) = start(&content[..100], 10);
        assert!(ended.head().is_some_and(|head| head.machine == 0x8664 && head.optional.is_none()));
        assert_eq!(cut, 0);
        let (far, cut) = start(&executable(HEAD_BYTES_MAX), 100);
        assert_eq!((far.head(), cut), (None, 1), "the head begins behind the bound");
        let (near, cut) = start(&executable(HEAD_BYTES_MAX - 100), 100);
        assert_eq!((near.head().map(|head| head.machine), cut), (Some(0x8664), 1));
    }
}
