//! The flows of one table of the graph, the layout that they share, and the parts of one flow that the tail
//! of a packet may access.

use crate::aside::Aside;
use crate::flow::read_number;
use crate::flow_ref::{FlowRef, PARTS};
use crate::flow_sessions::FlowSessions;
use crate::holders::Holders;
use crate::messages::Messages;
use crate::plan::{Plan, SessionVerdict};
use crate::sequence::Reassembler;
use crate::sets::ClassSet;
use crate::stream::{FlowStreams, StreamSlots};
use crate::table::{FlowId, FlowTable, Full, GRANT_FLOWS, Header};
use crate::tags::Tags;
use crate::timeouts::Timeouts;
use crate::timer::TimerWheel;
use crate::words::Words;
#[cfg(doc)]
use weir_ir::abi::WANTS_ANSWER;
use weir_ir::abi::{TIMEOUT_MS, WANTS_BYTES, WANTS_EVENTS, WANTS_RECORD};
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{Graph, Op, Sequence, Table, Type};
use weir_ir::key::{KeyEnds, KeyPlace};
use weir_sessions::ProtocolSet;

use weir_memory::checked;
use weir_packet::Direction;

/// Bytes of a flow in lists beside its table: of flows whose time has passed, of all flows at the end of a
/// run, and of the packets that nobody needed.
const LISTED_BYTES_PER_FLOW: usize = 40 + size_of::<[u8; 2]>();

/// The flows of one table.
pub(crate) struct TableState {
    pub flows: FlowTable,
    pub wheel: TimerWheel,
    /// By flow; empty if the table's bytes are not wanted.
    pub sessions: Vec<FlowSessions>,
    /// As `sessions`, but empty if no question is about streams.
    pub streams: StreamSlots,
    pub layout: TableLayout,
    /// The number of the part, if workers share the table; else 0.
    pub part: u8,
    /// By flow: the number of packets that nobody needed, and how often the kernel got the flow in vain; see
    /// [`taken_over`](crate::taken_over). Empty unless the kernel may take over connections.
    pub quiet: Vec<[u8; 2]>,
    /// Packets that wait beside flows.
    pub aside: Aside,
    /// The tags of flows, if the directions of flows may differ in them.
    pub tags: Tags,
}

/// Properties that all flows of a table share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableLayout {
    pub timeouts: Timeouts,
    /// Places of addresses and ports in a key.
    pub ends: KeyEnds,
    /// Places of engine variables in a flow's record: wants, fulfilled terms, decisions. `None` if the passes
    /// removed the variable.
    pub wants_at: Option<usize>,
    pub terms: Option<Words>,
    /// Terms that the current packet may still decide.
    pub open: Option<Words>,
    pub verdict: Option<Words>,
    /// Place of the number of packets that wait beside the flow.
    pub aside_at: Option<usize>,
    /// Place of the question whether a packet joins the flow ([`WANTS_ANSWER`]), and of the tags in a key, if
    /// packets with other tags may do so.
    pub joining_at: Option<(usize, KeyPlace)>,
    /// Place of the kind of a side's messages, if a question needs messages: the originator's, and the
    /// distance to the responder's.
    pub messages_at: Option<(usize, usize)>,
    /// Values that come with each whole of messages; 0 if messages are not wholes.
    pub whole_values: usize,
    pub initial_wants: u8,
    /// Bytes of its flows are wanted.
    pub delivers: bool,
    /// A question observes the table's flows. A packet does not belong to flows of other tables, whether they
    /// exist or not: the passes remove lookups that nothing else needs.
    pub observed: bool,
    /// Events report the ends of the table's flows.
    pub reports_ends: bool,
    /// The table's flows are parts of connections found before them.
    pub part: bool,
    pub sequence: Option<Sequence>,
    /// The table's flows are datagrams in fragments, and a question about packets asks for the fragments of
    /// the datagrams that match.
    pub holds_fragments: bool,
    /// Bytes of waiting segments are needed whatever is wanted of the flow: they are reassembled for the next
    /// layer or for messages, or compared with overlapping bytes.
    pub keeps_bytes: bool,
    /// Session protocols that the table may carry and that a question needs.
    pub probed: ProtocolSet,
}

