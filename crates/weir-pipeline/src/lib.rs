//! Pipelines: typed operators over a stream of items.
//!
//! An [`Operator`] takes items and passes on others. A [`Pipeline`] is operators in succession: the compiler
//! makes one function of them, and no item is stored between two operators. A [`Graph`] has operators with
//! several inputs and consumers, added and connected one by one. Only a [`Queue`], where one is requested,
//! moves items to another thread.
//!
//! Between items, a [`Signal`] tells the time that the items have reached, the end of a window, and the end
//! of all items. This crate knows no packets, and reads no clock: time is an argument. What operators keep
//! has a bound, and [`Counts`] say what bounds cut off. [`bounded`] is the contract of all bounded queues
//! of Weir, of which [`Queue`] is one.
//!
//! | operator | does |
//! |---|---|
//! | [`Filter`], [`Map`], [`FlatMap`], [`Inspect`], [`Print`] | each item on its own |
//! | [`Window`] | divides items into windows of time |
//! | [`Reduce`] | one state for each key |
//! | [`Join`] | pairs of items of two inputs with the same key |
//! | [`FlowTable`] | a handler for the items of each flow, which ends when it is idle |
//! | [`Group`] | up to N items of a key together |
//! | [`Queue`] | the rest on another thread |
#![forbid(unsafe_code)]

pub mod bounded;
mod byte_table;
mod counts;
mod each;
mod flows;
mod graph;
mod group;
mod index;
mod join;
mod operator;
mod pipeline;
mod queue;
mod reduce;
mod signal;
mod table;
mod window;

pub use byte_table::ByteTable;
pub use counts::Counts;
pub use each::{Filter, FlatMap, Inspect, Map, Print};
pub use flows::{FLOWS_MAX, FlowEnd, FlowHandler, FlowTable, Keep};
pub use graph::{Graph, GraphError, Input, Output, RunningGraph, Stage};
pub use group::{GROUPED_MAX, Group, Grouped};
pub use index::RowIndex;
pub use join::{JOINED_MAX, Join};
pub use operator::{Each, Either, Fused, Operator, Pass, Port, Then};
pub use pipeline::{Longer, Pipeline, Running};
pub use queue::{Nowhere, Queue};
pub use reduce::{KEYS_MAX, Reduce, Reduced};
pub use signal::Signal;
pub use table::{FlatTable, RowNumber};
pub use window::{LengthError, Tumbling, WAITING_MAX, Window};
