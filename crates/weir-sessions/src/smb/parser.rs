//! [`SmbParser`]: parses bytes of both directions into actions.

use super::action::{ShareType, SmbAction, SmbCommand, SmbFile, SmbLogin, SmbShare};
use super::body::{self, Change, Handle, RELATED};
use super::header::{Kind, Message, Seek, command, kind, measure, messages};
use super::tables::{Asked, Pending, Tables};
use super::{ntlm, status};
use crate::frames::{Frame, Frames, Next};
use crate::pe::{self, PeHead};
use crate::{Content, Contents, CutOff, Data, Direction, Progress, Session, SessionParser};
use std::sync::Arc;
use weir_packet::Timestamp;

/// Maximum number of bytes kept of a frame.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// Maximum number of bytes searched for the next message: more than the longest frame.
pub const SEEK_BYTES_MAX: u64 = 32 << 20;

/// Parser state of one direction.
#[derive(Debug, Default)]
struct Side {
    frames: Frames,
    /// Set if message boundaries are unknown.
    seek: Option<Seek>,
    sought_bytes: u64,
    /// The rest of the data of the last message, if it is passed on.
    tail: Option<Tail>,
}

/// Data of a file behind the kept bytes of a frame.
#[derive(Debug)]
struct Tail {
    content: Content,
    /// Offset in the file.
    at_bytes: u64,
    /// Bytes of the frame before the data.
    before_bytes: u64,
    left_bytes: u64,
    is_written: bool,
}

impl Tail {
    /// Takes the next bytes of the frame; returns whether more data follow.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let skipped = usize::try_from(self.before_bytes).unwrap_or(usize::MAX).min(bytes.len());
        self.before_bytes -= skipped as u64;
        let data = &bytes[skipped..];
        let data = &data[..usize::try_from(self.left_bytes).unwrap_or(usize::MAX).min(data.len())];
        if !data.is_empty() {
            self.content.write_at(self.at_bytes, data, self.is_written);
        }
        self.at_bytes = self.at_bytes.saturating_add(data.len() as u64);
        self.left_bytes -= data.len() as u64;
        self.left_bytes > 0
    }

    /// Skips missing bytes of the frame.
    fn lose(&mut self, length_bytes: u64) -> bool {
        let skipped = self.before_bytes.min(length_bytes);
        self.before_bytes -= skipped;
        let lost = self.left_bytes.min(length_bytes - skipped);
        self.at_bytes = self.at_bytes.saturating_add(lost);
        self.left_bytes -= lost;
        if lost > 0 {
            self.content.lose(0);
        }
        self.left_bytes > 0
    }
}

/// Count of encrypted or compressed messages.
#[derive(Debug, Default, Clone, Copy)]
struct Sealed {
    time: Option<Timestamp>,
    messages: u64,
}

/// Parses one connection. Headers distinguish requests from responses, so the client's direction does not
/// matter.
#[derive(Debug, Default)]
pub struct SmbParser {
    sides: [Side; 2],
    tables: Tables,
    dialect: Option<Arc<str>>,
    /// Dialects offered in an SMB 1 NEGOTIATE.
    old_dialects: Vec<String>,
    /// Capture time of the first NEGOTIATE of a negotiation that is not complete.
    negotiate_time: Option<Timestamp>,
    /// The file opened last, which compounded requests may refer to.
    last_opened: Option<Handle>,
    encrypted: Sealed,
    compressed: Sealed,
    contents: Contents,
    cut_off: CutOff,
}

type Sessions = Vec<Box<dyn Session>>;

