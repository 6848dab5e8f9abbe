//! What becomes of packets, sessions and connections: the program's terms, and what remained to be
//! asked of connection and session, against the questions.

use crate::counters::Counters;
use crate::flow::{EndReason, FlowView};
use crate::hold::{Held, HoldQueue, Verdict};
use crate::plan::{Plan, Residual, ResidualField, Want};
use crate::subscriber::{Order, Subscriber};
use std::collections::HashMap;
use std::sync::Arc;
use weir_ir::abi::{Continuation, OUTS_MAX};
use weir_packet::{Block, PacketMeta, Value};
use weir_sessions::{Direction, Session};

/// Bit of a flow's verdict word that no residue uses: its sessions are over.
const SESSIONS_OVER: u64 = 1 << 63;

/// Names a flow of the run.
pub(crate) type FlowKey = (u32, u32);

/// Sessions held until their connection's record is complete: question bit and session.
type HeldSessions = Vec<(usize, usize, Box<dyn Session>)>;

/// Hands to subscribers what is decided, and holds what is not.
pub(crate) struct Decider<S> {
    pub plan: Arc<Plan>,
    pub subscriber: S,
    hold: HoldQueue,
    /// Places of held packets, by flow.
    waiting: HashMap<FlowKey, Vec<u64>>,
    sessions: HashMap<FlowKey, HeldSessions>,
    ask: Continuation,
    packet_bits: u64,
    plain_bits: u64,
    session_bits: u64,
    /// Bits that hold for want of any session and record.
    absence_bits: u64,
    streams: bool,
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
            streams: plan.questions.iter().any(|q| q.want == Want::Streams),
            plan,
            subscriber,
            hold: HoldQueue::default(),
            waiting: HashMap::new(),
            sessions: HashMap::new(),
            ask: Continuation::default(),
        }
    }

    /// A packet is through the program. `flow`: its flow's key and verdict word, where it has one.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub fn packet(
        &mut self,
        order: Order,
        packet: &PacketMeta,
        frame: &[u8],
        block: &Arc<Block>,
        terms: u64,
        outs: &[u64; OUTS_MAX],
        flow: Option<(FlowKey, u64)>,
        counters: &mut Counters,
    ) {
        let mine = terms & self.packet_bits;
        if mine == 0 {
            return;
        }
        if mine & self.plain_bits == mine && self.hold.is_empty() {
            let questions = self.questions_of(mine);
            self.deliver(order, questions, packet, frame, outs);
            return;
        }
        self.packet_with_residue(order, packet, frame, block, mine, outs, flow, counters);
    }

    #[allow(clippy::too_many_arguments)]
    fn packet_with_residue(
        &mut self,
        order: Order,
        packet: &PacketMeta,
        frame: &[u8],
        block: &Arc<Block>,
        terms: u64,
        outs: &[u64; OUTS_MAX],
        flow: Option<(FlowKey, u64)>,
        counters: &mut Counters,
    ) {
        let Some((key, verdict)) = flow else {
            // No flow: no session and no record. What asks for their absence holds.
            let questions = self.questions_of(terms & (self.plain_bits | self.absence_bits));
            self.deliver_in_order(order, questions, packet, frame, block, terms, outs);
            return;
        };
        let certain = self.questions_of(self.certain(terms, verdict));
        let possible = self.questions_of(self.possible(terms, verdict));
        if certain == possible {
            self.deliver_in_order(order, certain, packet, frame, block, terms, outs);
            return;
        }
        let place = self.hold.push(Held {
            packet: *packet,
            block: Arc::clone(block),
            terms,
            questions: certain,
            verdict: Verdict::Open,
            outs: Some(Box::new(*outs)),
        });
        self.waiting.entry(key).or_default().push(place);
        while self.hold.len() > self.plan.limits.held_packets_max {
            counters.packet.undecided += 1;
            self.hold.give_up_oldest();
            self.release(order);
        }
    }

    /// A packet that is decided: delivered at once, or behind those that wait.
    #[allow(clippy::too_many_arguments)]
    fn deliver_in_order(
        &mut self,
        order: Order,
        questions: u64,
        packet: &PacketMeta,
        frame: &[u8],
        block: &Arc<Block>,
        terms: u64,
        outs: &[u64; OUTS_MAX],
    ) {
        if questions == 0 {
            return;
        }
        if self.hold.is_empty() {
            self.deliver(order, questions, packet, frame, outs);
            return;
        }
        self.hold.push(Held {
            packet: *packet,
            block: Arc::clone(block),
            terms,
            questions,
            verdict: Verdict::Decided(questions),
            outs: Some(Box::new(*outs)),
        });
    }

    /// The run is over: what is still undecided goes where it is certain to go.
    pub fn finish(&mut self, order: Order, counters: &mut Counters) {
        self.release(order);
        while !self.hold.is_empty() {
            counters.packet.undecided += 1;
            self.hold.give_up_oldest();
            self.release(order);
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

    fn deliver(&mut self, order: Order, questions: u64, packet: &PacketMeta, frame: &[u8], outs: &[u64]) {
        let mut left = questions;
        while left != 0 {
            self.subscriber.packet(order, left.trailing_zeros() as usize, packet, frame, outs);
            left &= left - 1;
        }
    }

    /// Bits of the questions that are given packets.
    #[inline]
    pub fn packet_bits(&self) -> u64 {
        self.packet_bits
    }

    /// Some question is about streams.
    pub fn wants_streams(&self) -> bool {
        self.streams
    }

    /// Bytes in order, for questions about streams.
    pub fn stream(
        &mut self,
        order: Order,
        flow: &FlowView<'_>,
        from: Direction,
        gap: u64,
        bytes: &[u8],
        terms: u64,
    ) {
        for (index, bit) in self.plan.bits.iter().enumerate() {
            if terms >> index & 1 == 1 && self.plan.questions[bit.question].want == Want::Streams {
                self.subscriber.stream(order, bit.question, flow, from, gap, bytes);
            }
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
            if !bit.session.is_empty()
                && *verdict >> index & 1 == 0
                && absent
                && !self.had_session(bit, *verdict)
            {
                *verdict |= 1 << index;
            }
        }
        self.settle(key, *verdict, None);
        self.release(order);
    }

    /// Whether a flow had a session at all is not kept; a session that failed a negated residue has
    /// left its mark in no bit, so negated residues of flows with sessions were settled when it came.
    fn had_session(&self, _bit: &crate::plan::BitPlan, verdict: u64) -> bool {
        verdict & HAD_SESSION != 0
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
        let mut still = vec![];
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
                still.push(place);
            }
        }
        if !still.is_empty() {
            self.waiting.insert(key, still);
        }
    }

    /// Delivers held packets as far as they are decided.
    pub fn release(&mut self, order: Order) {
        while let Some((held, questions)) = self.hold.pop() {
            let frame =
                &held.block.bytes[held.packet.offset as usize..][..held.packet.captured_bytes as usize];
            let outs = held.outs.as_deref().expect("stored with the packet");
            let order = Order { at: held.packet.number as i64, ..order };
            self.deliver(order, questions, &held.packet, frame, outs);
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
