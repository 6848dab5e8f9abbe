//! Messages that are there and unread when their flow ends.
//!
//! Programs read messages with a packet of the side that sends them: from it comes all that the layers below say. Of a
//! side whose bytes wait for others before them the last packet is kept ([`Messages::keep_packet`]). When its flow ends,
//! what waits is put in order, and that packet runs once more, as if it had been sent again and brought nothing new: what
//! it does to flows is taken back, sequences are not asked, and nothing is told but of the messages. These are its own, then.
//! A packet that came in fragments is not kept whole; of that side nothing is read, and all is counted as lost.

use crate::counters::Counters;
use crate::delivery::Delivery;
use crate::emitted::Emitted;
use crate::flow::EndReason;
use crate::flow_hit::FlowHit;
use crate::flow_ref::FlowRef;
use crate::flows::Flows;
use crate::host::PacketCtx;
use crate::messages::{MessageCarrier, Messages};
use crate::subscriber::{Order, Subscriber};
use crate::table::Header;
use std::sync::Arc;
use weir_ir::abi::{
    Continuation, FlowRecord, FlowSide, Host, Resume, SEQ_RETRANSMITTED, SeqInsert, SeqInserted, Slice, Step,
};
use weir_ir::graph::{Event, Table};
use weir_packet::Direction;

/// The host of a packet that runs once more, up to the messages that its flow carries.
struct ReplayHost<'a> {
    messages: &'a mut Messages,
    emitted: &'a mut Emitted,
    /// The flow at hand.
    flow: FlowRef,
    bearer: MessageCarrier,
    /// It is the one whose messages are read.
    is_read: bool,
}

impl Host for ReplayHost<'_> {
    fn seq_insert(&mut self, _: SeqInsert<'_>) -> SeqInserted {
        SeqInserted { status: SEQ_RETRANSMITTED, skip_bytes: 0 }
    }

    fn whole_value(&mut self, number: usize) -> u64 {
        self.messages.whole_value(number)
    }

    fn messages(&mut self, of: FlowSide<'_>) -> Slice {
        match self.is_read {
            true => self.messages.first(self.flow, of.direction.is_responder(), self.bearer, None),
            false => Slice::default(),
        }
    }

    fn next_messages(&mut self, done: u64, wanted: u64) -> Slice {
        self.messages.next(done, wanted)
    }

    fn keep(&mut self, bytes: &[u8]) -> u64 {
        self.emitted.keep(bytes)
    }

    fn emit(&mut self, event: Event, flow: Option<FlowRecord<'_>>, values: &[u64]) {
        if let Some(MessageCarrier { table, header }) = self.messages.bearer().filter(|_| flow.is_none()) {
            self.emitted.push(event, table, header, values);
        }
    }
}

impl Flows {
    /// A flow is about to end, and what waited of it is in order: the messages that are there are read.
    pub(crate) fn read_last<S: Subscriber>(
        &mut self,
        (flow, reason): (FlowRef, EndReason),
        order: Order,
        delivery: &mut Delivery<S>,
        counters: &mut Counters,
    ) {
        for side in [false, true] {
            let Some(last) = self.messages.take_packet(flow, side) else { continue };
            // Flows end in the middle of other packets, too, which have told of something or ended others.
            let emitted = std::mem::take(&mut delivery.emitted);
            let ending = std::mem::take(&mut self.ending);
            let at_hand = std::mem::take(&mut delivery.packet_end);
            let program = Arc::clone(&self.program);
            let (packet, block) = (&last.meta, &last.block);
            let at = PacketCtx { program: &*program, block, packet, frame: &block.bytes, order };
            let mut k = Box::new(Continuation::default());
            let mut made = vec![];
            if let Some(bearer) = self.run_again((&at, &mut k), (flow, reason), &mut made, delivery, counters)
            {
                self.note_terms(bearer.flow(), k.terms);
                delivery.events(&at, k.terms);
            }
            self.settle_packet_end((order, Some(at.packet())), (None, k.terms), delivery);
            k.release();
            self.messages.abandon();
            self.messages.take_begun();
            delivery.emitted = Emitted::default();
            self.end_closed(&order, delivery, counters);
            (delivery.emitted, delivery.packet_end, self.ending) = (emitted, at_hand, ending);
            // Nobody else knows of what was made when everything ends, be it in the place of one that was known.
            for new in made.into_iter().filter(|_| reason == EndReason::EndOfCapture) {
                if self.tables[new.table().index()].flows.is_live(new.id()) {
                    self.end(new.flow(), reason, order, delivery, counters);
                    self.tables[new.table().index()].flows.remove(new.id());
                }
            }
        }
    }

