//! Collects the answers of a question in batches, and sends them to the thread of its output.

use crate::form::Form;
use crate::messages::failure::Failure;
use crate::metrics::totals::{BLOCKED, Loss, QuestionCounters, RunTotals};
use crate::output::destination::{Batch, Destination, Opening, Packet, Publish};
use crate::output::export;
use crate::output::outlets::Outlets;
use crate::output::place;
use crate::output::rotation::{Rotation, Turn};
use crate::rows::resolved::{Counted, Resolved};
use crate::rows::shown_rows::{AddRows, ShownRows, each_part};
use crate::rows::view::View;
use crate::spec::{QuestionSpec, Stdout};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir::io::outlet::{Load, Refused};
use weir::io::{CaptureFormat, Findings, Format, Outlet};
use weir::packet::{self, Column};
use weir::{Item, Next, QuestionLosses, RunEnd, TakeItems};

/// Size of a batch in bytes: the answer that reaches it ends the batch.
const BATCH_BYTES: usize = 32 << 10;

/// Live packets to instances wait for others for this time of the capture: an interface with steady traffic
/// has no pause.
const PACKET_WAIT_NS: u64 = 5_000_000;

/// The output of a question.
#[derive(Clone)]
pub struct QuestionOutput {
    outlet: Arc<Outlet>,
    destination: Arc<Mutex<Destination>>,
    /// If the output is divided into files: when the current one ends.
    turn: Option<Arc<Turn>>,
    /// The time of a live run, in nanoseconds since 1970; 0 without one.
    now: Arc<AtomicI64>,
    totals: RunTotals,
}

impl QuestionOutput {
    /// Executes `job` on the thread of the output.
    fn post(&self, job: impl FnOnce(&mut Destination) + Send + 'static) {
        let destination = Arc::clone(&self.destination);
        let posted = self.outlet.post(Box::new(move || job(&mut lock(&destination))));
        posted.err().into_iter().for_each(|refused| self.totals.add_fault(no_thread(&refused)));
    }

