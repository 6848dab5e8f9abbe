//! [`SipTransaction`]: a request with its response, and its fields.

use super::message::{Media, Message, Start, tag, without_tag};
use crate::pairing::Held;
use crate::session::session_fields;
use crate::values::{owned_texts, text, unsigned};
use crate::{Direction, Session};
use std::any::Any;
use weir_packet::{Timestamp, Value};

/// A request with its last response, or either alone if the other was not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SipTransaction {
    /// Capture time of its first message.
    pub time: Timestamp,
    /// Direction of the client.
    pub client: Direction,
    /// Number of transactions of the flow that began earlier.
    pub depth: u64,
    /// The request.
    pub request: Option<Message>,
    /// The last response; a provisional one only if no final one was seen.
    pub response: Option<Message>,
    /// All messages in order of arrival, with retransmissions and provisional responses, at most
    /// [`MESSAGES_MAX`]: `INVITE`, `180 Ringing`.
    pub seen: Vec<String>,
    /// A retransmission of a transaction that was complete already.
    pub is_resent: bool,
}

/// Maximum number of messages that are listed.
pub const MESSAGES_MAX: usize = 64;

impl SipTransaction {
    /// A transaction without messages.
    pub(super) fn new(time: Timestamp, client: Direction, depth: u64) -> Self {
        Self { time, client, depth, request: None, response: None, seen: vec![], is_resent: false }
    }

    /// Takes a response. The media that a provisional one describes stay if the final one describes none.
    pub(super) fn answer(&mut self, mut response: Message) {
        if let Some(before) = self.response.take().filter(|_| response.media.is_empty()) {
            response.media = before.media;
        }
        self.response = Some(response);
    }

    /// Lists a message; returns whether there is room.
    pub(super) fn take(&mut self, message: &Message) -> bool {
        let has_room = self.seen.len() < MESSAGES_MAX;
        if has_room {
            self.seen.push(message.label());
        }
        has_room
    }

    /// Both messages, the request first.
    fn messages(&self) -> impl Iterator<Item = &Message> {
        self.request.iter().chain(&self.response)
    }

    fn text(&self, read: fn(&Message) -> &Option<String>) -> Value<'_> {
        text(self.messages().find_map(|message| read(message).as_deref()))
    }

    fn asked(&self, read: fn(&Message) -> &Option<String>) -> Value<'_> {
        text(self.request.as_ref().and_then(|message| read(message).as_deref()))
    }

    fn answered(&self, read: fn(&Message) -> &Option<String>) -> Value<'_> {
        text(self.response.as_ref().and_then(|message| read(message).as_deref()))
    }

    /// An address of a message.
    fn party<'a>(&self, of: &'a Option<Message>, read: fn(&Message) -> &Option<String>) -> Option<&'a str> {
        of.as_ref().and_then(|message| read(message).as_deref())
    }

    /// The method, from the request or from the response's CSeq.
    pub fn method(&self) -> Option<&str> {
        self.messages().find_map(|message| match &message.start {
            Start::Request { method, .. } => Some(method.as_str()),
            Start::Response { .. } => message.sequence.as_deref()?.split_ascii_whitespace().nth(1),
        })
    }

    /// The request URI.
    pub fn uri(&self) -> Option<&str> {
        self.request.as_ref().and_then(|message| match &message.start {
            Start::Request { uri, .. } => Some(uri.as_str()),
            Start::Response { .. } => None,
        })
    }

    /// The response's code and reason.
    pub fn status(&self) -> Option<(u16, &str)> {
        self.response.as_ref().and_then(|message| match &message.start {
            Start::Response { code, reason } => Some((*code, reason.as_str())),
            Start::Request { .. } => None,
        })
    }
}

impl Held for SipTransaction {
    fn held_bytes(&self) -> usize {
        let seen = self.seen.iter().map(|label| size_of::<String>() + label.len());
        size_of::<Self>() + self.messages().map(Message::held_bytes).sum::<usize>() + seen.sum::<usize>()
    }
}

