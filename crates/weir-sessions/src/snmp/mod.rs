//! SNMP (RFC 1157, RFC 3416, RFC 3412): one [`SnmpConversation`] per flow, as in Zeek, yielded at the end of
//! the flow or after [`MESSAGES_MAX`] messages. `message` parses datagrams.

mod message;

pub use message::{Message, Pdu, Variable};

use crate::session::{Words, session_fields};
use crate::values::{collect_numbers, owned_texts, text, texts};
use crate::{
    ByteSet, CutOff, Data, Direction, FirstPlace, Opening, Probe, Progress, Session, SessionParser,
    SessionProtocol,
};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// The protocol, for the registry.
pub const PROTOCOL: SessionProtocol = SessionProtocol {
    name: "snmp",
    service: "snmp",
    log: "snmp",
    transports: &["udp"],
    ports: &[161, 162],
    hands_over: &[],
    doc: "SNMP versions 1, 2c and 3: requests, variables and communities (RFC 3416, RFC 3412)",
    probe,
    may_begin,
    open: |_| Box::new(SnmpParser::default()),
    carrier: None,
    settings: &[],
    brief: &["ts", "orig", "resp", "version", "community", "get_requests", "get_responses", "set_requests"],
    fields: FIELDS,
};

/// First byte of an ASN.1 sequence.
fn may_begin(place: FirstPlace) -> ByteSet {
    match place.at {
        0 => ByteSet::of(|byte| byte == 0x30),
        _ => ByteSet::ALL,
    }
}

/// Messages after which a conversation is yielded and the next one begins.
pub const MESSAGES_MAX: u64 = 4096;

/// Maximum number of variables, communities and users kept of a conversation.
const NAMES_MAX: usize = 64;

/// The messages of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnmpConversation {
    /// Capture time of the first message.
    pub time: Timestamp,
    /// Capture time of the last message.
    pub last_time: Timestamp,
    /// Version number of the first message: 0 is version 1, 1 version 2c, 3 version 3.
    pub version: u8,
    /// Communities, in order of first use.
    pub communities: Vec<String>,
    /// Users; version 3.
    pub users: Vec<String>,
    /// Number of messages by [`Pdu`]; the last entry counts encrypted ones.
    pub messages: [u64; 10],
    /// Number of variables in messages of each type.
    pub variables: [u64; 10],
    /// Names of the variables in requests and responses, 64 at most.
    pub names: Vec<String>,
    /// Description of the device: `sysDescr` (RFC 3418).
    pub description: Option<String>,
    /// Start time of the device, from `sysUpTime`.
    pub up_since: Option<Timestamp>,
    /// Error status codes of responses, other than 0.
    pub errors: Vec<u32>,
}

/// Recognises a message that fills its datagram.
fn probe(opening: &Opening<'_>) -> Probe {
    let is_snmp = |datagram| {
        Message::parse(datagram).is_some_and(|message| message.pdu.is_some() || message.version == 3)
    };
    if opening.is_datagram && (is_snmp(opening.originator) || is_snmp(opening.responder)) {
        Probe::Certain
    } else {
        Probe::NotForUs
    }
}

/// Parses one flow.
#[derive(Debug, Default)]
pub struct SnmpParser {
    conversation: SnmpConversation,
    cut_off: CutOff,
}

impl SessionParser for SnmpParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress {
        if !data.is_datagram {
            return Progress::Done;
        }
        let Some(message) = Message::parse(data.bytes) else { return Progress::NotMine };
        self.take_message(data.time, message);
        if self.conversation.messages.iter().sum::<u64>() == MESSAGES_MAX {
            self.finish(sessions);
        }
        Progress::Wanted
    }

    fn gap(&mut self, _: Direction, _: u64, _: &mut Vec<Box<dyn Session>>) -> Progress {
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>) {
        let conversation = std::mem::take(&mut self.conversation);
        if conversation.messages.iter().any(|count| *count > 0) {
            sessions.push(Box::new(conversation));
        }
    }

    fn cut_off(&self) -> CutOff {
        self.cut_off
    }
}

