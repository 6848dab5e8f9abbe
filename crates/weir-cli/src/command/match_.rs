//! `weir match`: where patterns match in streams.

use super::ask;
use crate::args::{Ask, Colors, Match as Args, Output};
use crate::failure::Failure;
use crate::grep::{Grep, escaped};
use crate::{input, output, stream_questions, terminal};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use weir::packet::{Column, RowSink, Timestamp, Value, ValueType};
use weir::patterns::{
    EngineChoice, MATCH_BYTES_MAX, Match, Pattern, PatternError, Patterns, Scratch, StreamState,
};
use weir::stream::{Chunk, EndReason, Stream, StreamHandler, StreamParams, StreamQuestion};

/// Bytes of a match that are shown.
const SHOWN_BYTES_MAX: usize = 256;

/// The columns of its rows.
pub const COLUMNS: &[Column] = &[
    Column::new("ts", ValueType::Time, "time of the packet that completed the match"),
    Column::new("uid", ValueType::Text, "identifier of the connection"),
    Column::new("is_orig", ValueType::Bool, "the stream is the originator's"),
    Column::new("src_h", ValueType::Address, "address of the sender"),
    Column::new("src_p", ValueType::Unsigned, "port of the sender"),
    Column::new("dst_h", ValueType::Address, "address of the receiver"),
    Column::new("dst_p", ValueType::Unsigned, "port of the receiver"),
    Column::new("proto", ValueType::Text, "transport protocol"),
    Column::new("pattern", ValueType::Text, "the pattern"),
    Column::new("offset", ValueType::Unsigned, "offset in the stream at which the match starts"),
    Column::new("length", ValueType::Unsigned, "its bytes"),
    Column::new(
        "is_exact",
        ValueType::Bool,
        "false if the match is longer than 32 KiB and starts before the offset",
    ),
    Column::new("before", ValueType::Text, "bytes before the match; unprintable ones as \\xNN"),
    Column::new("match", ValueType::Text, "first 256 bytes of the match, as far as they are still buffered"),
    Column::new("after", ValueType::Text, "bytes after the match, in the same segment"),
];

/// Columns that say which stream it is: the first ones.
const STREAM_COLUMNS: usize = 8;

/// What is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Told {
    /// Every match.
    #[default]
    Matches,
    /// Streams in which something matches.
    StreamsWith,
    /// Streams in which nothing does.
    StreamsWithout,
}

/// Looks for the patterns in each stream.
pub struct Finder {
    /// Rows are only counted.
    count: bool,
    told: Told,
    patterns: Arc<Patterns>,
    texts: Arc<Vec<String>>,
    scratch: Scratch,
    context: usize,
    /// Matches of a stream after which the rest of it is of no interest.
    most: usize,
}

/// What is known of a stream.
#[derive(Default)]
pub struct State {
    search: StreamState,
    /// The last bytes, for what is shown of matches, and where they end in the stream.
    recent: Vec<u8>,
    end: u64,
    /// When they came.
    time: Timestamp,
    matches: usize,
}

impl StreamHandler for Finder {
    type State = State;

    fn data(&mut self, state: &mut State, stream: &mut Stream<'_, '_>, chunk: &Chunk<'_>) {
        let new = &chunk.bytes[chunk.overlap..];
        let offset = chunk.offset + chunk.overlap as u64;
        // Missing, or before the connection fulfilled the filter.
        if offset > state.end {
            self.patterns.gap(&mut state.search, offset - state.end);
            state.recent.clear();
        }
        let mut found = vec![];
        self.patterns.feed(&mut self.scratch, &mut state.search, new, &mut |found_now| found.push(found_now));
        self.tell(state, stream, &found, (offset, new));
        // While a match is under way it may begin far back.
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
        if self.told == Told::StreamsWithout && state.matches == 0 && end > 0 {
            stream.emit(if self.count { vec![] } else { named(stream, stream.first_time()) });
        }
    }
}

/// The values of [`STREAM_COLUMNS`].
fn named(stream: &Stream<'_, '_>, time: Timestamp) -> Vec<Value<'static>> {
    let [(_, src_p), (_, dst_p)] = stream.endpoints();
    let [src_h, dst_h] = stream.hosts();
    vec![
        Value::Time(time),
        Value::Text(stream.uid().into()),
        Value::Bool(stream.is_orig()),
        src_h,
        Value::Unsigned(src_p.into()),
        dst_h,
        Value::Unsigned(dst_p.into()),
        Value::Text(stream.proto().to_owned().into()),
    ]
}

impl Finder {
    /// A row for each match, as long as more are wanted. `new`: the bytes at hand, with their offset.
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
            if self.told == Told::StreamsWithout {
                continue;
            }
            if self.count {
                stream.emit(vec![]);
                continue;
            }
            let mut row = named(stream, if found.end <= offset { state.time } else { stream.now() });
            if self.told == Told::StreamsWith {
                stream.emit(row);
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
            row.extend([
                Value::Text(self.texts[found.pattern].clone().into()),
                Value::Unsigned(found.start),
                Value::Unsigned(found.end - found.start),
                Value::Bool(found.start_is_exact),
                Value::Text(shown(found.start.saturating_sub(context), found.start).into()),
                Value::Text(shown(found.start, found.end.min(found.start + most)).into()),
                Value::Text(shown(found.end, found.end + context).into()),
            ]);
            stream.emit(row);
        }
    }
}

