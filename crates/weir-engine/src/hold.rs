//! Holds packets until the verdict on their connection is known, and fragments until their datagram is
//! complete.
//!
//! Workers report packets that they cannot decide yet, and later the verdicts of their flows
//! ([`Subscriber::undecided`](crate::subscriber::Subscriber::undecided), `settled`, `datagram`). The caller
//! that brings the workers' calls into one order passes them to a [`HoldQueue`]: one queue for all workers,
//! in capture order. A packet leaves the queue when it and all packets before it are decided, so packets are
//! delivered in order. The queue is bounded in packets and bytes; beyond a bound the oldest packet is given
//! up and counted. The queue sees the packets of all workers, so its results do not depend on their number.
//!
//! A fragment takes over the verdict of the packet that completes its datagram. That packet may wait as well:
//! for its connection, or for another datagram if it is itself a fragment inside a tunnel. The fragment then
//! waits for the same.

use crate::flow_ref::FlowRef;
use crate::plan::{Plan, QuestionSet, RemainderSet};
use crate::subscriber::{PacketVerdict, VerdictUpdate};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A flow of the run: its worker, and its name in that worker.
pub type WorkerFlow = (usize, FlowRef);

/// Length of a list of places below which outdated places are not searched for.
const PLACES_MIN: usize = 64;

/// A held packet.
#[derive(Debug)]
struct Held<P> {
    packet: P,
    /// Bytes that the packet costs.
    bytes: usize,
    /// The worker that reported the packet.
    worker: usize,
    verdict: PacketVerdict,
}

/// The places of the held packets that wait for one flow.
///
/// The place of a packet that was given up, or that waits for another flow now, is outdated. Outdated places
/// are discarded when the flow's verdict changes, or when the list has doubled since the last time: to find
/// one place would take a search.
#[derive(Debug, Default)]
struct Waiters {
    places: Vec<u64>,
    /// The highest place.
    last: u64,
    /// Length of the list at which outdated places are discarded.
    length_max: usize,
}

/// A queue of packets that are stored as `P`.
pub struct HoldQueue<P> {
    plan: Arc<Plan>,
    held: VecDeque<Held<P>>,
    /// Number of packets that have left, which is the place of the first held packet.
    left: u64,
    bytes: usize,
    bytes_peak: usize,
    waiting: HashMap<WorkerFlow, Waiters>,
    given_up: u64,
}

impl<P> HoldQueue<P> {
    /// An empty queue with the bounds of the plan.
    pub fn new(plan: Arc<Plan>) -> Self {
        Self {
            plan,
            held: VecDeque::new(),
            left: 0,
            bytes: 0,
            bytes_peak: 0,
            waiting: HashMap::new(),
            given_up: 0,
        }
    }

    /// The plan that the queue uses.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Changes to another plan. `map` translates remainders; of the questions only those in `live` remain.
    pub(crate) fn replace(
        &mut self,
        plan: Arc<Plan>,
        map: impl Fn(&RemainderSet) -> RemainderSet,
        live: &QuestionSet,
    ) {
        self.plan = plan;
        for Held { verdict, .. } in &mut self.held {
            verdict.certain &= live;
            if let Some((_, remainders)) = &mut verdict.connection {
                *remainders = map(remainders);
            }
            if let Some((_, open)) = &mut verdict.datagram {
                *open &= live;
            }
            // If no question needs the verdict any more, the packet must not hold up the packets behind it.
            verdict.connection.take_if(|(_, remainders)| remainders.is_empty());
            verdict.datagram.take_if(|(_, open)| open.is_empty());
        }
        let (left, held) = (self.left, &self.held);
        self.waiting.retain(|&flow, waiters| {
            waiters.places.retain(|&place| is_waiting(held, left, place, flow));
            !waiters.places.is_empty()
        });
    }

