//! Kinds of inputs, and single values with an order.

use std::cmp::Ordering;

/// What the words of an input are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An unsigned number; one word.
    Number,
    /// A point in time: nanoseconds since 1970, as the bits of an `i64`; one word.
    Time,
    /// A duration in nanoseconds; one word.
    Interval,
    /// The bits of an `f64`; one word. A NaN counts as absent.
    Fraction,
    /// A value that is only compared for equality, of any number of words: an address, or the 128-bit keyed
    /// hash of a text.
    Identity,
}

const SIGN: u64 = 1 << 63;

impl Kind {
    /// Turns a value into a word with the same order. [`Kind::restored`] is the inverse.
    pub(crate) fn ordered(self, word: u64) -> u64 {
        match self {
            Self::Time => word ^ SIGN,
            // The order of IEEE 754, 5.10 (totalOrder): negative values are reversed.
            Self::Fraction if word & SIGN == 0 => word | SIGN,
            Self::Fraction => !word,
            Self::Number | Self::Interval | Self::Identity => word,
        }
    }

    pub(crate) fn restored(self, word: u64) -> u64 {
        match self {
            Self::Time => word ^ SIGN,
            Self::Fraction if word & SIGN == 0 => !word,
            Self::Fraction => word & !SIGN,
            Self::Number | Self::Interval | Self::Identity => word,
        }
    }

    /// The value of a word; absent for an identity.
    pub(crate) fn scalar(self, word: u64) -> Option<Scalar> {
        match self {
            Self::Number => Some(Scalar::Number(word)),
            Self::Time => Some(Scalar::Time(word.cast_signed())),
            Self::Interval => Some(Scalar::Interval(word)),
            Self::Fraction => Some(Scalar::Fraction(f64::from_bits(word))),
            Self::Identity => None,
        }
    }
}

/// A single value: of a result, or a constant of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// A number.
    Number(u64),
    /// Nanoseconds since 1970.
    Time(i64),
    /// Nanoseconds.
    Interval(u64),
    /// A fraction.
    Fraction(f64),
}

impl Scalar {
    /// The kind of an input with such values.
    pub fn kind(self) -> Kind {
        match self {
            Self::Number(_) => Kind::Number,
            Self::Time(_) => Kind::Time,
            Self::Interval(_) => Kind::Interval,
            Self::Fraction(_) => Kind::Fraction,
        }
    }

    /// The value as the word of an input.
    pub fn word(self) -> u64 {
        match self {
            Self::Number(value) | Self::Interval(value) => value,
            Self::Time(value) => value.cast_unsigned(),
            Self::Fraction(value) => value.to_bits(),
        }
    }

    /// The order of two values of the same kind; -0.0 equals 0.0. Values of different kinds have the order of
    /// their words: a checked plan never compares such values.
    pub fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Fraction(a), Self::Fraction(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
            (Self::Time(a), Self::Time(b)) => a.cmp(&b),
            _ => self.word().cmp(&other.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_words_keep_the_order_of_values() {
        let fractions = [f64::NEG_INFINITY, -2.5, -1e-300, -0.0, 0.0, 1e-300, 2.5, f64::INFINITY];
        let words = fractions.map(|value| Kind::Fraction.ordered(value.to_bits()));
        assert!(words.is_sorted_by(|a, b| a < b), "{words:x?}");
        assert_eq!(words.map(|word| f64::from_bits(Kind::Fraction.restored(word))), fractions);

        let times = [i64::MIN, -1, 0, 1, i64::MAX];
        let words = times.map(|time| Kind::Time.ordered(time.cast_unsigned()));
        assert!(words.is_sorted_by(|a, b| a < b));
        assert_eq!(words.map(|word| Kind::Time.restored(word).cast_signed()), times);
    }
}
