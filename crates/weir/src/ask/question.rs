//! A question for an engine.

use super::compile::Ask;
use super::packet_key::PacketKey;
use crate::flow::record::ColumnMask;
use crate::handlers::flow_inspector::{self, FlowInspector};
use crate::handlers::isolation::Isolation;
use crate::handlers::question_worker::{MakeQuestionWorker, QuestionWorker};
use crate::handlers::stream_handler::{StreamHandler, erased};
use crate::handlers::track::{Every, track_store};
use crate::rows::packet::{INFO, LAYERS};
use crate::rows::shape::Shape;
use std::fmt;
use std::sync::Arc;
use weir_compile::Need;
use weir_engine::plan::Want;
use weir_engine::question_losses::QuestionLosses;
use weir_engine::stream::{ChunkParams, StreamParams};
use weir_sessions::ProtocolSet;

/// A question: a filter, the data wanted of matching traffic, and the form in which the data is delivered.
#[derive(Clone)]
pub struct Question {
    pub(crate) ask: Ask,
    pub(crate) shape: Shape,
    /// Creates the handler of each worker, if the question has handlers.
    pub(crate) make: Option<MakeQuestionWorker>,
    pub(crate) losses: Arc<QuestionLosses>,
    /// The key of its packets.
    pub(crate) key: Option<Arc<PacketKey>>,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("ask", &self.ask).field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl Question {
    /// A question whose items are delivered in this shape.
    pub fn new(ask: Ask, shape: Shape) -> Self {
        Self { ask, shape, make: None, losses: Arc::default(), key: None }
    }

    /// Computes only these columns of rows. Layers and texts of packets that are not shown are not written by
    /// the program, either.
    pub fn show_columns(&mut self, columns: ColumnMask) {
        self.shape.columns = columns;
        let need = &mut self.ask.need;
        if self.ask.want == Want::Packets && self.shape.as_rows && need.lines {
            need.lines = columns.contains(INFO);
            need.path |= columns.contains(LAYERS);
        }
    }

    /// Asks for this instead.
    pub fn set_want(&mut self, want: Want) {
        self.ask.want = want;
    }

    /// A question about the streams of flows of which at least one packet matches `filter`. `make` creates
    /// the handler of each worker; the rows that handlers emit are the items of the question.
    pub fn of_streams<H: StreamHandler>(
        filter: &str,
        params: StreamParams,
        make: impl Fn() -> H + Send + Sync + 'static,
    ) -> Self {
        Self::of_isolated_streams(filter, params, make, None)
    }

    /// As [`of_streams`](Self::of_streams); `isolation` catches panics of the handlers.
    pub(crate) fn of_isolated_streams<H: StreamHandler>(
        filter: &str,
        params: StreamParams,
        make: impl Fn() -> H + Send + Sync + 'static,
        isolation: Option<Isolation>,
    ) -> Self {
        let params = StreamParams { chunk: params.chunk.map(ChunkParams::sane), ..params };
        let need = Need { connections: H::RECORD, ..Need::default() };
        let ask = Ask { filter: filter.to_string(), need, want: Want::Streams(params) };
        let make: MakeQuestionWorker =
            Arc::new(move || QuestionWorker::Stream(erased(make(), isolation.clone())));
        Self { make: Some(make), ..Self::new(ask, Shape::default()) }
    }

    /// A question about the records of connections, also of those that go on: `every` says how often. Its
    /// items are [`Item::Tracked`](crate::Item::Tracked) with the state `()`. The records name the
    /// application protocol.
    pub fn of_records(filter: &str, every: Every) -> Self {
        // The state `()` has no code that could panic.
        let isolation = Isolation::default();
        let store = move || track_store::<()>(every, isolation.clone());
        let make: MakeQuestionWorker = Arc::new(move || QuestionWorker::Track(store()));
        let whole = Self::whole(filter, Want::Tracked(ProtocolSet::EMPTY));
        let need = Need { service: true, ..Need::default() };
        Self { ask: Ask { need, ..whole.ask }, make: Some(make), ..whole }
    }

    /// A question about the rows of connections, to which inspectors add columns. `make` makes the inspector
    /// of each worker.
    pub fn of_inspected_flows<I: FlowInspector>(
        filter: &str,
        make: impl Fn() -> I + Send + Sync + 'static,
    ) -> Self {
        let need = Need { service: true, ..Need::default() };
        let ask = Ask { filter: filter.to_string(), need, want: Want::Tracked(ProtocolSet::EMPTY) };
        let make: MakeQuestionWorker =
            Arc::new(move || QuestionWorker::Inspector(flow_inspector::erased(make())));
        Self { make: Some(make), ..Self::new(ask, Shape { as_rows: true, ..Shape::default() }) }
    }

    /// What the question loses in the engine, from now on and while it runs. Clones of a question share its
    /// counters.
    pub fn losses(&self) -> Arc<QuestionLosses> {
        Arc::clone(&self.losses)
    }

    /// The filter.
    pub fn filter(&self) -> &str {
        &self.ask.filter
    }

    /// The question of a removed subscription: it keeps a number in the program, and asks for nothing.
    pub(crate) fn nothing() -> Self {
        Self::whole("", Want::Nothing)
    }

    /// A question whose sessions are delivered as objects, not as rows.
    pub(crate) fn whole(filter: &str, want: Want) -> Self {
        let ask = Ask { filter: filter.to_string(), need: Need::default(), want };
        Self::new(ask, Shape { whole: true, ..Shape::default() })
    }

    /// The priority of its streams; 0 for other questions.
    pub(crate) fn priority(&self) -> u8 {
        match self.ask.want {
            Want::Streams(params) => params.priority,
            _ => 0,
        }
    }
}
