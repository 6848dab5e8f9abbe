//! `weir streams`: each direction's bytes in order, a row each; digests and files of them.

use super::ask;
use crate::args::{Ask, Output, Streams as Args};
use crate::failure::Failure;
use crate::stream_files::{Files, StreamFile};
use crate::{input, stream_questions};
use sha2::{Digest, Sha256};
use std::process::ExitCode;
use std::sync::Arc;
use weir::packet::{Column, Value, ValueType};
use weir::stream::{Chunk, EndReason, Stream, StreamHandler, StreamQuestion};

/// The columns of its rows.
pub const COLUMNS: &[Column] = &[
    Column::new("ts", ValueType::Time, "time of the connection's first packet"),
    Column::new("uid", ValueType::Text, "identifier of the connection"),
    Column::new("is_orig", ValueType::Bool, "it is the originator's"),
    Column::new("src_h", ValueType::Address, "address of the sender"),
    Column::new("src_p", ValueType::Unsigned, "port of the sender"),
    Column::new("dst_h", ValueType::Address, "address of the receiver"),
    Column::new("dst_p", ValueType::Unsigned, "port of the receiver"),
    Column::new("proto", ValueType::Text, "transport protocol"),
    Column::new("packets", ValueType::Unsigned, "packets"),
    Column::new(
        "payload_bytes",
        ValueType::Unsigned,
        "bytes of the stream up to the last one seen: the sum of the next five columns",
    ),
    Column::new("delivered_bytes", ValueType::Unsigned, "bytes delivered in order"),
    Column::new("gap_bytes", ValueType::Unsigned, "missing bytes, in gaps that reassembly skipped"),
    Column::new(
        "cut_bytes",
        ValueType::Unsigned,
        "bytes beyond the cutoff, or before the connection matched the filter",
    ),
    Column::new("stuck_bytes", ValueType::Unsigned, "bytes after a gap that strict reassembly does not skip"),
    Column::new("dropped_bytes", ValueType::Unsigned, "bytes dropped for lack of memory"),
    Column::new(
        "refused_bytes",
        ValueType::Unsigned,
        "additional bytes that strict reassembly rejected, as the receiver does",
    ),
    Column::new(
        "retransmitted_bytes",
        ValueType::Unsigned,
        "bytes that were sent again after their delivery",
    ),
    Column::new(
        "overlap_bytes",
        ValueType::Unsigned,
        "bytes that were sent again while the first copy waited",
    ),
    Column::new("inconsistent_bytes", ValueType::Unsigned, "overlapping bytes that differed"),
    Column::new("out_of_order", ValueType::Unsigned, "out-of-order segments"),
    Column::new("state", ValueType::Text, "state of the connection, as in Zeek's conn.log"),
];

const SHA256: Column = Column::new("sha256", ValueType::Text, "digest of the delivered bytes");

/// Makes rows, and what else is wanted of each stream.
#[derive(Default)]
pub struct Rows {
    /// They are only counted.
    count: bool,
    digest: bool,
    files: Option<Arc<Files>>,
}

/// What is kept of a stream.
#[derive(Default)]
pub struct State {
    digest: Option<Box<Sha256>>,
    file: Option<Box<StreamFile>>,
}

impl StreamHandler for Rows {
    type State = State;
    const RECORD: bool = true;

    fn created(&mut self, state: &mut State, stream: &mut Stream<'_, '_>) {
        state.digest = self.digest.then(Box::default);
        state.file = self.files.as_ref().map(|files| Box::new(files.of(stream)));
    }

    fn data(&mut self, state: &mut State, _: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        // A stream's state is as good as never in cache.
        if !self.digest && self.files.is_none() {
            return;
        }
        let new = &chunk.bytes[chunk.overlap..];
        if let Some(digest) = &mut state.digest {
            digest.update(new);
        }
        if let Some(file) = &mut state.file {
            file.write(chunk.offset + chunk.overlap as u64, new);
        }
    }

    fn terminated(&mut self, state: State, stream: &mut Stream<'_, '_>, _: EndReason) {
        let (packets, payload_bytes) = stream.volume();
        // Nobody sent anything. Not every protocol counts packets.
        if packets == 0 && payload_bytes == 0 {
            return;
        }
        if self.count {
            return stream.emit(vec![]);
        }
        let (counts, sequence) = (stream.counts(), stream.sequence());
        let [(_, src_p), (_, dst_p)] = stream.endpoints();
        let [src_h, dst_h] = stream.hosts();
        let connection = stream.connection();
        let known = counts.delivered_bytes + counts.gap_bytes + counts.dropped_bytes;
        let rest = payload_bytes.saturating_sub(known);
        let cut_bytes = payload_bytes.saturating_sub(stream.cutoff()).max(counts.cut_bytes).min(rest);
        let mut row = vec![
            Value::Time(connection.ts),
            Value::Text(connection.uid.into()),
            Value::Bool(stream.is_orig()),
            src_h,
            Value::Unsigned(src_p.into()),
            dst_h,
            Value::Unsigned(dst_p.into()),
            Value::Text(connection.proto),
            Value::Unsigned(packets),
            Value::Unsigned(payload_bytes),
            Value::Unsigned(counts.delivered_bytes),
            Value::Unsigned(counts.gap_bytes),
            Value::Unsigned(cut_bytes),
            Value::Unsigned(rest - cut_bytes),
            Value::Unsigned(counts.dropped_bytes),
            Value::Unsigned(stream.refused_bytes()),
            Value::Unsigned(sequence.retransmitted_bytes),
            Value::Unsigned(sequence.overlap_bytes),
            Value::Unsigned(sequence.inconsistent_bytes),
            Value::Unsigned(sequence.out_of_order),
            Value::Text(connection.conn_state.into()),
        ];
        if let Some(digest) = state.digest {
            row.push(Value::Text(hex(&(*digest).finalize()).into()));
        }
        stream.emit(row);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let compiler = input::compiler(&args.input.program.stack)?;
    let files = args.output.as_deref().map(Files::create).transpose()?.map(Arc::new);
    let (count, digest) = (args.count, args.digest.is_some());
    let filter = args.filter.as_deref().unwrap_or_default();
    let classes = stream_questions::classes(&compiler, &args.input.program, &args.bounds, filter)?;
    let questions = classes.questions.iter().map(|(filter, params)| {
        let files = files.clone();
        StreamQuestion::new(filter, *params, move || Rows { count, digest, files: files.clone() })
    });
    let questions = questions.collect();
    let columns: Vec<Column> = COLUMNS.iter().cloned().chain(digest.then_some(SHA256)).collect();
    let output = Output { format: args.format.clone(), output: None, count: args.count, stats: args.stats };
    let ask = Ask { filter: args.filter.clone(), input: args.input.clone(), output };
    let question = ask::compile_streams(compiler, &ask, questions, classes)?;
    let (ran, found) = ask::stream_rows(&question, &ask.output, None, &columns)?;
    match files.and_then(|files| files.fault()) {
        Some(fault) => Err(fault),
        None if args.count => Ok(ask::status_of(&ran, found)),
        None => Ok(ran.status),
    }
}
