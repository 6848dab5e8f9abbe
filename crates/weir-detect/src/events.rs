//! Events of rules (`stream-event`, `decode-event`, `app-layer-event`), and what in Weir stands for each of
//! them.

use crate::buffers::Transaction;
use crate::fields::{Field, Values};
use weir::sessions::dns::DnsTransaction;
use weir::sessions::http::{Head, HttpExchange, Version};
use weir_rules::EventKind;

/// Where an event of rules comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// An event of the stack.
    Stack(&'static str),
    /// Headers of a packet: the fields that are read, and the test.
    Packet(&'static [Field], fn(&Values<'_>) -> bool),
    /// Bytes of the stream are missing before those that the packet brings.
    Gap,
    /// A side of a session of this protocol: that of the client, or that of the server.
    Session(&'static str, fn(&Transaction<'_>, bool) -> bool),
}

/// An event: its kind, its name in rules, and the source.
type Known = (EventKind, &'static str, Source);

const KNOWN: &[Known] = &[
    (EventKind::Stream, "stream.reassembly_overlap_different_data", Source::Stack("tcp.inconsistent")),
    (EventKind::Stream, "stream.pkt_retransmission", Source::Stack("tcp.retransmission")),
    (EventKind::Stream, "stream.pkt_invalid_timestamp", Source::Stack("tcp.old_clock")),
    (EventKind::Stream, "stream.est_packet_out_of_window", Source::Stack("tcp.beyond_window")),
    (EventKind::Stream, "stream.reassembly_seq_gap", Source::Gap),
    (
        EventKind::Decode,
        "ipv4.trunc_pkt",
        Source::Packet(&[Field::IsCut], |packet| is_set(packet, Field::IsCut)),
    ),
    (
        EventKind::Decode,
        "ipv6.trunc_pkt",
        Source::Packet(&[Field::IsCut6], |packet| is_set(packet, Field::IsCut6)),
    ),
    (
        EventKind::Decode,
        "ipv6.exthdr_useless_fh",
        Source::Packet(&[Field::FragmentOffset6, Field::More6], |packet| {
            packet.get(Field::FragmentOffset6) == Some(0) && packet.get(Field::More6) == Some(0)
        }),
    ),
    (
        EventKind::App,
        "dns.z_flag_set",
        Source::Session("dns", |session, to_server| dns_flags(session, to_server) & 0x40 != 0),
    ),
    (
        EventKind::App,
        "dns.invalid_opcode",
        Source::Session("dns", |session, to_server| dns_flags(session, to_server) >> 11 & 15 >= 7),
    ),
    (
        EventKind::App,
        "http.missing_host_header",
        Source::Session("http", |session, to_server| {
            head(session, to_server).is_some_and(|head| {
                to_server && head.version() == Version(1, 1) && head.header("host").is_none()
            })
        }),
    ),
    (
        EventKind::App,
        "http.duplicate_content_length_field_in_request",
        Source::Session("http", |session, to_server| to_server && content_lengths(session, true) > 1),
    ),
    (
        EventKind::App,
        "http.duplicate_content_length_field_in_response",
        Source::Session("http", |session, to_server| !to_server && content_lengths(session, false) > 1),
    ),
];

/// Where an event of rules comes from; `None`: from nowhere.
pub fn source(kind: EventKind, name: &str) -> Option<Source> {
    KNOWN.iter().find(|(of, known, _)| *of == kind && *known == name).map(|(.., source)| *source)
}

fn is_set(packet: &Values<'_>, field: Field) -> bool {
    packet.get(field) == Some(1)
}

/// The bit of a packet before which bytes of its stream are missing.
pub const GAP: u64 = 1 << 63;

/// Whether an event happened: on a packet, or on a side of a session. `stack`: the events of the stack by the
/// bits of `happened`.
pub fn holds(
    source: Source,
    stack: &[&str],
    packet: &Values<'_>,
    happened: u64,
    session: Option<&Transaction<'_>>,
    to_server: bool,
) -> bool {
    match source {
        Source::Stack(name) => {
            happened != 0
                && stack.iter().position(|known| *known == name).is_some_and(|bit| happened >> bit & 1 != 0)
        }
        Source::Packet(_, holds) => holds(packet),
        Source::Gap => happened & GAP != 0,
        Source::Session(_, holds) => session.is_some_and(|session| holds(session, to_server)),
    }
}

/// The flags of the query or of the answer (RFC 1035, section 4.1.1).
fn dns_flags(session: &Transaction<'_>, to_server: bool) -> u16 {
    let Some(lookup) = session.session.as_any().downcast_ref::<DnsTransaction>() else { return 0 };
    let message = if to_server { &lookup.query } else { &lookup.response };
    message.as_ref().map_or(0, |message| message.header.flags)
}

/// The head of the request or of the response.
fn head<'t>(session: &Transaction<'t>, to_server: bool) -> Option<&'t Head> {
    let exchange = session.session.as_any().downcast_ref::<HttpExchange>()?;
    let message = if to_server { &exchange.request } else { &exchange.response };
    message.as_ref().map(|message| &message.head)
}

fn content_lengths(session: &Transaction<'_>, to_server: bool) -> usize {
    head(session, to_server).map_or(0, |head| head.all("content-length").count())
}
