//! What a rule says.

use crate::buffers::BufferId;
use crate::content::{Amount, Content};
use crate::header::{Action, Direction, Ends};
use crate::number::NumberTest;

/// A rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// What happens to traffic that matches.
    pub action: Action,
    /// What the rule looks at.
    pub protocol: RuleProtocol,
    /// The ends before and behind the arrow.
    pub source: Ends,
    #[allow(missing_docs)]
    pub destination: Ends,
    /// The arrow.
    pub direction: Direction,
    /// `msg`.
    pub message: String,
    /// Signature ID, group and revision.
    pub sid: u32,
    #[allow(missing_docs)]
    pub gid: u32,
    #[allow(missing_docs)]
    pub rev: u32,
    /// `classtype`.
    pub class: Option<String>,
    /// `priority`; else that of the class.
    pub priority: Option<u8>,
    /// `reference`: kind and place.
    pub references: Vec<(String, String)>,
    /// `metadata`: key and value.
    pub metadata: Vec<(String, String)>,
    /// `target`: the victim is the source.
    pub target_is_source: Option<bool>,
    /// `flow`.
    pub flow: FlowTest,
    /// Tests on headers of packets.
    pub packet: Vec<PacketTest>,
    /// Tests on bytes, in the order of the text: those of a buffer together.
    pub inspections: Vec<Inspection>,
    /// Tests on numbers and words of sessions.
    pub session: Vec<SessionTest>,
    /// Tests on, and changes of, state.
    pub state: Vec<StateOption>,
    /// `threshold`, `detection_filter`.
    pub thresholds: Vec<Threshold>,
    /// `app-layer-protocol`.
    pub app_protocols: Vec<AppProtocolTest>,
    /// Events: `app-layer-event`, `decode-event`, `stream-event`.
    pub events: Vec<(EventKind, String)>,
    /// `tag`.
    pub tag: Option<Tag>,
    /// The rule changes state, and makes no alert.
    pub noalert: bool,
    /// `filestore`, `bypass` and others without an effect here.
    pub without_effect: Vec<&'static str>,
    /// Names of variables that `byte_extract` and `byte_math` set.
    pub variables: Vec<String>,
    /// `weir.filter`: a filter of Weir, which the connection must match.
    pub filter: Option<String>,
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum RuleProtocol {
    Ip,
    Ipv4,
    Ipv6,
    Tcp,
    /// Payloads of single packets.
    TcpPacket,
    /// Reassembled bytes.
    TcpStream,
    Udp,
    Sctp,
    /// Of both versions.
    Icmp,
    Icmpv4,
    Icmpv6,
    Igmp,
    /// Packets that cannot be decoded, too.
    PacketHeader,
    /// A session protocol: its name in rules.
    Session(&'static str),
}

/// Tests on one buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// The buffer.
    pub buffer: BufferId,
    /// What becomes of its bytes before.
    pub transforms: Vec<Transform>,
    /// The tests, in order.
    pub tests: Vec<Test>,
}

/// What becomes of bytes before they are inspected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Transform {
    Lowercase,
    Uppercase,
    StripWhitespace,
    CompressWhitespace,
    DotPrefix,
    UrlDecode,
    Md5,
    Sha1,
    Sha256,
    StripPseudoHeaders,
    HeaderLowercase,
    Xor(Vec<u8>),
    FromBase64 {
        bytes: Option<u32>,
        offset: u32,
        is_strict: bool,
    },
    /// The first group of an expression.
    PcreCapture(Pcre),
    Domain,
    TopDomain,
    Gunzip,
    ZlibDeflate,
}

/// A test on bytes of a buffer.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Test {
    Content(Content),
    Pcre(Pcre),
    ByteTest(ByteTest),
    ByteJump(ByteJump),
    ByteExtract(ByteExtract),
    ByteMath(ByteMath),
    IsDataAt(IsDataAt),
    /// `bsize`
    Size(NumberTest),
    /// `base64_decode`
    Base64Decode {
        bytes: Option<u32>,
        offset: u32,
        relative: bool,
    },
    /// `absent`: there is no such buffer; with `or_else`, or what follows holds.
    Absent {
        or_else: bool,
    },
}

/// A regular expression.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Pcre {
    pub pattern: String,
    pub negated: bool,
    pub nocase: bool,
    pub multi_line: bool,
    pub dot_all: bool,
    pub extended: bool,
    pub anchored: bool,
    pub dollar_end_only: bool,
    pub ungreedy: bool,
    /// From the end of the last match.
    pub relative: bool,
    /// The expression has look-around or back-references, which no linear engine has.
    pub needs_backtracking: bool,
    /// The number that an engine gives it, for a table of compiled expressions.
    pub number: u32,
    /// Names of variables for its groups (`flow:name`, `pkt:name`).
    pub captures: Vec<String>,
}

/// How a number is read from bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NumberIn {
    pub bytes: Amount,
    pub offset: Amount,
    pub relative: bool,
    pub little: bool,
    /// The digits of a text, with this base.
    pub text_base: Option<u32>,
    /// The byte order is that of the DCE/RPC message.
    pub dce: bool,
}

