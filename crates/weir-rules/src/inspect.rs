//! Confirms that a buffer fulfils the tests of a rule, in their order.
//!
//! A content that the next test refers to (`distance`, `within`, `relative`) is tried at each of its places,
//! until the tests behind it hold; other contents only at the first one. The number of places that are tried
//! is bounded ([`STEPS_MAX`]): an attacker can write many.

use crate::content::Amount;
use crate::content::Content;
use crate::model::{ByteExtract, ByteJump, ByteMath, ByteTest, Comparison, IsDataAt, NumberIn, Pcre, Test};

use memchr::memmem;
use std::ops::Range;

/// Places that are tried for one rule and buffer.
pub const STEPS_MAX: u32 = 3000;
/// Bytes that are searched in one step.
const BYTES_OF_STEP: usize = 4096;

/// Finds matches of expressions.
pub trait Expressions {
    /// The first match of an expression in `bytes` that begins at `from` or later, as its place; with
    /// `anchored`, it begins at `from`.
    fn find(&mut self, pcre: &Pcre, bytes: &[u8], from: usize, anchored: bool) -> Option<Range<usize>>;
}

/// How an inspection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All tests hold.
    Holds,
    /// Some test does not hold.
    Fails,
    /// Too many places were tried.
    Bounded,
}

/// Inspects a buffer.
#[derive(Debug)]
pub struct Inspector<'b, E> {
    bytes: &'b [u8],
    expressions: E,
    variables: Vec<u64>,
    steps: u32,
    /// What `base64_decode` has made, and the tests on it.
    decoded: Option<Vec<u8>>,
}

impl<'b, E: Expressions> Inspector<'b, E> {
    /// An inspector of these bytes. `variables`: how many variables the rule has.
    pub fn new(bytes: &'b [u8], variables: usize, expressions: E) -> Self {
        Self { bytes, expressions, variables: vec![0; variables], steps: 0, decoded: None }
    }

    /// Whether the tests hold.
    pub fn inspect(&mut self, tests: &[Test]) -> Verdict {
        if lacks_content(self.bytes, tests) {
            return Verdict::Fails;
        }
        match self.holds(tests, 0) {
            true => Verdict::Holds,
            false if self.steps > STEPS_MAX => Verdict::Bounded,
            false => Verdict::Fails,
        }
    }

    /// Number of tests so far.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// What `base64_decode` has made.
    pub fn decoded(&self) -> Option<&[u8]> {
        self.decoded.as_deref()
    }

    fn value(&self, amount: Amount) -> i64 {
        match amount {
            Amount::Number(number) => number,
            Amount::Variable(at) => {
                let number = self.variables.get(usize::from(at)).copied().unwrap_or(0);
                i64::try_from(number).unwrap_or(i64::MAX)
            }
        }
    }

