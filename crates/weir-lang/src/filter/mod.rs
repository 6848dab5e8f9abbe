//! Filters: the selection of traffic.
//!
//! One file per stage. `lexer` splits the text into tokens. `parse` builds a syntax tree (`tree`) in which
//! names and constants are still text. `resolve` looks up names in a [`Catalog`], parses constants
//! (`constant`, `literal`) by the field's type (`domain`), and returns an [`Expr`]. `dnf` converts it to a
//! bounded disjunction of conjunctions of [`Predicate`]s. `print` converts an [`Expr`] back to text. `bpf`
//! compiles pcap-filter(7) to one predicate on the frame (`frame_test`): `frame satisfies "tcp port 443"`.
//! `report` collects mistakes and lists all codes. `weir-compile` splits a filter by layer.

pub mod ast;
mod bpf;
mod constant;
mod dnf;
mod domain;
pub mod frame_test;
pub(crate) mod lexer;
pub(crate) mod literal;
mod names;
mod parse;
mod print;
pub(crate) mod report;
mod resolve;
mod tree;

pub use ast::{Catalog, Expr, FieldInfo, Literal, Op, Predicate, Stage, Term};
pub use dnf::TERMS_MAX;
pub use names::help_on_foreign;
pub use report::{CODES, UNKNOWN_FIELD};

use crate::diag::{Diagnostic, Severity};
pub use literal::time_of;
pub(crate) use names::Names;
pub(crate) use report as codes;
pub(crate) use report::Report;
use std::sync::Arc;
use tree::Node;

/// Maximum size of a filter's text, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// A checked filter.
#[derive(Debug, Clone)]
pub struct Filter {
    /// The filter as written; all spans refer to this text, as source 0.
    pub text: String,
    /// The resolved expression.
    pub expr: Expr,
    /// Its predicates without duplicates, in the order of first occurrence.
    pub predicates: Vec<Predicate>,
    /// Its alternatives: the filter holds if all predicates of one alternative hold. No alternatives: it
    /// never holds. An empty alternative: it always holds.
    pub terms: Vec<Term>,
    /// Warnings: valid parts that probably do not do what the author meant.
    pub warnings: Vec<Diagnostic>,
}

impl Filter {
    /// The filter that never holds.
    pub fn never() -> Self {
        let (text, expr) = (String::new(), Expr::Or(vec![]));
        Self { text, expr, predicates: vec![], terms: vec![], warnings: vec![] }
    }
}

/// Compiles a display filter over the names of `catalog`.
///
/// # Errors
///
/// All mistakes, including warnings, in the order of the text.
pub fn compile(text: &str, catalog: &dyn Catalog) -> Result<Filter, Vec<Diagnostic>> {
    compile_with(text, catalog, parse_display).map_err(|list| {
        let hint = "this is the syntax of pcap-filter(7): with `--bpf` it is a filter";
        with_hint(list, hint, || compile_with(text, catalog, parse_bpf).is_ok())
    })
}

/// Compiles a filter in the syntax of pcap-filter(7): the filter `frame satisfies "…"`.
///
/// The meaning is libpcap's, before its optimiser: the offsets of headers are fixed for a link type, so tags
/// and tunnels are not looked through, and a frame that is too short for a tested part does not match.
///
/// # Errors
///
/// All mistakes, including warnings, in the order of the text.
pub fn compile_bpf(text: &str, catalog: &dyn Catalog) -> Result<Filter, Vec<Diagnostic>> {
    compile_with(text, catalog, parse_bpf).map_err(|list| {
        let hint = "this is the syntax of display filters: without `--bpf` it is a filter";
        with_hint(list, hint, || compile_with(text, catalog, parse_display).is_ok())
    })
}

/// Compiles an expression of pcap-filter(7) to a predicate on the frame.
fn parse_bpf(text: &str, names: &Names, report: &mut Report) -> Option<Expr> {
    let Some(test) = bpf::compile(text, report).ok()? else { return Some(Expr::True) };
    let span = lexer::span(0, text.len());
    let Some(field) = names.fields.iter().position(|field| field.is_frame) else {
        report.error(report::BPF_UNSUPPORTED, span, "the bytes of frames are not known here").help =
            Some("use a filter without `--bpf`".to_string());
        return None;
    };
    let literals = vec![Literal::Frame(Arc::new(test))];
    let op = Op::Satisfies;
    Some(Expr::Predicate(Predicate { field, slice: None, mask: None, op, literals, negated: false, span }))
}

