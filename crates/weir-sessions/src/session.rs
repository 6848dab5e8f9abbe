//! The trait of session parsers, and what they yield.

use crate::{ByteSet, Context, Setting};
use std::any::Any;
use std::borrow::Cow;
use weir_packet::{Direction, Timestamp, Value, ValueType};

/// Bytes of one direction, as a parser is handed them.
#[derive(Debug, Clone, Copy)]
pub struct Data<'a> {
    /// Who sent them.
    pub from: Direction,
    /// When they came, or their turn did.
    pub time: Timestamp,
    /// Over TCP the next bytes of the stream, in a piece of any size; over UDP the payload of one datagram.
    pub bytes: &'a [u8],
    /// They are one datagram, whole as far as the capture has it, and need not come in the order they were sent in.
    pub is_datagram: bool,
}

/// The first bytes of a connection, as a probe sees them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening<'a> {
    /// The originator's first bytes; over UDP its last datagram. May be empty.
    pub originator: &'a [u8],
    /// The responder's, in the same way.
    pub responder: &'a [u8],
    /// Over UDP the two datagrams before the last one, of the originator and of the responder, the later one first; empty where there
    /// were none. For protocols without a signature, which only several datagrams together tell.
    pub earlier: [[&'a [u8]; 2]; 2],
    /// Ports of the originator and the responder: a hint for protocols whose first bytes say little.
    pub ports: [u16; 2],
    /// It came in datagrams.
    pub is_datagram: bool,
}

impl Opening<'_> {
    /// Whether the originator or the responder has one of these ports.
    pub(crate) fn is_on(&self, ports: &[u16]) -> bool {
        self.ports.iter().any(|port| ports.contains(port))
    }
}

/// The place of one of the first bytes that a side sends: over TCP in its stream, over UDP in its last datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstPlace {
    /// From 0 to [`DECIDED_BYTES`](crate::DECIDED_BYTES) - 1.
    pub at: usize,
    /// The bytes come in datagrams.
    pub is_datagram: bool,
    /// The originator or the responder has one of the protocol's [ports](SessionProtocol::ports).
    pub is_on_port: bool,
}

/// What a probe thinks of the first bytes of a connection. How segments cut a stream must not matter: what it is certain of, or
/// denies, stays so whatever the same side sends next. So it is unsure where the next bytes may change its mind,
/// and where another protocol's probe could be certain of the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// It is this protocol.
    Certain,
    /// It may be; more bytes are needed.
    Unsure,
    /// It is not.
    NotForUs,
}

impl Probe {
    /// Certain where `bytes` begin with a word, unsure where they are but the beginning of it.
    pub fn of_word(bytes: &[u8], word: &[u8]) -> Probe {
        // Byte by byte, and not by `memcmp`, whose masked loads of AVX-512 cost hundreds of cycles where they come upon a
        // page that is not there: every new flow is asked by every protocol.
        Self::of_word_by(bytes, word, u8::eq)
    }

    /// As [`of_word`](Self::of_word), of a word in upper or lower case.
    pub fn of_word_in_any_case(bytes: &[u8], word: &[u8]) -> Probe {
        Self::of_word_by(bytes, word, u8::eq_ignore_ascii_case)
    }

    fn of_word_by(bytes: &[u8], word: &[u8], same: impl Fn(&u8, &u8) -> bool) -> Probe {
        match bytes.iter().zip(word).all(|(byte, of)| same(byte, of)) {
            true if bytes.len() >= word.len() => Probe::Certain,
            true => Probe::Unsure,
            false => Probe::NotForUs,
        }
    }
}

/// Whether a parser wants to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Hand me the next bytes.
    Wanted,
    /// Nothing more is to be had from this connection; what there was has been yielded.
    Done,
    /// What follows is another protocol, to be probed anew: behind STARTTLS, CONNECT, Upgrade. The last `rest_bytes`
    /// of the bytes at hand are the first of it. What there was has been yielded.
    HandOver {
        /// Bytes at the end of the piece at hand that were not taken.
        rest_bytes: usize,
    },
    /// As [`Wanted`](Self::Wanted); and bytes of a stream inside are known, which [`take_inner`](SessionParser::take_inner) yields: what was
    /// decrypted, unpacked, or taken out of frames.
    Inner,
    /// This datagram is not mine: several protocols share the flow (RFC 7983). It was not taken; others are asked, and
    /// the next one is mine to see again. Only of datagrams.
    NotMine,
}

/// Bytes of a stream inside the bytes that a parser takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerPiece {
    /// Who sent them.
    pub from: Direction,
    /// When they came.
    pub time: Timestamp,
    /// Bytes of this direction that are missing before them.
    pub gap_bytes: u64,
    /// The next bytes of this direction.
    pub bytes: Vec<u8>,
}

