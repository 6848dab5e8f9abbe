//! State of hosts and rules that all workers share: bits with a time, and counts.

use rustc_hash::FxHashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_rules::{BitsOp, RateFilter, Threshold, ThresholdKind, Track};

/// Entries of each table. One more entry drops those that are over, and is refused if there are none.
const ENTRIES_MAX: usize = 1 << 18;

/// Whom an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Whom {
    one: Option<IpAddr>,
    other: Option<IpAddr>,
    /// A name among live connections.
    flow: u64,
}

impl Whom {
    /// The entry for a packet from `source` to `destination` of the connection with this name.
    pub fn of(track: Track, [source, destination]: [IpAddr; 2], flow: u64) -> Self {
        let (one, other, flow) = match track {
            Track::Source => (Some(source), None, 0),
            Track::Destination => (Some(destination), None, 0),
            Track::Both => (Some(source.min(destination)), Some(source.max(destination)), 0),
            Track::Rule => (None, None, 0),
            Track::Flow => (None, None, flow),
        };
        Self { one, other, flow }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    begin: i64,
    count: u64,
    until: i64,
    /// The next count that alerts, with back-off.
    next: u64,
    /// With a rate filter: its action holds up to this time.
    frequent_until: Option<i64>,
}

/// State of hosts and rules.
#[derive(Debug, Default)]
pub struct Shared(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    /// Bits with the time at which they are forgotten, nanoseconds.
    bits: FxHashMap<(u32, Whom), i64>,
    counts: FxHashMap<CountName, Count>,
    /// No entry of a full table is over before this time.
    bits_full_until: i64,
    counts_full_until: i64,
}

/// Group and signature ID.
pub type RuleName = (u32, u32);
/// A rule, the number of one of its thresholds or rate filters, and whose matches are counted.
type CountName = (RuleName, u16, Whom);

impl Tables {
    /// A count, which begins unless it is there; `None`: there is no room.
    fn count(&mut self, name: CountName, now: i64) -> Option<&mut Count> {
        let Self { counts, counts_full_until: full_until, .. } = self;
        let has_room = counts.contains_key(&name) || make_room(counts, full_until, now, |count| count.until);
        has_room.then(|| counts.entry(name).or_default())
    }
}

const SECOND: i64 = 1_000_000_000;
/// How long a count with back-off stays without matches, seconds.
const BACKOFF_SECONDS: i64 = 3600;
/// How long a bit without a time stays, seconds.
const BIT_SECONDS: u32 = 30;

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a bit is set at the time `now`.
    pub fn has_bit(&self, bit: u32, whom: Whom, now: i64) -> bool {
        self.lock().bits.get(&(bit, whom)).is_some_and(|until| *until > now)
    }

    /// Changes a bit. Returns whether there was room.
    pub fn change_bit(&self, op: BitsOp, (bit, whom): (u32, Whom), seconds: Option<u32>, now: i64) -> bool {
        let Tables { bits, bits_full_until: full_until, .. } = &mut *self.lock();
        let is_set = bits.get(&(bit, whom)).is_some_and(|until| *until > now);
        match op {
            BitsOp::Unset => {
                bits.remove(&(bit, whom));
            }
            BitsOp::Toggle if is_set => {
                bits.remove(&(bit, whom));
            }
            BitsOp::Set | BitsOp::Toggle => {
                let is_new = !bits.contains_key(&(bit, whom));
                if is_new && !make_room(bits, full_until, now, |until| *until) {
                    return false;
                }
                let seconds = i64::from(seconds.unwrap_or(BIT_SECONDS));
                bits.insert((bit, whom), now.saturating_add(seconds * SECOND));
            }
            BitsOp::IsSet | BitsOp::IsNotSet => {}
        }
        true
    }

    /// Counts an alert of a rule at the time `now` for a rate filter. Returns whether the filter's action
    /// holds; `None` if there was no room.
    pub fn is_frequent(
        &self,
        rule: RuleName,
        number: u16,
        filter: &RateFilter,
        whom: Whom,
        now: i64,
    ) -> Option<bool> {
        let mut tables = self.lock();
        let count = tables.count((rule, number | RATES, whom), now)?;
        let nanoseconds = |seconds: u32| i64::from(seconds) * SECOND;
        if let Some(until) = count.frequent_until {
            if now > until {
                count.frequent_until = None;
            }
            return Some(now <= until);
        }
        if count.count == 0 || now.saturating_sub(count.begin) > nanoseconds(filter.seconds) {
            (count.begin, count.count) = (now, 0);
        }
        count.count += 1;
        let is_frequent = count.count > u64::from(filter.count);
        let until = now.saturating_add(nanoseconds(filter.timeout_s));
        count.frequent_until = is_frequent.then_some(until);
        count.until = until.max(count.begin.saturating_add(nanoseconds(filter.seconds) + 1));
        Some(is_frequent)
    }

    /// Counts a match of a rule at the time `now`. Returns whether the match alerts; `None` if there was no
    /// room.
    pub fn count(
        &self,
        rule: RuleName,
        number: u16,
        threshold: &Threshold,
        whom: Whom,
        now: i64,
    ) -> Option<bool> {
        let mut tables = self.lock();
        let count = tables.count((rule, number, whom), now)?;
        let interval = i64::from(threshold.seconds) * SECOND;
        let max = u64::from(threshold.count);
        let is_new = count.until == 0 || now.saturating_sub(count.begin) > interval;
        if is_new && threshold.kind != ThresholdKind::Backoff {
            *count = Count { begin: now, until: now.saturating_add(interval + 1), ..Count::default() };
        }
        count.until = count.until.max(1);
        count.count += 1;
        Some(match threshold.kind {
            ThresholdKind::Limit => count.count <= max,
            ThresholdKind::Threshold => {
                let is_full = count.count >= max;
                if is_full {
                    count.count = 0;
                }
                is_full
            }
            ThresholdKind::Both => count.count == max,
            ThresholdKind::Detection => count.count > max,
            ThresholdKind::Backoff => {
                count.until = now.saturating_add(BACKOFF_SECONDS * SECOND);
                let next = if count.next == 0 { max } else { count.next };
                let is_next = count.count == next;
                count.next =
                    if is_next { next.saturating_mul(u64::from(threshold.multiplier)) } else { next };
                is_next
            }
        })
    }
}

/// Numbers of rate filters of a rule begin here; those of thresholds are lower ones.
pub const RATES: u16 = 1 << 15;

/// Whether a table has room for another entry, if need be without those that are over. A full table is looked
/// through again only when one of its entries is over.
fn make_room<K, V>(
    table: &mut FxHashMap<K, V>,
    full_until: &mut i64,
    now: i64,
    until: impl Fn(&V) -> i64,
) -> bool {
    if table.len() < ENTRIES_MAX {
        return true;
    }
    if now < *full_until {
        return false;
    }
    table.retain(|_, value| until(value) > now);
    *full_until = table.values().map(until).min().unwrap_or(i64::MIN);
    table.len() < ENTRIES_MAX
}
