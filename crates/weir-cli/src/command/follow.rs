//! `weir follow`: the bytes of connections, both directions interleaved as they were captured.

use crate::args::{Input, formats, limit};
use crate::ask::{self, Asked};
use crate::conversation_lines::{Conversations, Look, OWN_FORMAT};
use crate::decoded_bodies::{DecodedBodies, Places};
use crate::failure::Failure;
use crate::first_connections::FirstConnections;
use crate::rows::{Rows, made_rows};
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Group, MakeLines, QuestionKind, Resolved, Subcommand};
use crate::terminal::Colors;
use crate::words::Words;
use crate::{stream_columns, stream_questions};
use clap::Args as ClapArgs;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use weir::Question;
use weir::packet::{Cell, Column, ValueType};
use weir::stream::{Chunk, EndReason, Stream, StreamHandler};

/// Arguments of `follow`.
#[derive(ClapArgs, Clone)]
struct Args {
    #[command(flatten)]
    words: Words,
    /// The form of the bytes: text (unprintable ones are dots), hex, or raw
    #[arg(long = "as", value_name = "FORM", default_value = "text")]
    look: Look,
    /// Decode the bodies of HTTP/1: join chunks, and decompress gzip, deflate, Brotli and zstd. Offsets are
    /// those of the bytes as sent
    #[arg(long)]
    decode: bool,
    /// Stop after N connections with bytes
    #[arg(long, value_name = "N", value_parser = limit, allow_negative_numbers = true)]
    limit: Option<u64>,
    /// Format of the output. Default: follow (a header for each connection, then its bytes)
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    format: Option<String>,
    /// Use colours: auto, always, never
    #[arg(long, alias = "colour", value_name = "WHEN", default_value = "auto")]
    color: Colors,
    /// Print counters, memory by owner, and counts and cycles per stage to standard error at the end
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    input: Input,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("follow capture.pcap CAbc123def456ghi78", "the connection with this uid (weir flows --wide)"),
    ("follow capture.pcap 'tcp.port == 25' --as hex", "connections that a filter selects"),
    ("follow capture.pcap 'tcp.port == 25' --limit 1", "the first of them"),
    ("follow capture.pcap 'tcp.port == 80' --decode", "with the bodies of HTTP decompressed"),
    ("follow capture.pcap 'http.host == \"a.example\"' --as raw > bytes", "only the bytes"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about =
        "The bytes of connections, both directions interleaved: of a uid, or of those that a filter selects";
    let kind = QuestionKind {
        options: &["color", "uid", "as", "decode", "cutoff", "priority", "chunk", "overlap", "flush"],
        own_format: Some(OWN_FORMAT),
        keeps: |_| true,
        ..QuestionKind::new(resolve)
    };
    Subcommand::new("follow", about, run)
        .with_question(kind)
        .in_group(Group::Everyday)
        .with_examples(EXAMPLES)
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

/// Whether a word has the form of a connection's identifier.
fn is_uid(word: &str) -> bool {
    word.len() == 18 && word.starts_with('C') && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn run(mut args: Args, all: &[Subcommand]) -> Result<ExitCode, Failure> {
    let word = args.words.settle(&mut args.input.read)?;
    let (uid, filter) = if is_uid(&word) { (Some(word), String::new()) } else { (None, word) };
    if uid.is_none() && filter.is_empty() {
        return Err(Failure::new(
            "which connection? Give its uid (weir flows FILE --wide), or a filter that selects connections",
        ));
    }
    if args.look == Look::Raw && io::stdout().is_terminal() {
        return Err(Failure::new("raw bytes may control the terminal: use --as text or hex, or a pipe"));
    }
    let spec = QuestionSpec {
        ask: "follow".to_string(),
        filter,
        uid: uid.clone(),
        look: Some(args.look),
        decode: args.decode,
        limit: args.limit,
        color: args.color.are_used(None),
        format: Some(args.format.unwrap_or_else(|| OWN_FORMAT.to_string())),
        ..QuestionSpec::default()
    };
    let answered = ask::answer(Asked::one(&args.input, &spec, args.stats), all)?;
    if answered.answers == 0 && !answered.is_unread {
        match uid {
            Some(uid) => note!(
                "weir: no connection has the uid {uid}: uids depend on the stack and its context options"
            ),
            None => note!("weir: no connection with bytes matches the filter"),
        }
    }
    Ok(answered.status_of_search())
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
    let (look, memory_max) = (spec.look.unwrap_or(Look::Text), context.memory_max);
    let lines: MakeLines =
        Box::new(move |out, color| Box::new(Conversations::new(out, look, color, memory_max)));
    let resolved = Resolved::new(questions, "", columns, made_rows);
    Ok(Resolved { lines: Some(lines), lost_bytes: true, has_own_limit: true, rows, ..resolved })
}
