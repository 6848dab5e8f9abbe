//! Delivers packets, events, sessions and connections to the subscriber, for the questions that a [`Matcher`]
//! names. [`stream_delivery`](crate::stream_delivery) delivers streams.
//!
//! Undecided items are held until their match is decided. The subscriber holds packets, and is notified when
//! the verdict on their flow changes. This module holds sessions and bytes of streams.

use crate::counters::{Account, Counters};
use crate::effects::{Datagram, Effects, OpenSession};
use crate::emitted::Emitted;
use crate::flow::{EndReason, FlowView};
use crate::flow_ref::FlowRef;
use crate::flow_sessions::KeptSessions;
use crate::flows::Flows;
use crate::held_sessions::{HeldSession, HeldSessions, HeldSessionsMax};
use crate::matcher::{FlowVerdict, Matcher, PacketMatch, SessionMatch};
use crate::oddities::{Oddities, Oddity};
use crate::packet_lists::PacketLists;
use crate::plan::{Plan, SessionVerdict, Want};
use crate::sessions::Yielded;
use crate::sets::{QuestionSet, RemainderSet, Terms};
use crate::stage::Stages;
use crate::stream::{HeldStreams, StreamBudget};
use crate::subscriber::{
    Order, PacketVerdict, SeenPacket, SeenSession, Subscriber, TrackedPacket, Undecided, VerdictUpdate,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use weir_ir::abi::OUTS_MAX;
use weir_packet::{PacketMeta, Timestamp};
use weir_sessions::Session;

/// A packet, and the results of the program on it.
#[derive(Clone, Copy)]
pub(crate) struct PacketView<'a> {
    pub seen: SeenPacket<'a>,
    /// Terms that the packet itself fulfils.
    pub terms: Terms<'a>,
    /// How the packet is counted if no question receives it.
    pub otherwise: Account,
}

/// The state of deliveries: the subscriber, held items until they are decided, and counters of outcomes.
pub(crate) struct Delivery<S> {
    pub matcher: Matcher,
    pub subscriber: S,
    /// The position in the run of what is delivered now.
    pub order: Order,
    /// A flow ends although the current packet does not close it: the packet completes none of its sessions.
    pub ends_unclosed: bool,
    /// Cycle counts. They are kept here because every nested stage has access to the delivery.
    pub stages: Stages,
    /// The outcomes of packets and flows.
    pub counters: Counters,
    /// Flows with undecided packets: connections, and datagrams in fragments.
    waiting: HashSet<FlowRef>,
    /// Sessions of flows whose record decides about them.
    sessions: HeldSessions,
    /// Held streams of flows whose questions are not known yet.
    pub held: HashMap<FlowRef, HeldStreams>,
    /// Memory shared by all streams.
    pub streams: StreamBudget,
    /// Empty; kept for its memory.
    ended: Emitted,
    /// Slots of the packet's record that are in use.
    outs: usize,
    /// Empty between calls: the memory of the list is reused.
    pub yielded: Yielded,
    /// Sessions that receivers have kept.
    kept: KeptSessions,
    /// What is odd, if a question asks.
    odd: Option<Box<Oddities>>,
    lists: PacketLists,
}

fn lists_of(plan: &Plan, subscriber: &impl Subscriber) -> PacketLists {
    let all = plan.questions.len();
    let counted = (0..all).filter(|question| subscriber.only_counts_packets(*question)).collect();
    PacketLists::new(all, counted)
}

impl<S: Subscriber> Delivery<S> {
    pub fn new(plan: Arc<Plan>, subscriber: S) -> Self {
        let odd = plan.odd.as_ref().map(|events| Box::new(Oddities::new(events)));
        Self {
            streams: StreamBudget::new(plan.overload, plan.losses()),
            outs: outs_of(&plan),
            stages: Stages::new(plan.timed),
            counters: Counters::default(),
            lists: lists_of(&plan, &subscriber),
            matcher: Matcher::new(plan),
            subscriber,
            waiting: HashSet::new(),
            sessions: HeldSessions::default(),
            held: HashMap::new(),
            order: Order::default(),
            ends_unclosed: false,
            ended: Emitted::default(),
            yielded: vec![],
            kept: KeptSessions::default(),
            odd,
        }
    }

