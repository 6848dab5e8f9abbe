//! [`Frames`]: splits a stream in pieces of any size into messages whose first bytes give their length.
//!
//! Only the wanted start of each message is kept; the rest is skipped. A message that is complete in one
//! piece is not copied.

use std::borrow::Cow;
use weir_packet::Timestamp;

/// The length of a message, as far as its first bytes give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// More bytes are needed.
    Short,
    /// Length of the complete message, including its header.
    Bytes(u64),
    /// The bytes are no message.
    Wrong,
}

/// The next result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// A message.
    Frame(Frame<'a>),
    /// More bytes are needed.
    More,
    /// The start of the next message is unknown.
    Lost,
}

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// The first bytes of the message, up to the bound given to [`Frames::next`].
    pub(crate) bytes: Cow<'a, [u8]>,
    /// Length of the complete message, bytes.
    pub(crate) length_bytes: u64,
    /// Time of the first byte.
    pub(crate) time: Timestamp,
}

/// Maximum length of a header.
const HEAD_BYTES_MAX: usize = 16;

/// State of one direction.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    kept: Vec<u8>,
    /// Time of the first kept byte.
    time: Option<Timestamp>,
    skipped_bytes: u64,
    is_lost: bool,
}

impl Frames {
    /// Takes the next message off the front of `bytes`, which arrived at `time`; keeps at most `kept_max`
    /// bytes of it. Unless `measure` returns [`Head::Short`], its result must stay the same when bytes are
    /// appended to its input; a length includes the header.
    pub(crate) fn next<'a>(
        &mut self,
        bytes: &mut &'a [u8],
        time: Timestamp,
        kept_max: usize,
        measure: impl Fn(&[u8]) -> Head,
    ) -> Next<'a> {
        let skipped = usize::try_from(self.skipped_bytes).unwrap_or(usize::MAX).min(bytes.len());
        self.skipped_bytes -= skipped as u64;
        *bytes = &bytes[skipped..];
        if self.is_lost {
            return Next::Lost;
        }
        if bytes.is_empty() {
            return Next::More;
        }
        let time = *self.time.get_or_insert(time);
        let wanted = |length: u64| usize::try_from(length).unwrap_or(usize::MAX).min(kept_max);
        if self.kept.is_empty()
            && let Head::Bytes(length_bytes) = measure(bytes)
            && let Some((head, tail)) = bytes.split_at_checked(wanted(length_bytes))
            && !head.is_empty()
        {
            *bytes = tail;
            return self.hand_on(head.into(), length_bytes, time);
        }
        loop {
            let missing = match measure(&self.kept) {
                Head::Short if self.kept.len() < HEAD_BYTES_MAX => 1,
                Head::Bytes(length) if length >= self.kept.len() as u64 && !self.kept.is_empty() => {
                    let missing = wanted(length).saturating_sub(self.kept.len());
                    if missing == 0 {
                        let kept = std::mem::take(&mut self.kept);
                        return self.hand_on(kept.into(), length, time);
                    }
                    missing
                }
                _ => {
                    self.is_lost = true;
                    self.kept = Vec::new();
                    return Next::Lost;
                }
            };
            if bytes.is_empty() {
                return Next::More;
            }
            let (head, tail) = bytes.split_at(missing.min(bytes.len()));
            self.kept.extend_from_slice(head);
            *bytes = tail;
        }
    }

    fn hand_on<'a>(&mut self, bytes: Cow<'a, [u8]>, length_bytes: u64, time: Timestamp) -> Next<'a> {
        self.skipped_bytes = length_bytes - bytes.len() as u64;
        self.time = None;
        Next::Frame(Frame { bytes, length_bytes, time })
    }

    /// The number of the next bytes that belong to the skipped rest of the last message.
    pub(crate) fn skipped(&self, bytes: &[u8]) -> usize {
        usize::try_from(self.skipped_bytes).unwrap_or(usize::MAX).min(bytes.len())
    }

    /// Skips missing bytes. Returns `true` if they belong to the skipped part of a message, so that nothing
    /// is lost; otherwise the next byte counts as the start of a message.
    pub(crate) fn lose(&mut self, length_bytes: u64) -> bool {
        let is_skipped = length_bytes <= self.skipped_bytes;
        if is_skipped {
            self.skipped_bytes -= length_bytes;
        } else {
            *self = Self::default();
        }
        is_skipped
    }

    /// Whether the start of the next message is unknown.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether the next byte begins a message.
    pub(crate) fn is_between(&self) -> bool {
        self.kept.is_empty() && self.skipped_bytes == 0 && !self.is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(bytes: &[u8]) -> Head {
        match bytes {
            [] | [b'#'] => Head::Short,
            [b'#', length, ..] => Head::Bytes(u64::from(*length - b'0') + 2),
            _ => Head::Wrong,
        }
    }

    fn frames(pieces: &[&str]) -> Vec<(String, u64)> {
        let mut frames = Frames::default();
        let mut found = Vec::new();
        for piece in pieces {
            let mut rest = piece.as_bytes();
            while let Next::Frame(frame) = frames.next(&mut rest, Timestamp(0), 4, measure) {
                found.push((String::from_utf8_lossy(&frame.bytes).into_owned(), frame.length_bytes));
            }
        }
        found
    }

    #[test]
    fn messages_are_the_same_in_any_pieces() {
        let expected =
            [("#2ab".to_owned(), 4), ("#0".to_owned(), 2), ("#5ab".to_owned(), 7), ("#1x".to_owned(), 3)];
        assert_eq!(frames(&["#2ab#0#5abcde#1x"]), expected);
        assert_eq!(frames(&["#2ab#0#5ab", "cde#1", "x"]), expected);
        assert_eq!(
            frames(&["#", "2", "a", "b", "#", "0", "#", "5", "a", "b", "c", "d", "e", "#", "1", "x"]),
            expected
        );
    }

    #[test]
    fn after_a_gap_a_message_begins() {
        let mut frames = Frames::default();
        let mut next = |bytes: &str, gap: u64| {
            frames.lose(gap);
            let next = frames.next(&mut bytes.as_bytes(), Timestamp(0), 4, measure);
            (matches!(next, Next::Frame(_)), next == Next::Lost)
        };
        assert_eq!(next("#9ab", 0), (true, false));
        assert_eq!(next("#0", 7), (true, false), "the gap was in what is skipped");
        assert_eq!(next("x", 0), (false, true));
        assert_eq!(next("#0", 0), (false, true));
        assert_eq!(next("#0", 3), (true, false));
    }
}
