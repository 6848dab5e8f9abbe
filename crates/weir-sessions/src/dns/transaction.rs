//! [`DnsTransaction`]: a query with its answer, or one of them if the other was not seen; and its filter
//! fields.

use super::message::{Edns, Message, Question};
use super::names;
use super::record::{Record, RecordData, Svcb};
use crate::pairing::Held;
use crate::session::session_fields;
use crate::values::{collect_numbers, name, owned, owned_texts, text, unsigned};
use crate::{Direction, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// Types of records and questions (RFC 1035, sections 3.2.2 and 3.2.3).
const CNAME: u16 = 5;
const ANY: u16 = 255;

/// A query with its answer. At least one of them is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsTransaction {
    /// Time of the first message.
    pub time: Timestamp,
    /// The direction of the client, which sends queries and receives answers.
    pub client: Direction,
    /// Whether the messages are datagrams.
    pub is_datagram: bool,
    /// The query.
    pub query: Option<Message>,
    /// The answer.
    pub response: Option<Message>,
    /// Time from query to answer, nanoseconds; none if the answer was seen first.
    pub rtt_ns: Option<u64>,
    /// An identical query was still unanswered.
    pub is_retransmission: bool,
}

impl DnsTransaction {
    /// The questions: the query's, or else the answer's.
    pub fn questions(&self) -> &[Question] {
        self.messages().map(|message| &*message.questions).find(|list| !list.is_empty()).unwrap_or_default()
    }

    /// The question that the row is about: of several, the one that the answer answers, or else the first.
    pub fn question(&self) -> Option<&Question> {
        let questions = self.questions();
        if questions.len() < 2 {
            return questions.first();
        }
        let of_type = |record: &Record, asked: &Question| [record.kind, ANY].contains(&asked.kind);
        let is_alias = |record: &Record| record.kind == CNAME;
        let find = |fits: &dyn Fn(&Record, &Question) -> bool| {
            let mut answers = self.answers().iter();
            answers.find_map(|record| {
                questions.iter().find(|asked| asked.name == record.name && fits(record, asked))
            })
        };
        let answered = find(&|record, asked| of_type(record, asked) || is_alias(record));
        answered.or_else(|| find(&|_, _| true)).or(questions.first())
    }

    /// All questions, if there are several or one of them requests a unicast answer: `a.local PTR QU`.
    fn shown_questions(&self) -> Vec<String> {
        let questions = self.questions();
        if questions.len() < 2 && !self.wants_unicast() {
            return vec![];
        }
        let shown = |asked: &Question| {
            let class = match asked.class {
                1 => String::new(),
                class => format!(" {}", names::class(class)),
            };
            let unicast = if asked.wants_unicast { " QU" } else { "" };
            format!("{} {}{class}{unicast}", asked.name, type_name(asked))
        };
        questions.iter().map(shown).collect()
    }

    /// Whether a question of multicast DNS requests a unicast answer.
    fn wants_unicast(&self) -> bool {
        self.questions().iter().any(|asked| asked.wants_unicast)
    }

    /// The names of all questions; if there is none, the name that the row is about.
    fn all_names(&self) -> Vec<String> {
        match self.questions() {
            [] => self.name().map(str::to_owned).into_iter().collect(),
            questions => questions.iter().map(|asked| asked.name.clone()).collect(),
        }
    }

    /// Transaction ID.
    pub fn id(&self) -> Option<u16> {
        self.asking().map(|message| message.header.id)
    }

    /// The queried name. For a response without question whose query was not seen, the owner name of its
    /// first record.
    pub fn name(&self) -> Option<&str> {
        match self.question() {
            Some(question) => Some(&question.name),
            None => self.response.as_ref()?.answers.first().map(|answer| &*answer.name),
        }
    }

    /// The records of the answer section.
    pub fn answers(&self) -> &[Record] {
        self.response.as_ref().map_or(&[], |response| &response.answers)
    }

    /// The response code without the upper bits of EDNS; none without an answer.
    pub fn rcode(&self) -> Option<u16> {
        self.response.as_ref().map(|response| response.header.rcode())
    }

