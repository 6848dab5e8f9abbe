//! Processes one packet through its flows: a packet of a burst, or a kept packet that is read again for its
//! messages when its flow ends ([`flow_end`](crate::flow_end)). Lookups and tails alternate until the program
//! is done.
//!
//! A packet may find a flow that has to end before the packet continues: the flow was idle for too long, or
//! the packet restarts it. [`PacketRun::advance`] then returns that flow. Its caller ends the flow and calls
//! `advance` again: flows never end inside this loop.

use crate::counters::Account;
use crate::delivery::{Delivery, PacketView};
use crate::effects::{Effects, OverFlow};
use crate::flow::EndReason;
use crate::flow_hit::FlowHit;
use crate::flow_ref::FlowRef;
use crate::flows::{Flows, Joining, Lookup};
use crate::host::{Origin, TailHost};
use crate::nesting::Nesting;
use crate::packet_ctx::PacketCtx;
use crate::replay_host::{Retraced, retrace};
use crate::sequence::FrameRef;
use crate::sets::Terms;
use crate::settle::{SettleScope, settle_open};
use crate::stream::Moment;
use crate::subscriber::{SeenPacket, Subscriber, TrackedPacket};
use crate::table::FlowId;
use weir_ir::abi::{Continuation, FlowRecord, Resume, Step};
use weir_ir::engine_var::ASIDE_NEW;
use weir_packet::{Direction, DropReason};

/// The state of a packet between head and tail.
#[derive(Clone)]
pub(crate) struct Lane {
    pub k: Continuation,
    pub step: Step,
    /// The flow that the program most likely requests first.
    pub likely: Option<FlowId>,
}

impl Default for Lane {
    fn default() -> Self {
        Self { k: Continuation::default(), step: Step::Done(None), likely: None }
    }
}

impl Lane {
    /// The classes of the packet. Valid when the program is done with the packet.
    #[inline]
    pub fn terms(&self, flows: &Flows) -> Terms<'_> {
        Terms::new(self.k.terms, &self.k.outs[flows.further_terms()])
    }
}

/// The position of a packet among its connections.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub nesting: Nesting,
    /// The flow found last that is no connection and whose end an event reports: it collects the classes of
    /// its packets.
    reporting: Option<OverFlow>,
    lookups: u32,
    /// Flows that the program has looked up.
    found: u32,
    restarting: Restarting,
    /// The packet's name, if the packet waits beside the flow found last: it does not belong to that flow.
    aside: Option<FlowRef>,
}

/// What a restart means that the program requests next.
#[derive(Debug, Clone, Copy, Default)]
enum Restarting {
    /// The flow found last ends.
    #[default]
    Found,
    /// That flow has ended. The flow that follows exists if packets waited beside the old one.
    Ended,
    /// The packet does not join this flow, if the program has not agreed.
    Asked(Joining),
}

/// The reading of a packet that was kept, when a flow ends: of the last packet of that flow, for the messages
/// that the flow carries, or of a packet that waited beside that flow.
///
/// Up to the messages, or up to the flow that follows, no flow changes.
pub(crate) struct Rereading {
    /// The flow that ends.
    pub flow: FlowRef,
    /// Why the flow ends.
    pub reason: EndReason,
    /// Flows that were created for the contents of the messages, or for a packet that waited.
    pub made: Vec<FlowHit>,
    /// The packet waited beside the flow.
    pub aside: Option<Beside>,
    /// The number of the first packet of that flow.
    pub first_packet: u64,
}

/// A packet that waited beside a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beside {
    /// The number of flows that the packet finds first: those of the tunnels around the packet. The next
    /// flow that the packet asks for is the one that follows the flow beside which it waited.
    pub lookups: u32,
    /// The name of the packet.
    pub name: FlowRef,
}

/// A connection of a packet, for the questions that track it.
struct Tracked<'a> {
    found: FlowHit,
    outs: &'a [u64],
    is_outer: bool,
}

