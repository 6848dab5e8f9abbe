//! `weir aggregate`: counts, sums and other functions of packets or rows, by keys and in windows of time.

use crate::form::Form;
use crate::kind::{Context, QuestionKind, Resolved};
use crate::messages::failure::Failure;
use crate::metrics::Series;
use crate::rows::make::{Rows, WriteRows};
use crate::spec::{PACKETS, QuestionSpec};
use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use weir::aggregate::{AggregateRows, Aggregation, CONNECTIONS, RecordSource};
use weir::packet::{Batch, Column};
use weir::{EventRows, Item, Log, Need, Question, RunEnd, Shape, Want, connection_columns};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "aggregate 'count(), sum(frame.len) by ip.src, ip.dst' capture.pcap",
        "packets and bytes of each pair of hosts",
    ),
    (
        "aggregate 'count() by ip.dst every 1s top 5' -i eth0 'tcp.flags.syn == 1'",
        "the most asked hosts of each second",
    ),
    ("aggregate 'count(), distinct(tls.sni) by id.orig_h' --of tls capture.pcap", "of sessions"),
    ("aggregate 'sum(frame.len) as bytes by 5tuple having bytes > 1000000' capture.pcap", "large flows"),
    ("aggregate 'quantile(duration, 0.99), count() by service' --of flows capture.pcap", "of connections"),
];

/// The type of question.
pub fn kind() -> QuestionKind {
    let about =
        "Counts, sums, quantiles and other functions of packets or rows: by keys, and in windows of time";
    let kind = QuestionKind::new("aggregate", about, resolve).with_examples(EXAMPLES);
    let notes = Some(GRAMMAR.to_string());
    QuestionKind { options: &["aggregate", "of"], keeps: |_| true, notes, ..kind }
}

/// The language, for the help.
const GRAMMAR: &str =
    "The first word that names no file is the aggregate: functions of fields, then clauses in any order.
  functions  count() sum(F) min(F) max(F) mean(F) rate() rate(F) median(F) quantile(F, 0.95)
             distinct(F) first(F) last(F) histogram(F) histogram(F, 64, 512, 1500)
             each may have a name: sum(frame.len) as bytes
  by         keys: fields, with a prefix of addresses (ip.src/24); src, dst, sport, dport, proto;
             flow, hosts (both directions are one group); 5tuple, pair
  every      windows of time: every 10s; sliding ones: over 1m every 10s
  having     a condition on groups: having count() > 100 and bytes >= 1000000
  top        the largest groups: top 20, top 20 by bytes
docs/aggregates.md explains all of them.";

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let text = spec.aggregate.as_deref().ok_or_else(|| {
        Failure::new("`aggregate` is missing: what is computed, as in aggregate = \"count() by ip.src\"")
    })?;
    let (compiler, memory_max) = (context.compiler, context.memory_max);
    let of = spec.of.as_str();
    let need = Need::default();
    let asked = |want, need| weir::Ask { filter: spec.filter.clone(), need, want };
    let of_events = |events: EventRows| {
        let ask = asked(Want::Events, Need { events: events.asked, ..Need::default() });
        (Question::new(ask, Shape::default()), Some(events.columns))
    };
    let (mut question, columns): (Question, Option<Vec<Column>>) = match of {
        PACKETS => {
            let made = Aggregation::of(compiler, text, RecordSource::Packets, memory_max)?;
            return Ok(resolved(
                spec,
                made.question(&spec.filter).map_err(Failure::new)?,
                &made,
                None,
                context,
            ));
        }
        "flows" => {
            let shape = Shape { as_rows: true, ..Shape::default() };
            let ask = asked(Want::Connections, Need { service: true, ..need });
            (Question::new(ask, shape), Some(connection_columns(compiler.stack())))
        }
        "events" => of_events(EventRows::of(compiler.stack(), &spec.events).map_err(|name| {
            Failure::new(format!("the stack `{}` has no event `{name}`", compiler.stack().name))
        })?),
        name => match Log::of(compiler.sessions(), name) {
            Some(log) => {
                let shape = Shape { all_rows: true, ..log.shape() };
                (Question::new(asked(Want::Sessions(log.holders()), need), shape), Some(log.columns()))
            }
            None => {
                let event = EventRows::of(compiler.stack(), &[name.to_string()]);
                of_events(event.map_err(|_| unknown(name, context))?)
            }
        },
    };
    let all = columns.unwrap_or_default();
    let log = if of == "flows" { CONNECTIONS } else { of };
    let made = Aggregation::of(compiler, text, RecordSource::Rows(log, &all), memory_max)?;
    question.show_columns(made.row_columns());
    if let Some(column) = Log::of(compiler.sessions(), of).and_then(|log| log.named_in(made.row_columns())) {
        let name = &all[column].name;
        return Err(Failure::new(format!(
            "aggregates of {of} do not know the column `{name}`: it is written into rows, and aggregates are made of \
             sessions. Aggregate the rows: `weir {of} --format json`"
        )));
    }
    Ok(resolved(spec, question, &made, Some(&all), context))
}

