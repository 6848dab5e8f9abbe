//! Comparisons of numbers in options: `300`, `!300`, `>300`, `<=300`, `300<>400`, `300-400`.

/// A set of numbers: a range, or all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberTest {
    /// The first number of the range.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// All numbers outside of the range.
    pub negated: bool,
}

impl NumberTest {
    /// Exactly this number.
    pub fn of(number: u64) -> Self {
        Self { first: number, last: number, negated: false }
    }

    /// Whether the set has a number.
    pub fn holds(&self, number: u64) -> bool {
        (self.first..=self.last).contains(&number) != self.negated
    }

    /// The comparison in a text. The ends of `a<>b` and `a-b` are no part of the range.
    ///
    /// # Errors
    /// What is expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let expected =
            || format!("`{text}` is no comparison: write for example `300`, `>300`, `!300` or `300<>400`");
        let text = text.trim();
        let (negated, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest.trim()),
            None => (false, text),
        };
        let number = |text: &str| number_of(text.trim()).ok_or_else(expected);
        let range = |first: u64, last: u64| Self { first, last, negated };
        let none = Self { first: 0, last: u64::MAX, negated: !negated };
        if let Some((low, high)) = rest.split_once("<>").or_else(|| rest.split_once('-')) {
            let (low, high) = (number(low)?, number(high)?);
            return match high.saturating_sub(low) < 2 {
                true => Err(format!("`{text}` holds for no number: the ends are no part of the range")),
                false => Ok(range(low + 1, high - 1)),
            };
        }
        Ok(if let Some(rest) = rest.strip_prefix(">=") {
            range(number(rest)?, u64::MAX)
        } else if let Some(rest) = rest.strip_prefix("<=") {
            range(0, number(rest)?)
        } else if let Some(rest) = rest.strip_prefix("!=") {
            Self { negated: !negated, ..Self::of(number(rest)?) }
        } else if let Some(rest) = rest.strip_prefix('>') {
            number(rest)?.checked_add(1).map_or(none, |first| range(first, u64::MAX))
        } else if let Some(rest) = rest.strip_prefix('<') {
            number(rest)?.checked_sub(1).map_or(none, |last| range(0, last))
        } else {
            let rest = rest.strip_prefix("==").or(rest.strip_prefix('=')).unwrap_or(rest);
            let exact = number(rest)?;
            range(exact, exact)
        })
    }
}

/// A number, decimal or hexadecimal with `0x`, with a unit of bytes if any.
pub(crate) fn number_of(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "kb" | "k" => 1 << 10,
        "mb" | "m" => 1 << 20,
        "gb" | "g" => 1 << 30,
        _ => return None,
    };
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_hold_where_they_say() {
        let holds = |text: &str| -> Vec<u64> {
            let test = NumberTest::parse(text).expect(text);
            (0..8).filter(|number| test.holds(*number)).collect()
        };
        assert_eq!(holds("3"), [3]);
        assert_eq!(holds("=3"), [3]);
        assert_eq!(holds("!3"), [0, 1, 2, 4, 5, 6, 7]);
        assert_eq!(holds("> 5"), [6, 7]);
        assert_eq!(holds("<2"), [0, 1]);
        assert_eq!(holds(">=6"), [6, 7]);
        assert_eq!(holds("<=0x1"), [0, 1]);
        assert_eq!(holds("2<>5"), [3, 4]);
        assert_eq!(holds("!2<>5"), [0, 1, 2, 5, 6, 7]);
        assert_eq!(holds("2-4"), [3]);
        assert_eq!(holds("!1-4"), [0, 1, 4, 5, 6, 7]);
        assert_eq!(holds("<0"), [0; 0]);
        assert!(NumberTest::parse(">1kb").is_ok_and(|test| test.first == 1025));
        for wrong in ["", "x", "1.5", "-1", "3<>4", "5-2", "1 2"] {
            assert!(NumberTest::parse(wrong).is_err(), "{wrong}");
        }
    }
}