    /// The questions about packets that another plan does not ask.
    pub fn gone(&self, plan: &Plan) -> QuestionSet {
        self.plan.asked() - &plan.asked()
    }

    /// Calls `f` for each held packet, with the questions that receive it whatever the verdict.
    pub fn for_each(&mut self, mut f: impl FnMut(&mut P, &QuestionSet)) {
        self.held.iter_mut().for_each(|held| f(&mut held.packet, &held.verdict.settled()));
    }

    /// No packet is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The number of packets that were given up.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// The number of bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The largest number of bytes that were held at the same time.
    pub fn bytes_peak(&self) -> usize {
        self.bytes_peak
    }

    /// Appends a decided packet for these questions.
    pub fn pass(&mut self, packet: P, bytes: usize, questions: QuestionSet) {
        self.hold(0, packet, bytes, PacketVerdict { certain: questions, ..PacketVerdict::default() });
    }

    /// Appends a packet that `worker` reported with this verdict.
    pub fn hold(&mut self, worker: usize, packet: P, bytes: usize, verdict: PacketVerdict) {
        let bytes = bytes + size_of::<Held<P>>();
        self.bytes += bytes;
        self.bytes_peak = self.bytes_peak.max(self.bytes);
        let (place, flows) = (self.left + self.held.len() as u64, verdict.flows());
        self.held.push_back(Held { packet, bytes, worker, verdict });
        for flow in flows.into_iter().flatten() {
            self.wait((worker, flow), place);
        }
    }

    /// Adds the packet at `place` to those that wait for a flow.
    fn wait(&mut self, flow: WorkerFlow, place: u64) {
        let (left, held) = (self.left, &self.held);
        let waiters = self.waiting.entry(flow).or_default();
        if waiters.places.len() >= waiters.length_max.max(PLACES_MIN) {
            waiters.places.retain(|&place| is_waiting(held, left, place, flow));
            waiters.length_max = 2 * waiters.places.len();
        }
        waiters.places.push(place);
        waiters.last = waiters.last.max(place);
    }

    /// Applies a new verdict to the held packets of a flow.
    pub fn settle(&mut self, worker: usize, settled: &VerdictUpdate) {
        let flow = (worker, settled.flow);
        let Some(mut waiters) = self.waiting.remove(&flow) else { return };
        waiters.places.retain(|&place| {
            let Some(index) = place.checked_sub(self.left) else { return false };
            let verdict = &mut self.held[index as usize].verdict;
            let Some((_, remainders)) = verdict.connection.as_ref().filter(|(of, _)| *of == settled.flow)
            else {
                return false;
            };
            let ended = settled.ended.as_ref();
            let (certain, possible) = self.plan.eligibility(remainders, &settled.verdict, ended);
            verdict.certain |= &certain;
            verdict.connection.take_if(|_| possible.is_subset(&verdict.certain));
            verdict.connection.is_some()
        });
        if !waiters.places.is_empty() {
            self.waiting.insert(flow, waiters);
        }
    }

    /// The fragments of a datagram take over the verdict of the packet that completes the datagram. `None` if
    /// the datagram stays incomplete: each fragment then keeps its own match.
    pub fn complete(&mut self, worker: usize, datagram: FlowRef, verdict: Option<&PacketVerdict>) {
        let Some(waiters) = self.waiting.remove(&(worker, datagram)) else { return };
        for place in waiters.places {
            let Some(index) = place.checked_sub(self.left) else { continue };
            let own = &mut self.held[index as usize].verdict;
            let Some((_, open)) = own.datagram.take_if(|(of, _)| *of == datagram) else { continue };
            if let Some(verdict) = verdict {
                own.take_over(verdict, &open, &self.plan);
                for flow in own.flows().into_iter().flatten() {
                    self.wait((worker, flow), place);
                }
            }
        }
    }

