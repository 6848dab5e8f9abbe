//! A question (stack, filters, wanted types) lowered to one graph.
//!
//! [`catalog`] says which fields filters can name, [`columns`] those of connections, [`events`] what events a stack has; [`question`] holds what is asked; [`trie`] shares what
//! several questions demand; [`lower`] turns a
//! stack and its questions into a graph in which nothing is left out yet: what the questions don't need
//! is removed by the passes of `weir-ir`, not here. [`deferred_predicate`] lowers what can only be told from a
//! connection or a session.
#![forbid(unsafe_code)]

pub mod catalog;
pub mod columns;
pub mod deferred_predicate;
pub mod dispatch;
pub mod events;
pub mod lower;
pub mod question;
pub mod trie;
pub mod types;

pub use catalog::{FieldKey, PartFields, StackCatalog};
pub use columns::CONNECTION_COLUMNS;
pub use lower::{Lowered, OutValue, lower};
pub use question::{Need, Question, TermBit};
