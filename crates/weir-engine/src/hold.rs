//! Holds packets until the verdict on their connection is known.
//!
//! Workers report packets that they cannot decide yet, and later the verdicts of their flows
//! ([`Subscriber::undecided`](crate::subscriber::Subscriber::undecided), `settled`). The caller that brings the
//! workers' calls into one order passes them to a [`HoldQueue`]: one queue for all workers, in capture order. A
//! packet leaves the queue when it and all packets before it are decided, so packets are delivered in order. The
//! queue is bounded in packets and bytes; beyond a bound the oldest packet is given up and counted. The queue sees
//! the packets of all workers, so its results do not depend on their number.

use crate::flow_ref::FlowRef;
use crate::plan::{Plan, QuestionSet, RemainderSet};
use crate::subscriber::VerdictUpdate;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A flow of the run: its worker, and its name in that worker.
pub type WorkerFlow = (usize, FlowRef);

/// The state of a held packet.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// The packet waits for this flow.
    Open(WorkerFlow),
    /// The packet goes to these questions; the set may be empty.
    Decided(QuestionSet),
}

/// A held packet.
#[derive(Debug)]
struct Held<P> {
    packet: P,
    /// Bytes that the packet costs.
    bytes: usize,
    /// Remainders that the packet itself fulfils.
    remainders: RemainderSet,
    /// Questions that receive the packet whatever the verdict.
    certain: QuestionSet,
    verdict: Verdict,
}

