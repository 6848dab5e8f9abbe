//! The question behind a pipeline.

use crate::ask::compile::Ask;
use crate::ask::question::Question;
use crate::handlers::question_worker::QuestionWorker;
use crate::handlers::worker_pipeline::WorkerPipeline;
use crate::rows::shape::Shape;
use crate::rows::values::{Part, value_list};
use std::sync::Arc;
use weir_compile::Need;
use weir_engine::plan::Want;

/// The question for values of the packets that match a filter; `make` makes the pipeline of each worker.
///
/// # Errors
/// If the values are more than a program has room for.
pub(crate) fn packet_question<'p>(
    filter: &str,
    parts: impl IntoIterator<Item = &'p Part>,
    make: impl Fn() -> Box<dyn WorkerPipeline> + Send + Sync + 'static,
) -> Result<Question, String> {
    let values = value_list(parts)?;
    let need = Need { packets: true, at_once: true, values, ..Need::default() };
    let ask = Ask { filter: filter.to_string(), need, want: Want::Packets };
    let make = move || QuestionWorker::Pipeline(make());
    Ok(Question { make: Some(Arc::new(make)), ..Question::new(ask, Shape::default()) })
}