impl SessionParser for SmbParser {
    fn parse(&mut self, data: &Data<'_>, sessions: &mut Sessions) -> Progress {
        let mut rest = data.bytes;
        loop {
            let side = &mut self.sides[data.from as usize];
            if let Some(tail) = &mut side.tail
                && !tail.take(&rest[..side.frames.skipped(rest)])
            {
                side.tail = None;
            }
            if let Some(seek) = &mut side.seek {
                let Some((before, behind)) = seek.find(rest) else {
                    side.sought_bytes += rest.len() as u64;
                    if side.sought_bytes <= SEEK_BYTES_MAX {
                        return Progress::Wanted;
                    }
                    self.cut_off.sessions += 1;
                    self.finish(sessions);
                    return Progress::Done;
                };
                *side = Side::default();
                // These bytes are shorter than a frame, so the result is always `More`.
                let _ = side.frames.next(&mut &before[..], data.time, MESSAGE_BYTES_MAX, measure);
                rest = &rest[behind..];
            }
            match side.frames.next(&mut rest, data.time, MESSAGE_BYTES_MAX, measure) {
                Next::Frame(frame) => {
                    side.tail = None;
                    if self.take_frame(data.from, &frame, sessions) == Progress::Done {
                        self.finish(sessions);
                        return Progress::Done;
                    }
                }
                Next::More => return Progress::Wanted,
                Next::Lost => *side = Side { seek: Some(Seek::default()), ..Side::default() },
            }
        }
    }

    fn gap(&mut self, from: Direction, length_bytes: u64, _: &mut Sessions) -> Progress {
        let side = &mut self.sides[from as usize];
        match &mut side.seek {
            Some(seek) => *seek = Seek::default(),
            None if side.frames.lose(length_bytes) => {
                if side.tail.as_mut().is_some_and(|tail| !tail.lose(length_bytes)) {
                    side.tail = None;
                }
            }
            None => *side = Side { seek: Some(Seek::default()), ..Side::default() },
        }
        Progress::Wanted
    }

    fn finish(&mut self, sessions: &mut Sessions) {
        let mut rows: Vec<Box<SmbAction>> = Vec::new();
        for pending in self.tables.waiting.take_all() {
            if let Asked::Row(row) = pending.asked {
                rows.push(row);
            }
        }
        rows.extend(self.tables.files.take_all().map(|(_, action)| action));
        rows.iter().filter_map(|row| row.file.as_ref()).for_each(|file| file.end_contents());
        rows.extend(
            self.negotiate_time.take().map(|time| Box::new(SmbAction::new(time, SmbCommand::Negotiate))),
        );
        for (sealed, command) in
            [(&mut self.encrypted, SmbCommand::Encrypted), (&mut self.compressed, SmbCommand::Compressed)]
        {
            if let Some(time) = sealed.time.take() {
                let mut row = Box::new(SmbAction::new(time, command));
                row.messages = std::mem::take(&mut sealed.messages);
                row.dialect.clone_from(&self.dialect);
                rows.push(row);
            }
        }
        rows.sort_by_key(|row| row.time);
        sessions.extend(rows.into_iter().map(|row| row as Box<dyn Session>));
    }

    fn cut_off(&self) -> CutOff {
        CutOff { parts: self.cut_off.parts + self.tables.evicted(), ..self.cut_off }
    }
}

impl SmbParser {
    /// A parser that passes contents of files on.
    pub(super) fn new(contents: &Contents) -> Self {
        Self { contents: contents.clone(), ..Self::default() }
    }

    fn take_frame(&mut self, from: Direction, frame: &Frame<'_>, sessions: &mut Sessions) -> Progress {
        match kind(&frame.bytes) {
            Kind::Two(bytes) => {
                let mut is_cut = false;
                for message in messages(bytes) {
                    is_cut = message.is_followed;
                    self.pass_data_on(from, &message);
                    if message.is_response {
                        self.take_response(frame.time, &message, sessions);
                    } else {
                        self.take_request(frame.time, &message, sessions);
                    }
                }
                self.cut_off.parts += u64::from(is_cut);
            }
            Kind::One(message) => return self.take_old(frame.time, message, sessions),
            Kind::Encrypted => self.encrypted.take(frame.time),
            Kind::Compressed => self.compressed.take(frame.time),
            Kind::Other => {}
        }
        Progress::Wanted
    }

