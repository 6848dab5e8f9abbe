//! Weir's output for a capture. All questions are one program, so that they also share a trie.

use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;
use weir::io::CaptureReader;
use weir::packet::{Row, Value};
use weir::sessions::SessionRegistry;
use weir::stream::{Chunk, EndReason, Stream, StreamHandler, StreamParams};
use weir::{
    Ask, Compiled, Compiler, Connection, Engine, Item, Limits, Log, Need, Options, Shape, Stats,
    Subscription, Want, path_need,
};

/// Keeps the digest of every stream with bytes.
#[derive(Default)]
struct Digests(Vec<(String, u64, String)>);

impl StreamHandler for Digests {
    type State = Sha256;

    fn data(&mut self, digest: &mut Sha256, _: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        digest.update(chunk.bytes);
    }

    fn terminated(&mut self, digest: Sha256, stream: &mut Stream<'_, '_>, _: EndReason) {
        let bytes = stream.counts().delivered_bytes;
        if bytes > 0 {
            let [(address, port), _] = stream.endpoints();
            let digest = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            self.0.push((format!("{address}:{port}"), bytes, digest));
        }
    }
}

/// Output for one capture.
#[derive(Debug, Default)]
pub struct Seen {
    pub stats: Stats,
    pub connections: Vec<Connection>,
    /// The same as rows.
    pub records: Vec<Vec<Value<'static>>>,
    /// Rows of handshakes, with the columns of [`Log::columns`].
    pub tls: Vec<Vec<Value<'static>>>,
    /// Rows of all sessions: log and values.
    pub sessions: Vec<(&'static str, Vec<Value<'static>>)>,
    /// Numbers of the packets that completed a fragmented datagram, for IPv4 and IPv6.
    pub whole: [Vec<u64>; 2],
    /// Sender, length and digest of each TCP stream.
    pub streams: Vec<(String, u64, String)>,
    /// Errors of the source.
    pub errors: Vec<String>,
}

