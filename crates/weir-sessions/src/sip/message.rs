//! A [`Message`] of SIP, parsed line by line: start line (RFC 3261 §7.1, §7.2) and headers (§7.3), in their
//! long and short forms.

use crate::line::{split_word, text};
use std::net::{IpAddr, SocketAddr};
use weir_packet::Timestamp;

/// Maximum number of bytes kept of a value.
const TEXT_BYTES_MAX: usize = 1024;

/// Maximum number of bytes kept of all values of a message.
const MESSAGE_TEXT_BYTES_MAX: usize = 8192;

/// Maximum number of Via entries kept: a request may pass 70 hops (§8.1.1.6).
const HOPS_MAX: usize = 70;

/// Maximum number of bytes of a message in a list of messages.
const LABEL_BYTES_MAX: usize = 64;

/// The first line of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// A request with its method and URI.
    Request {
        /// `INVITE`.
        method: String,
        /// `sip:bob@biloxi.example`.
        uri: String,
    },
    /// A response with its status.
    Response {
        /// `200`.
        code: u16,
        /// `OK`.
        reason: String,
    },
}

/// A message without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Capture time of its first byte.
    pub time: Timestamp,
    /// The first line.
    pub start: Start,
    /// From: the caller.
    pub from: Option<String>,
    /// To: the callee.
    pub to: Option<String>,
    /// Call-ID.
    pub call_id: Option<String>,
    /// CSeq: number and method.
    pub sequence: Option<String>,
    /// Via, one per hop, the last hop first.
    pub via: Vec<String>,
    /// Date.
    pub date: Option<String>,
    /// Reply-To.
    pub reply_to: Option<String>,
    /// Subject.
    pub subject: Option<String>,
    /// User-Agent.
    pub user_agent: Option<String>,
    /// Server.
    pub server: Option<String>,
    /// Warning.
    pub warning: Option<String>,
    /// Contact: where the sender can be reached.
    pub contact: Option<String>,
    /// Content-Type.
    pub content_type: Option<String>,
    /// Content-Length, bytes.
    pub body_bytes: Option<u64>,
    /// The media that the body describes (SDP, RFC 8866), at most [`MEDIA_MAX`].
    pub media: Vec<Media>,
    /// The address of all media that have none of their own.
    media_address: Option<IpAddr>,
    /// Bytes kept of all values.
    kept_bytes: usize,
}

/// Maximum number of media kept per message.
pub const MEDIA_MAX: usize = 16;

/// A medium, and where its sender expects it: the address of the packets that its peer sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// `audio`, `video`.
    pub kind: String,
    /// The address, if it is no name.
    pub address: Option<IpAddr>,
    /// The port; 0 if the medium is refused.
    pub port: u16,
}

impl Media {
    /// Kind, address and port: `audio 192.0.2.7:4000`.
    pub(super) fn shown(&self) -> String {
        match self.address {
            Some(address) => format!("{} {}", self.kind, SocketAddr::from((address, self.port))),
            None => format!("{} {}", self.kind, self.port),
        }
    }
}

impl Start {
    /// Parses a start line. `None` if it is none.
    pub fn parse(line: &[u8]) -> Option<Self> {
        if let Some(status) = line.strip_prefix(b"SIP/2.0 ") {
            let (code, reason) = split_word(status);
            let is_code =
                code.len() == 3 && matches!(code[0], b'1'..=b'6') && code.iter().all(u8::is_ascii_digit);
            let number = || code.iter().fold(0, |code, digit| code * 10 + u16::from(digit & 15));
            return is_code.then(|| Self::Response { code: number(), reason: text(reason, TEXT_BYTES_MAX) });
        }
        let rest = line.trim_ascii_end().strip_suffix(b" SIP/2.0")?;
        let (method, uri) = split_word(rest);
        let is_method = !method.is_empty() && method.len() <= 32 && method.iter().all(|byte| is_token(*byte));
        (is_method && !uri.is_empty())
            .then(|| Self::Request { method: text(method, 32), uri: text(uri, TEXT_BYTES_MAX) })
    }
}

/// Whether a byte may occur in a method name (§25.1).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte)
}

