//! Prints the rows of `weir follow`: one connection after the other, its two directions interleaved and in
//! two colours.
//!
//! The connection that began first is printed as its bytes arrive; the bytes of others wait until it ends. If
//! too many wait, the waiting bytes of all connections are printed, in parts with a header each.

use crate::spec::Look;
use crate::text::hex_lines::push_hex_lines;
use std::collections::{HashMap, VecDeque};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use weir::io::human;
use weir::packet::{Batch, Column, RowSink, Timestamp, Value};

/// The name of the format.
pub const OWN_FORMAT: &str = "follow";

/// Bytes of one direction.
struct Piece {
    time: Timestamp,
    is_orig: bool,
    offset: u64,
    missing: u64,
    data: Vec<u8>,
}

/// A connection whose bytes have not all been printed.
struct Conversation {
    uid: String,
    /// The originator, the responder, and the transport protocol.
    ends: [String; 3],
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// Directions that have ended.
    ended: u8,
    /// Whether a part of the connection was printed before.
    is_continued: bool,
    /// Whether the header is printed.
    is_begun: bool,
}

/// The printer.
pub struct Conversations {
    out: BufWriter<Box<dyn Write + Send>>,
    look: Look,
    color: bool,
    memory_max: usize,
    open: HashMap<String, Conversation>,
    /// The open connections in the order of their begins; the first one is printed now. Some have been
    /// printed and closed.
    order: VecDeque<String>,
    bytes: usize,
    /// Whether open connections were forgotten.
    forgets: bool,
    /// The direction and the last byte that were printed last.
    last: Option<(bool, u8)>,
    is_first: bool,
}

/// Colours of the originator and of the responder, as in Wireshark.
const COLORS: [&str; 2] = ["\x1b[31m", "\x1b[34m"];
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

impl Conversations {
    /// A printer; bytes that wait take about `memory_max` bytes.
    pub fn new(out: Box<dyn Write + Send>, look: Look, color: bool, memory_max: usize) -> Self {
        let out = BufWriter::with_capacity(1 << 16, out);
        let color = color && look != Look::Raw;
        Self {
            out,
            look,
            color,
            memory_max,
            open: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            forgets: false,
            last: None,
            is_first: true,
        }
    }

    /// Prints the waiting bytes of a connection; closes the connection if it has ended.
    fn print(&mut self, uid: &str) -> io::Result<()> {
        let Some(conversation) = self.open.get_mut(uid) else { return Ok(()) };
        let pieces = std::mem::take(&mut conversation.pieces);
        self.bytes -= std::mem::take(&mut conversation.bytes);
        let is_over = conversation.ended == 2;
        if !pieces.is_empty() && !std::mem::replace(&mut conversation.is_begun, true) {
            let header = header(conversation, pieces.front().map(|piece| piece.time));
            conversation.is_continued = true;
            self.head(&header)?;
        }
        if is_over {
            self.open.remove(uid);
            self.bytes -= ENTRY_BYTES;
        }
        pieces.iter().try_for_each(|piece| self.piece(piece))
    }

    fn head(&mut self, header: &str) -> io::Result<()> {
        if self.look == Look::Raw {
            return Ok(());
        }
        self.end_line()?;
        let blank = if std::mem::replace(&mut self.is_first, false) { "" } else { "\n" };
        match self.color {
            true => writeln!(self.out, "{blank}{BOLD}{header}{PLAIN}"),
            false => writeln!(self.out, "{blank}{header}"),
        }
    }

    /// Ends a line that the last bytes have left open.
    fn end_line(&mut self) -> io::Result<()> {
        match self.last.take() {
            Some((_, byte)) if byte != b'\n' => writeln!(self.out),
            _ => Ok(()),
        }
    }

    fn piece(&mut self, piece: &Piece) -> io::Result<()> {
        if self.look == Look::Raw {
            return self.out.write_all(&piece.data);
        }
        let color = COLORS[usize::from(!piece.is_orig)];
        if piece.missing > 0 {
            self.end_line()?;
            writeln!(self.out, "[{} bytes are missing in the capture]", piece.missing)?;
        }
        let text = match self.look {
            Look::Hex => hex(piece),
            _ => {
                // A turn begins on a line of its own.
                if self.last.is_some_and(|(is_orig, _)| is_orig != piece.is_orig) {
                    self.end_line()?;
                }
                text_of(&piece.data)
            }
        };
        self.last = text.as_bytes().last().map(|&byte| (piece.is_orig, byte));
        match self.color {
            true => write!(self.out, "{color}{text}{PLAIN}"),
            false => write!(self.out, "{text}"),
        }
    }

    /// Prints what can be printed now.
    fn advance(&mut self) -> io::Result<()> {
        while let Some(uid) = self.order.front().cloned() {
            self.print(&uid)?;
            if self.open.contains_key(&uid) {
                break;
            }
            self.order.pop_front();
        }
        if self.bytes > self.memory_max {
            // The connections are forgotten: their next bytes need a header. Connections of which one
            // direction has ended stay, as far as there is room: only they know that the other end is the
            // last one.
            for uid in self.order.clone() {
                self.print(&uid)?;
            }
            let mut room = self.memory_max / 2 / ENTRY_BYTES;
            self.open.retain(|_, conversation| {
                let stays = conversation.ended == 1 && room > 0;
                room -= usize::from(stays);
                conversation.is_begun = false;
                stays
            });
            self.open.shrink_to_fit();
            self.order.retain(|uid| self.open.contains_key(uid));
            self.forgets = true;
            self.bytes = self.open.len() * ENTRY_BYTES;
        }
        Ok(())
    }
}