/// The values of a row.
fn owned(row: Row<'_>) -> Vec<Value<'static>> {
    row.iter().map(|cell| cell.value().into_owned()).collect()
}

/// The questions, compiled once for all captures.
pub struct Questions {
    compiler: Compiler,
    compiled: Compiled,
    /// A program of its own for streams, as these need a handler.
    streams: Compiled,
    digests: Subscription,
}

const PACKETS: usize = 0;
const CONNECTIONS: usize = 1;
const SESSIONS: usize = 2;
const FRAGMENTS: usize = 3;
/// First question about parts of sessions, one per log. It follows FRAGMENTS, which has a question for each
/// IP version.
const PARTS: usize = 6;
/// Connections as rows.
const RECORDS: usize = 5;

impl Questions {
    /// Compiles the questions over a stack. Connections end with the capture, as tshark has no time-outs.
    pub fn compile(stack: &str) -> Self {
        let mut compiler = Compiler::default();
        compiler.use_stack(stack).expect("it is shipped");
        let ask = |filter: &str, need, want| Ask { filter: filter.to_string(), need, want };
        let registry = Arc::clone(compiler.sessions());
        let mut asks = vec![
            ask("", path_need(), Want::Packets),
            ask("", Need::default(), Want::Connections),
            ask("", Need { service: true, ..Need::default() }, Want::Sessions(registry.all())),
            ask("ip.flags.mf == 1 or ip.frag_offset > 0", path_need(), Want::Packets),
            ask("ipv6.fraghdr.more == 1 or ipv6.fraghdr.offset > 0", path_need(), Want::Packets),
            ask("", Need::default(), Want::Connections),
        ];
        let parts =
            Log::of_parts(&registry).map(|log| ask("", Need::default(), Want::Sessions(log.protocols)));
        asks.extend(parts);
        let limits = Limits { idle_timeout_ms: Some(0), ..Limits::default() };
        let options = Options { limits, ..Options::default() };
        let compiled = compiler.compile(&asks, &options).expect("they are right");
        let mut streams = Engine::with(compiler.clone(), options);
        let digests = streams.subscribe_streams("tcp", StreamParams::default(), Digests::default);
        let digests = digests.expect("the filter is right");
        let streams = streams.compile().expect("it is right");
        Self { compiler, compiled, streams, digests }
    }

    /// The streams of one capture.
    fn streams(&self, path: &Path) -> Vec<(String, u64, String)> {
        let mut reader = CaptureReader::open(&[path]);
        let mut each = |_: usize, _: Item<'_>| Ok::<(), std::convert::Infallible>(());
        let run = weir::run(&self.compiler, &self.streams, &mut reader, &[], 1, &mut each, &mut |_| {});
        let Ok(outcome) = run;
        outcome.handlers.of::<Digests>(self.digests)[0].0.clone()
    }

    /// Runs the questions on one capture.
    pub fn ask(&self, path: &Path) -> Seen {
        let mut seen = Seen::default();
        let mut reader = CaptureReader::open(&[path]);
        let mut each = |question: usize, item: Item<'_>| {
            self.take(&mut seen, question, item);
            Ok::<(), std::convert::Infallible>(())
        };
        let mut shapes = vec![Shape::default(); PARTS];
        shapes[RECORDS].as_rows = true;
        shapes.extend(Log::of_parts(self.compiler.sessions()).map(|log| log.shape()));
        let run = weir::run(&self.compiler, &self.compiled, &mut reader, &shapes, 1, &mut each, &mut |_| {});
        let outcome = match run {
            Ok(outcome) => outcome,
            Err(never) => match never {},
        };
        let count = outcome.counters.packet;
        assert_eq!(count.packets, seen.stats.all.packets, "every packet fulfils the empty filter");
        seen.streams = self.streams(path);
        seen.errors = outcome.errors.iter().map(ToString::to_string).collect();
        seen
    }

    fn take(&self, seen: &mut Seen, question: usize, item: Item<'_>) {
        match (question, item) {
            (PACKETS, Item::Packet { meta, path, .. }) => seen.stats.packet(&meta, path),
            (CONNECTIONS, Item::Connection(connection)) => seen.connections.push(*connection),
            (RECORDS, Item::Rows(made)) => seen.records.extend(made.iter().map(owned)),
            (SESSIONS, Item::Rows(made)) => {
                let protocol = self.compiler.sessions().protocol(made.protocol);
                if protocol.name == "tls" {
                    seen.tls.extend(made.iter().map(owned));
                }
                seen.sessions.extend(made.iter().map(|row| (protocol.log, owned(row))));
            }
            (part, Item::Rows(made)) => {
                let log =
                    Log::of_parts(self.compiler.sessions()).nth(part - PARTS).expect("a question for each");
                seen.sessions.extend(made.iter().map(|row| (log.path, owned(row))));
            }
            (version, Item::Packet { meta, path, .. }) if version >= FRAGMENTS => {
                let name = Stats::path_name(self.compiled.stack(), path);
                let carrier = if version == FRAGMENTS { "ip" } else { "ipv6.fraghdr" };
                let quoted = name.contains("icmp:ip") || name.contains("icmpv6:ipv6");
                if name.rsplit(':').next() != Some(carrier) && !quoted {
                    seen.whole[version - FRAGMENTS].push(meta.number);
                }
            }
            (_, other) => panic!("question {question} is not about {other:?}"),
        }
    }

    /// Number of packets with a layer. `None` if the stack has no such layer.
    pub fn layer(&self, seen: &Seen, name: &str) -> Option<u64> {
        let stack = self.compiled.stack();
        stack.layers.iter().find(|l| l.protocol.filter_name == name)?;
        let layers = seen.stats.by_layer(stack);
        Some(layers.iter().find(|l| l.0 == name).map_or(0, |l| l.1.packets))
    }
}

/// A column of a handshake's row as text; empty if absent.
pub fn column(row: &[Value<'static>], name: &str) -> String {
    let columns = Log::of(SessionRegistry::builtin(), "tls").expect("it is in the registry").columns();
    plain(&row[columns.iter().position(|c| c.name == name).expect("a column of the row")])
}

/// A value in Zeek's format; empty if absent.
pub fn plain(value: &Value<'_>) -> String {
    match value {
        Value::Absent => String::new(),
        Value::Text(text) => text.to_string(),
        Value::Address(address) => address.to_string(),
        Value::Unsigned(number) => number.to_string(),
        Value::Bool(truth) => if *truth { "T" } else { "F" }.to_string(),
        Value::Texts(texts) => texts.join(","),
        Value::Numbers(numbers) => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
        Value::Interval(ns) => format!("{:.4}", *ns as f64 / 1e9),
        Value::Fraction(number) => format!("{number:.6}"),
        other => weir::io::json_text(other).trim_matches('"').to_string(),
    }
}