/// What a parser's bounds have cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CutOff {
    /// Parts (messages, elements of lists) that were not kept: too long, or too many.
    pub parts: u64,
    /// Sessions ended early, as too many bytes had said nothing.
    pub sessions: u64,
}

/// A field of a session that filters can name and rows can show.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The name in filters, Wireshark's where it has one: `tls.handshake.extensions_server_name`.
    pub name: &'static str,
    /// Other names for it: `tls.sni`.
    pub aliases: &'static [&'static str],
    /// Its column in the protocol's log, Zeek's name where it has one: `server_name`. Empty: it has none. The columns
    /// of a log stand in the order of the fields. Where it ends in `fuid` or `fuids`, the field numbers files of its
    /// session, and rows show the identifiers that are made of that and the connection's.
    pub column: &'static str,
    /// The type. A filter on a list (`Texts`, `Numbers`) means any of its elements.
    pub value_type: ValueType,
    /// One line of meaning.
    pub doc: &'static str,
    /// The names that it can have, where these are known: a filter that asks for another is warned of.
    pub words: Option<Words>,
}

/// The names that the text of a field can be.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// Makes the list of them.
    pub list: fn() -> Vec<&'static str>,
    /// What others begin with, which stand for numbers without a name: `unknown-`.
    pub others: &'static [&'static str],
}

impl Words {
    /// Whether the field may be this text.
    pub fn may_be(&self, text: &str) -> bool {
        self.others.iter().any(|beginning| text.starts_with(beginning)) || (self.list)().contains(&text)
    }
}

/// The names that a function has for numbers: those that it need not make up.
pub(crate) fn named<N>(
    numbers: impl IntoIterator<Item = N>,
    name: fn(N) -> Cow<'static, str>,
) -> Vec<&'static str> {
    let names = numbers.into_iter().map(name);
    names.filter_map(|name| if let Cow::Borrowed(name) = name { Some(name) } else { None }).collect()
}

/// One application exchange: a TLS handshake, an HTTP request with its response …
pub trait Session: Any + Send + Sync + std::fmt::Debug {
    /// The value of field `index` of the protocol's [`SessionProtocol::fields`]; absent beyond their end.
    fn value(&self, index: usize) -> Value<'_>;

    /// When it began: the `ts` of its row. `None`: with its connection.
    fn time(&self) -> Option<Timestamp>;

    /// For subscribers that want the type itself.
    fn as_any(&self) -> &dyn Any;
}

/// A type of sessions, known when the program is compiled. `session_fields!` implements it.
pub trait SessionType: Session {
    /// Its fields: those of its protocols.
    const FIELDS: &'static [Field];
}

/// Parses the sessions of one connection.
pub trait SessionParser: Send {
    /// Takes the next bytes of one direction, in order. Whole sessions are pushed to `sessions`.
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress;

    /// Takes note that `length_bytes` bytes of one direction are missing here and never will come.
    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress;

    /// The connection is over; yields what is worth yielding (an unanswered ClientHello, say).
    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>);

    /// Moves the bytes of the inner stream, in order, to the end of `pieces`. The engine calls this after a call that
    /// answered [`Progress::Inner`], and then after each `parse` and `gap`, but not after `finish`. The stream is probed for
    /// the protocols that the parser's own protocol [may hand over to](SessionProtocol::hands_over). A parser that shares a
    /// flow of datagrams with others ends when it answers `Inner`, and nothing is taken.
    fn take_inner(&mut self, pieces: &mut Vec<InnerPiece>) {
        let _ = pieces;
    }

    /// Bytes held in buffers, for the engine's accounting. Bounded by the parser itself.
    fn held_bytes(&self) -> usize;

    /// What its bounds have cut off so far. Asked once, when the parser is done with.
    fn cut_off(&self) -> CutOff;
}