fn unknown(name: &str, context: &Context<'_>) -> Failure {
    let registry = context.compiler.sessions();
    let logs = Log::all(registry).into_iter().chain(Log::of_parts(registry)).map(|log| log.ask);
    let known: Vec<&str> = [PACKETS, "flows", "events"].into_iter().chain(logs).collect();
    let near = weir::lang::diag::suggest(name, known.iter().copied());
    let help =
        near.map_or_else(|| format!("there are {}", known.join(", ")), |near| format!("is `{near}` meant?"));
    Failure::new(format!("--of {name}: there are no such rows, and no event has this name: {help}"))
}

fn resolved(
    spec: &QuestionSpec,
    question: Question,
    made: &Aggregation,
    columns: Option<&[Column]>,
    context: &Context<'_>,
) -> Resolved {
    let shown = made.columns().to_vec();
    // A table shows whether results are exact only where a person asks for all columns.
    let is_brief = |name: &Cow<'static, str>| !HIDDEN.contains(&&**name);
    let brief: Vec<_> = shown.iter().map(|column| column.name.clone()).filter(is_brief).collect();
    let series = Arc::new(Series::new(&spec.name, made));
    let rows = Aggregated {
        rows: AggregateRows::new(made, context.compiler.stack(), columns),
        series: Arc::clone(&series),
        reports_losses: *context.form != Form::Count,
    };
    Resolved { brief, series: Some(series), ..Resolved::new(vec![question], "aggregate", shown, rows) }
}

/// Columns that a table leaves out.
const HIDDEN: &[&str] = &["te", "inexact"];

/// Writes the rows that `act` closes. After an error, further rows are lost.
fn written(series: &Series, rows: WriteRows<'_>, act: impl FnOnce(&mut dyn FnMut(&Batch))) -> io::Result<()> {
    let mut outcome = Ok(());
    act(&mut |batch| {
        if outcome.is_ok() {
            series.take(batch);
            outcome = rows(batch, 0..batch.rows());
        }
    });
    outcome
}

/// The rows of an aggregate.
struct Aggregated {
    rows: AggregateRows,
    series: Arc<Series>,
    /// Whether what bounds discarded is reported.
    reports_losses: bool,
}

impl Rows for Aggregated {
    fn item(&mut self, item: &Item<'_>, rows: WriteRows<'_>) -> io::Result<()> {
        written(&self.series, rows, |each| match item {
            Item::Pipeline(part) => self.rows.take_part(part, each),
            Item::Rows(made) => made.iter().for_each(|row| self.rows.take_row(row, each)),
            _ => {}
        })
    }

    fn pause(&mut self, now: Option<i64>, rows: WriteRows<'_>) -> io::Result<()> {
        let Some(now) = now else { return Ok(()) };
        written(&self.series, rows, |each| self.rows.pass_time(now, each))
    }

    fn end(&mut self, _: Option<&RunEnd<'_>>, rows: WriteRows<'_>) -> io::Result<()> {
        written(&self.series, rows, |each| self.rows.finish(each))?;
        if self.reports_losses {
            let counters = self.rows.counters();
            let losses = [
                (counters.late, "records came after the end of their window"),
                (counters.ahead, "records were too far in the future for a window"),
                (counters.in_other, "records are in the group `other`, because there are too many groups"),
                (counters.values_cut, "values were left out, because memory was short"),
                (
                    self.rows.texts_refused(),
                    "texts of keys or values are not shown, because there are too many",
                ),
            ];
            for (count, what) in losses.into_iter().filter(|(count, _)| *count > 0) {
                note!("weir: {count} {what}");
            }
        }
        Ok(())
    }
}
