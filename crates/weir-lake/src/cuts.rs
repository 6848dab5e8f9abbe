//! Divides the merged sequence of all captures into units, between which it can be cut.
//!
//! Captures are merged by time: the one whose next packet is the earliest is read next. A place behind some
//! chunks of each capture is a *cut* if the merged sequence has all packets of these chunks before all
//! others. That is so if no packet before the cut is as late as a packet behind the cut of another capture.
//! The chunks between two cuts are a *unit*: usually one chunk, and several where captures overlap.

use crate::index::Index;
use std::collections::BTreeSet;
use std::ops::Range;

/// Consecutive chunks of some captures, between two cuts: the place of each capture, and its chunks.
pub(crate) type Unit = Vec<(usize, Range<usize>)>;

/// The units of captures, in the order of the merged sequence.
pub(crate) fn units(indices: &[&Index]) -> Vec<Unit> {
    let mut sweep = Sweep::of(indices);
    let mut units = vec![];
    let mut unit: Unit = vec![];
    while let Some(place) = sweep.advance() {
        let at = sweep.at[place];
        match unit.iter_mut().find(|(known, _)| *known == place) {
            Some((_, chunks)) => chunks.end = at,
            None => unit.push((place, at - 1..at)),
        }
        if sweep.is_cut() {
            unit.sort_by_key(|(place, _)| *place);
            units.push(std::mem::take(&mut unit));
        }
    }
    units
}

/// Units of one chunk each, in the order of the captures.
pub(crate) fn consecutive(indices: &[&Index]) -> Vec<Unit> {
    let chunks = |(place, index): (usize, &&Index)| {
        (0..index.chunks.len()).map(|chunk| vec![(place, chunk..chunk + 1)]).collect::<Vec<Unit>>()
    };
    indices.iter().enumerate().flat_map(chunks).collect()
}

struct Sweep {
    /// For each capture and chunk: the latest time up to the chunk, and the earliest one from the chunk on.
    latest: Vec<Vec<i64>>,
    earliest: Vec<Vec<i64>>,
    /// Chunks of each capture before the place.
    at: Vec<usize>,
    /// The latest times before the place, and the earliest ones behind, with their captures.
    before: BTreeSet<(i64, usize)>,
    behind: BTreeSet<(i64, usize)>,
    /// By which capture the place advances next: by the latest time up to the end of its next chunk.
    next: BTreeSet<(i64, usize)>,
}

impl Sweep {
    fn of(indices: &[&Index]) -> Self {
        let latest = |index: &&Index| {
            let mut latest = i64::MIN;
            let up_to = index.chunks.iter().map(|chunk| {
                latest = latest.max(chunk.times.1);
                latest
            });
            up_to.collect::<Vec<_>>()
        };
        let earliest = |index: &&Index| {
            let mut earliest = i64::MAX;
            let mut from = index.chunks.iter().rev().map(|chunk| {
                earliest = earliest.min(chunk.times.0);
                earliest
            });
            let mut all: Vec<i64> = from.by_ref().collect();
            all.reverse();
            all
        };
        let latest: Vec<_> = indices.iter().map(latest).collect();
        let earliest: Vec<_> = indices.iter().map(earliest).collect();
        let first = |times: &[Vec<i64>]| {
            let first = |(place, times): (usize, &Vec<i64>)| times.first().map(|&time| (time, place));
            times.iter().enumerate().filter_map(first).collect::<BTreeSet<_>>()
        };
        let (next, behind) = (first(&latest), first(&earliest));
        Self { at: vec![0; indices.len()], before: BTreeSet::new(), behind, next, latest, earliest }
    }

    /// Moves the place behind another chunk; returns its capture.
    fn advance(&mut self) -> Option<usize> {
        let (time, place) = self.next.pop_first()?;
        let at = self.at[place];
        self.at[place] = at + 1;
        if let Some(previous) = at.checked_sub(1) {
            self.before.remove(&(self.latest[place][previous], place));
        }
        self.before.insert((time, place));
        self.behind.remove(&(self.earliest[place][at], place));
        if let Some(&next) = self.latest[place].get(at + 1) {
            self.next.insert((next, place));
            self.behind.insert((self.earliest[place][at + 1], place));
        }
        Some(place)
    }

    /// Whether no packet before the place is as late as one behind it of another capture.
    fn is_cut(&self) -> bool {
        let before = || self.before.iter().rev().take(2);
        let mut both =
            self.behind.iter().take(2).flat_map(|behind| before().map(move |before| (before, behind)));
        both.all(|(before, behind)| before.1 == behind.1 || before.0 < behind.0)
    }
}
