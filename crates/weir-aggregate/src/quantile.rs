//! Quantiles with a bounded relative error: a DDSketch with linear buckets inside each power of two.
//!
//! Masson, Rim, Lee, "DDSketch", 2019 (arXiv 1908.10693); the buckets are those of its *linearly interpolated
//! mapping*, also known from HdrHistogram: a power of two is divided into 64 buckets of the same width. The
//! middle of a bucket differs from any value in it by at most 1 / 128 of that value. Numbers below 128 have
//! buckets of their own, and are exact.
//!
//! The buckets are the same for all sketches, so a merged sketch equals one sketch of all values. A sketch of
//! numbers has at most 4 097 buckets of 8 bytes; one of fractions at most 16 385.

use crate::budget::Budget;
use crate::scalar::{Kind, Scalar};

/// The bound on |quantile − exact value| / |exact value|. The exact value is the one of rank ⌈q · n⌉, at
/// least 1, of the n sorted values. It holds for all numbers and intervals, and for fractions from 2⁻⁶⁴ to
/// below 2⁶⁴ in magnitude. Smaller fractions count as 0, and larger ones belong to the last bucket.
pub const QUANTILE_RELATIVE_ERROR: f64 = 1.0 / 128.0;

/// log₂ of the number of buckets of a power of two.
const PART_BITS: u32 = 6;
const PARTS: u64 = 1 << PART_BITS;
/// The smallest power of two of fractions.
const EXPONENT_MIN: i32 = -64;
/// The key of 0. Larger keys are positive values, smaller keys are negative values.
const ZERO: u64 = 1 << 13;
/// Buckets of values of one sign.
const BUCKETS: u64 = 128 << PART_BITS;

/// Bits of a packed bucket that count values.
const COUNT_BITS: u32 = 48;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// A sketch of values of one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sketch {
    /// The used buckets, sorted by key: the key in the upper 16 bits, the number of values below. Counts end
    /// at 2⁴⁸ − 1.
    buckets: Vec<u64>,
    /// The smallest and the largest value, [ordered]: no quantile is beyond them.
    ends: Option<[u64; 2]>,
}

impl Sketch {
    /// Adds a value of a [kind](Kind) with quantiles. Returns false if there is no memory for its bucket.
    pub(crate) fn insert(&mut self, kind: Kind, word: u64, budget: &mut Budget) -> bool {
        let key = if kind == Kind::Fraction { fraction_key(f64::from_bits(word)) } else { number_key(word) };
        let fits = self.add(key, 1, budget);
        if fits {
            let value = ordered(kind, word);
            self.extend([value; 2]);
        }
        fits
    }

    fn extend(&mut self, [low, high]: [u64; 2]) {
        let [least, most] = self.ends.unwrap_or([low, high]);
        self.ends = Some([least.min(low), most.max(high)]);
    }

    /// Adds the values of another sketch. Returns false if there is no memory for all buckets.
    pub(crate) fn merge(&mut self, other: &Self, budget: &mut Budget) -> bool {
        let mut is_complete = true;
        if let Some(ends) = other.ends {
            self.extend(ends);
        }
        for bucket in &other.buckets {
            is_complete &= self.add(bucket >> COUNT_BITS, bucket & COUNT_MAX, budget);
        }
        is_complete
    }

    fn add(&mut self, key: u64, count: u64, budget: &mut Budget) -> bool {
        let position = self.buckets.partition_point(|bucket| bucket >> COUNT_BITS < key);
        match self.buckets.get_mut(position) {
            Some(bucket) if *bucket >> COUNT_BITS == key => {
                *bucket += count.min(COUNT_MAX - (*bucket & COUNT_MAX));
                true
            }
            _ => {
                let fits = budget.reserve(&mut self.buckets);
                if fits {
                    self.buckets.insert(position, key << COUNT_BITS | count);
                }
                fits
            }
        }
    }