/// All patterns of the command line.
fn read_patterns(args: &Args) -> Result<Vec<String>, Failure> {
    let mut texts = args.expressions.clone();
    for file in &args.files {
        let is_stdin = file.as_os_str() == "-";
        let text = input::read_text(if is_stdin { Path::new("/dev/stdin") } else { file })?;
        texts.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    }
    match texts.is_empty() {
        true => Err(Failure::new("no pattern: give one with -e, or a file of patterns with -f")),
        false => Ok(texts),
    }
}

/// What is wrong with the patterns, with the place in the one that is.
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

/// How patterns are looked for, and what is shown of what is found.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Case does not count.
    pub ignore_case: bool,
    /// Patterns are strings, not expressions.
    pub fixed_strings: bool,
    /// Bytes shown before and after a match.
    pub context: usize,
    /// Matches of a stream after which the rest of it is of no interest.
    pub most: usize,
    /// Rows are only counted.
    pub count: bool,
    /// What rows tell of.
    pub told: Told,
    /// What looks for them.
    pub engine: EngineChoice,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            ignore_case: false,
            fixed_strings: false,
            context: CONTEXT_BYTES,
            most: usize::MAX,
            count: false,
            told: Told::Matches,
            engine: EngineChoice::Auto,
        }
    }
}

/// Bytes shown before and after a match where nobody says more.
pub const CONTEXT_BYTES: usize = 24;

impl Look {
    /// The patterns, and what makes a handler that looks for these, for each worker.
    ///
    /// # Errors
    /// There is none, or one is wrong; or what is to look for them is not installed.
    pub fn compile(
        self,
        texts: Vec<String>,
    ) -> Result<(Arc<Patterns>, impl Fn() -> Finder + Clone + Send + Sync), Failure> {
        if texts.is_empty() {
            return Err(Failure::new("there is no pattern"));
        }
        let Self { ignore_case, fixed_strings, context, most, count, told, engine } = self;
        let most = if told == Told::Matches { most } else { 1 };
        let pattern = |text: &String| Pattern { text: text.clone(), ignore_case, literal: fixed_strings };
        let patterns: Vec<Pattern> = texts.iter().map(pattern).collect();
        let patterns =
            Patterns::compile(&patterns, engine).map_err(|wrong| Failure::new(explained(&wrong, &texts)))?;
        let (patterns, texts) = (Arc::new(patterns), Arc::new(texts));
        let shared = Arc::clone(&patterns);
        let make = move || Finder {
            count,
            told,
            scratch: patterns.scratch(),
            patterns: Arc::clone(&patterns),
            texts: Arc::clone(&texts),
            context,
            most,
        };
        Ok((shared, make))
    }
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let look = Look {
        ignore_case: args.ignore_case,
        fixed_strings: args.fixed_strings,
        context: usize::from(args.context),
        most: args.max_count.unwrap_or(usize::MAX),
        count: args.count,
        told: match (args.streams_with_matches, args.without_match) {
            (true, _) => Told::StreamsWith,
            (_, true) => Told::StreamsWithout,
            _ => Told::Matches,
        },
        engine: args.matcher.into(),
    };
    let (patterns, make) = look.compile(read_patterns(args)?)?;
    if let Some(path) = &args.output {
        output::refuse_input(path, &args.input)?;
    }
    let compiler = input::compiler(&args.input.program.stack)?;
    let filter = args.filter.as_deref().unwrap_or_default();
    let classes = stream_questions::classes(&compiler, &args.input.program, &args.bounds, filter)?;
    let question =
        |(filter, params): &(String, StreamParams)| StreamQuestion::new(filter, *params, make.clone());
    let questions = classes.questions.iter().map(question).collect();
    let is_terminal = args.output.is_none() && std::io::stdout().is_terminal();
    let is_usual = is_terminal || args.color == Colors::Always && args.output.is_none();
    let as_grep = args.format.as_ref().map_or(is_usual, |format| format == "grep");
    let format = args.format.clone().filter(|_| !as_grep);
    let output = Output { format, output: args.output.clone(), count: args.count, stats: args.stats };
    let ask = Ask { filter: args.filter.clone(), input: args.input.clone(), output };
    let question = ask::compile_streams(compiler, &ask, questions, classes)?;
    let grep = as_grep.then(|| output::writer(&ask.output)).transpose()?;
    let color = match args.color {
        Colors::Auto => is_terminal && terminal::stdout_color(),
        Colors::Always => true,
        Colors::Never => false,
    };
    let columns = if look.told == Told::Matches { COLUMNS } else { &COLUMNS[..STREAM_COLUMNS] };
    let grep = grep.map(|out| Box::new(Grep::new(out, color)) as Box<dyn RowSink + Send>);
    let (ran, count) = ask::stream_rows(&question, &ask.output, grep, columns)?;
    if args.stats {
        let (engine, prefilter) = (patterns.engine(), patterns.prefilter());
        say!("patterns   {}; engine {engine}, prefilter {prefilter}", patterns.len());
    }
    Ok(ask::status_of(&ran, count))
}
