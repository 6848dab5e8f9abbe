//! [`RtpParser`]: datagrams in, streams out; and the probe.

use super::packet::Packet;
use super::rtcp::{self, Said};
use super::stream::RtpStream;
use crate::{CutOff, Data, Direction, Opening, Probe, Progress, Session, SessionParser};
use weir_packet::Timestamp;

/// Maximum number of streams of a flow.
pub const STREAMS_MAX: usize = 32;

/// Largest difference of sequence numbers between the packets used for recognition.
const TELLING_GAP_MAX: u16 = 16;

/// Judges the last datagrams of one side, newest first.
fn side(datagrams: [&[u8]; 3]) -> Probe {
    if datagrams[0].is_empty() {
        return Probe::Unsure;
    }
    if rtcp::is_compound(datagrams[0]) {
        return Probe::Certain;
    }
    let likely = |datagram: &[u8]| Packet::parse(datagram).filter(Packet::is_likely);
    if likely(datagrams[0]).is_none() {
        return if rtcp::is_rtcp(datagrams[0]) { Probe::Unsure } else { Probe::NotForUs };
    }
    let [Some(last), Some(before), Some(first)] = datagrams.map(likely) else { return Probe::Unsure };
    let follows = |a: &Packet, b: &Packet| {
        a.source == b.source && (1..=TELLING_GAP_MAX).contains(&b.sequence.wrapping_sub(a.sequence))
    };
    if follows(&first, &before) && follows(&before, &last) { Probe::Certain } else { Probe::Unsure }
}

/// Three consecutive packets of one source, or an RTCP compound, from either side. Datagrams of the other
/// side must be RTP or RTCP, too.
pub(super) fn probe(opening: &Opening<'_>) -> Probe {
    if !opening.is_datagram {
        return Probe::NotForUs;
    }
    let [originator, responder] = opening.earlier;
    let sides = [
        side([opening.originator, originator[0], originator[1]]),
        side([opening.responder, responder[0], responder[1]]),
    ];
    match sides {
        [Probe::NotForUs, _] | [_, Probe::NotForUs] => Probe::NotForUs,
        [Probe::Certain, _] | [_, Probe::Certain] => Probe::Certain,
        _ => Probe::Unsure,
    }
}

/// Parses one flow.
#[derive(Debug, Default)]
pub struct RtpParser {
    streams: Vec<RtpStream>,
    /// Index of the last packet's stream; the next packet mostly belongs to it, too.
    last: usize,
    cut_off: CutOff,
}

