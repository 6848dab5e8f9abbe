//! The report at the end of a run, on standard error: losses always, all counters and stages with `--stats`.

use crate::metrics::totals::{Loss, QuestionTotals};
use crate::source::memory;
use std::collections::BTreeMap;
use weir::io::Found;
use weir::io::outlet::Load;
use weir::lang::model::Stack;
use weir::packet::{DropReason, SourceStats};
use weir::{Compiled, Counters, LossCounts, Outcome, Stage};

/// The result of a run.
pub struct Ran {
    /// Counters and errors of the run.
    pub outcome: Outcome,
    /// The captures were read to their end.
    pub is_whole: bool,
    /// The packets were read for nothing: no link type of theirs is one of the stack.
    pub is_unread: bool,
    /// Metadata that the reader found in the captures in addition to packets.
    pub found: Found,
}

impl Ran {
    /// The result of a run with this outcome.
    pub fn new(outcome: Outcome, is_whole: bool, found: Found) -> Self {
        let Counters { packet, met, .. } = &outcome.counters;
        let is_unread = packet.packets > 0 && met.of(DropReason::UnknownLink) == packet.packets;
        Self { outcome, is_whole, is_unread, found }
    }

    /// Whether the answers cover the whole input.
    pub fn is_complete(&self) -> bool {
        self.is_whole && self.outcome.errors.is_empty() && !self.is_unread
    }

    /// Reports what the run could not do as it was asked, with this number of workers, and what the answers
    /// lack. `lost_bytes`: also of streams.
    pub fn warn(&self, workers: usize, stack: &Stack, lost_bytes: bool) {
        if let Some(why) = &self.outcome.one_worker {
            note!("weir: using one worker instead of {workers}: {why}");
        }
        unknown_links(stack, self);
        losses(self);
        if lost_bytes {
            self::lost_bytes(self);
        }
    }

    /// Reports the program, the run, its stages, and all nonzero counters.
    pub fn show_counters(&self, compiled: &Compiled, seconds: f64) {
        stats(compiled, self, seconds);
    }
}

/// Reports each link type that the stack does not support, once.
fn unknown_links(stack: &Stack, ran: &Ran) {
    let mut named = vec![];
    for interface in &ran.found.interfaces {
        let known = stack.starts.iter().any(|(number, _)| *number == interface.link.0);
        if !known && !named.contains(&interface.link) {
            named.push(interface.link);
            let (file, stack) = (&interface.file, &stack.name);
            let link = match interface.link.name() {
                Some(_) => format!("the link type {}", interface.link),
                None => format!("the {}", interface.link),
            };
            if ran.is_unread {
                say!("weir: {file}: the stack `{stack}` does not read {link}: nothing was analysed");
            } else {
                note!("weir: {file}: the stack `{stack}` does not read {link}: its packets have no layers");
            }
        }
    }
}

