//! The keyed hash of groups and of values that `distinct` counts.
//!
//! The hash is NH (RFC 4418, 5.2.2, there with words of 32 bits), here with words of 64 bits: the sum of the
//! products of pairs of words, to each of which a secret word was added. For two different keys of the same
//! length, the probability over the secrets that the sums of 128 bits are equal is 2⁻⁶⁴. An attacker who does
//! not know the seed therefore cannot choose keys that collide. The products do not depend on each other, so
//! the processor computes them at the same time.

use std::hash::{BuildHasher, RandomState};

/// The most words of a key, and of an identity.
pub(crate) const WORDS_MAX: usize = 32;

/// The secret of a run. All workers of a run, and the merger, have the same seed: estimates of `distinct` can
/// only be merged if their hashes agree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u64; 2]);

impl Seed {
    /// A seed from the randomness that the standard library takes from the operating system.
    pub fn random() -> Self {
        // The hash of a constant with a random key is a random number.
        Self([RandomState::new().hash_one(0), RandomState::new().hash_one(1)])
    }
}

impl std::fmt::Debug for Seed {
    /// Prints no secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// The hash function of a seed.
#[derive(Clone)]
pub(crate) struct KeyedHash {
    /// Added to the words of keys.
    words: [u64; WORDS_MAX],
    /// Added to the last pair of words, and to the halves of the sum.
    last: [u64; 4],
}

impl std::fmt::Debug for KeyedHash {
    /// Prints no secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyedHash(..)")
    }
}

impl KeyedHash {
    pub(crate) fn new(seed: Seed) -> Self {
        let [mut a, mut b] = seed.0;
        // Two generators, so that all 128 bits of the seed matter for every word.
        let mut secret = || {
            a = a.wrapping_add(0x9e37_79b9_7f4a_7c15);
            b = b.wrapping_add(0xd1b5_4a32_d192_ed03);
            mix(mix(a) ^ b)
        };
        let words = std::array::from_fn(|_| secret());
        Self { words, last: std::array::from_fn(|_| secret()) }
    }

    /// A hash without secrets: all keys with a 0 in each pair of words collide.
    #[cfg(test)]
    pub(crate) fn colliding() -> Self {
        Self { words: [0; WORDS_MAX], last: [0; 4] }
    }

    /// The hash of `words`, at most [`WORDS_MAX`], and of one more word. Keys of one table have the same
    /// number of words.
    pub(crate) fn hash(&self, words: &[u64], more: u64) -> u64 {
        let (pairs, rest) = words.as_chunks::<2>();
        let (secrets, _) = self.words.as_chunks::<2>();
        let mut sum = 0_u128;
        for (pair, secret) in pairs.iter().zip(secrets) {
            sum = sum.wrapping_add(product(pair[0].wrapping_add(secret[0]), pair[1].wrapping_add(secret[1])));
        }
        let odd = rest.first().copied().unwrap_or(0);
        sum = sum.wrapping_add(product(odd.wrapping_add(self.last[0]), more.wrapping_add(self.last[1])));
        let halves = product(sum as u64 ^ self.last[2], (sum >> 64) as u64 ^ self.last[3]);
        mix(halves as u64 ^ (halves >> 64) as u64)
    }
}

fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// The last step of SplitMix64 (Steele, Lea, Flood, 2014): each bit of `z` changes about half of the result's
/// bits.
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_word_and_both_halves_of_the_seed_change_the_hash() {
        let hash = KeyedHash::new(Seed([1, 2]));
        for length in 0..=WORDS_MAX {
            let mut key = vec![7; length];
            let mut seen = HashSet::from([hash.hash(&key, 0), hash.hash(&key, 1)]);
            for position in 0..length {
                key[position] = 8;
                assert!(
                    seen.insert(hash.hash(&key, 0)),
                    "word {position} of {length} is not part of the hash"
                );
                key[position] = 7;
            }
            for seed in [Seed([1, 3]), Seed([2, 2])] {
                assert!(seen.insert(KeyedHash::new(seed).hash(&key, 0)));
            }
        }
        assert_ne!(Seed::random(), Seed::random());
    }

    #[test]
    fn bits_of_hashes_of_consecutive_numbers_are_balanced() {
        let hash = KeyedHash::new(Seed([3, 4]));
        let mut ones = [0_u32; 64];
        for number in 0..10_000 {
            let value = hash.hash(&[number], 1);
            for (bit, ones) in ones.iter_mut().enumerate() {
                *ones += (value >> bit & 1) as u32;
            }
        }
        // Six standard deviations.
        assert!(ones.iter().all(|ones| ones.abs_diff(5_000) < 300), "{ones:?}");
    }
}
