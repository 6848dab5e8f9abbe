//! Expressions of Perl's form, written for a linear engine.

use crate::model::Pcre;
use std::fmt::Write as _;

/// Bytes of an expression.
const BYTES_MAX: usize = 8192;

/// The expression with these flags, in the syntax of the crate `regex`. Expressions with look-around or
/// back-references stay as they are.
///
/// # Errors
/// The expression has a mistake.
pub(super) fn expression(pattern: &str, flags: &str) -> Result<Pcre, String> {
    if pattern.len() > BYTES_MAX {
        return Err(format!("the expression has more than {BYTES_MAX} bytes"));
    }
    let has = |flag: char| flags.contains(flag);
    let made = Pcre {
        nocase: has('i'),
        multi_line: has('m'),
        dot_all: has('s'),
        extended: has('x'),
        anchored: has('A'),
        dollar_end_only: has('E'),
        ungreedy: has('G'),
        ..Pcre::default()
    };
    if backtracks(pattern) {
        return Ok(Pcre { pattern: pattern.to_string(), needs_backtracking: true, ..made });
    }
    let translated = translate(pattern, &made)?;
    let syntax = regex_automata::util::syntax::Config::new()
        .case_insensitive(made.nocase)
        .multi_line(made.multi_line)
        .dot_matches_new_line(made.dot_all)
        .ignore_whitespace(made.extended)
        .swap_greed(made.ungreedy)
        .octal(true)
        .unicode(false)
        .utf8(false);
    match regex_automata::util::syntax::parse_with(&translated, &syntax) {
        Ok(_) => Ok(Pcre { pattern: translated, ..made }),
        Err(error) => Err(last_line(&error.to_string())),
    }
}

/// What a parser says of a mistake, without its picture.
fn last_line(text: &str) -> String {
    let line = text.lines().last().unwrap_or(text);
    line.strip_prefix("error: ").unwrap_or(line).to_string()
}

/// Whether an expression has look-around, back-references, atomic groups or possessive repetitions.
fn backtracks(pattern: &str) -> bool {
    let (mut is_escaped, mut is_class, mut before) = (false, false, ' ');
    for (at, letter) in pattern.char_indices() {
        let rest = &pattern[at..];
        if is_escaped {
            is_escaped = false;
            if !is_class
                && (letter.is_ascii_digit() && letter != '0' && !is_octal(rest)
                    || matches!(letter, 'g' | 'k' | 'K'))
            {
                return true;
            }
            before = 'a';
            continue;
        }
        match letter {
            '\\' => {
                is_escaped = true;
                continue;
            }
            '[' if !is_class => is_class = true,
            ']' if is_class => is_class = false,
            '(' if !is_class => {
                let special = ["(?=", "(?!", "(?<=", "(?<!", "(?>", "(?(", "(?R", "(?P=", "(?P>", "(?|"];
                if special.iter().any(|form| rest.starts_with(form)) {
                    return true;
                }
            }
            '+' if !is_class && matches!(before, '*' | '+' | '?' | '}') => return true,
            _ => {}
        }
        before = letter;
    }
    false
}

/// `\123` is a byte, `\1` a group.
fn is_octal(digits: &str) -> bool {
    let bytes = digits.as_bytes();
    bytes.len() >= 3 && bytes[..3].iter().all(|byte| (b'0'..=b'7').contains(byte)) && bytes[0] <= b'3'
}

