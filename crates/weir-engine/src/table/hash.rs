//! The hash of flow keys: folded multiplication with secrets, similar to wyhash.
//!
//! The senders of packets choose the keys. With a hash without a secret, they could fill one bucket. The seed
//! is an argument: random per process in production, fixed in tests.

use std::hash::{BuildHasherDefault, Hasher};

/// Multiplies to 128 bits, and combines the upper and the lower half.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Secrets of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyHash([u64; 6]);

impl KeyHash {
    /// Secrets drawn from a seed by SplitMix64.
    pub(super) fn new(mut seed: u64) -> Self {
        Self(std::array::from_fn(|_| {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = seed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    /// The hash of a key: three multiplications for five words, the usual size. Both ends of the hash are
    /// well mixed.
    #[inline(always)]
    pub(super) fn hash(&self, key: &[u64]) -> u64 {
        match <&[u64; 5]>::try_from(key) {
            Ok(key) => {
                let s = &self.0;
                let h = fold(key[0] ^ s[0], key[1] ^ s[1]) ^ fold(key[2] ^ s[2], key[3] ^ s[3]);
                fold(h ^ key[4] ^ s[4], s[5] | 1)
            }
            Err(_) => self.hash_any(key),
        }
    }

    /// The hash of a key of any size.
    fn hash_any(&self, key: &[u64]) -> u64 {
        let s = &self.0;
        let (pairs, rest) = key.as_chunks::<2>();
        let h = pairs.iter().fold(key.len() as u64, |h, [a, b]| fold(h ^ a ^ s[0], b ^ s[1]));
        let h = rest.iter().fold(h, |h, a| fold(h ^ a ^ s[2], s[3] | 1));
        fold(h ^ s[4], s[5] | 1)
    }
}

/// Hashes numbers that the engine assigned (ids, addresses of blocks), which no sender can choose.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

/// For `HashMap`.
pub(crate) type BuildIdHasher = BuildHasherDefault<IdHasher>;

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = fold(self.0 ^ number, 0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_always_the_same_hash_and_another_seed_another() {
        let key = [1, 2, 3, 4, 5];
        assert_eq!(KeyHash::new(1).hash(&key), KeyHash::new(1).hash(&key));
        assert_ne!(KeyHash::new(1).hash(&key), KeyHash::new(2).hash(&key));
    }

    #[test]
    fn one_bit_of_any_word_changes_about_half_of_the_hash() {
        let hash = KeyHash::new(7);
        let all = [0x0a00_0001, 0x0a00_0002, 443, 0, 6, 0, 9, 0xffff, 1, 0, 0, 0, 77, 78, 79, 80];
        let words =
            [1, 2, 4, 5, 6, 16].into_iter().flat_map(|words| (0..words).map(move |word| (words, word)));
        for (words, word) in words {
            let key = &all[..words];
            let flipped: u32 = (0..64)
                .map(|bit| {
                    let mut other = key.to_vec();
                    other[word] ^= 1 << bit;
                    (hash.hash(key) ^ hash.hash(&other)).count_ones()
                })
                .sum();
            assert!((24 * 64..40 * 64).contains(&flipped), "word {word} of {words}: {flipped} of 4096 bits");
        }
    }

    #[test]
    fn counting_keys_spread_evenly_over_buckets() {
        let hash = KeyHash::new(3);
        let mut buckets = [0u32; 256];
        for n in 0..25_600u64 {
            buckets[(hash.hash(&[n, n >> 3, 80, 0, 0]) & 255) as usize] += 1;
        }
        assert!(buckets.iter().all(|&n| (50..160).contains(&n)), "{buckets:?}");
    }
}