impl SnmpParser {
    fn take_message(&mut self, time: Timestamp, message: Message) {
        const DESCRIPTION: &str = "1.3.6.1.2.1.1.1.0";
        const UP_TIME: &str = "1.3.6.1.2.1.1.3.0";
        let conversation = &mut self.conversation;
        if conversation.messages.iter().all(|count| *count == 0) {
            conversation.time = time;
            conversation.version = message.version;
        }
        conversation.last_time = time;
        let kind = message.pdu.map_or(9, |pdu| pdu as usize);
        conversation.messages[kind] += 1;
        conversation.variables[kind] += u64::from(message.variables_count);
        self.cut_off.parts += u64::from(message.variables_count) - message.variables.len() as u64;
        let mut add = |list: &mut Vec<String>, name: String| {
            if !list.contains(&name) {
                if list.len() < NAMES_MAX {
                    list.push(name);
                } else {
                    self.cut_off.parts += 1;
                }
            }
        };
        message.community.into_iter().for_each(|community| add(&mut conversation.communities, community));
        message.user.into_iter().for_each(|user| add(&mut conversation.users, user));
        for variable in message.variables {
            match variable.name.as_str() {
                DESCRIPTION if variable.text.is_some() => conversation.description = variable.text,
                UP_TIME => {
                    let since = |ticks: u32| Timestamp(time.0.saturating_sub(i64::from(ticks) * 10_000_000));
                    conversation.up_since = variable.ticks.map(since).or(conversation.up_since);
                }
                _ => {}
            }
            add(&mut conversation.names, variable.name);
        }
        if message.error != 0 && conversation.errors.len() < NAMES_MAX {
            conversation.errors.push(message.error);
        }
    }
}

impl SnmpConversation {
    fn variables_of(&self, kinds: &[Pdu]) -> u64 {
        kinds.iter().map(|kind| self.variables[*kind as usize]).sum()
    }
}

