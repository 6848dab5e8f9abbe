//! `weir follow --limit N`: only the rows of the first N connections with bytes.

use crate::contents::decoded_bodies::Places;
use crate::rows::make::{Rows, WriteRows};
use std::collections::HashMap;
use std::io;
use weir::packet::{Cell, Row};
use weir::{Item, RunEnd};

/// The rows of bytes of the first connections.
pub struct FirstConnections {
    rows: Box<dyn Rows>,
    first: First,
}

/// Which connections are the first ones.
struct First {
    places: Places,
    /// Connections that are still wanted.
    missing: u64,
    /// The connections whose directions have not both ended.
    open: HashMap<String, Connection>,
}

#[derive(Default)]
struct Connection {
    has_bytes: bool,
    /// Directions that have ended.
    ended: u8,
}

impl FirstConnections {
    /// Passes on those of `rows` that belong to the first `limit` connections.
    pub fn new(rows: Box<dyn Rows>, places: Places, limit: u64) -> Self {
        Self { rows, first: First { places, missing: limit, open: HashMap::new() } }
    }
}

impl First {
    /// Whether a row belongs to one of the first connections. Rows that only say that a direction has ended
    /// may come before the bytes of the other direction.
    fn has(&mut self, row: Row<'_>) -> bool {
        let Places { uid, data, .. } = self.places;
        let (Cell::Text(uid), Cell::Bytes(bytes)) = (row.cell(uid), row.cell(data)) else {
            return false;
        };
        if self.missing == 0 && !self.open.contains_key(uid) {
            return false;
        }
        let connection = self.open.entry(uid.to_string()).or_default();
        if bytes.is_empty() {
            connection.ended += 1;
        } else if !connection.has_bytes {
            if self.missing == 0 {
                return false;
            }
            self.missing -= 1;
            connection.has_bytes = true;
        }
        if connection.ended == 2 {
            self.open.remove(uid);
        }
        true
    }
}

impl Rows for FirstConnections {
    fn item(&mut self, item: &Item<'_>, row: WriteRows<'_>) -> io::Result<()> {
        let first = &mut self.first;
        self.rows.item(item, &mut |batch, mut range| {
            range.try_for_each(|index| match first.has(batch.row(index)) {
                true => row(batch, index..index + 1),
                false => Ok(()),
            })
        })
    }

    fn end(&mut self, end: Option<&RunEnd<'_>>, row: WriteRows<'_>) -> io::Result<()> {
        self.rows.end(end, row)
    }

    fn is_enough(&self) -> bool {
        self.first.missing == 0 && self.first.open.values().all(|connection| !connection.has_bytes)
    }
}
