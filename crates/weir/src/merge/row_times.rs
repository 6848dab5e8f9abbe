//! Times and durations of two rows that become one.

use crate::rows::session::TIME_AT;
use weir_packet::{Cell, Row};

/// The earlier one of two times, or else the first cell.
pub(crate) fn earlier(cells: [Cell<'_>; 2]) -> Cell<'_> {
    match cells {
        [Cell::Time(first), Cell::Time(second)] => Cell::Time(first.min(second)),
        [first, _] => first,
    }
}

/// The time between the beginnings of two rows, in nanoseconds.
pub(crate) fn apart_ns(first: Row<'_>, second: Row<'_>) -> u64 {
    match [first, second].map(|row| row.cell(TIME_AT)) {
        [Cell::Time(first), Cell::Time(second)] => first.0.abs_diff(second.0),
        _ => u64::MAX,
    }
}

/// The time from the first message of both rows to the last one.
pub(crate) fn whole_duration(halves: [Row<'_>; 2], column: usize) -> Cell<'static> {
    let spans = halves.map(|half| match [half.cell(TIME_AT), half.cell(column)] {
        [Cell::Time(ts), Cell::Interval(duration)] => Some((ts.0, ts.0.saturating_add_unsigned(duration))),
        _ => None,
    });
    let [Some(first), Some(second)] = spans else { return Cell::Absent };
    Cell::Interval(first.1.max(second.1).abs_diff(first.0.min(second.0)))
}
