//! Reads the past: rows and packets from the ring and the spool, as `weir … -r ring:` does in another
//! process.

use super::known::{EndColumns, Known};
use super::refusals::{of_failure, of_mistake};
use super::results::Found;
use crate::copy_packets::{Copy, copy_packets};
use crate::recording::Recording;
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir::Compiler;
use weir::io::ring::{Reader, Ring, Selection, SpoolFiles, TimeRange};
use weir::io::sink::{Format, Options, create};
use weir::io::{CaptureReader, PcapngWriter};
use weir::packet::Timestamp;
use weir::packet::{Batch, Column, RowSink};
use weir_questions::Input;
use weir_questions::QuestionSpec;
use weir_questions::by_name::{Questions, TakeRows};
use weir_questions::messages::{Level, Listener};
use weir_questions::quantity::moment;
use weir_questions::run::QuestionSet;
use weir_questions::run::{Plan, RunSettings};
use weir_questions::source::Ender;
use weir_web::{Client, Output, Refusal, Reply, RowsAsked, Span};

/// The type of captures.
pub const PCAPNG: &str = "application/x-pcapng";
/// Memory of a query.
const MEMORY: &str = "256M";
/// Rows of an answer, on all of its pages.
pub const ROWS_MAX: usize = 50_000;
/// Bytes of these rows.
pub const ROW_BYTES_MAX: usize = 16 << 20;

/// The packets of a recorder.
pub struct Past {
    /// The packets in memory.
    pub ring: Ring,
    spool: Option<Mutex<SpoolFiles>>,
    /// The connections of answers.
    pub known: Known,
    pub compiler: Compiler,
    /// The options of the run that also hold for queries, without the input.
    pub input: Input,
}

/// A query that is over.
pub struct Over {
    /// What the engine says about the answer.
    pub notes: Vec<String>,
    /// Packets that left the recorder before the query came to them.
    pub lost: u64,
}

impl Past {
    pub fn new(recording: &Recording, set: &QuestionSet) -> Self {
        let (ring, spool) = recording.packets();
        let mut input = set.input.clone();
        (input.read, input.interface) = (vec![], vec![]);
        (input.ring_bytes, input.has_rules) = (0, false);
        (input.workers, input.follow, input.mirror, input.hardware_time) = (1, false, false, false);
        (input.buffer, input.dpdk_eal, input.no_promiscuous) = (None, None, false);
        (input.user, input.write_to, input.no_sandbox) = (None, vec![], false);
        input.memory = Some(MEMORY.to_string());
        Self {
            ring,
            spool: spool.map(Mutex::new),
            known: Known::default(),
            compiler: set.compiler.clone(),
            input,
        }
    }

