//! Copies the packets of a recorder that match filters into captures.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use weir::io::{CaptureReader, Findings, PcapngWriter};
use weir::packet::Timestamp;
use weir::{Ask, Compiler, Item, Need, Next, Options, Question, Shape, TakeItems, Want};
use weir_questions::Input;
use weir_questions::messages::Failure;
use weir_questions::output::FileBudget;
use weir_questions::run::{Plan, RunSettings};

/// Memory of a copy: for the connections that filters ask about.
const MEMORY: &str = "256M";

/// Packets that are copied, and where to.
pub struct Copy<'a, W: Write> {
    /// The packets.
    pub filter: String,
    /// The time of the first one.
    pub from: Timestamp,
    pub writer: &'a mut PcapngWriter<W>,
    /// Counts the packets.
    pub packets: &'a mut u64,
    /// Packets without room are left out. `None`: the writer bounds itself.
    pub room: Option<&'a mut Room>,
}

/// Bytes that a file takes for a packet beside its frame and its options.
const BLOCK_BYTES: usize = 32;
/// A file gets this part of the budget of its directory: one connection does not take everything.
const FILE_PART: u64 = 8;

/// The room of a file with packets.
pub struct Room {
    budget: Arc<FileBudget>,
    left_bytes: u64,
    is_cut: bool,
}

impl Room {
    /// The room of a file that the budget has admitted.
    pub fn new(budget: Arc<FileBudget>) -> Self {
        let left_bytes = budget.bounds().bytes / FILE_PART;
        Self { budget, left_bytes, is_cut: false }
    }

    /// Whether packets were left out.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Takes room for a packet. Once there was none for one, there is none for later ones.
    fn take(&mut self, bytes: usize) -> bool {
        let bytes = bytes + BLOCK_BYTES;
        if self.is_cut {
            return false;
        }
        let has_room = self.left_bytes >= bytes as u64 && self.budget.take(bytes) == bytes;
        if has_room {
            self.left_bytes -= bytes as u64;
        } else {
            self.is_cut = true;
            self.budget.cut();
        }
        has_room
    }
}

/// The question for the packets that a filter selects.
fn ask(filter: &str) -> Ask {
    let need = Need { packets: true, ..Need::default() };
    Ask { filter: filter.to_string(), need, want: Want::Packets }
}

/// Checks that packets can be copied with a filter: a filter without mistakes may still be too large.
///
/// # Errors
/// There is no program for the filter.
pub fn check(compiler: &Compiler, filter: &str) -> Result<(), Failure> {
    compiler.compile(&[ask(filter)], &Options { narrow: true, ..Options::default() })?;
    Ok(())
}

/// Writes the packets of `reader` to the copies whose filters they match. Blocks as long as the reader, or a
/// writer, does.
///
/// # Errors
/// A filter has mistakes; the packets cannot be read or written.
pub fn copy_packets<W: Write + Send>(
    reader: CaptureReader,
    compiler: &Compiler,
    mut copies: Vec<Copy<'_, W>>,
) -> Result<(), Failure> {
    // Findings of an earlier reader have the same interfaces.
    let findings = Findings::default();
    copies.iter_mut().for_each(|copy| copy.writer.follow(findings.follow()));
    let mut reader = reader.with_findings(findings);
    let shape = Shape { frames: true, options: true, ..Shape::default() };
    let questions = copies.iter().map(|copy| Question::new(ask(&copy.filter), shape)).collect();
    let input = Input { memory: Some(MEMORY.to_string()), ..Input::default() };
    let settings = RunSettings { is_narrow: true, ..RunSettings::default() };
    let mut run = Plan::with(&input, compiler.clone(), settings, &[])?.begin();
    let error = Arc::<Mutex<Option<io::Error>>>::default();
    run.subscribe(questions, Taker { copies, error: Arc::clone(&error) })?;
    let outcome = run.over(&mut reader, &mut |_| {})?;
    drop(run);
    if let Some(error) = error.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(Failure::new(error));
    }
    outcome.errors.first().map_or(Ok(()), |error| Err(Failure::new(error.to_string())))
}

/// Writes packets.
struct Taker<'a, W: Write> {
    copies: Vec<Copy<'a, W>>,
    /// The first error ends the run.
    error: Arc<Mutex<Option<io::Error>>>,
}

impl<W: Write + Send> Taker<'_, W> {
    fn flush(&mut self) -> io::Result<()> {
        self.copies.iter_mut().try_for_each(|copy| copy.writer.flush())
    }

    /// The first error ends the run.
    fn go_on(&self, written: io::Result<()>) -> Next {
        match written {
            Ok(()) => Next::Go,
            Err(error) => {
                *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Next::End
            }
        }
    }
}

impl<W: Write + Send> TakeItems for Taker<'_, W> {
    fn take(&mut self, question: usize, item: Item<'_>) -> Next {
        let written = match item {
            Item::Packet { meta, frame, options, .. } => match self.copies.get_mut(question) {
                Some(copy) if meta.time >= copy.from => {
                    let bytes = frame.len() + options.len();
                    match copy.room.as_mut().is_none_or(|room| room.take(bytes)) {
                        true => {
                            *copy.packets += 1;
                            copy.writer.write_with_options(&meta, &frame, &options)
                        }
                        false => Ok(()),
                    }
                }
                _ => Ok(()),
            },
            Item::Pause => self.flush(),
            _ => Ok(()),
        };
        self.go_on(written)
    }

    fn finish(&mut self, _: Option<weir::RunEnd<'_>>) {
        let flushed = self.flush();
        self.go_on(flushed);
    }
}