    /// Opens the output now, unless its first answers have already done so. Returns whether it is open: an
    /// output that waits for its reader, such as a named pipe, is not open after `limit`.
    ///
    /// # Errors
    /// The output cannot be opened.
    pub fn open(&self, limit: Duration) -> Result<bool, Failure> {
        let (sender, opened): (_, Receiver<Result<(), Failure>>) = channel();
        self.post(move |destination| {
            // The receiver may have given up.
            let _ = sender.send(destination.open());
        });
        match opened.recv_timeout(limit) {
            Ok(opened) => opened.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Opens the output again if its file was renamed or deleted since.
    pub fn reopen(&self) {
        self.post(Destination::reopen);
    }

    /// Changes the instances to which packets go, between two batches. Waits for the end of the batches
    /// before.
    ///
    /// # Errors
    /// The new instances cannot be opened, and the previous ones stay; or the output is blocked.
    pub fn change_instances(&self, to: PathBuf, limit: Duration) -> Result<(), Failure> {
        let (sender, changed): (_, Receiver<Result<(), Failure>>) = channel();
        self.post(move |destination| {
            // The receiver may have given up.
            let _ = sender.send(destination.change_instances(to));
        });
        changed.recv_timeout(limit).unwrap_or_else(|_| Err(Failure::new("the output is blocked")))
    }

    /// Tells a live run the time since 1970, in nanoseconds. Completes the current file if its time is over.
    /// A busy output is left alone: its own rows show the time. An idle one does nothing before that.
    pub fn pass_time(&self, now: i64) {
        self.now.store(now, Ordering::Relaxed);
        if self.turn.as_ref().is_some_and(|turn| self.outlet.is_idle() && turn.pass(now)) {
            self.post(move |destination| destination.pass_time(now));
        }
    }

    /// Lets an idle output write rows that have waited for long. A busy one does so between its batches.
    pub fn keep_rows(&self) {
        if self.outlet.is_idle() {
            self.post(Destination::keep_rows);
        }
    }

    /// Waits until everything so far is written. (Other questions may go on to write to the same output.)
    ///
    /// # Errors
    /// The size of what is not written after `limit`.
    pub fn wait(&self, limit: Duration) -> Result<(), Load> {
        let (sender, written) = channel();
        self.post(move |_| {
            // The receiver may have given up.
            let _ = sender.send(());
        });
        written.recv_timeout(limit).map_err(|_| self.outlet.waiting())
    }
}

fn lock(destination: &Mutex<Destination>) -> std::sync::MutexGuard<'_, Destination> {
    destination.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_thread(refused: &Refused) -> Failure {
    match refused {
        Refused::Full | Refused::Closed => Failure::new("an output accepts nothing"),
        Refused::Broken(error) => Failure::new(format!("no thread for an output: {error}")),
    }
}

/// What the questions of a run share.
pub struct RunParts<'a> {
    /// Who writes to standard output.
    pub stdout: Stdout,
    /// What the reader finds in captures beside packets.
    pub findings: &'a Findings,
    /// Faults and counts of the outputs.
    pub totals: &'a RunTotals,
    /// The threads of the outputs.
    pub outlets: &'a Outlets,
}

/// How the answers of a question are shown.
pub struct Shown {
    pub view: View,
    pub form: Form,
    /// The output becomes a sequence of files.
    pub rotation: Option<Rotation>,
}

/// The answers of a question.
pub struct Answers {
    output_name: String,
    shown: ShownRows,
    counted: Counted,
    out: Out,
    is_finished: bool,
    /// Packets to instances wait for others for this time, nanoseconds, if they are live.
    packet_wait_ns: Option<u64>,
    /// Number of answers so far.
    count: u64,
}

/// The way of the answers to their output.
struct Out {
    /// Name of the question, if the run has several.
    name: Option<String>,
    form: Form,
    output: QuestionOutput,
    has_failed: Arc<AtomicBool>,
    /// Answers that are not sent yet.
    waiting_rows: packet::Batch,
    waiting_packets: Vec<Packet>,
    packet_bytes: usize,
    /// The output has something to open or flush at the next pause.
    is_pause_due: bool,
    /// Number of answers that the output did not accept.
    lost: u64,
    /// The counts, for those who watch the run.
    counters: Arc<QuestionCounters>,
}

impl Answers {
    /// Answers of a resolved question. `losses`: those of its parts in the engine.
    pub fn new(
        spec: &QuestionSpec,
        resolved: Resolved,
        shown: Shown,
        losses: Vec<Arc<QuestionLosses>>,
        run: &RunParts<'_>,
    ) -> Self {
        let Shown { view, form, rotation } = shown;
        let RunParts { stdout, findings, totals, outlets } = *run;
        // Where all columns are shown, so are all digits.
        let (local, precise) = (spec.local, spec.wide || resolved.brief.is_empty());
        let Resolved { log, rows, counted, lines, .. } = resolved;
        let columns = view.columns.clone();
        let has_findings = form == Form::Capture(CaptureFormat::Pcapng) && spec.instances().is_none();
        let findings = has_findings.then(|| findings.follow());
        let outlet = outlets.of(spec.output.as_deref());
        let publish = match form {
            _ if spec.drops_empty || rotation.is_some() => Publish::Complete,
            Form::Rows(Format::Parquet) => Publish::Begun,
            _ => Publish::Directly,
        };
        let csv_safe = spec.csv_safe;
        let pulse = outlets.patience().is_limited().then(|| outlet.pulse());
        let turn = Arc::<Turn>::default();
        let opening = Opening {
            form,
            log,
            columns,
            lines,
            findings,
            stdout,
            csv_safe,
            local,
            precise,
            is_wide: spec.wide,
            publish,
            rotation,
            turn: Arc::clone(&turn),
            pulse,
            clients: outlets.clients().clone(),
            export: export::Options::of(spec),
        };
        let is_sent_at_once = spec.instances().is_some() && !outlets.clients().waits_for_first;
        let name = (stdout.is_shared).then(|| spec.name.clone());
        let counters = totals.add_question(name.clone().unwrap_or_else(|| spec.ask.clone()), losses);
        let (totals, has_failed) = (totals.clone(), Arc::<AtomicBool>::default());
        let destination = Destination::new(
            name.clone(),
            spec.output.clone(),
            opening,
            (totals.clone(), Arc::clone(&counters)),
            Arc::clone(&has_failed),
        );
        let destination = Arc::new(Mutex::new(destination));
        let out = Out {
            name,
            form,
            output: QuestionOutput {
                outlet,
                destination,
                turn: rotation.map(|_| turn),
                now: Arc::default(),
                totals,
            },
            has_failed,
            waiting_rows: packet::Batch::default(),
            waiting_packets: vec![],
            packet_bytes: 0,
            is_pause_due: publish != Publish::Complete,
            lost: 0,
            counters,
        };
        Self {
            output_name: place::name_of(spec.output.as_deref()),
            shown: ShownRows { rows, view, naming: None },
            counted,
            out,
            is_finished: false,
            packet_wait_ns: is_sent_at_once.then_some(PACKET_WAIT_NS),
            count: 0,
        }
    }