    /// Makes a session that several receivers may keep. Sessions are charged for the memory of that form.
    pub fn shared(&mut self, session: Box<dyn Session>) -> Arc<dyn Session> {
        let before = weir_memory::live_bytes();
        let session = Arc::from(session);
        self.streams.overload.charge_sessions(weir_memory::live_bytes() - before);
        session
    }

    /// Takes back a session that was delivered; returns the bytes that its flow no longer holds.
    pub fn take_back(&mut self, session: Arc<dyn Session>, protocol: usize) -> usize {
        self.subscriber.release_session();
        let fields = self.matcher.plan.sessions.protocol(protocol).fields;
        self.kept.take_back(session, fields, &mut self.streams.overload)
    }

    /// Releases delivered sessions that no receiver keeps any more.
    #[inline]
    pub fn release_sessions(&mut self) {
        self.kept.release(&mut self.streams.overload);
    }

    /// Notes what is odd about a flow since the last call.
    #[inline]
    pub fn note_odd(&mut self, flow: Option<FlowRef>, time: Timestamp, flows: &Flows) {
        if let Some(odd) = &mut self.odd {
            let mut counters = self.counters;
            flows.count(&mut counters);
            odd.note(flow, time, &counters);
        }
    }

    /// Notes the odd ones of the events of a packet of this flow.
    #[inline]
    pub fn note_odd_events(&mut self, flow: Option<FlowRef>, emitted: &Emitted, packet: &PacketMeta) {
        if let Some(odd) = &mut self.odd {
            for event in emitted.views(packet.time, Some(packet.number)) {
                let low = |column| event.column(column).map(|[_, low]| low);
                odd.note_event((flow, packet.time), event.event.index(), low);
            }
        }
    }

    /// Removes and returns what is odd about a flow that ends at this time.
    pub fn take_odd(&mut self, flow: FlowRef, time: Timestamp, flows: &Flows) -> Vec<Oddity> {
        self.note_odd(Some(flow), time, flows);
        self.odd.as_mut().map(|odd| odd.take(flow)).unwrap_or_default()
    }

    /// Reports what is odd and has no connection.
    pub fn odd_others(&mut self) {
        let others = self.odd.as_mut().map(|odd| odd.take_others()).unwrap_or_default();
        if !others.is_empty() {
            self.subscriber.odd(self.order, &others);
        }
    }

    /// Changes to another plan. `map` translates the remainders that sessions are held for.
    pub fn set_plan(&mut self, plan: Arc<Plan>, map: impl Fn(&RemainderSet) -> RemainderSet) {
        self.outs = outs_of(&plan);
        self.streams.set_losses(plan.losses());
        self.odd = plan.odd.as_ref().map(|events| match self.odd.take() {
            Some(odd) => Box::new(odd.with_events(events)),
            // What was counted before nobody asked belongs to no connection of later.
            None => Box::new(Oddities::later(events)),
        });
        self.lists = lists_of(&plan, &self.subscriber);
        self.matcher = Matcher::new(plan);
        self.sessions.renew(map);
        self.streams.overload.set_held_session_bytes(self.sessions.bytes());
    }

