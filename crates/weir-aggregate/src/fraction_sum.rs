//! Exact sums of fractions: a sum must not depend on how records are distributed over workers, and sums of
//! `f64` do.
//!
//! A sum is a two's complement number of 256 bits with 128 bits behind the point, in four words from the
//! lowest to the highest. A fifth word is 1 once a value was limited. Each value is cut to a multiple of
//! 2⁻¹²⁸ towards zero, and limited to ±2⁶³, so that 2⁶⁴ values fit.

/// Words of a sum.
pub(crate) const WORDS: usize = 5;
const LIMIT: f64 = (1_u64 << 63) as f64;

/// Adds `value`, which is not a NaN.
pub(crate) fn add(sum: &mut [u64], value: f64) {
    if value.abs() >= LIMIT {
        sum[4] = 1;
        let limit = [0, 0, 1 << 63, 0];
        return if value < 0.0 { subtract_words(sum, &limit) } else { add_words(sum, &limit) };
    }
    let words = fixed_point(value.abs());
    if value < 0.0 { subtract_words(sum, &words) } else { add_words(sum, &words) }
}

/// Adds another sum.
pub(crate) fn merge(sum: &mut [u64], other: &[u64]) {
    add_words(sum, &[other[0], other[1], other[2], other[3]]);
    sum[4] |= other[4];
}

/// The sum, rounded, and whether a value was limited.
pub(crate) fn value(sum: &[u64]) -> (f64, bool) {
    let is_negative = sum[3] >> 63 == 1;
    let mut magnitude = [sum[0], sum[1], sum[2], sum[3]];
    if is_negative {
        magnitude = [0; 4];
        subtract_words(&mut magnitude, &[sum[0], sum[1], sum[2], sum[3]]);
    }
    let pair = |low: usize| u128::from(magnitude[low]) | u128::from(magnitude[low + 1]) << 64;
    let rounded = pair(2) as f64 + pair(0) as f64 * 2_f64.powi(-128);
    (if is_negative { -rounded } else { rounded }, sum[4] != 0)
}

/// A value from 0 to below 2⁶³ as a multiple of 2⁻¹²⁸.
fn fixed_point(value: f64) -> [u64; 4] {
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i32;
    // Values below 2⁻¹⁰²² (exponent 0) are far below the last bit.
    if exponent == 0 {
        return [0; 4];
    }
    let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
    let shift = exponent - 1075 + 128;
    let (mantissa, shift) = if shift < 0 {
        (mantissa.checked_shr(shift.unsigned_abs()).unwrap_or(0), 0)
    } else {
        (mantissa, shift)
    };
    let (word, bit) = (shift as usize / 64, shift % 64);
    let wide = u128::from(mantissa) << bit;
    let mut words = [0; 4];
    words[word] = wide as u64;
    words[word + 1] = (wide >> 64) as u64;
    words
}

fn add_words(sum: &mut [u64], words: &[u64; 4]) {
    let mut carry = false;
    for (sum, word) in sum.iter_mut().zip(words) {
        let (first, a) = sum.overflowing_add(*word);
        let (second, b) = first.overflowing_add(u64::from(carry));
        (*sum, carry) = (second, a || b);
    }
}

fn subtract_words(sum: &mut [u64], words: &[u64; 4]) {
    let mut borrow = false;
    for (sum, word) in sum.iter_mut().zip(words) {
        let (first, a) = sum.overflowing_sub(*word);
        let (second, b) = first.overflowing_sub(u64::from(borrow));
        (*sum, borrow) = (second, a || b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(values: &[f64]) -> (f64, bool) {
        let mut sum = [0; WORDS];
        values.iter().for_each(|value| add(&mut sum, *value));
        value(&sum)
    }

    #[test]
    fn order_does_not_matter_and_small_values_are_not_lost() {
        let values = [1e18, 1e-9, -1e18, 0.1, 0.2, -0.3, 2_f64.powi(-128), 1e-300];
        let mut reversed = values;
        reversed.reverse();
        assert_eq!(sum_of(&values), sum_of(&reversed));
        let (sum, limited) = sum_of(&values);
        assert!((sum - 1e-9).abs() < 1e-16 && !limited, "{sum}");
    }

    #[test]
    fn single_values_come_back() {
        for value in [0.0, 1.0, -1.0, 0.1, -123.456e7, 9e18, -9e18, 2_f64.powi(-75), 3.5e-20] {
            assert_eq!(sum_of(&[value]), (value, false), "{value}");
        }
    }

    #[test]
    fn large_values_are_limited() {
        assert_eq!(sum_of(&[f64::INFINITY, 1.0]), (LIMIT + 1.0, true));
        assert_eq!(sum_of(&[-1e300, 1e300, 0.5]), (0.5, true));
    }

    #[test]
    fn merged_sums_equal_one_sum() {
        let (mut a, mut b) = ([0; WORDS], [0; WORDS]);
        add(&mut a, -0.75);
        add(&mut b, 0.5);
        add(&mut b, 1e30);
        merge(&mut a, &b);
        assert_eq!(value(&a), sum_of(&[-0.75, 0.5, 1e30]));
    }
}
