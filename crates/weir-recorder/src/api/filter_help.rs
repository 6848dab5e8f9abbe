//! Mistakes and completions of filters, while they are typed.

use super::past::Past;
use serde_json::{Value, json};
use weir::lang::diag::Diagnostics;
use weir::lang::filter::Catalog as _;
use weir_questions::field_list;
use weir_web::Refusal;

/// Completions of an answer.
const COMPLETIONS_MAX: usize = 50;
/// Words of filters that are no fields.
const WORDS: &[(&str, &str)] = &[
    ("and", "both conditions hold"),
    ("or", "one of the conditions holds"),
    ("not", "the condition does not hold"),
    ("contains", "the value contains a text"),
    ("matches", "the value matches a regular expression"),
    ("in", "the value is one of a set, {80, 443}, or in a network"),
];

impl Past {
    /// The mistakes of a filter, with their places in bytes.
    pub fn check(&self, filter: &str) -> Value {
        let mistakes = match self.compiler.check_filter(filter, self.input.bpf) {
            Ok(()) => vec![],
            Err(list) => mistakes(&list, filter.len()),
        };
        json!({ "ok": mistakes.is_empty(), "mistakes": mistakes })
    }

    /// How a filter can go on before the byte `at`.
    pub fn complete(&self, filter: &str, at: usize) -> Result<Value, Refusal> {
        let before = filter
            .get(..at)
            .ok_or_else(|| Refusal::bad("at: give the number of a byte that begins a letter"))?;
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
        let start = before
            .rfind(|letter| !is_word(letter))
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        let word = before[start..].to_ascii_lowercase();
        // Texts have no completions.
        let is_quoted = before.matches('"').count() % 2 == 1;
        let mut found = vec![];
        if !is_quoted && !word.is_empty() {
            for field in self.compiler.catalog().fields() {
                let names = std::iter::once(&field.name).chain(&field.aliases);
                let name = names.into_iter().find(|name| name.starts_with(&word));
                // `server` finds `tls.server_name` behind the names that begin with the word.
                let inside =
                    || word.len() > 2 && field.name.split(['.', '_']).any(|part| part.starts_with(&word));
                let rank = match name {
                    Some(_) => 0,
                    None if inside() => 1,
                    None => continue,
                };
                let name = name.unwrap_or(&field.name);
                found.push((rank, name.len(), name.clone(), field_list::type_name(field), field.doc.clone()));
            }
            let words = WORDS.iter().filter(|(name, _)| name.starts_with(&word));
            found.extend(
                words.map(|(name, doc)| {
                    (0, name.len(), name.to_string(), "word".to_string(), doc.to_string())
                }),
            );
        }
        found.sort();
        let total = found.len();
        found.truncate(COMPLETIONS_MAX);
        let list: Vec<_> = found
            .into_iter()
            .map(|(_, _, name, kind, doc)| json!({ "name": name, "type": kind, "doc": doc }))
            .collect();
        Ok(json!({ "start": start, "end": at, "total": total, "completions": list }))
    }
}

fn mistakes(list: &Diagnostics, bytes: usize) -> Vec<Value> {
    let one = |one: &weir::lang::diag::Diagnostic| {
        let (start, end) =
            one.spans.first().map_or((0, bytes), |(span, _)| (span.start as usize, span.end as usize));
        json!({
            "code": one.code,
            "message": one.message,
            "start": start.min(bytes),
            "end": end.min(bytes),
            "hint": one.help,
        })
    };
    list.list.iter().map(one).collect()
}
