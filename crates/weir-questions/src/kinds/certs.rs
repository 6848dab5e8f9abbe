//! `weir certs`: the certificates of servers, each once, with the time that they are still valid.

use crate::kind::{Context, QuestionKind, Resolved};
use crate::messages::failure::Failure;
use crate::rows::dedup::Known;
use crate::rows::make::{Rows, WriteRows};
use crate::spec::QuestionSpec;
use std::io;
use weir::packet::{Batch, Cell, Column, Row, Value, ValueType};
use weir::{Item, Log, Need, Question, RunEnd, Shape, Want};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("certs capture.pcap --sort days_left", "the certificates that expire first"),
    ("certs -i eth0 'ip.addr in 10.0.0.0/8'", "of one's own network, as they come"),
    ("certs capture.pcap --format markdown -o certs.md", "as a table for a report"),
];

/// The log with the certificates.
const LOG: &str = "x509";
/// Nanoseconds of a day.
const DAY_NS: f64 = 86_400e9;

/// The columns of a certificate in the log, and those of a row: what a person asks of a certificate.
const SHOWN: &[(&str, &str)] = &[
    ("certificate.subject", "subject"),
    ("san.dns", "names"),
    ("certificate.issuer", "issuer"),
    ("certificate.not_valid_before", "not_valid_before"),
    ("certificate.not_valid_after", "not_valid_after"),
    ("certificate.key_type", "key_type"),
    ("certificate.key_length", "key_length"),
    ("certificate.sig_alg", "sig_alg"),
    ("fingerprint", "fingerprint"),
];

/// The type of question.
pub fn kind() -> QuestionKind {
    let about = "Certificates of servers, each once, with the days that they are still valid";
    let kind = QuestionKind::new("certs", about, resolve).with_examples(EXAMPLES);
    QuestionKind { keeps: |_| true, ..kind }
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let sessions = context.compiler.sessions();
    let log = Log::of(sessions, LOG).ok_or_else(|| Failure::new("this weir reads no certificates"))?;
    let (made, at) = (log.columns(), |columns: &[Column], name: &str| {
        columns.iter().position(|column| column.name == name).unwrap_or(columns.len())
    });
    let of_log = |(name, shown): &(&str, &'static str)| {
        let column = made.get(at(&made, name))?;
        Some(Column { name: (*shown).into(), ..column.clone() })
    };
    let first = [
        Column::new("ts", ValueType::Time, "time of the first handshake with the certificate"),
        Column::new(
            "days_left",
            ValueType::Fraction,
            "days from this time until the certificate expires; absent if it has expired, or after the year 2262",
        ),
        Column::new("is_valid", ValueType::Bool, "whether the certificate was valid at this time"),
    ];
    let columns: Vec<Column> = first.into_iter().chain(SHOWN.iter().filter_map(of_log)).collect();
    let rows = Certificates {
        ts: at(&made, "ts"),
        is_host: at(&made, "host_cert"),
        fingerprint: at(&made, "fingerprint"),
        validity: [at(&made, "certificate.not_valid_before"), at(&made, "certificate.not_valid_after")],
        shown: SHOWN.iter().map(|(name, _)| at(&made, name)).filter(|at| *at < made.len()).collect(),
        known: Known::once(&log, context.memory_max),
    };
    let ask =
        weir::Ask { filter: spec.filter.clone(), need: Need::default(), want: Want::Sessions(log.holders()) };
    let question = Question::new(ask, Shape { all_rows: true, ..log.shape() });
    let brief = &["ts", "days_left", "subject", "names", "issuer", "not_valid_after"];
    Ok(Resolved::new(vec![question], "certs", columns, rows).with_brief(brief))
}

/// The certificates that were not shown before.
struct Certificates {
    /// Columns of the log.
    ts: usize,
    is_host: usize,
    fingerprint: usize,
    validity: [usize; 2],
    shown: Vec<usize>,
    known: Known,
}

impl Certificates {
    /// Learns of a certificate. Returns whether it is one of a server, and new.
    fn learn(&mut self, row: Row<'_>) -> bool {
        let is_host = matches!(row.cell(self.is_host), Cell::Bool(true));
        is_host && row.cell(self.fingerprint).text().is_some() && self.known.learn(row)
    }

    fn values<'r>(&self, row: Row<'r>) -> Vec<Value<'r>> {
        let time = |at: usize| if let Cell::Time(time) = row.cell(at) { Some(time.0) } else { None };
        let (now, [begin, end]) = (time(self.ts), self.validity.map(time));
        let left = now.zip(end).map(|(now, end)| (end.saturating_sub(now)) as f64 / DAY_NS);
        let has_begun = now.zip(begin).is_none_or(|(now, begin)| now >= begin);
        // The last time that there is stands for all later ones: the certificate may never expire.
        let is_exact = end != Some(i64::MAX);
        let days = left.filter(|left| is_exact && *left >= 0.0).map_or(Value::Absent, Value::Fraction);
        let is_valid = left.map_or(Value::Absent, |left| Value::Bool(left >= 0.0 && has_begun));
        let first = [row.cell(self.ts).value(), days, is_valid];
        first.into_iter().chain(self.shown.iter().map(|at| row.cell(*at).value())).collect()
    }
}

impl Rows for Certificates {
    fn item(&mut self, item: &Item<'_>, rows: WriteRows<'_>) -> io::Result<()> {
        let Item::Rows(made) = item else { return Ok(()) };
        let mut new = Batch::new(3 + self.shown.len());
        for row in made.range.clone().map(|index| made.batch.row(index)) {
            if self.learn(row) {
                new.push(&self.values(row));
            }
        }
        if new.rows() == 0 { Ok(()) } else { rows(&new, 0..new.rows()) }
    }

    fn end(&mut self, _: Option<&RunEnd<'_>>, _: WriteRows<'_>) -> io::Result<()> {
        self.known.report();
        Ok(())
    }
}
