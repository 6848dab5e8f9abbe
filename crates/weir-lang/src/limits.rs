//! The limits of a `.weir` text, for the table in `docs/language.md`. Every limit here is the constant that
//! the code enforces.

use crate::check::limits::*;
use crate::library::{FILES_MAX, TEXT_BYTES_MAX};
use crate::model::{EVENTS_MAX, WHOLE_VALUES_MAX};
use crate::syntax::limits::*;

/// A limit of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The limited quantity.
    pub what: &'static str,
    /// The maximum.
    pub most: u64,
    /// The consequence of exceeding the maximum.
    pub beyond: &'static str,
}

impl Limit {
    /// A limit.
    pub const fn new(what: &'static str, most: u64, beyond: &'static str) -> Self {
        Self { what, most, beyond }
    }
}

const REFUSED: &str = "error W0007";

/// The limits that `weir check` enforces, in the order of the documentation.
pub const CHECKED: &[Limit] = &[
    Limit::new("bytes of a text", TEXT_BYTES_MAX as u64, REFUSED),
    Limit::new("files that a text imports, directly or indirectly", FILES_MAX as u64, REFUSED),
    Limit::new("nested braces, parentheses and `else if`s", DEPTH_MAX as u64, REFUSED),
    Limit::new("operators in one chain (`a + b + …`)", OPERATORS_MAX as u64, REFUSED),
    Limit::new("functions visible to a text", FUNCTIONS_MAX as u64, REFUSED),
    Limit::new("operators of a call after substitution of functions", NODES_MAX as u64, REFUSED),
    Limit::new("rows of a table", ROWS_MAX as u64, REFUSED),
    Limit::new("operators of a table lookup, rows included", LOOKUP_NODES_MAX as u64, REFUSED),
    Limit::new("fields of a header, including those of runs and `if`s", FIELDS_MAX as u64, REFUSED),
    Limit::new("derived values (`let`) of a protocol", LETS_MAX as u64, REFUSED),
    Limit::new("bits of a key, both sides of it", KEY_WORDS_MAX as u64 * 64, REFUSED),
    Limit::new("variables of a protocol, of 64 bits at most", VARS_MAX as u64, REFUSED),
    Limit::new("states of a protocol", STATES_MAX as u64, REFUSED),
    Limit::new("different fields used with `ordered.` in a protocol", ORDERED_FIELDS_MAX as u64, REFUSED),
    Limit::new("values of a chunk that messages use (`wholes`)", WHOLE_VALUES_MAX as u64, REFUSED),
    Limit::new("events of all layers of a stack", EVENTS_MAX as u64, REFUSED),
    Limit::new("paths along `with` from one event to another", WITH_MAX as u64, REFUSED),
    Limit::new("edges of a stack", EDGES_MAX as u64, REFUSED),
    Limit::new(
        "occurrences of a layer in a packet (`repeat`)",
        REPEAT_MAX,
        "in the text: error W0036; a packet ends there, drop reason `nesting_limit`",
    ),
];
