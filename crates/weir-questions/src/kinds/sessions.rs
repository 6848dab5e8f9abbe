//! `weir tls`, `weir http` …: sessions of a protocol, with the columns of Zeek's logs. `weir sessions`:
//! sessions of all protocols, each row with the name of its log.

use crate::contents::extraction::Extraction;
use crate::form::Form;
use crate::kind::{Context, Counted, Group, QuestionKind, Resolved};
use crate::messages::failure::Failure;
use crate::rows::dedup::Known;
use crate::rows::make::{Rows, WriteRows, made_rows, write_row};
use crate::rows::merged_logs::Union;
use crate::spec::QuestionSpec;
use std::io;
use std::sync::Arc;
use weir::io::Format;
use weir::packet::{Batch, Row, Value};
use weir::sessions::files::File;
use weir::sessions::{PartLog, ProtocolSet, SessionRegistry};
use weir::{ColumnMask, Item, Log, Need, Question, RowFilter, RunEnd, Shape, Want};

/// The type of question about sessions of all protocols.
pub fn kind() -> QuestionKind {
    let about = "Sessions of all application protocols, each with the name of its log (`_path`)";
    let kind = QuestionKind::new("sessions", about, resolve_all).with_examples(&[
        ("sessions capture.pcap", "one row per session of any protocol"),
        ("sessions capture.pcap --format json | jq 'select(._path == \"http\")'", "for other programs"),
        ("sessions capture.pcap 'ip.addr == 192.0.2.1'", "of a host"),
    ]);
    QuestionKind { options: &["all_rows"], ..kind }
}

/// One type of question per session protocol, and one per log of parts of sessions.
pub fn logs() -> impl Iterator<Item = QuestionKind> {
    let registry = SessionRegistry::builtin();
    let of_sessions = registry.protocols().iter().map(|p| (p.name, format!("{} ({}.log)", p.doc, p.log)));
    let of_parts =
        registry.part_logs().iter().map(|log| (log.name, format!("{} ({}.log)", log.doc, log.name)));
    of_sessions.chain(of_parts).map(|(name, about)| {
        let keeps = |spec: &QuestionSpec| {
            let log = Log::of(SessionRegistry::builtin(), &spec.ask);
            spec.extract.is_some() || log.is_some_and(|log| log.known_by().is_some())
        };
        let kind = QuestionKind::new(name, about, resolve_log).with_examples(&examples(name));
        QuestionKind {
            group: if EVERYDAY.contains(&name) { Group::Everyday } else { Group::Protocols },
            options: if is_extractable(name) {
                &["all_rows", "extract", "extract_max"]
            } else {
                &["all_rows"]
            },
            notes: rows_of_others(name),
            keeps,
            ..kind
        }
    })
}

/// The logs that people use every day.
const EVERYDAY: &[&str] = &["tls", "http", "dns", "files"];

/// Examples of command lines for a log: all rows, some columns, sorted into a file.
fn examples(name: &'static str) -> Vec<(String, String)> {
    let log = Log::of(SessionRegistry::builtin(), name).expect("commands are made of the registries");
    let own = log.brief().iter().find(|column| !matches!(**column, "ts" | "orig" | "resp")).unwrap_or(&"uid");
    let filter = match name {
        "tls" => "'tls.sni contains \"example\"'".to_string(),
        "http" => "'http.response.code >= 400'".to_string(),
        "dns" => "'dns.rcode_name == \"NXDOMAIN\"'".to_string(),
        _ => "'ip.addr == 192.0.2.1'".to_string(),
    };
    let example = |line: String, what: &str| (line, what.to_string());
    let extract = is_extractable(name)
        .then(|| example(format!("{name} capture.pcap --extract DIR"), "and their contents in files"));
    let examples = vec![
        example(format!("{name} capture.pcap"), "all rows"),
        example(format!("{name} capture.pcap {filter}"), "the rows that a filter selects"),
        example(
            format!("{name} capture.pcap --columns ts,client,{own} -o {name}.csv"),
            "some columns, in a file",
        ),
    ];
    examples.into_iter().chain(extract).collect()
}

/// The column with the path of a content.
const EXTRACTED: &str = "extracted";

