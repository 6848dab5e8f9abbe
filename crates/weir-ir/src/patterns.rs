//! Compiles the patterns of graphs; the interpreter and native code search with the same code.

use crate::graph::{Graph, Pattern, PatternDecl};
use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};
use std::fmt;

/// Maximum memory of one compiled regular expression, in bytes.
const REGEX_BYTES_MAX: usize = 4 << 20;

/// The compiled patterns of a graph.
#[derive(Debug, Clone)]
pub struct Patterns(Vec<Compiled>);

#[derive(Debug, Clone)]
enum Compiled {
    Contains(Box<Finder<'static>>),
    Equals(Vec<u8>),
    Less(Vec<u8>),
    Matches(Regex),
}

/// A regular expression that does not compile, or is too large.
#[derive(Debug, Clone)]
pub struct PatternError {
    /// The pattern.
    pub pattern: Pattern,
    /// The message of the regular expression library.
    pub message: String,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pattern, self.message)
    }
}

impl std::error::Error for PatternError {}

impl Patterns {
    /// Compiles the patterns of a graph.
    ///
    /// # Errors
    /// The first regular expression that does not compile.
    pub fn of(graph: &Graph) -> Result<Self, PatternError> {
        let compiled = graph.patterns.iter().enumerate().map(|(at, pattern)| {
            Ok(match pattern {
                PatternDecl::Contains(bytes) => Compiled::Contains(Box::new(Finder::new(bytes).into_owned())),
                PatternDecl::Equals(bytes) => Compiled::Equals(bytes.clone()),
                PatternDecl::Less(bytes) => Compiled::Less(bytes.clone()),
                PatternDecl::Matches(text) => {
                    let message = |e: regex::Error| e.to_string();
                    let pattern = Pattern(at as u32);
                    let regex = compile_regex(text);
                    Compiled::Matches(regex.map_err(|e| PatternError { pattern, message: message(e) })?)
                }
            })
        });
        Ok(Self(compiled.collect::<Result<_, _>>()?))
    }

    /// Whether `bytes` match `pattern`. Does not allocate, except that the first searches of a regular
    /// expression may fill its caches.
    pub fn search(&self, pattern: Pattern, bytes: &[u8]) -> bool {
        match &self.0[pattern.index()] {
            Compiled::Contains(finder) => finder.find(bytes).is_some(),
            Compiled::Equals(wanted) => bytes == wanted,
            Compiled::Less(bound) => bytes < &bound[..],
            Compiled::Matches(regex) => regex.is_match(bytes),
        }
    }
}

/// Case-insensitive and on bytes: `.` is a byte, `\d` and case folding are ASCII.
fn compile_regex(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text)
        .case_insensitive(true)
        .unicode(false)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(patterns: Vec<PatternDecl>) -> Result<Patterns, PatternError> {
        Patterns::of(&Graph { patterns, ..Graph::default() })
    }

    #[test]
    fn each_kind_finds_what_it_says() {
        let patterns = compile(vec![
            PatternDecl::Contains(b"am".to_vec()),
            PatternDecl::Equals(b"example".to_vec()),
            PatternDecl::Less(b"f".to_vec()),
            PatternDecl::Matches("^EX.*\\xff$".to_owned()),
        ])
        .expect("they compile");
        let found = |bytes: &[u8]| (0..4).map(|p| patterns.search(Pattern(p), bytes)).collect::<Vec<_>>();
        assert_eq!(found(b"example"), [true, true, true, false]);
        assert_eq!(found(b"f"), [false, false, false, false]);
        assert_eq!(found(b"Ex\xff"), [false, false, true, true]);
        assert_eq!(found(b""), [false, false, true, false]);
    }

    #[test]
    fn a_regular_expression_that_does_not_compile_is_an_error_that_names_it() {
        let error = compile(vec![PatternDecl::Equals(vec![]), PatternDecl::Matches("(".to_owned())])
            .expect_err("it does not compile");
        assert_eq!(error.pattern, Pattern(1));
        assert!(compile(vec![PatternDecl::Matches("(a{900}){900}".to_owned())]).is_err(), "too large");
    }
}