    /// DNS answers, the items of the question with this index, name hosts; `columns` are the columns of their
    /// rows.
    pub fn with_naming(mut self, question: usize, columns: Vec<Column>) -> Self {
        self.shown.naming = Some((question, columns));
        self
    }

    /// The output, for those who wait for it.
    pub fn output(&self) -> QuestionOutput {
        self.out.output.clone()
    }

    fn take_item(&mut self, item: Item<'_>) {
        let (is_pause, mut is_due) = (matches!(item, Item::Pause), false);
        let made = match (self.out.form, item) {
            (Form::Capture(_), Item::Packet { meta, frame, options, key, .. })
                if self.count < self.shown.view.limit =>
            {
                self.count += 1;
                let packet = Packet { meta, frame, options, key };
                self.out.packet_bytes += packet.bytes();
                let first = self.out.waiting_packets.first().map_or(meta.time, |first| first.meta.time);
                is_due = self.packet_wait_ns.is_some_and(|wait| meta.time.since_ns(first) >= wait);
                self.out.waiting_packets.push(packet);
                Ok(())
            }
            (Form::Rows(_) | Form::Lines { .. }, item) => {
                let now = self.out.output.now.load(Ordering::Relaxed);
                self.shown.take(&item, (now > 0).then_some(now), &mut self.count, &mut self.out)
            }
            (Form::Count, item) if self.counted == Counted::Rows => {
                let count = &mut self.count;
                self.shown.rows.item(&item, &mut |_, rows| {
                    *count += rows.len() as u64;
                    Ok(())
                })
            }
            (Form::Capture(_) | Form::Count, _) => Ok(()),
        };
        if let Err(error) = made {
            self.out.fail(Failure::from(error));
        } else if is_pause {
            self.out.pause();
        } else if is_due {
            self.out.send(true);
        } else if self.out.load().bytes >= BATCH_BYTES {
            self.out.send(false);
        }
    }

