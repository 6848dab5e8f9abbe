//! NTP (RFC 5905 §7.3, and versions 1 to 3, which have the same format): one [`NtpMessage`] for each message.

use crate::session::session_fields;
use crate::values::{owned, unsigned};
use crate::wire::{Reader, hex};
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::any::Any;
use std::net::Ipv4Addr;
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "ntp",
    service: "ntp",
    log: "ntp",
    transports: &["udp"],
    ports: &[123],
    hands_over: &[],
    doc: "NTP messages, each with its four timestamps (RFC 5905)",
    probe,
    may_begin,
    open: |_| Box::new(NtpParser),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "mode", "version", "stratum", "ref_id"],
    fields: FIELDS,
};

/// First byte: a version from 1 to 4 and a mode other than 0.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        // Version and mode. On other ports, only messages of servers are recognised.
        0 => ByteSet::of(|byte| {
            let is_mode = if place.is_on_port { byte & 7 != 0 } else { byte & 7 == 4 };
            matches!(byte >> 3 & 7, 1..=4) && is_mode
        }),
        _ => ByteSet::ALL,
    }
}

/// Length of a message without extension fields and authenticator, bytes.
const MESSAGE_BYTES: usize = 48;

/// Modes of control messages (RFC 9327) and of private messages of old daemons. Both have another format.
const CONTROL: u8 = 6;
const PRIVATE: u8 = 7;

/// An NTP message. Control and private messages (modes 6 and 7) have no `clock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NtpMessage {
    /// Capture time.
    pub time: Timestamp,
    /// Leap second at the end of the day: 0 none, 1 inserted, 2 omitted; 3: the clock is not synchronized.
    pub leap: u8,
    /// Version: 1 to 4.
    pub version: u8,
    /// Mode: 1 and 2 symmetric, 3 client, 4 server, 5 broadcast, 6 control, 7 private.
    pub mode: u8,
    /// Clock data; absent in control and private messages.
    pub clock: Option<Clock>,
    /// Request code of a control or private message.
    pub request: Option<u8>,
}

/// Clock data of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// Distance from the reference clock: 1 is attached to one, 16 is not synchronized, 0 is a refusal
    /// (kiss-o'-death).
    pub stratum: u8,
    /// Poll interval, as a power of two, seconds.
    pub poll: i8,
    /// Precision of the clock, as a power of two, seconds.
    pub precision: i8,
    /// Round trip to the reference clock, nanoseconds.
    pub root_delay_ns: u64,
    /// Dispersion to the reference clock, nanoseconds.
    pub root_dispersion_ns: u64,
    /// The reference: four letters or an IPv4 address.
    pub reference: [u8; 4],
    /// Reference, origin, receive and transmit timestamps, in this order. Absent if zero.
    pub times: [Option<Timestamp>; 4],
    /// Number of well-formed extension fields (RFC 7822).
    pub extensions: u64,
}

impl NtpMessage {
    /// Parses a datagram. `None` if it is truncated or its version or mode is unknown.
    pub fn parse(datagram: &[u8], time: Timestamp) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let first = reader.u8()?;
        let (leap, version, mode) = (first >> 6, first >> 3 & 7, first & 7);
        if !(1..=4).contains(&version) || mode == 0 {
            return None;
        }
        let mut message = Self { time, leap, version, mode, clock: None, request: None };
        match mode {
            CONTROL => message.request = datagram.get(..12).map(|header| header[1] & 0x1f),
            PRIVATE => message.request = datagram.get(..8).map(|header| header[3]),
            _ => message.clock = Some(Clock::read(&mut reader)?),
        }
        (message.clock.is_some() || message.request.is_some()).then_some(message)
    }

    fn clock<'a>(&'a self, read: fn(&'a Clock) -> Value<'a>) -> Value<'a> {
        self.clock.as_ref().map_or(Value::Absent, read)
    }
}