impl SessionParser for RtpParser {
    fn parse(&mut self, data: &Data<'_>, _: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        if !matches!(data.bytes.first(), Some(128..=191)) {
            return Progress::NotMine;
        }
        if let Some(packet) = Packet::parse(data.bytes) {
            match self.stream(data.from, packet.source, data.time) {
                Some(stream) => {
                    let is_kept = stream.take(data.time, &packet);
                    self.cut_off.parts += u64::from(!is_kept);
                }
                None => self.cut_off.parts += 1,
            }
        } else {
            rtcp::read_all(data.bytes, |said| self.take_said(data, said));
        }
        Progress::Wanted
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        let streams = std::mem::take(&mut self.streams).into_iter().filter(|stream| stream.is_likely());
        sessions.extend(streams.map(|stream| Box::new(stream) as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

impl RtpParser {
    /// The stream of a source. A new stream evicts one without a second packet if all places are taken;
    /// `None` if there is no such stream.
    fn stream(&mut self, from: Direction, source: u32, time: Timestamp) -> Option<&mut RtpStream> {
        let is_it = |stream: &RtpStream| (stream.from, stream.source) == (from, source);
        if !self.streams.get(self.last).is_some_and(is_it) {
            let known = self.streams.iter().position(is_it);
            self.last = match known {
                Some(at) => at,
                None if self.streams.len() < STREAMS_MAX => {
                    self.streams.push(RtpStream::new(time, from, source));
                    self.streams.len() - 1
                }
                None => {
                    let at = self.streams.iter().position(|stream| !stream.is_likely())?;
                    self.streams.remove(at);
                    self.streams.push(RtpStream::new(time, from, source));
                    self.streams.len() - 1
                }
            };
        }
        self.streams.get_mut(self.last)
    }

    /// Assigns RTCP contents: sender reports to the sender's stream, receiver reports to the other side's.
    fn take_said(&mut self, data: &Data<'_>, said: Said) {
        let (from, source) = match said {
            Said::Sent { source, .. } | Said::Name { source, .. } => (data.from, source),
            Said::Received { source, .. } => (data.from.other(), source),
        };
        match self.stream(from, source, data.time) {
            Some(stream) => stream.take_said(data.time, said),
            None => self.cut_off.parts += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PROTOCOL;
    use super::*;
    use crate::conversation::rows;
    use crate::wire::hex;

    fn packet(payload_type: u8, sequence: u16, timestamp: u32, source: u32) -> Vec<u8> {
        [
            &[0x80, payload_type][..],
            &sequence.to_be_bytes(),
            &timestamp.to_be_bytes(),
            &source.to_be_bytes(),
            &[7; 160],
        ]
        .concat()
    }

    fn talk(packets: &[(char, Vec<u8>)]) -> String {
        let lines = packets.iter().map(|(side, bytes)| format!("{side} {}\n", hex(bytes)));
        "datagrams\n".to_owned() + &lines.collect::<String>()
    }

    /// A sender report of source 7, with a report block on source 9, and a name.
    fn report() -> Vec<u8> {
        let mut bytes = vec![0x81, 200, 0, 12, 0, 0, 0, 7];
        bytes.extend([0; 12]);
        bytes.extend([0, 0, 0, 50, 0, 0, 31, 64]);
        bytes.extend([0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 99, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(b"\x81\xca\0\x03\0\0\0\x07\x01\x04a@bc\0\0");
        bytes
    }

    const LOG: &[&str] =
        &["is_orig", "ssrc", "payload", "packets", "bytes", "lost", "out_of_order", "first_seq", "last_seq"];

    #[test]
    fn each_source_in_each_direction_is_a_stream() {
        let packets = [
            ('>', packet(0, 10, 0, 7)),
            ('<', packet(8, 65535, 0, 9)),
            ('>', packet(0, 12, 320, 7)),
            ('>', packet(0, 11, 160, 7)),
            ('<', packet(8, 0, 160, 9)),
            ('>', packet(0, 13, 480, 7)),
            ('<', packet(8, 2, 480, 9)),
        ];
        assert_eq!(
            rows(&PROTOCOL, &talk(&packets), LOG),
            ["true | 7 | PCMU | 4 | 640 | 0 | 1 | 10 | 13", "false | 9 | PCMA | 3 | 480 | 1 | 0 | 65535 | 2"]
        );
    }

    #[test]
    fn what_a_tap_shows_twice_is_counted_once() {
        let sent: Vec<_> = [10, 11, 13, 12, 14].map(|n| ('>', packet(0, n, u32::from(n) * 160, 7))).into();
        let twice: Vec<_> = sent.iter().flat_map(|packet| [packet.clone(), packet.clone()]).collect();
        let (log, duplicates) = ([LOG, &["rtp.marked"]].concat(), &["duplicates"]);
        assert_eq!(rows(&PROTOCOL, &talk(&twice), &log), rows(&PROTOCOL, &talk(&sent), &log));
        assert_eq!(rows(&PROTOCOL, &talk(&sent), duplicates), ["0"]);
        assert_eq!(rows(&PROTOCOL, &talk(&twice), duplicates), ["5"]);
    }

    #[test]
    fn reports_in_the_same_flow_are_of_the_streams() {
        let packets = [
            ('>', packet(0, 1, 0, 7)),
            ('>', packet(0, 2, 160, 7)),
            ('<', packet(0, 1, 0, 9)),
            ('<', packet(0, 2, 160, 9)),
            ('>', report()),
        ];
        assert_eq!(
            rows(
                &PROTOCOL,
                &talk(&packets),
                &["ssrc", "rtp.cname", "rtp.reported_packets", "rtp.reported_lost", "rtp.reported_jitter"]
            ),
            ["7 | a@bc | 50 | - | -", "9 | - | - | 2 | 2000000"]
        );
    }

    #[test]
    fn reports_alone_have_rows_of_what_they_say() {
        // RTCP has its own flow. It yields two streams: the reporting source and the reported one.
        let packets = [('>', report()), ('>', report())];
        let names = [
            "is_orig",
            "ssrc",
            "packets",
            "duration",
            "reports",
            "cname",
            "reported_packets",
            "reported_bytes",
            "reported_lost",
        ];
        assert_eq!(
            rows(&PROTOCOL, &talk(&packets), &names),
            [
                "true | 7 | 0 | 1000000 | 2 | a@bc | 50 | 8000 | -",
                "false | 9 | 0 | 1000000 | 2 | - | - | - | 2"
            ]
        );
    }

    #[test]
    fn jitter_is_told_in_time() {
        // The steps of a conversation are a millisecond apart: 8 units.
        let packets: Vec<_> = (0..100).map(|at| ('>', packet(0, at, u32::from(at) * 8, 7))).collect();
        let names = ["jitter", "max_jitter", "clock_rate", "duration"];
        assert_eq!(rows(&PROTOCOL, &talk(&packets), &names), ["0 | 0 | 8000 | 99000000"]);
        let late: Vec<_> = (0..2).map(|at| ('>', packet(0, at, 0, 7))).collect();
        assert_eq!(rows(&PROTOCOL, &talk(&late), &names), ["62500 | 62500 | 8000 | 1000000"]);
    }

    #[test]
    fn one_packet_is_no_stream() {
        let packets = [('>', packet(0, 1, 0, 7)), ('>', packet(0, 500, 0, 8)), ('>', packet(0, 2, 0, 7))];
        assert_eq!(rows(&PROTOCOL, &talk(&packets), &["ssrc"]), ["7"]);
    }

    #[test]
    fn streams_are_bounded() {
        let before = weir_memory::live_bytes();
        let mut parser = RtpParser::default();
        for source in 1..10_000_u32 {
            let (first, second) = (packet(0, 1, 0, source), packet(0, 2, 0, source));
            let pair = if source < 100 { vec![first, second] } else { vec![first] };
            for bytes in pair {
                let data = Data {
                    from: Direction::Originator,
                    time: Timestamp(0),
                    bytes: &bytes,
                    is_datagram: true,
                };
                parser.parse(&data, &mut Vec::new());
            }
        }
        assert!(weir_memory::live_bytes() - before < 64 * 1024);
        assert!(parser.cut_off().parts > 9000);
    }

    #[test]
    fn three_packets_in_a_row_tell() {
        let [a, b, c] = [(1, 0), (2, 160), (4, 480)].map(|(at, time)| packet(0, at, time, 7));
        let probe = |last: &[u8], before: &[u8], first: &[u8], responder: &[u8]| {
            super::probe(&Opening {
                originator: last,
                responder,
                earlier: [[before, first], [&[], &[]]],
                is_datagram: true,
                ..Opening::default()
            })
        };
        assert_eq!(probe(&a, &[], &[], &[]), Probe::Unsure);
        assert_eq!(probe(&b, &a, &[], &[]), Probe::Unsure);
        assert_eq!(probe(&c, &b, &a, &[]), Probe::Certain);
        assert_eq!(probe(&c, &b, &a, b"hello"), Probe::NotForUs);
        assert_eq!(probe(&a, &b, &c, &[]), Probe::Unsure);
        assert_eq!(probe(&c, &packet(0, 2, 160, 8), &a, &[]), Probe::Unsure);
        assert_eq!(probe(&packet(70, 1, 0, 7), &[], &[], &[]), Probe::NotForUs);
        assert_eq!(probe(&packet(0, 1, 0, 0), &[], &[], &[]), Probe::NotForUs);
        assert_eq!(probe(&report(), &[], &[], &[]), Probe::Certain);
        assert_eq!(probe(&[0x80, 0, 1], &[], &[], &[]), Probe::NotForUs);
    }
}
