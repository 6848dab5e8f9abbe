//! Pairs of items of two inputs.

use crate::operator::{Either, Operator, Port};
use crate::signal::Signal;
use crate::table::{FlatTable, RowNumber};
use crate::window::Tumbling;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::Hash;

/// The usual bound on the items that are kept.
pub const JOINED_MAX: usize = 1 << 18;

/// Passes on each pair of a left and a right item with the same key: an inner join.
///
/// Items are kept until a flush or the end; those of a [window](Self::within) until the watermark is after
/// the window, and then only items of the same window are pairs. At most [`JOINED_MAX`] items are kept, or as
/// many as [`Self::items_max`] says: further items meet those that are kept, but not each other, and are
/// [counted](Self::unkept).
pub struct Join<K, L, R, G, H> {
    left_key: G,
    right_key: H,
    window: Option<Within<L, R>>,
    kept: FlatTable<(i64, K), (Vec<L>, Vec<R>)>,
    /// By window: its keys.
    rows: BTreeMap<i64, Vec<RowNumber>>,
    /// Windows before this one are over.
    first: i64,
    items: usize,
    items_max: usize,
    unkept: u64,
    late: u64,
}

type TimeOf<T> = Box<dyn FnMut(&T) -> i64 + Send>;

/// The windows of a join, and the times of items.
struct Within<L, R> {
    windows: Tumbling,
    left: TimeOf<L>,
    right: TimeOf<R>,
}

impl<K, L, R, G, H> fmt::Debug for Join<K, L, R, G, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Join").field("items", &self.items).finish_non_exhaustive()
    }
}

impl<K: Hash + Eq, L, R, G, H> Join<K, L, R, G, H> {
    /// A join by the keys that these functions say.
    pub fn new(left_key: G, right_key: H) -> Self {
        Self {
            left_key,
            right_key,
            window: None,
            kept: FlatTable::new(JOINED_MAX),
            rows: BTreeMap::new(),
            first: i64::MIN,
            items: 0,
            items_max: JOINED_MAX,
            unkept: 0,
            late: 0,
        }
    }

    /// Only items of the same window are pairs; the functions say their times, in nanoseconds since 1970.
    #[must_use]
    pub fn within(
        self,
        windows: Tumbling,
        left: impl FnMut(&L) -> i64 + Send + 'static,
        right: impl FnMut(&R) -> i64 + Send + 'static,
    ) -> Self {
        Self { window: Some(Within { windows, left: Box::new(left), right: Box::new(right) }), ..self }
    }

    /// The same with another bound on items. Items so far are dropped.
    #[must_use]
    pub fn items_max(self, items_max: usize) -> Self {
        Self { kept: FlatTable::new(items_max), rows: BTreeMap::new(), items: 0, items_max, ..self }
    }

    /// Items that were not kept, because there were too many.
    pub fn unkept(&self) -> u64 {
        self.unkept
    }

    /// Items of windows that were over.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Drops the items of windows before this one.
    fn drop_before(&mut self, first: i64) {
        self.first = self.first.max(first);
        while let Some(window) = self.rows.first_entry()
            && *window.key() < self.first
        {
            for row in window.remove() {
                if let Some((_, (lefts, rights))) = self.kept.remove(row) {
                    self.items -= lefts.len() + rights.len();
                }
            }
        }
    }

    fn clear(&mut self) {
        self.kept.drain(|_, _| ());
        self.rows.clear();
        self.items = 0;
    }
}

impl<K, L, R, G, H> Operator<Either<L, R>> for Join<K, L, R, G, H>
where
    K: Hash + Eq,
    L: Clone,
    R: Clone,
    G: FnMut(&L) -> K,
    H: FnMut(&R) -> K,
{
    type Out = (L, R);

    fn take(&mut self, item: Either<L, R>, out: &mut impl Port<(L, R)>) {
        let window = self.window.as_mut().map_or(0, |within| {
            let time = match &item {
                Either::Left(left) => (within.left)(left),
                Either::Right(right) => (within.right)(right),
            };
            within.windows.number(time)
        });
        if self.window.is_some() && window < self.first {
            self.late += 1;
            return;
        }
        let key = match &item {
            Either::Left(left) => (window, (self.left_key)(left)),
            Either::Right(right) => (window, (self.right_key)(right)),
        };
        let is_kept = self.items < self.items_max;
        let row = match is_kept {
            true => self.kept.find_or_insert(key, Default::default).map(|(row, is_new)| {
                if is_new {
                    self.rows.entry(window).or_default().push(row);
                }
                row
            }),
            false => self.kept.find(&key),
        };
        self.items += usize::from(is_kept);
        self.unkept += u64::from(!is_kept);
        let Some(row) = row else { return };
        let (_, (lefts, rights)) = self.kept.row(row);
        match item {
            Either::Left(left) => {
                rights.iter().for_each(|right| out.put((left.clone(), right.clone())));
                if is_kept {
                    lefts.push(left);
                }
            }
            Either::Right(right) => {
                lefts.iter().for_each(|left| out.put((left.clone(), right.clone())));
                if is_kept {
                    rights.push(right);
                }
            }
        }
    }

    fn signal(&mut self, signal: Signal, out: &mut impl Port<(L, R)>) {
        match (signal, &self.window) {
            (Signal::Time(time), Some(within)) => self.drop_before(within.windows.first_open(time)),
            (Signal::Restart(_), _) => {
                self.clear();
                self.first = i64::MIN;
            }
            (Signal::Flush | Signal::End, _) | (Signal::Window { .. }, None) => self.clear(),
            (Signal::Window { .. }, Some(_)) | (Signal::Time(_), None) => {}
        }
        out.signal(signal);
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        tell("unkept", self.unkept);
        tell("late", self.late);
    }
}
