//! `having`: a predicate over the results of a group.

use std::cmp::Ordering;

use crate::scalar::Scalar;

/// The deepest nesting of a predicate.
pub(crate) const DEPTH_MAX: usize = 64;

/// A predicate over the results of a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Having {
    /// The result of a measure compared with a constant of the result's kind. False if the result is absent.
    Compare {
        /// The number of the measure.
        measure: usize,
        /// How the result compares to the constant.
        comparison: Comparison,
        /// The constant; not a NaN.
        constant: Scalar,
    },
    /// All of the predicates.
    And(Vec<Having>),
    /// At least one of the predicates.
    Or(Vec<Having>),
    /// Not the predicate.
    Not(Box<Having>),
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

impl Having {
    /// Whether the predicate holds; `result` gives the results of measures.
    pub(crate) fn holds(&self, result: &mut dyn FnMut(usize) -> Option<Scalar>) -> bool {
        match self {
            Self::Compare { measure, comparison, constant } => {
                result(*measure).is_some_and(|result| comparison.holds(result.order(*constant)))
            }
            Self::And(parts) => parts.iter().all(|part| part.holds(result)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(result)),
            Self::Not(part) => !part.holds(result),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_results_fail_every_comparison() {
        let is = |comparison| Having::Compare { measure: 0, comparison, constant: Scalar::Number(5) };
        let all = [
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::AtMost,
            Comparison::Greater,
            Comparison::AtLeast,
        ];
        let holds = |result: Option<u64>| all.map(|c| is(c).holds(&mut |_| result.map(Scalar::Number)));
        assert_eq!(holds(None), [false; 6]);
        assert_eq!(holds(Some(4)), [false, true, true, true, false, false]);
        assert_eq!(holds(Some(5)), [true, false, false, true, false, true]);
        assert_eq!(holds(Some(6)), [false, true, false, false, true, true]);
        let none = Having::Or(vec![]);
        assert!(Having::And(vec![Having::Not(Box::new(none))]).holds(&mut |_| None));
    }
}
