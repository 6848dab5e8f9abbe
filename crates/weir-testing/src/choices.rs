//! Reads a fuzzer's bytes as choices. A generator takes all its decisions from them, so its output depends on
//! the bytes alone.

/// Choices read from the start of the bytes, or from their end. Once all bytes are used, every choice is the
/// first alternative; generators therefore list the alternative first that ends soonest.
#[derive(Debug)]
pub(crate) struct Choices<'a> {
    bytes: &'a [u8],
    from_end: bool,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, from_end: false }
    }

    /// Reads from the last byte backwards. Two generators that read from the two ends do not shift each
    /// other's choices.
    pub(crate) fn from_end(bytes: &'a [u8]) -> Self {
        Self { bytes, from_end: true }
    }

    fn byte(&mut self) -> u64 {
        let taken = if self.from_end { self.bytes.split_off_last() } else { self.bytes.split_off_first() };
        taken.map_or(0, |&byte| u64::from(byte))
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let mut word = self.byte();
        if bound > 256 {
            word = word << 8 | self.byte();
        }
        word as usize % bound
    }

    /// True in `percent` of a hundred cases; always false once all bytes are used.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) >= 100 - percent
    }

    /// One of the values in `from`, which is not empty.
    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// A number made of eight bytes.
    pub(crate) fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | self.byte())
    }

    /// A number that is typical of protocols: mostly small, sometimes next to a power of two.
    pub(crate) fn number(&mut self) -> u64 {
        const EDGES: [u64; 16] = [
            8,
            15,
            16,
            63,
            64,
            127,
            128,
            200,
            255,
            256,
            0xffff,
            0x1_0000,
            0x7fff_ffff,
            0x1_0000_0000,
            1 << 63,
            u64::MAX,
        ];
        match self.below(8) {
            0..6 => self.below(8) as u64,
            6 => self.pick(&EDGES),
            _ => self.below(300) as u64,
        }
    }
}
