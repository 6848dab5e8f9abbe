//! DNS messages (RFC 1035 §4): header, questions, records; the OPT pseudo-record of EDNS (RFC 6891 §6).
//!
//! The available part of a truncated message is parsed.

use super::name;
use super::record::{Record, RecordData, read_data};
use std::net::{IpAddr, Ipv6Addr};

/// Maximum number of questions kept per message. Only multicast DNS sends more than one.
pub const QUESTIONS_MAX: usize = 32;

/// Maximum number of records kept per section.
pub const RECORDS_MAX: usize = 100;

/// Length of the header, bytes.
pub(super) const HEADER_BYTES: usize = 12;

/// Type of the OPT pseudo-record.
const OPT: u16 = 41;

/// The header (RFC 1035 §4.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Transaction ID.
    pub id: u16,
    /// All flags, with operation and response code.
    pub flags: u16,
    /// Counts of questions, answers, authority records and additional records, as sent.
    pub counts: [u16; 4],
}

impl Header {
    /// Reads the header; `None` if it is truncated.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let words = message.first_chunk::<HEADER_BYTES>()?.as_chunks::<2>().0;
        let word = |at: usize| words.get(at).map_or(0, |pair| u16::from_be_bytes(*pair));
        Some(Self { id: word(0), flags: word(1), counts: [word(2), word(3), word(4), word(5)] })
    }

    /// Whether the message is a response.
    pub fn is_response(&self) -> bool {
        self.flags & 0x8000 != 0
    }

    /// The operation: 0 is a query.
    pub fn opcode(&self) -> u8 {
        (self.flags >> 11 & 15) as u8
    }

    /// The response code, without the upper bits of EDNS.
    pub fn rcode(&self) -> u16 {
        self.flags & 15
    }
}

/// A question (RFC 1035 §4.1.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The name in lower case; for NetBIOS, the decoded name.
    pub name: String,
    /// The name as sent, if it has upper-case letters: some resolvers mix cases against spoofing.
    pub sent_name: Option<String>,
    /// The queried type.
    pub kind: u16,
    /// The queried class.
    pub class: u16,
    /// Whether a unicast answer is requested: the top bit of the class in multicast DNS (RFC 6762 §5.4).
    pub wants_unicast: bool,
    /// Whether the question belongs to the NetBIOS name service (RFC 1002 §4.2), which shares the format of
    /// DNS.
    pub is_netbios: bool,
}

/// The contents of the OPT pseudo-record (RFC 6891 §6.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edns {
    /// Largest UDP payload that the sender accepts, bytes.
    pub payload_bytes: u16,
    /// Upper eight bits of the response code.
    pub extended_rcode: u8,
    /// Version: 0.
    pub version: u8,
    /// Whether DNSSEC records are requested (DO bit).
    pub is_dnssec_ok: bool,
    /// Option codes, at most 64.
    pub options: Vec<u16>,
    /// The client subnet (RFC 7871): address, its prefix length, and the prefix length of the answer's scope.
    pub client_subnet: Option<(IpAddr, u8, u8)>,
    /// Extended error code (RFC 8914).
    pub extended_error: Option<u16>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// The header.
    pub header: Header,
    /// Questions, at most [`QUESTIONS_MAX`].
    pub questions: Vec<Question>,
    /// Answers, at most [`RECORDS_MAX`].
    pub answers: Vec<Record>,
    /// Authority records, at most [`RECORDS_MAX`].
    pub authorities: Vec<Record>,
    /// Additional records, at most [`RECORDS_MAX`], without the OPT pseudo-record.
    pub additional: Vec<Record>,
    /// The contents of the OPT pseudo-record.
    pub edns: Option<Edns>,
    /// The message could not be read completely: it is truncated or invalid.
    pub is_malformed: bool,
    /// Length of the message.
    pub length_bytes: u32,
    /// The offset at which the last section ends; 0 if the message is malformed.
    pub(super) end: usize,
    /// Number of questions and records that were not kept.
    pub omitted: u64,
    /// Approximate bytes held.
    pub(super) held_bytes: usize,
}

