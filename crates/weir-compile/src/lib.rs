//! Lowers a question (stack, filters, wanted types) to one graph.
//!
//! [`catalog`] lists the fields that filters can name, [`columns`] those of connections, [`events`] the
//! events of a stack; [`question`] defines questions; [`trie`] shares the common predicates of several
//! questions; [`lower`] turns a stack and its questions into a complete graph: code that the questions do not
//! need is removed later, by the passes of `weir-ir`. [`header_rules`] makes rules for devices of the
//! questions. [`deferred_predicate`] lowers predicates that only a connection or a session can decide.
#![forbid(unsafe_code)]

pub mod catalog;
pub mod columns;
pub mod deferred_predicate;
pub mod dispatch;
pub mod events;
pub mod header_rules;
pub mod lower;
pub mod question;
pub mod trie;
pub mod tunnels;
pub mod types;
mod walk;
pub mod weaken;
mod whole;

pub use catalog::{FieldKey, PartFields, StackCatalog};
pub use columns::{CONNECTION_COLUMNS, EndColumn, connection_columns, end_columns};
pub use lower::{
    DISPATCH_SLOTS, DISPATCH_UNKNOWN, HEADER_SLOTS, HeaderKind, Lowered, NoteOf, OutValue, header_in, lower,
    lower_for_kernel,
};
pub use lower::{PacketValue, VALUES_MAX};
pub use question::{Need, Question, RecordVar, TrieAlternative, TuplePart, ValueList, ValueOf};