    /// Passes the data of a READ response or a WRITE request on, if somebody asks for contents: the bytes in
    /// the message, and those that follow. Reads the head of an executable at the begin of a file from the
    /// kept bytes of the message.
    fn pass_data_on(&mut self, from: Direction, message: &Message<'_>) {
        let is_written = match (message.command, message.is_response) {
            (command::READ, true) if message.status >> 30 <= 2 && message.status != status::PENDING => false,
            (command::WRITE, false) => true,
            _ => return,
        };
        let Some((place, length)) = body::data_place(message) else { return };
        let data = message.bytes.get(place..).unwrap_or_default();
        let data = &data[..data.len().min(length)];
        let may_be_executable = data.starts_with(b"MZ");
        if self.contents.is_none() && !may_be_executable {
            return;
        }
        let asked = match is_written {
            true => body::request_handle(message).map(|handle| (handle, body::offset(message))),
            false => {
                self.tables.waiting.find(|pending| pending.number == message.number).and_then(|pending| {
                    match pending.asked {
                        Asked::File(handle, offset) => Some((handle, offset)),
                        _ => None,
                    }
                })
            }
        };
        let Some((handle, at_bytes)) = asked else { return };
        let Some(handle) = self.resolve(handle) else { return };
        let is_pipe = |share: &SmbShare| share.share_type == Some(ShareType::Pipe);
        let contents = self.contents.clone();
        let Some(row) = self.tables.file(&handle) else { return };
        let Some(file) = row.file.as_mut().filter(|_| !row.share.as_deref().is_some_and(is_pipe)) else {
            return;
        };
        if may_be_executable && at_bytes == 0 {
            file.executables[usize::from(is_written)] = PeHead::read(data).map(Box::new);
            let is_incomplete = pe::needed(data).is_some_and(|needed| needed > data.len());
            self.cut_off.parts += u64::from(is_incomplete && data.len() < length);
        }
        let slot = &mut file.contents[usize::from(is_written)];
        if slot.is_none() {
            *slot = contents.begin(None);
        }
        let Some(content) = slot.clone() else { return };
        let left_bytes = length as u64;
        let before_bytes = place as u64;
        let mut tail = Tail { content, at_bytes, before_bytes, left_bytes, is_written };
        if tail.take(message.bytes) {
            if message.is_followed {
                // The data exceed the message.
                tail.content.lose(0);
            } else {
                self.sides[from as usize].tail = Some(tail);
            }
        }
    }

    /// Handles an SMB 1 message: only the negotiation of the dialect is read.
    fn take_old(&mut self, time: Timestamp, message: &[u8], sessions: &mut Sessions) -> Progress {
        const NEGOTIATE: u8 = 0x72;
        let (Some(command), Some(flags)) = (message.get(4), message.get(9)) else { return Progress::Wanted };
        if *command != NEGOTIATE {
            return Progress::Done;
        }
        if flags & 0x80 == 0 {
            self.old_dialects = body::old_dialects(message);
            self.negotiate_time.get_or_insert(time);
            return Progress::Wanted;
        }
        let asked_time = self.negotiate_time.take();
        let mut row = SmbAction::new(asked_time.unwrap_or(time), SmbCommand::Negotiate);
        row.status = super::header::read_u32(message, 5);
        row.rtt_ns = asked_time.map(|asked| time.since_ns(asked));
        let choice = body::old_choice(message);
        row.dialect =
            choice.and_then(|choice| self.old_dialects.get(choice)).map(|name| Arc::from(name.as_str()));
        sessions.push(Box::new(row));
        Progress::Done
    }

    fn take_request(&mut self, time: Timestamp, request: &Message<'_>, sessions: &mut Sessions) {
        let row = |command| {
            let mut row = Box::new(SmbAction::new(time, command));
            row.dialect.clone_from(&self.dialect);
            row
        };
        let asked = match request.command {
            command::NEGOTIATE => {
                self.negotiate_time.get_or_insert(time);
                return;
            }
            command::SESSION_SETUP => {
                let mut row = row(SmbCommand::SessionSetup);
                let known = self.tables.login(request.session);
                let mut login = known.map_or_else(SmbLogin::default, |known| (*known).clone());
                ntlm::take_token(body::token(request), &mut login);
                row.login = Some(Arc::new(login));
                Asked::Row(row)
            }
            command::TREE_CONNECT => {
                let mut row = row(SmbCommand::TreeConnect);
                row.login = self.tables.login(request.session);
                let path = body::share_path(request);
                row.share = Some(Arc::new(SmbShare { path, share_type: None }));
                Asked::Row(row)
            }
            command::CREATE => {
                let mut row = row(SmbCommand::Create);
                row.login = self.tables.login(request.session);
                row.share = self.tables.share(request.session, request.tree);
                let (name, is_deleted) = body::create_request(request).unzip();
                let is_deleted = is_deleted.unwrap_or(false);
                row.file = Some(Box::new(SmbFile { name, is_deleted, ..SmbFile::default() }));
                Asked::Row(row)
            }
            command::SET_INFO => {
                let (Some(handle), Some(change)) = (body::request_handle(request), body::change(request))
                else {
                    return;
                };
                Asked::Change(handle, Box::new(change))
            }
            _ => match body::request_handle(request) {
                Some(handle) => Asked::File(handle, body::offset(request)),
                None => return,
            },
        };
        let pending = Pending {
            number: request.number,
            command: request.command,
            time,
            session: request.session,
            tree: request.tree,
            asked,
        };
        self.tables.waiting.push(pending, |oldest| {
            // The outcome of an evicted file operation is unknown.
            if let Asked::Row(row) = oldest.asked {
                sessions.push(row);
            }
        });
    }

