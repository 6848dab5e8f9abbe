//! An aggregate as it is written.

use super::Comparison;
use crate::diag::Span;

/// A word and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    pub text: String,
    pub span: Span,
}

/// A measure as it is written.
#[derive(Debug, Clone)]
pub struct MeasureText {
    pub function: Word,
    pub arguments: Vec<Word>,
    pub name: Option<Word>,
    /// The whole call, without its name.
    pub span: Span,
}

/// A measure that is named, or written in full.
#[derive(Debug, Clone)]
pub enum Meant {
    Named(Word),
    Call(MeasureText),
}

/// A condition as it is written.
#[derive(Debug, Clone)]
pub enum ConditionText {
    Is(Meant, Comparison, Word),
    All(Vec<ConditionText>),
    Any(Vec<ConditionText>),
    Not(Box<ConditionText>),
    Wrong,
}

/// An aggregate as it is written.
#[derive(Debug, Default)]
pub struct Tree {
    pub measures: Vec<MeasureText>,
    /// Fields, with the names of their columns.
    pub keys: Vec<(Word, Option<Word>)>,
    pub over: Option<Word>,
    pub every: Option<Word>,
    pub having: Option<ConditionText>,
    pub top: Option<(Word, Option<Meant>)>,
}

/// The name of a measure's column: as stated, or made of its function and its field.
pub fn name_of(measure: &MeasureText) -> String {
    if let Some(name) = &measure.name {
        return name.text.clone();
    }
    let words = [&measure.function].into_iter().chain(&measure.arguments);
    let words: Vec<String> = words.map(|word| word.text.replace(['.', ':', '/', '-'], "_")).collect();
    // Bounds of histograms are in the column.
    let count = if measure.function.text.eq_ignore_ascii_case("histogram") { 2 } else { words.len() };
    words[..count.min(words.len())].join("_")
}
