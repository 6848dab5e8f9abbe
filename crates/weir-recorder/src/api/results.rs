//! Keeps the rows of answers for a while, so that further pages are those of the same moment while the
//! recorder goes on.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_guard::secrets;
use weir_web::Refusal;

/// Answers that are kept.
pub const ANSWERS_MAX: usize = 16;
/// Bytes of all of them.
pub const BYTES_MAX: usize = 64 << 20;
/// How long an answer is kept.
const AGE_MAX: Duration = Duration::from_secs(600);

/// The rows of an answer.
#[derive(Debug)]
pub struct Found {
    /// A line of JSON for each row.
    pub text: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
    /// What is to be said about the answer.
    pub notes: Vec<String>,
    /// Packets that the query did not see, because they left the recorder.
    pub lost: u64,
    is_cut: bool,
}

impl Found {
    /// The answer with these lines.
    pub fn new(text: Vec<u8>, notes: Vec<String>, lost: u64) -> Self {
        let breaks = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let ends = breaks.map(|(at, _)| at + 1).collect();
        Self { text, ends, notes, lost, is_cut: false }
    }

    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    /// The answer has not all rows.
    pub fn cut(&mut self, why: &str) {
        self.is_cut = true;
        self.notes.push(why.to_string());
    }

    /// The lines of rows `from..to`.
    pub fn lines(&self, from: usize, to: usize) -> impl Iterator<Item = &str> {
        (from..to.min(self.rows())).filter_map(|row| {
            let start = if row == 0 { 0 } else { self.ends[row - 1] };
            std::str::from_utf8(&self.text[start..self.ends[row] - 1]).ok()
        })
    }

    /// All rows as a text of JSON.
    pub fn whole(&self) -> String {
        self.page(0, self.rows(), None)
    }

    /// A page as a text of JSON; `next`: where further rows are.
    fn page(&self, from: usize, to: usize, next: Option<String>) -> String {
        let rows: Vec<&str> = self.lines(from, to).collect();
        let about: Value = json!({
            "total": self.rows(),
            "complete": !self.is_cut && self.lost == 0,
            "lost": self.lost,
            "notes": self.notes,
            "next": next,
        });
        let about = about.to_string();
        format!("{{\"rows\":[{}],{}", rows.join(","), about.strip_prefix('{').unwrap_or_default())
    }
}

/// Answers with further pages.
#[derive(Default)]
pub struct Results {
    kept: Mutex<VecDeque<Kept>>,
}

struct Kept {
    id: u128,
    found: Found,
    made: Instant,
}

impl Results {
    /// The first page of an answer, which is kept if there are more.
    pub fn first_page(&self, found: Found, limit: usize) -> String {
        if found.rows() <= limit {
            return found.page(0, limit, None);
        }
        // Clients cannot guess the answers of others. Without random numbers there are no further pages.
        let Ok(id) = secrets::random().map(u128::from_ne_bytes) else { return found.page(0, limit, None) };
        let page = found.page(0, limit, Some(cursor(id, limit)));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(Kept { id, found, made: Instant::now() });
        let bytes = |kept: &VecDeque<Kept>| kept.iter().map(|one| one.found.text.len()).sum::<usize>();
        while kept.len() > 1 && (kept.len() > ANSWERS_MAX || bytes(&kept) > BYTES_MAX) {
            kept.pop_front();
        }
        page
    }

    /// A further page.
    ///
    /// # Errors
    /// The answer is no longer kept.
    pub fn page(&self, cursor_text: &str, limit: usize) -> Result<String, Refusal> {
        let wrong = || Refusal::bad("cursor: give the text `next` of an answer");
        let (id, from) = cursor_text.split_once('-').ok_or_else(wrong)?;
        let id = u128::from_str_radix(id, 16).map_err(|_| wrong())?;
        let from: usize = from.parse().map_err(|_| wrong())?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|one| one.made.elapsed() < AGE_MAX);
        let one = kept.iter().find(|one| one.id == id).ok_or_else(|| {
            Refusal::gone("the answer is no longer kept")
                .with_hint("ask the question again, without a cursor")
        })?;
        let to = from.saturating_add(limit);
        let next = (to < one.found.rows()).then(|| cursor(id, to));
        Ok(one.found.page(from, to, next))
    }
}

fn cursor(id: u128, row: usize) -> String {
    format!("{id:032x}-{row}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: usize) -> Found {
        let text = (0..rows).flat_map(|row| format!("{{\"n\":{row}}}\n").into_bytes()).collect();
        Found::new(text, vec![], 0)
    }

    #[test]
    fn pages_follow_each_other_without_gaps() {
        let results = Results::default();
        let mut page: Value = serde_json::from_str(&results.first_page(found(7), 3)).expect("JSON");
        let mut rows = vec![];
        loop {
            rows.extend(page["rows"].as_array().expect("rows").iter().map(|row| row["n"].clone()));
            let Some(next) = page["next"].as_str() else { break };
            page = serde_json::from_str(&results.page(next, 3).expect("kept")).expect("JSON");
        }
        assert_eq!(rows, (0..7).map(Value::from).collect::<Vec<_>>());
        assert!(page["complete"] == true && page["total"] == 7);
    }

    #[test]
    fn answers_are_bounded_in_number() {
        let results = Results::default();
        let next = |text: String| serde_json::from_str::<Value>(&text).expect("JSON")["next"].clone();
        let cursors: Vec<_> = (0..=ANSWERS_MAX).map(|_| next(results.first_page(found(2), 1))).collect();
        let page = |cursor: &Value| results.page(cursor.as_str().expect("text"), 1);
        assert!(page(&cursors[0]).is_err() && cursors[1..].iter().all(|cursor| page(cursor).is_ok()));
        for wrong in ["", "x", "-", "1-", "1-x", "ffffffffffffffff-18446744073709551615"] {
            assert!(results.page(wrong, 1).is_err(), "{wrong}");
        }
    }
}