impl Message {
    /// Parses a message. `None` if the header is truncated, or nothing of the announced sections can be read.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header = Header::read(bytes)?;
        let mut message = Self { header, length_bytes: bytes.len() as u32, ..Self::default() };
        let end = message.read_sections(bytes);
        (message.is_malformed, message.end) = (end.is_none(), end.unwrap_or(0));
        let is_empty = message.questions.is_empty()
            && message.edns.is_none()
            && [&message.answers, &message.authorities, &message.additional]
                .iter()
                .all(|list| list.is_empty());
        if is_empty && message.is_malformed {
            return None;
        }
        let records = message.records().map(|record| size_of::<Record>() + record.held_bytes());
        let questions = message.questions.iter().map(|question| {
            let sent = question.sent_name.as_ref().map_or(0, String::len);
            size_of::<Question>() + question.name.len() + sent
        });
        message.held_bytes = size_of::<Self>() + records.sum::<usize>() + questions.sum::<usize>();
        Some(message)
    }

    /// All records of all sections, answers first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.answers.iter().chain(&self.authorities).chain(&self.additional)
    }

    /// Reads all sections. Returns the offset at which the last one ends; `None` if a section could not be
    /// read completely.
    fn read_sections(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = HEADER_BYTES;
        for _ in 0..self.header.counts[0] {
            at = self.read_question(bytes, at)?;
        }
        for section in 1..4 {
            for _ in 0..self.header.counts[section] {
                at = self.read_record(bytes, at, section)?;
            }
        }
        Some(at)
    }

    fn read_question(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        if self.questions.len() == QUESTIONS_MAX {
            self.omitted += 1;
            let behind = name::skip(bytes, at)? + 4;
            return (behind <= bytes.len()).then_some(behind);
        }
        let (sent, behind) = name::read(bytes, at)?;
        let [a, b, c, d] = *bytes.get(behind..)?.first_chunk::<4>()?;
        let (kind, class) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        // No class in use has the top bit.
        let wants_unicast = matches!(class, 0x8001 | 0x80ff);
        let class = if wants_unicast { class & 0x7fff } else { class };
        // NB and NBSTAT (RFC 1002 §4.2.1.2).
        let first_label = sent.split('.').next().filter(|_| matches!(kind, 32 | 33));
        let netbios =
            first_label.and_then(|label| name::decode_netbios(label.as_bytes())).map(|(name, _)| name);
        let is_netbios = netbios.is_some();
        let name = netbios.unwrap_or_else(|| sent.to_ascii_lowercase());
        let sent_name = if name == sent { None } else { Some(sent) };
        self.questions.push(Question { name, sent_name, kind, class, wants_unicast, is_netbios });
        Some(behind + 4)
    }

    fn read_record(&mut self, bytes: &[u8], at: usize, section: usize) -> Option<usize> {
        let behind = name::skip(bytes, at)?;
        let [a, b, c, d, e, f, g, h, i, j] = *bytes.get(behind..)?.first_chunk::<10>()?;
        let (kind, class) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let start = behind + 10;
        let end = start + usize::from(u16::from_be_bytes([i, j]));
        if end > bytes.len() {
            return None;
        }
        if kind == OPT && section == 3 {
            self.edns = self.edns.take().or_else(|| Edns::read(class, [e, f, g, h], &bytes[start..end]));
            return Some(end);
        }
        let list = match section {
            1 => &mut self.answers,
            2 => &mut self.authorities,
            _ => &mut self.additional,
        };
        if list.len() == RECORDS_MAX {
            self.omitted += 1;
            return Some(end);
        }
        let (mut name, _) = name::read(bytes, at)?;
        name.make_ascii_lowercase();
        let data = read_data(kind, bytes, start, end);
        self.omitted += match &data {
            RecordData::Txt(kept) => u64::from(kept.len() < end - start),
            RecordData::Svcb(service) => service.omitted,
            _ => 0,
        };
        // Only an update (RFC 2136 §2.4) has records with empty content.
        let is_wrong = data == RecordData::Malformed && start < end;
        list.push(Record { name, kind, class, ttl: u32::from_be_bytes([e, f, g, h]), data });
        if is_wrong { None } else { Some(end) }
    }
}

impl Edns {
    fn read(class: u16, ttl: [u8; 4], options: &[u8]) -> Option<Self> {
        let [extended_rcode, version, flags, _] = ttl;
        let is_dnssec_ok = flags & 0x80 != 0;
        let mut edns =
            Self { payload_bytes: class, extended_rcode, version, is_dnssec_ok, ..Self::default() };
        let mut rest = options;
        while let Some(([a, b, c, d], tail)) = rest.split_first_chunk::<4>() {
            let code = u16::from_be_bytes([*a, *b]);
            let Some((data, tail)) = tail.split_at_checked(u16::from_be_bytes([*c, *d]).into()) else {
                break;
            };
            rest = tail;
            if edns.options.len() < 64 {
                edns.options.push(code);
            }
            match code {
                8 => edns.client_subnet = read_subnet(data),
                15 => {
                    edns.extended_error = data.first_chunk::<2>().map(|pair| u16::from_be_bytes(*pair));
                }
                _ => {}
            }
        }
        Some(edns)
    }
}

