//! `weir follow --decode`: decodes the bodies of HTTP/1 in rows of bytes.

use crate::rows::make::{Rows, WriteRows};
use std::collections::HashMap;
use std::io;
use weir::packet::{Batch, Value};
use weir::sessions::Direction;
use weir::sessions::http::PlainText;
use weir::{Item, RunEnd};

/// The columns of a row that are read or changed.
#[derive(Clone, Copy)]
pub struct Places {
    /// The identifier of the connection.
    pub uid: usize,
    /// Whether the originator sent the bytes.
    pub is_orig: usize,
    /// Number of bytes missing before the bytes.
    pub missing: usize,
    /// The bytes; empty at the end of a direction.
    pub data: usize,
}

/// The decoder of the rows of a question.
pub struct DecodedBodies {
    places: Places,
    open: HashMap<String, Connection>,
    /// Bytes of memory of all connections.
    held_bytes: usize,
    memory_max: usize,
    /// Number of parts of connections that were not decoded for lack of memory.
    given_up: u64,
    /// Number of bodies that a bound cut.
    cut: u64,
}

#[derive(Default)]
struct Connection {
    view: PlainText,
    held_bytes: usize,
    /// Bytes missing before the next row of each direction.
    missing: [u64; 2],
    /// Directions that have ended.
    ended: u8,
}

impl DecodedBodies {
    /// A decoder that holds about `memory_max` bytes.
    pub fn new(places: Places, memory_max: usize) -> Self {
        Self { places, open: HashMap::new(), held_bytes: 0, memory_max, given_up: 0, cut: 0 }
    }

    /// The row with decoded bytes; `None` if the bytes have no counterpart (the framing of chunks).
    fn decoded<'v>(&mut self, values: &[Value<'v>]) -> Option<Vec<Value<'v>>> {
        let Places { uid, is_orig, missing, data } = self.places;
        let (
            Some(Value::Text(uid)),
            Some(Value::Bool(is_orig)),
            Some(Value::Unsigned(missing_bytes)),
            Some(Value::Bytes(bytes)),
        ) = (values.get(uid), values.get(is_orig), values.get(missing), values.get(data))
        else {
            return Some(values.to_vec());
        };
        let from = if *is_orig { Direction::Originator } else { Direction::Responder };
        if !self.open.contains_key(uid.as_ref()) {
            if self.held_bytes + ENTRY_BYTES > self.memory_max {
                self.given_up += u64::from(!bytes.is_empty());
                return Some(values.to_vec());
            }
            self.held_bytes += ENTRY_BYTES;
            let connection = Connection { held_bytes: ENTRY_BYTES, ..Connection::default() };
            self.open.insert(uid.to_string(), connection);
        }
        let connection = self.open.get_mut(uid.as_ref())?;
        if bytes.is_empty() {
            connection.ended += 1;
            if connection.ended == 2 {
                self.forget(uid);
            }
            return Some(values.to_vec());
        }
        if *missing_bytes > 0 {
            connection.view.gap(from, *missing_bytes);
        }
        let shown = connection.view.take(from, bytes);
        let mut now_bytes = ENTRY_BYTES + connection.view.held_bytes();
        if !connection.view.is_over() && self.held_bytes - connection.held_bytes + now_bytes > self.memory_max
        {
            connection.view.end();
            self.given_up += 1;
            now_bytes = ENTRY_BYTES + connection.view.held_bytes();
        }
        self.held_bytes =
            self.held_bytes - std::mem::replace(&mut connection.held_bytes, now_bytes) + now_bytes;
        let before = &mut connection.missing[from as usize];
        *before = before.saturating_add(*missing_bytes);
        if shown.is_empty() {
            return None;
        }
        let mut row = values.to_vec();
        row[missing] = Value::Unsigned(std::mem::take(before));
        row[data] = Value::Bytes(shown.into());
        Some(row)
    }
}

impl DecodedBodies {
    fn forget(&mut self, uid: &str) {
        if let Some(connection) = self.open.remove(uid) {
            self.held_bytes -= connection.held_bytes;
            self.cut += connection.view.cut();
        }
    }
}

/// The memory of a connection without what its decoder holds.
const ENTRY_BYTES: usize = 2 * (size_of::<Connection>() + size_of::<String>()) + 128;

impl Rows for DecodedBodies {
    fn item(&mut self, item: &Item<'_>, row: WriteRows<'_>) -> io::Result<()> {
        let Item::Rows(made) = item else { return Ok(()) };
        let mut batch = Batch::default();
        for made in made.iter() {
            self.decoded(&made.values()).iter().for_each(|values| batch.push(values));
        }
        row(&batch, 0..batch.rows())
    }

    fn end(&mut self, _: Option<&RunEnd<'_>>, _: WriteRows<'_>) -> io::Result<()> {
        if self.given_up > 0 {
            let given_up = self.given_up;
            note!("weir: memory was short: {given_up} parts of connections are not decoded (--memory)");
        }
        let open: u64 = self.open.values().map(|connection| connection.view.cut()).sum();
        if self.cut + open > 0 {
            let cut = self.cut + open;
            note!("weir: {cut} decoded bodies are cut: they decode to more than 256 times their bytes");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(uid: &str, is_orig: bool, missing: u64, data: &[u8]) -> Vec<Value<'static>> {
        let uid = Value::Text(uid.to_string().into());
        vec![uid, Value::Bool(is_orig), Value::Unsigned(missing), Value::Bytes(data.to_vec().into())]
    }

    fn decoder(memory_max: usize) -> DecodedBodies {
        DecodedBodies::new(Places { uid: 0, is_orig: 1, missing: 2, data: 3 }, memory_max)
    }

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    #[test]
    fn framing_has_no_row_and_ends_release_memory() {
        let mut decoder = decoder(1 << 20);
        assert_eq!(decoder.decoded(&row("a", false, 0, HEAD)), Some(row("a", false, 0, HEAD)));
        assert_eq!(decoder.decoded(&row("a", false, 0, b"5\r\n")), None);
        assert_eq!(decoder.decoded(&row("a", false, 0, b"hello\r\n")), Some(row("a", false, 0, b"hello")));
        assert!(decoder.held_bytes > 0);
        for is_orig in [true, false] {
            assert_eq!(decoder.decoded(&row("a", is_orig, 0, b"")), Some(row("a", is_orig, 0, b"")));
        }
        assert!(decoder.open.is_empty() && decoder.held_bytes == 0);
    }

    #[test]
    fn without_memory_bytes_are_shown_as_sent() {
        for (memory_max, given_up) in [(10, 2), (ENTRY_BYTES + 10, 1)] {
            let mut decoder = decoder(memory_max);
            assert_eq!(decoder.decoded(&row("a", false, 0, HEAD)), Some(row("a", false, 0, HEAD)));
            assert_eq!(
                (decoder.decoded(&row("a", false, 0, b"5\r\n")), decoder.given_up),
                (Some(row("a", false, 0, b"5\r\n")), given_up)
            );
            assert!(decoder.held_bytes <= memory_max + 1024);
        }
    }
}
