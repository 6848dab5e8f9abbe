//! Answers as text for people: packets in detail, conversations, reports.

pub(crate) mod conversation_lines;
pub(crate) mod grep;
pub(crate) mod hex_lines;
pub(crate) mod packet_details;
pub(crate) mod packet_text;
pub(crate) mod packet_tree;
pub(crate) mod report_lines;
pub(crate) mod summary;

pub use conversation_lines::OWN_FORMAT as CONVERSATION;
pub use report_lines::FORMAT as REPORT;
pub use summary::{SERVER_NAMES, ServerNames};
