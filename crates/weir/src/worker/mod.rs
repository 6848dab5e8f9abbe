//! What a worker does: it runs the engine over its packets, passes the results to the handlers of the
//! questions, and collects all others in their order (`output`). A worker polls a source itself
//! (`worker_loop`), or takes batches that another thread read (`batch_worker`, `work_queues`).

pub(crate) mod batch_worker;
pub(crate) mod output;
pub(crate) mod parts;
pub(crate) mod row_limit;
pub(crate) mod work_queues;
pub(crate) mod worker_loop;
