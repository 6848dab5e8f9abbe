//! [`DhcpTransaction`]: the messages of one transaction in one flow, and its filter fields.

use super::message::{Message, Options};
use crate::Session;
use crate::pairing::Held;
use crate::session::{Words, named, session_fields};
use crate::values::{bytes, collect_numbers, numbers, owned_texts, text, unsigned};
use std::any::Any;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use weir_packet::{Timestamp, Value};

/// Maximum number of messages per transaction.
pub const MESSAGES_MAX: usize = 8;

/// The messages of one transaction in one flow. Broadcasts of clients and answers of servers may be two
/// flows, and thus two transactions, whose rows are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpTransaction {
    /// Time of the first message.
    pub time: Timestamp,
    /// Time of the last message.
    pub last_time: Timestamp,
    /// The messages in order of arrival: at least one, at most [`MESSAGES_MAX`].
    pub messages: Vec<Message>,
}

impl DhcpTransaction {
    fn of_side(&self, operation: u8) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.operation == operation)
    }

    fn client<R>(&self, read: impl FnMut(&Message) -> Option<R>) -> Option<R> {
        self.of_side(1).filter_map(read).last()
    }

    fn server<R>(&self, read: impl FnMut(&Message) -> Option<R>) -> Option<R> {
        self.of_side(2).filter_map(read).last()
    }

    fn client_text(&self, read: fn(&Options) -> &Option<String>) -> Option<&str> {
        self.of_side(1).filter_map(|message| read(&message.options).as_deref()).last()
    }

    fn server_text(&self, read: fn(&Options) -> &Option<String>) -> Option<&str> {
        self.of_side(2).filter_map(|message| read(&message.options).as_deref()).last()
    }

    /// The address that the server assigned or offered.
    pub fn assigned(&self) -> Option<Ipv4Addr> {
        self.server(|message| known(message.your_address))
    }

    /// The server's address from its own messages; of several servers, the last.
    pub fn server_address(&self) -> Option<Ipv4Addr> {
        self.server(|message| message.options.server.or(known(message.next_server)))
    }

    /// The client's address: the one it uses, or else the assigned one.
    pub fn client_address(&self) -> Option<Ipv4Addr> {
        self.client(|message| known(message.client_address)).or_else(|| self.assigned())
    }

    /// The client's MAC address.
    pub fn mac(&self) -> Option<[u8; 6]> {
        self.client(Message::client_mac).or_else(|| self.server(|message| message.mac))
    }
}

impl Held for DhcpTransaction {
    fn held_bytes(&self) -> usize {
        let messages =
            self.messages.iter().map(|message| size_of::<Message>() + message.options.held_bytes());
        size_of::<Self>() + messages.sum::<usize>()
    }
}

/// The address, unless it is 0.0.0.0.
fn known(address: Ipv4Addr) -> Option<Ipv4Addr> {
    Some(address).filter(|address| !address.is_unspecified())
}

/// The name of a message type (IANA "DHCP Message Type 53 Values"), as in Zeek.
pub fn kind_name(kind: u8) -> Cow<'static, str> {
    const NAMES: [&str; 18] = [
        "DISCOVER",
        "OFFER",
        "REQUEST",
        "DECLINE",
        "ACK",
        "NAK",
        "RELEASE",
        "INFORM",
        "FORCERENEW",
        "LEASEQUERY",
        "LEASEUNASSIGNED",
        "LEASEUNKNOWN",
        "LEASEACTIVE",
        "BULKLEASEQUERY",
        "LEASEQUERYDONE",
        "ACTIVELEASEQUERY",
        "LEASEQUERYSTATUS",
        "TLS",
    ];
    let name = usize::from(kind).checked_sub(1).and_then(|at| NAMES.get(at));
    name.map_or_else(|| format!("unknown-{kind}").into(), |name| Cow::Borrowed(*name))
}

