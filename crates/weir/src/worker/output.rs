//! Collects the results of a worker: items in the form that questions want, each with its [`Order`].

use super::row_limit::{Payer, RowLimit};
use crate::ask::packet_key::PlacedKey;
use crate::flow::connection::Connection;
use crate::flow::places::Places;
use crate::flow::record::Record;
use crate::handlers::flow_task::FlowWorker;
use crate::handlers::handler::ErasedHandler;
use crate::handlers::question_worker::{MakeQuestionWorker, QuestionWorker};
use crate::handlers::stream_handler::{ErasedStreamHandler, Stream};
use crate::items::item::{Flow, Item};
use crate::items::yielded::{HeldPacket, KeptPacket, Yielded};
use crate::items::yields::{RowPlace, Yields};
use crate::rows::events::EventRows;
use crate::rows::format_packet::Path;
use crate::rows::odd::{self, OddRow};
use crate::rows::packet::{FRAME, PACKET_COLUMNS, PacketRows};
use crate::rows::row_maker::{RowMaker, RowMakers};
use crate::rows::session;
use crate::rows::shape::{Notes, Shape};
use crate::rows::tunnel::{self, TunnelRow};
use std::borrow::Cow;
use std::sync::Arc;
use weir_compile::OutValue;
use weir_engine::FlowRef;
use weir_engine::flow::{EndReason, FlowView};
use weir_engine::oddities::{OddKind, Oddity};
use weir_engine::question_losses::QuestionLosses;
use weir_engine::stream::{Chunk, StreamHandle, StreamSubscriber};
use weir_engine::subscriber::{
    EventView, Order, PacketVerdict, Report, SeenPacket, SeenSession, Subscriber, TrackedPacket, Undecided,
    VerdictUpdate,
};
use weir_ir::abi::Program;
use weir_lang::model::Stack;
use weir_packet::{Batch, PacketMeta, RowWriter};
use weir_sessions::{ProtocolSet, Session, SessionRegistry};

/// Makes items of packets, in the questions' shapes.
#[derive(Debug)]
pub struct Presenter {
    pub shapes: Vec<Shape>,
    pub stack: Stack,
    pub outs: Vec<OutValue>,
    /// For each question: its events; empty for other questions.
    pub events: Vec<EventRows>,
    /// For each question: protocols whose sessions have rows.
    pub sessions: Vec<ProtocolSet>,
    /// Whether each question asks for anything: a removed one keeps its number for a while.
    pub is_asked: Vec<bool>,
    /// Whether each question receives packets.
    pub has_packets: Vec<bool>,
    /// The registry of the protocols' numbers.
    pub registry: Arc<SessionRegistry>,
    /// What makes the rows of its logs.
    pub(crate) makers: RowMakers,
    /// For each question: the key of its packets.
    pub keys: Vec<Option<PlacedKey>>,
    /// For each question: what the question loses.
    pub losses: Vec<Arc<QuestionLosses>>,
}

impl Presenter {
    /// Carries the counts of questions over from `before`: a question that takes the number of a removed one
    /// begins at 0.
    pub fn carry_over(&self, before: &Presenter, matched: &mut Vec<u64>) {
        matched.resize(self.is_asked.len(), 0);
        self.new_since(before).for_each(|question| matched[question] = 0);
    }

    /// The questions that are asked now, and were not before.
    pub fn new_since(&self, before: &Presenter) -> impl Iterator<Item = usize> {
        let was_asked = |question: usize| before.is_asked.get(question).copied().unwrap_or(false);
        (0..self.is_asked.len()).filter(move |question| self.is_asked[*question] && !was_asked(*question))
    }

    /// The item of a packet; `None` if packets are only counted.
    fn packet(&self, question: usize, packet: &SeenPacket<'_>) -> Option<Item<'static>> {
        self.item(question, packet.meta, || packet.frame(), packet.extra.annotations, packet.outs)
    }

    /// The item of a packet that was kept.
    pub fn kept(&self, question: usize, kept: &KeptPacket) -> Option<Item<'static>> {
        self.item(question, &kept.meta, || Cow::Borrowed(&kept.frame), &kept.options, &kept.outs)
    }

