//! `weir match`: matches of patterns in streams.

use crate::contents::stream_columns;
use crate::form::Form;
use crate::kind::{Context, MakeLines, QuestionKind, Resolved};
use crate::kinds::stream_questions;
use crate::messages::failure::Failure;
use crate::rows::make::made_rows;
use crate::source::input;
use crate::spec::{QuestionSpec, StreamsShown};
use crate::text::grep::{Grep, escaped};
use std::path::Path;
use std::sync::Arc;
use weir::Question;
use weir::packet::{Cell, Column, Timestamp, ValueType};
use weir::patterns::{
    EngineChoice, MATCH_BYTES_MAX, Match, Pattern, PatternError, Patterns, Scratch, StreamState,
};
use weir::stream::{Chunk, EndReason, Stream, StreamHandler};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("match capture.pcap -e 'User-Agent: [^\\r]*'", "a regular expression"),
    ("match capture.pcap -i -F -e password 'not tls'", "a word, in a part of the traffic"),
    ("match capture.pcap -f patterns.txt -l", "the streams with a match of any pattern of a file"),
];

/// The type of question.
pub fn kind() -> QuestionKind {
    let about = "Matches of patterns in streams, across the borders of segments: grep for traffic";
    let kind = QuestionKind::new("match", about, resolve).with_examples(EXAMPLES);
    QuestionKind { options: OPTIONS, own_format: Some(OWN_FORMAT), ..kind }
}

/// Endpoints, offset and match in a line, as grep prints them.
pub const OWN_FORMAT: &str = "grep";

/// Options that only questions of this type have.
const OPTIONS: &[&str] = &[
    "patterns",
    "pattern_files",
    "color",
    "ignore_case",
    "fixed_strings",
    "matcher",
    "context",
    "max_count",
    "streams",
    "cutoff",
    "priority",
    "chunk",
    "overlap",
    "flush",
];

/// Maximum number of bytes shown of a match.
const SHOWN_BYTES_MAX: usize = 256;

/// The columns of matches behind those that identify the stream.
const COLUMNS: &[Column] = &[
    Column::new("pattern", ValueType::Text, "the pattern"),
    Column::new("offset", ValueType::Unsigned, "offset in the stream at which the match starts"),
    Column::new("length", ValueType::Unsigned, "length of the match, bytes"),
    Column::new(
        "is_exact",
        ValueType::Bool,
        "false if the match is longer than 32 KiB and starts before the offset",
    ),
    Column::new("before", ValueType::Text, "bytes before the match; unprintable ones as \\xNN"),
    Column::new("match", ValueType::Text, "first 256 bytes of the match, as far as they are still buffered"),
    Column::new("after", ValueType::Text, "bytes after the match, in the same segment"),
];

/// Searches each stream for the patterns.
struct Finder {
    /// Only count rows.
    count: bool,
    /// Show streams instead of matches.
    streams: Option<StreamsShown>,
    patterns: Arc<Patterns>,
    texts: Arc<Vec<String>>,
    scratch: Scratch,
    context: usize,
    /// Maximum number of matches per stream; the rest of the stream is discarded.
    most: usize,
}

/// The state of a stream.
#[derive(Default)]
pub struct State {
    search: StreamState,
    /// The last bytes, from which matches and their context are shown, and their end offset in the stream.
    recent: Vec<u8>,
    end: u64,
    /// Time of the last bytes.
    time: Timestamp,
    matches: usize,
}

impl StreamHandler for Finder {
    type State = State;

    fn data(&mut self, state: &mut State, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        let new = &chunk.bytes[chunk.overlap..];
        let offset = chunk.offset + chunk.overlap as u64;
        // Bytes are missing, or arrived before the connection matched the filter.
        if offset > state.end {
            self.patterns.gap(&mut state.search, offset - state.end);
            state.recent.clear();
        }
        let mut found = vec![];
        self.patterns.feed(&mut self.scratch, &mut state.search, new, &mut |found_now| found.push(found_now));
        self.tell(state, stream, &found, (offset, new));
        // A partial match may have begun far back.
        let under_way = if state.search.heap_bytes() > 0 { 2 * MATCH_BYTES_MAX as usize } else { 0 };
        let keep = SHOWN_BYTES_MAX + self.context + under_way;
        let old = keep.saturating_sub(new.len()).min(state.recent.len());
        state.recent.drain(..state.recent.len() - old);
        state.recent.extend_from_slice(&new[new.len() - new.len().min(keep)..]);
        (state.end, state.time) = (offset + new.len() as u64, stream.now());
    }

    fn terminated(&mut self, mut state: State, stream: &mut Stream<'_, '_>, _: EndReason) {
        let mut found = vec![];
        self.patterns.finish(&mut self.scratch, &mut state.search, &mut |found_now| found.push(found_now));
        let end = state.end;
        self.tell(&mut state, stream, &found, (end, &[]));
        if self.streams == Some(StreamsShown::Without) && state.matches == 0 && end > 0 {
            match self.count {
                true => stream.emit([]),
                false => stream_columns::emit(stream, &stream.uid(), stream.first_time(), &[]),
            }
        }
    }
}

