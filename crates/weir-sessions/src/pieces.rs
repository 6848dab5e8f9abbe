//! [`Pieces`]: assembles bytes that arrive in any order, repeatedly and in small fragments.

/// Maximum number of disjoint ranges; the most fragmented known sender makes some twenty.
pub(crate) const PIECES_MAX: usize = 64;

/// A buffer that starts at offset 0 and is filled in any order.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    /// Ranges of `bytes` that are filled, from and to; sorted, neither overlapping nor adjacent.
    pieces: Vec<(usize, usize)>,
}

impl Pieces {
    /// Adds bytes at `offset`, up to `length_max` bytes in all. Returns whether they were kept. Repeated
    /// bytes overwrite earlier ones.
    #[must_use]
    pub(crate) fn insert(&mut self, offset: usize, bytes: &[u8], length_max: usize) -> bool {
        let (from, to) = (offset, offset.saturating_add(bytes.len()));
        if to > length_max {
            return false;
        }
        if bytes.is_empty() {
            return true;
        }
        // Merge ranges that overlap or are adjacent.
        let first = self.pieces.partition_point(|piece| piece.1 < from);
        let behind = self.pieces.partition_point(|piece| piece.0 <= to);
        if first == behind && self.pieces.len() == PIECES_MAX {
            return false;
        }
        let joined = self.pieces[first..behind].iter().fold((from, to), |a, b| (a.0.min(b.0), a.1.max(b.1)));
        self.pieces.splice(first..behind, [joined]);
        if self.bytes.len() < to {
            // Grow by doubling, at most to `length_max`.
            let wanted = (self.bytes.len() * 2).clamp(to, length_max);
            self.bytes.reserve_exact(wanted - self.bytes.len());
            self.bytes.resize(to, 0);
        }
        self.bytes[from..to].copy_from_slice(bytes);
        true
    }

    /// The bytes from offset 0 to the first hole.
    pub(crate) fn whole(&self) -> &[u8] {
        let end = self.pieces.first().filter(|piece| piece.0 == 0).map_or(0, |piece| piece.1);
        &self.bytes[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splinters_in_any_order_become_one() {
        let all = b"0123456789";
        let mut pieces = Pieces::default();
        for (from, to, whole) in [(8, 10, 0), (2, 4, 0), (6, 9, 0), (2, 5, 0), (0, 2, 5), (5, 6, 10)] {
            assert!(pieces.insert(from, &all[from..to], 10));
            assert_eq!(pieces.whole(), &all[..whole]);
        }
    }

    #[test]
    fn bytes_and_pieces_are_bounded() {
        let mut pieces = Pieces::default();
        assert!(!pieces.insert(1000, &[1], 1000));
        assert!(!pieces.insert(usize::MAX, &[1], 1000));
        for piece in 0..PIECES_MAX {
            assert!(pieces.insert(piece * 2 + 1, &[7], 1000));
        }
        assert!(!pieces.insert(999, &[7], 1000), "one more that lies apart");
        assert!(pieces.insert(2, &[7], 1000), "one that joins others");
        assert_eq!(pieces.pieces.len(), PIECES_MAX - 1);
    }
}