    /// The quantile `q`, and whether it is exact; none without values.
    pub(crate) fn quantile(&self, kind: Kind, q: f64) -> Option<(Scalar, bool)> {
        let count: u64 = self.buckets.iter().map(|bucket| bucket & COUNT_MAX).sum();
        let rank = rank(q, count);
        let mut before = 0;
        let bucket = self.buckets.iter().find(|bucket| {
            before += *bucket & COUNT_MAX;
            before >= rank
        })?;
        let key = bucket >> COUNT_BITS;
        let [least, most] = self.ends?;
        if kind == Kind::Fraction {
            let middle = ordered(kind, fraction_of(key).to_bits()).clamp(least, most);
            return Some((Scalar::Fraction(fraction_in(middle)), key == ZERO || least == most));
        }
        let (low, high) = numbers_of(key);
        let middle = (low + (high - low) / 2).clamp(least, most);
        let scalar = if kind == Kind::Interval { Scalar::Interval(middle) } else { Scalar::Number(middle) };
        Some((scalar, low == high || least == most))
    }
}

/// A number with the order of the values.
fn ordered(kind: Kind, word: u64) -> u64 {
    match kind {
        Kind::Fraction if word >> 63 == 1 => !word,
        Kind::Fraction => word | 1 << 63,
        _ => word,
    }
}

/// The fraction of an [ordered] number.
fn fraction_in(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}

/// The rank of a quantile among `count` values: ⌈q · count⌉, from 1 to `count`.
fn rank(q: f64, count: u64) -> u64 {
    ((q * count as f64).ceil() as u64).clamp(1, count.max(1))
}

fn number_key(number: u64) -> u64 {
    if number == 0 {
        return ZERO;
    }
    let exponent = number.ilog2();
    // The leading bit of the number moves to the bit of PARTS.
    let leading = if exponent < PART_BITS {
        number << (PART_BITS - exponent)
    } else {
        number >> (exponent - PART_BITS)
    };
    let power = u64::from(exponent) + u64::from(EXPONENT_MIN.unsigned_abs());
    ZERO + 1 + (power << PART_BITS | leading & (PARTS - 1))
}

fn fraction_key(fraction: f64) -> u64 {
    let bits = fraction.abs().to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    if exponent < EXPONENT_MIN {
        return ZERO;
    }
    let part = bits >> (52 - PART_BITS) & (PARTS - 1);
    let bucket = (((exponent - EXPONENT_MIN) as u64) << PART_BITS | part).min(BUCKETS - 1);
    if fraction < 0.0 { ZERO - 1 - bucket } else { ZERO + 1 + bucket }
}

/// The power of two, and the part of the power of two, of a bucket.
fn place(bucket: u64) -> (i32, u64) {
    ((bucket >> PART_BITS) as i32 + EXPONENT_MIN, bucket & (PARTS - 1))
}

/// The smallest and the largest number of a bucket.
fn numbers_of(key: u64) -> (u64, u64) {
    if key == ZERO {
        return (0, 0);
    }
    let (exponent, part) = place(key - ZERO - 1);
    match exponent.unsigned_abs() {
        exponent if exponent < PART_BITS => {
            let number = (PARTS | part) >> (PART_BITS - exponent);
            (number, number)
        }
        exponent => {
            let low = (PARTS | part) << (exponent - PART_BITS);
            (low, low + ((1 << (exponent - PART_BITS)) - 1))
        }
    }
}