    fn item<'a>(
        &self,
        question: usize,
        meta: &PacketMeta,
        frame: impl FnOnce() -> Cow<'a, [u8]>,
        options: &[u8],
        outs: &[u64],
    ) -> Option<Item<'static>> {
        let shape = self.shapes[question];
        if shape.count_only {
            return None;
        }
        let frame = if shape.frames { frame() } else { Cow::Borrowed(&[][..]) };
        Some(Item::Packet {
            meta: if shape.frames { with_frame(meta, &frame) } else { *meta },
            frame: frame.into_owned(),
            options: if shape.options { options.to_vec() } else { vec![] },
            path: Path::of_record(outs),
            key: self.keys.get(question).and_then(Option::as_ref).map_or(0, |key| key.number(outs)),
        })
    }

    /// Whether a question receives packets as rows.
    pub fn has_packet_rows(&self, question: usize) -> bool {
        self.has_packets[question] && self.shapes[question].as_rows
    }

    /// Writes the row of a packet that was kept.
    pub fn kept_row(&self, question: usize, kept: &KeptPacket, row: &mut RowWriter<'_>) {
        self.write_row(question, &kept.meta, || Cow::Borrowed(&kept.frame), &kept.outs, row);
    }

    fn write_row<'a>(
        &self,
        question: usize,
        meta: &PacketMeta,
        frame: impl FnOnce() -> Cow<'a, [u8]>,
        outs: &[u64],
        row: &mut RowWriter<'_>,
    ) {
        let shown = self.shapes[question].columns;
        let rows = PacketRows { stack: &self.stack, outs: &self.outs, shown };
        if !shown.contains(FRAME) {
            return rows.write(meta, &[], outs, row);
        }
        let frame = frame();
        rows.write(&with_frame(meta, &frame), &frame, outs, row);
    }

    /// Whether packets of a question have their bytes.
    fn has_frames(&self, question: usize) -> bool {
        let shape = self.shapes[question];
        let in_rows = shape.as_rows && shape.columns.contains(FRAME);
        !shape.count_only && (shape.frames || in_rows && self.has_packets[question])
    }

    /// Copies the parts of a packet that its possible questions need.
    fn keep(&self, packet: &Undecided<'_>) -> KeptPacket {
        let seen = &packet.packet;
        let shapes = || self.shapes.iter().enumerate().filter(|(q, _)| packet.possible.contains(*q));
        let frames = shapes().any(|(question, _)| self.has_frames(question));
        let options = shapes().any(|(_, s)| s.options && !s.count_only);
        let outs = shapes().any(|(_, s)| !s.count_only);
        KeptPacket {
            meta: *seen.meta,
            otherwise: packet.otherwise,
            frame: if frames { seen.frame().into() } else { Box::default() },
            options: if options { seen.extra.annotations.into() } else { Box::default() },
            outs: if outs { seen.outs.into() } else { Box::default() },
        }
    }
}

/// The descriptor of a packet with the frame `frame`, including a VLAN tag that was restored.
fn with_frame(meta: &PacketMeta, frame: &[u8]) -> PacketMeta {
    let added = (frame.len() as u32).saturating_sub(meta.captured_bytes);
    let (captured_bytes, wire_bytes) = (meta.captured_bytes + added, meta.wire_bytes.saturating_add(added));
    PacketMeta { captured_bytes, wire_bytes, ..*meta }
}

/// The subscriber of a worker.
pub struct Collector {
    pub presenter: Arc<Presenter>,
    /// For each table: places of a record's numbers.
    pub places: Arc<Vec<Places>>,
    /// The current program.
    pub program: Arc<dyn Program>,
    /// Results since they were last taken.
    pub yielded: Yields,
    /// Number of items delivered to each question, without waiting packets.
    pub matched: Vec<u64>,
    /// For each question: what the worker itself does with its results.
    pub question_workers: Vec<QuestionWorker>,
    /// What rows of sessions may be added.
    pub limit: RowLimit,
    /// The last session with a row, and the question that has the row.
    pub last_row: Option<(Arc<dyn Session>, usize)>,
    /// Tasks have conditions on the connection of each packet.
    pub has_conditions: bool,
}

