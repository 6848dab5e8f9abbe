//! Converts a resolved filter to disjunctive normal form: alternatives, each a list of predicates.
//!
//! Terms are sorted sets of indices. A term that is a superset of another term is dropped (`tcp or tcp and
//! udp` becomes `tcp`), and so is a term with a predicate and its negation. Growth is bounded: the product of
//! alternatives must not exceed [`TERMS_MAX`] at any step.

use super::ast::{Catalog, Expr, Literal, Op, Predicate, Term};
use super::lexer::span;
use super::report::{self, Report};
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of terms.
pub const TERMS_MAX: usize = 4096;

/// Maximum number of predicate references in all terms together: at most about ten megabytes, for any filter.
const REFERENCES_MAX: usize = 1 << 20;

/// The predicates of `expr` without duplicates, and the terms over them; `None` if there are too many, which
/// is reported. No terms: the filter never holds. One empty term: the filter always holds.
pub(super) fn dnf(
    expr: &Expr,
    catalog: &dyn Catalog,
    text: &str,
    report: &mut Report,
) -> Option<(Vec<Predicate>, Vec<Term>)> {
    let mut expander = Expander::default();
    let Some(sets) = expander.expand(expr) else {
        report
            .error(
                report::LIMIT,
                span(0, text.len()),
                format!("this filter has more than {TERMS_MAX} alternatives in disjunctive normal form"),
            )
            .help =
            Some("use sets (`tcp.port in {80, 443}`) instead of `or`, or ask several questions".to_string());
        return None;
    };
    let predicates = expander.predicates;
    let fields = catalog.fields();
    let terms: Vec<Term> = sets
        .into_iter()
        .map(|mut set| {
            set.sort_by_key(|&index| (fields[predicates[index].field].stage, index));
            Term { predicates: set }
        })
        .collect();
    if terms.is_empty() {
        report.warning(report::CONSTANT_TRUTH, span(0, text.len()), "this filter can never hold").help =
            Some("it requires a condition and its negation".to_string());
    }
    Some((predicates, terms))
}

#[derive(Default)]
struct Expander {
    predicates: Vec<Predicate>,
    indices: FxHashMap<Predicate, usize>,
    /// For each predicate, the index of its negation, if that occurs.
    opposites: Vec<Option<usize>>,
}

impl Expander {
    /// The terms of `expr` as sorted sets, none a superset of another.
    fn expand(&mut self, expr: &Expr) -> Option<Vec<Vec<usize>>> {
        match expr {
            Expr::True => Some(vec![Vec::new()]),
            Expr::Predicate(predicate) => Some(vec![vec![self.intern(predicate)]]),
            Expr::Or(parts) => {
                let mut terms = Vec::new();
                for part in &united(parts, false) {
                    terms.extend(self.expand(part)?);
                    // Not at every step, because the comparison is quadratic.
                    if terms.len() > 2 * TERMS_MAX {
                        terms = bounded(absorb(terms))?;
                    }
                }
                bounded(absorb(terms))
            }
            Expr::And(parts) => {
                let parts = united(parts, true);
                let mut parts = parts.iter().map(|part| self.expand(part)).collect::<Option<Vec<_>>>()?;
                // Parts with one alternative first: terms become long, but stay few while they grow.
                parts.sort_by_key(Vec::len);
                let mut terms = vec![Vec::new()];
                for right in parts {
                    let references = size(&terms) * right.len() + size(&right) * terms.len();
                    if terms.len() * right.len() > TERMS_MAX || references > REFERENCES_MAX {
                        return None;
                    }
                    terms = absorb(self.product(&terms, &right));
                }
                Some(terms)
            }
        }
    }

    fn intern(&mut self, predicate: &Predicate) -> usize {
        if let Some(&index) = self.indices.get(predicate) {
            return index;
        }
        let index = self.predicates.len();
        let opposite = Predicate { negated: !predicate.negated, ..predicate.clone() };
        let opposite = self.indices.get(&opposite).copied();
        if let Some(opposite) = opposite {
            self.opposites[opposite] = Some(index);
        }
        self.opposites.push(opposite);
        self.predicates.push(predicate.clone());
        self.indices.insert(predicate.clone(), index);
        index
    }

    /// Combines every term of `left` with every term of `right`, without contradictory terms.
    fn product(&self, left: &[Vec<usize>], right: &[Vec<usize>]) -> Vec<Vec<usize>> {
        let mut terms = Vec::with_capacity(left.len() * right.len());
        for a in left {
            for b in right {
                let mut both = [a.as_slice(), b.as_slice()].concat();
                both.sort_unstable();
                both.dedup();
                let contradicts = |&index: &usize| {
                    self.opposites[index].is_some_and(|opposite| both.binary_search(&opposite).is_ok())
                };
                if !both.iter().any(contradicts) {
                    terms.push(both);
                }
            }
        }
        terms
    }
}

/// Joins alternatives on one field into one predicate, which is evaluated once: `a == 1 or a in {2, 3}`
/// becomes `a in {1, 2, 3}`. The meaning is the same, because any of the field's values may match. In a
/// conjunction the same applies to `negated` predicates: neither of two means not one of both.
fn united(parts: &[Expr], negated: bool) -> Vec<Expr> {
    let all = unite(parts, negated, true);
    let compiles = |part: &Expr| match part {
        Expr::Predicate(Predicate { op: Op::Matches, literals, .. }) => match literals.first() {
            Some(Literal::Text(text)) => super::check_regex(text).is_ok(),
            _ => true,
        },
        _ => true,
    };
    // Each pattern compiles alone; joined they may be too large, or the first may end in a comment.
    match all.len() == parts.len() || all.iter().all(compiles) {
        true => all,
        false => unite(parts, negated, false),
    }
}