/// Writes what Perl and the crate write differently.
fn translate(pattern: &str, flags: &Pcre) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut letters = pattern.char_indices().peekable();
    let (mut class_at, mut is_first) = (None, false);
    while let Some((at, letter)) = letters.next() {
        let is_class = class_at.is_some();
        match letter {
            '\\' => {
                let Some((_, next)) = letters.next() else {
                    return Err("the expression ends with a backslash".to_string());
                };
                match next {
                    // Horizontal spaces, line ends, and the ends of the text.
                    'h' => out.push_str(if is_class { " \\t" } else { "[ \\t]" }),
                    'H' if !is_class => out.push_str("[^ \\t]"),
                    'N' if !is_class => out.push_str("[^\\n]"),
                    'v' if is_class => out.push_str("\\n\\x0b\\f\\r\\x85"),
                    'v' => out.push_str("[\\n\\x0b\\f\\r\\x85]"),
                    'V' if !is_class => out.push_str("[^\\n\\x0b\\f\\r\\x85]"),
                    'H' | 'N' | 'V' => return Err(format!("`\\{next}` in a class is not understood")),
                    'R' if !is_class => out.push_str("(?:\\r\\n|\\n|\\r)"),
                    'Z' if !is_class => out.push_str("\\n?\\z"),
                    'e' => out.push_str("\\x1b"),
                    'x' => hexadecimal(&mut letters, &mut out)?,
                    'c' => {
                        let control = letters.next().map_or('@', |(_, letter)| letter.to_ascii_uppercase());
                        let _ = write!(out, "\\x{:02x}", (control as u32 ^ 64) & 0x7f);
                    }
                    'Q' => {
                        let rest = &pattern[at + 2..];
                        let length = rest.find("\\E").unwrap_or(rest.len());
                        out.push_str(&regex_escape(&rest[..length]));
                        while letters.peek().is_some_and(|(next, _)| *next < at + 2 + length + 2) {
                            letters.next();
                        }
                    }
                    'E' => {}
                    'b' if is_class => out.push_str("\\x08"),
                    'A' | 'B' | 'z' | 'Z' | 'G' | 'R' if is_class => out.push(next),
                    // Letters without a meaning stand for themselves.
                    'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' | 'B' | 'A' | 'z' | 'n' | 'r' | 't' | 'f'
                    | 'a' | 'p' | 'P' => {
                        out.push('\\');
                        out.push(next);
                    }
                    next if next.is_ascii_digit() => {
                        out.push('\\');
                        out.push(next);
                    }
                    next if next.is_ascii_alphabetic() => out.push(next),
                    // With a backslash, these are the ends of words.
                    '<' | '>' => out.push(next),
                    next if next.is_ascii() && !next.is_ascii_whitespace() => {
                        out.push('\\');
                        out.push(next);
                    }
                    next => push_bytes(&mut out, next),
                }
                is_first = false;
            }
            '[' if !is_class => {
                class_at = Some(at);
                out.push('[');
                if letters.peek().is_some_and(|(_, next)| *next == '^') {
                    out.push('^');
                    letters.next();
                }
                is_first = true;
            }
            ']' if is_class && is_first => {
                out.push_str("\\]");
                is_first = false;
            }
            ']' if is_class => {
                class_at = None;
                out.push(']');
            }
            '[' if pattern[at..].starts_with("[:") && pattern[at..].contains(":]") => {
                let end = at + pattern[at..].find(":]").unwrap_or(0) + 2;
                out.push_str(&pattern[at..end]);
                while letters.peek().is_some_and(|(next, _)| *next < end) {
                    letters.next();
                }
                is_first = false;
            }
            // In classes of the crate, these have a meaning.
            '[' | '&' | '~' if is_class => {
                out.push('\\');
                out.push(letter);
                is_first = false;
            }
            // Behind `\\w`, it begins no range.
            '-' if is_class && ends_with_shorthand(&out) => out.push_str("\\-"),
            '-' if is_class && (is_first || letters.peek().is_some_and(|(_, next)| *next == '-')) => {
                out.push_str("\\-");
                is_first = false;
            }
            // The end of the text, or the line end there.
            '$' if !is_class && !flags.multi_line => {
                out.push_str(if flags.dollar_end_only { "\\z" } else { "(?:\\n?\\z)" });
            }
            // A brace that begins no repetition.
            '{' if !is_class && !is_repetition(&pattern[at..]) => out.push_str("\\{"),
            '}' if !is_class && !closes_repetition(&pattern[..=at]) => out.push_str("\\}"),
            '(' if pattern[at..].starts_with("(?#") => {
                for (_, letter) in letters.by_ref() {
                    if letter == ')' {
                        break;
                    }
                }
            }
            letter if letter.is_ascii() => {
                out.push(letter);
                is_first = false;
            }
            letter => {
                push_bytes(&mut out, letter);
                is_first = false;
            }
        }
    }
    match class_at {
        Some(_) => Err("a class has no end: `]` is missing".to_string()),
        None => Ok(out),
    }
}

/// Whether a class ends with `\\d` and others.
fn ends_with_shorthand(out: &str) -> bool {
    ["\\d", "\\D", "\\w", "\\W", "\\s", "\\S"].iter().any(|word| out.ends_with(word))
}