    /// Whether the response has no records, or, if it has no question, an error code. Zeek's `rejected`.
    pub fn is_rejected(&self) -> bool {
        self.response.as_ref().is_some_and(|response| {
            let [questions, records @ ..] = response.header.counts;
            if questions == 0 { response.header.rcode() != 0 } else { records == [0; 3] }
        })
    }

    fn messages(&self) -> impl Iterator<Item = &Message> {
        self.query.iter().chain(&self.response)
    }

    /// The query, or else the answer, which repeats most of it.
    fn asking(&self) -> Option<&Message> {
        self.query.as_ref().or(self.response.as_ref())
    }

    fn is_flagged(message: Option<&Message>, bit: u16) -> bool {
        message.is_some_and(|message| message.header.flags & bit != 0)
    }

    /// EDNS of the query, or else of the answer.
    fn edns(&self) -> Option<&Edns> {
        self.messages().find_map(|message| message.edns.as_ref())
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.messages().flat_map(Message::records)
    }
}

impl Held for DnsTransaction {
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.messages().map(|message| message.held_bytes).sum::<usize>()
    }
}

impl Session for DnsTransaction {
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

session_fields! { DnsTransaction;
    // Columns of the log.
    "dns.proto" [] proto: Text, "Transport protocol: udp, tcp" => |t| text(Some(if t.is_datagram { "udp" } else { "tcp" }));
    "dns.id" ["dns.trans_id"] trans_id: Unsigned, "Number of the transaction" => |t| unsigned(t.id());
    "dns.time" ["dns.rtt"] rtt: Interval, "Time from query to answer" => |t| t.rtt_ns.map_or(Value::Absent, Value::Interval);
    "dns.qry.shown" [] query: Text, "Queried name in Zeek's form: lower case, empty for the root" => |t| text(t.name().map(|name| if name == "." { "" } else { name }));
    "dns.qry.class" ["dns.qclass"] qclass: Unsigned, "Queried class" => |t| unsigned(t.question().map(|q| q.class));
    "dns.qclass_name" [] qclass_name: Text in names::CLASS_NAMES, "Name of the class: C_INTERNET" => |t| name(t.question().map(|q| names::class(q.class)));
    "dns.qry.type" ["dns.qtype"] qtype: Unsigned, "Queried type" => |t| unsigned(t.question().map(|q| q.kind));
    "dns.qtype_name" [] qtype_name: Text in names::TYPE_NAMES, "Name of the type: AAAA" => |t| name(t.question().map(type_name));
    "dns.flags.rcode" ["dns.rcode"] rcode: Unsigned, "Response code of the header" => |t| unsigned(t.rcode());
    "dns.rcode_name" [] rcode_name: Text in names::RCODE_NAMES, "Name of the response code: NXDOMAIN" => |t| name(t.rcode().map(names::rcode));
    "dns.flags.authoritative" ["dns.aa"] AA: Bool, "Whether the answer is authoritative" => |t| Value::Bool(DnsTransaction::is_flagged(t.response.as_ref(), 0x0400));
    "dns.flags.truncated" ["dns.tc"] TC: Bool, "Whether query or answer was truncated to fit a datagram" => |t| Value::Bool(t.messages().any(|m| m.header.flags & 0x0200 != 0));
    "dns.flags.recdesired" ["dns.rd"] RD: Bool, "Whether the client requests recursion" => |t| Value::Bool(DnsTransaction::is_flagged(t.asking(), 0x0100));
    "dns.flags.recavail" ["dns.ra"] RA: Bool, "Whether the server offers recursion" => |t| Value::Bool(DnsTransaction::is_flagged(t.response.as_ref(), 0x0080));
    "dns.z" [] Z: Unsigned, "Three bits of the query's flags: reserved, authentic data, checking disabled" => |t| Value::Unsigned(t.asking().map_or(0, |m| u64::from(m.header.flags >> 4 & 7)));
    "dns.answers" ["dns.answer"] answers: Texts, "The answers in Zeek's form: addresses, names, TXT 5 hello" => |t| owned_texts(shown(t).map(|shown| shown.1).collect());
    "dns.ttls" [] TTLs: Numbers, "Time to live of each answer, seconds" => |t| collect_numbers(shown(t).map(|shown| shown.0));
    "dns.rejected" [] rejected: Bool, "Whether the server answered without any record, or with an error only" => |t| Value::Bool(t.is_rejected());
    "dns.flags.opcode" ["dns.opcode"] opcode: Unsigned, "Operation: 0 is a query" => |t| unsigned(t.asking().map(|m| m.header.opcode()));
    "dns.opcode_name" [] opcode_name: Text in names::OPCODE_NAMES, "Name of the operation: query, notify, dynamic-update" => |t| name(t.asking().map(|m| names::opcode(m.header.opcode())));
    "dns.qry.questions" [] questions: Texts, "All questions, if there are several or multicast DNS requests a unicast answer (QU): a.local PTR QU" => |t| owned_texts(t.shown_questions());
    // Header and questions.
    "dns.flags" [] _: Unsigned, "Flags, operation and response code: those of the answer, or of the query if unanswered" => |t| unsigned(t.messages().last().map(|m| m.header.flags));
    "dns.flags.response" ["dns.answered"] _: Bool, "Whether there was an answer" => |t| Value::Bool(t.response.is_some());
    "dns.unsolicited" [] _: Bool, "Whether an answer was seen without its query" => |t| Value::Bool(t.query.is_none());
    "dns.flags.authenticated" ["dns.ad"] _: Bool, "Whether the server has authenticated the answer (RFC 4035)" => |t| Value::Bool(DnsTransaction::is_flagged(t.response.as_ref(), 0x0020));
    "dns.flags.checkdisable" ["dns.cd"] _: Bool, "Whether the client also accepts data that is not validated" => |t| Value::Bool(DnsTransaction::is_flagged(t.asking(), 0x0010));
    "dns.retransmission" [] _: Bool, "Whether the same query was already waiting for its answer" => |t| Value::Bool(t.is_retransmission);
    "dns.count.queries" [] _: Unsigned, "Number of questions" => |t| unsigned(t.asking().map(|m| m.header.counts[0]));
    "dns.count.answers" [] _: Unsigned, "Number of answers, as stated in the header" => |t| unsigned(t.response.as_ref().map(|m| m.header.counts[1]));
    "dns.count.auth_rr" [] _: Unsigned, "Number of authority records in the answer" => |t| unsigned(t.response.as_ref().map(|m| m.header.counts[2]));
    "dns.count.add_rr" [] _: Unsigned, "Number of additional records in the answer" => |t| unsigned(t.response.as_ref().map(|m| m.header.counts[3]));
    "dns.query" ["dns.name"] _: Text, "Queried name, in lower case; `.` is the root. Of several questions, the one that is answered" => |t| text(t.name());
    "dns.qry.name" ["dns.qry.names"] _: Texts, "Queried names of all questions, in lower case" => |t| owned_texts(t.all_names());
    "dns.qry.qu" [] _: Bool, "Whether a question of multicast DNS requests a unicast answer" => |t| Value::Bool(t.wants_unicast());
    "dns.original_query" [] _: Text, "Queried name as sent, if not all letters were lower case" => |t| text(t.question().and_then(|q| q.sent_name.as_deref()));
    "dns.qry.name.len" [] _: Unsigned, "Length of the queried name" => |t| unsigned(t.name().map(|name| name.len() as u64));
    "dns.malformed" [] _: Bool, "Whether query or answer could not be parsed completely" => |t| Value::Bool(t.messages().any(|m| m.is_malformed));
    "dns.query_length" [] _: Unsigned, "Size of the query, bytes" => |t| unsigned(t.query.as_ref().map(|m| m.length_bytes));
    "dns.length" ["dns.response_length"] _: Unsigned, "Size of the answer, bytes" => |t| unsigned(t.response.as_ref().map(|m| m.length_bytes));
    // Records of all sections, in query and answer.
    "dns.resp.name" [] _: Texts, "Owner names of the records" => |t| owned_texts(t.records().map(|r| r.name.clone()).collect());
    "dns.resp.type" [] _: Numbers, "Types of the records" => |t| collect_numbers(t.records().map(|r| r.kind));
    "dns.resp.ttl" [] _: Numbers, "Time to live of the records, seconds" => |t| collect_numbers(t.records().map(|r| r.ttl));
    "dns.a" [] _: Texts, "IPv4 addresses" => |t| collect(t, |data| if let RecordData::A(a) = data { Some(a.to_string()) } else { None });
    "dns.aaaa" [] _: Texts, "IPv6 addresses" => |t| collect(t, |data| if let RecordData::Aaaa(a) = data { Some(a.to_string()) } else { None });
    "dns.cname" [] _: Texts, "Canonical names (CNAME)" => |t| named(t, 5);
    "dns.ns" [] _: Texts, "Name servers" => |t| named(t, 2);
    "dns.ptr.domain_name" ["dns.ptr"] _: Texts, "Names of addresses (PTR)" => |t| named(t, 12);
    "dns.mx.mail_exchange" ["dns.mx"] _: Texts, "Mail servers (MX)" => |t| collect(t, |data| if let RecordData::Mx { exchange, .. } = data { Some(exchange.clone()) } else { None });
    "dns.soa.mname" [] _: Texts, "Primary name servers of zones (SOA)" => |t| collect(t, |data| if let RecordData::Soa(soa) = data { Some(soa.mname.clone()) } else { None });
    "dns.soa.rname" [] _: Texts, "Mailboxes of the persons responsible for zones (SOA)" => |t| collect(t, |data| if let RecordData::Soa(soa) = data { Some(soa.rname.clone()) } else { None });
    "dns.soa.serial_number" [] _: Numbers, "Serial numbers of zones (SOA)" => |t| collect_numbers(t.records().filter_map(|r| if let RecordData::Soa(soa) = &r.data { Some(soa.serial) } else { None }));
    "dns.srv.target" [] _: Texts, "Hosts of services (SRV)" => |t| collect(t, |data| if let RecordData::Srv { target, .. } = data { Some(target.clone()) } else { None });
    "dns.srv.port" [] _: Numbers, "Ports of services (SRV)" => |t| collect_numbers(t.records().filter_map(|r| if let RecordData::Srv { port, .. } = r.data { Some(port) } else { None }));
    "dns.txt" [] _: Texts, "Texts (TXT)" => |t| owned_texts(t.records().filter(|r| r.kind == 16).flat_map(Record::strings).map(super::name::escape).collect());
    "dns.svcb.targetname" [] _: Texts, "Hosts of SVCB and HTTPS records" => |t| collect(t, |data| if let RecordData::Svcb(service) = data { Some(service.target.clone()) } else { None });
    "dns.svcb.svcparam.alpn" [] _: Texts, "Protocols of SVCB and HTTPS records" => |t| owned_texts(t.records().flat_map(|r| if let RecordData::Svcb(service) = &r.data { service.alpn.clone() } else { Vec::new() }).collect());
    "dns.svcb.svcparam.key" [] _: Numbers, "Keys of the parameters of SVCB and HTTPS records: 1 is alpn" => |t| collect_numbers(services(t).flat_map(Svcb::keys));
    "dns.svcb.svcparam.mandatory.key" [] _: Numbers, "Keys that clients of SVCB and HTTPS records must know" => |t| collect_numbers(services(t).flat_map(Svcb::mandatory));
    "dns.svcb.svcparam.port" [] _: Numbers, "Ports of SVCB and HTTPS records" => |t| collect_numbers(services(t).filter_map(|service| service.port));
    "dns.svcb.svcparam.ipv4hint.ip" [] _: Texts, "IPv4 addresses that SVCB and HTTPS records suggest" => |t| owned_texts(services(t).flat_map(|service| &service.ipv4_hints).map(ToString::to_string).collect());
    "dns.svcb.svcparam.ipv6hint.ip" [] _: Texts, "IPv6 addresses that SVCB and HTTPS records suggest" => |t| owned_texts(services(t).flat_map(|service| &service.ipv6_hints).map(ToString::to_string).collect());
    "dns.svcb.svcparam.echconfig" ["dns.svcb.svcparam.ech"] _: Texts, "Configurations for Encrypted Client Hello of SVCB and HTTPS records, in base64" => |t| owned_texts(services(t).filter_map(Svcb::ech).collect());
    "dns.svcb.svcparam.dohpath" [] _: Texts, "Templates of URIs for DNS over HTTPS in SVCB records" => |t| owned_texts(services(t).filter_map(Svcb::doh_path).collect());
    // EDNS: the query's, or else the answer's.
    "dns.rr.udp_payload_size" ["dns.edns.payload"] _: Unsigned, "Maximum size of a datagram that the sender accepts, bytes" => |t| unsigned(t.edns().map(|e| e.payload_bytes));
    "dns.resp.edns0_version" ["dns.edns.version"] _: Unsigned, "Version of EDNS" => |t| unsigned(t.edns().map(|e| e.version));
    "dns.resp.z.do" ["dns.edns.do"] _: Bool, "Whether DNSSEC records are requested" => |t| t.edns().map_or(Value::Absent, |e| Value::Bool(e.is_dnssec_ok));
    "dns.opt.code" ["dns.edns.options"] _: Numbers, "EDNS options of query and answer" => |t| collect_numbers(t.messages().filter_map(|m| m.edns.as_ref()).flat_map(|e| e.options.iter().copied()));
    "dns.opt.client.addr" ["dns.client_subnet"] _: Text, "Client network for which a resolver asks (RFC 7871): 192.0.2.0/24" => |t| t.messages().find_map(|m| m.edns.as_ref()?.client_subnet).map_or(Value::Absent, |(address, bits, _)| owned(format!("{address}/{bits}")));
    "dns.opt.ext_error.info_code" ["dns.extended_error"] _: Unsigned, "Extended error codes (RFC 8914)" => |t| unsigned(t.response.as_ref().and_then(|m| m.edns.as_ref()?.extended_error));
    "dns.extended_rcode" [] _: Unsigned, "Response code, including the EDNS bits" => |t| unsigned(t.response.as_ref().map(extended_rcode));
}

/// The answers that are shown, with their TTL.
fn shown(transaction: &DnsTransaction) -> impl Iterator<Item = (u32, String)> {
    let shown = transaction.answers().iter().map(|record| (record.ttl, record.answer()));
    shown.filter(|(_, answer)| !answer.is_empty())
}

/// The SVCB and HTTPS records.
fn services(transaction: &DnsTransaction) -> impl Iterator<Item = &Svcb> {
    transaction.records().filter_map(|record| match &record.data {
        RecordData::Svcb(service) => Some(&**service),
        _ => None,
    })
}

fn type_name(question: &Question) -> std::borrow::Cow<'static, str> {
    match (question.is_netbios, question.kind) {
        (true, 32) => "NB".into(),
        (true, 33) => "NBSTAT".into(),
        (_, kind) => names::kind(kind),
    }
}

fn extended_rcode(message: &Message) -> u16 {
    let upper = message.edns.as_ref().map_or(0, |edns| edns.extended_rcode);
    u16::from(upper) << 4 | message.header.rcode()
}

fn collect(transaction: &DnsTransaction, read: fn(&RecordData) -> Option<String>) -> Value<'_> {
    owned_texts(transaction.records().filter_map(|record| read(&record.data)).collect())
}

fn named(transaction: &DnsTransaction, kind: u16) -> Value<'_> {
    let of_kind = transaction.records().filter(|record| record.kind == kind);
    let name =
        |record: &Record| if let RecordData::Name(name) = &record.data { Some(name.clone()) } else { None };
    owned_texts(of_kind.filter_map(name).collect())
}