    fn take_response(&mut self, time: Timestamp, response: &Message<'_>, sessions: &mut Sessions) {
        // An interim response; the final one follows.
        if response.status == status::PENDING {
            return;
        }
        if response.command == command::NEGOTIATE {
            return self.take_dialect(time, response, sessions);
        }
        let pending = self
            .tables
            .waiting
            .take(|pending| pending.number == response.number && pending.command == response.command);
        let asked_time = pending.as_ref().map(|pending| pending.time);
        let (session, tree) = pending
            .as_ref()
            .map_or((response.session, response.tree), |pending| (pending.session, pending.tree));
        let mut new_row = |command| {
            let mut row = Box::new(SmbAction::new(time, command));
            row.dialect.clone_from(&self.dialect);
            row.login = self.tables.login(session);
            row
        };
        let asked = match (pending.map(|pending| pending.asked), response.command) {
            (Some(asked), _) => asked,
            (None, command::SESSION_SETUP) => Asked::Row(new_row(SmbCommand::SessionSetup)),
            (None, command::TREE_CONNECT) => Asked::Row(new_row(SmbCommand::TreeConnect)),
            (None, command::CREATE) => {
                let mut row = new_row(SmbCommand::Create);
                row.share = self.tables.share(session, tree);
                row.file = Some(Box::default());
                Asked::Row(row)
            }
            _ => return,
        };
        match asked {
            Asked::Row(mut row) => {
                row.status = Some(response.status);
                row.rtt_ns = asked_time.map(|asked| time.since_ns(asked));
                match row.command {
                    SmbCommand::SessionSetup => self.take_login(row, response, sessions),
                    SmbCommand::TreeConnect => self.take_share(row, response, sessions),
                    _ => self.take_opened(row, response, sessions),
                }
            }
            Asked::File(handle, offset) => self.take_done(handle, offset, response, sessions),
            Asked::Change(handle, change) => self.take_change(handle, *change, response),
        }
    }

    fn take_dialect(&mut self, time: Timestamp, response: &Message<'_>, sessions: &mut Sessions) {
        let dialect = body::dialect(response).filter(|_| response.status == status::SUCCESS);
        // "2.???" (any SMB 2): a second negotiation chooses the dialect.
        if dialect == Some(0x02ff) {
            return;
        }
        self.dialect = dialect.map(dialect_name);
        let asked_time = self.negotiate_time.take();
        let mut row = SmbAction::new(asked_time.unwrap_or(time), SmbCommand::Negotiate);
        row.dialect.clone_from(&self.dialect);
        row.status = Some(response.status);
        row.rtt_ns = asked_time.map(|asked| time.since_ns(asked));
        sessions.push(Box::new(row));
    }

    /// A login takes several round trips; the final response yields the row.
    fn take_login(&mut self, mut row: Box<SmbAction>, response: &Message<'_>, sessions: &mut Sessions) {
        let mut login = row.login.take().map_or_else(SmbLogin::default, |login| (*login).clone());
        ntlm::take_token(body::token(response), &mut login);
        let is_over = response.status != status::MORE_PROCESSING_REQUIRED;
        login.is_guest = is_over && body::session_flags(response) & 3 != 0;
        let login = Arc::new(login);
        if !is_over || response.status == status::SUCCESS {
            self.tables.set_login(response.session, &login);
        }
        if is_over {
            row.login = Some(login);
            sessions.push(row);
        }
    }