impl Collector {
    fn is_counted(&mut self, question: usize) -> bool {
        self.matched[question] += 1;
        self.presenter.shapes[question].count_only
    }

    /// The first question of those that share a worker with this one.
    fn first_of(&self, question: usize) -> usize {
        match self.question_workers.get(question) {
            Some(QuestionWorker::Behind(questions)) => question - questions,
            _ => question,
        }
    }

    /// The handler of a question, if it has one.
    fn handler(&mut self, question: usize) -> Option<&mut dyn ErasedHandler> {
        let behind = match self.question_workers.get(question)? {
            QuestionWorker::Behind(questions) => *questions,
            _ => 0,
        };
        match self.question_workers.get_mut(question - behind)? {
            QuestionWorker::Handler(handler) => Some(&mut **handler),
            _ => None,
        }
    }

    /// The task of a question, if it has one.
    fn task(workers: &mut [QuestionWorker], question: usize) -> Option<&mut FlowWorker> {
        let behind = match workers.get(question)? {
            QuestionWorker::Behind(questions) => *questions,
            _ => 0,
        };
        match workers.get_mut(question - behind)? {
            QuestionWorker::Flows(task) => Some(task),
            _ => None,
        }
    }

    /// Gives a packet to the pipeline or the task of a question, if the question has one.
    fn pipe(&mut self, order: Order, question: usize, packet: &SeenPacket<'_>) -> bool {
        let Some(QuestionWorker::Pipeline(pipeline)) = self.question_workers.get_mut(question) else {
            // The rows of a task are those of its first question.
            let place = RowPlace::of(order, self.first_of(question));
            let Some(task) = Self::task(&mut self.question_workers, question) else { return false };
            task.loose_packet(question - place.question, place, packet, &mut self.yielded);
            return true;
        };
        pipeline.packet(RowPlace::of(order, question), packet, &mut self.yielded);
        true
    }

    /// Ends the pipelines of questions that are not among the next ones, whose workers `make` makes. Called
    /// before questions change, while the caller still takes results for the previous ones.
    pub fn end_pipelines(&mut self, make: &[Option<MakeQuestionWorker>]) {
        self.limit.pass_time(Order::default(), i64::MAX, &mut self.yielded);
        for question in 0..self.question_workers.len() {
            if make.get(question).is_none_or(Option::is_none) {
                self.pass_time_of(Order::default(), question, i64::MAX);
            }
        }
    }

    /// The time of the pipeline of a question; `i64::MAX` at its end.
    fn pass_time_of(&mut self, order: Order, question: usize, now: i64) {
        if let Some(QuestionWorker::Pipeline(pipeline)) = self.question_workers.get_mut(question) {
            pipeline.pass_time(RowPlace::of(order, question), now, &mut self.yielded);
        }
    }

    /// Adds the row of a session, which `write` writes, unless its connection has had too many. Returns
    /// whether the row is the last result.
    fn limited_row(
        &mut self,
        place: RowPlace,
        flow: &FlowView<'_>,
        maker: &RowMaker,
        session: &dyn Session,
        write: impl FnOnce(&mut Yields, bool),
    ) -> bool {
        let Self { presenter, limit, yielded, .. } = self;
        let shown = presenter.shapes[place.question].columns;
        let payer = flow.rows.filter(|_| !presenter.shapes[place.question].all_rows).map(|account| Payer {
            flow: flow.flow_ref(),
            account,
            now: flow.last_time().0,
        });
        let losses = &presenter.losses[place.question];
        if !payer.is_none_or(|payer| limit.admits(place, payer, session, losses, yielded)) {
            return false;
        }
        // A released row may be the last one of any question.
        let is_undisturbed = !limit.take_released();
        write(yielded, is_undisturbed);
        let stays =
            payer.is_none_or(|payer| limit.settle(place, payer, (maker, shown), session, losses, yielded));
        if limit.take_released() || !is_undisturbed {
            self.last_row = None;
        }
        stays
    }

