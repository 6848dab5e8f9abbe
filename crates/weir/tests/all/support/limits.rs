//! Limits of the protocol language, from the constants in the code: the table "Limits" of `docs/language.md`.

use std::path::Path;
use weir::lang::limits::{CHECKED, Limit};
use weir_compile::lower::{
    HISTORY_LETTERS_MAX, LAYERS_MAX, MESSAGES_MAX, ORDERED_MAX, PATH_WORDS, RUN_ITEMS_MAX, SHOW_SLOTS_MAX,
};
use weir_engine::plan::Limits;
use weir_engine::sequence::SequenceLimits;
use weir_engine::{COLUMN_BYTES_MAX, MESSAGE_BYTES_MAX};
use weir_ir::abi::FUELS_MAX;

/// Limits that are checked after a program has been compiled, and at run time.
fn later() -> Vec<Limit> {
    let (run, sequence) = (Limits::default(), SequenceLimits::default());
    vec![
        Limit::new("layers of a stack", LAYERS_MAX as u64, "error W0191, when a question is compiled"),
        Limit::new(
            "runs, sequences and repeated layers of a stack",
            FUELS_MAX as u64,
            "error W0199, when a question is compiled",
        ),
        Limit::new(
            "values in the `show` clauses of a stack (IPv6 addresses count as 2, bytes and text as 5)",
            (SHOW_SLOTS_MAX - PATH_WORDS) as u64,
            "warning W0194: the others are omitted from packet lines",
        ),
        Limit::new("items of a run", u64::from(RUN_ITEMS_MAX), "the run ends"),
        Limit::new(
            "instances that one packet belongs to",
            u64::from(run.lookups_max),
            "the packet ends there, `nesting_limit`",
        ),
        Limit::new("letters of a history", u64::from(HISTORY_LETTERS_MAX), "later ones are omitted"),
        Limit::new(
            "concurrent instances of a layer, per worker (`--flows-max`)",
            run.flows_max as u64,
            "for another one, the instance nearest to its time-out ends: `flows_shed`",
        ),
        Limit::new(
            "distance of a packet's number from the next expected one",
            sequence.window_max,
            "event `out_of_window`; the packet is not ordered",
        ),
        Limit::new(
            "out-of-order segments of one side",
            sequence.queued_segments_max as u64,
            "the gap is skipped: `forced_by_segments`",
        ),
        Limit::new(
            "bytes of these segments",
            sequence.queued_bytes_max as u64,
            "the gap is skipped: `forced_by_bytes`",
        ),
        Limit::new(
            "fragments of a datagram (instances with a one-sided key)",
            sequence.retained_segments_max as u64,
            "further ones are rejected: `refused_by_segments`",
        ),
        Limit::new(
            "bytes of such a datagram",
            sequence.retained_bytes_max,
            "further ones are rejected: `refused_by_bytes`",
        ),
        Limit::new(
            "packets that become ordered by one packet",
            u64::from(ORDERED_MAX),
            "the rest is processed with the next packet",
        ),
        Limit::new(
            "bytes of a message (`-> messages`)",
            MESSAGE_BYTES_MAX,
            "the message is not parsed: `messages_too_long`",
        ),
        Limit::new(
            "bytes in the `bytes` and `text` columns of one packet's events",
            COLUMN_BYTES_MAX as u64,
            "the columns are cut: `column_bytes_cut`",
        ),
        Limit::new(
            "messages of one packet",
            u64::from(MESSAGES_MAX),
            "the rest is processed with the next packet",
        ),
    ]
}

fn table() -> String {
    let mut text = String::from("| limit of | maximum | beyond it |\n|---|--:|---|\n");
    for limit in CHECKED.iter().chain(&later()) {
        text += &format!("| {} | {} | {} |\n", limit.what, grouped(limit.most), limit.beyond);
    }
    text
}

/// Formats a number with spaces between thousands, as in the manual.
fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{} {:03}", grouped(number / 1_000), number % 1_000),
    }
}

#[test]
fn the_limits_of_the_language_are_those_of_the_code() {
    const START: &str = "<!-- limits: WEIR_BLESS=1 cargo test -p weir --test all layers -->\n\n";
    const END: &str = "\n<!-- end of limits -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/language.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(START).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let right = format!("{head}{START}{}{END}{tail}", table());
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &right).unwrap();
    } else {
        assert!(page == right, "docs/language.md has other limits than the code: WEIR_BLESS=1 writes them");
    }
}