    /// The next packet that may leave, with its questions. Beyond a bound the oldest packet is given up: only
    /// the questions that are certain receive it.
    pub fn pop(&mut self) -> Option<(P, QuestionSet)> {
        let limits = &self.plan.limits;
        let is_full = self.held.len() > limits.held_packets_max || self.bytes > limits.held_bytes_max;
        self.pop_if(is_full)
    }

    /// The next packet after the end of the run; an undecided packet is given up.
    pub fn pop_last(&mut self) -> Option<(P, QuestionSet)> {
        self.pop_if(true)
    }

    fn pop_if(&mut self, gives_up: bool) -> Option<(P, QuestionSet)> {
        let is_decided = self.held.front()?.verdict.is_decided();
        if !is_decided && !gives_up {
            return None;
        }
        let Held { packet, bytes, worker, verdict } = self.held.pop_front()?;
        self.left += 1;
        self.bytes -= bytes;
        if !is_decided {
            self.given_up += 1;
            for question in &verdict.open(&self.plan) {
                self.plan.questions[question].losses.add_undecided();
            }
        }
        for flow in verdict.flows().into_iter().flatten() {
            if self.waiting.get(&(worker, flow)).is_some_and(|waiters| waiters.last < self.left) {
                self.waiting.remove(&(worker, flow));
            }
        }
        Some((packet, verdict.settled().into_owned()))
    }
}

