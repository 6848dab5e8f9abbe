//! The payloads of datagrams, in order, into packets.

use crate::counters::ArrivalCounts;
use crate::wire::{Header, RECORD_BYTES, Record};
use crate::{PACKET_BYTES_MAX, Packet};

/// Takes packets of a stream.
pub(crate) type Sink<'s> = dyn FnMut(&Packet<'_>) + 's;

/// What a stream keeps from one datagram to the next.
#[derive(Debug, Default)]
pub(crate) struct Unpacker {
    /// The packet whose last bytes have not come.
    begun: Option<Record>,
    /// Its bytes. The memory is kept, for at most [`PACKET_BYTES_MAX`] bytes.
    bytes: Vec<u8>,
    /// Packets that began in the datagrams so far; `None` before the first one.
    packets: Option<u64>,
}

impl Unpacker {
    /// For a stream whose first `packets` packets were not sent to this receiver.
    pub fn new(packets: Option<u64>) -> Self {
        Self { packets, ..Self::default() }
    }

    /// Takes the next datagram. `is_after_gap`: datagrams before it are missing.
    pub fn take(
        &mut self,
        (header, payload): (&Header, &[u8]),
        is_after_gap: bool,
        counts: &mut ArrivalCounts,
        sink: &mut Sink<'_>,
    ) {
        let before = self.packets.replace(header.packets_before.saturating_add(header.packets.into()));
        counts.miss(before.map_or(0, |before| header.packets_before.saturating_sub(before)));
        let (continued, records) = payload.split_at(header.continued as usize);
        if let Some(record) = self.begun.take() {
            let missing = (record.captured_bytes as usize).saturating_sub(self.bytes.len());
            let is_last = continued.len() == missing;
            match !is_after_gap && (is_last || continued.len() < missing && records.is_empty()) {
                true => {
                    self.bytes.extend_from_slice(continued);
                    match is_last {
                        true => deliver(&record, &self.bytes, counts, sink),
                        false => self.begun = Some(record),
                    }
                }
                false => counts.miss(1),
            }
        }
        self.records(header.packets, records, counts, sink);
    }

    /// No datagram follows: the packet whose last bytes have not come is missing.
    pub fn end(&mut self, counts: &mut ArrivalCounts) {
        counts.miss(u64::from(self.begun.take().is_some()));
    }

    fn records(&mut self, packets: u16, mut rest: &[u8], counts: &mut ArrivalCounts, sink: &mut Sink<'_>) {
        for index in 0..packets {
            let parsed =
                Record::parse(rest).filter(|(record, _)| record.captured_bytes as usize <= PACKET_BYTES_MAX);
            let (Some((record, behind)), is_last) = (parsed, index + 1 == packets) else {
                return contradict(packets - index, counts);
            };
            match behind.split_at_checked(record.captured_bytes as usize) {
                Some((frame, behind)) => {
                    deliver(&record, frame, counts, sink);
                    rest = behind;
                }
                None if is_last => {
                    self.bytes.clear();
                    self.bytes.extend_from_slice(behind);
                    self.begun = Some(record);
                    return;
                }
                None => return contradict(packets - index, counts),
            }
        }
        // What is too short for a record fills the datagram.
        if rest.len() >= RECORD_BYTES {
            contradict(0, counts);
        }
    }
}

/// The datagram contradicts itself, and these packets of it are lost.
fn contradict(packets: u16, counts: &mut ArrivalCounts) {
    counts.datagrams_invalid += 1;
    counts.miss(packets.into());
}

fn deliver(record: &Record, frame: &[u8], counts: &mut ArrivalCounts, sink: &mut Sink<'_>) {
    counts.packets += 1;
    let wire_bytes = record.wire_bytes.max(record.captured_bytes);
    sink(&Packet { time: record.time, wire_bytes, link: record.link, frame });
}
