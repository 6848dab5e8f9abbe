//! Risks: what is suspicious about a flow.

/// A set of risks, by the numbers that nDPI gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Risks(u64);

impl Risks {
    /// Whether there are no risks.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers of the risks, ascending.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |number| self.0 >> number & 1 == 1)
    }
}

/// Numbers of 64 and more are left out.
impl FromIterator<u32> for Risks {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let bits = numbers.into_iter().filter_map(|number| 1_u64.checked_shl(number));
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_numbers_it_was_made_of() {
        let risks: Risks = [5, 1, 63, 64, 5].into_iter().collect();
        assert_eq!(risks.numbers().collect::<Vec<_>>(), [1, 5, 63]);
        assert!(!risks.is_empty() && Risks::default().is_empty());
    }
}
