//! The destination of a question's answers: opens the output, and writes batches of answers to it. Everything
//! here runs on the thread of the output.

use crate::form::Form;
use crate::messages::failure::Failure;
use crate::metrics::totals::{Loss, QuestionCounters, RunTotals};
use crate::output::export::{self, Export, Target};
use crate::output::instances::Instances;
use crate::output::leftovers;
use crate::output::outlets::ClientTerms;
use crate::output::part::Part;
use crate::output::place::{self, FileId};
use crate::output::rotation::{Rotating, Rotation, Turn};
use crate::output::tagged_sink::Named;
use crate::rows::resolved::MakeLines;
use crate::source::input;
use crate::spec::Stdout;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir::io::outlet::{Load, Paced, Pulse};
use weir::io::tcp::{self, Endpoint};
use weir::io::udp;
use weir::io::{
    CaptureClients, CaptureFormat, CaptureWriter, ClientEvent, ClientLoss, Compressed, Compression,
    Following, Format, Partitions, WholeFile, Written, sink,
};
use weir::packet::{self, Column, PacketMeta, RowSink, Timestamp};
use weir_guard::files;

/// A packet for a capture file.
pub struct Packet {
    pub meta: PacketMeta,
    pub frame: Vec<u8>,
    pub options: Vec<u8>,
    /// The number of its key.
    pub key: u64,
}

impl Packet {
    /// The packet as it is sent over UDP.
    fn to_send(&self) -> udp::Packet<'_> {
        let PacketMeta { time, wire_bytes, link, .. } = self.meta;
        udp::Packet { time, wire_bytes, link, frame: &self.frame }
    }

    /// Bytes of memory that the packet uses.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.frame.len() + self.options.len()
    }
}

/// Answers that are written together.
pub enum Batch {
    Rows(packet::Batch),
    Packets(Vec<Packet>),
}

impl Batch {
    /// The number of answers.
    fn rows(&self) -> u64 {
        match self {
            Self::Rows(rows) => rows.rows() as u64,
            Self::Packets(packets) => packets.len() as u64,
        }
    }
}

/// Everything needed to open an output.
pub struct Opening {
    pub form: Form,
    pub log: &'static str,
    pub columns: Vec<Column>,
    pub lines: Option<MakeLines>,
    /// Findings of the reader, which a pcapng file stores beside packets.
    pub findings: Option<Following>,
    pub stdout: Stdout,
    /// CSV without formulas.
    pub csv_safe: bool,
    /// A table shows local times; a table shows microseconds.
    pub local: bool,
    pub precise: bool,
    /// A table need not fit the terminal.
    pub is_wide: bool,
    /// When a temporary file replaces the output, if it is a file.
    pub publish: Publish,
    /// The output becomes a sequence of files.
    pub rotation: Option<Rotation>,
    /// When the clock ends a file of this sequence.
    pub turn: Arc<Turn>,
    /// For reports of progress, if a blocked output is not waited for.
    pub pulse: Option<Pulse>,
    /// How clients are waited for, if they receive the answers.
    pub clients: ClientTerms,
    /// How rows are sent to another machine.
    pub export: export::Options,
}

/// When the file of an output gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    /// At once: the output itself is opened.
    Directly,
    /// When its beginning is written, so that there is always a readable file.
    Begun,
    /// When it is complete. Until then, and if there are no answers, an existing file stays as it is.
    Complete,
}

enum Writer {
    Unopened,
    Rows(Box<dyn RowSink + Send>),
    Capture(CaptureWriter),
    /// Packets go to all clients that are connected.
    Clients(CaptureClients),
    /// Packets go to instances, each to the one that has its key.
    Instances(Instances),
    /// Answers are only counted; the number is written at the end.
    Count,
    Closed,
}