    /// Adds the row of a session. `same_as`: another question whose last row is of this session; that row is
    /// copied. Returns whether the row is the last result.
    fn session_row(
        &mut self,
        place: RowPlace,
        same_as: Option<usize>,
        flow: &FlowView<'_>,
        session: &dyn Session,
    ) -> bool {
        let presenter = Arc::clone(&self.presenter);
        let (shape, registry) = (&presenter.shapes[place.question], &presenter.registry);
        let maker = presenter.makers.of_sessions(registry, place.protocol, shape.carrier);
        let columns = maker.columns();
        self.limited_row(place, flow, maker, session, |yields, is_undisturbed| {
            if same_as.filter(|_| is_undisturbed).is_some_and(|from| yields.add_row_of(place, from, columns))
            {
                return;
            }
            let origin = session::Origin::of(flow, place.protocol, session);
            let mut row = yields.add_row(place, columns);
            maker.write(shape.columns, &origin, session, &mut row);
        })
    }

    /// Adds the rows of what is odd about a connection that has ended.
    fn odd_rows(&mut self, place: RowPlace, flow: &FlowView<'_>) {
        let limited = flow.rows.map_or(0, |rows| rows.limited());
        let limited = (limited > 0).then(|| Oddity {
            kind: OddKind::RowsLimited,
            count: u64::from(limited),
            first: flow.first_time(),
        });
        let notes = flow.odd.iter().copied().chain(limited).map(OddRow);
        self.noted_rows(place, flow, &odd::ROWS, notes);
    }

    /// Adds the rows of the tunnels that a connection that has ended was.
    fn tunnel_rows(&mut self, place: RowPlace, flow: &FlowView<'_>) {
        let names = self.places[flow.table.index()].tunnels.clone();
        let notes = flow.tunnels.iter().flat_map(|tunnel| TunnelRow::both(&names, tunnel, flow.last_time()));
        self.noted_rows(place, flow, &tunnel::ROWS, notes);
    }

    /// Adds the rows of what was noted about a connection that has ended.
    fn noted_rows<N: Session>(
        &mut self,
        place: RowPlace,
        flow: &FlowView<'_>,
        maker: &RowMaker,
        notes: impl Iterator<Item = N>,
    ) {
        for note in notes {
            if self.is_counted(place.question) {
                continue;
            }
            let columns = self.presenter.shapes[place.question].columns;
            self.limited_row(place, flow, maker, &note, |yields, _| {
                let origin = session::Origin::of(flow, 0, &note);
                let mut row = yields.add_row(place, maker.columns());
                maker.write(columns, &origin, &note, &mut row);
            });
        }
    }

    /// Discards what the inspector of a question keeps of a connection.
    fn forget(&mut self, question: usize, flow: FlowRef) {
        if let Some(QuestionWorker::Inspector(inspector)) = self.question_workers.get_mut(question) {
            inspector.forget(flow);
        }
    }

    fn push(&mut self, order: Order, question: usize, item: Item<'static>) {
        self.yielded.push(order, Yielded::Item(question, item));
    }
}

impl Subscriber for Collector {
    fn packet(&mut self, order: Order, question: usize, packet: &SeenPacket<'_>) {
        self.matched[question] += 1;
        if self.pipe(order, question, packet) {
            return;
        }
        if let Some(handler) = self.handler(question) {
            let frame = packet.frame();
            return handler.packet(&with_frame(packet.meta, &frame), &frame);
        }
        if self.presenter.has_packet_rows(question) && !self.presenter.shapes[question].count_only {
            let mut row = self.yielded.add_row(RowPlace::of(order, question), PACKET_COLUMNS.len());
            self.presenter.write_row(question, packet.meta, || packet.frame(), packet.outs, &mut row);
        } else if let Some(item) = self.presenter.packet(question, packet) {
            self.push(order, question, item);
        }
    }

    fn only_counts_packets(&self, question: usize) -> bool {
        let has_worker = !matches!(self.question_workers.get(question), None | Some(QuestionWorker::None));
        !has_worker && self.presenter.shapes.get(question).is_some_and(|shape| shape.count_only)
    }

    fn packets(&mut self, question: usize, count: u64) {
        self.matched[question] += count;
    }

