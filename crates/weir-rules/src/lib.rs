//! The rules of Suricata 7 and 8: a text becomes a [`Rule`], or a diagnostic that says where and why not.
//!
//! A rule is refused alone: the others of its file are not concerned. Read `model.rs` first (what a rule
//! says), then `parse.rs` (a rule's way from its text), then `keywords/` (each option by its name).

#![forbid(unsafe_code)]

mod buffers;
mod builder;
mod content;
mod coverage;
mod groups;
mod header;
mod inspect;
mod keywords;
mod load;
mod model;
mod number;
mod options;
mod parse;
mod sets;
mod settings;
#[cfg(test)]
mod tests;
mod text;
mod unsupported;
mod variable_files;
mod variables;

pub use buffers::{BUFFERS, BufferId, BufferInfo, Side};
pub use content::{Amount, Content, FastPattern};
pub use coverage::{Coverage, Reason};
pub use header::{Action, Direction, Ends};
pub use inspect::{Expressions, Inspector, OtherLetters, STEPS_MAX, Verdict, base64};
pub use load::{Listed, Place, Refused, Replaced, RuleFile, RuleSet, load};
pub use model::*;
pub use number::NumberTest;
pub use parse::{Parsed, Refusal, parse};
pub use sets::{Address, AddressSet, PortSet};
pub use settings::*;
pub use variables::Variables;
