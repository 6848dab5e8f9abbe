//! Windows and panes as times.
//!
//! A pane is the part of time that a record belongs to: a window, or of sliding windows the time of one
//! slide. Panes are numbered since 1970; each window has the number of its last pane.

use crate::error::PlanError;

/// The most panes of a sliding window: each window merges as many.
pub const PANES_OF_WINDOW_MAX: u64 = 1_024;

/// The shortest pane: the numbers of all panes, and of their successors, fit into an `i64`.
const PANE_NS_MIN: u64 = 1_000;

/// The windows of an aggregate. Their ends are multiples of their length, or of their slide, since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Windows {
    /// One window for the whole run.
    None,
    /// `every 10s`
    Tumbling {
        /// Length of a window: at least a microsecond.
        length_ns: u64,
    },
    /// `over 60s every 10s`. A window is merged from its panes, one for each slide, when the window closes.
    Sliding {
        /// Length of a window: a multiple of the slide, at most [`PANES_OF_WINDOW_MAX`] slides.
        length_ns: u64,
        /// The distance of windows: at least a microsecond.
        slide_ns: u64,
    },
}

impl Windows {
    pub(crate) fn check(self) -> Result<(), PlanError> {
        let (length_ns, slide_ns) = match self {
            Self::None => return Ok(()),
            Self::Tumbling { length_ns } => (length_ns, length_ns),
            Self::Sliding { length_ns, slide_ns } => (length_ns, slide_ns),
        };
        if length_ns.min(slide_ns) < PANE_NS_MIN {
            return Err(PlanError::ShortWindow);
        }
        if i64::try_from(length_ns).is_err() {
            return Err(PlanError::LongWindow);
        }
        if slide_ns > length_ns || length_ns % slide_ns != 0 {
            return Err(PlanError::Slide { length_ns, slide_ns });
        }
        if length_ns / slide_ns > PANES_OF_WINDOW_MAX {
            return Err(PlanError::ShortSlide { length_ns, slide_ns, panes_max: PANES_OF_WINDOW_MAX });
        }
        Ok(())
    }

    /// Length of a pane; 0 if there are no windows. Checked windows fit.
    fn pane_ns(self) -> i64 {
        match self {
            Self::None => 0,
            Self::Tumbling { length_ns } => length_ns.cast_signed(),
            Self::Sliding { slide_ns, .. } => slide_ns.cast_signed(),
        }
    }

    /// Panes of a window.
    pub(crate) fn panes_of_window(self) -> i64 {
        match self {
            Self::Sliding { length_ns, slide_ns } => (length_ns / slide_ns).cast_signed(),
            Self::None | Self::Tumbling { .. } => 1,
        }
    }

    /// The pane of a time.
    pub(crate) fn pane(self, time_ns: i64) -> i64 {
        // Without windows, all times are in pane 0.
        time_ns.checked_div_euclid(self.pane_ns()).unwrap_or(0)
    }

    /// The first open pane, if all panes whose end is at or before `time_ns` are closed; none without
    /// windows.
    pub(crate) fn first_open(self, time_ns: i64) -> Option<i64> {
        (self != Self::None).then(|| self.pane(time_ns))
    }

    /// The times from which to before which a pane holds records, saturated.
    pub(crate) fn range(self, pane: i64) -> (i64, i64) {
        let pane_ns = self.pane_ns();
        if pane_ns == 0 {
            return (i64::MIN, i64::MAX);
        }
        (pane.saturating_mul(pane_ns), (pane + 1).saturating_mul(pane_ns))
    }

    /// Start and end of the window with the last pane `pane`, saturated.
    pub(crate) fn window(self, pane: i64) -> (i64, i64) {
        let first = pane - (self.panes_of_window() - 1);
        (self.range(first).0, self.range(pane).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_are_aligned_before_and_after_1970() {
        let windows = Windows::Tumbling { length_ns: 10 };
        assert_eq!([-11, -10, -1, 0, 9, 10].map(|time| windows.pane(time)), [-2, -1, -1, 0, 0, 1]);
        assert_eq!(windows.range(-1), (-10, 0));
        assert_eq!(windows.first_open(10), Some(1), "the pane from 0 to 10 is closed at 10");
        assert_eq!(Windows::None.first_open(10), None);
    }

    #[test]
    fn a_sliding_window_ends_with_its_pane() {
        let windows = Windows::Sliding { length_ns: 60, slide_ns: 10 };
        assert_eq!(windows.window(6), (10, 70));
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        for length_ns in [1_000, 3_333, i64::MAX.cast_unsigned()] {
            let windows = Windows::Tumbling { length_ns };
            for time in [i64::MIN, i64::MAX] {
                let (start, end) = windows.window(windows.pane(time));
                assert!(start <= time && time <= end, "{length_ns}: {start} {time} {end}");
            }
        }
    }
}