/// A queue of packets that are stored as `P`.
pub struct HoldQueue<P> {
    plan: Arc<Plan>,
    held: VecDeque<Held<P>>,
    /// Number of packets that have left, which is the place of the first held packet.
    left: u64,
    bytes: usize,
    bytes_peak: usize,
    /// Places of the held packets of each flow.
    waiting: HashMap<WorkerFlow, VecDeque<u64>>,
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
        for held in &mut self.held {
            held.remainders = map(&held.remainders);
            held.certain &= live;
            match &mut held.verdict {
                Verdict::Decided(questions) => *questions &= live,
                // No question needs the verdict any more, and the packet must not hold up the packets behind it.
                verdict @ Verdict::Open(_) if held.remainders.is_empty() => {
                    *verdict = Verdict::Decided(held.certain.clone())
                }
                Verdict::Open(_) => {}
            }
        }
        let (left, held) = (self.left, &self.held);
        self.waiting.retain(|_, places| {
            places.retain(|place| {
                let index = place.checked_sub(left).map(|index| index as usize);
                index
                    .and_then(|index| held.get(index))
                    .is_some_and(|held| matches!(held.verdict, Verdict::Open(_)))
            });
            !places.is_empty()
        });
    }

    /// The questions about packets that another plan does not ask.
    pub fn gone(&self, plan: &Plan) -> QuestionSet {
        self.plan.asked() - &plan.asked()
    }

    /// Calls `f` for each held packet, with the questions that receive it whatever the verdict.
    pub fn for_each(&mut self, mut f: impl FnMut(&mut P, &QuestionSet)) {
        self.held.iter_mut().for_each(|held| {
            let questions = match &held.verdict {
                Verdict::Decided(questions) => questions,
                Verdict::Open(_) => &held.certain,
            };
            f(&mut held.packet, questions);
        });
    }

    /// No packet is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The number of packets that were given up.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// The largest number of bytes that were held at the same time.
    pub fn bytes_peak(&self) -> usize {
        self.bytes_peak
    }

    /// Appends a decided packet for these questions.
    pub fn pass(&mut self, packet: P, bytes: usize, questions: QuestionSet) {
        let verdict = Verdict::Decided(questions);
        self.push(Held {
            packet,
            bytes,
            remainders: RemainderSet::EMPTY,
            certain: QuestionSet::EMPTY,
            verdict,
        });
    }

    /// Appends a packet of `flow` with these `remainders`. The questions `certain` receive the packet whatever the
    /// verdict on the flow.
    pub fn hold(
        &mut self,
        flow: WorkerFlow,
        packet: P,
        bytes: usize,
        remainders: RemainderSet,
        certain: QuestionSet,
    ) {
        let place = self.left + self.held.len() as u64;
        self.waiting.entry(flow).or_default().push_back(place);
        self.push(Held { packet, bytes, remainders, certain, verdict: Verdict::Open(flow) });
    }

    fn push(&mut self, mut held: Held<P>) {
        held.bytes += size_of::<Held<P>>();
        self.bytes += held.bytes;
        self.bytes_peak = self.bytes_peak.max(self.bytes);
        self.held.push_back(held);
    }

    /// Applies a new verdict to the held packets of a flow.
    pub fn settle(&mut self, worker: usize, settled: &VerdictUpdate) {
        let flow = (worker, settled.flow);
        let Some(mut places) = self.waiting.remove(&flow) else { return };
        places.retain(|&place| {
            let Some(index) = place.checked_sub(self.left) else { return false };
            let held = &mut self.held[index as usize];
            let (verdict, ended) = (&settled.verdict, settled.ended.as_ref());
            let (certain, possible) = self.plan.eligibility(&held.remainders, verdict, ended);
            held.certain |= &certain;
            if possible.is_subset(&held.certain) {
                held.verdict = Verdict::Decided(std::mem::take(&mut held.certain));
                return false;
            }
            true
        });
        if !places.is_empty() {
            self.waiting.insert(flow, places);
        }
    }

    /// The next packet that may leave, with its questions. Beyond a bound the oldest packet is given up: only the
    /// questions that are certain receive it.
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
        match self.held.front()?.verdict {
            Verdict::Decided(_) => {}
            Verdict::Open(flow) if gives_up => {
                self.given_up += 1;
                let places = self.waiting.get_mut(&flow)?;
                // The oldest packet of all is the oldest of its flow, too.
                places.pop_front();
                if places.is_empty() {
                    self.waiting.remove(&flow);
                }
            }
            Verdict::Open(_) => return None,
        }
        let held = self.held.pop_front()?;
        self.left += 1;
        self.bytes -= held.bytes;
        let questions = match held.verdict {
            Verdict::Decided(questions) => questions,
            Verdict::Open(_) => held.certain,
        };
        Some((held.packet, questions))
    }
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

    const NAME: FlowRef = FlowRef { table: Table(0), id: FlowId(7) };
    const FLOW: WorkerFlow = (0, NAME);
    const OTHER: WorkerFlow = (1, NAME);

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
            questions: vec![QuestionPlan { want: Want::Packets }; 2],
            alternatives: vec![
                bit(0, Presence::Presence, Presence::Nothing),
                bit(1, Presence::Nothing, Presence::Presence),
            ],
            row: vec![],
            connection: vec![],
            session: vec![],
            sessions: Arc::default(),
            probes: Arc::new(ProbeDecision::of(&[])),
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

    fn settled(met: u64, ended: Option<u64>) -> VerdictUpdate {
        let verdict = SessionVerdict { met: set(met), ..SessionVerdict::default() };
        VerdictUpdate { flow: NAME, verdict, ended: ended.map(set) }
    }

    #[test]
    fn a_packet_leaves_when_it_and_all_before_it_are_decided() {
        let mut queue = queue(9);
        queue.hold(FLOW, 1, 0, set(0b01), set(0));
        queue.hold(OTHER, 2, 0, set(0b10), set(0));
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
        queue.hold(FLOW, 1, 0, set(0b11), set(0));
        queue.hold(FLOW, 2, 0, set(0b10), set(0));
        queue.settle(0, &settled(0b10, None));
        assert_eq!(pop_all(&mut queue), [], "question 0 waits for the record");
        queue.settle(0, &settled(0b10, Some(0)));
        assert_eq!(pop_all(&mut queue), [(1, 0b10), (2, 0b10)]);
        assert!(queue.waiting.is_empty());
    }

    #[test]
    fn beyond_a_bound_the_oldest_goes_where_it_is_certain_to_go() {
        let mut queue = queue(2);
        queue.hold(FLOW, 1, 0, set(0b01), set(0b10));
        queue.pass(2, 0, set(0b01));
        assert_eq!(pop_all(&mut queue), []);
        queue.hold(FLOW, 3, 0, set(0b01), set(0));
        assert_eq!(pop_all(&mut queue), [(1, 0b10), (2, 0b01)]);
        queue.settle(0, &settled(0, Some(0b01)));
        assert_eq!(pop_all(&mut queue), [(3, 0b01)]);
        assert_eq!(queue.given_up(), 1);
    }

    #[test]
    fn at_the_end_nothing_stays() {
        let mut queue = queue(9);
        queue.hold(FLOW, 1, 0, set(0b01), set(0));
        queue.hold(OTHER, 2, 0, set(0b01), set(0b10));
        assert_eq!(queue.pop_last(), Some((1, set(0))));
        assert_eq!(queue.pop_last(), Some((2, set(0b10))));
        assert_eq!((queue.pop_last(), queue.given_up(), queue.waiting.len()), (None, 2, 0));
    }
}
