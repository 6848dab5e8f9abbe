//! Numbers in bytes: `byte_test`, `byte_jump`, `byte_extract`, `byte_math`.

use super::{amount_of, value};
use crate::content::Amount;
use crate::model::{ByteExtract, ByteJump, ByteMath, ByteTest, Comparison, NumberIn, Test};

use crate::builder::{Builder, wrong_value};
use crate::number::number_of;
use crate::options::OptionText;
use weir_lang::diag::Diagnostic;

/// Words behind the numbers, as far as they are common.
struct Words {
    number: NumberIn,
    is_text: bool,
    multiplier: u32,
    align: u32,
    from_beginning: bool,
    from_end: bool,
    post_offset: Amount,
    mask: u64,
}

impl Words {
    fn new(bytes: Amount, offset: Amount) -> Self {
        let number = NumberIn { bytes, offset, relative: false, little: false, text_base: None, dce: false };
        let post_offset = Amount::Number(0);
        Self {
            number,
            is_text: false,
            multiplier: 1,
            align: 1,
            from_beginning: false,
            from_end: false,
            post_offset,
            mask: u64::MAX,
        }
    }

    /// Reads a word. Returns `false` if it is none.
    fn read(&mut self, builder: &Builder<'_, '_>, part: &str) -> bool {
        let mut words = part.split_whitespace();
        let (name, argument) = (words.next().unwrap_or_default(), words.next());
        let number = argument.and_then(number_of).and_then(|number| u32::try_from(number).ok());
        match (name, argument) {
            ("relative", None) => self.number.relative = true,
            ("big", None) => self.number.little = false,
            ("little", None) => self.number.little = true,
            ("endian", Some("big")) => self.number.little = false,
            ("endian", Some("little")) => self.number.little = true,
            ("dce", None) => self.number.dce = true,
            ("string", None) => self.is_text = true,
            ("hex" | "dec" | "oct", None) | ("string", Some("hex" | "dec" | "oct")) => {
                self.is_text = true;
                let base = argument.unwrap_or(name);
                self.number.text_base = Some(match base {
                    "hex" => 16,
                    "oct" => 8,
                    _ => 10,
                });
            }
            ("multiplier", Some(_)) if number.is_some() => self.multiplier = number.unwrap_or(1),
            ("align", None) => self.align = 4,
            ("align", Some(_)) if matches!(number, Some(2 | 4)) => self.align = number.unwrap_or(4),
            ("from_beginning", None) => self.from_beginning = true,
            ("from_end", None) => self.from_end = true,
            ("post_offset", Some(text)) => match amount_of(builder, text) {
                Some(amount) => self.post_offset = amount,
                None => return false,
            },
            // Hexadecimal, with or without `0x`.
            ("bitmask", Some(text)) => {
                match u64::from_str_radix(text.trim_start_matches("0x").trim_start_matches("0X"), 16) {
                    Ok(mask) => self.mask = mask,
                    Err(_) => return false,
                }
            }
            _ => return false,
        }
        true
    }

    fn number(&self) -> NumberIn {
        let base = self.number.text_base.or(self.is_text.then_some(10));
        NumberIn { text_base: base, ..self.number }
    }
}

fn words(
    builder: &Builder<'_, '_>,
    option: &OptionText<'_>,
    parts: &[&str],
    mut words: Words,
) -> Result<Words, Diagnostic> {
    for part in parts {
        if !part.is_empty() && !words.read(builder, part) {
            return Err(Diagnostic::error("W0205", format!("`{}`: `{part}` is not understood", option.name))
                .at(option.part_span(part))
                .help("words are `relative`, `big`, `little`, `string`, `hex`, `dec`, `oct`, `dce`, `bitmask` and others"));
        }
    }
    Ok(words)
}

fn amount(
    builder: &Builder<'_, '_>,
    option: &OptionText<'_>,
    part: Option<&&str>,
) -> Result<Amount, Diagnostic> {
    let text = part.copied().unwrap_or_default();
    amount_of(builder, text).ok_or_else(|| {
        let help = "write a number, or the name of a variable that `byte_extract` sets before";
        let message = if text.is_empty() {
            "a number is missing".to_string()
        } else {
            format!("`{text}` is no number")
        };
        wrong_value(option, message, help)
    })
}

/// Bytes of a number: at most 8, and of a text 23.
fn check_bytes(option: &OptionText<'_>, number: &NumberIn) -> Result<(), Diagnostic> {
    let most = if number.text_base.is_some() { 23 } else { 8 };
    match number.bytes {
        Amount::Number(bytes) if !(0..=most).contains(&bytes) => {
            Err(wrong_value(option, format!("a number has at most {most} bytes"), "state fewer bytes"))
        }
        _ => Ok(()),
    }
}

