//! Searches the patterns of many rules at once.
//!
//! A table of bits says whether four bytes of the input are in a pattern. The table fits into the first
//! cache, whatever the number of patterns. Only where a bit is set, patterns are compared with the input. The
//! idea is that of DFC (Choi et al., NSDI 2016, section 3), which takes the first bytes of each pattern. Here
//! a pattern of five bytes and more stands for its rarest five bytes, as two windows of four: one of the two
//! begins at an even place of the input, so that odd places need no look. Shorter patterns have pairs of
//! bytes in a table of their own.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Bytes of a window.
const WINDOW: usize = 4;
/// Bits of the hash of a window.
const HASH_BITS: u32 = 17;

/// Patterns, each with the rules that it stands for. Upper and lower case are the same: whether a rule minds
/// is looked at later.
#[derive(Default)]
pub struct Patterns {
    /// The bytes of all patterns.
    bytes: Vec<u8>,
    /// The rules of all patterns.
    rules: Vec<u32>,
    all: Vec<Pattern>,
    longest: usize,
    windows: Windows,
    pairs: Pairs,
}

/// A pattern. It begins, and its rules begin, where those of the one before end.
#[derive(Debug, Clone, Copy, Default)]
struct Pattern {
    bytes_end: u32,
    rules_end: u32,
}

/// A pattern behind a window or a pair.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The window; of a pair, its two bytes.
    window: u32,
    pattern: u32,
    /// Bytes of the pattern before the window; -1: the pattern begins with the second byte of the window.
    before: i32,
}

/// Entries by the number of a bit. A bit that is set has entries, which begin where those of the set bit
/// before end.
struct Table<const WORDS: usize> {
    bits: Box<[u64; WORDS]>,
    /// For each word of bits: the bits that are set in the words before.
    ranks: Box<[u32; WORDS]>,
    ends: Vec<u32>,
    entries: Vec<Entry>,
}

/// The windows of patterns of at least five bytes, by hash: 16 KiB of bits.
type Windows = Table<{ 1 << (HASH_BITS - 6) }>;
/// The pairs of shorter patterns.
type Pairs = Table<{ 1 << 10 }>;

impl<const WORDS: usize> Default for Table<WORDS> {
    fn default() -> Self {
        let (bits, ranks) = (Box::new([0; WORDS]), Box::new([0; WORDS]));
        Self { bits, ranks, ends: vec![], entries: vec![] }
    }
}

impl<const WORDS: usize> Table<WORDS> {
    /// The entries of each bit, in their order.
    fn of(by_bit: BTreeMap<usize, Vec<Entry>>) -> Self {
        let mut table = Self::default();
        for (bit, entries) in by_bit {
            table.bits[bit / 64 % WORDS] |= 1 << (bit % 64);
            table.entries.extend(entries);
            table.ends.push(table.entries.len() as u32);
        }
        let mut set = 0;
        for (rank, bits) in table.ranks.iter_mut().zip(table.bits.iter()) {
            *rank = set;
            set += bits.count_ones();
        }
        table
    }

    /// A bit, as a number.
    #[inline(always)]
    fn get(&self, bit: usize) -> u32 {
        (self.bits[bit / 64 % WORDS] >> (bit % 64)) as u32 & 1
    }

    /// The entries of a bit.
    #[inline(always)]
    fn entries(&self, bit: usize) -> &[Entry] {
        let (word, mask) = (bit / 64 % WORDS, 1_u64 << (bit % 64));
        if self.bits[word] & mask == 0 {
            return &[];
        }
        let number = (self.ranks[word] + (self.bits[word] & (mask - 1)).count_ones()) as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.entries[start as usize..self.ends[number] as usize]
    }
}

/// Patterns that are being collected.
#[derive(Debug, Default)]
pub struct Collected(FxHashMap<Vec<u8>, Vec<u32>>);

impl Collected {
    /// Adds a pattern of a rule. An empty pattern is never found.
    pub fn add(&mut self, pattern: &[u8], rule: u32) {
        self.0.entry(pattern.to_ascii_lowercase()).or_default().push(rule);
    }

    /// Builds the search.
    pub fn build(self) -> Patterns {
        let mut all: Vec<(Vec<u8>, Vec<u32>)> =
            self.0.into_iter().filter(|(pattern, _)| !pattern.is_empty()).collect();
        // Nothing depends on the order in which a map returns its entries.
        all.sort();
        let mut patterns = Patterns::default();
        for (pattern, rules) in &all {
            patterns.bytes.extend_from_slice(pattern);
            patterns.rules.extend_from_slice(rules);
            patterns.longest = patterns.longest.max(pattern.len());
            let (bytes_end, rules_end) = (patterns.bytes.len() as u32, patterns.rules.len() as u32);
            patterns.all.push(Pattern { bytes_end, rules_end });
        }
        patterns.windows = windows_of(all.iter().map(|(pattern, _)| &pattern[..]));
        patterns.pairs = pairs_of(all.iter().map(|(pattern, _)| &pattern[..]));
        patterns
    }
}