    /// Delivers a packet that the program is done with, and whose [class](Matcher::packet_classes) some
    /// question about packets may receive. `seen` is the packet. `flow` returns the packet's connection and
    /// its verdict, if the packet has a connection.
    #[inline]
    pub fn packet<'a>(
        &mut self,
        terms: Terms<'a>,
        otherwise: Account,
        seen: impl FnOnce() -> SeenPacket<'a>,
        flow: impl FnOnce() -> Option<(FlowRef, SessionVerdict)>,
    ) {
        match self.lists.take(terms, otherwise, &self.matcher, &mut self.counters) {
            Some([]) => {}
            Some(receivers) => {
                let seen = seen();
                for question in receivers {
                    self.subscriber.packet(self.order, *question, &seen);
                }
            }
            None => self.packet_without_list(&PacketView { seen: seen(), terms, otherwise }, flow),
        }
    }

    fn packet_without_list(
        &mut self,
        packet: &PacketView<'_>,
        flow: impl FnOnce() -> Option<(FlowRef, SessionVerdict)>,
    ) {
        match self.matcher.packet(packet.terms, flow) {
            PacketMatch::Decided(questions) => {
                let delivered = !questions.is_empty();
                self.counters.account(if delivered { Account::Delivered } else { packet.otherwise });
                for question in &*questions {
                    if !self.lists.add(question) {
                        self.subscriber.packet(self.order, question, &packet.seen);
                    }
                }
            }
            PacketMatch::Undecided(verdict, possible) => self.hold(packet, &verdict, &possible),
        }
    }

    /// Counts the packets of the lists, and gives the subscriber the numbers of those that were only counted.
    pub fn pass_counts(&mut self) {
        self.lists.settle(&mut self.counters, |question, count| self.subscriber.packets(question, count));
    }

    /// Delivers a packet that waits beside a flow. Questions that the packet alone answers receive the packet
    /// at once. The other questions hold the packet under this name, until the flow that follows decides.
    #[cold]
    pub fn packet_aside(&mut self, packet: &PacketView<'_>, name: FlowRef) {
        let (_, possible) = self.verdict(packet.terms, || Some((name, SessionVerdict::default())));
        let (mut verdict, _) = self.verdict(packet.terms, || None);
        let open = possible.clone() - &verdict.certain;
        if !open.is_empty() {
            verdict.datagram = Some((name, open));
        }
        self.deliver_or_hold(packet, &verdict, &possible);
    }

    /// Delivers a packet that is a fragment of these `datagrams`. If the datagram found last is incomplete,
    /// `terms` are the fragment's certain and possible terms.
    pub fn fragment(
        &mut self,
        packet: &PacketView<'_>,
        terms: Option<[Terms<'_>; 2]>,
        datagrams: &[Datagram],
        flow: impl FnOnce() -> Option<(FlowRef, SessionVerdict)>,
    ) {
        let (mut verdict, mut possible) = self.verdict(packet.terms, flow);
        let incomplete = datagrams.last().filter(|datagram| !datagram.is_complete);
        if let (Some(datagram), Some(terms)) = (incomplete, terms) {
            let [certain, of_datagram] = self.matcher.fragment(terms);
            let open = of_datagram - &certain;
            if !open.is_empty() {
                possible |= &open;
                verdict.datagram = Some((datagram.flow, open));
            }
        }
        self.complete_datagrams(datagrams, &verdict);
        self.deliver_or_hold(packet, &verdict, &possible);
    }

    fn deliver_or_hold(&mut self, packet: &PacketView<'_>, verdict: &PacketVerdict, possible: &QuestionSet) {
        if !verdict.is_decided() {
            return self.hold(packet, verdict, possible);
        }
        let delivered = !verdict.certain.is_empty();
        self.counters.account(if delivered { Account::Delivered } else { packet.otherwise });
        for question in &verdict.certain {
            self.subscriber.packet(self.order, question, &packet.seen);
        }
    }

    /// Which questions receive a packet with these terms, and which may receive it.
    pub fn verdict(
        &self,
        terms: Terms<'_>,
        flow: impl FnOnce() -> Option<(FlowRef, SessionVerdict)>,
    ) -> (PacketVerdict, QuestionSet) {
        match self.matcher.packet(terms, flow) {
            PacketMatch::Decided(questions) => {
                let certain = questions.into_owned();
                (PacketVerdict { certain: certain.clone(), ..PacketVerdict::default() }, certain)
            }
            PacketMatch::Undecided(verdict, possible) => (verdict, possible),
        }
    }

    /// Hands a packet over that is undecided.
    fn hold(&mut self, packet: &PacketView<'_>, verdict: &PacketVerdict, possible: &QuestionSet) {
        self.waiting.extend(verdict.flows().into_iter().flatten());
        let undecided = Undecided {
            verdict,
            possible,
            otherwise: packet.otherwise,
            packet: SeenPacket { outs: &packet.seen.outs[..self.outs], ..packet.seen },
        };
        self.subscriber.undecided(self.order, &undecided);
    }

    /// Decides about the earlier fragments of the datagrams that a packet with this verdict completes.
    pub fn complete_datagrams(&mut self, datagrams: &[Datagram], verdict: &PacketVerdict) {
        for datagram in datagrams.iter().filter(|datagram| datagram.is_complete) {
            self.complete_datagram(datagram.flow, verdict);
        }
    }

    /// Decides about the fragments of a datagram that is complete, or about a packet that waited beside a
    /// flow.
    pub fn complete_datagram(&mut self, name: FlowRef, verdict: &PacketVerdict) {
        if self.waiting.remove(&name) {
            self.subscriber.datagram(self.order, name, Some(verdict));
            // Another datagram may have the name of this one now.
            self.waiting.extend(verdict.flows().into_iter().flatten());
        }
    }

    /// Decides about the fragments of a datagram that ends incomplete.
    #[inline]
    pub fn lose_datagram(&mut self, datagram: FlowRef) {
        if !self.waiting.is_empty() && self.waiting.remove(&datagram) {
            self.subscriber.datagram(self.order, datagram, None);
        }
    }

    /// Counts a packet whose outcome is decided.
    #[inline]
    pub fn count(&mut self, account: Account) {
        self.counters.account(account);
    }

    /// Delivers a packet to the questions that track a connection with these `terms`, whose sessions have
    /// fulfilled the `verdict` so far.
    pub fn tracked_packet(
        &mut self,
        terms: Terms<'_>,
        verdict: impl FnOnce() -> SessionVerdict,
        packet: &TrackedPacket<'_>,
    ) {
        let matching = self.subscriber.asks_what_matches().then(|| {
            let held = self.matcher.record(&packet.flow);
            self.matcher.connection(terms, &verdict(), &held)
        });
        let packet = match &matching {
            Some(matching) => &TrackedPacket { matching, ..*packet },
            None => packet,
        };
        for question in &self.matcher.tracking(terms) {
            self.subscriber.tracked_packet(self.order, question, packet);
        }
    }

    /// Delivers a report of a connection that is due, if the connection matches the question as far as is
    /// known now.
    pub fn report(
        &mut self,
        question: usize,
        terms: Terms<'_>,
        verdict: &SessionVerdict,
        flow: &FlowView<'_>,
    ) {
        let held = self.matcher.record(flow);
        if self.matcher.connection(terms, verdict, &held).contains(question) {
            self.subscriber.report(self.order, question, flow);
        }
    }

    /// Delivers the events that a packet with these `terms` `emitted`, to questions about events, each event
    /// if its columns match.
    pub fn events(&mut self, emitted: &mut Emitted, packet: &PacketMeta, terms: Terms<'_>) {
        self.events_at(packet.time, Some(packet.number), emitted, terms);
    }

    /// Delivers the events that report the end of a flow. Conditions on packets hold if they held for a
    /// packet of the flow, as for the records of connections.
    pub fn ends(&mut self, flow: &FlowView<'_>, terms: Terms<'_>) {
        let plan = Arc::clone(&self.matcher.plan);
        let mut emitted = std::mem::take(&mut self.ended);
        let ends = plan.ends[flow.table.index()].iter().filter(|event| event.interval_ns.is_none());
        ends.for_each(|end| emitted.push_end(end, flow));
        self.events_at(flow.last_time(), None, &mut emitted, terms);
        self.ended = emitted;
    }

    /// Delivers the events that report a flow in this interval, at the time `at` (nanoseconds since 1970).
    pub fn checks(&mut self, flow: &FlowView<'_>, terms: Terms<'_>, interval_ns: i64, at: i64) {
        let plan = Arc::clone(&self.matcher.plan);
        let mut emitted = std::mem::take(&mut self.ended);
        let due = plan.ends[flow.table.index()].iter().filter(|event| event.interval_ns == Some(interval_ns));
        due.for_each(|event| emitted.push_end(event, flow));
        self.events_at(Timestamp(at), None, &mut emitted, terms);
        self.ended = emitted;
    }

    fn events_at(&mut self, time: Timestamp, packet: Option<u64>, emitted: &mut Emitted, terms: Terms<'_>) {
        let remainders = self.matcher.event_remainders(terms);
        if !remainders.is_empty() {
            for event in emitted.views(time, packet) {
                // Each question receives the event once, even if several of its alternatives hold.
                for question in &self.matcher.event(&remainders, &event) {
                    self.subscriber.event(self.order, question, &event);
                }
            }
        }
        self.counters.event.column_bytes_cut += emitted.cut_bytes;
        emitted.clear();
    }

    /// Delivers a complete session. Returns the remainders that the session fulfils, for the flow's verdict.
    /// `known`: the flow's verdict so far. A session that the rest of the packet may decide is added to the
    /// `effects`.
    pub fn session(
        &mut self,
        effects: &mut Effects,
        flow: &FlowView<'_>,
        known: &FlowVerdict,
        protocol: usize,
        session: Arc<dyn Session>,
    ) -> RemainderSet {
        let plan = &self.matcher.plan;
        let (remainders, open) =
            (plan.remainders_of(Terms::of(&known.terms)), plan.remainders_of(Terms::of(&known.open)));
        let given = QuestionSet::EMPTY;
        let is_in_packet = self.order.phase == Order::PACKET && !self.ends_unclosed;
        let packet = is_in_packet.then_some(self.order.at as u64);
        let waiting = OpenSession { flow: flow.flow_ref(), protocol, session, packet, remainders, given };
        let (verdict, given) = self.session_by(flow, &waiting.remainders, &waiting);
        if self.matcher.wants_session(protocol, &(open - &waiting.remainders)) {
            effects.push_session(OpenSession { given, ..waiting });
        }
        verdict
    }

    /// Delivers a session that goes on to the questions that track its connection. No filter depends on the
    /// session.
    pub fn early_session(
        &mut self,
        flow: &FlowView<'_>,
        known: &FlowVerdict,
        protocol: usize,
        session: &Arc<dyn Session>,
    ) {
        for question in &self.matcher.tracking(Terms::of(&known.terms)) {
            let Want::Tracked(protocols) = self.matcher.plan.questions[question].want else { continue };
            if protocols.contains(protocol) {
                let seen = SeenSession { protocol, session, packet: None };
                self.subscriber.tracked_session(self.order, question, flow, &seen);
            }
        }
    }

    /// Reports the protocol of a connection to the questions that track it; `None`: no wanted one.
    pub fn recognised(&mut self, flow: &FlowView<'_>, known: &FlowVerdict, protocol: Option<usize>) {
        for question in &self.matcher.tracking(Terms::of(&known.terms)) {
            self.subscriber.recognised(question, flow, protocol);
        }
    }

    /// Delivers a session to those questions of these remainders that have not received it. Returns the
    /// remainders of verdicts that the session fulfils, and all questions that have received it.
    pub fn session_by(
        &mut self,
        flow: &FlowView<'_>,
        remainders: &RemainderSet,
        waiting: &OpenSession,
    ) -> (RemainderSet, QuestionSet) {
        let &OpenSession { protocol, ref session, packet, given: ref before, .. } = waiting;
        let tracking = self.matcher.tracking_by(remainders);
        for question in &(&tracking - before) {
            let Want::Tracked(protocols) = self.matcher.plan.questions[question].want else { continue };
            if protocols.contains(protocol) {
                let seen = SeenSession { protocol, session, packet };
                self.subscriber.tracked_session(self.order, question, flow, &seen);
            }
        }
        let SessionMatch { verdict, questions, mut open } =
            self.matcher.session(remainders, protocol, &**session);
        for question in &(&questions - before) {
            self.subscriber.session(self.order, question, flow, &SeenSession { protocol, session, packet });
        }
        let given = questions | before;
        if !open.is_empty() {
            open -= &self.matcher.plan.bits_of_questions(&given);
        }
        if !open.is_empty() {
            self.hold_session(waiting, open);
        }
        (verdict, given | &tracking)
    }

    /// Holds a session for these remainders until the record of its connection is complete. Beyond a bound,
    /// the session is lost to their questions.
    fn hold_session(&mut self, waiting: &OpenSession, open: RemainderSet) {
        let &OpenSession { protocol, ref session, packet, .. } = waiting;
        let plan = &self.matcher.plan;
        let fields = plan.sessions.protocol(protocol).fields;
        let overload = &mut self.streams.overload;
        let max =
            HeldSessionsMax { count: plan.limits.held_sessions_max, bytes: overload.held_sessions_max() };
        let is_held = self.sessions.hold(
            (waiting.flow, fields),
            &SeenSession { protocol, session, packet },
            open,
            &max,
        );
        overload.set_held_session_bytes(self.sessions.bytes());
        self.counters.session.sessions_undecided += u64::from(!is_held);
    }

    /// The flow will have no further session: conditions on the absence of sessions (`not tls`) hold from now
    /// on. Returns the flow's new verdict.
    #[must_use]
    pub fn sessions_over(&mut self, flow: FlowRef, verdict: SessionVerdict) -> SessionVerdict {
        if verdict.is_over {
            return verdict;
        }
        let verdict = self.matcher.without_further_sessions(verdict);
        self.settle(VerdictUpdate { flow, verdict: verdict.clone(), ended: None });
        verdict
    }

    /// Reports a new verdict to the held packets of a flow, if there are any.
    pub fn settle(&mut self, update: VerdictUpdate) {
        if self.waiting.is_empty() || !self.waiting.contains(&update.flow) {
            return;
        }
        if update.ended.is_some() {
            self.waiting.remove(&update.flow);
        }
        self.subscriber.settled(self.order, update);
    }

    /// Delivers the complete record of a flow that has ended.
    pub fn connection(&mut self, flow: &FlowView<'_>, known: FlowVerdict, reason: EndReason) {
        let FlowVerdict { terms, verdict, .. } = known;
        if self.waiting.is_empty()
            && self.sessions.is_empty()
            && let Some(questions) = self.matcher.plain_records(Terms::of(&terms))
        {
            for question in &*questions {
                self.subscriber.connection(self.order, question, flow, reason);
            }
            return;
        }
        let held = self.matcher.record(flow);
        let name = flow.flow_ref();
        // Held sessions precede the record of their connection, as sessions do that need not wait.
        let sessions = self.sessions.take(name);
        if !sessions.is_empty() {
            self.streams.overload.set_held_session_bytes(self.sessions.bytes());
        }
        for HeldSession { open, protocol, session, packet, .. } in sessions {
            let seen = SeenSession { protocol, session: &session, packet };
            // Each question receives the session once, even if several of its alternatives hold.
            for question in &self.matcher.plan.questions_of(&(open & &held)) {
                self.subscriber.session(self.order, question, flow, &seen);
            }
        }
        let questions = self.matcher.connection(Terms::of(&terms), &verdict, &held);
        for question in &questions {
            self.subscriber.connection(self.order, question, flow, reason);
        }
        for question in &(self.matcher.trackers() - &questions) {
            self.subscriber.untracked(question, name);
        }
        let verdict = SessionVerdict { is_over: true, ..verdict };
        self.settle(VerdictUpdate { flow: name, verdict, ended: Some(held) });
    }
}

/// Slots of a packet's record that a plan's program uses.
fn outs_of(plan: &Plan) -> usize {
    plan.program.graph().outs.len().min(OUTS_MAX)
}