impl Session for DhcpTransaction {
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

/// All names of message types.
const KINDS: Words = Words { list: || named(0..=u8::MAX, kind_name), others: &["unknown-"] };

session_fields! { DhcpTransaction;
    // Columns of the log.
    "dhcp.client_addr" [] client_addr: Address, "Address of the client: the one it has, or the assigned one" => |t| address(t.client_address());
    "dhcp.option.dhcp_server_id" ["dhcp.server_addr"] server_addr: Address, "Address of the server (option server identifier)" => |t| address(t.server_address());
    "dhcp.hw.mac_addr" ["dhcp.mac"] mac: Mac, "MAC address of the client" => |t| t.mac().map_or(Value::Absent, Value::Mac);
    "dhcp.option.hostname" ["dhcp.host_name"] host_name: Text, "Name of the client" => |t| text(t.client_text(|o| &o.host_name));
    "dhcp.fqdn.name" ["dhcp.client_fqdn"] client_fqdn: Text, "Full name of the client (RFC 4702)" => |t| text(t.client_text(|o| &o.client_fqdn));
    "dhcp.option.domain_name" ["dhcp.domain"] domain: Text, "Domain assigned to the client" => |t| text(t.server_text(|o| &o.domain));
    "dhcp.option.requested_ip_address" ["dhcp.requested_addr"] requested_addr: Address, "Address that the client requests" => |t| address(t.client(|m| m.options.requested));
    "dhcp.ip.your" ["dhcp.assigned_addr"] assigned_addr: Address, "Address that the server assigns" => |t| address(t.assigned());
    "dhcp.option.ip_address_lease_time" ["dhcp.lease_time"] lease_time: Interval, "Lease time of the address" => |t| t.server(|m| m.options.lease_seconds).map_or(Value::Absent, |seconds| Value::Interval(u64::from(seconds) * 1_000_000_000));
    "dhcp.client_message" [] client_message: Text, "Why the client declines the address" => |t| text(t.client_text(|o| &o.message));
    "dhcp.server_message" [] server_message: Text, "Why the server refuses the request" => |t| text(t.server_text(|o| &o.message));
    "dhcp.msg_types" ["dhcp.messages"] msg_types: Texts in KINDS, "Types of the messages, in order of capture: DISCOVER, OFFER" => |t| owned_texts(t.messages.iter().filter_map(|m| m.options.kind).map(|kind| kind_name(kind).into_owned()).collect());
    "dhcp.duration" [] duration: Interval, "Time from the first message to the last" => |t| Value::Interval(t.last_time.since_ns(t.time));
    "dhcp.id" ["dhcp.xid"] trans_id: Unsigned, "Number of the transaction" => |t| unsigned(t.messages.first().map(|m| m.transaction));
    "dhcp.uids" [] uids: Texts, "Connections of the messages; only in rows" => |_| Value::Absent;
    // Fields without a column in the log.
    "dhcp.option.dhcp" ["dhcp.msg_type"] _: Numbers, "Types of the messages" => |t| collect_numbers(t.messages.iter().filter_map(|m| m.options.kind));
    "dhcp.ip.client" ["dhcp.ciaddr"] _: Address, "Address that the client already has" => |t| address(t.client(|m| known(m.client_address)));
    "dhcp.ip.server" ["dhcp.siaddr"] _: Address, "Address of the server for the next step of booting" => |t| address(t.server(|m| known(m.next_server)));
    "dhcp.ip.relay" ["dhcp.giaddr"] _: Address, "Address of the relay" => |t| address(t.messages.iter().find_map(|m| known(m.relay_address)));
    "dhcp.option.vendor_class_id" ["dhcp.vendor_class"] _: Text, "Type of the client, as stated by itself: MSFT 5.0" => |t| text(t.client_text(|o| &o.vendor_class));
    "dhcp.option.request_list_item" ["dhcp.parameters"] _: Numbers, "Options that the client requests, in its order" => |t| t.of_side(1).map(|m| &m.options.parameters).find(|list| !list.is_empty()).map_or(Value::Absent, |list| numbers(list));
    "dhcp.option.type" ["dhcp.options"] _: Numbers, "Options of the first message, in its order" => |t| t.messages.first().map_or(Value::Absent, |m| numbers(&m.options.numbers));
    "dhcp.client_id" [] _: Bytes, "Identifier of the client: its type, and its value" => |t| t.of_side(1).find_map(|m| m.options.client_id.as_deref()).map_or(Value::Absent, bytes);
    "dhcp.option.subnet_mask" [] _: Address, "Subnet mask" => |t| address(t.server(|m| m.options.mask));
    "dhcp.option.router" ["dhcp.routers"] _: Texts, "Routers" => |t| addresses(t, |o| &o.routers);
    "dhcp.option.domain_name_server" ["dhcp.dns"] _: Texts, "Name servers" => |t| addresses(t, |o| &o.name_servers);
}

fn address(address: Option<Ipv4Addr>) -> Value<'static> {
    address.map_or(Value::Absent, |address| Value::Address(IpAddr::V4(address)))
}

fn addresses(transaction: &DhcpTransaction, read: fn(&Options) -> &Vec<Ipv4Addr>) -> Value<'static> {
    let told = transaction.of_side(2).map(|message| read(&message.options)).find(|list| !list.is_empty());
    told.map_or(Value::Absent, |list| owned_texts(list.iter().map(Ipv4Addr::to_string).collect()))
}
