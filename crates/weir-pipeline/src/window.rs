//! Tumbling windows in the time of the items.

use crate::operator::{Operator, Port};
use crate::signal::Signal;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The most items that wait for their window. Windows close early if there are more.
pub const WAITING_MAX: usize = 1 << 16;

/// A window has no length, or one that no time reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthError(Duration);

impl fmt::Display for LengthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "windows of {:?}: give a length from 1 ns to 292 years", self.0)
    }
}

impl std::error::Error for LengthError {}

/// Divides items into windows of the same length, which begin at multiples of the length.
///
/// A window ends once the [watermark](Signal::Time) is `delay` after its end: after the last item of the
/// window comes [`Signal::Window`]. Items of later windows wait until then, so that between two such signals
/// there are only the items of one window, and a single item with a wrong time ends no window. Items of
/// windows that have ended are dropped and [counted](Self::late). Without any watermark, the latest time of
/// an item is the watermark.
#[derive(Debug, Clone)]
pub struct Window<T, F> {
    length_ns: i64,
    delay_ns: i64,
    time: F,
    /// The number of the open window.
    open: Option<i64>,
    /// Items passed in the open window.
    has_items: bool,
    /// By number of the window.
    waiting: BTreeMap<i64, Vec<T>>,
    waiting_items: usize,
    /// The watermark.
    reached: i64,
    /// The watermark comes by signals.
    is_told: bool,
    late: u64,
}

/// The length of windows, and for how long they wait for late items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tumbling {
    length_ns: i64,
    delay_ns: i64,
}

impl Tumbling {
    /// Windows of this length, without a delay.
    ///
    /// # Errors
    /// If the length is 0, or above 2⁶³ ns.
    pub fn every(length: Duration) -> Result<Self, LengthError> {
        match i64::try_from(length.as_nanos()) {
            Ok(length_ns) if length_ns > 0 => Ok(Self { length_ns, delay_ns: 0 }),
            _ => Err(LengthError(length)),
        }
    }

    /// The number of the window of a time.
    pub(crate) fn number(self, time: i64) -> i64 {
        time.div_euclid(self.length_ns)
    }

    /// The number of the first window that is open if the watermark is `time`.
    pub(crate) fn first_open(self, time: i64) -> i64 {
        time.saturating_sub(self.delay_ns).div_euclid(self.length_ns)
    }

    /// Windows end this long after their last time, so that late items are counted.
    #[must_use]
    pub fn delayed(self, delay: Duration) -> Self {
        Self { delay_ns: i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX), ..self }
    }
}

impl<T, F: FnMut(&T) -> i64> Window<T, F> {
    /// Windows in the time, in nanoseconds since 1970, that `time` says of an item.
    pub fn new(windows: Tumbling, time: F) -> Self {
        let Tumbling { length_ns, delay_ns } = windows;
        Self {
            length_ns,
            delay_ns,
            time,
            open: None,
            has_items: false,
            waiting: BTreeMap::new(),
            waiting_items: 0,
            reached: i64::MIN,
            is_told: false,
            late: 0,
        }
    }

    /// Items that were dropped because their window had ended.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Opens a window, and passes on the items that wait for it.
    fn open(&mut self, number: i64, out: &mut impl Port<T>) {
        self.open = Some(number);
        let Some(items) = self.waiting.remove(&number) else { return };
        self.waiting_items -= items.len();
        self.has_items = true;
        items.into_iter().for_each(|item| out.put(item));
    }

    /// Ends windows before the one with this number, and opens that one. Windows without items are skipped.
    fn close(&mut self, before: i64, out: &mut impl Port<T>) {
        loop {
            if let Some(open) = self.open {
                if open >= before {
                    return;
                }
                if std::mem::take(&mut self.has_items) {
                    let start = open.saturating_mul(self.length_ns);
                    out.signal(Signal::Window { start, end: start.saturating_add(self.length_ns) });
                }
            }
            let next = self.waiting.first_key_value().map_or(before, |(number, _)| (*number).min(before));
            self.open(next, out);
        }
    }

    fn close_all(&mut self, out: &mut impl Port<T>) {
        let last = self.waiting.last_key_value().map(|(number, _)| *number).max(self.open);
        if let Some(last) = last {
            self.close(last.saturating_add(1), out);
        }
        (self.open, self.reached) = (None, i64::MIN);
    }

    /// The watermark is `time`.
    fn reach(&mut self, time: i64, out: &mut impl Port<T>) {
        if time > self.reached {
            self.reached = time;
            self.close(time.saturating_sub(self.delay_ns).div_euclid(self.length_ns), out);
        }
    }
}

impl<T, F: FnMut(&T) -> i64> Operator<T> for Window<T, F> {
    type Out = T;

    #[inline]
    fn take(&mut self, item: T, out: &mut impl Port<T>) {
        let time = (self.time)(&item);
        if !self.is_told {
            self.reach(time, out);
        }
        let number = time.div_euclid(self.length_ns);
        match self.open {
            Some(open) if number == open => {
                self.has_items = true;
                out.put(item);
            }
            Some(open) if number < open => self.late += 1,
            // Before the first watermark, the first window is not known.
            _ => {
                self.waiting.entry(number).or_default().push(item);
                self.waiting_items += 1;
                if self.waiting_items > WAITING_MAX
                    && let Some((&first, _)) = self.waiting.first_key_value()
                {
                    self.close(first, out);
                }
            }
        }
    }

    fn signal(&mut self, signal: Signal, out: &mut impl Port<T>) {
        match signal {
            Signal::Time(time) => {
                self.is_told = true;
                self.reach(time, out);
            }
            Signal::Restart(_) | Signal::End => self.close_all(out),
            Signal::Flush | Signal::Window { .. } => {}
        }
        out.signal(signal);
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        tell("late", self.late);
    }
}
