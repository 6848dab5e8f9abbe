//! `weir streams`: each direction's bytes in order, one row each; digests and files of the bytes.

use crate::contents::stream_columns;
use crate::contents::stream_files::{Files, StreamFile};
use crate::form::Form;
use crate::kind::{Context, QuestionKind, Resolved};
use crate::kinds::stream_questions;
use crate::messages::failure::Failure;
use crate::output::file_budget::{FILES_MAX, FileBounds, FileBudget};
use crate::rows::make::{Rows, WriteRows, made_rows};
use crate::spec::QuestionSpec;
use sha2::{Digest, Sha256};
use std::io;
use std::sync::Arc;
use weir::packet::{Cell, Column, ValueType};
use weir::stream::{Chunk, EndReason, Stream, StreamHandler};
use weir::{Item, Question};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("streams capture.pcap", "what became of each stream's bytes"),
    ("streams capture.pcap -o DIR 'tcp.port == 80'", "a file with the bytes of each stream"),
    ("streams capture.pcap --digest sha256", "a digest of each stream"),
];

/// The type of question.
pub fn kind() -> QuestionKind {
    let about = "Streams: each direction's bytes in order, one row each at the end; their digests; files with their bytes";
    let options = &["digest", "files", "files_max", "cutoff", "priority", "chunk", "overlap", "flush"];
    let kind = QuestionKind::new("streams", about, resolve).with_examples(EXAMPLES);
    QuestionKind { options, ..kind }
}

/// The columns of the rows behind those that identify the stream.
const COLUMNS: &[Column] = &[
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
        "additional bytes that reassembly rejected, as the receiver does",
    ),
    Column::new(
        "out_of_window_bytes",
        ValueType::Unsigned,
        "additional bytes outside of the connection: beyond the window, before the handshake, after the end",
    ),
    Column::new(
        "retransmitted_bytes",
        ValueType::Unsigned,
        "bytes that were sent again after their delivery, or after they were dropped",
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

/// The columns of a table.
const BRIEF: &[&str] =
    &["ts", "src", "dst", "proto", "packets", "delivered_bytes", "gap_bytes", "retransmitted_bytes", "state"];

const SHA256: Column = Column::new("sha256", ValueType::Text, "digest of the delivered bytes");

/// Makes the rows, digests and files of streams.
#[derive(Default)]
struct StreamRows {
    /// Only count the streams.
    count: bool,
    digest: bool,
    files: Option<Arc<Files>>,
}

/// The state of a stream.
#[derive(Default)]
pub struct State {
    digest: Option<Box<Sha256>>,
    file: Option<Box<StreamFile>>,
}

impl StreamHandler for StreamRows {
    type State = State;
    const RECORD: bool = true;

    fn created(&mut self, state: &mut State, _: &mut Stream<'_, '_>) {
        state.digest = self.digest.then(Box::default);
    }

    fn data(&mut self, state: &mut State, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        // Return before touching the state, which is rarely in the cache.
        if !self.digest && self.files.is_none() {
            return;
        }
        let new = &chunk.bytes[chunk.overlap..];
        if let Some(digest) = &mut state.digest {
            digest.update(new);
        }
        if let Some(files) = &self.files {
            let file = state.file.get_or_insert_with(|| Box::new(files.of(stream)));
            file.write(chunk.offset + chunk.overlap as u64, new);
        }
    }

    fn terminated(&mut self, state: State, stream: &mut Stream<'_, '_>, _: EndReason) {
        let (packets, payload_bytes) = stream.volume();
        // No data was sent. Not every protocol counts packets.
        if packets == 0 && payload_bytes == 0 {
            return;
        }
        if self.count {
            return stream.emit([]);
        }
        let (counts, sequence) = (stream.counts(), stream.sequence());
        let connection = stream.connection();
        // Of a layer without a sequence, the program itself leaves out what lies beyond the cutoff.
        let known = counts.delivered_bytes
            + counts.gap_bytes
            + counts.cut_bytes
            + counts.stuck_bytes
            + counts.dropped_bytes;
        let cut_bytes = counts.cut_bytes + payload_bytes.saturating_sub(known);
        let more = [
            Cell::Unsigned(packets),
            Cell::Unsigned(payload_bytes),
            Cell::Unsigned(counts.delivered_bytes),
            Cell::Unsigned(counts.gap_bytes),
            Cell::Unsigned(cut_bytes),
            Cell::Unsigned(counts.stuck_bytes),
            Cell::Unsigned(counts.dropped_bytes),
            Cell::Unsigned(stream.refused_bytes()),
            Cell::Unsigned(stream.outside_bytes()),
            Cell::Unsigned(sequence.retransmitted_bytes + counts.repeated_bytes),
            Cell::Unsigned(sequence.overlap_bytes),
            Cell::Unsigned(sequence.inconsistent_bytes),
            Cell::Unsigned(sequence.out_of_order),
            Cell::Text(connection.conn_state),
        ];
        let digest = state.digest.map(|digest| hex(&(*digest).finalize()));
        let digest = digest.as_deref().map(Cell::Text);
        let more: Vec<Cell<'_>> = more.into_iter().chain(digest).collect();
        stream_columns::emit(stream, &connection.uid, connection.ts, &more);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let (count, digest) = (*context.form == Form::Count, spec.digest.is_some());
    if let (Some(_), None) = (&spec.files_max, &spec.files) {
        return Err(Failure::new("--files-max is for files of streams: name their directory (-o DIR)"));
    }
    let files = spec.files.clone().map(|directory| {
        let option = "--files-max";
        let bounds = FileBounds::of(option, spec.files_max.as_deref(), &directory, FILES_MAX)?;
        let budget = FileBudget::new(option, bounds, &directory);
        let thread = (context.outlets.of(Some(&directory)), context.outlets.patience().clone());
        Ok::<_, Failure>(Arc::new(Files::new(directory, context.inputs.clone(), thread, budget)))
    });
    let files = files.transpose()?;
    let question = |(filter, params): &(String, _)| {
        let files = files.clone();
        Question::of_streams(filter, *params, move || StreamRows { count, digest, files: files.clone() })
    };
    let questions = stream_questions::classes(spec, context)?.iter().map(question).collect();
    let own = stream_columns::columns("time of the connection's first packet");
    let columns = own.into_iter().chain(COLUMNS.iter().cloned()).chain(digest.then_some(SHA256)).collect();
    let resolved = Resolved::new(questions, "", columns, Emitted(files)).with_brief(BRIEF);
    Ok(Resolved { lost_bytes: true, ..resolved })
}

/// Rows that handlers emit, and failures of the files that they write.
struct Emitted(Option<Arc<Files>>);

impl Rows for Emitted {
    fn item(&mut self, item: &Item<'_>, row: WriteRows<'_>) -> io::Result<()> {
        made_rows(item, row)
    }

    fn fault(&mut self) -> Option<Failure> {
        let files = self.0.as_ref()?;
        files.budget().report();
        files.fault()
    }
}