impl Clock {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let [stratum, poll, precision] = reader.array()?;
        let [root_delay_ns, root_dispersion_ns] = [reader.array()?, reader.array()?].map(read_short);
        let reference = reader.array()?;
        let mut read_time = || reader.array::<8>().map(read_timestamp);
        let times = [read_time()?, read_time()?, read_time()?, read_time()?];
        Some(Self {
            stratum,
            poll: poll as i8,
            precision: precision as i8,
            root_delay_ns,
            root_dispersion_ns,
            reference,
            times,
            extensions: count_extensions(reader),
        })
    }

    /// Whether real clocks have such values, and random bytes hardly. Delay and dispersion of a synchronised
    /// clock are at most 16 s (RFC 5905, section 7.2); there is room for worse ones.
    fn is_plausible(&self) -> bool {
        const MINUTES_NS: u64 = 256_000_000_000;
        // The root delay of some servers is a little below 0.
        const NEGATIVE_NS: u64 = (65_536 - 256) * 1_000_000_000;
        self.stratum <= 16
            && (-32..=24).contains(&self.poll)
            // Clients of chrony hide theirs: 32.
            && self.precision <= 32
            && (self.root_delay_ns < MINUTES_NS || self.root_delay_ns >= NEGATIVE_NS)
            && self.root_dispersion_ns < MINUTES_NS
    }

    /// Whether the timestamps fit a server: reference ≤ receive ≤ transmit, at most 4 days and 4 s apart.
    fn has_fitting_times(&self) -> bool {
        const DAYS_NS: u64 = 4 * 86_400_000_000_000;
        const SECONDS_NS: u64 = 4_000_000_000;
        let [Some(set), _, Some(got), Some(sent)] = self.times else { return false };
        (1..=15).contains(&self.stratum)
            && (set <= got && got <= sent)
            && got.since_ns(set) < DAYS_NS
            && sent.since_ns(got) < SECONDS_NS
    }

    /// The reference as Zeek shows it: letters for strata 0 and 1, an address for others.
    pub fn reference_text(&self) -> String {
        if self.stratum > 1 {
            return Ipv4Addr::from(self.reference).to_string();
        }
        let end = self.reference.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        let letters = &self.reference[..end];
        if letters.iter().all(|byte| matches!(byte, b' '..=b'~')) {
            letters.iter().map(|byte| char::from(*byte)).collect()
        } else {
            hex(&self.reference)
        }
    }
}

/// Converts 16.16-bit seconds to nanoseconds.
fn read_short(bytes: [u8; 4]) -> u64 {
    (u64::from(u32::from_be_bytes(bytes)) * 1_000_000_000) >> 16
}

/// Converts 32.32-bit seconds since 1900 (§6). Values below 2^31 s belong to the era that begins in 2036.
fn read_timestamp(bytes: [u8; 8]) -> Option<Timestamp> {
    const UNIX_EPOCH_SECONDS: i64 = 2_208_988_800;
    let number = Some(u64::from_be_bytes(bytes)).filter(|number| *number != 0)?;
    let era = if number >> 63 == 0 { 1 << 32 } else { 0 };
    let seconds = (number >> 32) as i64 + era - UNIX_EPOCH_SECONDS;
    let nanoseconds = ((number & 0xffff_ffff) * 1_000_000_000) >> 32;
    Some(Timestamp::from_parts(seconds, nanoseconds as i64))
}

/// Counts extension fields. Each exceeds the longest authenticator, 24 bytes (RFC 7822 §3).
fn count_extensions(reader: &mut Reader<'_>) -> u64 {
    let mut count = 0;
    while reader.rest().len() > 24 {
        let (Some(_), Some(length)) = (reader.u16(), reader.u16()) else { break };
        if length < 16 || length % 4 != 0 || reader.take(usize::from(length) - 4).is_none() {
            break;
        }
        count += 1;
    }
    count
}

/// Two to the power of `exponent`, seconds, as nanoseconds.
fn power_ns(exponent: i8) -> u64 {
    match exponent {
        // The longest poll interval is 2^17 s; 2^34 s and more would overflow.
        0.. => 1_000_000_000_u64.saturating_mul(1 << exponent.min(33)),
        _ => 1_000_000_000_u64.checked_shr(u32::from(exponent.unsigned_abs())).unwrap_or(0),
    }
}

/// Whether a message of mode 6 (control, RFC 9327) or mode 7 (private) is long enough for the data that its
/// header announces. A private message must also name an implementation that exists.
fn is_request_plausible(mode: u8, datagram: &[u8]) -> bool {
    const AUTHENTICATOR_BYTES_MAX: usize = 24;
    let number = |at: usize| datagram.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
    if mode == PRIVATE {
        // Numbers of items and of their bytes, behind four bits each.
        let items = number(4).zip(number(6)).map(|(items, bytes)| (items & 0xfff, bytes & 0xfff));
        let bytes = items.map(|(items, bytes)| 8 + usize::from(items) * usize::from(bytes));
        return matches!(datagram.get(2), Some(0 | 2 | 3))
            && bytes.is_some_and(|bytes| bytes <= datagram.len());
    }
    let Some(whole) = number(10).map(|count| 12 + usize::from(count)) else { return false };
    (whole..=whole.next_multiple_of(4) + AUTHENTICATOR_BYTES_MAX).contains(&datagram.len())
}

