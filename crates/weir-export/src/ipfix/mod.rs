//! Flow records in the format IPFIX (RFC 7011, RFC 7012), with both directions in a record (RFC 5103):
//! [`Ipfix`].
//!
//! - `elements.rs`: the information elements, and the templates
//! - `record.rs`: a row as a data record
//! - `message.rs`: messages, with templates, sequence numbers and the exporter's report about itself

mod elements;
mod message;
mod record;
#[cfg(test)]
mod tests;

use crate::carrier::{Carrier, Protocol};
use elements::{NEEDED, Template, place, template_index, templates};
use message::{HEADER_BYTES, SET_HEADER_BYTES, Stream, end_set, template_sets};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use weir_packet::{Batch, Column, RowSink};

/// The longest message, in bytes: with headers of IP and UDP, the path's MTU is unlikely to be exceeded.
pub const MESSAGE_BYTES_MAX: usize = 1400;

/// Rows with the columns of `weir flows`, as IPFIX.
pub struct Ipfix {
    carrier: Box<dyn Carrier>,
    format: Format,
    /// The sets of the next message.
    sets: Vec<u8>,
    records: u32,
    /// Where the last set begins, and its template.
    last_set: Option<(usize, u16)>,
    /// Rows that are no IP flows.
    skipped: u64,
    /// Calls with the number of such rows.
    tell_skipped: Box<dyn FnMut(u64) + Send>,
}

/// The form of records.
#[derive(Debug, Clone)]
pub struct Format {
    templates: Vec<Template>,
    orig_h: usize,
    resp_h: usize,
    protocol: usize,
}

impl Format {
    /// The format of rows with these columns.
    ///
    /// # Errors
    /// The names of columns without which there is no flow record.
    pub fn of(columns: &[Column]) -> Result<Self, Vec<&'static str>> {
        let at = |name| place(columns, name);
        let missing = || -> Vec<_> { NEEDED.iter().copied().filter(|name| at(name).is_none()).collect() };
        let found = || Some((templates(columns)?, at("id.orig_h")?, at("id.resp_h")?, at("ip_proto")?));
        let (templates, orig_h, resp_h, protocol) = found().ok_or_else(missing)?;
        Ok(Self { templates, orig_h, resp_h, protocol })
    }

    /// What a collector needs before records: the context of messages.
    pub fn context(&self) -> Arc<[u8]> {
        template_sets(&self.templates).into()
    }
}

/// What IPFIX adds to messages: a header, for an observation domain.
pub fn stream(domain: u32) -> Box<dyn Protocol> {
    Box::new(Stream::new(domain))
}

impl std::fmt::Debug for Ipfix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ipfix").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Ipfix {
    /// Sends records of this format. `tell_skipped` receives, at the end, the number of rows that are no IP
    /// flows, if there are any.
    pub fn new(format: Format, carrier: Box<dyn Carrier>, tell_skipped: Box<dyn FnMut(u64) + Send>) -> Self {
        Self { carrier, format, sets: vec![], records: 0, last_set: None, skipped: 0, tell_skipped }
    }

    /// Passes on the message that is complete, or that somebody waits for.
    fn end_message(&mut self) {
        if let Some((start, _)) = self.last_set.take() {
            end_set(&mut self.sets, start);
            self.carrier.send(std::mem::take(&mut self.records), std::mem::take(&mut self.sets));
        }
    }
}

impl RowSink for Ipfix {
    fn begin(&mut self, _: &[Column]) -> io::Result<()> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, rows: Range<usize>) -> io::Result<()> {
        let mut bytes = vec![];
        for index in rows {
            let (row, format) = (batch.row(index), &self.format);
            let kind = record::kind_of(row, format.orig_h, format.resp_h, format.protocol);
            let Some(template) =
                kind.and_then(|(family, transport)| format.templates.get(template_index(family, transport)))
            else {
                self.skipped += 1;
                continue;
            };
            bytes.clear();
            record::push_record(&template.elements, row, &mut bytes);
            let id = template.id;
            if HEADER_BYTES + self.sets.len() + SET_HEADER_BYTES + bytes.len() > MESSAGE_BYTES_MAX {
                self.end_message();
            }
            if self.last_set.is_none_or(|(_, last)| last != id) {
                if let Some((start, _)) = self.last_set {
                    end_set(&mut self.sets, start);
                }
                self.last_set = Some((self.sets.len(), id));
                self.sets.extend_from_slice(&id.to_be_bytes());
                self.sets.extend_from_slice(&[0, 0]);
            }
            self.sets.extend_from_slice(&bytes);
            self.records += 1;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end_message();
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.end_message();
        self.carrier.end();
        if self.skipped > 0 {
            (self.tell_skipped)(self.skipped);
        }
        Ok(())
    }
}
