//! The trait of session parsers, and the sessions that they yield.

use crate::{ByteSet, Context, Setting};
use std::any::Any;
use std::borrow::Cow;
use weir_packet::{Direction, Timestamp, Value, ValueType};

/// Bytes of one direction, as passed to a parser.
#[derive(Debug, Clone, Copy)]
pub struct Data<'a> {
    /// The sender.
    pub from: Direction,
    /// Capture time of the bytes; if they had waited to be in order, of the packet that put them in order.
    pub time: Timestamp,
    /// Over TCP the next bytes of the stream, in a piece of any size; over UDP the payload of one datagram.
    pub bytes: &'a [u8],
    /// Whether the bytes are one datagram: complete unless the capture cut it off, and possibly not in the
    /// order of sending.
    pub is_datagram: bool,
}

/// The first bytes of a connection, as passed to a probe.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening<'a> {
    /// The originator's first bytes; over UDP, its last datagram. May be empty.
    pub originator: &'a [u8],
    /// The same for the responder.
    pub responder: &'a [u8],
    /// Over UDP: the two datagrams before the last one, of the originator and of the responder, the later one
    /// first. Missing ones are empty. Protocols without a signature are recognised by several datagrams
    /// together.
    pub earlier: [[&'a [u8]; 2]; 2],
    /// Ports of the originator and the responder: a hint for protocols whose first bytes are not distinctive.
    pub ports: [u16; 2],
    /// Whether the bytes are datagrams.
    pub is_datagram: bool,
}

impl Opening<'_> {
    /// Whether the originator or the responder has one of these ports.
    pub(crate) fn is_on(&self, ports: &[u16]) -> bool {
        self.ports.iter().any(|port| ports.contains(port))
    }
}

/// The position of one of the first bytes of a direction: over TCP in the stream, over UDP in the last
/// datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstPlace {
    /// From 0 to [`DECIDED_BYTES`](crate::DECIDED_BYTES) - 1.
    pub at: usize,
    /// Whether the bytes are datagrams.
    pub is_datagram: bool,
    /// The originator or the responder has one of the protocol's [ports](SessionProtocol::ports).
    pub is_on_port: bool,
}

/// The verdict of a probe on the first bytes of a connection. It must not depend on how a stream is cut into
/// segments: [`Certain`](Self::Certain) and [`NotForUs`](Self::NotForUs) are final, whatever the same
/// direction sends next. A probe is therefore [`Unsure`](Self::Unsure) if further bytes may change its
/// verdict, or if the probe of another protocol could be certain of the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// The bytes are of this protocol.
    Certain,
    /// The bytes may be of this protocol; more bytes are needed.
    Unsure,
    /// The bytes are not of this protocol.
    NotForUs,
}

impl Probe {
    /// Certain if `bytes` begin with `word`, unsure if they are shorter and `word` begins with them.
    pub fn of_word(bytes: &[u8], word: &[u8]) -> Probe {
        // Compares byte by byte: `memcmp` with AVX-512 uses masked loads, which cost hundreds of cycles if
        // they touch an unmapped page, and every probe inspects every new flow.
        Self::of_word_by(bytes, word, u8::eq)
    }

    /// As [`of_word`](Self::of_word), but ignores case.
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

/// Whether a parser needs more bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The parser needs the next bytes.
    Wanted,
    /// The parser has finished with this connection and has yielded all its sessions.
    Done,
    /// Another protocol follows, after STARTTLS, CONNECT or Upgrade; the stream is probed again. The last
    /// `rest_bytes` of the current bytes are the first bytes of that protocol. The parser has yielded all its
    /// sessions.
    HandOver {
        /// The number of bytes at the end of the current piece that the parser did not consume.
        rest_bytes: usize,
    },
    /// As [`Wanted`](Self::Wanted); in addition, [`take_inner`](SessionParser::take_inner) returns bytes of
    /// an inner stream: they were decrypted, decompressed, or extracted from frames.
    Inner,
    /// This datagram is of another protocol, because several protocols share the flow (RFC 7983). The parser
    /// ignored the datagram; it is offered to others. The parser receives the next datagram again. For
    /// datagrams only.
    NotMine,
}

/// Bytes of an inner stream, which is contained in the bytes that a parser receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerPiece {
    /// The sender.
    pub from: Direction,
    /// Capture time.
    pub time: Timestamp,
    /// The number of bytes of this direction that are missing before `bytes`.
    pub gap_bytes: u64,
    /// The next bytes of this direction.
    pub bytes: Vec<u8>,
}

/// Counts of what the bounds of a parser discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CutOff {
    /// Parts (messages, elements of lists) that were discarded because they were too long or too many.
    pub parts: u64,
    /// Sessions that ended early, because too many bytes arrived without completing anything.
    pub sessions: u64,
}