    fn take_share(&mut self, mut row: Box<SmbAction>, response: &Message<'_>, sessions: &mut Sessions) {
        if response.status == status::SUCCESS {
            let mut share = row.share.take().map_or_else(SmbShare::default, |share| (*share).clone());
            share.share_type = body::share_type(response);
            let share = Arc::new(share);
            if let Some(tree) = response.tree {
                self.tables.set_share(response.session, tree, &share);
            }
            row.share = Some(share);
        }
        sessions.push(row);
    }

    fn take_opened(&mut self, mut row: Box<SmbAction>, response: &Message<'_>, sessions: &mut Sessions) {
        let created = body::create_response(response).filter(|_| response.status == status::SUCCESS);
        let Some(created) = created else {
            self.last_opened = None;
            if let Some(file) = &mut row.file {
                file.is_deleted = false;
            }
            return sessions.push(row);
        };
        if let Some(file) = &mut row.file {
            file.is_open = true;
            file.is_new = created.how == 2;
            file.is_directory = created.is_directory;
            file.times = created.times;
            file.size_bytes = Some(created.size_bytes);
        }
        self.last_opened = Some(created.handle);
        self.tables.files.push((created.handle, row), |(_, oldest)| {
            oldest.file.iter().for_each(|file| file.end_contents());
            self.cut_off.sessions += 1;
            sessions.push(oldest);
        });
    }

    /// Resolves a file id. In compounded requests it may stand for the file opened before.
    fn resolve(&self, handle: Handle) -> Option<Handle> {
        if handle == RELATED { self.last_opened } else { Some(handle) }
    }

    /// Handles the response to an operation on a file.
    fn take_done(&mut self, handle: Handle, offset: u64, response: &Message<'_>, sessions: &mut Sessions) {
        let Some(handle) = self.resolve(handle) else { return };
        // A partial read of a pipe returns a warning, which counts as success.
        if response.status >> 30 > 2 {
            return;
        }
        if response.command == command::CLOSE {
            let Some((_, mut row)) = self.tables.files.take(|(key, _)| *key == handle) else { return };
            if let Some(file) = &mut row.file {
                file.is_closed = true;
                file.size_bytes = body::closed_size(response).or(file.size_bytes);
                file.end_contents();
            }
            return sessions.push(row);
        }
        let Some(file) = self.tables.file(&handle).and_then(|row| row.file.as_mut()) else { return };
        match response.command {
            command::READ => {
                file.read.0 += 1;
                file.read.1 = file.read.1.saturating_add(body::moved_bytes(response));
            }
            command::WRITE => {
                file.written.0 += 1;
                let moved = body::moved_bytes(response);
                file.written.1 = file.written.1.saturating_add(moved);
                // A write may extend the file.
                file.size_bytes = file.size_bytes.map(|size| size.max(offset.saturating_add(moved)));
            }
            command::QUERY_DIRECTORY => file.is_listed = true,
            command::IOCTL => file.is_called = true,
            _ => {}
        }
    }

    fn take_change(&mut self, handle: Handle, change: Change, response: &Message<'_>) {
        let Some(handle) = self.resolve(handle) else { return };
        let Some(file) = self.tables.file(&handle).and_then(|row| row.file.as_mut()) else { return };
        if response.status != status::SUCCESS {
            return;
        }
        match change {
            Change::Name(name) => {
                let before = file.name.replace(name);
                file.previous_name = file.previous_name.take().or(before);
            }
            Change::Deletion(is_deleted) => file.is_deleted = is_deleted,
            Change::Other => file.is_set = true,
        }
    }
}

impl Sealed {
    fn take(&mut self, time: Timestamp) {
        self.time.get_or_insert(time);
        self.messages += 1;
    }
}

/// Names of dialects (MS-SMB2 §2.2.4).
fn dialect_name(dialect: u16) -> Arc<str> {
    match dialect {
        0x0202 => "2.0.2".into(),
        0x0210 => "2.1".into(),
        0x0300 => "3.0".into(),
        0x0302 => "3.0.2".into(),
        0x0311 => "3.1.1".into(),
        other => format!("unknown-{other:#06x}").into(),
    }
}
