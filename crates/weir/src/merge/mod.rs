//! Brings the results of all workers into one order and delivers them: in the order of the capture
//! (`ordered`), or by time within a bounded delay (`timed`). Rows that describe the same thing then become
//! one row (`joined_rows`). The receiver is behind [`Changes`](changes::Changes).

pub(crate) mod announced_rows;
pub(crate) mod changes;
pub(crate) mod joined_rows;
pub(crate) mod ordered;
pub(crate) mod peak;
pub(crate) mod row_times;
pub(crate) mod summed_rows;
pub(crate) mod timed;
