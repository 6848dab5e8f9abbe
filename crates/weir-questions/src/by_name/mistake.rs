//! Mistakes of those who state questions.

use crate::messages::failure::Failure;
use std::fmt;
use weir::lang::diag::{Diagnostic, Sources};

/// Why questions cannot be answered.
#[derive(Debug, Clone)]
pub struct Mistake {
    /// The whole message: one line, or a text that shows marked places.
    pub text: String,
    /// The marked places, if the mistakes are in filters or `.weir` texts.
    pub marks: Vec<Mark>,
}

/// A mistake at a place of a text.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The code, for example `W0107`.
    pub code: &'static str,
    /// What is wrong, in one line.
    pub message: String,
    /// The first character of the place and the one behind the last, counted in `text`. `None`: no place is
    /// marked.
    pub span: Option<(usize, usize)>,
    /// The filter, or the `.weir` text, that has the mistake; empty without a place.
    pub text: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl Mistake {
    /// A mistake without marks.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { text: message.to_string(), marks: vec![] }
    }
}

impl From<Failure> for Mistake {
    fn from(failure: Failure) -> Self {
        let mut marks = vec![];
        add_marks(&failure, &mut marks);
        Self { text: failure.to_string(), marks }
    }
}

fn add_marks(failure: &Failure, marks: &mut Vec<Mark>) {
    match failure {
        Failure::Mistakes(list) | Failure::MistakesOf(_, list) => {
            marks.extend(list.list.iter().map(|one| mark(one, &list.sources)));
        }
        Failure::Several(all) => all.iter().for_each(|one| add_marks(one, marks)),
        Failure::BrokenPipe | Failure::Message(_) | Failure::Reported => {}
    }
}

fn mark(one: &Diagnostic, sources: &Sources) -> Mark {
    let place = one.spans.first().map(|(span, _)| (*span, sources.text(span.source)));
    let characters =
        |text: &str, end: u32| text.char_indices().take_while(|(at, _)| *at < end as usize).count();
    Mark {
        code: one.code,
        message: one.message.clone(),
        span: place.map(|(span, text)| (characters(text, span.start), characters(text, span.end))),
        text: place.map(|(_, text)| text.to_string()).unwrap_or_default(),
        help: one.help.clone(),
    }
}
