//! One file per type of question; [`all`] lists them in the order of the help.

mod aggregate;
mod certs;
mod events;
mod flows;
pub(crate) mod follow;
pub(crate) mod match_;
mod noted;
mod overview;
mod packets;
mod records;
mod rules;
mod script;
pub(crate) mod sessions;
mod stats;
mod stream_questions;
mod streams;
mod summary;

pub use match_::OWN_FORMAT as GREP;

use crate::kind::QuestionKind;
use crate::spec::QuestionSpec;
use serde_json::{Map, Value};

/// All types of questions, also those that this build lacks.
pub fn all() -> Vec<QuestionKind> {
    let mut all = vec![overview::kind(), flows::kind()];
    all.extend(sessions::logs());
    all.push(sessions::kind());
    all.push(certs::kind());
    all.extend(noted::kinds());
    all.extend([
        packets::kind(),
        aggregate::kind(),
        records::kind(),
        rules::kind(),
        script::kind(),
        follow::kind(),
        match_::kind(),
        streams::kind(),
        stats::kind(),
        events::kind(),
    ]);
    all
}

/// The question that an object of options states.
///
/// # Errors
/// An option does not exist, does not apply to this type of question, or has another value; the name or the
/// type is missing.
pub fn question(given: &Map<String, Value>) -> Result<QuestionSpec, String> {
    let spec = QuestionSpec::of(given)?;
    // An unknown type is reported with its filter's mistakes, when the question is checked.
    let kind = all().into_iter().find(|kind| kind.name == spec.ask);
    match kind.and_then(|kind| given.keys().find(|name| !kind.has_option(name))) {
        Some(option) => Err(format!("`{option}` does not apply to `{}`", spec.ask)),
        None => Ok(spec),
    }
}

#[cfg(test)]
mod tests {
    use crate::kind::COMMON_OPTIONS;
    use crate::options::Options as _;
    use crate::spec::QuestionSpec;

    #[test]
    fn types_and_options_know_each_other() {
        let kinds = super::all();
        for kind in &kinds {
            for option in kind.options {
                assert!(QuestionSpec::named(option).is_some(), "{}: {option}", kind.name);
                assert!(!COMMON_OPTIONS.contains(option), "{}: all types have {option}", kind.name);
            }
            assert!(!kind.examples.is_empty(), "{} has no examples", kind.name);
        }
        for option in QuestionSpec::TABLE {
            let is_used = kinds.iter().any(|kind| kind.has_option(option.name));
            assert!(is_used, "no type of question has {}", option.name);
            assert!(!option.text().is_empty(), "{} has no text", option.name);
        }
    }
}