/// Reports losses to limits, even without `--stats`.
fn losses(ran: &Ran) {
    let counters = &ran.outcome.counters;
    let source = &ran.outcome.source;
    if source.dropped() > 0 {
        let (lost, received) = (source.dropped(), source.received);
        let share = lost as f64 * 100.0 / received.max(1) as f64;
        let causes = [
            (
                source.ring_full,
                "the ring was full (a larger --buffer, more workers with -j, or a narrower filter)",
            ),
            (
                source.no_buffer,
                "there was no free memory to receive into (a larger --buffer, or a narrower filter)",
            ),
            (source.refused, "the kernel could not pass them, for instance because of their length"),
            (source.invalid, "the kernel's description of them was invalid"),
            (source.damaged, "the device received them with errors"),
            (source.missing, missing(source)),
            (
                source.overtaken,
                "they left the ring of the recorder meanwhile (a narrower filter or --from, or a larger ring)",
            ),
        ];
        let (_, cause) = causes.into_iter().max_by_key(|(count, _)| *count).unwrap_or_default();
        say!(
            "weir: {lost} of {received} packets ({share:.2} %) were lost before Weir could read them: {cause}"
        );
    }
    if source.card_dropped > 0 {
        let lost = source.card_dropped;
        say!(
            "weir: the network card dropped {lost} packets before the kernel saw them: fewer packets per second, a longer receive \
             ring (ethtool -G), or more queues (ethtool -L)"
        );
    }
    let (flows, undecided) = (counters.flow.flows_refused, counters.packet.undecided);
    if flows > 0 {
        say!("weir: {flows} packets have no connection: the flow table was full (--flows-max)");
    }
    if undecided > 0 {
        say!(
            "weir: {undecided} packets were dropped before their connection or their whole datagram was known: too \
             many had to wait; find the flows first (weir flows), then filter by their addresses and ports"
        );
    }
    let shed = counters.flow.flows_shed - counters.flow.holders_shed;
    if shed > 0 {
        let why = match counters.flow.growth_refused {
            0 => "the flow table was full (--flows-max)",
            _ => "memory was too short for more flows (--memory)",
        };
        note!("weir: {shed} connections were ended early, those nearest to their time-out: {why}");
    }
    let shed = counters.flow.holders_shed;
    if shed > 0 {
        note!(
            "weir: memory was short: {shed} connections were ended early, those idle for the longest time, to \
             release the memory that they held (--memory)"
        );
    }
    let shed = counters.session.sessions_shed;
    if shed > 0 {
        note!("weir: memory was short: the sessions of {shed} connections were ended early (--memory)");
    }
    let late = counters.clock.packets_late;
    if late > 0 && counters.flow.flows_created > 0 {
        note!(
            "weir: {late} packets came more than 5 s after packets with later timestamps: connections may \
             be split (reordercap sorts a capture)"
        );
    }
    let forgotten = counters.dispatch.units_forgotten;
    if forgotten > 0 {
        note!(
            "weir: {forgotten} tunnels and fragmented datagrams were forgotten, because there were too many: their \
             connections may be split (-j 1 is exact)"
        );
    }
    let astray = counters.dispatch.packets_astray;
    if astray > 0 {
        note!(
            "weir: {astray} packets reached another worker than their connection, because the ends of a tunnel changed or \
             fragments came out of order: connections may be split (-j 1 is exact)"
        );
    }
    if ran.found.interfaces_beyond > 0 {
        let beyond = ran.found.interfaces_beyond;
        note!("weir: {beyond} interfaces beyond the limit: their packets count for the last one");
    }
    let counts = [
        ("copies of packets that were left out (--dedup)", ran.outcome.source.copies_removed),
        (
            "captures that begin inside a file, behind another one, and were read, too",
            ran.found.captures_joined,
        ),
        (
            "packets whose times are beyond the years 1677 to 2262, and that have the time of the packet before",
            ran.found.times_beyond,
        ),
    ];
    for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        note!("weir: {what}: {count}");
    }
    if ran.found.files_late > 0 {
        let late = ran.found.files_late;
        note!(
            "weir: {late} files overlap in time with more files than can be read together, and were read \
             late: merge them first (mergecap)"
        );
    }
    if ran.found.blocks_lost > 0 {
        let lost = ran.found.blocks_lost;
        note!(
            "weir: {lost} blocks of names or secrets were not written: more than 64 MiB of them came before a packet"
        );
    }
    if ran.found.is_followed && ran.found.options_cut > 0 {
        let cut = ran.found.options_cut;
        note!(
            "weir: {cut} interfaces or sections have invalid or too long options: the written file (-w) lacks them"
        );
    }
    let messages = &ran.outcome.counters.message;
    if messages.message_bytes_lost > 0 {
        let bytes = messages.message_bytes_lost;
        note!(
            "weir: {bytes} bytes of streams are in no message: they are missing or invalid (--stats, messages_…)"
        );
    }
}

/// Why packets over UDP are missing.
fn missing(source: &SourceStats) -> &'static str {
    match source.datagrams.dropped {
        0 => "datagrams were lost between the sender and this receiver (a slower sender, or a better path)",
        _ => {
            "the buffer of the socket was full (sysctl -w net.core.rmem_max=67108864, a narrower filter of the sender, or more \
             instances)"
        }
    }
}

/// Reports what each question has lost in the engine, if the run has several, and with `stats` all counts of
/// each question. Losses of the source concern all questions alike, and are reported once.
pub fn questions(questions: &BTreeMap<String, QuestionTotals>, has_several: bool, stats: bool) {
    for (name, QuestionTotals { answers, lost, in_engine }) in questions {
        let LossCounts { undecided_packets, stream_bytes, stream_segments, rows_merged, rows_left_out } =
            in_engine;
        let words = format!(
            "{undecided_packets} packets given up undecided, {stream_bytes} bytes and {stream_segments} segments of its streams \
             dropped, {rows_merged} rows merged into others, {rows_left_out} left out"
        );
        if rows_merged + rows_left_out > 0 && !stats {
            note!(
                "weir: {rows_merged} rows of {name} were merged into equal ones and {rows_left_out} left out: their \
                 connections cause more than 8 bytes of rows for a byte of traffic (--all-rows)"
            );
        }
        if stats {
            tell!("question   {name}: {answers} answers, {lost} lost at its output, {words}");
        } else if has_several && undecided_packets + stream_bytes + stream_segments > 0 {
            note!("weir: question `{name}`: {words}");
        }
    }
}

/// Reports the rows that outputs lack, because they were blocked, and their sum if `with_counter`. Returns
/// whether there are any.
pub fn lost_rows(losses: &[Loss], blocked: &[(String, Load)], with_counter: bool) -> bool {
    for Loss { question, output, rows, why } in losses {
        let question = question.as_ref().map_or(String::new(), |name| format!("question `{name}`: "));
        say!("weir: {question}{rows} rows are lost: {output} {why}");
    }
    for (output, Load { rows, .. }) in blocked {
        say!("weir: {output} is blocked: {rows} more rows are not written, and it is not complete");
    }
    let unwritten = blocked.iter().map(|(_, load)| load.rows);
    let sum: u64 = losses.iter().map(|loss| loss.rows).chain(unwritten).sum();
    if with_counter && sum > 0 {
        tell!("{:<20} {sum}", "rows_lost");
    }
    !losses.is_empty() || !blocked.is_empty()
}

