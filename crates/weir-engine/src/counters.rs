//! Counts what happened to every packet, byte and flow, per worker; the workers' counters are summed at the
//! end.
//!
//! Each group of counters is one declared table: a line gives the name, how the values of workers are joined,
//! and the meaning. `--stats` prints the same names. The reasons for dropped packets are in [`Drops`], whose
//! table is in `weir-packet`.

use weir_packet::{DropReason, Drops, PacketMeta};

macro_rules! counters {
    ($(#[$meta:meta])* $group:ident { $($name:ident, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $group {
            $(#[doc = $text] pub $name: u64,)*
        }

        impl $group {
            /// Adds another worker's counters to these.
            pub fn merge(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Name, value and meaning of each counter, in the order of the table.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64, &'static str)> {
                [$((stringify!($name), self.$name, $text),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Packets. At the end of a run each packet read is counted once: as delivered, filtered or dropped.
    ///
    /// A packet is *delivered* if a question about packets received it, or if it belongs to a connection
    /// whose packets so far, this one included, fulfil the packet part of a question about connections,
    /// sessions or streams. A packet that is not delivered is *dropped* if its processing stopped early, and
    /// *filtered* otherwise. A packet that waits for its connection is counted once it is decided.
    PacketCounters {
        packets, "Packets read.";
        bytes, "Bytes captured of the packets read.";
        wire_bytes, "Bytes on the wire of the packets read.";
        delivered, "Packets delivered to a question, or belonging to a connection that matches a question.";
        filtered, "Packets that were processed to their end and match no question.";
        undecided, "Packets whose match was given up before their connection was decided or their datagram was complete, because too many packets were held.";
    }
}

impl PacketCounters {
    /// Adds a packet that was read.
    #[inline]
    pub(crate) fn add(&mut self, packet: &PacketMeta) {
        self.packets += 1;
        self.bytes += u64::from(packet.captured_bytes);
        self.wire_bytes += u64::from(packet.wire_bytes);
    }
}

counters! {
    /// Flows of all tables: each flow created has ended for one reason, or is live.
    FlowCounters {
        flows_created, "Flows created.";
        flows_refused, "Packets without a flow because the table was full.";
        flows_ended, "Flows ended by their state machine (closed connections).";
        aside_refused, "SYNs inside a connection that count in no connection, because too many wait for their answers.";
        checks_skipped, "Reports of all flows (`on check`) that were left out, because the time has jumped.";
        flows_restarted, "Flows ended because a new flow with the same key began.";
        flows_expired, "Flows ended by their idle time-out.";
        flows_shed, "Flows ended early because their table was full or could not grow (those nearest to their time-out), or to release the memory that they held.";
        holders_shed, "Flows, counted in flows_shed, ended early to release the memory that they held: those idle for the longest time.";
        growth_refused, "Times that a table could not grow because memory was short.";
        flows_flushed, "Flows ended by the end of the run.";
        flows_peak, "Maximum number of live flows; with several workers the sum of their maxima.";
    }
}

counters! {
    /// Sequences: the outcome of each segment that is not empty.
    SequenceCounters {
        ordered, "Segments that arrived in order.";
        queued, "Segments that arrived out of order and were queued.";
        retransmitted, "Segments whose bytes had all arrived before.";
        overlapping, "Segments that arrived in order and overlapped queued bytes; they went through the queue.";
        overlap_bytes, "Bytes that arrived again while the earlier copy was still queued.";
        inconsistent_bytes, "Bytes that arrived again while the earlier copy was still queued, and differed from it; they are part of overlap_bytes.";
        out_of_window, "Segments too far from the next expected sequence number.";
        acknowledged, "Gaps skipped because the receiver had acknowledged the missing bytes.";
        forced_by_segments, "Gaps skipped because one direction had too many queued segments.";
        forced_by_bytes, "Gaps skipped because one direction had too many queued bytes.";
        forced_by_total, "Gaps skipped because the worker had too many queued bytes.";
        forced_by_awaiting, "Times that a direction had too many segments waiting for acknowledged bytes of the other direction; all of these segments were delivered.";
        gaps, "Gaps in delivered streams.";
        gap_bytes, "Bytes missing in these gaps.";
        refused_by_segments, "Fragments refused because their datagram had too many.";
        refused_by_bytes, "Fragments refused because their datagram would be too long.";
        refused_by_overlap, "Fragments refused because fragments of their datagram overlapped in part.";
        refused_by_total, "Fragments refused because the worker had too many queued bytes.";
        refused_behind_hole, "Segments refused because too many segments waited behind a gap that strict reassembly does not skip.";
        copied, "Queued segments whose bytes were copied, because the source needed the memory of their packet, or because too much of the capture was pinned.";
        assembled, "Datagrams assembled from fragments.";
        ends_provisional, "FINs, and in strict mode resets, that ended a direction until its receiver confirmed or disproved the end.";
        ends_disproved, "Times that a receiver acknowledged bytes behind a FIN or reset, which was then forgotten.";
        ends_forced, "FINs and resets given up because too much waited behind them.";
        ends_refused, "FINs and resets without effect because their direction had sixteen unconfirmed ends already.";
        released, "Queued segments discarded at the end of their flow.";
    }
}

counters! {
    /// Sessions: losses caused by bounds.
    SessionCounters {
        probes_cut, "Connections whose protocol was still unknown when the buffer for their first bytes was full.";
        parts_cut, "Parts of sessions (messages, elements of lists) discarded because they were too long or too many.";
        sessions_cut, "Sessions ended early because a bound of their parser was reached.";
        inner_streams_cut, "Streams inside sessions that were not parsed, because they were nested too deeply, or because several protocols share the flow.";
        sessions_shed, "Connections whose sessions were ended early because memory was short.";
        sessions_undecided, "Sessions given up before the record of their connection was complete, because too many sessions, or too many bytes, were held.";
    }
}

counters! {
    /// Streams: losses caused by bounds on memory.
    StreamCounters {
        stream_bytes_dropped, "Bytes of chunks discarded because memory was short.";
        stream_segments_dropped, "Out-of-order segments discarded because memory was short.";
        stream_bytes_peak, "Maximum number of bytes in chunks; with several workers the sum of their maxima.";
    }
}

counters! {
    /// Events of packets.
    EventCounters {
        column_bytes_cut, "Bytes of event columns discarded because one packet had too many.";
    }
}

counters! {
    /// Messages that streams are split into.
    MessageCounters {
        messages_cut, "Incomplete messages: bytes were missing, or the flow ended.";
        messages_lost, "Positions in streams where a message was expected and none began; the search continued at the next segment.";
        messages_too_long, "Messages discarded because they were too long.";
        message_bytes_lost, "Bytes of these messages, and bytes discarded because too many waited.";
        message_runs_copied, "Runs of unread bytes that were copied because the source needed the memory of their packet.";
    }
}

/// The outcome of a packet in the counters: each packet is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// A question received the packet or its connection.
    Delivered,
    /// The packet was processed to its end, and no question received it.
    Filtered,
    /// Processing of the packet stopped early, and no question received it.
    Dropped(DropReason),
}

/// All counters of a worker, or of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets.
    pub packet: PacketCounters,
    /// Why packets were dropped: only packets that no question received.
    pub drops: Drops,
    /// Why the processing of packets stopped early, whether or not a question received them.
    pub met: Drops,
    /// Flows.
    pub flow: FlowCounters,
    /// Sequences.
    pub sequence: SequenceCounters,
    /// Sessions.
    pub session: SessionCounters,
    /// Messages.
    pub message: MessageCounters,
    /// Events.
    pub event: EventCounters,
    /// Streams.
    pub stream: StreamCounters,
    /// The clock.
    pub clock: ClockCounters,
    /// Distribution of packets to workers.
    pub dispatch: DispatchCounters,
}

counters! {
    /// Distribution of packets to workers.
    DispatchCounters {
        units_moved, "Connections, or pairs of hosts with a tunnel, assigned to another worker than the one selected by their hash, because that worker had too much load.";
        units_not_moved, "Connections, or pairs of hosts with a tunnel, that stayed on an overloaded worker, because too many had been moved.";
        units_forgotten, "Tunnels, connections in tunnels and fragmented datagrams that the dispatcher forgot, because there were too many. Their later packets may reach another worker, which is not counted as packets_astray.";
        packets_astray, "Packets that reached another worker than earlier packets of their connection or datagram: the ends of a tunnel changed, or fragments came before the first one. Rows may differ from those of one worker.";
    }
}

counters! {
    /// The clock.
    ClockCounters {
        packets_ahead, "Packets more than an hour ahead of the next packet; they did not set the clock.";
        packets_late, "Packets more than 5 s behind the packets before them; their flows may already have ended.";
        clock_set_back, "Times that the clock was set back, because thousands of consecutive packets were more than a minute behind, or a live source was.";
        clock_steps, "Times that the machine's clock was set during a capture on a link, by each worker; idle times of flows stayed.";
        claims_overruled, "Times that packets were more than 1 s behind the time that an idle source had claimed, for example from a pipe that was buffered or stopped.";
    }
}

/// Two sides of an account that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imbalance {
    /// What is counted.
    pub what: &'static str,
    /// The number that went in.
    pub went_in: u64,
    /// The number that came out, for all reasons.
    pub came_out: u64,
}

impl Counters {
    /// Counts a packet whose outcome is decided.
    pub fn account(&mut self, account: Account) {
        self.account_many(account, 1);
    }

    /// Counts packets of the same outcome.
    pub fn account_many(&mut self, account: Account, packets: u64) {
        match account {
            Account::Delivered => self.packet.delivered += packets,
            Account::Filtered => self.packet.filtered += packets,
            Account::Dropped(reason) => self.drops.count_many(reason, packets),
        }
    }

    /// Adds another worker's counters to these.
    pub fn merge(&mut self, other: &Self) {
        self.packet.merge(&other.packet);
        self.drops.merge(&other.drops);
        self.met.merge(&other.met);
        self.flow.merge(&other.flow);
        self.sequence.merge(&other.sequence);
        self.session.merge(&other.session);
        self.message.merge(&other.message);
        self.event.merge(&other.event);
        self.stream.merge(&other.stream);
        self.clock.merge(&other.clock);
        self.dispatch.merge(&other.dispatch);
    }

    /// Name, value and meaning of all counters; drop reasons only if they occurred, by their label.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64, &'static str)> + '_ {
        let drops = self.drops.iter().map(|(reason, count)| (reason.label(), count, reason.doc()));
        let flows =
            self.flow.iter().chain(self.sequence.iter()).chain(self.session.iter()).chain(self.stream.iter());
        let flows = flows.chain(self.message.iter()).chain(self.event.iter());
        self.packet.iter().chain(drops).chain(flows).chain(self.clock.iter()).chain(self.dispatch.iter())
    }

    /// Checks that every packet and flow is accounted for. `live` flows have not ended, and no packet waits.
    ///
    /// # Errors
    /// The first account that does not balance. This is a bug in the engine, whatever the traffic was.
    pub fn adds_up(&self, live: u64) -> Result<(), Imbalance> {
        let packet = &self.packet;
        let flow = &self.flow;
        let flows_over = flow.flows_ended
            + flow.flows_restarted
            + flow.flows_expired
            + flow.flows_shed
            + flow.flows_flushed;
        let accounts = [
            ("packets", packet.packets, packet.delivered + packet.filtered + self.drops.total()),
            ("flows", flow.flows_created, flows_over + live),
        ];
        match accounts.into_iter().find(|&(_, went_in, came_out)| went_in != came_out) {
            None => Ok(()),
            Some((what, went_in, came_out)) => Err(Imbalance { what, went_in, came_out }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balanced() -> Counters {
        let mut drops = Drops::default();
        drops.count(DropReason::Malformed);
        Counters {
            packet: PacketCounters { packets: 10, delivered: 6, filtered: 3, ..Default::default() },
            drops,
            flow: FlowCounters { flows_created: 3, flows_expired: 2, ..Default::default() },
            ..Counters::default()
        }
    }

    #[test]
    fn what_went_in_came_out() {
        assert_eq!(balanced().adds_up(1), Ok(()));
        let lost = Imbalance { what: "flows", went_in: 3, came_out: 2 };
        assert_eq!(balanced().adds_up(0), Err(lost));
        let mut lossy = balanced();
        lossy.packet.packets += 1;
        assert_eq!(lossy.adds_up(1), Err(Imbalance { what: "packets", went_in: 11, came_out: 10 }));
    }

    #[test]
    fn counters_of_two_workers_are_summed() {
        let mut sum = balanced();
        sum.merge(&balanced());
        assert_eq!(sum.adds_up(2), Ok(()));
        assert_eq!((sum.packet.packets, sum.drops.of(DropReason::Malformed)), (20, 2));
    }

    #[test]
    fn every_counter_has_a_name_of_its_own_and_a_meaning() {
        let counters = balanced();
        let mut names: Vec<&str> = counters.iter().map(|(name, _, _)| name).collect();
        assert!(names.contains(&"malformed") && !names.contains(&"truncated"));
        assert!(counters.iter().all(|(_, _, text)| text.ends_with('.')));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
