//! A set of values of a byte: the values that may begin a protocol.

/// A set of values of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    /// All values.
    pub const ALL: Self = Self([u64::MAX; 4]);

    /// The values for which `contains` holds.
    pub fn of(contains: impl Fn(u8) -> bool) -> Self {
        let members = (0..=u8::MAX).filter(|&byte| contains(byte));
        Self(members.fold([0; 4], |mut words, byte| {
            words[usize::from(byte >> 6)] |= 1 << (byte & 63);
            words
        }))
    }

    /// Whether a value is in the set.
    pub fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }
}