/// `byte_test:4,>,1000,20,relative`
pub(super) fn byte_test(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    value(option, "byte_test:4,>,1000,20,relative")?;
    let parts: Vec<&str> = option.list().collect();
    let bytes = amount(builder, option, parts.first())?;
    let operator = parts.get(1).copied().unwrap_or_default();
    let (negated, sign) = match operator.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (false, operator),
    };
    let comparison = match sign {
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        "=" | "==" | "" => Comparison::Equal,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        "&" => Comparison::And,
        "^" => Comparison::Or,
        _ => {
            return Err(wrong_value(
                option,
                format!("`{operator}` is no comparison"),
                "write one of `<`, `<=`, `=`, `>`, `>=`, `&`, `^`, with `!` before",
            ));
        }
    };
    let value = amount(builder, option, parts.get(2))?;
    let offset = amount(builder, option, parts.get(3))?;
    let words = words(builder, option, parts.get(4..).unwrap_or_default(), Words::new(bytes, offset))?;
    let number = words.number();
    check_bytes(option, &number)?;
    builder.test(Test::ByteTest(ByteTest { number, negated, comparison, value, mask: words.mask }));
    Ok(())
}

/// `byte_jump:4,20,relative,align`
pub(super) fn byte_jump(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    value(option, "byte_jump:4,20,relative,align")?;
    let parts: Vec<&str> = option.list().collect();
    let (bytes, offset) = (amount(builder, option, parts.first())?, amount(builder, option, parts.get(1))?);
    let words = words(builder, option, parts.get(2..).unwrap_or_default(), Words::new(bytes, offset))?;
    let number = words.number();
    check_bytes(option, &number)?;
    builder.test(Test::ByteJump(ByteJump {
        number,
        multiplier: words.multiplier,
        align: words.align > 1,
        from_beginning: words.from_beginning,
        from_end: words.from_end,
        post_offset: words.post_offset,
        mask: words.mask,
    }));
    Ok(())
}

/// `byte_extract:2,0,length,relative`
pub(super) fn byte_extract(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    value(option, "byte_extract:2,0,length,relative")?;
    let parts: Vec<&str> = option.list().collect();
    let (bytes, offset) = (amount(builder, option, parts.first())?, amount(builder, option, parts.get(1))?);
    let name = parts.get(2).copied().filter(|name| is_name(name));
    let name = name.ok_or_else(|| {
        wrong_value(
            option,
            "the variable has no name",
            "write for example `byte_extract:2,0,length,relative;`",
        )
    })?;
    let words = words(builder, option, parts.get(3..).unwrap_or_default(), Words::new(bytes, offset))?;
    let number = words.number();
    check_bytes(option, &number)?;
    let variable = builder.new_variable(name);
    let Words { multiplier, align, mask, .. } = words;
    builder.test(Test::ByteExtract(ByteExtract { number, variable, multiplier, align, mask }));
    Ok(())
}

/// `byte_math:bytes 4, offset 0, oper +, rvalue 10, result sum, relative`
pub(super) fn byte_math(builder: &mut Builder<'_, '_>, option: &OptionText<'_>) -> Result<(), Diagnostic> {
    let example = "byte_math:bytes 4, offset 0, oper +, rvalue 10, result sum";
    value(option, example)?;
    let wrong = |why: String| wrong_value(option, why, &format!("write for example `{example};`"));
    let parts: Vec<&str> = option.list().collect();
    let (mut bytes, mut offset, mut operator, mut right, mut result) = (None, None, None, None, None);
    let mut others = vec![];
    for part in &parts {
        match part.split_once(char::is_whitespace).map(|(name, rest)| (name, rest.trim())) {
            Some(("bytes", text)) => bytes = Some(amount(builder, option, Some(&text))?),
            Some(("offset", text)) => offset = Some(amount(builder, option, Some(&text))?),
            Some(("rvalue", text)) => right = Some(amount(builder, option, Some(&text))?),
            Some(("oper", text)) => operator = Some(text),
            Some(("result", text)) if is_name(text) => result = Some(text),
            _ => others.push(*part),
        }
    }
    let missing = |what: &str| wrong(format!("`{what}` is missing"));
    let (bytes, offset) = (bytes.ok_or_else(|| missing("bytes"))?, offset.ok_or_else(|| missing("offset"))?);
    let operator = match operator.ok_or_else(|| missing("oper"))? {
        "+" => '+',
        "-" => '-',
        "*" => '*',
        "/" => '/',
        "<<" => '<',
        ">>" => '>',
        other => return Err(wrong(format!("`{other}` is no operator"))),
    };
    let (right, result) = (right.ok_or_else(|| missing("rvalue"))?, result.ok_or_else(|| missing("result"))?);
    let words = words(builder, option, &others, Words::new(bytes, offset))?;
    let number = words.number();
    check_bytes(option, &number)?;
    let variable = builder.new_variable(result);
    builder.test(Test::ByteMath(ByteMath { number, operator, value: right, variable, mask: words.mask }));
    Ok(())
}

fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter))
}