    /// Whether the tests hold behind a match that ended at `cursor`.
    fn holds(&mut self, tests: &[Test], cursor: usize) -> bool {
        let Some((test, rest)) = tests.split_first() else { return true };
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return false;
        }
        match test {
            Test::Content(content) => self.content(content, rest, cursor),
            Test::Pcre(pcre) => self.pcre(pcre, rest, cursor),
            Test::Size(size) => size.holds(self.bytes.len() as u64) && self.holds(rest, cursor),
            Test::IsDataAt(at) => self.is_data_at(*at, cursor) && self.holds(rest, cursor),
            Test::ByteTest(test) => self.byte_test(test, cursor) && self.holds(rest, cursor),
            Test::ByteJump(jump) => match self.byte_jump(jump, cursor) {
                Some(cursor) => self.holds(rest, cursor),
                None => false,
            },
            Test::ByteExtract(extract) => {
                self.byte_extract(extract, cursor).is_some_and(|cursor| self.holds(rest, cursor))
            }
            Test::ByteMath(math) => {
                self.byte_math(math, cursor).is_some_and(|cursor| self.holds(rest, cursor))
            }
            Test::Base64Decode { bytes, offset, relative } => {
                let from = (*offset as usize).saturating_add(if *relative { cursor } else { 0 });
                let Some(all) = self.bytes.get(from..) else { return false };
                let all = &all[..bytes.map_or(all.len(), |bytes| all.len().min(bytes as usize))];
                let decoded = base64(all, OtherLetters::End).unwrap_or_default();
                let has_some = !decoded.is_empty();
                self.decoded = Some(decoded);
                has_some && self.holds(rest, cursor)
            }
            // The buffer is there.
            Test::Absent { or_else } => *or_else && self.holds(rest, cursor),
        }
    }

    /// The bytes in which a content is: the first and the end.
    fn window(&self, content: &Content, cursor: usize) -> Range<usize> {
        let length = self.bytes.len() as i64;
        let value = |amount: &Option<Amount>| amount.map(|amount| self.value(amount));
        let (mut first, mut end) = (0, length);
        if content.is_relative() {
            let cursor = cursor as i64;
            let distance = value(&content.distance).unwrap_or(0);
            first = cursor.saturating_add(distance);
            if let Some(within) = value(&content.within) {
                end = cursor.saturating_add(distance).saturating_add(within);
            }
        }
        if let Some(offset) = value(&content.offset) {
            first = first.max(offset);
        }
        if let Some(depth) = value(&content.depth) {
            end = end.min(value(&content.offset).unwrap_or(0).saturating_add(depth));
        }
        if content.startswith {
            end = end.min(first.max(0).saturating_add(content.bytes.len() as i64));
        }
        if content.endswith {
            first = first.max(length - content.bytes.len() as i64);
        }
        let clamp = |at: i64| at.clamp(0, length) as usize;
        clamp(first)..clamp(end)
    }

    /// A search through this many bytes takes steps, too.
    fn count_bytes(&mut self, bytes: usize) {
        self.steps = self.steps.saturating_add((bytes / BYTES_OF_STEP) as u32);
    }

    fn content(&mut self, content: &Content, rest: &[Test], cursor: usize) -> bool {
        let window = self.window(content, cursor);
        let mut from = window.start;
        let is_tried_again = rest.first().is_some_and(is_relative);
        loop {
            let found = match self.bytes.get(from..window.end) {
                Some(bytes) => find(bytes, content).map(|at| from + at),
                None => None,
            };
            self.count_bytes(found.unwrap_or(window.end).saturating_sub(from));
            match found {
                None if content.negated => return self.holds(rest, cursor),
                None => return false,
                Some(_) if content.negated => return false,
                Some(at) => {
                    let end = at + content.bytes.len();
                    if (!content.endswith || end == self.bytes.len()) && self.holds(rest, end) {
                        return true;
                    }
                    if !is_tried_again || self.steps > STEPS_MAX {
                        return false;
                    }
                    from = at + 1;
                }
            }
        }
    }

    fn pcre(&mut self, pcre: &Pcre, rest: &[Test], cursor: usize) -> bool {
        let mut from = if pcre.relative { cursor.min(self.bytes.len()) } else { 0 };
        let is_tried_again = rest.first().is_some_and(is_relative);
        loop {
            // An expression behind a match sees the bytes from there.
            let start = if pcre.relative { cursor.min(self.bytes.len()) } else { 0 };
            let bytes = &self.bytes[start..];
            let found = self.expressions.find(pcre, bytes, from - start, pcre.anchored);
            let end = found.as_ref().map_or(bytes.len(), |found| found.end);
            self.count_bytes(end.saturating_sub(from - start));
            match found {
                None if pcre.negated => return self.holds(rest, cursor),
                None => return false,
                Some(_) if pcre.negated => return false,
                Some(found) => {
                    if self.holds(rest, start + found.end) {
                        return true;
                    }
                    if !is_tried_again || self.steps > STEPS_MAX || pcre.anchored {
                        return false;
                    }
                    from = start + found.start + 1;
                    if from > self.bytes.len() {
                        return false;
                    }
                }
            }
        }
    }

    fn is_data_at(&self, test: IsDataAt, cursor: usize) -> bool {
        let base = if test.relative { cursor as i64 } else { 0 };
        let at = base.saturating_add(self.value(test.at));
        // Relative: there are so many bytes more; else: there is a byte at this place.
        let has = match test.relative {
            true => at <= self.bytes.len() as i64 && at >= 0,
            false => at >= 0 && at < self.bytes.len() as i64,
        };
        has != test.negated
    }

    /// A number, the place of its first byte and how many bytes it has.
    fn number(&self, place: &NumberIn, cursor: usize) -> Option<(u64, usize, usize)> {
        let base = if place.relative { cursor as i64 } else { 0 };
        let at = usize::try_from(base.saturating_add(self.value(place.offset))).ok()?;
        let bytes = usize::try_from(self.value(place.bytes)).ok()?;
        match place.text_base {
            Some(base) => {
                let all = self.bytes.get(at..)?;
                let all = &all[..all.len().min(bytes)];
                let (number, digits) = digits_of(all, base)?;
                Some((number, at, digits))
            }
            None => {
                let all = self.bytes.get(at..at.checked_add(bytes)?)?;
                let number = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
                let number = match place.little {
                    true => all.iter().rev().fold(0, number),
                    false => all.iter().fold(0, number),
                };
                Some((number, at, bytes))
            }
        }
    }

    fn byte_test(&self, test: &ByteTest, cursor: usize) -> bool {
        let Some((number, ..)) = self.number(&test.number, cursor) else { return false };
        let number = masked(number, test.mask);
        let other = self.value(test.value) as u64;
        let holds = match test.comparison {
            Comparison::Less => number < other,
            Comparison::LessOrEqual => number <= other,
            Comparison::Equal => number == other,
            Comparison::Greater => number > other,
            Comparison::GreaterOrEqual => number >= other,
            Comparison::And => number & other != 0,
            Comparison::Or => number ^ other != 0,
        };
        holds != test.negated
    }

    fn byte_jump(&self, jump: &ByteJump, cursor: usize) -> Option<usize> {
        let base = if jump.number.relative { cursor as i64 } else { 0 };
        let start = base.saturating_add(self.value(jump.number.offset));
        let (mut distance, mut end) = (0, usize::try_from(start).ok()?);
        if self.value(jump.number.bytes) > 0 {
            let (number, at, length) = self.number(&jump.number, cursor)?;
            distance = masked(number, jump.mask).checked_mul(u64::from(jump.multiplier))?;
            end = at + length;
        }
        if jump.align {
            distance = distance.checked_next_multiple_of(4)?;
        }
        let base = match (jump.from_beginning, jump.from_end) {
            (true, _) => 0,
            (_, true) => self.bytes.len(),
            _ => end,
        };
        let to = (base as i64)
            .checked_add(i64::try_from(distance).ok()?)?
            .checked_add(self.value(jump.post_offset))?;
        usize::try_from(to).ok().filter(|to| *to <= self.bytes.len())
    }

    fn byte_extract(&mut self, extract: &ByteExtract, cursor: usize) -> Option<usize> {
        let (number, at, length) = self.number(&extract.number, cursor)?;
        let number = masked(number, extract.mask).checked_mul(u64::from(extract.multiplier))?;
        let number = match extract.align {
            0 | 1 => number,
            align => number.checked_next_multiple_of(u64::from(align))?,
        };
        *self.variables.get_mut(usize::from(extract.variable))? = number;
        Some(at + length)
    }

    fn byte_math(&mut self, math: &ByteMath, cursor: usize) -> Option<usize> {
        let (number, at, length) = self.number(&math.number, cursor)?;
        let right = self.value(math.value) as u64;
        let number = match math.operator {
            '+' => number.wrapping_add(right),
            '-' => number.wrapping_sub(right),
            '*' => number.wrapping_mul(right),
            '/' => number.checked_div(right)?,
            '<' => number.checked_shl(u32::try_from(right).ok()?)?,
            _ => number.checked_shr(u32::try_from(right).ok()?)?,
        };
        *self.variables.get_mut(usize::from(math.variable))? = masked(number, math.mask);
        Some(at + length)
    }
}

