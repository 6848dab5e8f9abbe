//! A source of packets from memory with given idle times: for tests, and for programs that generate packets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use weir_packet::{
    BURST_PACKETS_MAX, Block, Burst, LinkType, PacketMeta, Poll, Source, SourceError, SourceStats, Timestamp,
};

/// A packet in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPacket {
    /// Time of capture.
    pub time: Timestamp,
    /// The link type of `frame`.
    pub link: LinkType,
    /// Length on the wire; raised to the length of `frame` if smaller.
    pub wire_bytes: u32,
    /// The captured bytes.
    pub frame: Vec<u8>,
}

impl MemoryPacket {
    /// A complete Ethernet frame, at time 0.
    pub fn ethernet(frame: Vec<u8>) -> Self {
        let wire_bytes = frame.len() as u32;
        Self { time: Timestamp(0), link: LinkType::ETHERNET, wire_bytes, frame }
    }

    /// The same packet captured with this snaplen.
    #[must_use]
    pub fn cut(mut self, snaplen: usize) -> Self {
        self.frame.truncate(snaplen);
        self
    }
}

/// The result of one poll.
#[derive(Debug, Clone)]
enum Step {
    Packets(Vec<MemoryPacket>),
    Idle(Timestamp),
}

impl Step {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Packets(packets) if packets.is_empty())
    }
}

/// Returns given packets and idle times, in the given order. It never waits: time is virtual. Copies the
/// bytes of each burst.
#[derive(Debug, Clone, Default)]
pub struct MemorySource {
    steps: VecDeque<Step>,
    spread: Option<fn(&MemoryPacket) -> usize>,
    /// Packets delivered.
    packets: u64,
}

impl MemorySource {
    /// An empty source.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the source splittable: `spread` returns the part of a packet, modulo the number of parts. All
    /// parts have the idle times of the whole source.
    #[must_use]
    pub fn split_by(mut self, spread: fn(&MemoryPacket) -> usize) -> Self {
        self.spread = Some(spread);
        self
    }

    /// Appends packets, in bursts as large as possible.
    #[must_use]
    pub fn then_packets(mut self, packets: impl IntoIterator<Item = MemoryPacket>) -> Self {
        let mut packets = packets.into_iter().peekable();
        while packets.peek().is_some() {
            self.steps.push_back(Step::Packets(packets.by_ref().take(BURST_PACKETS_MAX).collect()));
        }
        self
    }

    /// Appends an idle time `now`.
    #[must_use]
    pub fn then_idle(mut self, now: Timestamp) -> Self {
        self.steps.push_back(Step::Idle(now));
        self
    }
}

impl Source for MemorySource {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        burst.clear();
        let packets = match self.steps.pop_front() {
            None => return Ok(Poll::End),
            Some(Step::Idle(now)) => return Ok(Poll::Idle { now }),
            Some(Step::Packets(packets)) => packets,
        };
        let mut bytes = vec![];
        for packet in packets {
            self.packets += 1;
            let captured_bytes = packet.frame.len() as u32;
            burst.packets.push(PacketMeta {
                time: packet.time,
                number: self.packets,
                offset: bytes.len() as u32,
                captured_bytes,
                wire_bytes: packet.wire_bytes.max(captured_bytes),
                link: packet.link,
                interface: 0,
            });
            bytes.extend(packet.frame);
        }
        burst.block = Arc::new(Block::shared(bytes));
        Ok(Poll::Packets)
    }

    fn split(
        &mut self,
        parts: usize,
        _: Option<Duration>,
    ) -> Result<Option<Vec<Box<dyn Source + Send>>>, SourceError> {
        let Some(spread) = self.spread else { return Ok(None) };
        let steps = std::mem::take(&mut self.steps);
        let part = |index| {
            let share = |step: &Step| match step {
                Step::Idle(now) => Some(Step::Idle(*now)),
                Step::Packets(packets) => {
                    let own = packets.iter().filter(|packet| spread(packet) % parts == index);
                    Some(Step::Packets(own.cloned().collect())).filter(|step| !step.is_empty())
                }
            };
            let steps = steps.iter().filter_map(share).collect();
            Box::new(Self { steps, spread: None, packets: 0 }) as Box<dyn Source + Send>
        };
        Ok(Some((0..parts).map(part).collect()))
    }

    fn stats(&self) -> SourceStats {
        SourceStats { received: self.packets, ..SourceStats::default() }
    }
}