impl TableState {
    /// The flow with a key, which may be its second one. `likely` as in [`FlowTable::find`].
    #[inline]
    pub fn find(&self, key: &[u64], hash: u64, likely: Option<FlowId>) -> Option<FlowId> {
        self.flows.find(key, hash, likely).or_else(|| self.tags.find(key))
    }

    /// The live flow nearest to its time-out; of several, one of low priority. `rank_of` returns a flow's
    /// rank, from its record and its streams. `None` if that flow has a packet at `time`, or if no flow has a
    /// time-out.
    pub(crate) fn nearest_to_timeout(
        &mut self,
        time: i64,
        rank_of: impl Fn(&TableLayout, &[u8], Option<&FlowStreams>) -> usize,
    ) -> Option<FlowId> {
        let Self { flows, wheel, streams, layout, .. } = self;
        let timeouts = layout.timeouts;
        let rank_of = |id| rank_of(layout, flows.entry(id).1, streams.get(id));
        let id = wheel.first(
            |id| {
                let (header, data) = flows.is_live(id).then(|| flows.entry(id))?;
                Some(header.last_time.saturating_add(timeouts.ns(data)))
            },
            rank_of,
        )?;
        (flows.entry(id).0.last_time < time).then_some(id)
    }

    /// Bytes that a flow costs at most, with everything that each flow of the table has.
    fn bytes_per_flow(&self, wants_streams: bool) -> usize {
        let delivered = match (self.layout.delivers, wants_streams) {
            (false, _) => 0,
            (true, false) => size_of::<FlowSessions>(),
            (true, true) => size_of::<FlowSessions>() + size_of::<FlowStreams>(),
        };
        self.flows.bytes_per_flow() + TimerWheel::BYTES_PER_FLOW + LISTED_BYTES_PER_FLOW + delivered
    }

    /// Bytes that the next [grant](Self::grant) costs.
    pub fn grant_bytes(&self, wants_streams: bool) -> usize {
        GRANT_FLOWS * self.bytes_per_flow(wants_streams)
    }

    /// Bytes of all grants so far.
    pub fn granted_bytes(&self, wants_streams: bool) -> usize {
        self.flows.granted_flows() * self.bytes_per_flow(wants_streams)
    }

    /// Lets the table grow by [`GRANT_FLOWS`] flows.
    ///
    /// # Errors
    /// [`Full`] if the system has no memory for them.
    pub fn grant(&mut self) -> Result<(), Full> {
        let flows = self.flows.ids() as usize + GRANT_FLOWS;
        if self.layout.delivers {
            let more = flows.saturating_sub(self.sessions.len());
            checked(|| self.sessions.try_reserve(more)).map_err(|_| Full)?;
        }
        self.wheel.reserve(flows).map_err(|_| Full)?;
        self.flows.grant()
    }
}

