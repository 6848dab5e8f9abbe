//! Rows of what is odd about connections and packets, with the columns of Zeek's weird.log
//! (<https://docs.zeek.org/en/master/scripts/base/frameworks/notice/weird.zeek.html>), and Zeek's names where
//! Zeek has the event.

use super::row_maker::RowMaker;
use super::session::Log;
use std::any::Any;
use std::sync::{Arc, LazyLock};
use weir_compile::events::{EventSet, events};
use weir_engine::counters::Counters;
use weir_engine::oddities::{ODD_COUNTERS, OddEvent, OddKind, Oddity};
use weir_lang::model::Stack;
use weir_packet::{Column, DropReason, Timestamp, Value, ValueType};
use weir_sessions::{Field, Session};

/// An event of a stack that is odd.
struct OddName {
    /// The event: `tcp.data_in_syn`.
    event: &'static str,
    name: &'static str,
    /// The layer, as the source of the row.
    source: &'static str,
    /// The column with a number for the kind, and the kinds from 0.
    kinds: Option<(&'static str, &'static [&'static str])>,
    doc: &'static str,
}

/// Why a segment is not taken, by number: `protocols/tcp_normalisation.weir`.
const REFUSALS: &[&str] = &[
    "",
    "damaged_SYN",
    "old_timestamp",
    "beyond_window",
    "impossible_flags",
    "acknowledges_what_was_not_sent",
    "reset_with_wrong_number",
    "out_of_sequence",
    "before_answer_to_SYN",
    "SYN_inside_connection",
    "other_signature_than_SYN",
];

const EVENTS: &[OddName] = &[
    OddName {
        event: "tcp.not_taken",
        name: "segment_not_taken",
        source: "TCP",
        kinds: Some(("reason", REFUSALS)),
        doc: "a segment that its receiver rejects; `addl` says why",
    },
    OddName {
        event: "tcp.data_in_syn",
        name: "SYN_with_data",
        source: "TCP",
        kinds: None,
        doc: "payload in a SYN",
    },
    OddName {
        event: "tcp.syn_beside",
        name: "SYN_inside_connection",
        source: "TCP",
        kinds: None,
        doc: "a SYN of another connection inside one that is open; the row of the other connection follows",
    },
    OddName {
        event: "tcp.alone",
        name: "possible_split_routing",
        source: "TCP",
        kinds: None,
        doc: "a side goes on after its SYN, but nothing of its peer was captured: the other direction takes another way",
    },
    OddName {
        event: "tcp.stray",
        name: "stray_control_segment",
        source: "TCP",
        kinds: None,
        doc: "a SYN, FIN or reset whose number is not the next one",
    },
    OddName { event: "tcp.urgent", name: "urgent_data", source: "TCP", kinds: None, doc: "urgent data" },
    OddName {
        event: "tcp.bad_checksum",
        name: "bad_TCP_checksum",
        source: "TCP",
        kinds: None,
        doc: "a wrong checksum; also of segments that a sender's card completes after the capture",
    },
    OddName {
        event: "udp.bad_checksum",
        name: "bad_UDP_checksum",
        source: "UDP",
        kinds: None,
        doc: "a wrong checksum; also of datagrams that a sender's card completes after the capture",
    },
    OddName {
        event: "ip.inconsistent",
        name: "fragment_inconsistency",
        source: "IP",
        kinds: None,
        doc: "a fragment that differs from another one where both overlap",
    },
    OddName {
        event: "ipv6.fraghdr.inconsistent",
        name: "fragment_inconsistency",
        source: "IP",
        kinds: None,
        doc: "a fragment that differs from another one where both overlap",
    },
];

/// Zeek's names of counters, where Zeek has the event.
const NAMES: &[(&str, &str)] = &[
    ("inconsistent_bytes", "rexmit_inconsistency"),
    ("refused_by_overlap", "fragment_overlap"),
    ("refused_by_bytes", "excessively_large_fragment"),
];

const fn field(column: &'static str, value_type: ValueType, doc: &'static str) -> Field {
    Field { name: column, aliases: &[], column, value_type, doc, words: None }
}

/// The columns of a row, behind those of its connection.
const FIELDS: &[Field] = &[
    field("name", ValueType::Text, "what was odd; Zeek's name, where Zeek has the event"),
    field("addl", ValueType::Text, "details"),
    field("notice", ValueType::Bool, "false: nobody was told"),
    field("source", ValueType::Text, "part that found it: a layer, or a part of the engine"),
    field("count", ValueType::Unsigned, "how often, with this connection; `ts` is the first time"),
];

/// Makes their rows.
pub(crate) static ROWS: LazyLock<RowMaker> = LazyLock::new(|| RowMaker::of_sessions(FIELDS, false));

/// All columns of a row about something odd.
pub fn odd_columns() -> Vec<Column> {
    Log::columns_of(FIELDS)
}

/// Every name that a row may have, its source, and its meaning.
pub fn odd_names() -> Vec<(&'static str, &'static str, &'static str)> {
    let all = Counters::default();
    let docs: Vec<_> = all.iter().collect();
    let of_counter = |at: usize| {
        let doc = docs.iter().find(|(name, ..)| *name == ODD_COUNTERS[at]).map_or("", |(_, _, doc)| doc);
        let (name, source) = named(OddKind::Counter(at));
        (name, source, doc)
    };
    let reasons = DropReason::ALL.iter().filter(|reason| **reason != DropReason::FragmentWaiting);
    let stopped = reasons.map(|reason| {
        let (name, source) = named(OddKind::Stopped(*reason));
        (name, source, reason.doc())
    });
    let events = EVENTS.iter().map(|odd| (odd.name, odd.source, odd.doc));
    let limited = named(OddKind::RowsLimited);
    let limited = (limited.0, limited.1, "rows of sessions that were merged into equal ones, or left out");
    events.chain(stopped).chain((0..ODD_COUNTERS.len()).map(of_counter)).chain([limited]).collect()
}

/// What a run has counted that is odd: names and numbers, the largest number first.
pub fn odd_counts(counters: &Counters) -> Vec<(&'static str, u64)> {
    let odd = counters.iter().filter_map(|(name, count, _)| {
        let at = ODD_COUNTERS.iter().position(|odd| *odd == name)?;
        Some((named(OddKind::Counter(at)).0, count)).filter(|_| count > 0)
    });
    let mut all: Vec<_> = odd.collect();
    all.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    all
}

/// The odd events of a stack.
pub fn odd_events(stack: &Stack) -> EventSet {
    events_of(stack).iter().map(|odd| odd.event).collect()
}

/// The same, as the engine knows them; in the order of [`EVENTS`], of which a stack may lack some.
pub(crate) fn events_of(stack: &Stack) -> Arc<[OddEvent]> {
    let all = events(stack);
    let found = EVENTS.iter().enumerate().filter_map(|(number, odd)| {
        let event = all.iter().position(|event| event.is_called(odd.event))?;
        let column = |name: &str| all[event].columns.iter().position(|(column, _)| column == name);
        Some(OddEvent { event, number, detail: odd.kinds.and_then(|(name, _)| column(name)) })
    });
    found.collect()
}

/// The name of an oddity, and its source.
fn named(kind: OddKind) -> (&'static str, &'static str) {
    match kind {
        OddKind::Event(number, _) => {
            EVENTS.get(number).map_or(("event", "event"), |odd| (odd.name, odd.source))
        }
        OddKind::Stopped(DropReason::Truncated) => ("truncated_header", "packet"),
        OddKind::Stopped(DropReason::Malformed) => ("malformed_header", "packet"),
        OddKind::Stopped(DropReason::UnknownLink) => ("unknown_link_type", "packet"),
        OddKind::Stopped(reason) => (reason.label(), "packet"),
        OddKind::Counter(at) => {
            let own = ODD_COUNTERS.get(at).copied().unwrap_or_default();
            (NAMES.iter().find(|(counter, _)| *counter == own).map_or(own, |(_, name)| name), "engine")
        }
        OddKind::RowsLimited => ("rows_limited", "output"),
    }
}

/// An oddity as a session, for its row.
#[derive(Debug)]
pub(crate) struct OddRow(pub Oddity);

impl Session for OddRow {
    fn value(&self, index: usize) -> Value<'_> {
        let (name, source) = named(self.0.kind);
        let addl = match self.0.kind {
            OddKind::Event(number, kind) => {
                let kinds = EVENTS.get(number).and_then(|odd| odd.kinds).map_or(&[][..], |(_, kinds)| kinds);
                kinds.get(kind as usize).copied().unwrap_or_default()
            }
            _ => "",
        };
        match index {
            0 => Value::Text(name.into()),
            1 if addl.is_empty() => Value::Absent,
            1 => Value::Text(addl.into()),
            2 => Value::Bool(false),
            3 => Value::Text(source.into()),
            4 => Value::Unsigned(self.0.count),
            _ => Value::Absent,
        }
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.0.first)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compiler;

    #[test]
    fn the_usual_stack_has_every_odd_event() {
        let compiler = Compiler::default();
        let found = events_of(compiler.stack());
        assert_eq!(
            found.iter().map(|odd| odd.number).collect::<Vec<_>>(),
            (0..EVENTS.len()).collect::<Vec<_>>()
        );
        assert!(found[0].detail.is_some(), "the reason of a refusal");
    }

    #[test]
    fn every_oddity_has_a_name_and_a_meaning() {
        for (name, source, doc) in odd_names() {
            assert!(!name.is_empty() && !source.is_empty() && !doc.is_empty(), "{name}");
        }
        for (counter, _) in NAMES {
            assert!(ODD_COUNTERS.contains(counter), "{counter}");
        }
    }
}