    /// The files of the spool, as they were listed last.
    pub fn spool(&self) -> Option<MutexGuard<'_, SpoolFiles>> {
        self.spool.as_ref().map(|spool| spool.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The times of a request.
    pub fn times(span: &Span) -> Result<TimeRange, Refusal> {
        let read = |name: &str, text: &Option<String>, otherwise| {
            let time = text.as_deref().filter(|text| !text.is_empty()).map(moment).transpose();
            time.map(|time| time.map_or(otherwise, |time| time.0))
                .map_err(|why| Refusal::bad(format!("{name}: {why}")))
        };
        let times =
            TimeRange { first: read("from", &span.from, i64::MIN)?, last: read("to", &span.to, i64::MAX)? };
        match times.first <= times.last {
            true => Ok(times),
            false => Err(Refusal::bad("`from` is later than `to`")),
        }
    }

    /// A reader of the packets with these times, until `ends` is set. `follows`: also of those that come
    /// later.
    pub fn reader(
        &self,
        times: TimeRange,
        ends: Arc<AtomicBool>,
        follows: bool,
    ) -> (CaptureReader, Arc<Selection>) {
        let selection = Arc::new(Selection::of(times).ending_with(ends));
        let spool = self.spool().map(|spool| spool.clone());
        let reader = Reader::new(Some(self.ring.clone()), spool, follows, Arc::clone(&selection));
        (CaptureReader::of_recorder("ring:", Box::new(reader), Arc::clone(&selection)), selection)
    }

    /// Asks one question about the past. `take` makes the taker of rows with these columns.
    pub fn ask(
        &self,
        spec: QuestionSpec,
        times: TimeRange,
        client: &Client,
        take: impl FnOnce(&[Column]) -> Result<Box<dyn TakeRows>, Refusal>,
    ) -> Result<Over, Refusal> {
        // Packets that the question does not need are not read.
        let settings = RunSettings { is_narrow: true, ..RunSettings::default() };
        let plan = Plan::with(&self.input, self.compiler.clone(), settings, &[spec]);
        let questions = plan.and_then(Questions::of_plan).map_err(of_failure)?;
        let taker = take(questions.columns().next().unwrap_or_default())?;
        let (reader, selection) = self.reader(times, client.ends(), false);
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let hearing = Arc::clone(&heard);
        let listener = Listener::new(move |message| {
            if matches!(message.level(), Level::Error | Level::Warning) {
                hearing.lock().unwrap_or_else(PoisonError::into_inner).push(message.text().to_string());
            }
        });
        let ended = questions.run_over(vec![taker], reader, &Ender::default(), listener, &mut |_, _| {});
        let ended = ended.map_err(of_mistake)?;
        let mut notes = std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner));
        notes.extend(ended.errors);
        Ok(Over { notes, lost: selection.lost() })
    }

    /// Asks for rows, as texts of JSON.
    pub fn ask_for_lines(
        &self,
        spec: QuestionSpec,
        times: TimeRange,
        client: &Client,
    ) -> Result<Found, Refusal> {
        let lines = Lines::default();
        let over = self.ask(spec, times, client, |columns| {
            let taker =
                LineTaker::new(lines.clone(), columns).map_err(|error| Refusal::failed(error.to_string()))?;
            let ends = EndColumns::of(columns).map(|columns| (columns, self.known.clone(), times));
            Ok(Box::new(LineTaker { ends, ..taker }))
        })?;
        let text = std::mem::take(&mut *lines.lock());
        let mut found = Found::new(text, over.notes, over.lost);
        if client.is_late() {
            found.cut("the time for the query was over: narrow the times or the filter");
        } else if found.rows() >= ROWS_MAX || found.text.len() >= ROW_BYTES_MAX {
            found.cut("there are more rows: narrow the times or the filter");
        }
        Ok(found)
    }

    /// The rows of a request.
    pub fn rows(&self, asked: RowsAsked, client: &Client) -> Result<Found, Refusal> {
        let is_known = asked.kind == "flows"
            || asked.kind == "aggregate"
            || asked.kind == "sessions"
            || weir_questions::by_name::kinds().iter().any(|kind| kind.is_log && kind.name == asked.kind);
        if !is_known {
            return Err(Refusal::missing(format!("there is no log `{}`", asked.kind))
                .with_hint("`weir help` lists the logs: dns, tls, http …"));
        }
        let times = Self::times(&asked.span)?;
        let (aggregate, of) = asked.aggregate.unzip();
        let spec = QuestionSpec {
            ask: asked.kind,
            filter: asked.filter,
            sort: asked.sort.filter(|sort| !sort.is_empty()),
            aggregate,
            format: Some(Format::Json.label().to_string()),
            ..QuestionSpec::default()
        };
        let spec = match of.flatten() {
            Some(of) => QuestionSpec { of, ..spec },
            None => spec,
        };
        self.ask_for_lines(spec, times, client)
    }

    /// The packets that match a filter.
    pub fn packets(self: &Arc<Self>, filter: String, span: &Span, client: &Client) -> Result<Reply, Refusal> {
        self.packets_between(filter, Self::times(span)?, "packets.pcapng".to_string(), client)
    }

    /// The packets that match a filter in these times, as a file with this name.
    pub fn packets_between(
        self: &Arc<Self>,
        filter: String,
        times: TimeRange,
        file_name: String,
        client: &Client,
    ) -> Result<Reply, Refusal> {
        self.compiler.check_filter(&filter, self.input.bpf).map_err(|wrong| of_failure(wrong.into()))?;
        let (past, client) = (Arc::clone(self), client.clone());
        let write = move |output: &mut Output| {
            let (reader, selection) = past.reader(times, client.ends(), false);
            let mut writer = PcapngWriter::new(output);
            writer.begin()?;
            let mut packets = 0;
            let copy = Copy {
                filter,
                from: Timestamp(i64::MIN),
                writer: &mut writer,
                packets: &mut packets,
                room: None,
            };
            let copied = copy_packets(reader, &past.compiler, vec![copy]);
            copied.map_err(|failure| io::Error::other(failure.to_string()))?;
            match (client.is_late(), selection.lost()) {
                (false, 0) => writer.finish().map(drop),
                // A file that lacks packets is broken off: no client takes it for whole.
                (true, _) => Err(io::ErrorKind::TimedOut.into()),
                (_, lost) => Err(io::Error::other(format!("{lost} packets left the recorder"))),
            }
        };
        Ok(Reply::Stream { content_type: PCAPNG, file_name, bytes: None, write: Box::new(write) })
    }
}

/// A text that grows.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes rows as lines of JSON, up to the bounds.
struct LineTaker {
    lines: Lines,
    sink: Box<dyn RowSink + Send>,
    rows: usize,
    /// Where the connections of rows are remembered.
    ends: Option<(EndColumns, Known, TimeRange)>,
}

impl LineTaker {
    fn new(lines: Lines, columns: &[Column]) -> io::Result<Self> {
        let mut sink = create(Format::Json, Box::new(lines.clone()), &Options::default());
        sink.begin(columns)?;
        Ok(Self { lines, sink, rows: 0, ends: None })
    }
}

impl TakeRows for LineTaker {
    fn rows(&mut self, rows: &Batch) -> io::Result<bool> {
        let count = rows.rows().min(ROWS_MAX - self.rows);
        self.sink.rows(rows, 0..count)?;
        self.sink.flush()?;
        self.rows += count;
        if let Some((columns, known, span)) = &self.ends {
            known.add(columns, rows, count, *span);
        }
        Ok(self.rows < ROWS_MAX && self.lines.lock().len() < ROW_BYTES_MAX)
    }

    fn pause(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn end(&mut self) -> io::Result<()> {
        self.sink.end()
    }
}