impl Finder {
    /// Emits a row per match, up to the maximum. `new`: the bytes just received, with their offset.
    fn tell(
        &self,
        state: &mut State,
        stream: &mut Stream<'_, '_>,
        found: &[Match],
        (offset, new): (u64, &[u8]),
    ) {
        for found in found {
            if state.matches == self.most {
                return;
            }
            state.matches += 1;
            if state.matches == self.most {
                stream.discard();
            }
            if self.streams == Some(StreamsShown::Without) {
                continue;
            }
            if self.count {
                stream.emit([]);
                continue;
            }
            let (uid, time) = (stream.uid(), if found.end <= offset { state.time } else { stream.now() });
            if self.streams == Some(StreamsShown::With) {
                stream_columns::emit(stream, &uid, time, &[]);
                continue;
            }
            let start = offset - state.recent.len() as u64;
            let shown = |from: u64, to: u64| -> String {
                let at = |offset: u64| (offset.max(start) - start) as usize;
                let (from, to) = (at(from), at(to).min(state.recent.len() + new.len()));
                let bytes = state.recent.iter().chain(new).skip(from).take(to.saturating_sub(from));
                escaped(&bytes.copied().collect::<Vec<u8>>())
            };
            let (context, most) = (self.context as u64, SHOWN_BYTES_MAX as u64);
            let [before, text, after] = [
                shown(found.start.saturating_sub(context), found.start),
                shown(found.start, found.end.min(found.start + most)),
                shown(found.end, found.end + context),
            ];
            let more = [
                Cell::Text(&self.texts[found.pattern]),
                Cell::Unsigned(found.start),
                Cell::Unsigned(found.end - found.start),
                Cell::Bool(found.start_is_exact),
                Cell::Text(&before),
                Cell::Text(&text),
                Cell::Text(&after),
            ];
            stream_columns::emit(stream, &uid, time, &more);
        }
    }
}

/// The patterns of a question, and those of its files.
fn read_patterns(spec: &QuestionSpec) -> Result<Vec<String>, Failure> {
    let mut texts = spec.patterns.clone();
    for file in &spec.pattern_files {
        let is_stdin = file.as_os_str() == "-";
        let text = input::read_text(if is_stdin { Path::new("/dev/stdin") } else { file })?;
        texts.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    }
    match texts.is_empty() {
        true => Err(Failure::new(
            "there is no pattern: give `patterns` (-e), one regular expression each, or `pattern_files` (-f)",
        )),
        false => Ok(texts),
    }
}

/// The error message, with the position in the faulty pattern.
fn explained(wrong: &PatternError, texts: &[String]) -> String {
    let Some(text) = wrong.pattern.and_then(|number| texts.get(number)) else { return wrong.to_string() };
    let mut lines = format!("{}\n  | {text}", wrong.message);
    if let Some(span) = &wrong.span {
        let width = |bytes: &str| bytes.chars().count();
        let before = text.get(..span.start).map_or(0, width);
        let marked = text.get(span.clone()).map_or(1, width).max(1);
        lines += &format!("\n  | {}{}", " ".repeat(before), "^".repeat(marked));
    }
    if let Some(help) = &wrong.help {
        lines += &format!("\n  = help: {help}");
    }
    lines
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let texts = read_patterns(spec)?;
    let (ignore_case, literal) = (spec.ignore_case, spec.fixed_strings);
    let pattern = |text: &String| Pattern { text: text.clone(), ignore_case, literal };
    let patterns: Vec<Pattern> = texts.iter().map(pattern).collect();
    let engine: EngineChoice = spec.matcher.into();
    let patterns =
        Patterns::compile(&patterns, engine).map_err(|wrong| Failure::new(explained(&wrong, &texts)))?;
    let note = format!(
        "patterns   {}; engine {}, prefilter {}",
        patterns.len(),
        patterns.engine(),
        patterns.prefilter()
    );
    let (patterns, texts) = (Arc::new(patterns), Arc::new(texts));
    let streams = spec.streams;
    let most = if streams.is_none() { spec.max_count.unwrap_or(usize::MAX) } else { 1 };
    let (count, shown) = (*context.form == Form::Count, usize::from(spec.context));
    let make = move || Finder {
        count,
        streams,
        scratch: patterns.scratch(),
        patterns: Arc::clone(&patterns),
        texts: Arc::clone(&texts),
        context: shown,
        most,
    };
    let classes = stream_questions::classes(spec, context)?;
    let question = |(filter, params): &(String, _)| Question::of_streams(filter, *params, make.clone());
    let questions = classes.iter().map(question).collect();
    let more = if streams.is_none() { COLUMNS } else { &[] };
    let own = stream_columns::columns("time of the packet that completed the match");
    let columns = own.into_iter().chain(more.iter().cloned()).collect();
    let lines: MakeLines = Box::new(|out, color| Box::new(Grep::new(out, color)));
    let resolved = Resolved::new(questions, "", columns, made_rows);
    Ok(Resolved { lines: Some(lines), note: Some(note), lost_bytes: true, ..resolved })
}