/// The middle of a bucket.
fn fraction_of(key: u64) -> f64 {
    let middle = |bucket| {
        let (exponent, part) = place(bucket);
        2_f64.powi(exponent) * (1.0 + (part as f64 + 0.5) / PARTS as f64)
    };
    match key {
        ZERO => 0.0,
        key if key > ZERO => middle(key - ZERO - 1),
        key => -middle(ZERO - 1 - key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number_of(word: u64) -> u64 {
        let mut sketch = Sketch::default();
        assert!(sketch.insert(Kind::Number, word, &mut Budget::new(1_000)));
        sketch.quantile(Kind::Number, 0.5).expect("one value").0.word()
    }

    #[test]
    fn every_number_is_within_the_error_and_small_ones_are_exact() {
        for number in 0..128 {
            assert_eq!(number_of(number), number);
        }
        for bit in 7..64 {
            for offset in [0_u64, 1, 2, 3, 1 << (bit - 1), (1 << (bit - 6)) - 1, (1_u64 << bit) - 1] {
                let number = (1_u64 << bit) + offset;
                let error = number_of(number).abs_diff(number) as f64 / number as f64;
                assert!(error <= QUANTILE_RELATIVE_ERROR, "{number}: {}", number_of(number));
            }
        }
        assert!(u64::MAX - number_of(u64::MAX) <= u64::MAX / 128);
    }

    #[test]
    fn every_fraction_in_range_is_within_the_error() {
        let mut fraction = 2_f64.powi(-64);
        while fraction < 2_f64.powi(64) {
            for value in [fraction, -fraction] {
                let estimate = fraction_of(fraction_key(value));
                assert!(
                    (estimate - value).abs() <= fraction * QUANTILE_RELATIVE_ERROR,
                    "{value}: {estimate}"
                );
            }
            fraction *= 1.003;
        }
        assert_eq!(fraction_of(fraction_key(1e-30)), 0.0);
        assert_eq!(fraction_of(fraction_key(-0.0)), 0.0);
        assert!(fraction_of(fraction_key(f64::NEG_INFINITY)) < -1.8e19);
    }

    #[test]
    fn no_quantile_is_beyond_the_values() {
        let mut budget = Budget::new(1_000);
        let (mut sketch, mut other) = (Sketch::default(), Sketch::default());
        assert!(sketch.insert(Kind::Number, 1_000_003, &mut budget));
        assert_eq!(sketch.quantile(Kind::Number, 1.0), Some((Scalar::Number(1_000_003), true)));
        assert!(other.insert(Kind::Number, 1_000_001, &mut budget) && sketch.merge(&other, &mut budget));
        assert_eq!(sketch.quantile(Kind::Number, 0.0), Some((Scalar::Number(1_000_003), false)));
        for value in [-1.01, 0.0, 3.003, f64::INFINITY] {
            let mut sketch = Sketch::default();
            assert!(sketch.insert(Kind::Fraction, value.to_bits(), &mut budget));
            assert_eq!(sketch.quantile(Kind::Fraction, 0.5), Some((Scalar::Fraction(value), true)));
        }
    }

    #[test]
    fn keys_have_the_order_of_values() {
        let fractions = [f64::NEG_INFINITY, -3.0, -2.9, -1e-9, 0.0, 1e-9, 0.5, 1.0, 64.0, f64::INFINITY];
        assert!(fractions.map(fraction_key).is_sorted_by(|a, b| a < b));
        assert!((1_u64 << ZERO.ilog2()) + BUCKETS < 1 << 16, "keys have 16 bits");
    }

    #[test]
    fn ranks_are_those_of_the_sorted_values() {
        assert_eq!([0.0, 0.5, 0.51, 1.0].map(|q| rank(q, 4)), [1, 2, 3, 4]);
        assert_eq!(rank(1.0, u64::MAX), u64::MAX);
    }

    #[test]
    fn without_memory_a_value_is_refused_and_the_sketch_stays() {
        let mut budget = Budget::new(48);
        let mut sketch = Sketch::default();
        let inserted: Vec<_> = (1..=5).map(|n| sketch.insert(Kind::Number, n, &mut budget)).collect();
        assert_eq!(inserted, [true, true, true, true, false]);
        assert_eq!(sketch.quantile(Kind::Number, 1.0), Some((Scalar::Number(4), true)));
    }
}