/// Reports the bytes that streams lack.
fn lost_bytes(ran: &Ran) {
    let counters = &ran.outcome.counters;
    let (gap_bytes, dropped) = (counters.sequence.gap_bytes, counters.stream.stream_bytes_dropped);
    if gap_bytes > 0 {
        note!("weir: {gap_bytes} bytes of connections are missing from the capture: streams have gaps there");
    }
    if dropped > 0 || counters.stream.stream_segments_dropped > 0 {
        let segments = counters.stream.stream_segments_dropped;
        note!(
            "weir: memory was short: {dropped} bytes of chunks and {segments} out-of-order segments were \
             dropped (--memory)"
        );
    }
    if counters.sequence.refused_behind_hole > 0 {
        let refused = counters.sequence.refused_behind_hole;
        note!("weir: {refused} segments after gaps were rejected: too many wait (--mode fast skips gaps)");
    }
}

/// The program, the run, its stages, and all nonzero counters.
fn stats(compiled: &Compiled, ran: &Ran, seconds: f64) {
    let counters = &ran.outcome.counters;
    let timing = compiled.timing();
    let micros = |d: std::time::Duration| d.as_secs_f64() * 1e6;
    tell!(
        "program    {}; parse {:.0} µs, lower {:.0} µs, passes {:.0} µs, code {:.0} µs",
        if compiled.is_native() { "native" } else { "interpreter" },
        micros(timing.parse),
        micros(timing.lower),
        micros(timing.optimize),
        micros(compiled.code_time())
    );
    tell!(
        "run        {seconds:.3} s, {:.2} Mpackets/s, {:.2} Gbit/s",
        counters.packet.packets as f64 / seconds / 1e6,
        counters.packet.wire_bytes as f64 * 8.0 / seconds / 1e9
    );
    stages(&ran.outcome);
    if !ran.outcome.shares.is_empty() {
        let shares: Vec<String> = ran.outcome.shares.iter().map(u64::to_string).collect();
        tell!("workers    {} packets", shares.join(" + "));
    }
    let held = ran.outcome.memory.iter().filter(|(_, bytes, _)| *bytes > 0);
    let held: Vec<String> = held.map(|(owner, bytes, _)| format!("{owner} {bytes}")).collect();
    if !held.is_empty() {
        tell!("memory     at most {} bytes", held.join(" + "));
    }
    if let Some(bytes) = memory::process_peak_bytes() {
        tell!("process    at most {bytes} bytes of memory");
    }
    let (swaps, longest) = ran.outcome.swaps;
    if swaps > 0 {
        let millis = longest.as_secs_f64() * 1e3;
        tell!("swaps      {swaps} program changes, the slowest took {millis:.2} ms of the reading thread");
    }
    for (name, value, _) in counters.iter().filter(|c| c.1 > 0) {
        tell!("{name:<20} {value}");
    }
    let others = [
        ("blocks_skipped", ran.found.blocks_skipped),
        ("interfaces_beyond", ran.found.interfaces_beyond),
        ("files_late", ran.found.files_late),
        ("copies", ran.outcome.source.copies),
        ("copies_removed", ran.outcome.source.copies_removed),
        ("captures_joined", ran.found.captures_joined),
        ("times_beyond", ran.found.times_beyond),
        ("options_cut", ran.found.options_cut),
        ("blocks_lost", ran.found.blocks_lost),
        ("source_received", ran.outcome.source.received),
        ("source_filtered", ran.outcome.source.filtered),
        ("source_filtered_bytes", ran.outcome.source.filtered_bytes),
        ("source_counted", ran.outcome.source.counted),
        ("source_counted_bytes", ran.outcome.source.counted_bytes),
        ("source_card_dropped", ran.outcome.source.card_dropped),
        ("source_places_moved", ran.outcome.source.places_moved),
        ("source_pairs_moved", ran.outcome.source.pairs_moved),
        ("source_pairs_not_moved", ran.outcome.source.pairs_not_moved),
    ];
    let losses = ran.outcome.source.losses().into_iter().chain(ran.outcome.source.datagrams.counters());
    let losses = losses.map(|(name, value, _)| (name, value));
    for (name, value) in others.into_iter().chain(losses).filter(|(_, value)| *value > 0) {
        tell!("{name:<20} {value}");
    }
}

/// One line per stage that passed something, or that took time without passing anything.
fn stages(outcome: &Outcome) {
    let stages = &outcome.stages;
    let all = stages.cycles().max(1) as f64;
    let packets = outcome.counters.packet.packets.max(1) as f64;
    for (stage, name, what) in Stage::ALL {
        let (count, cycles) = stages.of(stage);
        if (count, cycles) == (0, 0) {
            continue;
        }
        let each = cycles as f64 / count.max(1) as f64;
        let share = cycles as f64 * 100.0 / all;
        // The share of packets that reach this stage.
        let funnel = count as f64 * 100.0 / packets;
        let unit = stages.unit();
        tell!(
            "{name:<10} {count} {what} ({funnel:.2} % of packets), {cycles} {unit}, {share:.1} %, {each:.1} each"
        );
    }
}