    fn pass_time(&mut self, order: Order, now: i64) {
        (0..self.question_workers.len()).for_each(|question| self.pass_time_of(order, question, now));
        self.limit.pass_time(order, now, &mut self.yielded);
    }

    fn pass_bytes(&mut self, wire_bytes: u64) {
        self.limit.earn(wire_bytes);
    }

    fn step_clock(&mut self, step_ns: i64) {
        self.limit.step_clock(step_ns);
        for worker in &mut self.question_workers {
            if let QuestionWorker::Pipeline(pipeline) = worker {
                pipeline.step_clock(step_ns);
            }
        }
    }

    fn undecided(&mut self, order: Order, packet: &Undecided<'_>) {
        let seen = &packet.packet;
        for question in &*packet.verdict.settled() {
            // Handlers and pipelines receive packets as they arrive.
            if self.pipe(order, question, seen) {
                continue;
            }
            if let Some(handler) = self.handler(question) {
                let frame = seen.frame();
                handler.packet(&with_frame(seen.meta, &frame), &frame);
            }
        }
        let verdict = packet.verdict.clone();
        let held = HeldPacket { verdict, packet: self.presenter.keep(packet) };
        self.yielded.push(order, Yielded::Held(Box::new(held)));
    }

    fn settled(&mut self, order: Order, settled: VerdictUpdate) {
        self.yielded.push(order, Yielded::VerdictUpdate(settled));
    }

    fn datagram(&mut self, order: Order, datagram: FlowRef, verdict: Option<&PacketVerdict>) {
        let verdict = verdict.cloned().map(Box::new);
        self.yielded.push(order, Yielded::Datagram(datagram, verdict));
    }

    fn connection(&mut self, order: Order, question: usize, flow: &FlowView<'_>, _reason: EndReason) {
        let is_behind = matches!(self.question_workers.get(question), Some(QuestionWorker::Behind(_)));
        if is_behind && Self::task(&mut self.question_workers, question).is_some() {
            // A condition of a task: each packet has said whether it holds.
            return;
        }
        let state = match self.question_workers.get_mut(question) {
            Some(QuestionWorker::Track(store)) => Some(store.end(flow.flow_ref())),
            Some(QuestionWorker::Flows(task)) => {
                self.matched[question] += 1;
                return task.end(RowPlace::of(order, question), flow, &mut self.yielded);
            }
            _ => None,
        };
        let shape = self.presenter.shapes[question];
        match shape.notes {
            Some(Notes::Odd { .. }) => return self.odd_rows(RowPlace::of(order, question), flow),
            Some(Notes::Tunnels) => return self.tunnel_rows(RowPlace::of(order, question), flow),
            None => {}
        }
        if self.is_counted(question) {
            return self.forget(question, flow.flow_ref());
        }
        if shape.as_rows && state.is_none() {
            let places = &self.places[flow.table.index()];
            let inspector = match self.question_workers.get_mut(question) {
                Some(QuestionWorker::Inspector(inspector)) => Some(inspector),
                _ => None,
            };
            let columns = places.columns() + inspector.as_ref().map_or(0, |inspector| inspector.columns());
            let mut row = self.yielded.add_row(RowPlace::of(order, question), columns);
            Record::of(flow, places).write(shape.columns, &mut row);
            if let Some(inspector) = inspector {
                inspector.end(flow.flow_ref(), &mut row);
            }
            return;
        }
        let connection = Connection::read(flow, &self.places[flow.table.index()]);
        if let Some(handler) = self.handler(question) {
            return handler.connection(&connection);
        }
        match (state, self.question_workers.get_mut(question)) {
            (None, _) => self.push(order, question, Item::Connection(Box::new(connection))),
            // A connection without a tracked packet began before the question was added.
            (Some(None), _) => {}
            (Some(Some(state)), _) => {
                let connection = Box::new(connection);
                self.push(order, question, Item::Tracked { connection, state, is_over: true });
            }
        }
    }