/// The elements of a list, which commas separate outside of quoted text.
fn elements(list: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let parts = list.split(move |letter| {
        is_quoted ^= letter == '"' && !is_escaped;
        is_escaped = is_quoted && letter == '\\' && !is_escaped;
        letter == ',' && !is_quoted
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// An address without its tag, which identifies the dialog: `Bob <sip:b@y.example>`.
pub(super) fn without_tag(address: &str) -> &str {
    let tag = [";tag=", "; tag="].iter().filter_map(|tag| address.find(tag)).min();
    address[..tag.unwrap_or(address.len())].trim_ascii_end()
}

/// The tag of an address (§19.3).
pub(super) fn tag(address: &str) -> Option<&str> {
    let at = address.rfind('>').unwrap_or(0);
    address[at..].split(';').find_map(|part| part.trim().strip_prefix("tag="))
}

impl Message {
    pub(super) fn new(start: Start, time: Timestamp) -> Self {
        Self {
            time,
            start,
            from: None,
            to: None,
            call_id: None,
            sequence: None,
            via: Vec::new(),
            date: None,
            reply_to: None,
            subject: None,
            user_agent: None,
            server: None,
            warning: None,
            contact: None,
            content_type: None,
            body_bytes: None,
            media: Vec::new(),
            media_address: None,
            kept_bytes: 0,
        }
    }

    /// Takes a header line. Returns whether all of it was kept. If a header is repeated, the first one is
    /// used.
    pub(super) fn take_header(&mut self, line: &[u8]) -> bool {
        let Some(colon) = memchr::memchr(b':', line) else { return true };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if name.len() > 16 {
            return true;
        }
        let kept = text(value, TEXT_BYTES_MAX);
        let has_room = self.kept_bytes + kept.len() <= MESSAGE_TEXT_BYTES_MAX;
        let slot = match &name.to_ascii_lowercase()[..] {
            b"via" | b"v" => {
                if !has_room {
                    return false;
                }
                // A line may have several hops (§7.3.1).
                self.kept_bytes += kept.len();
                let room = HOPS_MAX.saturating_sub(self.via.len());
                let mut hops = elements(&kept).map(str::to_owned);
                self.via.extend(hops.by_ref().take(room));
                return hops.next().is_none() && value.len() <= TEXT_BYTES_MAX;
            }
            b"content-length" | b"l" => {
                let number = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                self.body_bytes = self.body_bytes.or(number);
                return true;
            }
            b"from" | b"f" => &mut self.from,
            b"to" | b"t" => &mut self.to,
            b"call-id" | b"i" => &mut self.call_id,
            b"cseq" => &mut self.sequence,
            b"date" => &mut self.date,
            b"reply-to" => &mut self.reply_to,
            b"subject" | b"s" => &mut self.subject,
            b"user-agent" => &mut self.user_agent,
            b"server" => &mut self.server,
            b"warning" => &mut self.warning,
            b"contact" | b"m" => &mut self.contact,
            b"content-type" | b"c" => &mut self.content_type,
            _ => return true,
        };
        if slot.is_none() && has_room {
            self.kept_bytes += kept.len();
            *slot = Some(kept);
        }
        has_room && value.len() <= TEXT_BYTES_MAX
    }

    /// Whether the body is a description of media.
    pub(super) fn describes_media(&self) -> bool {
        let kind = self.content_type.as_deref().and_then(|kind| kind.split(';').next());
        kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/sdp"))
    }

    /// Takes a line of the body (RFC 8866 §5.7, §5.14).
    pub(super) fn take_media(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(line) else { return };
        let Some((kind, value)) = line.trim_ascii_end().split_once('=') else { return };
        let mut words = value.split(' ');
        match kind {
            "c" => {
                // The network, the type of address, the address with perhaps a scope: 224.2.1.1/127.
                let address = words.nth(2).and_then(|word| word.split('/').next()?.parse().ok());
                match self.media.last_mut() {
                    Some(media) => media.address = address.or(media.address),
                    None => self.media_address = address,
                }
            }
            "m" if self.media.len() < MEDIA_MAX => {
                let kind = words.next().map(|kind| text(kind.as_bytes(), 16));
                let port = words.next().and_then(|word| word.split('/').next()?.parse().ok());
                if let (Some(kind), Some(port)) = (kind, port) {
                    self.media.push(Media { kind, address: self.media_address, port });
                }
            }
            _ => {}
        }
    }

    /// The key of a transaction (§17.1.3): the call, its sequence number, the branch of the last hop.
    pub(super) fn key(&self) -> (&str, &str, &str) {
        let branch = self
            .via
            .first()
            .and_then(|via| via.split(';').find_map(|part| part.trim().strip_prefix("branch=")));
        (
            self.call_id.as_deref().unwrap_or_default(),
            self.sequence.as_deref().unwrap_or_default(),
            branch.unwrap_or_default().trim(),
        )
    }

    /// The hops as in Zeek: without branch and the parameters after it.
    pub(super) fn path(&self) -> Vec<String> {
        let without_branch = |via: &String| {
            let end = via.find(";branch").or_else(|| via.find("; branch")).unwrap_or(via.len());
            via[..end].to_owned()
        };
        self.via.iter().map(without_branch).collect()
    }

    /// The message in one word or two: `INVITE`, `180 Ringing`.
    pub(super) fn label(&self) -> String {
        let mut label = match &self.start {
            Start::Request { method, .. } => method.clone(),
            Start::Response { code, reason } => format!("{code} {reason}"),
        };
        label.truncate(label.floor_char_boundary(LABEL_BYTES_MAX));
        label
    }

    pub(super) fn held_bytes(&self) -> usize {
        let texts = [
            &self.from,
            &self.to,
            &self.call_id,
            &self.sequence,
            &self.date,
            &self.reply_to,
            &self.subject,
            &self.user_agent,
            &self.server,
            &self.warning,
            &self.contact,
            &self.content_type,
        ];
        let start = match &self.start {
            Start::Request { method, uri } => method.len() + uri.len(),
            Start::Response { reason, .. } => reason.len(),
        };
        size_of::<Self>()
            + start
            + texts.into_iter().flatten().map(String::len).sum::<usize>()
            + self.media.iter().map(|media| size_of::<Media>() + media.kind.len()).sum::<usize>()
            + self.via.iter().map(|via| via.len() + size_of::<String>()).sum::<usize>()
    }
}
