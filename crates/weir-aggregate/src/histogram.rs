//! Buckets of histograms.

use crate::scalar::{Kind, Scalar};

/// The most bounds of a histogram.
pub const HISTOGRAM_BOUNDS_MAX: usize = 256;

/// The buckets of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub enum Buckets {
    /// 0, 1, 2 to 3, 4 to 7 …: for numbers and intervals. A result has the buckets from the first to the last
    /// one with values.
    PowersOfTwo,
    /// The first bucket has the values below the first bound, and each bound begins a bucket. Bounds ascend,
    /// and are of the input's kind; at most [`HISTOGRAM_BOUNDS_MAX`]. A result has all buckets.
    From(Vec<Scalar>),
}

/// A bucket of a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// The smallest value that may be in the bucket: 0 or −∞ in the first one.
    pub from: Scalar,
    /// Values in the bucket.
    pub count: u64,
}

impl Buckets {
    /// The number of buckets.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::PowersOfTwo => 65,
            Self::From(bounds) => bounds.len() + 1,
        }
    }

    /// The number of the bucket of a value.
    pub(crate) fn bucket(&self, kind: Kind, word: u64) -> usize {
        match self {
            Self::PowersOfTwo => 64 - word.leading_zeros() as usize,
            Self::From(bounds) => kind
                .scalar(word)
                .map_or(0, |value| bounds.partition_point(|bound| bound.order(value).is_le())),
        }
    }

    /// The result.
    pub(crate) fn result(&self, kind: Kind, counts: &[u64]) -> Vec<Bucket> {
        let bucket = |(number, count): (usize, &u64)| Bucket { from: self.from(kind, number), count: *count };
        let buckets = counts.iter().enumerate();
        match self {
            Self::From(_) => buckets.map(bucket).collect(),
            Self::PowersOfTwo => {
                let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
                let end = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
                buckets.take(end).skip(first).map(bucket).collect()
            }
        }
    }

    /// The smallest value of a bucket.
    fn from(&self, kind: Kind, number: usize) -> Scalar {
        let lowest = if kind == Kind::Fraction { f64::NEG_INFINITY.to_bits() } else { 0 };
        let word = match (self, number) {
            (_, 0) => lowest,
            (Self::PowersOfTwo, number) => 1 << (number - 1),
            (Self::From(bounds), number) => bounds[number - 1].word(),
        };
        kind.scalar(word).unwrap_or(Scalar::Number(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(buckets: &Buckets, kind: Kind, words: &[u64]) -> Vec<(Scalar, u64)> {
        let mut counts = vec![0; buckets.len()];
        words.iter().for_each(|word| counts[buckets.bucket(kind, *word)] += 1);
        buckets.result(kind, &counts).iter().map(|bucket| (bucket.from, bucket.count)).collect()
    }

    #[test]
    fn a_bound_begins_its_bucket() {
        let buckets = Buckets::From(vec![Scalar::Number(64), Scalar::Number(512)]);
        let number = Scalar::Number;
        assert_eq!(
            result(&buckets, Kind::Number, &[0, 63, 64, 511, 512, u64::MAX]),
            [(number(0), 2), (number(64), 2), (number(512), 2)]
        );
    }

    #[test]
    fn powers_of_two_show_the_used_range() {
        let interval = Scalar::Interval;
        assert_eq!(
            result(&Buckets::PowersOfTwo, Kind::Interval, &[2, 3, 8]),
            [(interval(2), 2), (interval(4), 0), (interval(8), 1)]
        );
        let ends = result(&Buckets::PowersOfTwo, Kind::Number, &[0, u64::MAX]);
        assert_eq!((ends.len(), ends[0].0, ends[64].0), (65, Scalar::Number(0), Scalar::Number(1 << 63)));
        assert_eq!(result(&Buckets::PowersOfTwo, Kind::Number, &[]), []);
    }

    #[test]
    fn fractions_below_the_first_bound_have_a_bucket() {
        let buckets = Buckets::From(vec![Scalar::Fraction(-1.0), Scalar::Fraction(0.0)]);
        let counts = result(&buckets, Kind::Fraction, &[-2.0, -1.0, -0.5, -0.0, 3.0].map(f64::to_bits));
        assert_eq!(counts.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 2, 2]);
        assert_eq!(counts[0].0, Scalar::Fraction(f64::NEG_INFINITY));
    }
}