impl TableLayout {
    fn of(table: Table, plan: &Plan) -> Self {
        let (graph, layout) = (plan.program.graph(), plan.program.layout());
        let declared = &graph.tables[table.index()];
        let at = |var: EngineVar| graph.find_var(table, &var).map(|var| layout.offset(var));
        let words = |var: EngineVar| Words::of(graph, layout, table, var);
        let mut initial_wants = 0;
        if declared.delivers {
            initial_wants |= WANTS_BYTES.iter().fold(0, |all, &bit| all | bit as u8);
        }
        if plan.records {
            initial_wants |= WANTS_RECORD as u8;
        }
        if graph.events.iter().any(|event| event.wanted) {
            initial_wants |= WANTS_EVENTS as u8;
        }
        let sequence = graph.sequences.iter().position(|s| s.table == table).map(|s| Sequence(s as u32));
        Self {
            ends: *declared.key.ends(),
            timeouts: Timeouts {
                declared_ms: match declared.timeout_ms {
                    // No question wants these flows: each ends with its packet.
                    _ if declared.two_sided && initial_wants == 0 && !declared.asked => 0,
                    declared => declared.unwrap_or(TIMEOUT_MS),
                },
                at: at(EngineVar::TimeoutMs),
                idle_ms: plan.limits.idle_timeout_ms.filter(|_| declared.two_sided),
            },
            wants_at: at(EngineVar::Wants),
            terms: words(EngineVar::Terms),
            open: words(EngineVar::OpenTerms),
            verdict: words(EngineVar::Verdict),
            aside_at: at(EngineVar::Aside),
            joining_at: at(EngineVar::Wants).zip(declared.key.ends().tags).filter(|_| declared.two_sided),
            messages_at: at(EngineVar::Messages).map(|at| (at, layout.stride(table))),
            whole_values: sequence.map_or(0, |s| usize::from(graph.sequences[s.index()].wholes)),
            initial_wants,
            delivers: declared.delivers,
            observed: declared.observed,
            reports_ends: declared.ends,
            part: declared.part.is_some(),
            sequence,
            holds_fragments: sequence.is_some_and(|sequence| graph.sequences[sequence.index()].retain)
                && plan.holds_fragments(),
            keeps_bytes: sequence.is_some_and(|sequence| keeps_bytes(graph, table, sequence)),
            probed: plan.probed_over(declared.carries.as_ref().unwrap_or(&declared.name)),
        }
    }
}

fn keeps_bytes(graph: &Graph, table: Table, sequence: Sequence) -> bool {
    graph.sequences[sequence.index()].tells
        || graph.blocks.iter().flat_map(|block| &block.insts).any(|inst| match inst.op {
            Op::SeqAssemble { sequence: assembled, .. } => assembled == sequence,
            Op::Collect { flow, .. } => graph.type_of(flow) == Type::Flow(table),
            _ => false,
        })
}

impl TableLayout {
    /// The classes of a flow's packets.
    #[inline]
    pub fn terms(&self, plan: &Plan, data: &[u8]) -> ClassSet {
        let mut terms = plan.unconditional.clone();
        if let Some(words) = self.terms {
            words.add_to(&mut terms, data);
        }
        terms
    }

    /// What the sessions of a flow fulfil.
    pub fn verdict(&self, plan: &Plan, data: &[u8]) -> SessionVerdict {
        self.verdict.map(|words| plan.unpack(words, data)).unwrap_or_default()
    }

    /// Stores what the sessions of a flow fulfil, if the program has a variable for it.
    pub fn set_verdict(&self, plan: &Plan, data: &mut [u8], verdict: &SessionVerdict) {
        if let Some(words) = self.verdict {
            plan.pack(verdict, words, data);
        }
    }

    /// Whether the bytes of a side are still wanted.
    pub fn wants_bytes(&self, data: &[u8], side: Direction) -> bool {
        let of_side = WANTS_BYTES[side.index()] as u8;
        self.wants_at.is_some_and(|at| data[at] & of_side != 0)
    }

    /// Whether the kind of a side's messages is known.
    pub fn has_messages(&self, data: &[u8], side: Direction) -> bool {
        let at = self.messages_at.map(|(at, stride)| at + side.index() * stride);
        at.is_some_and(|at| read_number(data, at, 16) != 0)
    }
}

impl TableState {
    /// An empty table.
    pub fn of(table: Table, plan: &Plan) -> Self {
        let data_bytes = plan.program.layout().size(table);
        let key_words = plan.program.graph().key_words(table);
        Self {
            flows: FlowTable::new(key_words, data_bytes, plan.limits.flows_max, plan.limits.seed)
                .on_request(),
            wheel: TimerWheel::default(),
            sessions: vec![],
            streams: StreamSlots::default(),
            layout: TableLayout::of(table, plan),
            part: 0,
            quiet: vec![],
            aside: Aside::default(),
            tags: Tags::default(),
        }
    }