impl std::fmt::Debug for Patterns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} patterns", self.all.len())
    }
}

impl Patterns {
    /// Length of the longest pattern, bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Calls `found` with the rules of each pattern that is in `lower`, bytes in lower case, and where it
    /// begins and ends. The places of one pattern ascend.
    #[inline]
    pub fn search(&self, lower: &[u8], found: impl FnMut(&[u32], usize, usize)) {
        match self.pairs.entries.is_empty() {
            true => self.search_in::<false>(lower, found),
            false => self.search_in::<true>(lower, found),
        }
    }

    fn search_in<const SHORT: bool>(&self, lower: &[u8], mut found: impl FnMut(&[u32], usize, usize)) {
        let mut at = 0;
        while let Some(eight) = lower.get(at..at + 8) {
            let eight = u64::from_le_bytes(eight.try_into().expect("there are eight"));
            let hits = self.hits::<SHORT>(eight);
            if hits != 0 {
                self.look::<SHORT>(hits, eight, lower, at, &mut found);
            }
            at += 6;
        }
        // Behind the last bytes come zeros. No pattern is found there, since each is compared with the input.
        let mut rest = [0; 14];
        rest[..lower.len() - at].copy_from_slice(&lower[at..]);
        for part in [0, 6] {
            let eight = u64::from_le_bytes(rest[part..part + 8].try_into().expect("there are eight"));
            self.look::<SHORT>(self.hits::<SHORT>(eight), eight, lower, at + part, &mut found);
        }
    }

    /// Looks three windows up, at the places 0, 2 and 4 of eight bytes: bit `n` is set if the tables have the
    /// window at place `2 n`.
    #[inline(always)]
    fn hits<const SHORT: bool>(&self, eight: u64) -> u32 {
        let hit = |n: u32| {
            let window = (eight >> (16 * n)) as u32;
            let long = self.windows.get(hash(window));
            (if SHORT { long | self.pairs.get(window as usize & 0xffff) } else { long }) << n
        };
        hit(0) | hit(1) | hit(2)
    }

    /// Compares patterns with the input, for each bit of `hits`: the patterns that have the window there.
    /// `at`: the place of the eight bytes in the input.
    #[inline(never)]
    fn look<const SHORT: bool>(
        &self,
        mut hits: u32,
        eight: u64,
        lower: &[u8],
        at: usize,
        found: &mut impl FnMut(&[u32], usize, usize),
    ) {
        while hits != 0 {
            let n = hits.trailing_zeros();
            hits &= hits - 1;
            let (window, at) = ((eight >> (16 * n)) as u32, at + 2 * n as usize);
            let windows = self.windows.entries(hash(window)).iter().filter(|entry| entry.window == window);
            let pairs = if SHORT { self.pairs.entries(window as usize & 0xffff) } else { &[] };
            for entry in windows.chain(pairs) {
                if let Some(start) = at.checked_add_signed(-entry.before as isize) {
                    self.compare(entry.pattern, lower, start, found);
                }
            }
        }
    }

    #[inline]
    fn compare(&self, number: u32, lower: &[u8], at: usize, found: &mut impl FnMut(&[u32], usize, usize)) {
        let number = number as usize;
        let before = number.checked_sub(1).map_or(Pattern::default(), |before| self.all[before]);
        let pattern = self.all[number];
        let bytes = &self.bytes[before.bytes_end as usize..pattern.bytes_end as usize];
        if lower.get(at..).is_some_and(|rest| rest.starts_with(bytes)) {
            let rules = &self.rules[before.rules_end as usize..pattern.rules_end as usize];
            found(rules, at, at + bytes.len());
        }
    }
}

/// The hash of a window, below `1 << HASH_BITS`.
#[inline(always)]
fn hash(window: u32) -> usize {
    // Knuth's multiplier: the upper bits depend on all bytes.
    (window.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS)) as usize
}

/// The place of the rarest `N + 1` bytes of a pattern, by the sum of the costs of both windows of `N` bytes.
fn rarest<const N: usize>(pattern: &[u8], cost: impl Fn(&[u8]) -> u32) -> usize {
    let places = pattern.windows(N + 1).map(|bytes| cost(&bytes[..N]) + cost(&bytes[1..]));
    places.enumerate().min_by_key(|(_, cost)| *cost).map_or(0, |(place, _)| place)
}

