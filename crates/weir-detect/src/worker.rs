//! A packet's way through the rules, on one worker.

use crate::alert::{self, COLUMNS};
use crate::app;
use crate::buffers::Transaction;
use crate::candidates::{Candidates, Of, Seen};
use crate::contents::{FILE_BYTES_MAX, FirstBytes};
use crate::counters::Counters;
use crate::events::GAP;
use crate::expressions::Caches;
use crate::fields::{Field, Values};
use crate::flow::{FlowState, Handshake, SESSIONS_MAX, Stream, Undecided};
use crate::ongoing::{Ongoing, replaces};
use crate::packet::{Moment, Packet, payload_in};
use crate::ruleset::{Kind, Prepared, RuleProgram, Transport};
use crate::state::{RATES, Shared, Whom};
use crate::verdict::{Made, Scene, is_once};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weir::flow_task::{FlowPacket, FlowQuestions, FlowRef, FlowTask, LoosePacket, TaskFlow, TaskSession};
use weir::packet_task::TaskRows;
use weir::stream::Chunk;
use weir::{Compiler, Question};
use weir_rules::{Action, BitsOp, IntOp, RateAction, RuleProtocol, StateOption, Tag};

/// Alerts of streams that wait for the protocol of their connection.
const UNDECIDED_MAX: usize = 16;
/// Steps of inspections for a packet.
const STEPS_OF_PACKET_MAX: u32 = 1 << 18;
/// Bytes of each direction of a stream that are inspected (Suricata's `stream.reassembly.depth`).
const STREAM_BYTES_MAX: u64 = 1 << 20;

/// Rules as the question of a run. Clones are about the same run.
#[derive(Debug, Clone)]
pub struct Detection {
    current: Arc<Current>,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    complete_only: bool,
    memory_max: usize,
}

/// Bytes that a worker keeps of connections, unless the run says another number.
const MEMORY_MAX: usize = 256 << 20;

/// The rules of a run, which may be replaced.
#[derive(Debug)]
struct Current {
    set: Mutex<Arc<RuleProgram>>,
    /// How often the rules were replaced.
    generation: AtomicU64,
}