/// The names of the fields and protocols that a display filter tests, as written. The names before the first
/// mistake, if the filter has one.
pub fn names_of(text: &str) -> Vec<String> {
    fn add(node: Node, names: &mut Vec<String>) {
        match node {
            Node::Test(test) => names.push(test.name),
            Node::Not(inner) => add(*inner, names),
            Node::And(parts) | Node::Or(parts) => parts.into_iter().for_each(|part| add(part, names)),
            Node::Wrong => {}
        }
    }
    let mut names = vec![];
    if text.len() <= TEXT_BYTES_MAX {
        parse::parse(text, &mut Report::default()).into_iter().for_each(|node| add(node, &mut names));
    }
    names
}

/// Parses and resolves a display filter.
fn parse_display(text: &str, names: &Names, report: &mut Report) -> Option<Expr> {
    match parse::parse(text, report) {
        Some(node) => resolve::resolve(&node, names, report),
        None => Some(Expr::True),
    }
}

/// Only the first error, with another help text, if the text is valid in the other language.
fn with_hint(mut list: Vec<Diagnostic>, hint: &str, other: impl FnOnce() -> bool) -> Vec<Diagnostic> {
    if list.iter().any(|diagnostic| diagnostic.code == report::LIMIT) || !other() {
        return list;
    }
    list.retain(|diagnostic| diagnostic.severity == Severity::Error);
    list.truncate(1);
    list.iter_mut().for_each(|diagnostic| diagnostic.help = Some(hint.to_string()));
    list
}

fn compile_with(
    text: &str,
    catalog: &dyn Catalog,
    parse: fn(&str, &Names, &mut Report) -> Option<Expr>,
) -> Result<Filter, Vec<Diagnostic>> {
    let mut report = Report::default();
    if text.len() > TEXT_BYTES_MAX {
        report
            .error(
                report::LIMIT,
                lexer::span(0, 1),
                format!("this filter has {} bytes, more than {TEXT_BYTES_MAX}", text.len()),
            )
            .help = Some("ask several questions with shorter filters".to_string());
        return Err(report.list);
    }
    let names = Names::new(catalog);
    let expr = parse(text, &names, &mut report).filter(|_| !report.has_errors());
    let normal = expr.and_then(|expr| {
        let (predicates, terms) = dnf::dnf(&expr, catalog, text, &mut report)?;
        Some((expr, predicates, terms))
    });
    report.list.sort_by_key(|diagnostic| diagnostic.spans[0].0.start);
    match normal {
        Some((expr, predicates, terms)) => {
            Ok(Filter { text: text.to_string(), expr, predicates, terms, warnings: report.list })
        }
        None => {
            // A rejection always has a reason.
            assert!(
                report.list.iter().any(|diagnostic| diagnostic.severity == Severity::Error),
                "refused without a word: {text:?}"
            );
            Err(report.list)
        }
    }
}

/// Maximum memory of a compiled regular expression.
const REGEX_BYTES_MAX: usize = 4 << 20;

/// Whether the pattern of [`Op::Matches`] compiles: case-insensitive, as in Wireshark, over bytes that need
/// not be UTF-8. `weir-ir` compiles the pattern in `patterns`, with the same limits. This function only
/// checks that this will succeed: patterns may be joined later, so compiling each one here would be wasted.
///
/// # Errors
///
/// The pattern is invalid, or its automaton exceeds 4 MiB.
pub fn check_regex(pattern: &str) -> Result<(), String> {
    use regex_automata::nfa::thompson::{Config, NFA, WhichCaptures};
    let syntax =
        regex_automata::util::syntax::Config::new().case_insensitive(true).unicode(false).utf8(false);
    // Both directions, because searches also run backwards.
    for reverse in [false, true] {
        let captures = if reverse { WhichCaptures::None } else { WhichCaptures::All };
        let config = Config::new().utf8(false).nfa_size_limit(Some(REGEX_BYTES_MAX));
        let config = config.reverse(reverse).which_captures(captures);
        let built = NFA::compiler().syntax(syntax).configure(config).build(pattern);
        built.map_err(|error| match std::error::Error::source(&error) {
            Some(syntax) => syntax.to_string(),
            None => error.to_string(),
        })?;
    }
    Ok(())
}

/// Whether a word is an operator of filters.
pub(crate) fn is_operator(word: &str) -> bool {
    lexer::display_keyword(word).is_some()
}
