//! The rows of questions: how they are made of items, and what is shown of them.
//!
//! - `resolved.rs`: the rows of a question that is checked
//! - `make.rs`: from items to rows; `merged_logs.rs`: of several logs; `dedup.rs`: each row once
//! - `view.rs`: columns, order and number; `sorter.rs`, `row_code.rs`: sorting within bounds;
//!   `host_names.rs`: names for addresses; `shown_rows.rs`: all of this for one question

pub(crate) mod dedup;
pub(crate) mod host_names;
pub(crate) mod make;
pub(crate) mod merged_logs;
pub(crate) mod resolved;
pub(crate) mod row_code;
pub(crate) mod shown_rows;
pub(crate) mod sorter;
pub(crate) mod view;