/// A field of a session, for filters and rows.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// The name in filters; Wireshark's name if it exists: `tls.handshake.extensions_server_name`.
    pub name: &'static str,
    /// Other names of the field: `tls.sni`.
    pub aliases: &'static [&'static str],
    /// The column in the protocol's log; Zeek's name if it exists: `server_name`. Empty if the log does not
    /// contain the field. Columns are in the order of the fields. If this name or the field's ends in `fuid`
    /// or `fuids`, the values are numbers of the session's files, and rows show file identifiers, which are
    /// made of this number and the connection's `uid`.
    pub column: &'static str,
    /// The type. A filter on a list (`Texts`, `Numbers`) holds if it holds for any element.
    pub value_type: ValueType,
    /// A description of one line.
    pub doc: &'static str,
    /// The possible values, if they are known. A filter that compares with another value causes a warning.
    pub words: Option<Words>,
}

/// The possible values of a text field.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// Returns all names.
    pub list: fn() -> Vec<&'static str>,
    /// Prefixes of further values, which represent numbers without a name: `unknown-`.
    pub others: &'static [&'static str],
}

impl Words {
    /// Whether the field may have this value.
    pub fn may_be(&self, text: &str) -> bool {
        self.others.iter().any(|beginning| text.starts_with(beginning)) || (self.list)().contains(&text)
    }
}

/// The fixed names that `name` returns for `numbers`, without names that contain the number.
pub(crate) fn named<N>(
    numbers: impl IntoIterator<Item = N>,
    name: fn(N) -> Cow<'static, str>,
) -> Vec<&'static str> {
    let names = numbers.into_iter().map(name);
    names.filter_map(|name| if let Cow::Borrowed(name) = name { Some(name) } else { None }).collect()
}

/// One application exchange: a TLS handshake, an HTTP request with its response …
pub trait Session: Any + Send + Sync + std::fmt::Debug {
    /// The value of the field `index` of [`SessionProtocol::fields`]; absent if there is no such field.
    fn value(&self, index: usize) -> Value<'_>;

    /// The time of the session's begin: `ts` in its row. `None` means the connection's begin.
    fn time(&self) -> Option<Timestamp>;

    /// Whether the session has a row in the log of its protocol. Without one, it only has rows in
    /// [logs of parts](PartLog): a published message is none of the connections in its protocol's log.
    fn has_row(&self) -> bool {
        true
    }

    /// The session goes on: a later one has all of it. Parsers yield such sessions only if their
    /// [context](crate::Context::early) asks for them.
    fn is_early(&self) -> bool {
        false
    }

    /// For subscribers that downcast the session to its type.
    fn as_any(&self) -> &dyn Any;
}

/// A type of sessions whose fields are constants. `session_fields!` implements this trait.
pub trait SessionType: Session {
    /// The fields of the type's protocols.
    const FIELDS: &'static [Field];
}

/// Parses the sessions of one connection.
pub trait SessionParser: Send {
    /// Parses the next bytes of one direction, in order. Appends complete sessions to `sessions`.
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Vec<Box<dyn Session>>) -> Progress;

    /// Reports that the next `length_bytes` bytes of one direction are missing and will not arrive.
    fn gap(&mut self, from: Direction, length_bytes: u64, sessions: &mut Vec<Box<dyn Session>>) -> Progress;

    /// Reports the end of the connection. Yields useful incomplete sessions, such as an unanswered
    /// ClientHello.
    fn finish(&mut self, sessions: &mut Vec<Box<dyn Session>>);

    /// Appends the available bytes of the inner stream to `pieces`, in order. The engine calls this method
    /// after a call that returned [`Progress::Inner`], and from then on after each `parse` and `gap`, but not
    /// after `finish`. The inner stream is probed for the protocols in [`SessionProtocol::hands_over`]. If a
    /// parser shares a flow of datagrams with other parsers, `Inner` ends the parser, and this method is not
    /// called.
    fn take_inner(&mut self, pieces: &mut Vec<InnerPiece>) {
        let _ = pieces;
    }

    /// Counts of what the parser's bounds have discarded so far. Called once, at the end of the parser.
    fn cut_off(&self) -> CutOff;
}