impl Current {
    fn get(&self) -> Arc<RuleProgram> {
        Arc::clone(&self.set.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Detection {
    /// The rules of a run.
    pub fn new(set: Arc<RuleProgram>) -> Self {
        let current = Arc::new(Current { set: Mutex::new(set), generation: AtomicU64::new(0) });
        Self {
            current,
            shared: Arc::default(),
            counters: Arc::default(),
            complete_only: false,
            memory_max: MEMORY_MAX,
        }
    }

    /// Replaces the rules while they run. Connections keep their bits and integers, and hosts theirs; what
    /// rules wait for is forgotten.
    ///
    /// # Errors
    /// The new rules need more of the run than the first ones: then these go on.
    pub fn replace(&self, mut set: RuleProgram) -> Result<(), String> {
        let before = self.current.get();
        set.continue_after(&before)?;
        *self.current.set.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        self.current.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Of connections of TCP whose begin is not in the capture, only single packets are inspected, as by
    /// default in Suricata.
    pub fn with_complete_connections_only(self) -> Self {
        Self { complete_only: true, ..self }
    }

    /// Bytes that rules keep of connections, on each worker: beyond, all but the current connection are
    /// forgotten. 256 MiB unless stated.
    pub fn with_memory(self, bytes: usize) -> Self {
        Self { memory_max: bytes, ..self }
    }

    /// Says why a filter of a new rule cannot be evaluated by this run.
    ///
    /// # Errors
    /// None of the first rules has this filter.
    pub fn check_filter(&self, filter: &str) -> Result<(), String> {
        let is_known = self.current.get().conditions.iter().any(|known| known == filter);
        if is_known { Ok(()) } else { Err("this run does not have the filter: start it again".to_string()) }
    }

    /// What the bounds have cut off so far.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Lets sessions be inspected as they grow: of programs that are compiled afterwards.
    pub fn inspect_early(compiler: &mut Compiler) {
        compiler.yield_early_sessions(FILE_BYTES_MAX as u64);
    }

    /// The `tag` of a rule with this group and signature ID.
    pub fn tag_of(&self, gid: u32, sid: u32) -> Option<Tag> {
        self.current.get().tags.get(&(gid, sid)).copied()
    }

    /// Says what the rules need of files. The compiler's [store](Compiler::pass_contents_to) is this one.
    pub fn ask_for_files(&self, store: &FirstBytes) {
        let set = self.current.get();
        if set.with_files {
            store.want(set.with_digests);
        }
    }

    /// Whether rules look at files.
    pub fn needs_files(&self) -> bool {
        self.current.get().with_files
    }

    /// The questions about the connections that match `filter`. Alerts are rows of the first one.
    ///
    /// # Errors
    /// The stack of the compiler lacks a field that rules compare.
    pub fn questions(&self, compiler: &Compiler, filter: &str) -> Result<Vec<Question>, String> {
        let set = self.current.get();
        let mut questions = FlowQuestions::of(compiler, set.fields.names())?;
        questions.filter = filter.to_string();
        questions.protocols = set.protocols(compiler.sessions());
        questions.stream_bytes_max = if set.with_streams { STREAM_BYTES_MAX } else { 0 };
        questions.loose_packets = set.with_loose;
        questions.conditions = set.conditions.clone();
        questions.events = set.events.clone();
        let names: Arc<[&'static str]> =
            compiler.sessions().protocols().iter().map(|protocol| app::name_of(protocol.name)).collect();
        let this = self.clone();
        questions.questions(compiler, COLUMNS.len(), move || {
            Box::new(Worker {
                set: this.current.get(),
                generation: this.current.generation.load(Ordering::Acquire),
                current: Arc::clone(&this.current),
                shared: Arc::clone(&this.shared),
                counters: Arc::clone(&this.counters),
                complete_only: this.complete_only,
                memory_max: this.memory_max,
                held_bytes: 0,
                names: Arc::clone(&names),
                flows: FxHashMap::default(),
                candidates: Candidates::default(),
                caches: Caches::default(),
            })
        })
    }
}

struct Worker {
    set: Arc<RuleProgram>,
    /// The generation of `set`.
    generation: u64,
    current: Arc<Current>,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    complete_only: bool,
    memory_max: usize,
    /// Bytes of `flows`.
    held_bytes: usize,
    /// The names of session protocols in rules, by number.
    names: Arc<[&'static str]>,
    /// Boxed, because each packet takes its connection out, and puts it back.
    flows: FxHashMap<FlowRef, Box<FlowState>>,
    candidates: Candidates,
    caches: Caches,
}

impl FlowTask for Worker {
    fn bytes(&mut self, flow: &TaskFlow<'_>, is_orig: bool, chunk: &Chunk<'_>) {
        let state = self.flows.entry(flow.name()).or_default();
        let stream = &mut state.streams[usize::from(!is_orig)];
        match flow.layer() {
            "tcp" if state.is_encrypted => {}
            "tcp" if stream.take(chunk.bytes, chunk.gap_bytes) => {}
            "tcp" => Counters::add(&self.counters.pieces_lost),
            _ => stream.take_datagram(chunk.bytes),
        }
    }

    fn closed(&mut self, flow: &TaskFlow<'_>, is_orig: bool) {
        if let Some(state) = self.flows.get_mut(&flow.name()) {
            state.streams[usize::from(!is_orig)].is_closed = true;
        }
    }

    fn session(&mut self, flow: &TaskFlow<'_>, session: &TaskSession<'_>) {
        // The session of the connection has the same fields, once.
        if !session.session.has_row() {
            return;
        }
        let state = self.flows.entry(flow.name()).or_default();
        state.sessions.retain(|(_, before)| !replaces(&**session.session, &**before));
        if state.sessions.len() == SESSIONS_MAX {
            return Counters::add(&self.counters.sessions_refused);
        }
        let name = self.names.get(session.protocol).copied();
        if let Some(name) = name {
            state.set_app(app::of_session(name, &**session.session));
        }
        state.is_encrypted |= app::begins_encryption(&**session.session);
        state.sessions.push((session.protocol, Arc::clone(session.session)));
    }

    fn recognised(&mut self, flow: &TaskFlow<'_>, protocol: Option<usize>) {
        let name = protocol.and_then(|number| self.names.get(number).copied());
        let state = self.flows.entry(flow.name()).or_default();
        match name {
            // The first exchange says which version.
            Some("http") => {}
            Some(app) => state.set_app(app),
            None => _ = state.app.get_or_insert(app::FAILED),
        }
    }

    fn packet(&mut self, packet: &FlowPacket<'_>, rows: &mut TaskRows<'_>) {
        self.renew();
        let set = Arc::clone(&self.set);
        let values = Values::new(&set.fields, packet.words, packet.known);
        let transport = Transport::of_layer(packet.flow.layer());
        let mut state = self.flows.remove(&packet.flow.name()).unwrap_or_default();
        let side = usize::from(packet.from_responder);
        state.packets[side] += 1;
        state.handshake = after(state.handshake, transport, &values, self.complete_only);
        let [orig, resp] = packet.flow.endpoints().map(|(address, port)| (address, port as u16));
        let ends = if packet.from_responder { [resp, orig] } else { [orig, resp] };
        let moment = Moment { time: packet.meta.time, number: Some(packet.meta.number) };
        state.holds = packet.holds;
        self.catch_up(&packet.flow, transport, side, &mut state, moment, rows);
        let had_gap = std::mem::take(&mut state.streams[side].had_gap);
        let window = std::mem::take(&mut state.streams[side].window);
        state.streams[side].new_end = window.len() as u64;
        let all = payload_in(&values, packet.frame);
        // The stream of datagrams has the whole of those that came in fragments.
        let payload = match state.streams[side].has_datagram {
            true => &window[..],
            // The packet that completes a handshake is inspected.
            false if state.is_encrypted && state.sessions.is_empty() => &[],
            false => all,
        };
        let payload_bytes = payload.len().max(all.len()) as u64;
        state.bytes[side] += payload_bytes;
        let seen = Packet {
            values,
            frame: packet.frame,
            ends,
            to_server: !packet.from_responder,
            payload,
            payload_bytes,
            is_there: true,
            holds: packet.holds,
            happened: packet.happened | if had_gap { GAP } else { 0 },
        };
        if !state.passed {
            self.inspect(Some(&packet.flow), transport, &seen, &mut state, &window, moment, rows);
        }
        let stream = &mut state.streams[side];
        stream.window = window;
        if std::mem::take(&mut stream.has_datagram) && !set.with_datagrams {
            stream.window.clear();
        }
        stream.advance();
        state.sessions.clear();
        if state.is_encrypted
            || state.streams.iter().all(|stream| stream.is_closed && !stream.is_unsearched())
        {
            state.streams.iter_mut().for_each(Stream::release);
        }
        self.held_bytes = self.held_bytes.saturating_add_signed(state.grown_bytes());
        if self.held_bytes > self.memory_max {
            let forgotten = std::mem::take(&mut self.flows);
            self.counters.flows_forgotten.fetch_add(forgotten.len() as u64, Ordering::Relaxed);
            self.held_bytes = state.counted_bytes();
        }
        self.flows.insert(packet.flow.name(), state);
    }

    fn loose_packet(&mut self, packet: &LoosePacket<'_>, rows: &mut TaskRows<'_>) {
        self.renew();
        let set = Arc::clone(&self.set);
        let values = Values::new(&set.fields, packet.words, packet.known);
        let nobody = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let addresses = values.addresses().unwrap_or([nobody; 2]);
        let ends = addresses.map(|address| (address, 0));
        let seen =
            Packet { frame: &packet.frame, is_there: true, ..Packet::none(values, ends, true, packet.holds) };
        let moment = Moment { time: packet.meta.time, number: Some(packet.meta.number) };
        self.inspect(None, Transport::Other, &seen, &mut FlowState::default(), &[], moment, rows);
    }

    fn end(&mut self, flow: &TaskFlow<'_>, rows: &mut TaskRows<'_>) {
        let set = Arc::clone(&self.set);
        let Some(mut state) = self.flows.remove(&flow.name()) else { return };
        self.held_bytes -= state.counted_bytes();
        let moment = Moment { time: flow.last_time(), number: None };
        let transport = Transport::of_layer(flow.layer());
        for side in [1, 0] {
            self.catch_up(flow, transport, side, &mut state, moment, rows);
        }
        if state.sessions.is_empty() || state.passed {
            return;
        }
        let ends = flow.endpoints().map(|(address, port)| (address, port as u16));
        let values = Values::none(&set.fields);
        // The streams end here; rules may still look at their last bytes.
        let window = std::mem::take(&mut state.streams[0].window);
        let payload = if transport == Transport::Tcp { &[][..] } else { &window[..] };
        let seen = Packet { payload, ..Packet::none(values, ends, true, state.holds) };
        self.inspect(Some(flow), transport, &seen, &mut state, &window, moment, rows);
    }

    fn forget(&mut self, flow: FlowRef) {
        if let Some(state) = self.flows.remove(&flow) {
            self.held_bytes -= state.counted_bytes();
        }
    }
}

/// How far the handshake is after a packet.
fn after(before: Handshake, transport: Transport, values: &Values<'_>, complete_only: bool) -> Handshake {
    let (Transport::Tcp, Some(flags)) = (transport, values.get(Field::TcpFlags)) else { return before };
    match (before, flags & 2 != 0, flags & 16 != 0) {
        (Handshake::None, true, false) => Handshake::Syn,
        (Handshake::None | Handshake::Syn, true, true) => Handshake::Answered,
        (Handshake::None, false, _) if complete_only => Handshake::Unseen,
        (Handshake::None, false, _) => Handshake::Done,
        (Handshake::Syn | Handshake::Answered, false, true) => Handshake::Done,
        _ => before,
    }
}

impl Worker {
    /// Takes new rules, if there are any.
    #[inline]
    fn renew(&mut self) {
        let generation = self.current.generation.load(Ordering::Acquire);
        if generation != self.generation {
            (self.generation, self.set) = (generation, self.current.get());
            self.caches = Caches::default();
            self.candidates.forget_rules();
            self.flows.values_mut().for_each(|state| state.forget_rules());
        }
    }

    /// Inspects bytes that are not inspected together with the packet of direction `side`: of both directions
    /// the bytes before a gap, and of the other direction the bytes that this packet acknowledged.
    fn catch_up(
        &mut self,
        flow: &TaskFlow<'_>,
        transport: Transport,
        side: usize,
        state: &mut FlowState,
        moment: Moment,
        rows: &mut TaskRows<'_>,
    ) {
        if transport != Transport::Tcp || state.passed {
            return;
        }
        for of in [1 - side, side] {
            for piece in std::mem::take(&mut state.streams[of].pieces) {
                let now = state.streams[of].go_back(piece);
                self.inspect_stream(flow, of, state, moment, rows);
                state.streams[of].go_back(now);
            }
        }
        if state.streams[1 - side].is_unsearched() {
            self.inspect_stream(flow, 1 - side, state, moment, rows);
            state.streams[1 - side].advance();
        }
    }

    /// Inspects the new bytes of a direction, without a packet.
    fn inspect_stream(
        &mut self,
        flow: &TaskFlow<'_>,
        side: usize,
        state: &mut FlowState,
        moment: Moment,
        rows: &mut TaskRows<'_>,
    ) {
        let set = Arc::clone(&self.set);
        let [orig, resp] = flow.endpoints().map(|(address, port)| (address, port as u16));
        let ends = if side == 0 { [orig, resp] } else { [resp, orig] };
        let seen = Packet::none(Values::none(&set.fields), ends, side == 0, state.holds);
        let window = std::mem::take(&mut state.streams[side].window);
        state.streams[side].new_end = window.len() as u64;
        let sessions = std::mem::take(&mut state.sessions);
        self.inspect(Some(flow), Transport::Tcp, &seen, state, &window, moment, rows);
        state.streams[side].window = window;
        state.sessions = sessions;
    }

    /// Inspects a packet with what it completed, or the end of a connection. `window`: the bytes of the
    /// packet's direction.
    #[allow(clippy::too_many_arguments)]
    fn inspect(
        &mut self,
        flow: Option<&TaskFlow<'_>>,
        transport: Transport,
        packet: &Packet<'_>,
        state: &mut FlowState,
        window: &[u8],
        moment: Moment,
        rows: &mut TaskRows<'_>,
    ) {
        let set = Arc::clone(&self.set);
        // Sessions leave the state, which rules change.
        let sessions = std::mem::take(&mut state.sessions);
        let transactions: Vec<Transaction<'_>> = sessions
            .iter()
            .map(|(protocol, session)| {
                let app = app::of_session(self.names.get(*protocol).copied().unwrap_or(""), &**session);
                Transaction::of(*protocol, &**session, app, set.with_files)
            })
            .collect();
        let mut made: Vec<Made<'_>> = transactions.iter().map(|_| Made::default()).collect();
        let mut ongoing: Vec<Ongoing> =
            transactions.iter().map(|one| state.ongoing.take(one.session)).collect();
        self.candidates.list.clear();
        let side = usize::from(!packet.to_server);
        let is_unseen = state.handshake == Handshake::Unseen;
        let is_tcp = transport == Transport::Tcp && !is_unseen;
        if packet.is_there || is_tcp && sessions.is_empty() {
            let seen = Seen {
                transport,
                is_unseen,
                is_first: flow.is_none() || state.packets[side] == 1,
                stream: &state.streams[side],
                window: if is_tcp { window } else { &[] },
                other_bytes: state.bytes[usize::from(packet.to_server)],
            };
            self.candidates.find_in_packet(&set, &seen, packet);
        }
        for (number, transaction) in transactions.iter().enumerate().filter(|_| !is_unseen) {
            let wanted = ongoing[number].wanted(transaction);
            self.candidates.find_in_session(&set, number as u16, transaction, wanted, &mut made[number]);
        }
        let mut candidates = std::mem::take(&mut self.candidates.list);
        candidates.sort_unstable();
        candidates.dedup();
        if candidates.is_empty() && state.undecided.is_empty() {
            keep_ongoing(state, &transactions, ongoing);
            self.candidates.list = candidates;
            return;
        }
        let flow_name = flow.map_or(0, name_of);
        let now = moment.time.0;
        let age_s =
            flow.map_or(0, |flow| now.saturating_sub(flow.first_time().0).max(0) as u64 / 1_000_000_000);
        self.settle_undecided(&set, flow, packet, state, flow_name, rows);
        if state.passed {
            self.candidates.list = candidates;
            return;
        }
        let mut last: Option<u32> = None;
        let mut steps_left = STEPS_OF_PACKET_MAX;
        for candidate in &candidates {
            let prepared = &set.rules[candidate.rule as usize];
            let mut oriented = *packet;
            let is_session = matches!(candidate.of, Of::Session(..));
            // A packet alerts once for a rule, however often it matches.
            if !is_session && last == Some(candidate.rule) {
                continue;
            }
            if let Of::Session(_, to_server) = candidate.of
                && to_server != packet.to_server
            {
                oriented.ends.swap(0, 1);
                oriented.to_server = to_server;
            }
            let is_here = oriented.to_server == packet.to_server;
            let in_stream = matches!(candidate.of, Of::Stream(_));
            let other = &state.streams[usize::from(!oriented.to_server)];
            let (matches, lacks_bytes) = {
                let session = match candidate.of {
                    Of::Session(number, _) => {
                        let number = usize::from(number);
                        transactions.get(number).zip(made.get_mut(number))
                    }
                    _ => None,
                };
                let mut scene = Scene {
                    set: &set,
                    transport,
                    packet: &oriented,
                    flow: flow.map(|_| &*state),
                    flow_name,
                    window: match (in_stream, is_here, transport) {
                        (true, ..) => &window[state.streams[side].behind_alert(candidate.rule)..],
                        (_, true, Transport::Tcp) => window,
                        (_, true, _) => packet.payload,
                        (_, false, _) => &other.window,
                    },
                    from_begin: other.offset == 0,
                    session,
                    caches: &mut self.caches,
                    shared: &self.shared,
                    steps_left: &mut steps_left,
                    counters: &self.counters,
                    now,
                    age_s,
                    lacks_bytes: false,
                };
                (scene.matches(prepared, in_stream), scene.lacks_bytes)
            };
            if !matches {
                if let Of::Stream(place) = candidate.of
                    && lacks_bytes
                    && prepared.has_pattern
                    && prepared.rule.inspections.iter().any(|inspection| inspection.tests.len() > 1)
                    && !state.streams[side].wait(candidate.rule, place)
                {
                    Counters::add(&self.counters.waiting_lost);
                }
                continue;
            }
            if let Of::Session(number, to_server) = candidate.of
                && transactions[usize::from(number)].may_go_on()
                && !ongoing[usize::from(number)].is_first(candidate.rule, to_server)
            {
                continue;
            }
            if in_stream {
                let other_bytes = state.bytes[usize::from(oriented.to_server)];
                state.streams[side].note_alert(candidate.rule, other_bytes);
                state.streams[side].waiting.retain(|(rule, _)| *rule != candidate.rule);
            }
            let is_of_session = matches!(prepared.rule.protocol, RuleProtocol::Session(_));
            if !is_session && is_of_session && state.app.is_none() || !holds(prepared, oriented.holds) {
                last = Some(candidate.rule);
                // A rule that asks for nothing else is looked at again with each packet.
                if flow.is_some() && !is_once(&prepared.rule) {
                    self.postpone(state, candidate.rule, oriented.to_server, moment);
                }
                continue;
            }
            if is_once(&prepared.rule) {
                let is_first = state.once(candidate.rule, oriented.to_server);
                if is_first.is_none() {
                    Counters::add(&self.counters.state_refused);
                }
                if is_first != Some(true) {
                    continue;
                }
            }
            last = Some(candidate.rule);
            if prepared.rule.without_effect.contains(&"bypass") {
                state.passed = true;
            }
            let ends = self.act(&set, candidate.rule, flow, &oriented, state, flow_name, moment, rows);
            if ends {
                state.passed |= prepared.kind != Kind::Packet || is_once(&prepared.rule);
                break;
            }
        }
        keep_ongoing(state, &transactions, ongoing);
        self.candidates.list = candidates;
    }

    /// Keeps a match until the protocol of the connection is known and the filter of the rule holds. The
    /// match is an alert then.
    fn postpone(&mut self, state: &mut FlowState, rule: u32, to_server: bool, moment: Moment) {
        let is_there = |waits: &Undecided| waits.rule == rule && waits.to_server == to_server;
        match state.undecided.len() < UNDECIDED_MAX {
            _ if state.undecided.iter().any(is_there) => {}
            true => state.undecided.push(Undecided { rule, to_server, moment }),
            false => Counters::add(&self.counters.undecided_lost),
        }
    }

    /// Writes the alerts of matches that were [kept](Self::postpone), once the protocol is known and the
    /// filter holds.
    fn settle_undecided(
        &mut self,
        set: &RuleProgram,
        flow: Option<&TaskFlow<'_>>,
        packet: &Packet<'_>,
        state: &mut FlowState,
        flow_name: u64,
        rows: &mut TaskRows<'_>,
    ) {
        for undecided in std::mem::take(&mut state.undecided) {
            let Undecided { rule, to_server, moment } = undecided;
            let prepared = &set.rules[rule as usize];
            let fits = match (prepared.rule.protocol, state.app) {
                (RuleProtocol::Session(name), Some(app)) => Some(app::is(app, name)),
                (RuleProtocol::Session(_), None) => None,
                _ => Some(true),
            };
            match fits {
                Some(false) => continue,
                Some(true) if holds(prepared, packet.holds) => {}
                _ => {
                    state.undecided.push(undecided);
                    continue;
                }
            }
            let mut oriented = *packet;
            if to_server != packet.to_server {
                oriented.ends.swap(0, 1);
                oriented.to_server = to_server;
            }
            let is_last = self.act(set, rule, flow, &oriented, state, flow_name, moment, rows);
            state.passed |= is_last || prepared.rule.without_effect.contains(&"bypass");
        }
    }

    /// Does what a rule that matches does. Returns whether the rules behind it are not looked at.
    #[allow(clippy::too_many_arguments)]
    fn act(
        &mut self,
        set: &RuleProgram,
        number: u32,
        flow: Option<&TaskFlow<'_>>,
        packet: &Packet<'_>,
        state: &mut FlowState,
        flow_name: u64,
        moment: Moment,
        rows: &mut TaskRows<'_>,
    ) -> bool {
        let prepared = &set.rules[number as usize];
        let rule = &prepared.rule;
        let addresses = packet.ends.map(|(address, _)| address);
        let now = moment.time.0;
        self.change_state(prepared, state, addresses, flow_name, now);
        if rule.action == Action::Pass {
            return true;
        }
        let is_suppressed = prepared.suppressions.iter().any(|one| one.holds(addresses[0], addresses[1]));
        let mut alerts = !rule.noalert && !is_suppressed;
        for (at, threshold) in (0..RATES).zip(&rule.thresholds) {
            let whom = Whom::of(threshold.track, addresses, flow_name);
            match self.shared.count((rule.gid, rule.sid), at, threshold, whom, now) {
                Some(is_one) => alerts &= is_one,
                None => Counters::add(&self.counters.state_refused),
            }
        }
        let mut action = rule.action;
        for (at, filter) in (0..RATES).zip(&prepared.rates) {
            if !alerts {
                break;
            }
            let whom = Whom::of(filter.track, addresses, flow_name);
            match self.shared.is_frequent((rule.gid, rule.sid), at, filter, whom, now) {
                Some(true) => match filter.action {
                    RateAction::Pass => alerts = false,
                    RateAction::Alert => action = Action::Alert,
                    RateAction::Drop => action = Action::Drop,
                    RateAction::Reject => action = Action::Reject,
                },
                Some(false) => {}
                None => Counters::add(&self.counters.state_refused),
            }
        }
        if alerts {
            let flow = flow.map(|flow| (flow, &*state));
            alert::write(rows, rule, &prepared.said, action, flow, packet, moment);
        }
        false
    }

    fn change_state(
        &mut self,
        prepared: &Prepared,
        state: &mut FlowState,
        addresses: [IpAddr; 2],
        flow_name: u64,
        now: i64,
    ) {
        for (option, names) in prepared.rule.state.iter().zip(&prepared.names) {
            let mut has_room = true;
            match option {
                StateOption::Flowbits { op, .. } => {
                    if !matches!(op, BitsOp::IsSet | BitsOp::IsNotSet) {
                        has_room = names.iter().all(|name| state.change_bit(*op, *name));
                    }
                }
                StateOption::Xbits { op, track, seconds, .. } => {
                    if !matches!(op, BitsOp::IsSet | BitsOp::IsNotSet) {
                        let whom = Whom::of(*track, addresses, flow_name);
                        has_room = names
                            .iter()
                            .all(|name| self.shared.change_bit(*op, (*name, whom), *seconds, now));
                    }
                }
                StateOption::Flowint { op, .. } => {
                    let Some(name) = names.first().copied() else { continue };
                    let value = |value: &weir_rules::IntValue| match value {
                        weir_rules::IntValue::Number(number) => Some(*number),
                        weir_rules::IntValue::Name(_) => names.get(1).and_then(|name| state.int(*name)),
                    };
                    let before = state.int(name).unwrap_or(0);
                    let next = match op {
                        IntOp::Set(to) => value(to),
                        IntOp::Add(by) => value(by).map(|by| before.wrapping_add(by)),
                        IntOp::Subtract(by) => value(by).map(|by| before.wrapping_sub(by)),
                        _ => None,
                    };
                    has_room = next.is_none_or(|next| state.set_int(name, next));
                }
            }
            if !has_room {
                Counters::add(&self.counters.state_refused);
            }
        }
    }
}

/// Keeps what is known of sessions that go on.
fn keep_ongoing(state: &mut FlowState, transactions: &[Transaction<'_>], ongoing: Vec<Ongoing>) {
    for (transaction, mut ongoing) in transactions.iter().zip(ongoing) {
        if transaction.early.is_some() {
            ongoing.inspected(transaction);
            state.ongoing.keep(ongoing);
        }
    }
}

/// Whether the filter of a rule holds, if the rule has one.
fn holds(prepared: &Prepared, holds: u64) -> bool {
    prepared.condition.is_none_or(|condition| holds >> condition & 1 != 0)
}

/// A name of a connection that other connections do not have, also later and on other workers.
fn name_of(flow: &TaskFlow<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    (flow.first_time().0, flow.endpoints(), flow.layer()).hash(&mut hasher);
    hasher.finish()
}