/// Whether the rows of a log have contents.
pub fn is_extractable(name: &str) -> bool {
    let part_logs = SessionRegistry::builtin().part_logs();
    let has_column = |log: &&&PartLog| log.fields.iter().any(|field| field.column == EXTRACTED);
    part_logs.iter().filter(has_column).any(|log| log.name == name)
}

/// The extraction that a question asks for.
fn extraction(spec: &QuestionSpec, context: &Context<'_>) -> Result<Option<Arc<Extraction>>, Failure> {
    if spec.extract.is_none() {
        return match spec.extract_max {
            Some(_) => Err(Failure::new("`extract_max` needs `extract`, the directory for the contents")),
            None => Ok(None),
        };
    }
    match context.extraction {
        Some((name, extraction)) if name == spec.name => Ok(Some(Arc::clone(extraction))),
        _ => Err(Failure::new(
            "one question of a run may have `extract`, and it must be stated at the start of the run",
        )),
    }
}

/// Help on selecting this log's rows of other protocols: DTLS, and TLS in QUIC.
fn rows_of_others(name: &str) -> Option<String> {
    let registry = SessionRegistry::builtin();
    let own = ProtocolSet::of(registry.number_of(name)?);
    let others: Vec<&str> = registry.names(Log::of(registry, name)?.holders() - own).collect();
    let fields = |names: &[&str]| names.iter().map(|n| format!("`{n}.…`")).collect::<Vec<_>>().join(" and ");
    (!others.is_empty()).then(|| {
        format!(
            "Rows from {} are selected by their own fields: {} matches none of these rows, {} do \
             (`weir fields {}`).",
            others.join(" and "),
            fields(&[name]),
            fields(&others),
            others[0]
        )
    })
}

/// The rows of one log.
fn resolve_log(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let log = Log::of(context.compiler.sessions(), &spec.ask).expect("commands are made of the registries");
    let log = if context.form.is(Format::Eve) { log.with_carrier() } else { log };
    let split = log.split_filter(context.compiler, &spec.filter, context.bpf).map_err(Failure::from);
    let (filter, asked) = split.map_err(|wrong| name_carriers(&spec.ask, wrong))?;
    let known = if spec.repeated { Known::nothing() } else { Known::of(&log, context.memory_max) };
    // If rows are deduplicated or filtered, they must be made before they can be counted.
    let extraction = extraction(spec, context)?;
    // Contents are written for rows, even if the rows are only counted.
    let is_matched = !known.is_any() && asked.is_none() && extraction.is_none();
    let count_only = *context.form == Form::Count && is_matched;
    let ask = weir::Ask { filter, need: Need::default(), want: Want::Sessions(log.holders()) };
    // Rows that are filtered, counted or shown once are not all written: the limit would take some that are.
    let all_rows = spec.all_rows || asked.is_some() || known.is_any() || *context.form == Form::Count;
    let shape = Shape { count_only, whole: extraction.is_some(), all_rows, ..log.shape() };
    let question = Question::new(ask, shape);
    let columns = log.columns();
    let place = |name: &str| columns.iter().position(|column| column.name == name).unwrap_or(columns.len());
    // Rows are chosen by these columns, whether they are shown or not.
    let mut needed: ColumnMask = log.known_by().into_iter().chain([place("ts")]).collect();
    if let Some(asked) = &asked {
        needed = needed.with(asked.columns());
    }
    if extraction.is_some() {
        needed = needed.with([place("fuid")].into_iter().collect());
    }
    let brief = [log.brief(), extraction.as_ref().map_or(&[][..], |_| &[EXTRACTED])].concat();
    let places = [place("fuid"), place(EXTRACTED)];
    let extraction = extraction.map(|extraction| (extraction, places));
    let rows = LogRows { known, asked: asked.map(Box::new), extraction };
    let counted = if is_matched { Counted::Matched } else { Counted::Rows };
    let resolved = Resolved::new(vec![question], log.path, columns, rows).with_brief(&brief);
    let show = move |questions: &mut [Question], shown: ColumnMask| {
        for question in questions {
            question.show_columns(shown.with(needed));
            question.set_want(Want::Sessions(log.asked_for(shown)));
        }
    };
    let resolved = Resolved { show_columns: Some(Box::new(show)), ..resolved };
    Ok(Resolved { counted, ..resolved })
}

/// The rows of a log that pass its filter and were not shown before.
struct LogRows {
    known: Known,
    asked: Option<Box<RowFilter>>,
    /// Where contents are written, and the indices of the columns `fuid` and `extracted`.
    extraction: Option<(Arc<Extraction>, [usize; 2])>,
}

