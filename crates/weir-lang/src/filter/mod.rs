//! Filters: which traffic a question is about.
//!
//! One file per stage. `lexer` cuts the text into tokens; `parse` yields a tree (`tree`) in which
//! names and constants are still text; `resolve` looks every name up in a [`Catalog`], reads the
//! constants (`constant`, `literal`) by the field's type (`domain`) and yields an [`Expr`]; `dnf` turns
//! it into a bounded disjunction of conjunctions of [`Predicate`]s; `print` turns an [`Expr`] back into
//! text. `bpf` reads pcap-filter(7) instead and joins before `dnf`. What is wrong is collected in
//! `report`, which lists all codes. Splitting a filter over the layers is not done here but in `weir-compile`.

pub mod ast;
mod bpf;
mod constant;
mod dnf;
mod domain;
mod lexer;
mod literal;
mod names;
mod parse;
mod print;
mod report;
mod resolve;
mod tree;

pub use ast::{Catalog, Expr, FieldInfo, Literal, Op, Predicate, Stage, Term};
pub use dnf::TERMS_MAX;
pub use report::{CODES, UNKNOWN_FIELD};

use crate::diag::{Diagnostic, Severity};
use names::Names;
use report::Report;

/// Bytes of a filter's text at most.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// A filter, checked.
#[derive(Debug, Clone)]
pub struct Filter {
    /// As it was written; all spans point into it, as source 0.
    pub text: String,
    /// What it means.
    pub expr: Expr,
    /// Its predicates, each once, in the order in which they were first met.
    pub predicates: Vec<Predicate>,
    /// Its alternatives: it holds where all predicates of one of them hold. None: it never holds; an
    /// empty one: it always does.
    pub terms: Vec<Term>,
    /// What is probably not as meant.
    pub warnings: Vec<Diagnostic>,
}

impl Filter {
    /// That which never holds.
    pub fn never() -> Self {
        let (text, expr) = (String::new(), Expr::Or(vec![]));
        Self { text, expr, predicates: vec![], terms: vec![], warnings: vec![] }
    }
}

/// Compiles a display filter over the names of `catalog`.
///
/// # Errors
///
/// Everything that is wrong with it, warnings too, in the order of the text.
pub fn compile(text: &str, catalog: &dyn Catalog) -> Result<Filter, Vec<Diagnostic>> {
    compile_with(text, catalog, parse_display).map_err(|list| {
        let hint = "this is the syntax of pcap-filter(7): with `--bpf` it is a filter";
        with_hint(list, hint, || compile_with(text, catalog, bpf::parse).is_ok())
    })
}

/// Compiles a filter in the syntax of pcap-filter(7) over the names of `catalog`.
///
/// It means what libpcap means by it, with these differences: a layer counts wherever it stands (`ip`
/// also inside a VLAN tag or a tunnel), and where a packet has one several times, any of them counts.
/// A packet too short for a field makes the predicate on it false, where libpcap refuses the packet, even
/// under `not`. Ports of SCTP are found where the stack has SCTP. A first fragment waits for its datagram.
///
/// # Errors
///
/// Everything that is wrong with it, warnings too, in the order of the text.
pub fn compile_bpf(text: &str, catalog: &dyn Catalog) -> Result<Filter, Vec<Diagnostic>> {
    compile_with(text, catalog, bpf::parse).map_err(|list| {
        let hint = "this is the syntax of display filters: without `--bpf` it is a filter";
        with_hint(list, hint, || compile_with(text, catalog, parse_display).is_ok())
    })
}

/// A display filter up to its meaning.
fn parse_display(text: &str, names: &Names, report: &mut Report) -> Option<Expr> {
    match parse::parse(text, report) {
        Some(node) => resolve::resolve(&node, names, report),
        None => Some(Expr::True),
    }
}

/// The first error alone, with another help, if the text is right in the other language.
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
            // Nothing is refused without a reason.
            assert!(
                report.list.iter().any(|diagnostic| diagnostic.severity == Severity::Error),
                "refused without a word: {text:?}"
            );
            Err(report.list)
        }
    }
}

/// The most memory that a regular expression may take, compiled.
const REGEX_BYTES_MAX: usize = 4 << 20;

/// Whether the pattern of [`Op::Matches`] compiles: case does not count, as in Wireshark, and what it is matched
/// against need not be UTF-8. `weir-ir` compiles it in `patterns`, with the same limits; here it is only seen that
/// this will do, for of several patterns that are joined each would be compiled for nothing.
///
/// # Errors
///
/// The pattern is wrong, or its automaton larger than 4 MiB.
pub fn check_regex(pattern: &str) -> Result<(), String> {
    use regex_automata::nfa::thompson::{Config, NFA, WhichCaptures};
    let syntax =
        regex_automata::util::syntax::Config::new().case_insensitive(true).unicode(false).utf8(false);
    // Both ways, as searches go backwards, too.
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