    /// An empty part of a table that `workers` workers share: all parts together have as many flows as tables
    /// of their own would have.
    pub fn part(table: Table, plan: &Plan, part: u8, workers: usize) -> Self {
        let flows_max = plan.limits.flows_max.saturating_mul(workers).div_ceil(PARTS);
        let mut state = Self::of(table, plan);
        state.flows = state.flows.limited_to(flows_max);
        Self { part, ..state }
    }

    /// The parts of a flow, and its variables.
    #[inline]
    pub fn tail<'a>(
        &'a mut self,
        FlowRef { table, id, part, .. }: FlowRef,
        shared: SharedState<'a>,
        plan: &'a Plan,
    ) -> (TailFlow<'a>, &'a mut [u8]) {
        let (header, data) = self.flows.entry_mut(id);
        let (mut sessions, mut streams) = (None, None);
        if self.layout.delivers {
            sessions = self.sessions.get_mut(id.0 as usize);
            streams = self.streams.get_mut(id);
        }
        let layout = &self.layout;
        let open = None;
        let tail = TailFlow { table, id, part, header, sessions, streams, shared, layout, open, plan };
        (tail, data)
    }
}

/// Bytes that the flows of a worker hold besides what sessions and streams do.
#[inline]
pub(crate) fn held_bytes(
    sequences: &Reassembler,
    messages: &Messages,
    holders: &Holders,
    beside_bytes: usize,
) -> usize {
    sequences.held_bytes().0 + messages.held_bytes() + holders.bytes() + beside_bytes
}

/// State of a worker that its flows share.
pub(crate) struct SharedState<'a> {
    pub sequences: &'a mut Reassembler,
    pub messages: &'a mut Messages,
    pub holders: &'a mut Holders,
    /// Bytes of the lists of connections around connections, of second keys, and of packets that wait beside
    /// flows.
    pub beside_bytes: usize,
}

/// The parts of a flow that the host of a tail may access, besides its variables.
pub(crate) struct TailFlow<'a> {
    pub table: Table,
    pub id: FlowId,
    /// The part of the table, if workers share the table.
    pub part: u8,
    pub header: &'a mut Header,
    pub sessions: Option<&'a mut FlowSessions>,
    pub streams: Option<&'a mut FlowStreams>,
    pub shared: SharedState<'a>,
    pub layout: &'a TableLayout,
    /// The place of the terms that the current packet may still decide; set in a packet's tail.
    pub open: Option<Words>,
    pub plan: &'a Plan,
}

impl TailFlow<'_> {
    pub fn flow_ref(&self) -> FlowRef {
        FlowRef::new(self.table, self.id).in_part(self.part)
    }

    /// Bytes that the worker's flows hold besides what sessions and streams do.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        let SharedState { sequences, messages, holders, beside_bytes } = &self.shared;
        held_bytes(sequences, messages, holders, *beside_bytes)
    }

    /// Records that the flow may hold memory besides its entry.
    #[inline]
    pub fn note_holder(&mut self) {
        let Header { is_holder, first_packet, last_time, .. } = *self.header;
        if !is_holder {
            self.header.is_holder = self.shared.holders.enter(self.flow_ref(), first_packet, last_time);
        }
    }

    /// The new time-out in milliseconds, if the tail changed it so that the timer wheel must be updated or
    /// the flow is over (0).
    #[inline]
    pub fn changed_timeout(&mut self, data: &[u8], is_new: bool) -> Option<u32> {
        let millis = self.layout.timeouts.ms(data);
        let is_sooner = is_new || millis < self.header.armed_ms;
        self.header.armed_ms = millis;
        (is_sooner || millis == 0).then_some(millis)
    }
}

/// Records that no more bytes of a side are wanted.
pub(crate) fn stop_bytes(data: &mut [u8], wants_at: Option<usize>, side: Direction) {
    if let Some(at) = wants_at {
        data[at] &= !(WANTS_BYTES[side.index()] as u8);
    }
}
