//! What becomes of packets, sessions and connections: the program's terms, and what remained to be
//! asked of connection and session, against the questions.

use crate::counters::Counters;
use crate::flow::{EndReason, FlowView};
use crate::hold::{Account, Held, HoldQueue, Verdict};
use crate::plan::{Plan, Residual, ResidualField, Want};
use crate::stage::Stages;
use crate::subscriber::{Order, Subscriber};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use weir_ir::abi::{Continuation, OUTS_MAX};
use weir_packet::{PacketMeta, Value};
use weir_sessions::{Direction, Session};

/// Bit of a flow's verdict word that no residue uses: its sessions are over.
const SESSIONS_OVER: u64 = 1 << 63;

/// A packet and what the program made of it.
#[derive(Clone, Copy)]
pub(crate) struct PacketView<'a> {
    pub meta: &'a PacketMeta,
    pub frame: &'a [u8],
    /// Terms that it fulfils by itself.
    pub terms: u64,
    /// Its record.
    pub outs: &'a [u64; OUTS_MAX],
    /// What it counts as where no question is given it.
    pub otherwise: Account,
}

/// Names a flow of the run.
pub(crate) type FlowKey = (u32, u32);

/// Sessions held until their connection's record is complete: question bit and session.
type HeldSessions = Vec<(usize, usize, Box<dyn Session>)>;

/// Hands to subscribers what is decided, and holds what is not.
pub(crate) struct Decider<S> {
    pub plan: Arc<Plan>,
    pub subscriber: S,
    /// Kept here, where every stage that lies within another one comes by.
    pub stages: Stages,
    /// What became of packets.
    pub counters: Counters,
    hold: HoldQueue,
    /// Places of held packets, by flow.
    waiting: HashMap<FlowKey, VecDeque<u64>>,
    sessions: HashMap<FlowKey, HeldSessions>,
    ask: Continuation,
    packet_bits: u64,
    plain_bits: u64,
    session_bits: u64,
    /// Bits that hold for want of any session and record.
    absence_bits: u64,
    stream_bits: u64,
    /// Slots of the packet's record in use.
    outs: usize,
}

impl<S: Subscriber> Decider<S> {
    pub fn new(plan: Arc<Plan>, subscriber: S) -> Self {
        let session_bits = plan
            .bits
            .iter()
            .enumerate()
            .filter(|(_, b)| !b.session.is_empty())
            .fold(0, |m, (i, _)| m | 1 << i);
        Self {
            packet_bits: plan.packet_bits(),
            plain_bits: plan.plain_bits(),
            session_bits,
            absence_bits: plan.absence_bits(),
            stream_bits: plan.bits_of(|w| w == Want::Streams),
            outs: plan.program.graph().outs.len().min(OUTS_MAX),
            stages: Stages::new(plan.timed),
            counters: Counters::default(),
            plan,
            subscriber,
            hold: HoldQueue::default(),
            waiting: HashMap::new(),
            sessions: HashMap::new(),
            ask: Continuation::default(),
        }
    }

    /// A packet is through the program. `flow`: its connection's key and verdict word, where it has one.
    #[inline]
    pub fn packet(&mut self, order: Order, packet: &PacketView<'_>, flow: Option<(FlowKey, u64)>) {
        let mine = packet.terms & self.packet_bits;
        if mine == 0 {
            self.count(packet.otherwise);
            return;
        }
        if mine & self.plain_bits == mine && self.hold.is_empty() {
            let questions = self.questions_of(mine);
            self.deliver(order, questions, packet.meta, packet.frame, packet.outs, packet.otherwise);
            return;
        }
        self.packet_with_residue(order, &PacketView { terms: mine, ..*packet }, flow);
    }

    fn packet_with_residue(&mut self, order: Order, packet: &PacketView<'_>, flow: Option<(FlowKey, u64)>) {
        let terms = packet.terms;
        let Some((key, verdict)) = flow else {
            // No flow: no session and no record. What asks for their absence holds.
            let questions = self.questions_of(terms & (self.plain_bits | self.absence_bits));
            self.deliver_in_order(order, questions, packet);
            return;
        };
        let certain = self.questions_of(self.certain(terms, verdict));
        let possible = self.questions_of(self.possible(terms, verdict));
        if certain == possible {
            self.deliver_in_order(order, certain, packet);
            return;
        }
        let place = self.hold.push(self.held(packet, certain, Verdict::Open(key)));
        self.waiting.entry(key).or_default().push_back(place);
        let limits = self.plan.limits;
        while self.hold.len() > limits.held_packets_max || self.hold.bytes() > limits.held_bytes_max {
            self.give_up(order);
        }
    }

    fn held(&self, packet: &PacketView<'_>, questions: u64, verdict: Verdict) -> Held {
        let (terms, outs) = (packet.terms, packet.outs[..self.outs].into());
        let (frame, otherwise) = (packet.frame.into(), packet.otherwise);
        Held { packet: *packet.meta, frame, terms, questions, verdict, otherwise, outs }
    }

