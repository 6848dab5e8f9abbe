//! The metrics of a run. Names and meanings come from the tables of counters, so a new counter is a new
//! metric. Nothing of the traffic is a label, except of aggregates, whose label sets are bounded
//! (`series.rs`): addresses and names of servers would make as many series as an attacker likes.

use super::family::{Family, Kind, Sample};
use super::series::distinct;
use crate::metrics::totals::{FurtherCounters, QuestionTotals, RunTotals};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weir::packet::{DropReason, SourceStats};
use weir::{Glance, Watch};
use weir_export::otlp::Exports;

/// What the page appends to names.
const ENDINGS: [&str; 6] = ["_total", "_count", "_sum", "_bucket", "_info", "_created"];

/// The metrics of a run.
#[derive(Clone)]
pub struct Metrics {
    /// The counters of the run.
    pub watch: Watch,
    /// Those of its questions.
    pub totals: RunTotals,
    /// Start of the run, as time since 1970.
    pub begun: Duration,
    /// What was sent to the collector of `--otlp`, if there is one.
    pub exports: Option<Arc<Exports>>,
}

impl Metrics {
    /// The metrics as they are now.
    pub fn families(&self) -> Vec<Family> {
        let Self { watch, totals, begun, exports } = self;
        let questions = totals.all_questions();
        let mut families = of((&watch.glance(), &watch.workers()), &questions, *begun);
        families.extend(exports.iter().flat_map(|exports| of_exports(exports)));
        families.extend(totals.further().into_iter().flat_map(of_others));
        for family in totals.series().iter().flat_map(|series| series.families()) {
            add(&mut families, family);
        }
        families
    }
}

