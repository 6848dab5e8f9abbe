//! The language of aggregates: what is counted, by which keys, in which windows of time.
//!
//! ```text
//! aggregate = measure { "," measure } { clause }
//! clause    = "by" key { "," key }  |  [ "over" time ] "every" time  |  "having" condition  |  "top" number [ "by" measure ]
//! measure   = function "(" [ argument { "," argument } ] ")" [ "as" name ]
//! argument  = field | number
//! key       = field [ "/" bits ] [ "as" name ] | shorthand
//! condition = part of conditions with "and", "or", "not", parentheses, and comparisons: measure op number
//! ```
//!
//! For example `count(), sum(frame.len), distinct(ip.src) by ip.dst, tcp.dstport every 10s top 20`. The
//! clauses come in any order, each at most once. A measure of `having` and `top` is one of the list, by its
//! name or in full, or another one, which then has no column.

mod parse;
mod resolve;
mod tree;

use crate::diag::Diagnostic;
use crate::filter::Catalog;

pub use weir_aggregate::{Comparison, Top};

/// A function of values. The bounds of a histogram are numbers, of intervals nanoseconds; without bounds,
/// each power of two is one.
pub type Function = weir_aggregate::Function<Vec<u64>>;

/// Something that is computed for each group.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// The function.
    pub function: Function,
    /// Index of the field in the catalogue.
    pub field: Option<usize>,
    /// The name of the column.
    pub name: String,
    /// Only a condition or `top` uses the measure: it has no column.
    pub is_hidden: bool,
}

/// A part of the key by which records are grouped.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Index of the field in the catalogue.
    pub field: usize,
    /// Number of leading bits of an address.
    pub prefix: Option<u8>,
    /// The end that the part belongs to, if the key is the same for both directions of a connection.
    pub end: Option<End>,
    /// The name of the column.
    pub name: String,
}

/// Windows of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The length in nanoseconds: a multiple of `step_ns`.
    pub length_ns: u64,
    /// From the beginning of a window to that of the next one, in nanoseconds.
    pub step_ns: u64,
}

/// A condition on the measures of a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// A comparison of the measure with this index. Times and intervals are numbers of nanoseconds.
    Is(usize, Comparison, f64),
    /// All of these hold.
    All(Vec<Condition>),
    /// One of these holds.
    Any(Vec<Condition>),
    /// The condition does not hold.
    Not(Box<Condition>),
}

/// What is computed of records.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// At least one measure. Those without a column come last.
    pub measures: Vec<Measure>,
    /// The key; without parts, all records are one group.
    pub keys: Vec<Key>,
    /// The windows; without, all records are in one.
    pub window: Option<Window>,
    /// Which groups have rows.
    pub having: Option<Condition>,
    /// How many groups have rows.
    pub top: Option<Top>,
}

/// A word of a key that stands for several fields.
#[derive(Debug, Clone, Copy)]
pub struct Shorthand<'a> {
    /// The word.
    pub word: &'a str,
    /// The names of the fields of the sender, and of the same fields of the receiver.
    pub ends: [&'a [&'a str]; 2],
    /// The names of other fields.
    pub rest: &'a [&'a str],
    /// Both directions of a connection have one key.
    pub is_two_way: bool,
}

/// An end of a connection, in a key that is the same for both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The sender of a packet.
    Sender,
    /// The receiver.
    Receiver,
}

/// A function that is not known.
pub const UNKNOWN_FUNCTION: &str = "W0130";
/// Arguments that a function does not take.
pub const ARGUMENTS: &str = "W0131";
/// A clause that is not known, is stated twice or is not complete.
pub const CLAUSE: &str = "W0132";
/// Windows that cannot be: of no length, or not multiples of their steps.
pub const WINDOW: &str = "W0133";
/// A key that records cannot be grouped by.
pub const KEY: &str = "W0134";
/// Two columns with one name.
pub const NAME: &str = "W0135";

/// Every code of an aggregate's own diagnostics with its meaning, for `docs/diagnostics.md`. Others are those
/// of filters.
pub const CODES: &[(&str, &str)] = &[
    (UNKNOWN_FUNCTION, "an unknown function of an aggregate"),
    (ARGUMENTS, "arguments that a function of an aggregate does not take"),
    (CLAUSE, "a clause of an aggregate that is unknown, stated twice or incomplete"),
    (WINDOW, "windows of no length, or whose length is no multiple of their step"),
    (KEY, "a key by which an aggregate cannot group"),
    (NAME, "two columns of an aggregate with the same name"),
];

/// Divides `AGGREGATE [where FILTER]`. Without the clause, the filter is empty.
pub fn split_filter(text: &str) -> (&str, &str) {
    match parse::find_filter(text) {
        Some((start, end)) => (text[..start].trim_end(), text[end..].trim()),
        None => (text, ""),
    }
}

/// Parses an aggregate whose fields are those of `catalog`. `shorthands`: words that stand for several keys.
///
/// # Errors
/// All mistakes in the text.
pub fn compile(
    text: &str,
    catalog: &dyn Catalog,
    shorthands: &[Shorthand<'_>],
) -> Result<Aggregate, Vec<Diagnostic>> {
    let mut report = crate::filter::Report::default();
    let tree = parse::parse(text, &mut report);
    let aggregate = resolve::resolve(&tree, catalog, shorthands, &mut report);
    match aggregate {
        Some(aggregate) if !report.has_errors() => Ok(aggregate),
        _ => Err(report.list),
    }
}

/// Parses a key without an aggregate: `ip.src/24, tcp.dstport`.
///
/// # Errors
/// All mistakes in the text.
pub fn compile_keys(
    text: &str,
    catalog: &dyn Catalog,
    shorthands: &[Shorthand<'_>],
) -> Result<Vec<Key>, Vec<Diagnostic>> {
    let mut report = crate::filter::Report::default();
    let tree = parse::parse_keys(text, &mut report);
    let keys = resolve::resolve_keys(&tree, catalog, shorthands, &mut report);
    if report.has_errors() { Err(report.list) } else { Ok(keys) }
}

#[cfg(test)]
mod tests;