/// Whether tests that would try many places need a content that is nowhere.
fn lacks_content(bytes: &[u8], tests: &[Test]) -> bool {
    let contents = || {
        tests.iter().filter_map(|test| match test {
            Test::Content(content) if !content.negated => Some(content),
            _ => None,
        })
    };
    let is_plain = !tests.iter().any(|test| matches!(test, Test::Base64Decode { .. }));
    is_plain
        && contents().filter(|content| content.is_relative()).count() > 1
        && contents().any(|content| find(bytes, content).is_none())
}

/// Whether a test depends on the place of the match before.
pub(crate) fn is_relative(test: &Test) -> bool {
    match test {
        Test::Content(content) => content.is_relative(),
        Test::Pcre(pcre) => pcre.relative,
        Test::IsDataAt(at) => at.relative,
        Test::ByteTest(test) => test.number.relative,
        Test::ByteJump(jump) => jump.number.relative,
        Test::ByteExtract(extract) => extract.number.relative,
        Test::ByteMath(math) => math.number.relative,
        Test::Base64Decode { relative, .. } => *relative,
        Test::Size(_) | Test::Absent { .. } => false,
    }
}

/// A number under a mask, moved to the right by the zeros at the mask's end.
fn masked(number: u64, mask: u64) -> u64 {
    match mask {
        u64::MAX => number,
        0 => 0,
        mask => (number & mask) >> mask.trailing_zeros(),
    }
}