/// Parses a datagram whose values real clocks have, and random bytes hardly.
fn plausible(datagram: &[u8], time: Timestamp) -> Option<NtpMessage> {
    NtpMessage::parse(datagram, time).filter(|message| match &message.clock {
        Some(clock) => clock.is_plausible() && (datagram.len() - MESSAGE_BYTES).is_multiple_of(4),
        None => is_request_plausible(message.mode, datagram),
    })
}

/// NTP has no signature. On its port any plausible message is accepted; elsewhere only a server's message
/// with consistent timestamps.
fn probe(opening: &Opening<'_>) -> Probe {
    let is_port_known = opening.is_on(PROTOCOL.ports);
    let is_servers = |message: &NtpMessage| {
        message.mode == 4 && message.clock.as_ref().is_some_and(Clock::has_fitting_times)
    };
    let is_ntp = |datagram: &[u8]| match is_port_known {
        true => plausible(datagram, Timestamp(0)).is_some(),
        false => {
            let message = NtpMessage::parse(datagram, Timestamp(0));
            datagram.len() == MESSAGE_BYTES && message.as_ref().is_some_and(is_servers)
        }
    };
    if opening.is_datagram && (is_ntp(opening.originator) || is_ntp(opening.responder)) {
        Probe::Certain
    } else {
        Probe::NotForUs
    }
}

/// Parses the messages of one flow. Stateless.
#[derive(Debug, Default)]
pub struct NtpParser;

impl SessionParser for NtpParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        let Some(message) = plausible(data.bytes, data.time) else { return Progress::NotMine };
        sessions.push(Box::new(message));
        Progress::Wanted
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Wanted
    }

    fn finish(&mut self, _: &mut Vec<Box<dyn Session>>) {}

    fn cut_off(&self) -> CutOff {
        CutOff::default()
    }
}