    fn tracked_packet(&mut self, order: Order, question: usize, packet: &TrackedPacket<'_>) {
        let store = match self.question_workers.get_mut(question) {
            Some(QuestionWorker::Inspector(inspector)) => return inspector.packet(packet),
            _ if packet.is_outer => return,
            Some(QuestionWorker::Track(store)) => store,
            Some(QuestionWorker::Flows(task)) => {
                return task.packet(question, RowPlace::of(order, question), packet, &mut self.yielded);
            }
            _ => return,
        };
        if let Some(state) = store.packet(packet) {
            let places = &self.places[packet.flow.table.index()];
            let connection = Box::new(Connection::read(&packet.flow, places));
            self.push(order, question, Item::Tracked { connection, state, is_over: false });
        }
    }

    fn asks_what_matches(&self) -> bool {
        self.has_conditions
    }

    fn next_report(&mut self, now: i64) -> Option<Report> {
        let workers = self.question_workers.iter_mut().enumerate();
        let due = workers.filter_map(|(question, worker)| match worker {
            QuestionWorker::Track(store) => {
                store.first_report(now).map(|(packet, flow)| Report { packet, question, flow })
            }
            _ => None,
        });
        let first = due.min()?;
        if let Some(QuestionWorker::Track(store)) = self.question_workers.get_mut(first.question) {
            store.begin_report(first.flow);
        }
        Some(first)
    }

    fn report(&mut self, order: Order, question: usize, flow: &FlowView<'_>) {
        let Some(QuestionWorker::Track(store)) = self.question_workers.get_mut(question) else { return };
        if let Some(state) = store.report(flow.flow_ref()) {
            let connection = Box::new(Connection::read(flow, &self.places[flow.table.index()]));
            self.push(order, question, Item::Tracked { connection, state, is_over: false });
        }
    }

    fn release_session(&mut self) {
        self.last_row = None;
    }

    fn tracked_session(
        &mut self,
        _order: Order,
        question: usize,
        flow: &FlowView<'_>,
        session: &SeenSession<'_>,
    ) {
        match self.question_workers.get_mut(question) {
            Some(QuestionWorker::Track(_)) if session.session.is_early() => {}
            Some(QuestionWorker::Track(store)) => store.session(flow.flow_ref(), &**session.session),
            Some(QuestionWorker::Flows(task)) => task.session(flow, session),
            _ => {}
        }
    }

    fn recognised(&mut self, question: usize, flow: &FlowView<'_>, protocol: Option<usize>) {
        if let Some(QuestionWorker::Flows(task)) = self.question_workers.get_mut(question) {
            task.recognised(flow, protocol);
        }
    }

    fn untracked(&mut self, question: usize, flow: FlowRef) {
        match self.question_workers.get_mut(question) {
            Some(QuestionWorker::Track(store)) => {
                store.end(flow);
            }
            Some(QuestionWorker::Flows(task)) => task.forget(flow),
            _ => {}
        }
        self.forget(question, flow);
    }

    fn session(&mut self, order: Order, question: usize, flow: &FlowView<'_>, seen: &SeenSession<'_>) {
        let &SeenSession { protocol, session, packet } = seen;
        let place = RowPlace { order, question, protocol, packet };
        let presenter = Arc::clone(&self.presenter);
        let (shape, registry) = (presenter.shapes[question], &presenter.registry);
        if let Some(log) = shape.parts {
            let Some(maker) = presenter.makers.of_parts(registry, log, shape.carrier) else { return };
            for (origin, part) in session::parts(flow, (registry, protocol), &**session, log) {
                if self.is_counted(question) {
                    continue;
                }
                if shape.whole {
                    let mut row = Batch::new(maker.columns());
                    maker.write(shape.columns, &origin, &*part, &mut row.add());
                    self.push(order, question, Item::Part(protocol, row, part));
                } else {
                    self.limited_row(place, flow, maker, &*part, |yields, _| {
                        let mut row = yields.add_row(place, maker.columns());
                        maker.write(shape.columns, &origin, &*part, &mut row);
                    });
                }
            }
            return;
        }
        if shape.whole || self.handler(question).is_some() {
            if self.is_counted(question) {
                return;
            }
            if let Some(handler) = self.handler(question) {
                handler.session(&Flow::of(flow), &**session);
            } else {
                let flow = Box::new(Flow::of(flow));
                self.push(order, question, Item::Whole(flow, Arc::clone(session)));
            }
            return;
        }
        let rows = presenter.sessions[question];
        if rows.contains(protocol) && session.has_row() && !self.is_counted(question) {
            // Several questions may receive the same row in succession, and fingerprints and certificates are
            // costly.
            let has_same_columns = |from: usize| presenter.shapes[from].columns == shape.columns;
            let same = self.last_row.take();
            let same = same.filter(|(of, from)| Arc::ptr_eq(of, session) && has_same_columns(*from));
            let is_last = self.session_row(place, same.map(|(_, from)| from), flow, &**session);
            self.last_row = is_last.then(|| (Arc::clone(session), question));
        }
        for (within, session) in session::within(registry, protocol, rows, &**session) {
            if !self.is_counted(question) {
                self.session_row(RowPlace { protocol: within, ..place }, None, flow, &*session);
            }
        }
    }