fn find(bytes: &[u8], content: &Content) -> Option<usize> {
    let needle = &content.bytes;
    match content.nocase {
        false => memmem::find(bytes, needle),
        true => find_nocase(bytes, needle),
    }
}

fn find_nocase(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let (first, rest) = needle.split_first()?;
    let [lower, upper] = [first.to_ascii_lowercase(), first.to_ascii_uppercase()];
    let last = bytes.len().checked_sub(rest.len())?;
    memchr::memchr2_iter(lower, upper, &bytes[..last])
        .find(|at| bytes[at + 1..at + 1 + rest.len()].eq_ignore_ascii_case(rest))
}

/// The number in the first digits, behind spaces, and how many bytes it has.
fn digits_of(bytes: &[u8], base: u32) -> Option<(u64, usize)> {
    let spaces = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let rest = &bytes[spaces..];
    let prefix = if base == 16 && rest.len() > 2 && rest[..2].eq_ignore_ascii_case(b"0x") { 2 } else { 0 };
    let digits = rest[prefix..].iter().take_while(|byte| char::from(**byte).is_digit(base)).count();
    if digits == 0 {
        return None;
    }
    let number = rest[prefix..prefix + digits].iter().try_fold(0_u64, |number, byte| {
        let digit = char::from(*byte).to_digit(base)?;
        number.checked_mul(u64::from(base))?.checked_add(u64::from(digit))
    })?;
    Some((number, spaces + prefix + digits))
}

/// What other letters in a text of base 64 mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherLetters {
    /// The text ends there.
    End,
    /// The text is not in base 64.
    Refuse,
    /// They are left out.
    LeaveOut,
}

