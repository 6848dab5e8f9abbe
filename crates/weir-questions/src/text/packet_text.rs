//! Packets as texts, and what the texts have in common: the first line and the bytes.

use crate::rows::make::{Rows, WriteRows};
use crate::text::hex_lines::push_hex_lines;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;
use weir::io::{human, json_text};
use weir::packet::{Batch, Cell, Column, PacketMeta, Row, RowSink, Timestamp, Value, ValueType, printable};
use weir::{Item, PACKET_COLUMNS};

/// The only column: the text of a packet.
pub const COLUMNS: &[Column] = &[Column::new("text", ValueType::Text, "what is shown of the packet")];

/// What the first line of a packet says.
pub struct PacketHead {
    number: u64,
    time: Timestamp,
    wire_bytes: u64,
    captured_bytes: u64,
}

impl PacketHead {
    /// What is said of a packet with this descriptor.
    pub fn of(meta: &PacketMeta) -> Self {
        let (wire_bytes, captured_bytes) = (meta.wire_bytes.into(), meta.captured_bytes.into());
        Self { number: meta.number, time: meta.time, wire_bytes, captured_bytes }
    }

    /// Appends the line, without its end.
    pub fn push_text(&self, text: &mut String) {
        let Self { number, time, wire_bytes, captured_bytes } = *self;
        // Writing to a String cannot fail.
        let _ = write!(text, "packet {number}  {} UTC  {wire_bytes} bytes", human::precise_moment(time));
        if captured_bytes < wire_bytes {
            let _ = write!(text, ", {captured_bytes} of them captured");
        }
    }

    /// Appends the begin of a JSON object, without a comma at its end.
    pub fn push_json(&self, text: &mut String) {
        let Self { number, time, wire_bytes, captured_bytes } = *self;
        let time = json_text(&Value::Time(time));
        let _ = write!(
            text,
            "{{\"number\":{number},\"ts\":{time},\"length\":{wire_bytes},\"captured\":{captured_bytes}"
        );
    }
}

/// Appends the bytes of a packet as lines.
pub fn push_bytes(text: &mut String, frame: &[u8]) {
    push_hex_lines(text, "", (0, 4), frame);
}

/// The answers of `weir packets -x`: a line for each packet, and its bytes.
pub struct PacketBytes {
    /// JSON objects instead of lines.
    json: bool,
    made: Batch,
}

impl PacketBytes {
    /// Texts of rows of packets.
    pub fn new(json: bool) -> Self {
        Self { json, made: Batch::new(COLUMNS.len()) }
    }

    fn push(&self, row: Row<'_>, text: &mut String) {
        let cell = |name: &str| {
            let at = PACKET_COLUMNS.iter().position(|column| column.name == name);
            at.map_or(Cell::Absent, |at| row.cell(at))
        };
        let (number, length) = (cell("number").unsigned(), cell("length").unsigned());
        let time = if let Cell::Time(time) = cell("ts") { time } else { Timestamp(0) };
        let frame = if let Cell::Bytes(frame) = cell("frame") { frame } else { &[] };
        let (layers, info) = (cell("layers").text().unwrap_or("?"), cell("info").text().unwrap_or_default());
        let head = PacketHead {
            number: number.unwrap_or(0),
            time,
            wire_bytes: length.unwrap_or(0),
            captured_bytes: frame.len() as u64,
        };
        if self.json {
            head.push_json(text);
            let (info, bytes) = (Value::Text(info.into()), Value::Bytes(frame.into()));
            let _ = writeln!(text, ",\"info\":{},\"bytes\":{}}}", json_text(&info), json_text(&bytes));
            return;
        }
        head.push_text(text);
        let _ = writeln!(text, "  {layers}  {}", printable(info, &[]));
        push_bytes(text, frame);
        text.push('\n');
    }
}

impl Rows for PacketBytes {
    fn item(&mut self, item: &Item<'_>, texts: WriteRows<'_>) -> io::Result<()> {
        let Item::Rows(rows) = item else { return Ok(()) };
        let mut made = std::mem::take(&mut self.made);
        rows.iter().for_each(|row| made.add().text_with(|text| self.push(row, text)));
        let written = texts(&made, 0..made.rows());
        made.clear();
        self.made = made;
        written
    }
}

/// Writes the texts of packets.
pub struct TextLines {
    out: io::BufWriter<Box<dyn Write + Send>>,
}

impl TextLines {
    /// A sink for [`COLUMNS`].
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out: io::BufWriter::with_capacity(1 << 16, out) }
    }
}

impl RowSink for TextLines {
    fn begin(&mut self, _: &[Column]) -> io::Result<()> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        for index in rows {
            let text = batch.cell(index, 0).text();
            let text = text.ok_or_else(|| io::Error::other("this is no text of a packet"))?;
            self.out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