/// `\xA`, `\xAB`, `\x{AB}`.
fn hexadecimal(
    letters: &mut std::iter::Peekable<std::str::CharIndices<'_>>,
    out: &mut String,
) -> Result<(), String> {
    let is_braced = letters.peek().is_some_and(|(_, letter)| *letter == '{');
    let mut digits = String::new();
    if is_braced {
        letters.next();
        for (_, letter) in letters.by_ref() {
            if letter == '}' {
                break;
            }
            digits.push(letter);
        }
    } else {
        while digits.len() < 2
            && let Some((_, letter)) = letters.peek()
            && letter.is_ascii_hexdigit()
        {
            digits.push(*letter);
            letters.next();
        }
    }
    let number = if digits.is_empty() { Ok(0) } else { u32::from_str_radix(&digits, 16) };
    match number {
        Ok(number @ ..=0xff) => {
            let _ = write!(out, "\\x{number:02x}");
            Ok(())
        }
        _ => Err(format!("`\\x{{{digits}}}` is no byte")),
    }
}

/// The bytes of a letter that is not ASCII.
fn push_bytes(out: &mut String, letter: char) {
    let mut buffer = [0; 4];
    for byte in letter.encode_utf8(&mut buffer).bytes() {
        let _ = write!(out, "\\x{byte:02x}");
    }
}

fn regex_escape(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() || letter == '_' => out.push(letter),
            letter => push_bytes(&mut out, letter),
        }
    }
    out
}

/// `{3}`, `{3,}`, `{3,4}`.
fn is_repetition(text: &str) -> bool {
    let Some(end) = text.find('}') else { return false };
    let inner = &text[1..end];
    let (first, last) = inner.split_once(',').unwrap_or((inner, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !first.is_empty() && is_number(first) && is_number(last)
}

fn closes_repetition(text: &str) -> bool {
    text.rfind('{')
        .is_some_and(|at| is_repetition(&text[at..]) && text[at..].find('}') == Some(text.len() - at - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, flags: &str, text: &str) -> bool {
        let made = expression(pattern, flags).unwrap_or_else(|why| panic!("{pattern}: {why}"));
        assert!(!made.needs_backtracking, "{pattern}");
        let syntax = regex_automata::util::syntax::Config::new()
            .case_insensitive(made.nocase)
            .multi_line(made.multi_line)
            .dot_matches_new_line(made.dot_all)
            .octal(true)
            .unicode(false)
            .utf8(false);
        let regex = regex_automata::nfa::thompson::pikevm::PikeVM::builder()
            .syntax(syntax)
            .build(&made.pattern)
            .expect(pattern);
        regex.is_match(&mut regex.create_cache(), text.as_bytes())
    }

    #[test]
    fn forms_of_perl_have_their_meaning() {
        for (pattern, text, is_match) in [
            (r"a\/b", "a/b", true),
            (r"\x41\x{42}C", "ABC", true),
            (r"[]a]+$", "a]", true),
            (r"[^]a]", "]", false),
            (r"[a[b]", "[", true),
            (r"[&&x]", "&", true),
            (r"[-a]", "-", true),
            (r"a{,5}", "a{,5}", true),
            (r"{x}", "{x}", true),
            (r"a{2}", "aa", true),
            (r"[[:alpha:]]+x", "abx", true),
            (r"\Qa.b\Ec", "a.bc", true),
            (r"\Qa.b\Ec", "axbc", false),
            (r"a\hb", "a\tb", true),
            (r"\_\%\<", "_%<", true),
            (r"(?#comment)a", "a", true),
            (r"\.\d+\s", ".12 ", true),
            (r"a\Z", "a\n", true),
            (r"\101", "A", true),
            (r"foo$", "foo\n", true),
            (r"foo$", "foo\nx", false),
            (r"[\w-.]+$", "a-.", true),
            (r"a\Nb", "axb", true),
            (r"a\vb", "a\rb", true),
            ("é", "é", true),
        ] {
            assert_eq!(matches(pattern, "", text), is_match, "{pattern} {text}");
        }
        assert!(matches("ABC", "i", "abc") && !matches("a.c", "", "a\nc") && matches("a.c", "s", "a\nc"));
    }

    #[test]
    fn what_a_linear_engine_cannot_do_is_found() {
        for pattern in [r"a(?=b)", r"(a)\1", r"(?<!x)a", r"a++b", r"(?>a)", r"\k{x}"] {
            assert!(expression(pattern, "").is_ok_and(|made| made.needs_backtracking), "{pattern}");
        }
        for pattern in [r"a\\1", r"[+*]+", r"(?:a)", r"(?i)a", r"(?P<x>a)", r"a\+\+"] {
            assert!(expression(pattern, "").is_ok_and(|made| !made.needs_backtracking), "{pattern}");
        }
        for pattern in ["(", "[a", "a\\", "*", "\\x{100}", "a{3,2}"] {
            assert!(expression(pattern, "").is_err(), "{pattern}");
        }
    }
}
