//! Copies the packets of a recorder that match filters into captures.

use crate::failure::Failure;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use weir::io::{CaptureReader, Findings, PcapngWriter};
use weir::packet::Timestamp;
use weir::{Compiler, Engine, Item, Need, Next, Options, Question, Shape, TakeItems, Want};

/// Packets that are copied, and where to.
pub struct Copy<'a, W: Write> {
    /// The packets.
    pub filter: String,
    /// The time of the first one.
    pub from: Timestamp,
    pub writer: &'a mut PcapngWriter<W>,
    /// Counts the packets.
    pub packets: &'a mut u64,
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
    let need = Need { packets: true, ..Need::default() };
    let shape = Shape { frames: true, options: true, ..Shape::default() };
    let question = |copy: &Copy<'_, W>| {
        Question::new(weir::Ask { filter: copy.filter.clone(), need, want: Want::Packets }, shape)
    };
    let questions = copies.iter().map(question).collect();
    let mut engine = Engine::with(compiler.clone(), Options { narrow: true, ..Options::default() });
    let error = Arc::<Mutex<Option<io::Error>>>::default();
    engine.subscribe_questions(questions, Taker { copies, error: Arc::clone(&error) })?;
    let outcome = engine.run(&mut reader, 1)?;
    drop(engine);
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
                    *copy.packets += 1;
                    copy.writer.write_with_options(&meta, &frame, &options)
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