/// An output, opened by its first answers.
pub struct Destination {
    /// Name of the question, if the run has several.
    name: Option<String>,
    output: Option<PathBuf>,
    opening: Opening,
    writer: Writer,
    part: Option<Part>,
    /// The regular file that is open.
    file: Option<FileId>,
    /// A capture has begun: further ones are those of other files.
    is_begun: bool,
    rotating: Option<Rotating>,
    /// Files of killed runs are completed once.
    has_looked_for_leftovers: bool,
    /// What another machine did not accept.
    export: Option<Export>,
    totals: RunTotals,
    counters: Arc<QuestionCounters>,
    /// Tells the question that its output has failed.
    has_failed: Arc<AtomicBool>,
}

impl Destination {
    /// The destination `output` of the question `name`; no output is standard output.
    pub fn new(
        name: Option<String>,
        output: Option<PathBuf>,
        opening: Opening,
        (totals, counters): (RunTotals, Arc<QuestionCounters>),
        has_failed: Arc<AtomicBool>,
    ) -> Self {
        let writer = if opening.form == Form::Count { Writer::Count } else { Writer::Unopened };
        let rotating = opening
            .rotation
            .zip(output.clone())
            .map(|(terms, output)| Rotating::new(terms, output, Arc::clone(&opening.turn)));
        Self {
            name,
            output,
            opening,
            writer,
            part: None,
            file: None,
            is_begun: false,
            rotating,
            has_looked_for_leftovers: false,
            export: None,
            totals,
            counters,
            has_failed,
        }
    }

    /// Opens the output unless it is open: creates or truncates the file. A sequence of files begins with its
    /// first answer.
    ///
    /// # Errors
    /// The output cannot be opened. Its question has then ended.
    pub fn open(&mut self) -> Result<(), Failure> {
        match self.writer {
            Writer::Unopened if self.rotating.is_some() => {}
            Writer::Unopened => {
                self.writer = self.opened().inspect_err(|_| self.has_failed.store(true, Ordering::Relaxed))?
            }
            Writer::Closed => {
                return Err(Failure::new(format!(
                    "{}: the output has failed",
                    place::name_of(self.output.as_deref())
                )));
            }
            Writer::Rows(_)
            | Writer::Capture(_)
            | Writer::Clients(_)
            | Writer::Instances(_)
            | Writer::Count => {}
        }
        Ok(())
    }

    /// Writes answers, and flushes the output for its reader.
    pub fn write(&mut self, batch: Batch, is_flushed: bool) {
        let rows = batch.rows();
        if matches!(self.writer, Writer::Closed) {
            self.counters.add_lost(rows);
            return;
        }
        let written = match self.rotating {
            Some(_) => self.write_in_turn(batch),
            None => self.open().and_then(|()| self.write_batch(batch).map_err(|e| self.unwritten(&e))),
        };
        let flushed = written.and_then(|()| match is_flushed {
            true => self.flush().map_err(|e| self.unwritten(&e)),
            false => Ok(()),
        });
        if flushed.is_err() {
            // Some may be written: nobody knows how many.
            self.counters.add_lost(rows);
        }
        self.keep_failure(flushed);
    }

    /// Completes the file, and begins another one, if the file was renamed or deleted: so that logrotate(8)
    /// can move files away.
    pub fn reopen(&mut self) {
        let (Some(path), Some(file)) = (&self.output, &self.file) else { return };
        // Lines are made once, a sequence of files needs no help, and an output that has ended does not begin
        // again.
        let can_begin_again = matches!(
            (&self.writer, self.opening.form),
            (Writer::Rows(_), Form::Rows(_)) | (Writer::Capture(_), Form::Capture(_))
        );
        if self.rotating.is_some() || !can_begin_again || place::file_id(path).as_ref() == Some(file) {
            return;
        }
        let reopened = self.finish_writer(0).and_then(|()| {
            self.writer = Writer::Unopened;
            self.open()
        });
        self.keep_failure(reopened);
    }

    /// The time is now at least `now`, in nanoseconds since 1970: completes the file whose period is over.
    pub fn pass_time(&mut self, now: i64) {
        if matches!(self.writer, Writer::Closed) {
            return;
        }
        if self.rotating.as_mut().is_some_and(|rotating| rotating.pass_to(now)) {
            let completed = self.complete_file();
            self.keep_failure(completed);
        }
    }