/// The memory of an open connection without its bytes.
const ENTRY_BYTES: usize = 2 * (size_of::<Conversation>() + size_of::<String>()) + 384;

fn header(conversation: &Conversation, time: Option<Timestamp>) -> String {
    let [orig, resp, proto] = &conversation.ends;
    let time = time.map(human::moment).unwrap_or_default();
    let more = if conversation.is_continued { " (continued)" } else { "" };
    format!("{} {proto} {orig} > {resp}, {time} UTC{more}", conversation.uid)
}

/// Text for a terminal: unprintable bytes are dots, except line breaks and tabs. Carriage returns before line
/// breaks are left out.
fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let mut chars = chunk.valid().chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\n' | '\t' => text.push(c),
                '\r' if chars.peek().is_none_or(|next| *next == '\n') => {}
                c if weir::packet::is_hidden(c) => text.push('.'),
                c => text.push(c),
            }
        }
        text.extend(chunk.invalid().iter().map(|_| '.'));
    }
    text
}

/// Lines of 16 bytes: the responder's are indented.
fn hex(piece: &Piece) -> String {
    let mut text = String::new();
    push_hex_lines(&mut text, if piece.is_orig { "" } else { "    " }, (piece.offset, 8), &piece.data);
    text
}

/// An end of a connection: address and port.
fn end(host: &Value<'_>, port: &Value<'_>) -> String {
    let host = match host {
        Value::Address(address) if address.is_ipv6() => format!("[{address}]"),
        Value::Address(address) => address.to_string(),
        Value::Mac(mac) => mac.map(|byte| format!("{byte:02x}")).join(":"),
        Value::Unsigned(number) => number.to_string(),
        _ => String::new(),
    };
    match port {
        Value::Unsigned(port) if *port > 0 => format!("{host}:{port}"),
        _ => host,
    }
}

impl RowSink for Conversations {
    fn begin(&mut self, _: &[Column]) -> io::Result<()> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, mut rows: Range<usize>) -> io::Result<()> {
        rows.try_for_each(|index| self.take_row(&batch.row(index).values()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        for uid in std::mem::take(&mut self.order) {
            self.print(&uid)?;
        }
        if self.look == Look::Text {
            self.end_line()?;
        }
        self.out.flush()
    }
}

impl Conversations {
    fn take_row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        let [
            Value::Time(time),
            Value::Text(uid),
            Value::Bool(is_orig),
            src_h,
            src_p,
            dst_h,
            dst_p,
            Value::Text(proto),
            Value::Unsigned(offset),
            Value::Unsigned(missing),
            Value::Bytes(data),
        ] = values
        else {
            return Err(io::Error::other("these are no bytes of connections"));
        };
        if !self.open.contains_key(&**uid) {
            let (src, dst) = (end(src_h, src_p), end(dst_h, dst_p));
            let [orig, resp] = if *is_orig { [src, dst] } else { [dst, src] };
            let conversation = Conversation {
                uid: uid.to_string(),
                ends: [orig, resp, proto.to_string()],
                pieces: VecDeque::new(),
                bytes: 0,
                ended: 0,
                is_continued: *offset > 0 && self.forgets,
                is_begun: false,
            };
            self.open.insert(uid.to_string(), conversation);
            self.order.push_back(uid.to_string());
            self.bytes += ENTRY_BYTES;
        }
        let Some(conversation) = self.open.get_mut(&**uid) else { return Ok(()) };
        match data.is_empty() {
            true => conversation.ended += 1,
            false => {
                let bytes = size_of::<Piece>() + data.len();
                conversation.bytes += bytes;
                self.bytes += bytes;
                let (time, is_orig, offset, missing) = (*time, *is_orig, *offset, *missing);
                conversation.pieces.push_back(Piece { time, is_orig, offset, missing, data: data.to_vec() });
            }
        }
        self.advance()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_sends_no_escapes_and_keeps_letters() {
        assert_eq!(text_of(b"GET /\r\n\x1b[2J\xff\xc3\xa9\t\xe2\x80\xaea\rb"), "GET /\n.[2J.é\t.a.b");
    }

    #[test]
    fn hexadecimal_lines_are_aligned() {
        let piece = |is_orig, data: &[u8]| Piece {
            time: Timestamp(0),
            is_orig,
            offset: 16,
            missing: 0,
            data: data.to_vec(),
        };
        let expected = "\
00000010  41 42 43 44 45 46 47 48  49 4a 4b 4c 4d 4e 4f 50  ABCDEFGHIJKLMNOP
00000020  51 0a                                             Q.
";
        assert_eq!(hex(&piece(true, b"ABCDEFGHIJKLMNOPQ\n")), expected);
        let indented: String = expected.lines().map(|line| format!("    {line}\n")).collect();
        assert_eq!(hex(&piece(false, b"ABCDEFGHIJKLMNOPQ\n")), indented);
    }
}
