//! Searches the patterns of many rules at once.

use daachorse::{DoubleArrayAhoCorasick, DoubleArrayAhoCorasickBuilder, MatchKind};
use rustc_hash::FxHashMap;

/// Patterns, each with the rules that it stands for. Upper and lower case are the same: whether a rule minds is looked at later.
#[derive(Default)]
pub struct Patterns {
    machine: Option<DoubleArrayAhoCorasick<u32>>,
    /// For each pattern its rules: the end of its range in `rules`.
    ends: Vec<u32>,
    rules: Vec<u32>,
    longest: usize,
}

/// Patterns that are being collected.
#[derive(Debug, Default)]
pub struct Collected(FxHashMap<Vec<u8>, Vec<u32>>);

impl Collected {
    /// Adds a pattern of a rule.
    pub fn add(&mut self, pattern: &[u8], rule: u32) {
        self.0.entry(pattern.to_ascii_lowercase()).or_default().push(rule);
    }

    /// Builds the search.
    pub fn build(self) -> Patterns {
        let mut all: Vec<(Vec<u8>, Vec<u32>)> = self.0.into_iter().collect();
        // The machine does not depend on the order in which a map returns its entries.
        all.sort();
        let longest = all.iter().map(|(pattern, _)| pattern.len()).max().unwrap_or(0);
        let (mut ends, mut rules) = (vec![], vec![]);
        for (_, of) in &all {
            rules.extend_from_slice(of);
            ends.push(rules.len() as u32);
        }
        let numbered = all.iter().enumerate().map(|(number, (pattern, _))| (pattern, number as u32));
        let machine = DoubleArrayAhoCorasickBuilder::new().match_kind(MatchKind::Standard);
        Patterns { machine: machine.build_with_values(numbered).ok(), ends, rules, longest }
    }
}

impl std::fmt::Debug for Patterns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} patterns", self.ends.len())
    }
}

impl Patterns {
    /// Length of the longest pattern, bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.machine.is_none()
    }

    /// Calls `found` with the rules of each pattern that is in `lower`, bytes in lower case, and where it begins and ends.
    #[inline]
    pub fn search(&self, lower: &[u8], mut found: impl FnMut(&[u32], usize, usize)) {
        let Some(machine) = &self.machine else { return };
        for hit in machine.find_overlapping_iter(lower) {
            let number = hit.value() as usize;
            let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
            found(&self.rules[start..self.ends[number] as usize], hit.start(), hit.end());
        }
    }
}