impl LogRows {
    /// Whether a row passes the filter, and was not shown before.
    fn show(&mut self, row: Row<'_>) -> bool {
        self.asked.as_mut().is_none_or(|rows| rows.takes(row)) && self.known.learn(row)
    }
}

impl Rows for LogRows {
    fn item(&mut self, item: &Item<'_>, row: WriteRows<'_>) -> io::Result<()> {
        match item {
            Item::Rows(made) if self.asked.is_none() && !self.known.is_any() => made_rows(item, row),
            Item::Rows(made) => {
                made.range.clone().try_for_each(|index| match self.show(made.batch.row(index)) {
                    true => row(made.batch, index..index + 1),
                    false => Ok(()),
                })
            }
            Item::Part(_, made, part) if self.show(made.row(0)) => {
                let Some((extraction, [fuid, extracted])) = &self.extraction else { return row(made, 0..1) };
                let mut values = made.row(0).values();
                if let (Some(file), Some(fuid)) =
                    (part.as_any().downcast_ref::<File>(), made.cell(0, *fuid).text())
                    && let Some(path) = extraction.keep(file, fuid)
                    && let Some(value) = values.get_mut(*extracted)
                {
                    *value = Value::Text(path.into());
                }
                write_row(row, &values)
            }
            _ => Ok(()),
        }
    }

    fn fault(&mut self) -> Option<Failure> {
        self.extraction.as_ref().and_then(|(extraction, _)| extraction.files().fault())
    }

    fn end(&mut self, _: Option<&RunEnd<'_>>, _: WriteRows<'_>) -> io::Result<()> {
        self.known.report();
        if let Some((extraction, _)) = &self.extraction {
            extraction.report();
        }
        Ok(())
    }
}

/// If a filter on parts of sessions is wrong, adds to the diagnostics the names of the protocols that carry
/// these parts.
fn name_carriers(name: &str, wrong: Failure) -> Failure {
    let parts = SessionRegistry::builtin().part_logs().iter().find(|log| log.name == name);
    match (parts, wrong) {
        (Some(log), Failure::Mistakes(list)) => {
            let of: Vec<&str> = log.of.iter().map(|(protocol, _)| *protocol).collect();
            let tip = format!(
                "the filter of `weir {name}` uses the log's columns (`weir fields {name}`), and fields of \
                 the sessions that carry them, of {} (`weir fields {}`)",
                of.join(" and "),
                of[0]
            );
            Failure::Several(vec![Failure::Mistakes(list), Failure::new(tip)])
        }
        (_, wrong) => wrong,
    }
}

/// The rows of all logs.
fn resolve_all(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let all = context.compiler.sessions().all();
    let ask = weir::Ask { filter: spec.filter.clone(), need: Need::default(), want: Want::Sessions(all) };
    // EVE events name the protocol that carries a session.
    let carrier = context.form.is(Format::Eve);
    let count_only = *context.form == Form::Count;
    let question =
        Question::new(ask, Shape { carrier, count_only, all_rows: spec.all_rows, ..Shape::default() });
    // A table for people has one column of text for all values of a session.
    let is_narrow = context.form.is(Format::Table) && spec.columns.is_empty();
    let union = Arc::new(Union::of_all(context.compiler.sessions(), is_narrow));
    let columns = union.columns.clone();
    let of_logs = Arc::clone(&union);
    let show_columns = move |questions: &mut [Question], shown: ColumnMask| {
        questions.iter_mut().for_each(|question| question.show_columns(of_logs.needed(shown)));
    };
    let mut merged = Batch::new(columns.len());
    let rows = move |item: &Item<'_>, row: WriteRows<'_>| match item {
        Item::Rows(made) => {
            merged.clear();
            made.iter().for_each(|made_row| union.push(&mut merged, made.protocol, made_row));
            row(&merged, 0..merged.rows())
        }
        _ => Ok(()),
    };
    let resolved = Resolved::new(vec![question], "", columns, rows);
    let brief = &["_path", "ts", "orig", "resp", "session"];
    let resolved = Resolved { show_columns: Some(Box::new(show_columns)), ..resolved };
    Ok(Resolved { counted: Counted::Matched, ..resolved }.with_brief(brief))
}
