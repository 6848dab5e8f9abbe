//! [`RtpStream`], and its fields.

use super::jitter::{Jitter, Outcome};
use super::packet::{Packet, payload};
use super::rtcp::Said;
use super::sequence::{Sequence, Taken};
use crate::session::session_fields;
use crate::values::{numbers, text, unsigned};
use crate::{Direction, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// Maximum number of payload types kept of a stream.
const PAYLOAD_TYPES_MAX: usize = 8;

/// The packets of one source in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct RtpStream {
    /// Capture time of the first packet, or of the first RTCP about the source.
    pub time: Timestamp,
    /// Capture time of the last packet.
    pub last_time: Timestamp,
    /// Direction of the sender.
    pub from: Direction,
    /// Source number (SSRC).
    pub source: u32,
    /// RTP packets without repeated ones.
    pub packets: u64,
    /// Payload without headers and padding, bytes.
    pub payload_bytes: u64,
    /// Packets with a marker: starts of talk spurts, ends of pictures.
    pub marked: u64,
    /// Payload types in order of first use, 8 at most. Jitter is computed for the first.
    pub payload_types: Vec<u8>,
    numbers: Option<(Sequence, Jitter)>,
    /// Name of the source (CNAME).
    pub name: Option<String>,
    /// Number of RTCP reports on the source, by its sender or receiver.
    pub reports: u64,
    /// Packets and payload bytes sent, as reported by the sender.
    pub reported_sent: Option<(u32, u32)>,
    /// Packets lost, and jitter in units of the payload's clock, as reported by the receiver.
    pub reported: Option<(i32, u32)>,
}

impl RtpStream {
    pub(super) fn new(time: Timestamp, from: Direction, source: u32) -> Self {
        Self {
            time,
            last_time: time,
            from,
            source,
            packets: 0,
            payload_bytes: 0,
            marked: 0,
            payload_types: Vec::new(),
            numbers: None,
            name: None,
            reports: 0,
            reported_sent: None,
            reported: None,
        }
    }

    /// Takes a packet of the stream. Returns whether all of it was kept.
    pub(super) fn take(&mut self, time: Timestamp, packet: &Packet) -> bool {
        let clock = || payload(packet.payload_type).map(|payload| payload.1);
        match &mut self.numbers {
            None => {
                self.time = time;
                let jitter = Jitter::new(clock(), time, packet.timestamp);
                self.numbers = Some((Sequence::new(packet.sequence), jitter));
            }
            Some((sequence, jitter)) => match sequence.take(packet.sequence) {
                // A capture may have packets twice; these change neither the counts nor the end time.
                Taken::Again => return true,
                Taken::New if self.payload_types.first() == Some(&packet.payload_type) => {
                    jitter.take(time, packet.timestamp);
                }
                Taken::New | Taken::Stray => {}
            },
        }
        self.last_time = time;
        self.packets += 1;
        self.payload_bytes = self.payload_bytes.saturating_add(packet.payload_bytes as u64);
        self.marked += u64::from(packet.is_marked);
        if self.payload_types.contains(&packet.payload_type) {
            return true;
        }
        let has_room = self.payload_types.len() < PAYLOAD_TYPES_MAX;
        if has_room {
            self.payload_types.push(packet.payload_type);
        }
        has_room
    }

    /// Takes a statement of RTCP about the stream.
    pub(super) fn take_said(&mut self, time: Timestamp, said: Said) {
        self.reports += u64::from(!matches!(said, Said::Name { .. }));
        if self.numbers.is_none() {
            // RTP flows elsewhere, as a rule on the port before (RFC 3550 §11).
            self.last_time = time;
        }
        match said {
            Said::Sent { packets, bytes, .. } => self.reported_sent = Some((packets, bytes)),
            Said::Received { lost, jitter, .. } => self.reported = Some((lost, jitter)),
            Said::Name { name, .. } => self.name = Some(name),
        }
    }

    /// Whether the stream is certain: two packets had consecutive numbers, or RTCP mentioned it.
    pub(super) fn is_likely(&self) -> bool {
        self.reports > 0
            || self.name.is_some()
            || self.numbers.as_ref().is_some_and(|(sequence, _)| sequence.is_likely)
    }

    /// Number of lost packets.
    pub fn lost(&self) -> Option<u64> {
        self.numbers.as_ref().map(|(sequence, _)| sequence.lost())
    }

    fn sequence(&self, read: fn(&Sequence) -> u64) -> Value<'static> {
        self.numbers.as_ref().map_or(Value::Absent, |(sequence, _)| Value::Unsigned(read(sequence)))
    }

    fn jitter(&self, read: fn(&Outcome) -> Value<'static>) -> Value<'static> {
        let outcome = self.numbers.as_ref().and_then(|(_, jitter)| jitter.outcome());
        outcome.as_ref().map_or(Value::Absent, read)
    }

    /// Name of the first payload type: `PCMU`.
    pub fn payload_name(&self) -> Option<&'static str> {
        self.payload_types.first().map(|first| payload(*first).map_or("dynamic", |payload| payload.0))
    }

    /// The jitter that the receiver reports, nanoseconds. `None` if the clock is unknown.
    fn reported_jitter_ns(&self) -> Option<u64> {
        let (_, units) = self.reported?;
        let clock = self.numbers.as_ref()?.1.outcome()?.clock;
        (u64::from(units) * 1_000_000_000).checked_div(clock.into())
    }
}

