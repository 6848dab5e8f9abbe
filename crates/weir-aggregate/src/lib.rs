//! Aggregates: groups of records, functions over their values, and windows of time.
//!
//! `count(), sum(frame.len), distinct(ip.src) by ip.dst every 10s top 20`: a compiled program computes the
//! key and the inputs of each record as words of 64 bits. This crate knows no packets, reads no clock and
//! starts no threads: time is an argument.
//!
//! 1. A [`Plan`] is checked once.
//! 2. Each worker has an [`Aggregator`]: [`Aggregator::record`] adds a record to its group, and
//!    [`Aggregator::advance`] closes the panes before the capture time.
//! 3. The [`Merger`] takes the closed panes of all workers ([`Partial`]), and gives the rows of each closed
//!    [`Window`].
//!
//! The results are the same for any number of workers. Everything that grows has a [bound](Limits), and
//! [`Counters`] say what the bounds discarded.
//!
//! Where to look: [`Aggregator`] is the path of a record; `table` finds its group, `cells` says what the
//! group's state is, `state` changes and merges states, `finish` makes results of them.
#![forbid(unsafe_code)]

mod aggregator;
mod budget;
mod cells;
mod context;
mod distinct;
mod error;
mod finish;
mod fraction_sum;
mod having;
mod histogram;
mod measure;
mod merge;
mod operators;
mod pane;
mod plan;
mod quantile;
mod record;
mod registers;
mod scalar;
mod seed;
mod side;
mod state;
mod table;
mod texts;
mod windows;

pub use aggregator::{Aggregator, Partial};
pub use budget::Counters;
pub use error::PlanError;
pub use finish::{Mark, Measured, Row, Value, Window};
pub use having::{Comparison, Having};
pub use histogram::{Bucket, Buckets, HISTOGRAM_BOUNDS_MAX};
pub use measure::{Function, Input, Measure};
pub use merge::Merger;
pub use plan::{Limits, Plan, PlanParams, Top};
pub use quantile::QUANTILE_RELATIVE_ERROR;
pub use record::Record;
pub use scalar::{Kind, Scalar};
pub use seed::Seed;
pub use texts::Texts;
pub use windows::{PANES_OF_WINDOW_MAX, Windows};