/// Delivers a packet to the questions that track this connection of the packet.
fn track<S: Subscriber>(
    at: &PacketCtx<'_>,
    flows: &Flows,
    delivery: &mut Delivery<S>,
    Tracked { found, outs, is_outer }: Tracked<'_>,
) {
    if let Some(tracked) = flows.tracked(found, at.packet, at.frame, outs) {
        let of_connection = flows.terms_of(found.flow());
        let verdict = || flows.verdict(found).map(|(_, verdict)| verdict).unwrap_or_default();
        let tracked = TrackedPacket { is_outer, ..tracked };
        delivery.tracked_packet(Terms::of(&of_connection), verdict, &tracked);
    }
}

/// A packet that is being processed.
pub(crate) struct PacketRun<'a, S> {
    pub at: &'a PacketCtx<'a>,
    pub lane: &'a mut Lane,
    pub place: Place,
    pub flows: &'a mut Flows,
    pub delivery: &'a mut Delivery<S>,
    /// The effects that are applied at the end of the packet.
    pub effects: &'a mut Effects,
    /// Set if the packet is read again.
    pub rereading: Option<&'a mut Rereading>,
}

/// The result of processing a packet as far as possible.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Advance {
    /// The program is done, and may drop the packet.
    Through(Option<DropReason>),
    /// Processing stopped at a bound, for this reason. `None` if a packet that is read again cannot reach its
    /// messages.
    Stopped(Option<DropReason>),
    /// This flow has to end before the packet continues.
    Ends(FlowRef, EndReason),
}