    /// Writes rows that have waited for long, as far as the format lets them wait.
    pub fn keep_rows(&mut self) {
        if let Writer::Rows(sink) = &mut self.writer {
            let kept = sink.flush().map_err(|error| self.unwritten(&error));
            self.keep_failure(kept);
        }
    }

    /// Completes the output; `count` is the number of answers.
    pub fn complete(&mut self, count: u64) {
        if matches!(self.writer, Writer::Closed) {
            return;
        }
        let completed = match self.rotating {
            Some(_) => self.complete_file(),
            None => self.complete_output(count),
        };
        self.keep_failure(completed);
        self.writer = Writer::Closed;
    }

    /// Reports a failure, and closes the output.
    fn keep_failure(&mut self, done: Result<(), Failure>) {
        let Err(failure) = done else { return };
        self.totals.add_fault_of(self.name.as_deref(), failure);
        self.has_failed.store(true, Ordering::Relaxed);
        self.writer = Writer::Closed;
        // The incomplete temporary file stays, and does not replace the target.
        self.part.take().into_iter().for_each(Part::keep);
    }

    fn unwritten(&self, error: &io::Error) -> Failure {
        match &self.output {
            Some(path) if Endpoint::is_named(path) && has_left(error.kind()) => {
                note!("weir: {}: the receiver has closed the connection", path.display());
                Failure::BrokenPipe
            }
            Some(path) => Failure::writing(path.display(), error),
            None => Failure::from(io::Error::new(error.kind(), error.to_string())),
        }
    }

    fn opened(&mut self) -> Result<Writer, Failure> {
        if self.opening.form == Form::Count {
            return Ok(Writer::Count);
        }
        let options = place::options(self.opening.log, self.output.as_deref(), self.opening.stdout);
        let Opening { csv_safe, local, precise, is_wide, .. } = self.opening;
        // A table of all columns is as wide as they are.
        let width = options.width.filter(|_| !is_wide);
        let options = sink::Options { csv_safe, local, precise, width, ..options };
        let writer = match self.opening.form {
            Form::Rows(format) => Writer::Rows(self.rows(format, &options)?),
            Form::Lines { color } => {
                let make = self.opening.lines.take();
                let make = make.ok_or_else(|| Failure::new("the question has no lines of its own"))?;
                Writer::Rows(make(self.stream()?, color))
            }
            Form::Capture(format) if let Some(Endpoint::Listen { address, port }) = self.endpoint()? => {
                Writer::Clients(self.clients(format, address, port)?)
            }
            Form::Capture(_) if let Some(Endpoint::Datagrams(name)) = self.endpoint()? => {
                Writer::Instances(Instances::open(&name).map_err(|error| self.unsent(&error))?)
            }
            Form::Capture(format) => {
                let writer = CaptureWriter::new(format, self.stream()?);
                let findings = match self.is_begun {
                    // A further file also has the names and secrets so far.
                    true => self.opening.findings.as_ref().map(Following::anew),
                    false => self.opening.findings.clone(),
                };
                self.is_begun = true;
                Writer::Capture(match findings {
                    Some(findings) => writer.with_findings(findings),
                    None => writer,
                })
            }
            Form::Count => Writer::Count,
        };
        let Writer::Rows(mut sink) = writer else { return Ok(writer) };
        sink.begin(&self.opening.columns).map_err(|e| self.unwritten(&e))?;
        if self.opening.publish == Publish::Begun {
            self.publish()?;
        }
        Ok(Writer::Rows(sink))
    }

    /// The sink of rows.
    fn rows(&mut self, format: Format, options: &sink::Options) -> Result<Box<dyn RowSink + Send>, Failure> {
        if let Some(target) = self.output.as_deref().and_then(Target::of) {
            return self.exported(target?, format, options);
        }
        if let Some(directory) = self.output.as_deref().filter(|path| place::is_directory(path)) {
            let partitions = Partitions::new(directory, format, options).map_err(Failure::new)?;
            return Ok(Box::new(partitions));
        }
        place::refuse_terminal(format, self.output.as_deref(), self.opening.stdout)?;
        if self.output.is_some() {
            let file = self.file()?;
            return Ok(match is_regular(&file) && self.compression().is_none() {
                true => sink::create_in_file(format, file, options, self.written()),
                false => sink::create(format, self.written_to(file), options),
            });
        }
        let sink = sink::create(format, self.stream()?, options);
        Ok(match &self.name {
            Some(name) if format == Format::Json => Box::new(Named::new(name, sink)),
            _ => sink,
        })
    }