session_fields! { SipTransaction;
    "sip.trans_depth" [] trans_depth: Unsigned, "Number of earlier transactions of the flow" => |t| Value::Unsigned(t.depth);
    "sip.Method" ["sip.method"] method: Text, "Method of the request: INVITE, REGISTER" => |t| text(t.method());
    "sip.r-uri" ["sip.uri"] uri: Text, "Target of the request" => |t| text(t.uri());
    "sip.Date" ["sip.date"] date: Text, "Date header of the request" => |t| t.asked(|m| &m.date);
    "sip.request_from" [] request_from: Text, "From header of the request, without its tag: the caller" => |t| text(t.party(&t.request, |m| &m.from).map(without_tag));
    "sip.request_to" [] request_to: Text, "To header of the request, without its tag: the callee" => |t| text(t.party(&t.request, |m| &m.to).map(without_tag));
    "sip.response_from" [] response_from: Text, "From header of the answer, without its tag" => |t| text(t.party(&t.response, |m| &m.from).map(without_tag));
    "sip.response_to" [] response_to: Text, "To header of the answer, without its tag" => |t| text(t.party(&t.response, |m| &m.to).map(without_tag));
    "sip.Reply-To" ["sip.reply_to"] reply_to: Text, "Reply-To header: the address to call back" => |t| t.text(|m| &m.reply_to);
    "sip.Call-ID" ["sip.call_id"] call_id: Text, "Identifier of the call" => |t| t.text(|m| &m.call_id);
    "sip.CSeq" ["sip.seq"] seq: Text, "Number of the request in its call, and its method" => |t| t.text(|m| &m.sequence);
    "sip.Subject" ["sip.subject"] subject: Text, "Subject of the call" => |t| t.asked(|m| &m.subject);
    "sip.Via" ["sip.request_path"] request_path: Texts, "Hops of the request, the latest first" => |t| t.request.as_ref().map_or(Value::Absent, |m| owned_texts(m.path()));
    "sip.response_path" [] response_path: Texts, "Hops of the answer, the next first" => |t| t.response.as_ref().map_or(Value::Absent, |m| owned_texts(m.path()));
    "sip.User-Agent" ["sip.user_agent"] user_agent: Text, "Software of the client" => |t| t.asked(|m| &m.user_agent);
    "sip.Status-Code" ["sip.status_code", "sip.code"] status_code: Unsigned, "Code of the last answer" => |t| unsigned(t.status().map(|status| status.0));
    "sip.Reason-Phrase" ["sip.status_msg"] status_msg: Text, "Reason phrase of the last answer" => |t| text(t.status().map(|status| status.1));
    "sip.Warning" ["sip.warning"] warning: Text, "Warning of the server" => |t| t.answered(|m| &m.warning);
    "sip.Content-Length" ["sip.request_body_len"] request_body_len: Unsigned, "Size of the request's body, bytes" => |t| unsigned(t.request.as_ref().and_then(|m| m.body_bytes));
    "sip.response_body_len" [] response_body_len: Unsigned, "Size of the answer's body, bytes" => |t| unsigned(t.response.as_ref().and_then(|m| m.body_bytes));
    "sip.Content-Type" ["sip.content_type"] content_type: Text, "Type of the body: application/sdp" => |t| t.text(|m| &m.content_type);
    "sip.messages" [] messages: Texts, "All messages in order, with provisional answers and retransmissions: INVITE, 180 Ringing" => |t| owned_texts(t.seen.clone());
    "sip.resend" ["sip.resent"] resent: Bool, "Whether a message repeats a transaction that was complete already" => |t| Value::Bool(t.is_resent);
    "sip.request_media" [] request_media: Texts, "Where the client expects media (SDP): audio 192.0.2.7:4000" => |t| media(t.request.as_ref());
    "sip.response_media" [] response_media: Texts, "Where the server expects media (SDP): video 192.0.2.9:4002" => |t| media(t.response.as_ref());
    // Not in the log.
    "sip.From" [] _: Text, "From header of the request" => |t| t.asked(|m| &m.from);
    "sip.To" [] _: Text, "To header of the request" => |t| t.asked(|m| &m.to);
    "sip.from.tag" [] _: Text, "Tag of the caller" => |t| text(t.messages().find_map(|m| tag(m.from.as_deref()?)));
    "sip.to.tag" [] _: Text, "Tag of the callee, which its answers have" => |t| text(t.messages().find_map(|m| tag(m.to.as_deref()?)));
    "sip.Server" ["sip.server"] _: Text, "Software of the server" => |t| text(t.response.as_ref().and_then(|m| m.server.as_deref().or(m.user_agent.as_deref())));
    "sip.Contact" ["sip.contact"] _: Text, "Address at which the client can be reached" => |t| t.asked(|m| &m.contact);
}

/// The media that a message describes. They are the ends of the flows of RTP.
fn media(message: Option<&Message>) -> Value<'_> {
    owned_texts(message.map_or(vec![], |message| message.media.iter().map(Media::shown).collect()))
}

impl Session for SipTransaction {
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
