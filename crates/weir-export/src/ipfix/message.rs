//! Messages of IPFIX (RFC 7011, section 3): headers, sets of templates, and the exporter's report about
//! itself.

use super::elements::{Template, VARIABLE};
use crate::carrier::Protocol;
use crate::message::Message;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of the header of a message.
pub(super) const HEADER_BYTES: usize = 16;
/// Bytes of the header of a set.
pub(super) const SET_HEADER_BYTES: usize = 4;

const VERSION: u16 = 10;
/// Numbers of sets (RFC 7011, section 3.3.2).
const TEMPLATES: u16 = 2;
const OPTIONS_TEMPLATES: u16 = 3;
/// The template of the exporter's report.
const REPORT: u16 = 512;

/// The elements of the report, with their lengths: observationDomainId, which is the scope,
/// exportedOctetTotalCount, exportedMessageTotalCount, exportedFlowRecordTotalCount, notSentFlowTotalCount.
const REPORT_ELEMENTS: &[(u16, u16)] = &[(149, 4), (40, 8), (41, 8), (42, 8), (166, 8)];

/// The sets that a collector needs before data: the context of messages.
pub(super) fn template_sets(templates: &[Template]) -> Vec<u8> {
    let mut bytes = vec![];
    push_set(TEMPLATES, &mut bytes, |bytes| {
        for Template { id, elements } in templates {
            push_numbers(bytes, &[*id, elements.len() as u16]);
            for element in elements {
                debug_assert!(element.length <= 16 || element.length == VARIABLE);
                let enterprise_bit = if element.enterprise == 0 { 0 } else { 0x8000 };
                push_numbers(bytes, &[element.id | enterprise_bit, element.length]);
                if element.enterprise != 0 {
                    bytes.extend_from_slice(&element.enterprise.to_be_bytes());
                }
            }
        }
    });
    push_set(OPTIONS_TEMPLATES, &mut bytes, |bytes| {
        push_numbers(bytes, &[REPORT, REPORT_ELEMENTS.len() as u16, 1]);
        REPORT_ELEMENTS.iter().for_each(|&(id, length)| push_numbers(bytes, &[id, length]));
    });
    bytes
}

fn push_numbers(bytes: &mut Vec<u8>, numbers: &[u16]) {
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
}

/// Appends a set with this number and these contents.
fn push_set(number: u16, bytes: &mut Vec<u8>, push: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    push_numbers(bytes, &[number, 0]);
    push(bytes);
    end_set(bytes, start);
}

/// Writes the length of the set that begins at `start`, and ends now.
pub(super) fn end_set(bytes: &mut [u8], start: usize) {
    let length = (bytes.len() - start) as u16;
    bytes[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// A stream of messages from one observation domain.
#[derive(Debug)]
pub(super) struct Stream {
    domain: u32,
    /// Data records so far, modulo 2^32.
    sequence: u32,
    exported: Exported,
}

/// What was sent since the exporter started.
#[derive(Debug, Default)]
struct Exported {
    octets: u64,
    messages: u64,
    records: u64,
}

impl Stream {
    pub fn new(domain: u32) -> Self {
        Self { domain, sequence: 0, exported: Exported::default() }
    }

    /// Appends a message with these sets, which have this number of data records.
    fn push(&mut self, sets: &[u8], records: u32, now: SystemTime, out: &mut Vec<u8>) {
        let start = out.len();
        let length = HEADER_BYTES + sets.len();
        push_numbers(out, &[VERSION, length as u16]);
        // 32 bits of seconds last until 2106.
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
        [seconds, self.sequence, self.domain]
            .iter()
            .for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        out.extend_from_slice(sets);
        self.sequence = self.sequence.wrapping_add(records);
        self.exported.octets += (out.len() - start) as u64;
        self.exported.messages += 1;
    }
}

impl Protocol for Stream {
    fn begin(&mut self) {
        self.sequence = 0;
    }

    fn announce(&mut self, context: &[u8], now: SystemTime, out: &mut Vec<u8>) {
        self.push(context, 0, now, out);
    }

    fn frame(&mut self, message: &Message, now: SystemTime, out: &mut Vec<u8>) {
        self.push(&message.bytes, message.rows, now, out);
        self.exported.records += u64::from(message.rows);
    }

    fn report(&mut self, lost_rows: u64, now: SystemTime, out: &mut Vec<u8>) {
        let (domain, Exported { octets, messages, records }) = (self.domain, &self.exported);
        let counts = [*octets, *messages, *records, lost_rows];
        let mut set = vec![];
        push_set(REPORT, &mut set, |bytes| {
            bytes.extend_from_slice(&domain.to_be_bytes());
            counts.iter().for_each(|count| bytes.extend_from_slice(&count.to_be_bytes()));
        });
        self.push(&set, 1, now, out);
    }
}