/// Whether the packet at `place` is held and waits for a flow. `left` is the place of the first held packet.
fn is_waiting<P>(held: &VecDeque<Held<P>>, left: u64, place: u64, (worker, flow): WorkerFlow) -> bool {
    let held = place.checked_sub(left).and_then(|index| held.get(index as usize));
    held.is_some_and(|held| held.worker == worker && held.verdict.flows().contains(&Some(flow)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deferred_predicate::Presence;
    use crate::plan::{Alternative, ClassSet, Limits, QuestionPlan, SessionVerdict, Want};
    use crate::table::FlowId;
    use weir_ir::build::Builder;
    use weir_ir::graph::{Graph, Table, Terminator};
    use weir_ir::interpret::Interpreter;
    use weir_packet::{BitSet, Value};
    use weir_sessions::{ProbeDecision, ProtocolSet};

    const NAME: FlowRef = FlowRef { table: Table(0), id: FlowId(7), part: 0, beside: 0 };
    /// The workers of two flows with this name, and a datagram of the first worker.
    const FLOW: usize = 0;
    const OTHER: usize = 1;
    const DATAGRAM: FlowRef = FlowRef { table: Table(1), id: FlowId(7), part: 0, beside: 0 };

    /// Two questions about packets: remainder 0 asks about the connection, remainder 1 about a session.
    fn queue(held_packets_max: usize) -> HoldQueue<u32> {
        let mut b = Builder::new(Graph::default());
        let terms = b.int(0);
        b.end(Terminator::Done { reason: None, terms });
        let bit = |question, connection, session| Alternative {
            question,
            name: String::new(),
            connection,
            session,
        };
        let plan = Plan {
            program: Arc::new(Interpreter::new(b.finish()).unwrap()),
            questions: [(); 2].map(|()| QuestionPlan::new(Want::Packets)).into(),
            alternatives: vec![
                bit(0, Presence::Presence, Presence::Nothing),
                bit(1, Presence::Nothing, Presence::Presence),
            ],
            row: vec![],
            connection: vec![],
            session: vec![],
            sessions: Arc::default(),
            probes: Arc::new(ProbeDecision::of(&[])),
            asked: ProtocolSet::EMPTY,
            probed: ProtocolSet::EMPTY,
            parsed: ProtocolSet::EMPTY,
            wanted: ProtocolSet::EMPTY,
            connection_value: Arc::new(|_, _| Value::Absent),
            ends: vec![],
            classes: vec![RemainderSet::one(0), RemainderSet::one(1)],
            verdicts: RemainderSet::one(1),
            unconditional: ClassSet::EMPTY,
            records: false,
            timed: false,
            at_once: QuestionSet::EMPTY,
            kernel: None,
            forced: vec![],
            odd: None,
            limits: Limits { held_packets_max, ..Limits::default() },
            overload: crate::stream::OverloadParams::default(),
            policies: Arc::default(),
        };
        HoldQueue::new(Arc::new(plan))
    }

    fn pop_all(queue: &mut HoldQueue<u32>) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| queue.pop()).map(|(packet, questions)| (packet, questions.word(0))).collect()
    }

    fn set<T>(word: u64) -> BitSet<T> {
        BitSet::from_words(&[word])
    }

    /// The verdict on a packet that waits for its connection.
    fn waiting(remainders: u64, certain: u64) -> PacketVerdict {
        let connection = Some((NAME, set(remainders)));
        PacketVerdict { certain: set(certain), connection, datagram: None }
    }

    /// The verdict on a fragment, which for the `open` questions depends on its datagram.
    fn fragment(certain: u64, open: u64) -> PacketVerdict {
        let datagram = Some((DATAGRAM, set(open)));
        PacketVerdict { certain: set(certain), connection: None, datagram }
    }

    fn decided(questions: u64) -> PacketVerdict {
        PacketVerdict { certain: set(questions), ..PacketVerdict::default() }
    }

    fn settled(met: u64, ended: Option<u64>) -> VerdictUpdate {
        let verdict = SessionVerdict { met: set(met), ..SessionVerdict::default() };
        VerdictUpdate { flow: NAME, verdict, ended: ended.map(set) }
    }

    #[test]
    fn a_packet_leaves_when_it_and_all_before_it_are_decided() {
        let mut queue = queue(9);
        queue.hold(FLOW, 1, 0, waiting(0b01, 0));
        queue.hold(OTHER, 2, 0, waiting(0b10, 0));
        queue.pass(3, 0, set(0b10));
        assert_eq!(pop_all(&mut queue), []);
        // A session that fulfils question 1 came from the other worker's flow of the same name.
        queue.settle(1, &settled(0b10, None));
        assert_eq!(pop_all(&mut queue), []);
        queue.settle(0, &settled(0, Some(0b01)));
        assert_eq!(pop_all(&mut queue), [(1, 0b01), (2, 0b10), (3, 0b10)]);
        assert_eq!((queue.given_up(), queue.bytes), (0, 0));
    }

    #[test]
    fn a_session_decides_what_does_not_hang_on_the_record() {
        let mut queue = queue(9);
        queue.hold(FLOW, 1, 0, waiting(0b11, 0));
        queue.hold(FLOW, 2, 0, waiting(0b10, 0));
        queue.settle(0, &settled(0b10, None));
        assert_eq!(pop_all(&mut queue), [], "question 0 waits for the record");
        queue.settle(0, &settled(0b10, Some(0)));
        assert_eq!(pop_all(&mut queue), [(1, 0b10), (2, 0b10)]);
        assert!(queue.waiting.is_empty());
    }

    #[test]
    fn beyond_a_bound_the_oldest_goes_where_it_is_certain_to_go() {
        let mut queue = queue(2);
        queue.hold(FLOW, 1, 0, waiting(0b01, 0b10));
        queue.pass(2, 0, set(0b01));
        assert_eq!(pop_all(&mut queue), []);
        queue.hold(FLOW, 3, 0, waiting(0b01, 0));
        assert_eq!(pop_all(&mut queue), [(1, 0b10), (2, 0b01)]);
        queue.settle(0, &settled(0, Some(0b01)));
        assert_eq!(pop_all(&mut queue), [(3, 0b01)]);
        assert_eq!(queue.given_up(), 1);
    }

    #[test]
    fn at_the_end_nothing_stays() {
        let mut queue = queue(9);
        queue.hold(FLOW, 1, 0, waiting(0b01, 0));
        queue.hold(OTHER, 2, 0, waiting(0b01, 0b10));
        assert_eq!(queue.pop_last(), Some((1, set(0))));
        assert_eq!(queue.pop_last(), Some((2, set(0b10))));
        assert_eq!((queue.pop_last(), queue.given_up(), queue.waiting.len()), (None, 2, 0));
    }

    #[test]
    fn a_fragment_takes_over_the_verdict_of_the_packet_that_completes_its_datagram() {
        let mut queue = queue(9);
        queue.hold(FLOW, 1, 0, fragment(0b10, 0b01));
        queue.hold(FLOW, 2, 0, fragment(0b01, 0b01));
        queue.hold(FLOW, 3, 0, fragment(0b00, 0b10));
        queue.complete(1, DATAGRAM, Some(&decided(0b11)));
        assert_eq!(pop_all(&mut queue), [], "another worker has the datagram");
        queue.complete(0, DATAGRAM, Some(&decided(0b10)));
        assert_eq!(pop_all(&mut queue), [(1, 0b10), (2, 0), (3, 0b10)]);
        assert!(queue.waiting.is_empty());
    }

    #[test]
    fn a_fragment_of_a_lost_datagram_keeps_its_own_match() {
        let mut queue = queue(9);
        queue.hold(FLOW, 1, 0, fragment(0b11, 0b01));
        let own = PacketVerdict { datagram: Some((DATAGRAM, set(0b11))), ..waiting(0b01, 0) };
        queue.hold(FLOW, 2, 0, own);
        queue.settle(0, &settled(0, Some(0b01)));
        assert_eq!(pop_all(&mut queue), []);
        queue.complete(0, DATAGRAM, None);
        assert_eq!(pop_all(&mut queue), [(1, 0b11), (2, 0b01)]);
    }

    #[test]
    fn a_fragment_waits_on_for_the_connection_or_for_the_datagram_around() {
        let around = FlowRef { table: Table(1), id: FlowId(8), part: 0, beside: 0 };
        let mut queue = queue(9);
        // Packet 2 completes the datagram of packet 1, and is a fragment itself; packet 3 waits for its
        // connection.
        queue.hold(FLOW, 1, 0, fragment(0, 0b11));
        let second = PacketVerdict { datagram: Some((around, set(0b11))), ..PacketVerdict::default() };
        queue.complete(0, DATAGRAM, Some(&second));
        queue.hold(FLOW, 2, 0, second);
        let third = waiting(0b11, 0);
        queue.complete(0, around, Some(&third));
        queue.hold(FLOW, 3, 0, third);
        queue.settle(0, &settled(0b10, None));
        assert_eq!(pop_all(&mut queue), []);
        queue.settle(0, &settled(0b10, Some(0b01)));
        assert_eq!(pop_all(&mut queue), [(1, 0b11), (2, 0b11), (3, 0b11)]);
        assert!(queue.waiting.is_empty());
    }

    #[test]
    fn a_given_up_fragment_goes_where_its_datagram_does_not_matter() {
        let mut queue = queue(1);
        queue.hold(FLOW, 1, 0, fragment(0b11, 0b01));
        queue.hold(FLOW, 2, 0, fragment(0, 0b01));
        assert_eq!(pop_all(&mut queue), [(1, 0b10)]);
        queue.complete(0, DATAGRAM, Some(&decided(0b01)));
        assert_eq!((pop_all(&mut queue), queue.given_up()), (vec![(2, 0b01)], 1));
    }

    #[test]
    fn places_of_packets_that_were_given_up_do_not_accumulate() {
        let mut queue = queue(2);
        for packet in 0..100_000 {
            queue.hold(FLOW, packet, 0, waiting(0b01, 0));
            while queue.pop().is_some() {}
        }
        let places = queue.waiting[&(0, NAME)].places.len();
        assert!(places <= PLACES_MIN, "{places} places of two packets");
    }
}