/// The windows of patterns of at least five bytes.
fn windows_of<'p>(patterns: impl Iterator<Item = &'p [u8]> + Clone) -> Windows {
    let long = (0..).zip(patterns).filter(|(_, pattern)| pattern.len() > WINDOW);
    // What many patterns have is frequent in traffic, too.
    let mut counts: FxHashMap<u32, u32> = FxHashMap::default();
    for (_, pattern) in long.clone() {
        pattern.windows(WINDOW).for_each(|window| *counts.entry(value(window)).or_default() += 1);
    }
    let mut by_hash: BTreeMap<usize, Vec<Entry>> = BTreeMap::new();
    for (pattern, bytes) in long {
        let cost = |window: &[u8]| {
            let bytes: u32 = window.iter().map(|byte| frequency(*byte)).sum();
            bytes + 4 * counts[&value(window)].ilog2()
        };
        let place = rarest::<WINDOW>(bytes, cost);
        // The later window first: where both are the same bytes, the pattern that begins first is found
        // first.
        for place in [place + 1, place] {
            let window = value(&bytes[place..place + WINDOW]);
            by_hash.entry(hash(window)).or_default().push(Entry { window, pattern, before: place as i32 });
        }
    }
    Windows::of(by_hash)
}

/// The pairs of patterns of up to four bytes.
fn pairs_of<'p>(patterns: impl Iterator<Item = &'p [u8]>) -> Pairs {
    let mut by_pair: BTreeMap<usize, Vec<Entry>> = BTreeMap::new();
    for (pattern, bytes) in (0..).zip(patterns).filter(|(_, bytes)| bytes.len() <= WINDOW) {
        let mut add = |pair: [u8; 2], before: i32| {
            let pair = u16::from_le_bytes(pair);
            let entry = Entry { window: pair.into(), pattern, before };
            by_pair.entry(usize::from(pair)).or_default().push(entry);
        };
        match *bytes {
            [] => {}
            [byte] => {
                for other in 0..=u8::MAX {
                    add([byte, other], 0);
                    add([other, byte], -1);
                }
            }
            [first, second] => {
                add([first, second], 0);
                (0..=u8::MAX).for_each(|other| add([other, first], -1));
            }
            _ => {
                let cost = |pair: &[u8]| pair.iter().map(|byte| frequency(*byte)).sum();
                let place = rarest::<2>(bytes, cost);
                for place in [place + 1, place] {
                    add([bytes[place], bytes[place + 1]], place as i32);
                }
            }
        }
    }
    Pairs::of(by_pair)
}

fn value(window: &[u8]) -> u32 {
    u32::from_le_bytes(window.try_into().expect("a window has four bytes"))
}

/// How frequent a byte in lower case is in traffic, on a logarithmic scale: bytes of a text, of its mark-up,
/// of integers, then others.
fn frequency(byte: u8) -> u32 {
    match byte {
        0 | b' ' | b'e' | b't' => 8,
        b'a' | b'i' | b'n' | b'o' | b'r' | b's' => 7,
        b'c' | b'd' | b'h' | b'l' | b'm' | b'p' | b'u' | b'.' | b'/' | b'"' | b'=' | b'-' => 6,
        b'b' | b'f' | b'g' | b'v' | b'w' | b'y' | b'0'..=b'9' | b':' | b'<' | b'>' | b'\r' | b'\n' | 0xff => {
            5
        }
        b'j' | b'k' | b'q' | b'x' | b'z' | b'&' | b'%' | b';' | b',' | b'_' | b'(' | b')' | 1..=4 => 4,
        b'!'..=b'~' | b'\t' => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Places of each pattern: its number, and where it begins and ends.
    fn places(patterns: &[Vec<u8>], input: &[u8]) -> Vec<(u32, usize, usize)> {
        let mut collected = Collected::default();
        (0..).zip(patterns).for_each(|(number, pattern)| collected.add(pattern, number));
        let mut places = vec![];
        collected.build().search(input, |rules, start, end| {
            places.extend(rules.iter().map(|rule| (*rule, start, end)));
        });
        places
    }

    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![4 => prop::sample::select(&b"ab\0"[..]), 1 => any::<u8>().prop_map(|byte| byte.to_ascii_lowercase())]
    }

    proptest! {
        /// All places of all patterns are found, and those of one pattern ascend.
        #[test]
        fn all_places_are_found(
            patterns in prop::collection::vec(prop::collection::vec(byte(), 0..9), 0..40),
            input in prop::collection::vec(byte(), 0..120),
        ) {
            let mut found = places(&patterns, &input);
            for number in 0..patterns.len() as u32 {
                let of = found.iter().filter(|(of, ..)| *of == number);
                prop_assert!(of.is_sorted_by_key(|(_, start, _)| *start));
            }
            found.sort_unstable();
            let mut expected = vec![];
            for (number, pattern) in (0..).zip(&patterns).filter(|(_, pattern)| !pattern.is_empty()) {
                let starts = (0..input.len()).filter(|start| input[*start..].starts_with(pattern));
                expected.extend(starts.map(|start| (number, start, start + pattern.len())));
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn rules_share_a_pattern_in_any_case() {
        assert_eq!(places(&[b"GET".to_vec(), b"get".to_vec()], b"a get"), [(0, 2, 5), (1, 2, 5)]);
        assert_eq!(places(&[b"T".to_vec()], b"get"), [(0, 2, 3)]);
    }
}
