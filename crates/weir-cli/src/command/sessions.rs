//! `weir tls`, `weir http` …: sessions of a protocol, with the columns of Zeek's logs. `weir sessions`: sessions of all
//! protocols, each row with the name of its log.

use crate::args::Ask;
use crate::ask;
use crate::dedup::Known;
use crate::failure::Failure;
use crate::form::Form;
use crate::merged_logs::Union;
use crate::rows::{Rows, WriteRow};
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Counted, Group, QuestionKind, Resolved, Subcommand};
use std::io;
use weir::io::Format;
use weir::packet::Value;
use weir::sessions::{ProtocolSet, SessionRegistry};
use weir::{Item, Log, Need, Question, RowFilter, RunEnd, Shape, Want};

/// The subcommand for sessions of all protocols.
pub fn command() -> Subcommand {
    let about = "Sessions of all application protocols, each with the name of its log (`_path`)";
    of_name("sessions", about.to_string()).with_question(QuestionKind::new(resolve_all)).with_examples(&[
        ("sessions capture.pcap", "one row per session of any protocol"),
        ("sessions capture.pcap --format json | jq 'select(._path == \"http\")'", "for other programs"),
        ("sessions capture.pcap 'ip.addr == 192.0.2.1'", "of a host"),
    ])
}

/// One subcommand per session protocol, and one per log of parts of sessions.
pub fn log_commands() -> impl Iterator<Item = Subcommand> {
    let registry = SessionRegistry::builtin();
    let of_sessions = registry.protocols().iter().map(|p| (p.name, format!("{} ({}.log)", p.doc, p.log)));
    let of_parts =
        registry.part_logs().iter().map(|log| (log.name, format!("{} ({}.log)", log.doc, log.name)));
    of_sessions.chain(of_parts).map(|(name, about)| {
        let command = of_name(name, about).with_question(QuestionKind::new(resolve_log));
        let command =
            command.in_group(if EVERYDAY.contains(&name) { Group::Everyday } else { Group::Protocols });
        let command = command.with_examples(&examples(name));
        match rows_of_others(name) {
            Some(text) => command.with_after_help(text),
            None => command,
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
    vec![
        example(format!("{name} capture.pcap"), "all rows"),
        example(format!("{name} capture.pcap {filter}"), "the rows that a filter selects"),
        example(
            format!("{name} capture.pcap --columns ts,client,{own} -o {name}.csv"),
            "some columns, in a file",
        ),
    ]
}

fn of_name(name: &'static str, about: String) -> Subcommand {
    Subcommand::new(name, about, move |mut args: Ask, all| {
        let spec = args.spec(name)?;
        ask::answer_one(&args.input, &spec, args.output.stats, all)
    })
}

/// Help on selecting this log's rows of other protocols: DTLS, and TLS in QUIC.
fn rows_of_others(name: &str) -> Option<String> {
    let registry = SessionRegistry::builtin();
    let own = ProtocolSet::of(registry.number_of(name)?);
    let others: Vec<&str> = registry.names(Log::of(registry, name)?.asked() - own).collect();
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
    let known = Known::of(&log);
    // If rows are deduplicated or filtered, they must be made before they can be counted.
    let is_matched = !known.is_any() && asked.is_none();
    let count_only = *context.form == Form::Count && is_matched;
    let ask = weir::Ask { filter, need: Need::default(), want: Want::Sessions(log.asked()) };
    let question = Question::new(ask, Shape { count_only, ..log.shape() });
    let rows = LogRows { known, asked: asked.map(Box::new) };
    let counted = if is_matched { Counted::Matched } else { Counted::Rows };
    let resolved = Resolved::new(vec![question], log.path, log.columns(), rows).with_brief(log.brief());
    Ok(Resolved { counted, ..resolved })
}

/// The rows of a log that pass its filter and were not shown before.
struct LogRows {
    known: Known,
    asked: Option<Box<RowFilter>>,
}

impl Rows for LogRows {
    fn item(&mut self, item: &Item, row: WriteRow<'_>) -> io::Result<()> {
        let Item::Session { row: values, .. } = item else { return Ok(()) };
        let is_asked = self.asked.as_mut().is_none_or(|rows| rows.takes(values));
        if is_asked && self.known.is_new(values) { row(values) } else { Ok(()) }
    }

    fn end(&mut self, _: Option<&RunEnd<'_>>, _: WriteRow<'_>) -> io::Result<()> {
        self.known.report();
        Ok(())
    }
}

/// If a filter on parts of sessions is wrong, adds to the diagnostics the names of the protocols that carry these
/// parts.
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
    let question = Question::new(ask, Shape { carrier, count_only, ..Shape::default() });
    // A table for people has one column of text for all values of a session.
    let union =
        Union::of_all(context.compiler.sessions(), context.form.is(Format::Table) && spec.columns.is_empty());
    let columns = union.columns.clone();
    let rows = move |item: &Item, row: WriteRow<'_>| match item {
        Item::Session { protocol, row: values, .. } => {
            let values: Vec<Value<'_>> = union.row(*protocol, values);
            row(&values)
        }
        _ => Ok(()),
    };
    let resolved = Resolved::new(vec![question], "", columns, rows);
    let brief = &["_path", "ts", "orig", "resp", "session"];
    Ok(Resolved { counted: Counted::Matched, ..resolved }.with_brief(brief))
}
