//! The effects of a packet that are applied at its end: events, bytes and sessions that layers above their
//! connection may still decide, the datagrams that the packet is a fragment of, and flows that are over.
//!
//! Decided bytes of streams go to the subscriber at once, by reference, and are not kept here. Sessions are
//! also matched at once, because the result says whether the program delivers further bytes of the same
//! packet; decided sessions are delivered at once, so that a subscriber receives the sessions and the bytes
//! of a stream in the order of the stream.

use crate::emitted::Emitted;
use crate::flow_ref::FlowRef;
use crate::sets::{QuestionSet, RemainderSet};
use crate::stream::HeldStreams;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_sessions::Session;

/// The effects of one packet. Usually there are none.
#[derive(Default)]
pub(crate) struct Effects {
    /// Events that the program emitted.
    pub emitted: Emitted,
    streams: Vec<(FlowRef, HeldStreams)>,
    sessions: Vec<OpenSession>,
    /// The datagrams that the packet is a fragment of, outermost first, if questions about packets depend on
    /// them.
    datagrams: Vec<Datagram>,
    /// Flows that are over; this is their last packet.
    over: VecDeque<OverFlow>,
}

/// A flow that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverFlow {
    pub flow: FlowRef,
    /// The number of its first packet.
    pub first_packet: u64,
}

/// A datagram of which a packet is a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub flow: FlowRef,
    /// The packet completes the datagram.
    pub is_complete: bool,
}

/// A session that has been delivered to the questions known so far, and that more questions may receive.
pub(crate) struct OpenSession {
    pub flow: FlowRef,
    pub protocol: usize,
    pub session: Arc<dyn Session>,
    /// The number of the packet that completed the session.
    pub packet: Option<u64>,
    /// The remainders that the flow had at that time.
    pub remainders: RemainderSet,
    /// The questions that have received the session.
    pub given: QuestionSet,
}

impl Effects {
    /// Bytes or sessions wait for a decision.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.streams.is_empty() || !self.sessions.is_empty()
    }

    /// The undecided bytes of one flow, appended behind those of other flows. If another flow came in
    /// between, the flow gets a new entry, which is decided after the older ones: a packet may have thousands
    /// of flows, so no search is made.
    pub fn streams_of(&mut self, flow: FlowRef) -> &mut HeldStreams {
        if self.streams.last().is_none_or(|(last, _)| *last != flow) {
            self.streams.push((flow, HeldStreams::default()));
        }
        let at = self.streams.len() - 1;
        &mut self.streams[at].1
    }

    pub fn push_session(&mut self, session: OpenSession) {
        self.sessions.push(session);
    }

    /// Removes and returns the undecided bytes of one flow, or of all flows.
    pub fn take_streams(&mut self, only: Option<FlowRef>) -> Vec<(FlowRef, HeldStreams)> {
        self.streams.extract_if(.., |(flow, _)| only.is_none_or(|only| only == *flow)).collect()
    }

    /// Removes and returns the undecided sessions of one flow, or of all flows.
    pub fn take_sessions(&mut self, only: Option<FlowRef>) -> Vec<OpenSession> {
        self.sessions.extract_if(.., |session| only.is_none_or(|only| only == session.flow)).collect()
    }

    /// Records that the packet is a fragment of a datagram.
    pub fn push_datagram(&mut self, flow: FlowRef) {
        self.datagrams.push(Datagram { flow, is_complete: false });
    }

    /// Records that the packet completes the datagram that was found last.
    pub fn complete_datagram(&mut self, flow: FlowRef) {
        if let Some(last) = self.datagrams.last_mut().filter(|last| last.flow == flow) {
            last.is_complete = true;
        }
    }

    /// The packet is a fragment.
    #[inline]
    pub fn has_datagrams(&self) -> bool {
        !self.datagrams.is_empty()
    }

    /// The datagrams of the packet that are not decided.
    pub fn datagrams(&self) -> &[Datagram] {
        &self.datagrams
    }

    /// All datagrams of the packet are decided.
    pub fn clear_datagrams(&mut self) {
        self.datagrams.clear();
    }

    /// Removes a datagram that ends. Returns whether the packet has completed a datagram of this name.
    pub fn forget_datagram(&mut self, flow: FlowRef) -> bool {
        self.datagrams.retain(|datagram| datagram.flow != flow || datagram.is_complete);
        self.datagrams.iter().any(|datagram| datagram.flow == flow)
    }

    /// Records that a flow is over: it ends when the packet is decided.
    pub fn push_over(&mut self, over: OverFlow) {
        self.over.push_back(over);
    }

    /// Whether a flow is over with this packet.
    #[inline]
    pub fn is_over(&self, flow: FlowRef) -> bool {
        self.over.iter().any(|over| over.flow == flow)
    }

    /// The next flow that is to end.
    #[inline]
    pub fn next_over(&self) -> Option<OverFlow> {
        self.over.front().copied()
    }

    /// Removes a flow that has ended.
    pub fn forget_over(&mut self, flow: FlowRef) {
        if self.over.front().is_some_and(|over| over.flow == flow) {
            self.over.pop_front();
        } else {
            self.over.retain(|over| over.flow != flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FlowId;
    use weir_ir::graph::Table;

    fn flow(id: u32) -> FlowRef {
        FlowRef::new(Table(0), FlowId(id))
    }

    #[test]
    fn open_bytes_are_taken_by_flow_in_their_order() {
        let mut effects = Effects::default();
        for (id, question) in [(1, 0), (2, 1), (1, 2)] {
            effects.streams_of(flow(id)).pending.insert(question);
        }
        let taken = |taken: Vec<(FlowRef, HeldStreams)>| {
            taken
                .into_iter()
                .map(|(flow, held)| (flow.id.0, held.pending.iter().collect()))
                .collect::<Vec<_>>()
        };
        assert_eq!(taken(effects.take_streams(Some(flow(1)))), [(1, vec![0]), (1, vec![2])]);
        assert!(effects.is_open());
        assert_eq!(taken(effects.take_streams(None)), [(2, vec![1])]);
        assert!(!effects.is_open());
    }

    #[test]
    fn a_datagram_that_ends_is_forgotten_unless_the_packet_completes_it() {
        let mut effects = Effects::default();
        effects.push_datagram(flow(1));
        effects.complete_datagram(flow(1));
        // The datagram inside uses the place of the one around, which is over.
        effects.push_datagram(flow(1));
        effects.push_datagram(flow(2));
        assert!(!effects.forget_datagram(flow(2)) && effects.forget_datagram(flow(1)));
        assert_eq!(effects.datagrams(), [Datagram { flow: flow(1), is_complete: true }]);
        effects.clear_datagrams();
        assert!(!effects.has_datagrams());
    }

    #[test]
    fn flows_end_in_the_order_in_which_they_were_over() {
        let mut effects = Effects::default();
        let over = |id| OverFlow { flow: flow(id), first_packet: 1 };
        effects.push_over(over(4));
        effects.push_over(over(2));
        assert!(effects.is_over(flow(2)) && !effects.is_over(flow(3)));
        assert_eq!(effects.next_over(), Some(over(4)));
        effects.forget_over(flow(4));
        assert_eq!(effects.next_over(), Some(over(2)));
        effects.forget_over(flow(2));
        assert_eq!(effects.next_over(), None);
    }
}
