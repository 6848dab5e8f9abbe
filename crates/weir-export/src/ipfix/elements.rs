//! The information elements of IPFIX (RFC 7012, registry "IPFIX Information Elements" of IANA) that a row of
//! `weir flows` has, and the templates that they form.

use weir_packet::Column;

/// The enterprise number of elements about the reverse direction (RFC 5103, section 6.1).
pub(super) const REVERSE: u32 = 29305;

/// The length of an element in a template that says: each value has its own length (RFC 7011, section 7).
pub(super) const VARIABLE: u16 = 65535;

/// A row's column, by the place among the row's cells.
pub(super) type Place = usize;

/// The value of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// The time in this column, in milliseconds since 1970.
    Start(Place),
    /// The time in the first column and the interval in the second one, likewise.
    End(Place, Option<Place>),
    /// An address of the template's family.
    Address(Place),
    /// A number; 0 if the row has none.
    Number(Place),
    /// The type and the code of an ICMP message of this family, `256 * type + code`, from the columns of the
    /// ports.
    TypeAndCode(Place, Place, Family),
    /// Flags of TCP, from the history: those of the originator, or of the responder.
    Flags(Place, Sender),
    /// The reason of the end, from transport protocol and state of the connection.
    EndReason(Place, Place),
    /// 1: the source is the initiator (RFC 5103, section 6.3).
    Direction,
    /// 64 bits of the uid.
    Identifier(Place),
    /// A text of at most 254 bytes.
    Text(Place),
}

/// A side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    Originator,
    Responder,
}

/// An element of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub id: u16,
    /// 0: one of IANA's.
    pub enterprise: u32,
    /// In bytes.
    pub length: u16,
    pub content: Content,
}

/// The family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// What the ports of a row are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    /// Type and code.
    Icmp,
    Other,
}

/// A template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    pub id: u16,
    pub elements: Vec<Element>,
}

/// The first number that a template may have (RFC 7011, section 3.4.1).
const FIRST_TEMPLATE: u16 = 256;

/// The template of a row.
pub(super) fn template_index(family: Family, transport: Transport) -> usize {
    let of_family = match transport {
        Transport::Tcp => 0,
        Transport::Other => 1,
        Transport::Icmp => 2,
    };
    of_family + if family == Family::V6 { 3 } else { 0 }
}

/// All templates, in the order of [`template_index`], for rows with these columns. Elements without their
/// column are left out. `None`: a column without which there is no flow record is missing.
pub(super) fn templates(columns: &[Column]) -> Option<Vec<Template>> {
    let mut all = vec![];
    for family in [Family::V4, Family::V6] {
        for transport in [Transport::Tcp, Transport::Other, Transport::Icmp] {
            let id = FIRST_TEMPLATE + template_index(family, transport) as u16;
            all.push(Template { id, elements: elements(columns, family, transport)? });
        }
    }
    Some(all)
}

/// The names of the columns without which there is no flow record.
pub(super) const NEEDED: &[&str] = &["ts", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "ip_proto"];

/// The place of the column with this name.
pub(super) fn place(columns: &[Column], name: &str) -> Option<Place> {
    columns.iter().position(|column| column.name == name)
}

fn elements(columns: &[Column], family: Family, transport: Transport) -> Option<Vec<Element>> {
    let at = |name| place(columns, name);
    let iana = |id, length, content| Element { id, enterprise: 0, length, content };
    let reverse = |id, length, content| Element { id, enterprise: REVERSE, length, content };
    let (start, orig_h, resp_h) = (at("ts")?, at("id.orig_h")?, at("id.resp_h")?);
    let (orig_p, resp_p, protocol) = (at("id.orig_p")?, at("id.resp_p")?, at("ip_proto")?);
    let number = |name| at(name).map(Content::Number);
    let (source, destination, address_bytes, icmp) = match family {
        // sourceIPv4Address, destinationIPv4Address, icmpTypeCodeIPv4
        Family::V4 => (8, 12, 4, 32),
        // sourceIPv6Address, destinationIPv6Address, icmpTypeCodeIPv6
        Family::V6 => (27, 28, 16, 139),
    };
    let mut elements = vec![
        // flowStartMilliseconds, flowEndMilliseconds
        iana(152, 8, Content::Start(start)),
        iana(153, 8, Content::End(start, at("duration"))),
        iana(source, address_bytes, Content::Address(orig_h)),
        iana(destination, address_bytes, Content::Address(resp_h)),
    ];
    match transport {
        Transport::Icmp => elements.push(iana(icmp, 2, Content::TypeAndCode(orig_p, resp_p, family))),
        // sourceTransportPort, destinationTransportPort
        Transport::Tcp | Transport::Other => {
            elements.push(iana(7, 2, Content::Number(orig_p)));
            elements.push(iana(11, 2, Content::Number(resp_p)));
        }
    }
    // protocolIdentifier
    elements.push(iana(4, 1, Content::Number(protocol)));
    // octetDeltaCount, packetDeltaCount
    elements.extend(number("orig_ip_bytes").map(|content| iana(1, 8, content)));
    elements.extend(number("orig_pkts").map(|content| iana(2, 8, content)));
    elements.extend(number("resp_ip_bytes").map(|content| reverse(1, 8, content)));
    elements.extend(number("resp_pkts").map(|content| reverse(2, 8, content)));
    // initiatorOctets, responderOctets: payload of the transport protocol
    elements.extend(number("orig_bytes").map(|content| iana(231, 8, content)));
    elements.extend(number("resp_bytes").map(|content| iana(232, 8, content)));
    if let (Transport::Tcp, Some(history)) = (transport, at("history")) {
        // tcpControlBits
        elements.push(iana(6, 2, Content::Flags(history, Sender::Originator)));
        elements.push(reverse(6, 2, Content::Flags(history, Sender::Responder)));
    }
    // vlanId, dot1qCustomerVlanId
    elements.extend(number("vlan").map(|content| iana(58, 2, content)));
    elements.extend(number("inner_vlan").map(|content| iana(245, 2, content)));
    // flowEndReason
    elements.extend(at("conn_state").map(|state| iana(136, 1, Content::EndReason(protocol, state))));
    // biflowDirection
    elements.push(iana(239, 1, Content::Direction));
    // flowId
    elements.extend(at("uid").map(|uid| iana(148, 8, Content::Identifier(uid))));
    // applicationName
    elements.extend(at("service").map(|service| iana(96, VARIABLE, Content::Text(service))));
    Some(elements)
}