    /// Runs a packet again, and reads with it the messages that `flow` carries. That flow, and the terms in `k`; `None`: the
    /// packet does not lead there, or not to its end. What is made by it is added to `made`.
    fn run_again<S: Subscriber>(
        &mut self,
        (at, k): (&PacketCtx<'_>, &mut Continuation),
        (flow, reason): (FlowRef, EndReason),
        made: &mut Vec<FlowHit>,
        delivery: &mut Delivery<S>,
        counters: &mut Counters,
    ) -> Option<FlowHit> {
        let mut step = at.program.head(at.packet, at.frame, k);
        let mut bearer = None;
        // Of what is inside a message: its connection, and the one around that.
        let (mut connection, mut outer) = (None, None);
        for _ in 0..self.lookups_max() {
            let found = match step {
                Step::Done(_) => return bearer,
                Step::Lookup if !self.messages.is_at_hand() => {
                    self.hash(k);
                    let found = self.known(k);
                    let read = found.filter(|found| bearer.is_none() && found.flow() == flow);
                    step = match found {
                        Some(found) => {
                            self.resume_again(at, k, (found, read.is_some()), &mut delivery.emitted)
                        }
                        None => self.resume_anew(at, k, flow, &mut delivery.emitted),
                    };
                    bearer = bearer.or(read);
                    continue;
                }
                Step::Restart if !self.messages.is_at_hand() => return None,
                // In messages it is as with any packet: instances there are their own.
                Step::Lookup => {
                    if self.messages.take_begun() {
                        connection = bearer;
                    }
                    self.hash(k);
                    // At the end of a capture it may have been told of already.
                    let old = self.known(k).filter(|known| made.iter().all(|new| new.flow() != known.flow()));
                    if reason == EndReason::EndOfCapture && old.is_some_and(|old| self.is_before(old, flow)) {
                        return None;
                    }
                    self.find((k, None), at, delivery, counters)?
                }
                Step::Restart => self.renew(k, at.packet, at.order, delivery, counters)?,
            };
            if found.is_new() {
                made.retain(|other| other.flow() != found.flow());
                made.push(found);
            }
            if step == Step::Restart {
                // It begins anew where the one that ended was.
                connection = connection.map(|one| if one.table() == found.table() { found } else { one });
            } else if self.is_observed(found.table()) && !self.is_part(found.table()) {
                outer = connection.replace(found);
            }
            if let Some(outer) = outer.filter(|_| found.is_new()) {
                self.note_outer(found, outer);
            }
            step = self.run_tail(at, k, found, delivery, counters);
        }
        None
    }

    /// The flow that a program asked for, if it is there.
    fn known(&self, k: &Continuation) -> Option<FlowHit> {
        let table = Table(k.table);
        let flows = &self.tables[table.index()].flows;
        let id = flows.find(&k.key, k.hash, None)?;
        let responder = k.sender().0 != flows.entry(id).0.swap;
        Some(FlowHit::new(table, id, responder, false))
    }

    /// Whether one flow's first packet came before the other's.
    fn is_before(&self, found: FlowHit, flow: FlowRef) -> bool {
        self.in_order(found.flow(), flow).is_lt()
    }

    /// Goes on with a flow that stays as it is.
    fn resume_again(
        &mut self,
        at: &PacketCtx<'_>,
        k: &mut Continuation,
        (found, is_read): (FlowHit, bool),
        emitted: &mut Emitted,
    ) -> Step {
        let (header, data) = self.tables[found.table().index()].flows.entry_mut(found.id());
        let before = data.to_vec();
        let bearer = MessageCarrier { table: found.table(), header: *header };
        let mut host =
            ReplayHost { messages: &mut self.messages, emitted, flow: found.flow(), bearer, is_read };
        let record = FlowRecord { id: found.id().0, data: &mut *data };
        let direction = Direction::responder_if(found.is_responder());
        let resume = Resume { packet: at.packet, frame: at.frame, flow: record, direction, is_new: false };
        let step = at.program.resume(&mut host, resume, k);
        data.copy_from_slice(&before);
        step
    }

    /// Goes on with a flow that is over, as what lies around another one may be: as if it were new, and nothing is kept of it.
    fn resume_anew(
        &mut self,
        at: &PacketCtx<'_>,
        k: &mut Continuation,
        flow: FlowRef,
        emitted: &mut Emitted,
    ) -> Step {
        let table = Table(k.table);
        let mut data = vec![0; self.program.layout().size(table)];
        let bearer = MessageCarrier { table, header: Header::born(k.key, 0, 0, false) };
        let mut host = ReplayHost { messages: &mut self.messages, emitted, flow, bearer, is_read: false };
        let record = FlowRecord { id: 0, data: &mut data };
        let direction = Direction::responder_if(k.sender().0);
        let resume = Resume { packet: at.packet, frame: at.frame, flow: record, direction, is_new: true };
        at.program.resume(&mut host, resume, k)
    }
}
