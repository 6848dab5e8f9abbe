//! The caller's code that runs on workers, and the data that it takes: handlers of streams, packets,
//! sessions and connections, user-defined state, inspectors, tasks, and the workers' parts of pipelines.
//! [`QuestionWorker`](question_worker::QuestionWorker) is one of these for each question of a worker. A
//! panic there ends one call and not the run (`isolation`); `finished` has the handlers after the run.

pub(crate) mod bundle;
pub(crate) mod datum;
pub(crate) mod finished;
pub(crate) mod flow_inspector;
pub(crate) mod flow_task;
pub(crate) mod handler;
pub(crate) mod ip_header;
pub(crate) mod isolation;
pub(crate) mod question_worker;
pub(crate) mod stream_handler;
pub(crate) mod subscription;
pub(crate) mod track;
pub(crate) mod worker_pipeline;
