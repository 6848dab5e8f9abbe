//! The parts that each worker is built from, and the results of a worker at the end of a run.

use super::output::{Collector, Presenter};
use super::row_limit::RowLimit;
use crate::ask::compile::Compiled;
use crate::ask::packet_key::PlacedKey;
use crate::flow::places::Places;
use crate::handlers::question_worker::{MakeQuestionWorker, QuestionWorker};
use crate::items::yields::Yields;
use crate::outcome::Outcome;
use crate::rows::events::EventRows;
use crate::rows::row_maker::RowMakers;
use crate::rows::shape::Shape;
use std::sync::Arc;
use weir_compile::PacketValue;
use weir_engine::plan::Want;
use weir_engine::stage::{Stage, Stages};
use weir_engine::worker::Worker;
use weir_ir::abi::Program;
use weir_packet::{Burst, Poll, Source, SourceError};
use weir_sessions::ProtocolSet;

/// The parts that each worker is built from.
pub(crate) struct WorkerParts {
    pub presenter: Arc<Presenter>,
    places: Arc<Vec<Places>>,
    program: Arc<dyn Program>,
    make_workers: Vec<Option<MakeQuestionWorker>>,
    /// The values of packets in the packet's record.
    values: Vec<PacketValue>,
}

impl WorkerParts {
    pub fn of(compiled: &Compiled, shapes: &[Shape]) -> Self {
        let mut shapes = shapes.to_vec();
        shapes.resize(compiled.questions.len(), Shape::default());
        let stack = &compiled.stack;
        let registry = &compiled.plan.sessions;
        let asked = compiled.plan.questions.iter().zip(&shapes);
        let sessions = asked
            .map(|(question, shape)| match question.want {
                Want::Sessions(protocols) => shape.rows.unwrap_or(protocols),
                _ => ProtocolSet::EMPTY,
            })
            .collect();
        let presenter = Presenter {
            shapes,
            stack: stack.clone(),
            outs: compiled.outs.clone(),
            events: compiled.events.iter().map(|&asked| EventRows::of_set(stack, asked)).collect(),
            sessions,
            has_packets: compiled
                .plan
                .questions
                .iter()
                .map(|question| question.want == Want::Packets)
                .collect(),
            is_asked: compiled.plan.questions.iter().map(|question| question.want != Want::Nothing).collect(),
            registry: Arc::clone(registry),
            makers: RowMakers::of(registry),
            keys: compiled
                .keys
                .iter()
                .map(|key| Some(PlacedKey::of(key.as_deref()?, &compiled.values)))
                .collect(),
            losses: compiled.plan.questions.iter().map(|question| Arc::clone(&question.losses)).collect(),
        };
        Self {
            presenter: Arc::new(presenter),
            places: Arc::clone(&compiled.places),
            program: Arc::clone(&compiled.plan.program),
            make_workers: compiled.make_workers.clone(),
            values: compiled.values.clone(),
        }
    }

    /// The subscriber of a new worker.
    pub fn collector(&self) -> Collector {
        let mut collector = Collector {
            presenter: Arc::clone(&self.presenter),
            places: Arc::clone(&self.places),
            program: Arc::clone(&self.program),
            yielded: Yields::default(),
            matched: vec![],
            question_workers: vec![],
            limit: RowLimit::default(),
            last_row: None,
            has_conditions: false,
        };
        self.change(&mut collector);
        collector
    }

    /// Before questions change: the pipelines of those that go end.
    pub fn end_pipelines(&self, collector: &mut Collector) {
        collector.end_pipelines(&self.make_workers);
    }

    /// Changes a worker's subscriber to other questions; questions that stay keep their state.
    pub fn change(&self, collector: &mut Collector) {
        self.presenter.carry_over(&collector.presenter, &mut collector.matched);
        self.presenter.new_since(&collector.presenter).for_each(|question| collector.limit.begin(question));
        collector.presenter = Arc::clone(&self.presenter);
        collector.places = Arc::clone(&self.places);
        collector.program = Arc::clone(&self.program);
        collector.question_workers.resize_with(self.make_workers.len(), || QuestionWorker::None);
        for (worker, make) in collector.question_workers.iter_mut().zip(&self.make_workers) {
            match (&*worker, make) {
                (QuestionWorker::None, Some(make)) => *worker = make(),
                // The state of a removed question is dropped.
                (_, None) => *worker = QuestionWorker::None,
                _ => {}
            }
            match worker {
                QuestionWorker::Pipeline(pipeline) => pipeline.find(&self.values),
                QuestionWorker::Flows(flows) => flows.find(&self.values),
                _ => {}
            }
        }
        collector.has_conditions = collector.question_workers.iter().any(
            |worker| matches!(worker, QuestionWorker::Flows(flows) if !flows.conditions.of_connections.is_empty()),
        );
    }
}

pub(crate) fn read(
    source: &mut dyn Source,
    burst: &mut Burst,
    stages: &mut Stages,
) -> Result<Poll, SourceError> {
    let began = stages.begin();
    let polled = source.poll(burst);
    // A source that is idle has waited, and read nothing.
    if !matches!(polled, Ok(Poll::Idle { .. })) {
        stages.end(Stage::Read, burst.packets.len(), began);
    }
    polled
}

pub(crate) fn gather(outcome: &mut Outcome, worker: Worker<Collector>) {
    let counters = worker.counters();
    outcome.counters.merge(&counters);
    outcome.stages.merge(worker.stages());
    outcome.memory.merge(&worker.memory_peak());
    let collector = worker.into_subscriber();
    outcome.add_matched(&collector.matched);
    outcome.handlers.add(collector.question_workers);
}