    /// The sink of rows for another machine.
    fn exported(
        &mut self,
        target: Target,
        format: Format,
        options: &sink::Options,
    ) -> Result<Box<dyn RowSink + Send>, Failure> {
        let Opening { export, columns, clients, pulse, .. } = &self.opening;
        let name = place::name_of(self.output.as_deref());
        let opened = Export::new(name, export.clone(), Arc::clone(&self.counters), pulse.clone());
        let sink = opened.open(&target, columns, &clients.patience, format, options)?;
        self.export = Some(opened);
        Ok(sink)
    }

    /// Reports the rows that another machine did not accept.
    fn add_export_losses(&mut self) {
        let lost = self.export.take().map_or(0, |export| export.lost_rows());
        if lost > 0 {
            let (question, output) = (self.name.clone(), place::name_of(self.output.as_deref()));
            self.totals.add_loss(Loss { question, output, rows: lost, why: export::REFUSED });
        }
    }

    /// The output as a stream of bytes.
    fn stream(&mut self) -> Result<Box<dyn Write + Send>, Failure> {
        if let (Some(Endpoint::Connect { host, port }), Some(path)) = (self.endpoint()?, &self.output) {
            let connection = tcp::connect_to(&host, port);
            let failed = |error| Failure::new(format!("{}: {error}", path.display()));
            return Ok(self.paced(connection.map_err(failed)?));
        }
        let file = self.file()?;
        Ok(self.written_to(file))
    }

    /// A file, pipe or device, whose contents are compressed if its name says so.
    fn written_to(&mut self, file: File) -> Box<dyn Write + Send> {
        let out = match (is_regular(&file), &self.output) {
            (false, _) => self.paced(file),
            (true, Some(_)) => Box::new(WholeFile::new(file, self.written())),
            // Others may write to the same file.
            (true, None) => Box::new(file),
        };
        match self.compression() {
            Some(kind) => Box::new(Compressed::new(out, kind)),
            None => out,
        }
    }

    fn compression(&self) -> Option<Compression> {
        self.output.as_deref().and_then(Compression::of_path)
    }

    /// Begins to count the bytes of a file.
    fn written(&mut self) -> Written {
        self.rotating.as_mut().map(Rotating::begin).unwrap_or_default()
    }

    /// A pipe, device or connection, whose reader may be slow.
    fn paced(&self, out: impl Write + Send + 'static) -> Box<dyn Write + Send> {
        match self.opening.pulse.clone() {
            Some(pulse) => Box::new(Paced::new(out, pulse)),
            None => Box::new(out),
        }
    }

    /// The TCP connection of the output, if it is no file.
    fn endpoint(&self) -> Result<Option<Endpoint>, Failure> {
        self.output.as_deref().map_or(Ok(None), place::endpoint)
    }

    /// Begins to accept clients. If files are read, waits for the first client.
    fn clients(
        &mut self,
        format: CaptureFormat,
        address: Option<IpAddr>,
        port: u16,
    ) -> Result<CaptureClients, Failure> {
        let path = self.output.clone().unwrap_or_default();
        let name = path.display().to_string();
        let ClientTerms { patience, waits_for_first, handover } = self.opening.clients.clone();
        let listener = match handover.take(&Endpoint::Listen { address, port }) {
            Some(clients) if clients.format() == format => {
                note!("weir: {name}: clients stay connected");
                return Ok(clients);
            }
            // A client cannot receive two formats.
            Some(clients) => {
                let (listener, ended) = clients.end();
                self.add_losses(&ended.map_err(|error| self.unwritten(&error))?);
                listener
            }
            None => None,
        };
        let listener = listener.map_or_else(|| place::listen(&path, address, port), Ok)?;
        let addresses = input::addresses(&listener.addresses());
        note!("weir: {name}: waiting for clients on {addresses}");
        let report = move |event| match event {
            ClientEvent::Connected(client) => note!("weir: {name}: client {client} is connected"),
            ClientEvent::Left(client) => note!("weir: {name}: client {client} has left"),
            ClientEvent::Rejected(client) => note!("weir: {name}: client {client} is one too many"),
        };
        let findings = self.opening.findings.take();
        let clients = CaptureClients::start(listener, format, findings, patience, report);
        let clients = clients.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        if waits_for_first {
            clients.wait_for_one();
        }
        Ok(clients)
    }