/// Opens a parser for a new connection.
pub type OpenParser = fn(&Context<'_>) -> Box<dyn SessionParser>;

/// A session protocol: its probe, its parser and its fields.
pub struct SessionProtocol {
    /// Name in filters: `tls`.
    pub name: &'static str,
    /// Name in Zeek's `service` column: `ssl`.
    pub service: &'static str,
    /// The name of its log, the `_path` of its rows: Zeek's name (`ssl`), or the protocol's own if Zeek has
    /// no such log.
    pub log: &'static str,
    /// A description of one line, with the RFC.
    pub doc: &'static str,
    /// The layers that may carry it: `tcp`.
    pub transports: &'static [&'static str],
    /// Server ports that are registered for it, or usual. A port never suffices to recognise the protocol:
    /// the probe may use the ports as a hint, and options that must classify a stream before its protocol is
    /// known (`--cutoff 'tls: 10k'`) use them in place of the protocol.
    pub ports: &'static [u16],
    /// The protocols that it may hand over to, carry in an inner stream, or share a flow with. If a question
    /// wants one of them, the parser of this protocol runs, too, over the layers that may carry that one.
    pub hands_over: &'static [&'static str],
    /// Inspects the first bytes of both directions, either of which may be empty.
    pub probe: fn(&Opening<'_>) -> Probe,
    /// The possible values of the byte at a position among the first bytes of a direction. With any other
    /// value, [`probe`](Self::probe) must return [`Probe::NotForUs`]; with these values it may do so as well.
    /// The result must depend on the position only, because [`ProbeDecision`](crate::ProbeDecision) compiles
    /// the results into a table. `|_| ByteSet::ALL` is always correct.
    pub may_begin: fn(FirstPlace) -> ByteSet,
    /// Opens a parser for a new connection.
    pub open: OpenParser,
    /// Opens a parser for a connection whose own sessions no question wants, but only those of a protocol
    /// that it hands over to. Such a parser ends early if the connection does not hand over. `None` means
    /// [`open`](Self::open).
    pub carrier: Option<OpenParser>,
    /// The settings of its parsers, which read them from their [`Context`].
    pub settings: &'static [Setting],
    /// The columns that a table shows unless all are requested, the most useful first; `orig` and `resp` are
    /// the ends of the connection, address and port in one column. Empty: all columns.
    pub brief: &'static [&'static str],
    /// The fields of its sessions.
    pub fields: &'static [Field],
}

/// Sessions of one protocol within sessions of another: a QUIC handshake contains a TLS handshake. The inner
/// session has a row in the log of its own protocol, and the connection has the services of both protocols.
pub struct Within {
    /// The protocol of the outer sessions.
    pub carrier: &'static str,
    /// The protocol of the inner sessions.
    pub protocol: &'static str,
    /// Returns the inner sessions of an outer session; empty if there are none.
    pub sessions: PartsOf,
}

impl std::fmt::Debug for Within {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} within {}", self.protocol, self.carrier)
    }
}

/// A log whose rows are parts of sessions of any protocol: files, certificates. Filters select the sessions.
pub struct PartLog {
    /// The name of its command and of its log, the `_path` of its rows; Zeek's name: `files`.
    pub name: &'static str,
    /// A description of one line.
    pub doc: &'static str,
    /// The first columns of a row, before the parts' own columns: columns of the connection, and `fuid`.
    pub head: &'static [&'static str],
    /// The column that identifies a part. Parts with the same value are the same part, and the log shows it
    /// once. Empty if every part is distinct.
    pub known_by: &'static str,
    /// The protocols whose sessions have such parts, and a function that returns the parts of a session.
    pub of: &'static [(&'static str, PartsOf)],
    /// The columns that a table shows unless all are requested, the most useful first; `orig` and `resp` are
    /// the ends of the connection, address and port in one column. Empty: all columns.
    pub brief: &'static [&'static str],
    /// The fields of its parts.
    pub fields: &'static [Field],
}

/// Returns the parts of a session. A part has fields like a session, and a time if it differs from the
/// session's.
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

/// Declares the fields of a session type: the names of each field, and the function that reads its value.
/// Defines `FIELDS`, for the protocol's registry entry, and `value`, for its `Session::value`.
///
/// ```text
/// session_fields! { HttpTransaction;
///     "http.request.method" ["http.method"] method: Text, "Method of the request" => |h| text(&h.method);
///     "http.request.length" [] _: Unsigned, "a field without a column" => |h| Value::Unsigned(h.length);
///     "http.host" [] "host.name": Text, "a column name that is not an identifier" => |h| text(&h.host);
///     "http.scheme" [] scheme: Text in SCHEMES, "a field with a known set of values" => |h| text(&h.scheme);
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

        /// The functions that read the fields.
        const READ: &[fn(&$session) -> ::weir_packet::Value<'_>] = &[$($read),*];

        /// The value of the field `index` of [`FIELDS`]; absent if there is no such field.
        pub(super) fn value(session: &$session, index: usize) -> ::weir_packet::Value<'_> {
            READ.get(index).map_or(::weir_packet::Value::Absent, |read| read(session))
        }
    };
}
pub(crate) use session_fields;