    /// Sends the last answers.
    fn complete(&mut self, end: Option<&RunEnd<'_>>) {
        let is_counted = self.out.form == Form::Count;
        let is_row = self.counted == Counted::Rows || !is_counted;
        let ended = {
            let mut counted = 0;
            let count = if is_row { &mut self.count } else { &mut counted };
            let to: &mut dyn AddRows = if is_counted { &mut Nowhere } else { &mut self.out };
            self.shown.end(end, count, to)
        };
        let kept = self.shown.view.take_kept();
        let sorted = kept.map_or(Ok(()), |kept| {
            kept.each(&mut |batch, rows, columns| {
                self.count += rows.len() as u64;
                self.out.add(batch, rows, columns)
            })
        });
        let ended = ended.and(sorted);
        if let Err(error) = ended {
            self.out.fail(Failure::from(error));
        }
        if is_counted && self.counted == Counted::Matched {
            self.count = end.and_then(|end| end.matched.first().copied()).unwrap_or(0);
        }
        if self.out.load().rows > 0 {
            self.out.send(false);
        }
        let count = self.count;
        self.out.output.post(move |destination| destination.complete(count));
    }
}

impl AddRows for Out {
    fn add(
        &mut self,
        batch: &packet::Batch,
        rows: Range<usize>,
        columns: Option<&[usize]>,
    ) -> io::Result<()> {
        self.waiting_rows.extend(batch, rows, columns);
        if self.load().bytes >= BATCH_BYTES {
            self.send(false);
        }
        Ok(())
    }
}

/// Rows that are only counted.
struct Nowhere;

impl AddRows for Nowhere {
    fn add(&mut self, _: &packet::Batch, _: Range<usize>, _: Option<&[usize]>) -> io::Result<()> {
        Ok(())
    }
}

impl Out {
    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Reports a failure. The question has then ended.
    fn fail(&self, failure: Failure) {
        self.output.totals.add_fault_of(self.name.as_deref(), failure);
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// The size of the answers that are not sent yet.
    fn load(&self) -> Load {
        let rows = self.waiting_rows.rows() + self.waiting_packets.len();
        Load { rows: rows as u64, bytes: self.waiting_rows.bytes() + self.packet_bytes }
    }

    /// Passes on the answers so far. They may also wait, until the batch is full.
    fn pause(&mut self) {
        let load = self.load();
        // A pause is no answer, but opens the output: whoever watches the file sees that it has no rows yet.
        if (load.rows > 0 || self.is_pause_due) && self.output.outlet.has_room(load) {
            self.send(true);
        }
    }

    fn send(&mut self, is_flushed: bool) {
        let load = self.load();
        let batch = match self.form {
            Form::Capture(_) => {
                self.packet_bytes = 0;
                let room = Vec::with_capacity(self.waiting_packets.len());
                Batch::Packets(std::mem::replace(&mut self.waiting_packets, room))
            }
            _ => {
                let next = packet::Batch::like(&self.waiting_rows);
                Batch::Rows(std::mem::replace(&mut self.waiting_rows, next))
            }
        };
        let destination = Arc::clone(&self.output.destination);
        let job = Box::new(move || lock(&destination).write(batch, is_flushed));
        match self.output.outlet.send(load, job) {
            Ok(()) => self.is_pause_due = !is_flushed,
            Err(Refused::Full | Refused::Closed) => {
                self.lost += load.rows;
                self.counters.add_lost(load.rows);
            }
            Err(refused) => self.fail(no_thread(&refused)),
        }
    }
}

impl TakeItems for Answers {
    fn take(&mut self, question: usize, item: Item<'_>) -> Next {
        if self.shown.learn(question, &item) {
            return Next::Go;
        }
        each_part(item, |part| {
            if !self.out.has_failed() {
                self.take_item(part);
            }
        });
        self.out.counters.set_answers(self.count);
        if self.out.has_failed() || self.shown.is_enough(self.count) { Next::End } else { Next::Go }
    }

    fn finish(&mut self, end: Option<RunEnd<'_>>) {
        // A failed output is already closed.
        if self.out.has_failed() || std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        self.complete(end.as_ref());
        self.out.counters.set_answers(self.count);
        self.shown.view.report();
        if self.out.lost > 0 {
            let (question, output) = (self.out.name.clone(), self.output_name.clone());
            self.out.output.totals.add_loss(Loss { question, output, rows: self.out.lost, why: BLOCKED });
        }
        self.out.output.totals.add_answers(self.count - self.out.lost.min(self.count));
        if let Some(failure) = self.shown.rows.fault() {
            self.out.fail(failure);
        }
    }
}