impl<S: Subscriber> PacketRun<'_, S> {
    /// Processes the packet from the step of the head, or from the flow that had to end, as far as possible.
    pub fn advance(&mut self) -> Advance {
        loop {
            let flow = match self.lane.step {
                Step::Done(reason) => return Advance::Through(reason),
                _ if self.place.lookups == self.flows.lookups_max() => {
                    self.stay_apart();
                    return Advance::Stopped(Some(DropReason::NestingLimit));
                }
                step if self.is_retraced() => {
                    if step == Step::Restart {
                        return Advance::Stopped(None);
                    }
                    self.place.lookups += 1;
                    self.place.found += 1;
                    self.reread();
                    continue;
                }
                Step::Lookup => self.look_up(),
                Step::Restart => self.restart(),
            };
            match flow {
                Ok(flow) => {
                    self.place.lookups += 1;
                    self.lane.step = self.run_tail(flow);
                    self.flows.give_back();
                }
                Err(advance) => return advance,
            }
        }
    }

    /// Looks up the flow that the program requests, or creates it.
    #[inline]
    fn look_up(&mut self) -> Result<FlowHit, Advance> {
        self.place.restarting = Restarting::Found;
        self.place.found += 1;
        let Lane { k, likely, .. } = &mut *self.lane;
        // The head's caller has hashed the first key of a packet, unless the packet is read again.
        if self.place.lookups > 0 || self.rereading.is_some() {
            if self.flows.messages.take_begun() {
                self.place.nesting.enter_message();
            }
            self.flows.hash(k);
            *likely = None;
        }
        self.flows.take_part(k);
        if let Some(rereading) = &self.rereading
            && rereading.is_of_the_past(self.flows, k)
        {
            return Err(Advance::Stopped(None));
        }
        let flow = self.find_or_make()?;
        let table = flow.table();
        self.note_reporting(flow);
        if !self.flows.is_observed(table) {
            self.note_fragment(flow);
        } else if self.place.nesting.enter(flow, self.flows.is_part(table)) {
            self.record_outer(flow);
            if let (Some(outer), None) = (self.place.nesting.outer(), self.place.nesting.carrier()) {
                self.flows.record_outer_terms(outer, &self.lane.k);
                if !self.delivery.matcher.trackers().is_empty() {
                    let tracked = Tracked { found: outer, outs: &[], is_outer: true };
                    track(self.at, self.flows, self.delivery, tracked);
                }
            }
        }
        Ok(flow)
    }

    /// Finds the flow that the program requests, or creates it.
    #[inline]
    fn find_or_make(&mut self) -> Result<FlowHit, Advance> {
        let Lane { k, likely, .. } = &mut *self.lane;
        match self.flows.find(k, *likely, self.at.packet, self.effects) {
            Lookup::Live(flow) => Ok(flow),
            Lookup::Over(flow, reason) => {
                // Another flow will occupy the slot of the flow that ends.
                *likely = None;
                Err(Advance::Ends(flow, reason))
            }
            Lookup::Unknown => self.join_or_make(0),
        }
    }

    /// Finds a flow with other tags that the packet may join, or creates a flow.
    #[inline]
    fn join_or_make(&mut self, from: usize) -> Result<FlowHit, Advance> {
        match self.flows.joinable(&self.lane.k, from, self.at.packet.time.0) {
            Some(joining) => {
                self.place.restarting = Restarting::Asked(joining);
                Ok(joining.flow)
            }
            None => self.make(),
        }
    }

    /// Replaces the flow found last, as the program requests: by a new flow, or by one that the packets
    /// beside the old flow have begun.
    fn restart(&mut self) -> Result<FlowHit, Advance> {
        self.flows.take_part(&self.lane.k);
        if let Some(next) = self.stay_apart() {
            let flow = self.join_or_make(next)?;
            return Ok(self.replace(flow));
        }
        if !matches!(self.place.restarting, Restarting::Ended)
            && let Some(old) = self.flows.restarted(&self.lane.k)
        {
            self.place.restarting = Restarting::Ended;
            self.lane.likely = None;
            return Err(Advance::Ends(old, EndReason::Restart));
        }
        let flow = self.find_or_make()?;
        if matches!(self.place.restarting, Restarting::Ended) {
            self.place.restarting = Restarting::Found;
        }
        Ok(self.replace(flow))
    }

    /// If the program was asked whether the packet joins a flow, and has not agreed: lets that flow be as it
    /// was. Returns the number of tags tried.
    fn stay_apart(&mut self) -> Option<usize> {
        let Restarting::Asked(Joining { flow, next }) = self.place.restarting else { return None };
        self.place.restarting = Restarting::Found;
        let flow = flow.flow();
        let is_asked = self.flows.is_live(flow) && self.flows.is_asked_to_join(flow);
        is_asked.then(|| {
            self.flows.stays_apart(flow);
            next
        })
    }

    /// Records that the packet belongs to this flow, and not to the one found last.
    fn replace(&mut self, flow: FlowHit) -> FlowHit {
        self.note_reporting(flow);
        if self.place.nesting.restart(flow) {
            self.record_outer(flow);
        }
        self.note_fragment(flow);
        flow
    }

    /// If events alone report the end of the flow: records that the packet belongs to the flow.
    #[inline]
    fn note_reporting(&mut self, flow: FlowHit) {
        if self.flows.reports_ends_alone(flow.table()) {
            self.place.reporting = Some(self.named(flow));
        }
    }

    fn named(&self, flow: FlowHit) -> OverFlow {
        let flow = flow.flow();
        OverFlow { flow, first_packet: self.flows.first_packet(flow) }
    }

    /// If the flow is a datagram, and a question asks for its fragments: records that the packet is one of
    /// them.
    #[inline]
    fn note_fragment(&mut self, flow: FlowHit) {
        if self.flows.holds_fragments(flow.table()) {
            self.effects.push_datagram(flow.flow());
        }
    }

    fn make(&mut self) -> Result<FlowHit, Advance> {
        let Delivery { counters, streams, matcher, .. } = &mut *self.delivery;
        let overload = &mut streams.overload;
        let flow = match self.flows.make(&self.lane.k, self.at.packet, &mut counters.flow, overload, matcher)
        {
            Ok(flow) => flow,
            Err(Some(victim)) => return Err(Advance::Ends(victim, EndReason::Shed)),
            Err(None) => return Err(Advance::Stopped(Some(DropReason::FlowLimit))),
        };
        if let Some(rereading) = &mut self.rereading {
            // Another flow may have occupied the same slot before.
            rereading.made.retain(|other| other.flow() != flow.flow());
            rereading.made.push(flow);
        }
        Ok(flow)
    }

    /// Records the connection that a flow runs in, if one of both is new.
    #[inline]
    fn record_outer(&mut self, flow: FlowHit) {
        if let Some(outer) = self.place.nesting.outer()
            && (flow.is_new() || outer.is_new())
        {
            self.flows.record_outer(flow, outer, &self.lane.k, self.at.packet.time);
        }
    }

    /// The packet is read again, and the program has not reached the messages, or the flow that follows.
    #[inline]
    fn is_retraced(&self) -> bool {
        self.rereading.as_ref().is_some_and(|rereading| match rereading.aside {
            Some(beside) => self.place.found < beside.lookups,
            None => !self.flows.messages.is_reading(),
        })
    }

    /// Runs the tail with a flow that the first reading of the packet found. The flow is not changed.
    fn reread(&mut self) {
        let Some(rereading) = &self.rereading else { return };
        let Lane { k, step, .. } = &mut *self.lane;
        self.flows.hash(k);
        self.flows.take_part(k);
        let is_aside = rereading.aside.is_some();
        let retraced = match self.flows.known(k) {
            Some(found) if is_aside => {
                if self.flows.is_observed(found.table()) {
                    self.place.nesting.enter(found, self.flows.is_part(found.table()));
                }
                Retraced::Other(found)
            }
            Some(found) if self.place.nesting.carrier().is_none() && found.flow() == rereading.flow => {
                Retraced::Carrier(found)
            }
            Some(found) => Retraced::Other(found),
            None => Retraced::Gone,
        };
        *step = retrace(self.flows, self.at, k, &mut self.effects.emitted, retraced);
        self.flows.give_back();
        if let Retraced::Carrier(carrier) = retraced {
            self.place.nesting.carry(carrier);
        }
    }

    /// Runs the tail with the flow that the packet, or a message in it, requests.
    #[inline]
    fn run_tail(&mut self, flow: FlowHit) -> Step {
        let &PacketCtx { program, packet, frame, .. } = self.at;
        self.flows.messages.enter_flow();
        let (mut tail, data) = self.flows.open(flow);
        let origin = Origin::Current;
        let mut host =
            TailHost { at: self.at, flow: &mut tail, delivery: self.delivery, effects: self.effects, origin };
        let resume = Resume {
            packet,
            frame,
            flow: FlowRecord { id: flow.id().0, data: &mut *data },
            direction: Direction::responder_if(flow.is_responder()),
            is_new: flow.is_new(),
        };
        let step = program.resume(&mut host, resume, &mut self.lane.k);
        let is_aside = tail.layout.aside_at.is_some_and(|at| data[at] & ASIDE_NEW != 0);
        if is_aside {
            self.put_aside(flow);
            return step;
        }
        if let Some(millis) = tail.changed_timeout(data, flow.is_new()) {
            self.set_timeout(flow, millis);
        }
        step
    }

    /// Lets the packet wait beside the flow, which it leaves as it was.
    #[cold]
    fn put_aside(&mut self, flow: FlowHit) {
        let &PacketCtx { packet, frame, .. } = self.at;
        // A message is no packet, and the frame of a flow in a message is that of its carrier.
        let is_packet = !self.flows.messages.is_reading();
        let frame = FrameRef { meta: packet, bytes: frame };
        self.place.aside = self.flows.put_aside(flow, is_packet.then_some(frame), self.place.found - 1);
        if self.place.aside.is_none() {
            self.delivery.counters.flow.aside_refused += 1;
        }
    }

    /// Sets a new time-out of a flow in milliseconds; 0 means that the flow is finished.
    fn set_timeout(&mut self, flow: FlowHit, millis: u32) {
        let now = self.at.packet.time.0;
        if !flow.is_new() {
            self.flush_chunks(flow, now);
        }
        if millis > 0 {
            self.flows.schedule(flow, now, millis);
        } else if self.flows.is_seen(flow.table()) {
            // The flow decides about its last packet first, and its messages are read.
            self.effects.push_over(self.named(flow));
        } else {
            self.flows.remove_unseen(flow.flow(), &mut self.delivery.counters.flow);
            if !self.effects.forget_datagram(flow.flow()) {
                self.delivery.lose_datagram(flow.flow());
            }
        }
    }

    /// Delivers the chunks of a flow whose time-out was shortened: little more will come, and many such flows
    /// may exist at a time.
    fn flush_chunks(&mut self, flow: FlowHit, now: i64) {
        if let Some((view, streams)) = self.flows.streams_of(flow.flow())
            && streams.have_chunks()
        {
            self.delivery.flush_chunks(Moment::at(now), &view, streams);
        }
    }

    /// Settles a packet of a burst, which was dropped for `reason` or not: delivers events, the packet, and
    /// undecided bytes and sessions. Finished flows end after that.
    #[inline]
    pub fn settle(&mut self, reason: Option<DropReason>) {
        self.flows.messages.forget_begun();
        self.count(reason);
        if !self.effects.emitted.is_empty() {
            let terms = self.lane.terms(self.flows);
            self.delivery.note_odd_events(self.owner(), &self.effects.emitted, self.at.packet);
            self.delivery.events(&mut self.effects.emitted, self.at.packet, terms);
        }
        self.decide(reason);
        self.settle_open();
        self.delivery.note_odd(self.owner(), self.at.packet.time, self.flows);
    }

    /// The connection that the packet belongs to.
    fn owner(&self) -> Option<FlowRef> {
        self.place.nesting.owner().map(FlowHit::flow)
    }

    /// Clears the classes of a packet whose processing stopped before its program was done.
    pub fn forget_terms(&mut self) {
        self.lane.k.terms = 0;
        self.lane.k.outs[self.flows.further_terms()].fill(0);
    }

    /// Settles a packet that was read again: delivers the events of its messages, and undecided bytes and
    /// sessions.
    pub fn settle_messages(&mut self, is_through: bool) {
        if let Some(carrier) = self.place.nesting.carrier().filter(|_| is_through) {
            let terms = self.lane.terms(self.flows);
            self.flows.record_terms(carrier.flow(), terms, |_, _| {});
            self.delivery.events(&mut self.effects.emitted, self.at.packet, terms);
        }
        if self.effects.has_datagrams() {
            self.complete_datagrams();
        }
        self.settle_open();
        self.flows.messages.abandon();
        self.flows.messages.forget_begun();
        self.effects.emitted.clear();
    }

    /// Settles a packet that waited beside a flow, once the packet's connection is known. Questions that
    /// track the connection receive the packet, and questions that hold the packet are decided. The packet's
    /// events, undecided bytes and sessions are delivered. Questions that the packet alone answers received
    /// the packet when it came.
    pub fn settle_aside(&mut self, name: FlowRef, is_through: bool) {
        if is_through {
            self.note_connection();
            let flows = &*self.flows;
            let flow = || self.connection().and_then(|found| flows.verdict(found));
            let (verdict, _) = self.delivery.verdict(self.lane.terms(flows), flow);
            self.delivery.complete_datagram(name, &verdict);
            let terms = self.lane.terms(self.flows);
            self.delivery.note_odd_events(self.owner(), &self.effects.emitted, self.at.packet);
            self.delivery.events(&mut self.effects.emitted, self.at.packet, terms);
        } else {
            self.delivery.lose_datagram(name);
        }
        self.settle_open();
        self.flows.messages.forget_begun();
        self.effects.emitted.clear();
        self.effects.clear_datagrams();
    }

    #[inline]
    fn settle_open(&mut self) {
        if self.effects.is_open() {
            let terms = self.lane.terms(self.flows);
            let settled = SettleScope::Packet { packet: self.at.packet(), terms };
            settle_open(self.flows, self.delivery, self.effects, settled);
        }
    }

    fn count(&mut self, reason: Option<DropReason>) {
        self.delivery.counters.packet.add(self.at.packet);
        if let Some(reason) = reason {
            self.delivery.counters.met.count(reason);
        }
    }

    /// Decides which questions receive the packet.
    #[inline]
    fn decide(&mut self, reason: Option<DropReason>) {
        let &PacketCtx { block, packet, extras, index, .. } = self.at;
        let (connection, is_for_others) = (self.connection(), self.note_connection());
        let terms = self.lane.terms(self.flows);
        if let Some(OverFlow { flow, first_packet }) = self.place.reporting {
            if self.flows.take_live(flow, first_packet) {
                self.flows.record_terms(flow, terms, |_, _| {});
            }
            self.flows.give_back();
        }
        let otherwise = match reason {
            _ if is_for_others => Account::Delivered,
            Some(reason) => Account::Dropped(reason),
            None => Account::Filtered,
        };
        if self.effects.has_datagrams() {
            return self.decide_fragment(reason, otherwise);
        }
        if !terms.intersects(self.delivery.matcher.packet_classes()) {
            return self.delivery.count(otherwise);
        }
        let flows = &*self.flows;
        let flow = || connection.and_then(|found| flows.verdict(found));
        let outs = &self.lane.k.outs;
        let seen = || SeenPacket { meta: packet, block, extra: extras.get(index), outs };
        match self.place.aside {
            Some(name) => self.delivery.packet_aside(&PacketView { seen: seen(), terms, otherwise }, name),
            None => self.delivery.packet(terms, otherwise, seen, flow),
        }
    }

    /// The connection that the packet belongs to; none if the packet waits beside one.
    #[inline]
    fn connection(&self) -> Option<FlowHit> {
        self.place.nesting.owner().filter(|_| self.place.aside.is_none())
    }

    /// Records the classes of the packet for its connection, and hands the packet to the questions that track
    /// the connection. Returns whether other questions ask about connections of its classes.
    #[inline]
    fn note_connection(&mut self) -> bool {
        let Some(found) = self.connection() else { return false };
        let terms = self.lane.terms(self.flows);
        let (mut is_tracked, mut is_for_others) = (false, false);
        let matcher = &self.delivery.matcher;
        self.flows.record_terms(found.flow(), terms, |word, all| {
            is_tracked |= all & matcher.tracked_classes().word(word) != 0;
            is_for_others |= all & matcher.other_classes().word(word) != 0;
        });
        if self.flows.taken_over.is_possible() {
            self.flows.note_quiet(found, &self.delivery.matcher);
        }
        if is_tracked {
            let tracked = Tracked { found, outs: &self.lane.k.outs, is_outer: false };
            track(self.at, self.flows, self.delivery, tracked);
        }
        is_for_others
    }

    /// Decides which questions receive a packet that is a fragment, and the earlier fragments of the
    /// datagrams that the packet completes.
    #[cold]
    fn decide_fragment(&mut self, reason: Option<DropReason>, otherwise: Account) {
        let &PacketCtx { block, packet, extras, index, .. } = self.at;
        let terms = self.lane.terms(self.flows);
        let flows = &*self.flows;
        let flow = || self.place.nesting.owner().and_then(|found| flows.verdict(found));
        let of_fragment =
            (reason == Some(DropReason::FragmentWaiting)).then(|| flows.fragment_terms(&self.lane.k));
        let seen = SeenPacket { meta: packet, block, extra: extras.get(index), outs: &self.lane.k.outs };
        let view = PacketView { seen, terms, otherwise };
        self.delivery.fragment(&view, of_fragment, self.effects.datagrams(), flow);
        self.effects.clear_datagrams();
    }

    /// Decides about the earlier fragments of the datagrams that a packet completes which was delivered
    /// before.
    #[cold]
    fn complete_datagrams(&mut self) {
        let flows = &*self.flows;
        let flow = || self.place.nesting.owner().and_then(|found| flows.verdict(found));
        let (verdict, _) = self.delivery.verdict(self.lane.terms(flows), flow);
        self.delivery.complete_datagrams(self.effects.datagrams(), &verdict);
        self.effects.clear_datagrams();
    }
}

impl Rereading {
    /// Whether the program requests a flow that has been reported already. At the end of a capture, flows end
    /// in the order of their first packets, so flows older than the one that ends are not created again.
    fn is_of_the_past(&self, flows: &Flows, k: &Continuation) -> bool {
        if self.reason != EndReason::EndOfCapture {
            return false;
        }
        let old = flows.known(k).map(FlowHit::flow);
        let old = old.filter(|old| self.made.iter().all(|made| made.flow() != *old));
        // A flow beside which packets waited does not exist any more.
        old.is_some_and(|old| match self.aside {
            Some(_) => flows.first_packet(old) < self.first_packet,
            None => flows.in_order(old, self.flow).is_lt(),
        })
    }
}