/// The bytes of a text in base 64, up to its padding; line ends and spaces are left out (RFC 2045), unless
/// other letters are refused. `None`: there is another letter, which is refused.
pub fn base64(text: &[u8], others: OtherLetters) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (vec![], 0_u32, 0);
    for letter in text {
        let value = match (letter, others) {
            (b'A'..=b'Z', _) => letter - b'A',
            (b'a'..=b'z', _) => letter - b'a' + 26,
            (b'0'..=b'9', _) => letter - b'0' + 52,
            (b'+', _) => 62,
            (b'/', _) => 63,
            (b'=', _) => break,
            (_, OtherLetters::Refuse) => return None,
            (b'\r' | b'\n' | b' ' | b'\t', _) | (_, OtherLetters::LeaveOut) => continue,
            (_, OtherLetters::End) => break,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Variables, parse};

    struct Pikes;

    impl Expressions for Pikes {
        fn find(&mut self, pcre: &Pcre, bytes: &[u8], from: usize, anchored: bool) -> Option<Range<usize>> {
            use regex_automata::nfa::thompson::pikevm::PikeVM;
            use regex_automata::{Anchored, Input, util::syntax};
            let syntax = syntax::Config::new()
                .case_insensitive(pcre.nocase)
                .dot_matches_new_line(pcre.dot_all)
                .multi_line(pcre.multi_line)
                .unicode(false)
                .utf8(false);
            let regex = PikeVM::builder().syntax(syntax).build(&pcre.pattern).expect("it was checked");
            let anchored = if anchored { Anchored::Yes } else { Anchored::No };
            let input = Input::new(bytes).range(from..).anchored(anchored);
            regex.find_iter(&mut regex.create_cache(), input).next().map(|found| found.range())
        }
    }

    /// Whether a payload fulfils options.
    fn holds(options: &str, bytes: &[u8]) -> Verdict {
        let text = format!("alert tcp any any -> any any ({options} sid:1;)");
        let rule = parse(&text, 0, &Variables::default()).remove(0).rule;
        let rule = rule.unwrap_or_else(|refusal| panic!("{options}: {refusal:?}"));
        Inspector::new(bytes, rule.variables.len(), Pikes).inspect(&rule.inspections[0].tests)
    }

    #[test]
    fn contents_are_where_they_must_be() {
        for (options, yes, no) in [
            ("content:\"bc\";", "abcd", "acbd"),
            ("content:\"BC\"; nocase;", "aBcd", "acbd"),
            ("content:!\"bc\";", "acbd", "abcd"),
            ("content:\"bc\"; offset:2;", "abxbc", "abc"),
            ("content:\"bc\"; depth:3;", "abcd", "aabc"),
            ("content:\"bc\"; offset:1; depth:3;", "xxbc", "xxxbc"),
            ("content:\"ab\"; content:\"cd\"; distance:1;", "abxcd", "abcd"),
            ("content:\"ab\"; content:\"cd\"; within:3;", "abxcd", "abxxcd"),
            ("content:\"ab\"; content:\"cd\"; distance:1; within:2;", "abxcd", "abxxcd"),
            // The second place of the first content.
            ("content:\"ab\"; content:\"cd\"; distance:0; within:2;", "abxabcd", "abxab"),
            ("content:\"ab\"; content:!\"cd\"; distance:0; within:2;", "abxx", "abcd"),
            ("content:\"ab\"; startswith; content:\"yz\"; endswith;", "abyz", "xabyz"),
            ("content:\"ab\"; endswith;", "abab", "abx"),
            ("content:\"ab\"; distance:2;", "xxab", "ab"),
            ("content:\"cd\"; content:\"ab\"; distance:-4;", "abcd", "abxxxcd"),
            ("content:\"a\"; isdataat:2,relative;", "xabc", "xab"),
            ("content:\"a\"; isdataat:!1,relative;", "xa", "xab"),
            ("isdataat:3;", "abcd", "abc"),
            ("content:\"a\"; bsize:3<>5;", "abcd", "abc"),
            ("pcre:\"/b+c/\";", "abbc", "ac"),
            ("content:\"a\"; pcre:\"/^b+c/R\";", "xabbc", "xaxbbc"),
            ("pcre:\"/a./\"; content:\"c\"; distance:0; within:1;", "aaac", "aaxxc"),
            ("content:\"a\"; pcre:!\"/c/R\";", "ca", "ac"),
            ("byte_test:1,>,64,0;", "A", "0"),
            ("byte_test:2,=,0x4142,0;", "AB", "BA"),
            ("byte_test:2,=,0x4142,0,little;", "BA", "AB"),
            ("byte_test:2,>,41,0,string,dec;", "42", "41"),
            ("byte_test:1,&,2,0; content:\"x\";", "Bx", "Dx"),
            ("byte_test:1,=,1,0,bitmask 0x40; content:\"x\";", "Ax", "1x"),
            ("byte_jump:1,0,string,dec; content:\"x\"; distance:0; within:1;", "3abcx", "3abx"),
            ("byte_extract:1,0,n,string,dec; content:\"x\"; offset:n; depth:1;", "2.x", "1.x"),
            ("byte_extract:1,0,n,string,dec; isdataat:!n;", "3ab", "2ab"),
            (
                "byte_math:bytes 1, offset 0, oper +, rvalue 1, result n, string dec; isdataat:!n;",
                "2ab",
                "1ab",
            ),
        ] {
            assert_eq!(holds(options, yes.as_bytes()), Verdict::Holds, "{options} {yes}");
            assert_eq!(holds(options, no.as_bytes()), Verdict::Fails, "{options} {no}");
        }
    }

    #[test]
    fn half_matches_are_bounded() {
        // The last content is there, in front of the others.
        let bytes = [vec![b'b'], vec![b'a'; 20_000]].concat();
        let options =
            "content:\"a\"; content:\"a\"; distance:0; content:\"a\"; distance:0; content:\"b\"; distance:0;";
        assert_eq!(holds(options, &bytes), Verdict::Bounded);
    }

    #[test]
    fn base_64_ends_at_other_letters() {
        let decoded = |text: &[u8], others| base64(text, others);
        assert_eq!(decoded(b"aGVs\r\nbG8=rest", OtherLetters::End).as_deref(), Some(&b"hello"[..]));
        assert_eq!(decoded(b"!", OtherLetters::End).as_deref(), Some(&b""[..]));
        assert_eq!(decoded(b"aGV!sbG8", OtherLetters::Refuse), None);
        assert_eq!(decoded(b"aGV!sbG8", OtherLetters::LeaveOut).as_deref(), Some(&b"hello"[..]));
    }
}