impl Session for SnmpConversation {
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

/// Names of versions.
const VERSIONS: Words = Words { list: || vec!["1", "2c", "3"], others: &[] };

session_fields! { SnmpConversation;
    "snmp.duration" [] duration: Interval, "Time from the first message to the last" => |c| Value::Interval(c.last_time.since_ns(c.time));
    "snmp.version_name" [] version: Text in VERSIONS, "Version: 1, 2c, 3" => |c| text(Some(match c.version { 0 => "1", 1 => "2c", _ => "3" }));
    "snmp.community" [] community: Text, "Community, which serves as a password in versions 1 and 2c" => |c| text(c.communities.first().map(String::as_str));
    "snmp.get_requests" [] get_requests: Unsigned, "Number of variables requested individually" => |c| Value::Unsigned(c.variables_of(&[Pdu::Get, Pdu::GetNext]));
    "snmp.get_bulk_requests" [] get_bulk_requests: Unsigned, "Number of bulk requests" => |c| Value::Unsigned(c.messages[Pdu::GetBulk as usize]);
    "snmp.get_responses" [] get_responses: Unsigned, "Number of variables in answers" => |c| Value::Unsigned(c.variables_of(&[Pdu::Response]));
    "snmp.set_requests" [] set_requests: Unsigned, "Number of variables to set" => |c| Value::Unsigned(c.variables_of(&[Pdu::Set]));
    "snmp.display_string" [] display_string: Text, "Description of the device (sysDescr)" => |c| text(c.description.as_deref());
    "snmp.up_since" [] up_since: Time, "Time at which the device was started (sysUpTime)" => |c| c.up_since.map_or(Value::Absent, Value::Time);
    "snmp.version" [] _: Unsigned, "Number of the version: 0 is version 1, 1 version 2c, 3 version 3" => |c| Value::Unsigned(c.version.into());
    "snmp.communities" [] _: Texts, "All communities in the messages" => |c| texts(&c.communities);
    "snmp.msgUserName" ["snmp.user"] _: Texts, "User names, in version 3" => |c| texts(&c.users);
    "snmp.pdus" [] _: Texts, "Types of messages: get-request, trap, encrypted" => |c| kinds(c);
    "snmp.name" ["snmp.oid"] _: Texts, "Names of variables: 1.3.6.1.2.1.1.1.0" => |c| texts(&c.names);
    "snmp.error_status" ["snmp.errors"] _: Numbers, "Error codes of answers: 2 no such name" => |c| collect_numbers(c.errors.iter().copied());
}

fn kinds(conversation: &SnmpConversation) -> Value<'static> {
    const NAMES: [Pdu; 9] = [
        Pdu::Get,
        Pdu::GetNext,
        Pdu::Response,
        Pdu::Set,
        Pdu::TrapV1,
        Pdu::GetBulk,
        Pdu::Inform,
        Pdu::Trap,
        Pdu::Report,
    ];
    let names = NAMES.map(Pdu::name).into_iter().chain(["encrypted"]);
    let seen = names.zip(&conversation.messages).filter(|(_, count)| **count > 0);
    owned_texts(seen.map(|(name, _)| name.to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Originator as C, Responder as S};

    fn element(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        [&[tag, content.len() as u8][..], &content].concat()
    }

    /// A message of version 2c with variables below `mgmt.1.1`: last two identifiers and value.
    fn message(pdu: u8, error: u8, variables: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let variable = |(part, value): &(u8, Vec<u8>)| {
            element(0x30, &[&element(6, &[&[0x2b, 6, 1, 2, 1, 1, *part, 0]]), value])
        };
        let list: Vec<u8> = variables.iter().flat_map(variable).collect();
        let pdu = element(pdu, &[&[2, 1, 9, 2, 1, error, 2, 1, 0], &element(0x30, &[&list])]);
        element(0x30, &[&[2, 1, 1], &element(4, &[b"public"]), &pdu])
    }

    fn value<'a>(session: &'a dyn Session, name: &str) -> Value<'a> {
        let is_it = |field: &crate::Field| field.name == name || field.column == name;
        session.value(FIELDS.iter().position(is_it).expect(name))
    }

    #[test]
    fn a_conversation_is_summed_up_as_zeek_does() {
        let mut parser = SnmpParser::default();
        let mut sessions = Vec::new();
        let null = vec![5, 0];
        let answers = [(1, element(4, &[b"a router"])), (3, vec![0x43, 2, 0x01, 0x2c])];
        for (from, seconds, bytes) in [
            (C, 10, message(0xa0, 0, &[(1, null.clone()), (3, null.clone())])),
            (S, 13, message(0xa2, 0, &answers)),
            (C, 14, message(0xa5, 9, std::slice::from_ref(&(1, null)))),
            (S, 15, message(0xa2, 2, &[])),
            (S, 16, b"no SNMP".to_vec()),
        ] {
            let data =
                Data { from, time: Timestamp(seconds * 1_000_000_000), bytes: &bytes, is_datagram: true };
            let expected = if bytes == b"no SNMP" { Progress::NotMine } else { Progress::Wanted };
            assert_eq!(parser.parse(&data, &mut sessions), expected);
        }
        parser.finish(&mut sessions);
        let session = sessions[0].as_ref();
        for (name, expected) in [
            ("duration", Value::Interval(5_000_000_000)),
            ("version", Value::Text("2c".into())),
            ("community", Value::Text("public".into())),
            ("get_requests", Value::Unsigned(2)),
            ("get_bulk_requests", Value::Unsigned(1)),
            ("get_responses", Value::Unsigned(2)),
            ("set_requests", Value::Unsigned(0)),
            ("display_string", Value::Text("a router".into())),
            ("up_since", Value::Time(Timestamp(10_000_000_000))),
            ("snmp.errors", Value::Numbers(vec![2].into())),
        ] {
            let name = if name == "snmp.errors" { "snmp.error_status" } else { name };
            let name = if name == "version" { "snmp.version_name" } else { name };
            assert_eq!(value(session, name), expected, "{name}");
        }
        assert!(
            matches!(value(session, "snmp.name"), Value::Texts(names) if names[0] == "1.3.6.1.2.1.1.1.0")
        );
    }

    #[test]
    fn of_version_3_the_user_is_told() {
        let security =
            element(0x30, &[&[4, 1, 7, 2, 1, 0, 2, 1, 0], &element(4, &[b"admin"]), &[4, 0, 4, 0]]);
        let header = element(0x30, &[&[2, 1, 1, 2, 2, 5, 0xdc, 4, 1, 3, 2, 1, 3]]);
        let bytes =
            element(0x30, &[&[2, 1, 3], &header, &element(4, &[&security]), &element(4, &[&[9; 40]])]);
        let message = Message::parse(&bytes).expect("whole");
        assert_eq!((message.user.as_deref(), message.pdu), (Some("admin"), None));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let before = weir_memory::live_bytes();
        let mut parser = SnmpParser::default();
        let mut sessions = Vec::new();
        for part in 0..MESSAGES_MAX {
            let bytes = message(0xa0, 0, &[((part % 128) as u8, vec![5, 0])]);
            parser.parse(
                &Data { from: C, time: Timestamp(0), bytes: &bytes, is_datagram: true },
                &mut sessions,
            );
            assert!(weir_memory::live_bytes() - before < 16 * 1024);
        }
        assert_eq!(sessions.len(), 1);
        assert_eq!(parser.cut_off().parts, MESSAGES_MAX / 2);
    }

    #[test]
    fn a_whole_message_tells() {
        let probe = |originator: &[u8]| {
            (PROTOCOL.probe)(&Opening { originator, is_datagram: true, ..Opening::default() })
        };
        let bytes = message(0xa0, 0, &[(1, vec![5, 0])]);
        assert_eq!(probe(&bytes), Probe::Certain);
        for length in 0..bytes.len() {
            assert_eq!(probe(&bytes[..length]), Probe::NotForUs, "{length}");
        }
        assert_eq!(probe(&[0x30; 60]), Probe::NotForUs);
    }
}
