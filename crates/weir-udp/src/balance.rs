//! Keys to instances.
//!
//! Each of 65 536 places belongs to the instance with the largest hash of place and name (rendezvous hashing:
//! Thaler and Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996). A new instance therefore
//! takes its places from all others alike, and only the places of a removed one move. The hash of a packet's
//! key selects a place. The hashes have no secret and depend on nothing but names and keys, so that front
//! ends on several hosts, and later runs, select the same instance.

/// Instances of a front end at most.
pub const INSTANCES_MAX: usize = 256;

/// Places, as a power of two. The shares of 16 instances differ by some percent.
const PLACES_BITS: u32 = 16;

/// Which instance has a key.
#[derive(Debug, Clone)]
pub struct Balance {
    places: Box<[u16]>,
}

impl Balance {
    /// Balances over the instances of these names, at least one and at most [`INSTANCES_MAX`]. Their order
    /// does not matter. Costs a hash for each place and instance.
    ///
    /// # Panics
    /// If there is no instance, or there are too many.
    pub fn over<N: AsRef<str>>(names: &[N]) -> Self {
        assert!((1..=INSTANCES_MAX).contains(&names.len()), "the number of instances was checked");
        let hashes: Vec<u64> = names.iter().map(|name| hash_text(name.as_ref())).collect();
        let owner = |place: u64| {
            let place = hash(0, place);
            let best = hashes.iter().enumerate().max_by_key(|(_, name)| hash(place, **name));
            best.map_or(0, |(index, _)| index as u16)
        };
        Self { places: (0..1 << PLACES_BITS).map(owner).collect() }
    }

    /// The index of the instance that has the key with this hash.
    #[inline]
    pub fn instance(&self, key: u64) -> usize {
        usize::from(self.places[(key >> (64 - PLACES_BITS)) as usize])
    }
}

/// The hash of what was hashed before, and one more word: a round of SplitMix64 (Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014).
#[inline]
pub fn hash(before: u64, word: u64) -> u64 {
    let z = (before ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn hash_text(text: &str) -> u64 {
    let words = text.as_bytes().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(text.len() as u64, hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u64 = 200_000;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("10.0.0.{number}:9000")).collect()
    }

    fn owners<N: AsRef<str>>(names: &[N]) -> Vec<String> {
        let balance = Balance::over(names);
        (0..KEYS).map(|key| names[balance.instance(hash(0, key))].as_ref().to_string()).collect()
    }

    #[test]
    fn the_shares_of_instances_are_alike() {
        for count in 1..=16 {
            let names = names(count);
            let owners = owners(&names);
            for name in &names {
                let share = owners.iter().filter(|owner| *owner == name).count() as f64 / KEYS as f64;
                let off = share * count as f64 - 1.0;
                assert!(off.abs() < 0.08, "{name} of {count} has {share}");
            }
        }
    }

    #[test]
    fn a_new_instance_takes_its_share_and_moves_nothing_else() {
        for count in 1..16 {
            let (before, after) = (owners(&names(count)), owners(&names(count + 1)));
            let new = format!("10.0.0.{count}:9000");
            let moved = before.iter().zip(&after).filter(|(old, now)| old != now);
            assert!(moved.clone().all(|(_, now)| *now == new), "keys move to the new instance only");
            let share = moved.count() as f64 / KEYS as f64 * (count + 1) as f64;
            assert!((share - 1.0).abs() < 0.08, "{share} of the share of an instance");
        }
    }

    #[test]
    fn only_the_keys_of_a_removed_instance_move() {
        let all = names(8);
        for gone in 0..all.len() {
            let rest: Vec<&String> = all.iter().filter(|name| **name != all[gone]).collect();
            let (before, after) = (owners(&all), owners(&rest));
            let moved = before.iter().zip(&after).filter(|(old, now)| old != now);
            assert!(moved.clone().all(|(old, _)| *old == all[gone]));
            assert_eq!(moved.count(), before.iter().filter(|owner| **owner == all[gone]).count());
        }
    }

    #[test]
    fn the_order_of_names_does_not_matter_and_the_hash_never_changes() {
        let all = names(5);
        let reversed: Vec<&String> = all.iter().rev().collect();
        assert_eq!(owners(&all), owners(&reversed));
        // Front ends of different versions must agree.
        assert_eq!(hash(1, 2), 0x1d0b_14e4_db01_8fed);
        let balance = Balance::over(&all);
        let some: Vec<usize> = (0..10).map(|key| balance.instance(hash(0, key))).collect();
        assert_eq!(some, [2, 1, 0, 2, 1, 2, 1, 4, 4, 1]);
    }
}