impl Session for RtpStream {
    fn value(&self, index: usize) -> Value<'_> {
        value(self, index)
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.time)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn interval(ns: Option<u64>) -> Value<'static> {
    ns.map_or(Value::Absent, Value::Interval)
}

session_fields! { RtpStream;
    "rtp.is_orig" [] is_orig: Bool, "Whether the originator of the flow sends the stream" => |r| Value::Bool(r.from == Direction::Originator);
    "rtp.ssrc" [] ssrc: Unsigned, "Number of the source" => |r| Value::Unsigned(r.source.into());
    "rtp.p_type" ["rtp.payload_type"] payload_type: Unsigned, "Payload type of the first packet" => |r| unsigned(r.payload_types.first().copied());
    "rtp.payload" ["rtp.codec"] payload: Text, "Name of the payload type: PCMU, PCMA, G722, H263; dynamic if it is negotiated elsewhere" => |r| text(r.payload_name());
    "rtp.duration" [] duration: Interval, "Time from the first packet to the last; without packets, from the first report to the last" => |r| Value::Interval(r.last_time.since_ns(r.time));
    "rtp.packets" [] packets: Unsigned, "Number of packets" => |r| Value::Unsigned(r.packets);
    "rtp.bytes" [] bytes: Unsigned, "Size of all payloads, bytes" => |r| Value::Unsigned(r.payload_bytes);
    "rtp.lost" [] lost: Unsigned, "Number of lost packets, derived from the sequence numbers" => |r| r.sequence(Sequence::lost);
    "rtp.out_of_order" [] out_of_order: Unsigned, "Number of packets that arrived after later ones" => |r| r.sequence(|sequence| sequence.late);
    "rtp.duplicates" [] duplicates: Unsigned, "Number of repeated packets" => |r| r.sequence(|sequence| sequence.repeated);
    "rtp.jitter" [] jitter: Interval, "Interarrival jitter at the end (RFC 3550 A.8)" => |r| r.jitter(|outcome| Value::Interval(outcome.now_ns));
    "rtp.jitter_max" ["rtp.max_jitter"] max_jitter: Interval, "Maximum of the interarrival jitter" => |r| r.jitter(|outcome| Value::Interval(outcome.most_ns));
    "rtp.jitter_mean" ["rtp.mean_jitter"] mean_jitter: Interval, "Mean of the interarrival jitter" => |r| r.jitter(|outcome| Value::Interval(outcome.mean_ns));
    "rtp.clock" ["rtp.clock_rate"] clock_rate: Unsigned, "Clock rate, units per second: from the payload type, or estimated" => |r| r.jitter(|outcome| Value::Unsigned(outcome.clock.into()));
    "rtp.first_seq" [] first_seq: Unsigned, "Sequence number of the first packet" => |r| r.sequence(|sequence| sequence.first_number.into());
    "rtp.last_seq" [] last_seq: Unsigned, "Highest sequence number" => |r| r.sequence(|sequence| sequence.last_number().into());
    // RTCP contents, which may be present without RTP packets.
    "rtcp.reports" ["rtp.reports"] reports: Unsigned, "Number of RTCP reports about the stream" => |r| Value::Unsigned(r.reports);
    "rtcp.sdes.cname" ["rtp.cname"] cname: Text, "Canonical name of the source" => |r| text(r.name.as_deref());
    "rtcp.sender.packetcount" ["rtp.reported_packets"] reported_packets: Unsigned, "Number of sent packets, as reported by the sender" => |r| unsigned(r.reported_sent.map(|sent| sent.0));
    "rtcp.sender.octetcount" ["rtp.reported_bytes"] reported_bytes: Unsigned, "Size of all sent payloads, as reported by the sender, bytes" => |r| unsigned(r.reported_sent.map(|sent| sent.1));
    "rtcp.ssrc.cum_nr" ["rtp.reported_lost"] reported_lost: Unsigned, "Number of lost packets, as reported by the receiver" => |r| unsigned(r.reported.and_then(|reported| u32::try_from(reported.0).ok()));
    "rtcp.ssrc.jitter" ["rtp.reported_jitter"] reported_jitter: Interval, "Interarrival jitter, as reported by the receiver, if the clock rate is known" => |r| interval(r.reported_jitter_ns());
    "rtp.call_id" [] call_id: Text, "Call-ID of the SIP call that announced the stream; only in rows" => |_| Value::Absent;
    // Not in the log.
    "rtp.payload_types" [] _: Numbers, "All payload types of the stream" => |r| numbers(&r.payload_types);
    "rtp.marked" [] _: Unsigned, "Number of packets with the marker bit: beginnings of talk spurts, ends of pictures" => |r| Value::Unsigned(r.marked);
}