    /// The oldest packet that waits goes where it is certain to go.
    fn give_up(&mut self, order: Order) {
        if let Some(key) = self.hold.give_up_oldest() {
            self.counters.packet.undecided += 1;
            let oldest = self.hold.oldest();
            if let Some(places) = self.waiting.get_mut(&key) {
                while places.front().is_some_and(|&place| place <= oldest) {
                    places.pop_front();
                }
                if places.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
        self.release(order);
    }

    /// A packet that is decided: delivered at once, or behind those that wait.
    fn deliver_in_order(&mut self, order: Order, questions: u64, packet: &PacketView<'_>) {
        if questions == 0 || self.hold.is_empty() {
            self.deliver(order, questions, packet.meta, packet.frame, packet.outs, packet.otherwise);
            return;
        }
        self.hold.push(self.held(packet, questions, Verdict::Decided(questions)));
    }

    /// The run is over: what is still undecided goes where it is certain to go.
    pub fn finish(&mut self, order: Order) {
        self.release(order);
        while !self.hold.is_empty() {
            self.give_up(order);
        }
    }

    /// Bits of `terms` that hold for certain.
    fn certain(&self, terms: u64, verdict: u64) -> u64 {
        let mut certain = 0;
        for (index, bit) in self.plan.bits.iter().enumerate() {
            let met = bit.session.is_empty() || verdict >> index & 1 == 1;
            if terms >> index & 1 == 1 && met && bit.connection.is_empty() {
                certain |= 1 << index;
            }
        }
        certain
    }

    /// Bits of `terms` that may yet hold.
    fn possible(&self, terms: u64, verdict: u64) -> u64 {
        let mut possible = 0;
        for (index, bit) in self.plan.bits.iter().enumerate() {
            let met = bit.session.is_empty() || verdict >> index & 1 == 1 || verdict & SESSIONS_OVER == 0;
            if terms >> index & 1 == 1 && met {
                possible |= 1 << index;
            }
        }
        possible
    }

    fn questions_of(&self, bits: u64) -> u64 {
        let mut questions = 0;
        let mut left = bits;
        while left != 0 {
            questions |= 1 << self.plan.bits[left.trailing_zeros() as usize].question;
            left &= left - 1;
        }
        questions
    }

    /// A packet is decided: whoever is to have it is given it, and it is counted.
    fn deliver(
        &mut self,
        order: Order,
        questions: u64,
        packet: &PacketMeta,
        frame: &[u8],
        outs: &[u64],
        otherwise: Account,
    ) {
        self.count(if questions != 0 { Account::Delivered } else { otherwise });
        let mut left = questions;
        while left != 0 {
            self.subscriber.packet(order, left.trailing_zeros() as usize, packet, frame, outs);
            left &= left - 1;
        }
    }

    /// Counts what became of a packet.
    #[inline]
    fn count(&mut self, account: Account) {
        match account {
            Account::Delivered => self.counters.packet.delivered += 1,
            Account::Filtered => self.counters.packet.filtered += 1,
            Account::Dropped(reason) => self.counters.drops.count(reason),
        }
    }

    /// Bits of the questions that are given packets.
    #[inline]
    pub fn packet_bits(&self) -> u64 {
        self.packet_bits
    }

    /// Some question is about streams.
    pub fn wants_streams(&self) -> bool {
        self.stream_bits != 0
    }

    /// Bytes in order, for questions about streams. What depends on a session or the record is not known
    /// yet; such filters are refused when the question is compiled.
    pub fn stream(
        &mut self,
        order: Order,
        flow: &FlowView<'_>,
        from: Direction,
        gap: u64,
        bytes: &[u8],
        terms: u64,
    ) {
        let mut questions = self.questions_of(terms & self.stream_bits & self.plain_bits);
        while questions != 0 {
            self.subscriber.stream(order, questions.trailing_zeros() as usize, flow, from, gap, bytes);
            questions &= questions - 1;
        }
    }

    /// A session is complete. Its flow's verdict word learns which residues it fulfils.
    pub fn session(
        &mut self,
        order: Order,
        flow: &FlowView<'_>,
        key: FlowKey,
        terms: u64,
        protocol: usize,
        session: Box<dyn Session>,
    ) -> u64 {
        let mut met = 0;
        let mut told = 0u64;
        let plan = Arc::clone(&self.plan);
        let mut kept = None;
        for (index, bit) in plan.bits.iter().enumerate() {
            if !bit.session.iter().all(|r| self.session_holds(r, protocol, &*session)) {
                continue;
            }
            met |= 1 << index;
            let Want::Sessions(protocols) = plan.questions[bit.question].want else { continue };
            if terms >> index & 1 == 0 || protocols >> protocol & 1 == 0 || told >> bit.question & 1 == 1 {
                continue;
            }
            if bit.connection.is_empty() {
                told |= 1 << bit.question;
                self.subscriber.session(order, bit.question, flow, protocol, &*session);
            } else {
                kept = Some(index);
            }
        }
        if let Some(index) = kept
            && told >> plan.bits[index].question & 1 == 0
        {
            self.sessions.entry(key).or_default().push((index, protocol, session));
        }
        met & self.session_bits
    }

    fn session_holds(&mut self, residual: &Residual, protocol: usize, session: &dyn Session) -> bool {
        match residual.field {
            ResidualField::Session(p, field) => {
                let value = if p == protocol { session.value(field) } else { Value::Absent };
                residual.holds(&value, &mut self.ask)
            }
            ResidualField::Protocol(p) => (p == protocol) != residual.negated,
            ResidualField::Connection(_) => true,
        }
    }

    /// No further session will come. What holds for want of any session (`not tls`) is met now.
    pub fn sessions_over(&mut self, order: Order, key: FlowKey, verdict: &mut u64) {
        if *verdict & SESSIONS_OVER != 0 {
            return;
        }
        *verdict |= SESSIONS_OVER;
        let plan = Arc::clone(&self.plan);
        for (index, bit) in plan.bits.iter().enumerate() {
            let absent = bit.session.iter().all(|r| r.negated);
            if !bit.session.is_empty() && *verdict >> index & 1 == 0 && absent && *verdict & HAD_SESSION == 0
            {
                *verdict |= 1 << index;
            }
        }
        self.settle(key, *verdict, None);
        self.release(order);
    }

    /// A flow had sessions.
    pub fn note_session(verdict: &mut u64) {
        *verdict |= HAD_SESSION;
    }

    /// The flow's packets that wait: decided, where they can be.
    pub fn settle(&mut self, key: FlowKey, verdict: u64, ended: Option<u64>) {
        if self.waiting.is_empty() {
            return;
        }
        let Some(places) = self.waiting.remove(&key) else { return };
        let mut still = VecDeque::new();
        for place in places {
            let Some((terms, certain)) = self.hold.open_at(place).map(|h| (h.terms, h.questions)) else {
                continue;
            };
            let possible = match ended {
                Some(connection_bits) => {
                    let terms = terms & connection_bits;
                    let now = self.possible(terms, verdict);
                    let questions = self.questions_of(now) | certain;
                    self.hold.decide(place, questions);
                    continue;
                }
                None => self.questions_of(self.possible(terms, verdict)),
            };
            let certain = certain | self.questions_of(self.certain(terms, verdict));
            if possible | certain == certain {
                self.hold.decide(place, certain);
            } else {
                still.push_back(place);
            }
        }
        if !still.is_empty() {
            self.waiting.insert(key, still);
        }
    }

    /// Delivers held packets as far as they are decided.
    pub fn release(&mut self, order: Order) {
        while let Some((held, questions)) = self.hold.pop() {
            let order = Order { at: held.packet.number as i64, ..order };
            self.deliver(order, questions, &held.packet, &held.frame, &held.outs, held.otherwise);
        }
    }

    /// A flow has ended: its record is complete.
    pub fn connection(
        &mut self,
        order: Order,
        flow: &FlowView<'_>,
        key: FlowKey,
        terms: u64,
        verdict: u64,
        reason: EndReason,
    ) {
        let plan = Arc::clone(&self.plan);
        let mut held = 0;
        let mut told = 0u64;
        for (index, bit) in plan.bits.iter().enumerate() {
            if !bit.connection.iter().all(|r| self.connection_holds(r, flow)) {
                continue;
            }
            held |= 1 << index;
            let met = bit.session.is_empty() || verdict >> index & 1 == 1;
            let wanted = plan.questions[bit.question].want == Want::Connections;
            if wanted && met && terms >> index & 1 == 1 && told >> bit.question & 1 == 0 {
                told |= 1 << bit.question;
                self.subscriber.connection(order, bit.question, flow, reason);
            }
        }
        let sessions = if self.sessions.is_empty() { None } else { self.sessions.remove(&key) };
        for (index, protocol, session) in sessions.unwrap_or_default() {
            if held >> index & 1 == 1 {
                let question = plan.bits[index].question;
                self.subscriber.session(order, question, flow, protocol, &*session);
            }
        }
        self.settle(key, verdict | SESSIONS_OVER, Some(held));
        self.release(order);
    }

    fn connection_holds(&mut self, residual: &Residual, flow: &FlowView<'_>) -> bool {
        let ResidualField::Connection(column) = residual.field else { return true };
        let value = (self.plan.connection_value)(flow, column);
        residual.holds(&value, &mut self.ask)
    }
}

/// Bit of a flow's verdict word: it had sessions.
const HAD_SESSION: u64 = 1 << 62;