    /// Opens the file, or standard output.
    fn file(&mut self) -> Result<File, Failure> {
        let Some(path) = self.output.clone() else { return place::open(None) };
        let file = self.create(&path)?;
        self.file = file.metadata().ok().filter(Metadata::is_file).map(|about| FileId::of(&about));
        Ok(file)
    }

    fn create(&mut self, path: &Path) -> Result<File, Failure> {
        // A temporary file would not replace what a descriptor leads to.
        let is_opened_itself = self.opening.publish == Publish::Directly || files::is_own_descriptor(path);
        if is_opened_itself || place::is_special(path) {
            return place::open(Some(path));
        }
        if !std::mem::replace(&mut self.has_looked_for_leftovers, true) {
            leftovers::complete(path, self.opening.form);
        }
        let created = Part::create(path).map_err(|e| Failure::writing(path.display(), &e));
        created.map(|(file, part)| {
            self.part = Some(part);
            file
        })
    }

    /// Reports packets that clients did not accept.
    fn add_losses(&self, losses: &[ClientLoss]) {
        let output = place::name_of(self.output.as_deref());
        self.totals.add_client_losses(self.name.as_deref(), &output, losses);
    }

    /// Completes the captures of all clients, unless another output takes the clients over.
    fn finish_clients(&self, clients: CaptureClients) -> io::Result<()> {
        let left = match self.endpoint() {
            Ok(Some(endpoint)) => self.opening.clients.handover.leave(endpoint, clients),
            _ => Err(clients),
        };
        let Err(clients) = left else { return Ok(()) };
        clients.finish().map(|losses| self.add_losses(&losses))
    }

    /// Replaces the output by the temporary file.
    fn publish(&mut self) -> Result<(), Failure> {
        let Some(part) = self.part.take() else { return Ok(()) };
        part.publish().map_err(|e| self.unwritten(&e))
    }

    fn unsent(&self, error: &io::Error) -> Failure {
        Failure::new(format!("{}: {error}", place::name_of(self.output.as_deref())))
    }

    /// Changes the instances of an output `udp://`. Packets so far go to the previous ones.
    ///
    /// # Errors
    /// The new instances cannot be opened: the previous ones stay.
    pub fn change_instances(&mut self, to: PathBuf) -> Result<(), Failure> {
        let Some(Endpoint::Datagrams(name)) = place::endpoint(&to)? else {
            return Err(Failure::new(format!("{}: write udp://HOST:PORT,HOST:PORT", to.display())));
        };
        if let Writer::Instances(instances) = &mut self.writer {
            instances.change(&name).map_err(|error| Failure::new(format!("{}: {error}", to.display())))?;
        }
        self.output = Some(to);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.writer {
            Writer::Instances(instances) => {
                instances.flush(&self.counters);
                Ok(())
            }
            Writer::Rows(sink) => sink.flush(),
            Writer::Capture(writer) => writer.flush(),
            _ => Ok(()),
        }
    }

    /// Writes answers to a sequence of files.
    fn write_in_turn(&mut self, batch: Batch) -> Result<(), Failure> {
        match batch {
            Batch::Rows(rows) => {
                for index in 0..rows.rows() {
                    let time = self.rotating.as_ref().and_then(|rotating| rotating.time_of(rows.row(index)));
                    self.turn(time)?;
                    if let Writer::Rows(sink) = &mut self.writer {
                        sink.rows(&rows, index..index + 1).map_err(|e| self.unwritten(&e))?;
                    }
                }
                Ok(())
            }
            Batch::Packets(packets) => packets.into_iter().try_for_each(|packet| {
                self.turn(Some(packet.meta.time))?;
                let Writer::Capture(writer) = &mut self.writer else { return Ok(()) };
                let written = writer.write_with_options(&packet.meta, &packet.frame, &packet.options);
                written.map_err(|e| self.unwritten(&e))
            }),
        }
    }