fn unite(parts: &[Expr], negated: bool, patterns_too: bool) -> Vec<Expr> {
    let mut united: Vec<Expr> = Vec::with_capacity(parts.len());
    // Keyed by field, slice, mask, and whether the predicate is a pattern.
    let mut places = FxHashMap::default();
    let mut patterns: FxHashMap<_, Vec<&str>> = FxHashMap::default();
    for part in parts {
        let Expr::Predicate(predicate) = part else {
            united.push(part.clone());
            continue;
        };
        let is_pattern = predicate.op == Op::Matches;
        let is_united = matches!(predicate.op, Op::Eq | Op::In) || is_pattern && patterns_too;
        if predicate.negated != negated || !is_united {
            united.push(part.clone());
            continue;
        }
        let key = (predicate.field, predicate.slice, predicate.mask, is_pattern);
        match places.get(&key).map(|&at| &mut united[at]) {
            Some(Expr::Predicate(first)) if is_pattern => {
                if let Some(Literal::Text(text)) = predicate.literals.first() {
                    patterns.entry(key).or_default().push(text);
                    first.literals = vec![Literal::Text(any_of(&patterns[&key]))];
                }
            }
            Some(Expr::Predicate(first)) => {
                let new = predicate.literals.iter().filter(|literal| !first.literals.contains(literal));
                let new: Vec<Literal> = new.cloned().collect();
                if !new.is_empty() {
                    first.op = Op::In;
                    first.literals.extend(new);
                }
            }
            _ => {
                places.insert(key, united.len());
                if let (true, Some(Literal::Text(text))) = (is_pattern, predicate.literals.first()) {
                    patterns.insert(key, vec![text.as_str()]);
                }
                united.push(part.clone());
            }
        }
    }
    united
}

/// One regular expression that matches any of several.
fn any_of(texts: &[&str]) -> String {
    let grouped: Vec<String> = texts.iter().map(|text| format!("(?:{text})")).collect();
    grouped.join("|")
}

fn bounded(terms: Vec<Vec<usize>>) -> Option<Vec<Vec<usize>>> {
    (terms.len() <= TERMS_MAX).then_some(terms)
}

/// The number of predicate references in all terms.
fn size(terms: &[Vec<usize>]) -> usize {
    terms.iter().map(Vec::len).sum()
}

/// Drops supersets of other terms and duplicates; the order of the rest is kept.
fn absorb(mut terms: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut seen = FxHashSet::default();
    terms.retain(|term| seen.insert(term.clone()));
    // A bit signature of each set: if its bits are not a subset, the set is not a subset either.
    let signature = |term: &Vec<usize>| term.iter().fold(0u64, |bits, index| bits | 1 << (index % 64));
    let signatures: Vec<u64> = terms.iter().map(signature).collect();
    let contains = |large: usize, small: usize| {
        signatures[small] & !signatures[large] == 0
            && terms[small].len() < terms[large].len()
            && terms[small].iter().all(|index| terms[large].binary_search(index).is_ok())
    };
    let keep: Vec<bool> =
        (0..terms.len()).map(|this| !(0..terms.len()).any(|other| contains(this, other))).collect();
    terms.into_iter().zip(keep).filter_map(|(term, keep)| keep.then_some(term)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_about_one_field_are_asked_at_once() {
        let predicate = |field, op, negated, literal| {
            let literals = vec![literal];
            let (slice, mask, span) = (None, None, crate::diag::Span::default());
            Expr::Predicate(Predicate { field, slice, mask, op, literals, negated, span })
        };
        let number = |n| Literal::Numbers(n, n);
        let parts = [
            predicate(0, Op::Eq, false, number(1)),
            predicate(1, Op::Eq, false, number(1)),
            predicate(0, Op::In, false, number(2)),
            predicate(0, Op::Ne, false, number(3)),
            predicate(0, Op::Eq, true, number(4)),
        ];
        let both = |field, op, negated, literals: &[u64]| {
            let mut one = predicate(field, op, negated, number(0));
            if let Expr::Predicate(one) = &mut one {
                one.literals = literals.iter().map(|&n| number(n)).collect();
            }
            one
        };
        let expected =
            [both(0, Op::In, false, &[1, 2]), parts[1].clone(), parts[3].clone(), parts[4].clone()];
        assert_eq!(united(&parts, false), expected);
        assert_eq!(united(&parts, true), parts, "of a conjunction only what is negated");
        let text = |text: &str| predicate(0, Op::Matches, false, Literal::Text(text.into()));
        assert_eq!(united(&[text("a"), text("b"), text("c")], false), [text("(?:a)|(?:b)|(?:c)")]);
        let apart = [text("(?x)a #c"), text("b")];
        assert_eq!(united(&apart, false), apart, "together they would be no pattern");
    }

    #[test]
    fn absorb_keeps_the_smallest() {
        let terms = vec![vec![1, 2], vec![1], vec![2, 3], vec![1], vec![2, 3, 4]];
        assert_eq!(absorb(terms), [vec![1], vec![2, 3]]);
        assert_eq!(absorb(vec![vec![1], vec![]]), [Vec::<usize>::new()]);
    }
}