impl Session for NtpMessage {
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

session_fields! { NtpMessage;
    "ntp.flags.vn" ["ntp.version"] version: Unsigned, "Version: 1 to 4" => |m| Value::Unsigned(m.version.into());
    "ntp.flags.mode" ["ntp.mode"] mode: Unsigned, "Mode: 3 client, 4 server, 5 broadcast, 6 control, 7 private" => |m| Value::Unsigned(m.mode.into());
    "ntp.stratum" [] stratum: Unsigned, "Distance from the reference clock: 1 has a reference clock, 0 is a refusal" => |m| m.clock(|c| Value::Unsigned(c.stratum.into()));
    "ntp.ppoll" ["ntp.poll"] poll: Interval, "Polling interval" => |m| m.clock(|c| Value::Interval(power_ns(c.poll)));
    "ntp.precision" [] precision: Interval, "Precision of the sender's clock" => |m| m.clock(|c| Value::Interval(power_ns(c.precision)));
    "ntp.rootdelay" ["ntp.root_delay"] root_delay: Interval, "Round-trip delay to the reference clock" => |m| m.clock(|c| Value::Interval(c.root_delay_ns));
    "ntp.rootdispersion" ["ntp.root_disp"] root_disp: Interval, "Dispersion to the reference clock" => |m| m.clock(|c| Value::Interval(c.root_dispersion_ns));
    "ntp.refid" ["ntp.ref_id"] ref_id: Text, "Reference: letters for strata 0 and 1, else an address" => |m| m.clock(|c| owned(c.reference_text()));
    "ntp.reftime" ["ntp.ref_time"] ref_time: Time, "Time at which the clock was last set" => |m| time(m, 0);
    "ntp.org" ["ntp.org_time"] org_time: Time, "Time at which the client sent its request, repeated by the server" => |m| time(m, 1);
    "ntp.rec" ["ntp.rec_time"] rec_time: Time, "Time at which the server received the request" => |m| time(m, 2);
    "ntp.xmt" ["ntp.xmt_time"] xmt_time: Time, "Time at which this message was sent" => |m| time(m, 3);
    "ntp.num_exts" [] num_exts: Unsigned, "Number of extension fields" => |m| m.clock(|c| Value::Unsigned(c.extensions));
    "ntp.flags.li" ["ntp.leap"] _: Unsigned, "Leap second: 1 inserted, 2 deleted, 3 clock not set" => |m| Value::Unsigned(m.leap.into());
    "ntp.request" ["ntp.priv.reqcode"] _: Unsigned, "Request of a control (mode 6) or private (mode 7) message: 42 is a list of clients" => |m| unsigned(m.request);
}

/// Shows an unset time as 1970, as Zeek does.
fn time(message: &NtpMessage, which: usize) -> Value<'_> {
    match &message.clock {
        Some(clock) => Value::Time(clock.times[which].unwrap_or(Timestamp(0))),
        None => Value::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(first: u8, stratum: u8, rest: &[u8]) -> Vec<u8> {
        let head = [first, stratum, 6, 0xe9, 0, 0, 0x80, 0, 0, 1, 0, 0, b'G', b'P', b'S', 0];
        // 2024-01-01T00:00:00.5 is 3 913 056 000.5 s after 1900.
        let time = [0xe9, 0x3c, 0x7f, 0x00, 0x80, 0, 0, 0];
        [&head[..], &time, &[0; 8], &time, &[0, 0, 0, 1, 0, 0, 0, 0], rest].concat()
    }

    fn value<'a>(message: &'a NtpMessage, name: &str) -> Value<'a> {
        let is_it = |field: &crate::Field| field.name == name || field.column == name;
        message.value(FIELDS.iter().position(is_it).expect(name))
    }

    #[test]
    fn a_message_is_shown_as_zeek_shows_it() {
        let message = NtpMessage::parse(&message(0x24, 1, &[]), Timestamp(5)).expect("whole");
        for (name, expected) in [
            ("version", Value::Unsigned(4)),
            ("mode", Value::Unsigned(4)),
            ("stratum", Value::Unsigned(1)),
            ("poll", Value::Interval(64_000_000_000)),
            ("precision", Value::Interval(119)),
            ("root_delay", Value::Interval(500_000_000)),
            ("root_disp", Value::Interval(1_000_000_000)),
            ("ref_id", Value::Text("GPS".into())),
            ("ref_time", Value::Time(Timestamp(1_704_067_200_500_000_000))),
            ("org_time", Value::Time(Timestamp(0))),
            ("xmt_time", Value::Time(Timestamp((1 + (1 << 32) - 2_208_988_800) * 1_000_000_000))),
            ("num_exts", Value::Unsigned(0)),
        ] {
            assert_eq!(value(&message, name), expected, "{name}");
        }
    }

    #[test]
    fn references_are_letters_or_addresses() {
        let parse = |stratum| NtpMessage::parse(&message(0x1c, stratum, &[]), Timestamp(0)).expect("whole");
        assert_eq!(value(&parse(2), "ref_id"), Value::Text("71.80.83.0".into()));
        assert_eq!(value(&parse(0), "ref_id"), Value::Text("GPS".into()));
    }

    #[test]
    fn extensions_are_counted_and_an_authenticator_is_none() {
        let count = |rest: &[u8]| {
            NtpMessage::parse(&message(0x23, 1, rest), Timestamp(0))
                .expect("whole")
                .clock
                .expect("one")
                .extensions
        };
        let extension = [&[1, 4, 0, 28][..], &[0; 24]].concat();
        assert_eq!(count(&[0; 20]), 0);
        assert_eq!(count(&extension), 1);
        assert_eq!(count(&[&extension[..], &extension, &[7; 20]].concat()), 2);
        assert_eq!(count(&[0xff; 40]), 0);
    }

    #[test]
    fn a_request_for_the_list_of_clients_is_seen() {
        let message = NtpMessage::parse(&[0x17, 0, 3, 42, 0, 0, 0, 0], Timestamp(0)).expect("whole");
        assert_eq!((message.mode, message.request), (7, Some(42)));
        assert_eq!(value(&message, "stratum"), Value::Absent);
    }

    #[test]
    fn exponents_are_bounded() {
        for exponent in i8::MIN..=i8::MAX {
            power_ns(exponent);
        }
        assert_eq!((power_ns(0), power_ns(-1), power_ns(-128)), (1_000_000_000, 500_000_000, 0));
    }

    #[test]
    fn its_port_or_its_times_make_it_one() {
        let bytes = message(0x23, 0, &[]);
        let probe = |originator: &[u8], port| {
            (PROTOCOL.probe)(&Opening {
                originator,
                ports: [port, 9],
                is_datagram: true,
                ..Opening::default()
            })
        };
        assert_eq!(probe(&bytes, 123), Probe::Certain);
        assert_eq!(probe(&bytes, 1234), Probe::NotForUs);
        assert_eq!(probe(&bytes[..47], 123), Probe::NotForUs);
        assert_eq!(probe(&[0xff; 48], 123), Probe::NotForUs);
        let mut answer = message(0x24, 1, &[]);
        answer.copy_within(16..24, 32);
        answer.copy_within(16..24, 40);
        assert_eq!(probe(&answer, 1234), Probe::Certain);
        answer[40] ^= 1;
        assert_eq!(probe(&answer, 1234), Probe::NotForUs);
    }
}