/// A name without the ending that the page may append.
fn stem(name: &str) -> &str {
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// Adds a family whose name users chose. Two such names may be equal on the page: they differ only in
/// characters that names of metrics cannot have, or in an ending.
fn add(families: &mut Vec<Family>, family: Family) {
    let is_taken = |name: &str| families.iter().any(|known| stem(&known.name) == stem(name));
    let name = distinct(family.name.into_owned(), is_taken).into();
    families.push(Family { name, ..family });
}

/// All metrics of a run that has come this far, together and by worker, but those of aggregates.
fn of(
    (glance, workers): (&Glance, &[Glance]),
    questions: &BTreeMap<String, QuestionTotals>,
    begun: Duration,
) -> Vec<Family> {
    let mut families = packets(glance);
    let of_workers = workers.iter().enumerate();
    families.push(labelled(
        "weir_worker_packets",
        Kind::Counter,
        "Packets that the worker of this number has processed.",
        of_workers.map(|(number, of)| ("worker", number.to_string(), of.counters.packet.packets as f64)),
    ));
    families.extend(engine(glance));
    families.extend(of_questions(questions));
    families.push(one(
        "process_start_time_seconds",
        Kind::Gauge,
        "Start of the run, as seconds since 1970.",
        begun.as_secs_f64(),
    ));
    families.push(labelled(
        "weir_build",
        Kind::Info,
        "The version of Weir.",
        [("version", env!("CARGO_PKG_VERSION").to_string(), 1.0)],
    ));
    families
}

/// The counters of something that takes part in the run.
fn of_others(others: &dyn FurtherCounters) -> Vec<Family> {
    let name = |name: &str| format!("weir_{}_{name}", others.owner());
    let counters = others.counters().into_iter();
    let counters = counters.map(|(of, count, help)| one(name(of), Kind::Counter, help, count as f64));
    let levels = others.levels().into_iter();
    counters.chain(levels.map(|(of, level, help)| one(name(of), Kind::Gauge, help, level))).collect()
}

fn one(name: impl Into<Cow<'static, str>>, kind: Kind, help: &'static str, value: f64) -> Family {
    Family { name: name.into(), kind, help: help.into(), since: None, samples: vec![Sample::of(value)] }
}

fn labelled(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: impl IntoIterator<Item = (&'static str, String, f64)>,
) -> Family {
    let samples = samples.into_iter().map(|(label, of, value)| Sample::with(label, of, value)).collect();
    Family { name: name.into(), kind, help: help.into(), since: None, samples }
}

/// What became of packets: those received are those delivered, filtered, counted by the kernel and dropped,
/// as soon as none waits.
fn packets(glance: &Glance) -> Vec<Family> {
    let Glance { counters, source, .. } = glance;
    let received = counters.packet.packets + source.discarded()[0] + source.dropped();
    let drops = DropReason::ALL.iter().map(|&reason| (reason.label().to_string(), counters.drops.of(reason)));
    let drops = drops.chain(source.losses().map(|(reason, count, _)| (reason.to_string(), count)));
    let stopped = DropReason::ALL
        .iter()
        .map(|&reason| ("reason", reason.label().to_string(), counters.met.of(reason) as f64));
    let received = one(
        "weir_packets_received",
        Kind::Counter,
        "Packets received, including those that the kernel discarded, or that were lost, before they were read.",
        received as f64,
    );
    let of_packets = counters.packet.iter().filter_map(|(name, value, help)| {
        let name = match name {
            // With those of the source, below.
            "packets" | "filtered" => return None,
            "bytes" => "weir_captured_bytes".to_string(),
            "wire_bytes" => "weir_bytes".to_string(),
            other => format!("weir_packets_{other}"),
        };
        Some(one(name, Kind::Counter, help, value as f64))
    });
    let mut families = vec![received];
    families.extend(of_packets);
    families.push(labelled(
        "weir_packets_filtered",
        Kind::Counter,
        "Packets that match no question: processed to their end (engine), or discarded before they were read (kernel).",
        [("engine", counters.packet.filtered), ("kernel", source.filtered)]
            .map(|(by, count)| ("by", by.to_string(), count as f64)),
    ));
    families.push(one(
        "weir_kernel_filtered_bytes",
        Kind::Counter,
        "Bytes of the packets that the kernel discarded because no question needs them.",
        source.filtered_bytes as f64,
    ));
    families.push(one(
        "weir_packets_counted",
        Kind::Counter,
        "Packets that the kernel counted for connections of which nothing more was wanted, and discarded.",
        source.counted as f64,
    ));
    families.push(one(
        "weir_kernel_counted_bytes",
        Kind::Counter,
        "Bytes of the packets that the kernel counted for connections.",
        source.counted_bytes as f64,
    ));
    families.extend(moves(source));
    families.push(labelled(
        "weir_drops",
        Kind::Counter,
        "Packets that no question received, because their processing stopped early, or because they were lost before they \
         were read (source_...).",
        drops.map(|(reason, count)| ("reason", reason, count as f64)),
    ));
    families.push(one(
        "weir_source_card_dropped",
        Kind::Counter,
        "Packets that network cards dropped before the kernel saw them. They are not among those received.",
        source.card_dropped as f64,
    ));
    let datagrams = source.datagrams.counters().into_iter();
    let datagrams = datagrams.filter_map(|(name, count, _)| Some((name.strip_prefix("datagrams_")?, count)));
    families.push(labelled(
        "weir_datagrams",
        Kind::Counter,
        "Datagrams that brought no packets (-r udp://): repeated, late or invalid ones, and those dropped because the socket's \
         buffer was full.",
        datagrams.map(|(kind, count)| ("kind", kind.to_string(), count as f64)),
    ));
    families.push(one(
        "weir_streams_forgotten",
        Kind::Counter,
        "Streams of datagrams that were forgotten because there were too many senders.",
        source.datagrams.streams_forgotten as f64,
    ));
    families.push(labelled(
        "weir_packets_stopped",
        Kind::Counter,
        "Packets whose processing stopped early, whether or not a question received them.",
        stopped,
    ));
    families
}

/// Pairs of hosts that moved away from workers that fall behind.
fn moves(source: &SourceStats) -> [Family; 3] {
    [
        one(
            "weir_places_moved",
            Kind::Counter,
            "How often the kernel got another worker for new pairs of hosts with some hash, because a worker fell behind.",
            source.places_moved as f64,
        ),
        one(
            "weir_pairs_moved",
            Kind::Counter,
            "Pairs of hosts assigned to another worker than the one selected by their hash, because that worker fell behind.",
            source.pairs_moved as f64,
        ),
        one(
            "weir_pairs_not_moved",
            Kind::Counter,
            "Pairs of hosts that stayed on a worker that fell behind, because too many had been moved.",
            source.pairs_not_moved as f64,
        ),
    ]
}

/// Flows, memory, and everything that the engine counts beside packets.
fn engine(glance: &Glance) -> Vec<Family> {
    let Glance { counters, flows, memory, .. } = glance;
    let memory = memory.iter().map(|(owner, bytes, _)| ("owner", owner.to_string(), bytes as f64));
    let mut families = vec![
        one("weir_flows_active", Kind::Gauge, "Flows that have not ended.", *flows as f64),
        labelled("weir_memory_bytes", Kind::Gauge, "Memory in use, by owner.", memory),
    ];
    let sequence =
        counters.sequence.iter().map(|(name, value, help)| (format!("sequence_{name}"), value, help));
    let others = counters.flow.iter().chain(counters.session.iter()).chain(counters.stream.iter());
    let others = others.chain(counters.message.iter()).chain(counters.event.iter());
    let others = others.map(|(name, value, help)| (name.to_string(), value, help));
    families.extend(sequence.chain(others).map(|(name, value, help)| {
        let kind = if name.ends_with("_peak") { Kind::Gauge } else { Kind::Counter };
        one(format!("weir_{name}"), kind, help, value as f64)
    }));
    families
}

/// What was sent to the collector of `--otlp`.
fn of_exports(exports: &Exports) -> [Family; 2] {
    [
        labelled(
            "weir_otlp_exports",
            Kind::Counter,
            "Exports of metrics that the collector accepted, and those that failed. Metrics that were not accepted are part of the \
             next export.",
            [("accepted", exports.accepted()), ("failed", exports.failed())]
                .map(|(result, count)| ("result", result.to_string(), count as f64)),
        ),
        one(
            "weir_otlp_rejected_values",
            Kind::Counter,
            "Values, in accepted exports, that the collector rejected.",
            exports.rejected_values() as f64,
        ),
    ]
}

/// The answers to each question, also to those that have ended.
fn of_questions(questions: &BTreeMap<String, QuestionTotals>) -> Vec<Family> {
    let by_question = |of: fn(&QuestionTotals) -> u64| {
        questions.iter().map(move |(name, totals)| ("question", name.clone(), of(totals) as f64))
    };
    vec![
        labelled(
            "weir_question_answers",
            Kind::Counter,
            "Answers to the question: rows, or packets. Those that are only counted are added at the end of the run.",
            by_question(|totals| totals.answers),
        ),
        labelled(
            "weir_question_lost_answers",
            Kind::Counter,
            "Answers, counted in weir_question_answers, that the output of the question did not accept, or did not write because it failed.",
            by_question(|totals| totals.lost),
        ),
        labelled(
            "weir_question_undecided_packets",
            Kind::Counter,
            "Packets that might have been answers to the question, given up before their connection was decided or their \
             datagram was complete, because too many packets were held.",
            by_question(|totals| totals.in_engine.undecided_packets),
        ),
        labelled(
            "weir_question_stream_bytes_dropped",
            Kind::Counter,
            "Bytes of streams that the question receives, or might have received, discarded because memory was short.",
            by_question(|totals| totals.in_engine.stream_bytes),
        ),
        labelled(
            "weir_question_stream_segments_dropped",
            Kind::Counter,
            "Out-of-order segments of such streams, discarded because memory was short.",
            by_question(|totals| totals.in_engine.stream_segments),
        ),
        labelled(
            "weir_question_rows_merged",
            Kind::Counter,
            "Rows of sessions beyond what the traffic of their connection allows, merged into a row that equals them but for \
             times and numbers of messages.",
            by_question(|totals| totals.in_engine.rows_merged),
        ),
        labelled(
            "weir_question_rows_left_out",
            Kind::Counter,
            "Rows of sessions beyond what the traffic of their connection allows, left out.",
            by_question(|totals| totals.in_engine.rows_left_out),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::exposition::{Exposition, text};
    use std::collections::HashSet;

    #[test]
    fn every_metric_has_a_name_of_its_own_and_every_counter_is_a_metric() {
        let mut glance = Glance::default();
        glance.counters.packet.packets = 7;
        glance.source.ring_full = 2;
        glance.source.filtered = 4;
        glance.source.counted = 10;
        let slow = QuestionTotals { answers: 5, lost: 1, ..QuestionTotals::default() };
        let questions = BTreeMap::from([("slow".to_string(), slow)]);
        let families = of((&glance, &[glance]), &questions, Duration::from_millis(1500));
        let names: HashSet<_> = families.iter().map(|family| family.name.clone()).collect();
        assert_eq!(names.len(), families.len());
        let text = text(&families, Exposition::Plain);
        for line in [
            "weir_packets_received_total 23\n",
            "weir_drops_total{reason=\"source_ring_full\"} 2\n",
            "weir_packets_filtered_total{by=\"kernel\"} 4\n",
            "weir_drops_total{reason=\"malformed\"} 0\n",
            "weir_question_lost_answers_total{question=\"slow\"} 1\n",
            "weir_worker_packets_total{worker=\"0\"} 7\n",
            "weir_memory_bytes{owner=\"tables\"} 0\n",
            "weir_flows_peak 0\n",
            "process_start_time_seconds 1.5\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}
