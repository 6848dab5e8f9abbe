//! `weir follow`: the bytes of connections, both directions interleaved as they were captured.

use crate::contents::decoded_bodies::{DecodedBodies, Places};
use crate::contents::first_connections::FirstConnections;
use crate::contents::stream_columns;
use crate::kind::{Context, MakeLines, QuestionKind, Resolved};
use crate::kinds::stream_questions;
use crate::messages::failure::Failure;
use crate::rows::make::{Rows, made_rows};
use crate::spec::QuestionSpec;
use crate::text::conversation_lines::{Conversations, OWN_FORMAT};
use weir::Question;
use weir::packet::{Cell, Column, ValueType};
use weir::stream::{Chunk, EndReason, Stream, StreamHandler};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("follow capture.pcap CAbc123def456ghi78", "the connection with this uid (weir flows --wide)"),
    ("follow capture.pcap 'tcp.port == 25' --as hex", "connections that a filter selects"),
    ("follow capture.pcap 'tcp.port == 25' --limit 1", "the first of them"),
    ("follow capture.pcap 'tcp.port == 80' --decode", "with the bodies of HTTP decompressed"),
    ("follow capture.pcap 'http.host == \"a.example\"' --as raw > bytes", "only the bytes"),
];

/// The type of question.
pub fn kind() -> QuestionKind {
    let about =
        "The bytes of connections, both directions interleaved: of a uid, or of those that a filter selects";
    let kind = QuestionKind::new("follow", about, resolve).with_examples(EXAMPLES);
    let options = &["color", "uid", "as", "decode", "cutoff", "priority", "chunk", "overlap", "flush"];
    QuestionKind { options, own_format: Some(OWN_FORMAT), keeps: |_| true, ..kind }
}

/// The columns of the rows behind those that identify the stream.
const COLUMNS: &[Column] = &[
    Column::new("offset", ValueType::Unsigned, "offset of the bytes in the stream"),
    Column::new("missing", ValueType::Unsigned, "bytes missing just before the bytes"),
    Column::new("data", ValueType::Bytes, "the bytes; empty in the last row of a direction"),
];

/// Emits the bytes of the wanted connections.
struct Follower {
    uid: Option<String>,
}

impl StreamHandler for Follower {
    type State = ();

    fn created(&mut self, (): &mut (), stream: &mut Stream<'_, '_>) {
        if self.uid.as_ref().is_some_and(|uid| stream.uid() != *uid) {
            stream.discard();
        }
    }

    fn data(&mut self, (): &mut (), stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        let offset = chunk.offset + chunk.overlap as u64;
        emit(stream, offset, chunk.gap_bytes, &chunk.bytes[chunk.overlap..]);
    }

    fn terminated(&mut self, (): (), stream: &mut Stream<'_, '_>, _: EndReason) {
        let is_wanted = self.uid.is_none() || stream.cutoff() > 0;
        if is_wanted {
            emit(stream, stream.offset(), 0, &[]);
        }
    }
}

fn emit(stream: &mut Stream<'_, '_>, offset: u64, missing: u64, bytes: &[u8]) {
    let more = [Cell::Unsigned(offset), Cell::Unsigned(missing), Cell::Bytes(bytes)];
    stream_columns::emit(stream, &stream.uid(), stream.now(), &more);
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let uid = spec.uid.clone();
    let question = |(filter, params): &(String, _)| {
        let uid = uid.clone();
        Question::of_streams(filter, *params, move || Follower { uid: uid.clone() })
    };
    let questions = stream_questions::classes(spec, context)?.iter().map(question).collect();
    let own = stream_columns::columns("time of the packet that completed the bytes");
    let columns: Vec<Column> = own.into_iter().chain(COLUMNS.iter().cloned()).collect();
    let place = |name: &str| columns.iter().position(|column| column.name == name).unwrap_or(columns.len());
    let places = Places {
        uid: place("uid"),
        is_orig: place("is_orig"),
        missing: place("missing"),
        data: place("data"),
    };
    let rows: Box<dyn Rows> = match spec.decode {
        true => Box::new(DecodedBodies::new(places, context.memory_max)),
        false => Box::new(made_rows),
    };
    let rows = match spec.limit {
        Some(limit) => Box::new(FirstConnections::new(rows, places, limit)),
        None => rows,
    };
    let (look, memory_max) = (spec.look, context.memory_max);
    let lines: MakeLines =
        Box::new(move |out, color| Box::new(Conversations::new(out, look, color, memory_max)));
    let resolved = Resolved::new(questions, "", columns, made_rows);
    Ok(Resolved { lines: Some(lines), lost_bytes: true, has_own_limit: true, rows, ..resolved })
}