/// The client subnet (RFC 7871 §6): its family, two prefix lengths in bits, and the significant bytes of the
/// address.
fn read_subnet(data: &[u8]) -> Option<(IpAddr, u8, u8)> {
    let ([0, family, source_bits, scope_bits], address) = data.split_first_chunk::<4>()? else {
        return None;
    };
    let mut whole = [0; 16];
    whole.get_mut(..address.len())?.copy_from_slice(address);
    let [a, b, c, d, ..] = whole;
    let address = match family {
        1 => IpAddr::from([a, b, c, d]),
        2 => Ipv6Addr::from(whole).into(),
        _ => return None,
    };
    Some((address, *source_bits, *scope_bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with ID 7, these flags and counts, then `rest`.
    fn message(flags: u16, counts: [u8; 4], rest: &[u8]) -> Vec<u8> {
        let [high, low] = flags.to_be_bytes();
        let [a, b, c, d] = counts;
        [&[0, 7, high, low, 0, a, 0, b, 0, c, 0, d][..], rest].concat()
    }

    #[test]
    fn a_response_is_read_section_by_section() {
        let bytes = message(
            0x8183,
            [1, 1, 1, 1],
            b"\x01A\x02cD\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\x00\x02\x01\
              \xc0\x0e\0\x02\0\x01\0\0\0\x3c\0\x04\x01n\xc0\x0e\0\0\x29\x04\xd0\x01\0\x80\0\0\0",
        );
        let message = Message::parse(&bytes).expect("whole");
        assert!(message.header.is_response() && !message.is_malformed);
        assert_eq!((message.header.id, message.header.rcode(), message.header.opcode()), (7, 3, 0));
        assert_eq!(message.questions[0].name, "a.cd");
        assert_eq!(message.questions[0].sent_name.as_deref(), Some("A.cD"));
        assert_eq!((message.answers[0].answer(), message.answers[0].ttl), ("192.0.2.1".into(), 60));
        assert_eq!(message.authorities[0].answer(), "n.cd");
        let edns = message.edns.expect("OPT");
        assert_eq!((edns.payload_bytes, edns.extended_rcode, edns.is_dnssec_ok), (1232, 1, true));
        assert!(message.additional.is_empty(), "OPT is no record");
    }

    #[test]
    fn a_cut_message_is_read_as_far_as_it_goes() {
        let whole = message(
            0x8180,
            [1, 1, 0, 0],
            b"\x01a\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\x00\x02\x01",
        );
        let cut = Message::parse(&whole[..whole.len() - 1]).expect("its question");
        assert!(cut.is_malformed && cut.answers.is_empty());
        assert_eq!(cut.questions[0].name, "a");
        for length in 0..12 + 3 + 4 {
            assert_eq!(Message::parse(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn what_goes_beyond_the_bounds_is_counted() {
        let records = b"\0\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\x00\x02\x01".repeat(120);
        let message = Message::parse(&message(0x8180, [0, 120, 0, 0], &records)).expect("whole");
        assert_eq!((message.answers.len(), message.omitted, message.is_malformed), (RECORDS_MAX, 20, false));
    }

    #[test]
    fn the_network_of_the_client_is_read() {
        let opt = b"\0\0\x29\x10\0\0\0\0\0\0\x0b\0\x08\0\x07\0\x01\x18\0\xc0\x00\x02";
        let edns = Message::parse(&message(0x0100, [0, 0, 0, 1], opt)).expect("whole").edns.expect("OPT");
        assert_eq!(edns.client_subnet, Some(([192, 0, 2, 0].into(), 24, 0)));
        assert_eq!(edns.options, [8]);
    }

    #[test]
    fn a_netbios_question_has_the_name_that_was_encoded() {
        let question = b"\x20FHEPFCELEHFCEPFFFACACACACACACABL\0\0\x20\0\x01";
        let message = Message::parse(&message(0x0110, [1, 0, 0, 0], question)).expect("whole");
        assert_eq!((&*message.questions[0].name, message.questions[0].is_netbios), ("WORKGROUP", true));
    }
}