    /// Before an answer of this time: ends the current file if it is due, and begins the next one.
    fn turn(&mut self, time: Option<Timestamp>) -> Result<(), Failure> {
        if self.rotating.as_mut().is_some_and(|rotating| rotating.pass_until(time)) {
            self.complete_file()?;
        }
        if matches!(self.writer, Writer::Unopened) {
            self.writer = self.opened()?;
        }
        Ok(())
    }

    /// Completes the current file of a sequence, if there is one, and gives it its name.
    fn complete_file(&mut self) -> Result<(), Failure> {
        self.finish_writer(0)?;
        self.writer = Writer::Unopened;
        self.rotating.iter().for_each(Rotating::rest);
        let (Some(part), Some(rotating)) = (self.part.take(), &self.rotating) else { return Ok(()) };
        for error in rotating.publish(part).map_err(|e| self.unwritten(&e))? {
            note!("weir: an old file cannot be deleted: {error}");
        }
        Ok(())
    }

    fn write_batch(&mut self, batch: Batch) -> io::Result<()> {
        match (&mut self.writer, batch) {
            (Writer::Rows(sink), Batch::Rows(rows)) => sink.batch(&rows),
            (Writer::Capture(writer), Batch::Packets(packets)) => {
                let mut packets = packets.iter();
                packets.try_for_each(|p| writer.write_with_options(&p.meta, &p.frame, &p.options))
            }
            (Writer::Instances(instances), Batch::Packets(packets)) => {
                let keyed = packets.iter().map(|packet| (packet.to_send(), packet.key));
                instances.write(keyed, &self.counters);
                Ok(())
            }
            (Writer::Clients(clients), Batch::Packets(packets)) => {
                let bytes = packets.iter().map(Packet::bytes).sum();
                let load = Load { rows: packets.len() as u64, bytes };
                let write = move |writer: &mut CaptureWriter| {
                    let mut packets = packets.iter();
                    packets.try_for_each(|p| writer.write_with_options(&p.meta, &p.frame, &p.options))
                };
                clients.send(load, Arc::new(write))
            }
            _ => Ok(()),
        }
    }

    fn complete_output(&mut self, count: u64) -> Result<(), Failure> {
        // A question without answers creates no output that replaces another one only when it is complete.
        let is_unopened = matches!(self.writer, Writer::Unopened);
        if is_unopened && self.opening.publish == Publish::Complete {
            return Ok(());
        }
        self.open()?;
        self.finish_writer(count)?;
        self.publish()
    }

    /// Completes what is being written.
    fn finish_writer(&mut self, count: u64) -> Result<(), Failure> {
        let written = match std::mem::replace(&mut self.writer, Writer::Closed) {
            Writer::Rows(mut sink) => sink.end(),
            Writer::Capture(writer) => writer.finish(),
            Writer::Clients(clients) => self.finish_clients(clients),
            Writer::Instances(instances) => {
                let output = place::name_of(self.output.as_deref());
                instances.finish(&self.counters, |rows, why| {
                    let (question, output) = (self.name.clone(), output.clone());
                    self.totals.add_loss(Loss { question, output, rows, why });
                });
                Ok(())
            }
            Writer::Count => {
                let mut out = self.stream()?;
                writeln!(out, "{count}").and_then(|()| out.flush())
            }
            Writer::Unopened | Writer::Closed => Ok(()),
        };
        self.add_export_losses();
        written.map_err(|e| self.unwritten(&e))
    }
}

/// Whether an error says that the other end has closed the connection.
fn has_left(error: io::ErrorKind) -> bool {
    matches!(
        error,
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted
    )
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|about| about.is_file())
}