/// Makes a parser for a new connection.
pub type OpenParser = fn(&Context<'_>) -> Box<dyn SessionParser>;

/// A session protocol: how to recognise it, how to parse it, which fields it has.
pub struct SessionProtocol {
    /// Name in filters: `tls`.
    pub name: &'static str,
    /// Name in Zeek's `service` column: `ssl`.
    pub service: &'static str,
    /// Zeek's name of its log, the `_path` of its rows: `ssl`. What Zeek has no log for goes by its own name.
    pub log: &'static str,
    /// One line of meaning, with the RFC.
    pub doc: &'static str,
    /// Layers whose payload it may be: `tcp`.
    pub transports: &'static [&'static str],
    /// Server ports that are registered for it, or usual. They never suffice to recognise the protocol: its probe may use them as a hint,
    /// and options that must classify a stream before its protocol is known (`--cutoff 'tls: 10k'`) use them instead of the protocol.
    pub ports: &'static [u16],
    /// Protocols that it may hand over to, carry in a stream inside, or share a flow with: where one of them is looked for, this one's parser runs, too.
    pub hands_over: &'static [&'static str],
    /// Looks at the first bytes of both directions (either may be empty).
    pub probe: fn(&Opening<'_>) -> Probe,
    /// The values that a byte may have at a place among the first bytes of a side: what must hold, but need not be enough,
    /// for [`probe`](Self::probe) to answer anything but [`Probe::NotForUs`]. The answer depends on the place only:
    /// [`ProbeDecision`](crate::ProbeDecision) makes a table of the answers. `|_| ByteSet::ALL` is always right.
    pub may_begin: fn(FirstPlace) -> ByteSet,
    /// Opens a parser for a new connection.
    pub open: OpenParser,
    /// Opens a parser for a connection whose own sessions nobody wants: of what it hands over to, and done soon where it hands
    /// over to nothing. `None`: [`open`](Self::open) does it.
    pub carrier: Option<OpenParser>,
    /// What can be set for its parsers, which read it from their [`Context`].
    pub settings: &'static [Setting],
    /// The fields of its sessions.
    pub fields: &'static [Field],
}

/// Sessions of one protocol that stand whole in those of another: QUIC's handshake is TLS's. They have a row in their own
/// log, and the connection their service, beside those of what they stand in.
pub struct Within {
    /// The protocol in whose sessions they stand.
    pub carrier: &'static str,
    /// The protocol that they are of.
    pub protocol: &'static str,
    /// How they are found; none in a session that has none.
    pub sessions: PartsOf,
}

impl std::fmt::Debug for Within {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} within {}", self.protocol, self.carrier)
    }
}

/// A log whose rows are parts of sessions, whatever their protocol: files, certificates. Filters ask for the sessions.
pub struct PartLog {
    /// Name of its command and of its log, the `_path` of its rows, Zeek's: `files`.
    pub name: &'static str,
    /// One line of meaning.
    pub doc: &'static str,
    /// What a row begins with, before the parts' own columns: columns of the connection, and `fuid`.
    pub head: &'static [&'static str],
    /// The column by which parts are the same wherever they are seen; logs show such a part once. Empty: none is.
    pub known_by: &'static str,
    /// Protocols whose sessions have such parts, and how these are found; none in a session that has none.
    pub of: &'static [(&'static str, PartsOf)],
    /// The fields of its parts.
    pub fields: &'static [Field],
}

/// The parts of a session. They have fields as sessions have, and a time where it is another.
pub type PartsOf = fn(&dyn Session) -> Vec<Box<dyn Session>>;

impl std::fmt::Debug for PartLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartLog").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SessionProtocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionProtocol").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Declares the fields of a session type: how each is called, and how it is read. Defines `FIELDS`, for the
/// protocol's registry entry, and `value`, for its `Session::value`.
///
/// ```text
/// session_fields! { HttpTransaction;
///     "http.request.method" ["http.method"] method: Text, "Method of the request" => |h| text(&h.method);
///     "http.request.length" [] _: Unsigned, "not in the log" => |h| Value::Unsigned(h.length);
///     "http.host" [] "host.name": Text, "a column whose name is no word" => |h| text(&h.host);
///     "http.scheme" [] scheme: Text in SCHEMES, "of few words, which are known" => |h| text(&h.scheme);
/// }
/// ```
macro_rules! session_fields {
    (@words) => { None };
    (@words $words:expr) => { Some($words) };
    (@column _) => { "" };
    (@column $column:literal) => { $column };
    (@column $column:ident) => { stringify!($column) };
    ($session:ty; $($name:literal [$($alias:literal),*] $column:tt: $kind:ident $(in $words:expr)?, $doc:literal => $read:expr;)*) => {
        /// The fields, in the order of [`value`].
        pub(super) const FIELDS: &[$crate::Field] = &[$($crate::Field {
            name: $name,
            aliases: &[$($alias),*],
            column: $crate::session::session_fields!(@column $column),
            value_type: ::weir_packet::ValueType::$kind,
            doc: $doc,
            words: $crate::session::session_fields!(@words $($words)?),
        }),*];

        impl $crate::SessionType for $session {
            const FIELDS: &'static [$crate::Field] = FIELDS;
        }

        /// How each is read.
        const READ: &[fn(&$session) -> ::weir_packet::Value<'_>] = &[$($read),*];

        /// The value of field `index` of [`FIELDS`]; absent beyond their end.
        pub(super) fn value(session: &$session, index: usize) -> ::weir_packet::Value<'_> {
            READ.get(index).map_or(::weir_packet::Value::Absent, |read| read(session))
        }
    };
}
pub(crate) use session_fields;
