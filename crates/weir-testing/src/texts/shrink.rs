//! Removes parts of a failing case, as long as it still fails in the same place.

use super::Case;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

/// Maximum number of rounds. Shrinking ends earlier if a round removes nothing.
const ROUNDS_MAX: usize = 12;

/// The case generated from `bytes`, without the lines, questions, packets and bytes that its failure does not
/// need. Runs the case several thousand times. During that time no thread prints panics.
pub fn shrink_text(bytes: &[u8]) -> Option<String> {
    let mut case = Case::of(bytes).ok()?;
    let place: Arc<Mutex<(String, String)>> = Arc::default();
    let noted = Arc::clone(&place);
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let place = info.location().map_or(String::new(), ToString::to_string);
        *noted.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = (place, info.to_string());
    }));
    let fails = |case: &Case| {
        let failed = panic::catch_unwind(AssertUnwindSafe(|| case.try_engines())).is_err();
        failed.then(|| place.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone())
    };
    let wanted = fails(&case).map(|(place, _)| place);
    if wanted.is_some() {
        let still_fails = |case: &Case| fails(case).map(|(place, _)| place) == wanted;
        let spread = Case { text: spread(&case.text), ..case.clone() };
        if still_fails(&spread) {
            case = spread;
        }
        let mut round = 0;
        while round < ROUNDS_MAX && shrink_once(&mut case, &still_fails) {
            round += 1;
        }
    }
    let failed = fails(&case);
    panic::set_hook(before);
    failed.map(|(_, message)| format!("{message}\n{case}"))
}

/// The text with each field and each brace of a header on its own line. Clauses on one line are not split.
fn spread(text: &str) -> String {
    let is_whole = |line: &str| {
        let whole = ["on ", "event ", "show ", "states ", "timeout ", "let ", "instance ", "table ", "fn "];
        whole.iter().any(|word| line.trim_start().starts_with(word)) || line.contains(" in {")
    };
    let mut spread = String::new();
    for line in text.replace(" \"made up\"", "").lines() {
        if is_whole(line) {
            spread += line;
        } else {
            spread += &line.replace("{ ", "{\n").replace(" }", "\n}").replace("  ", "\n");
        }
        spread.push('\n');
    }
    let lines = spread.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

/// The first and the last line of each block.
fn blocks(text: &str) -> Vec<(usize, usize)> {
    let (mut open, mut found) = (vec![], vec![]);
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with('}')
            && let Some(start) = open.pop()
        {
            found.push((start, at));
        }
        if line.trim_end().ends_with('{') {
            open.push(at);
        }
    }
    found.sort_unstable();
    found.reverse();
    found
}

fn without(text: &str, is_left_out: impl Fn(usize) -> bool) -> String {
    let kept = text.lines().enumerate().filter(|(at, _)| !is_left_out(*at));
    kept.map(|(_, line)| format!("{line}\n")).collect()
}

/// Tries to remove each part. Returns whether a part was removed.
fn shrink_once(case: &mut Case, still_fails: &dyn Fn(&Case) -> bool) -> bool {
    let mut shrunk = false;
    let mut attempt = |case: &mut Case, change: &dyn Fn(&mut Case)| {
        let mut smaller = case.clone();
        change(&mut smaller);
        let holds = still_fails(&smaller);
        if holds {
            (*case, shrunk) = (smaller, true);
        }
        holds
    };
    for size in [16, 4, 1] {
        // From the end, because names are declared before their use.
        let mut at = case.packets.len();
        while at > 0 {
            at = at.saturating_sub(size).min(case.packets.len());
            attempt(case, &|case| drop(case.packets.drain(at..(at + size).min(case.packets.len()))));
        }
        let mut at = case.text.lines().count();
        while at > 0 {
            at = at.saturating_sub(size).min(case.text.lines().count());
            attempt(case, &|case| case.text = without(&case.text, |line| (at..at + size).contains(&line)));
        }
        for (first, last) in blocks(&case.text) {
            // Removes the whole block, or only its first and last lines. Earlier removals shift the lines;
            // the attempt then fails.
            if !attempt(case, &|case| case.text = without(&case.text, |line| (first..=last).contains(&line)))
            {
                attempt(case, &|case| case.text = without(&case.text, |line| line == first || line == last));
            }
        }
    }
    for at in (0..case.asks.len()).rev() {
        if case.asks.len() > 1 {
            attempt(case, &|case| drop(case.asks.remove(at)));
        }
    }
    for at in 0..case.asks.len() {
        if !case.asks[at].filter.is_empty() {
            attempt(case, &|case| case.asks[at].filter.clear());
        }
    }
    for at in 0..case.packets.len() {
        while !case.packets[at].bytes.is_empty()
            && attempt(case, &|case| {
                let bytes = &mut case.packets[at].bytes;
                bytes.truncate(bytes.len() - 1);
            })
        {}
        if case.packets[at].missing > 0 {
            attempt(case, &|case| case.packets[at].missing = 0);
        }
        for byte in 0..case.packets[at].bytes.len() {
            if case.packets[at].bytes[byte] > 0 {
                attempt(case, &|case| case.packets[at].bytes[byte] = 0);
            }
        }
    }
    shrunk
}