/// `byte_test`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ByteTest {
    pub number: NumberIn,
    pub negated: bool,
    pub comparison: Comparison,
    pub value: Amount,
    pub mask: u64,
}

/// A comparison of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    Greater,
    GreaterOrEqual,
    /// Some bits are set.
    And,
    /// Some bits differ.
    Or,
}

/// `byte_jump`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ByteJump {
    pub number: NumberIn,
    pub multiplier: u32,
    /// Up to a multiple of 4.
    pub align: bool,
    pub from_beginning: bool,
    pub from_end: bool,
    pub post_offset: Amount,
    pub mask: u64,
}

/// `byte_extract`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ByteExtract {
    pub number: NumberIn,
    pub variable: u16,
    pub multiplier: u32,
    pub align: u32,
    pub mask: u64,
}

/// `byte_math`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ByteMath {
    pub number: NumberIn,
    pub operator: char,
    pub value: Amount,
    pub variable: u16,
    pub mask: u64,
}

/// `isdataat`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct IsDataAt {
    pub at: Amount,
    pub negated: bool,
    pub relative: bool,
}

/// `flow`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct FlowTest {
    pub established: Option<bool>,
    /// Of the client's, or of the server's side.
    pub to_server: Option<bool>,
    pub only_stream: bool,
    pub no_stream: bool,
    pub only_fragments: bool,
    pub no_fragments: bool,
}

/// A field of packets that rules compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum PacketField {
    PayloadSize,
    Ttl,
    Tos,
    IpId,
    IpProtocol,
    FragmentOffset,
    TcpSeq,
    TcpAck,
    TcpWindow,
    TcpMss,
    TcpWindowScale,
    IcmpType,
    IcmpCode,
    IcmpId,
    IcmpSeq,
    IcmpMtu,
    StreamSizeClient,
    StreamSizeServer,
    StreamSizeBoth,
    StreamSizeEither,
    VlanId,
    VlanLayers,
    VxlanVni,
    FlowAge,
    FlowPacketsToClient,
    FlowPacketsToServer,
    FlowBytesToClient,
    FlowBytesToServer,
}

/// A test on the headers of a packet.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum PacketTest {
    Number(PacketField, NumberTest),
    /// `tcp.flags`: the flags that are compared, and other ones that are ignored.
    TcpFlags {
        kind: FlagsKind,
        flags: u8,
        ignored: u8,
    },
    /// `fragbits`: of reserved, don't fragment, more fragments (4, 2, 1).
    FragmentBits {
        kind: FlagsKind,
        bits: u8,
    },
    /// `ipopts`
    IpOption(&'static str),
    SameIp,
}

/// How flags are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FlagsKind {
    Exactly,
    /// These, and maybe others.
    AtLeast,
    Any,
    /// None of these.
    Not,
}

/// A test on a session: its field in rules, and the value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct SessionTest {
    pub field: &'static str,
    pub test: SessionValue,
    /// What stands behind the value, between commas: `raw` of `urilen`, an index, `any_frag`.
    pub qualifiers: Vec<String>,
}

/// What is asked of a session.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum SessionValue {
    /// One of these.
    Numbers(Vec<NumberTest>),
    /// One of these words, each with whether it is negated.
    Words(Vec<(bool, String)>),
    /// One text.
    Text { text: String, negated: bool },
}

/// A test on state, or a change of it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum StateOption {
    /// Bits of the connection.
    Flowbits {
        op: BitsOp,
        names: Vec<String>,
    },
    /// Bits of hosts or pairs of hosts, with the time until they are forgotten.
    Xbits {
        op: BitsOp,
        name: String,
        track: Track,
        seconds: Option<u32>,
    },
    Flowint {
        name: String,
        op: IntOp,
    },
}

/// What is done to bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BitsOp {
    Set,
    Unset,
    Toggle,
    IsSet,
    IsNotSet,
}

/// What is done to an integer of the connection.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum IntOp {
    Set(IntValue),
    Add(IntValue),
    Subtract(IntValue),
    Compare(&'static str, IntValue),
    IsSet,
    IsNotSet,
}

/// A number, or the integer of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IntValue {
    Number(u32),
    Name(String),
}

/// Whose events are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Track {
    Source,
    Destination,
    Both,
    Rule,
    Flow,
}

/// `threshold`, `detection_filter`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Threshold {
    pub kind: ThresholdKind,
    pub track: Track,
    pub count: u32,
    pub seconds: u32,
    /// Backoff: alerts at the powers of this number.
    pub multiplier: u32,
}

/// Which events of an interval alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ThresholdKind {
    /// The first ones.
    Limit,
    /// Each that completes the count.
    Threshold,
    /// The one that completes the count first.
    Both,
    /// Those after the count.
    Detection,
    Backoff,
}

/// `app-layer-protocol`
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct AppProtocolTest {
    pub protocol: String,
    pub negated: bool,
    /// `final`, `either`, `to_server`, `to_client`, `original`.
    pub mode: Option<String>,
}

/// Where an event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum EventKind {
    App,
    Decode,
    Stream,
}

/// `tag`: what follows an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Tag {
    pub host: Option<Track>,
    pub count: u32,
    pub unit: TagUnit,
}

/// The unit of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TagUnit {
    Packets,
    Seconds,
    Bytes,
}
