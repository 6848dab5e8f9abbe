//! The results of a worker on their way to the caller: an [`Item`](item::Item) is what a question receives,
//! and [`Yields`](yields::Yields) is the queue of a worker, which keeps rows in batches.

pub(crate) mod item;
pub(crate) mod pipeline_part;
pub(crate) mod task_rows;
pub(crate) mod yielded;
pub(crate) mod yields;