    fn odd(&mut self, order: Order, odd: &[Oddity]) {
        let presenter = Arc::clone(&self.presenter);
        let asked = presenter.shapes.iter().enumerate();
        for (question, shape) in asked.filter(|(_, shape)| shape.notes == Some(Notes::Odd { others: true })) {
            for odd in odd {
                if !self.is_counted(question) {
                    let maker = &odd::ROWS;
                    let mut row = self.yielded.add_row(RowPlace::of(order, question), maker.columns());
                    maker.write_alone(shape.columns, &OddRow(*odd), &mut row);
                }
            }
        }
    }

    fn event(&mut self, order: Order, question: usize, event: &EventView<'_>) {
        let presenter = Arc::clone(&self.presenter);
        let rows = &presenter.events[question];
        if !rows.is_wanted(event) {
            return;
        }
        if let Some(QuestionWorker::Behind(behind)) = self.question_workers.get(question) {
            let behind = *behind;
            if let Some(task) = Self::task(&mut self.question_workers, question) {
                task.event(behind, event);
            }
        } else if !self.is_counted(question) {
            let mut row = self.yielded.add_row(RowPlace::of(order, question), rows.columns.len());
            rows.write(self.program.graph(), event, &mut row);
        }
    }
}

impl StreamSubscriber for Collector {
    fn stream_created(&mut self, order: Order, question: usize, stream: &mut StreamHandle<'_>) {
        self.tell(order, question, stream, |handler, stream| handler.created(stream));
    }

    fn stream_data(
        &mut self,
        order: Order,
        question: usize,
        stream: &mut StreamHandle<'_>,
        chunk: &Chunk<'_>,
    ) {
        if let Some(task) = Self::task(&mut self.question_workers, question) {
            return task.bytes(stream.flow, !stream.from.is_responder(), chunk);
        }
        self.tell(order, question, stream, |handler, stream| handler.data(stream, chunk));
    }

    fn stream_closed(&mut self, order: Order, question: usize, stream: &mut StreamHandle<'_>) {
        if let Some(task) = Self::task(&mut self.question_workers, question) {
            return task.closed(stream.flow, !stream.from.is_responder());
        }
        self.tell(order, question, stream, |handler, stream| handler.closed(stream));
    }

    fn stream_terminated(
        &mut self,
        order: Order,
        question: usize,
        stream: &mut StreamHandle<'_>,
        reason: EndReason,
    ) {
        self.matched[question] += 1;
        self.tell(order, question, stream, |handler, stream| handler.terminated(stream, reason));
    }
}

impl Collector {
    /// Calls the handler of a question's streams, and passes on the rows that it emits.
    fn tell(
        &mut self,
        order: Order,
        question: usize,
        handle: &mut StreamHandle<'_>,
        what: impl FnOnce(&mut dyn ErasedStreamHandler, &mut Stream<'_, '_>),
    ) {
        let Some(QuestionWorker::Stream(handler)) = self.question_workers.get_mut(question) else { return };
        let places = &self.places[handle.flow.table.index()];
        what(&mut **handler, &mut Stream { handle, places, yields: &mut self.yielded, order, question });
    }
}
