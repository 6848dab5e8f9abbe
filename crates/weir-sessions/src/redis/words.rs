//! Words of inline commands, which may be quoted; and words that may be a command's name.

/// First words of messages to subscribers.
pub(super) const PUSHED: [&str; 9] = [
    "message",
    "pmessage",
    "smessage",
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "punsubscribe",
    "sunsubscribe",
];

/// The place of the first key among the arguments of a command, which are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyPlace {
    /// This argument.
    Argument(u64),
    /// Behind this argument, which is the number of keys.
    Counted(u64),
    /// Behind the word STREAMS, which is behind this argument.
    Streams(u64),
}

/// The place of the first key of a command in upper case.
pub(super) fn key_place(name: &str) -> KeyPlace {
    match name {
        "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL" | "FCALL_RO" | "BLMPOP" | "BZMPOP" => {
            KeyPlace::Counted(2)
        }
        "LMPOP" | "ZMPOP" | "SINTERCARD" | "ZINTERCARD" | "ZUNION" | "ZINTER" | "ZDIFF" => {
            KeyPlace::Counted(1)
        }
        "XREAD" => KeyPlace::Streams(0),
        // GROUP, the group, the consumer.
        "XREADGROUP" => KeyPlace::Streams(3),
        "XGROUP" | "XINFO" | "OBJECT" | "BITOP" => KeyPlace::Argument(2),
        _ => KeyPlace::Argument(1),
    }
}

/// Whether a word may be a command name: `GET`, `FT.SEARCH`. Words that begin messages to subscribers are
/// excluded.
pub(super) fn may_be_command(word: &str) -> bool {
    let is_letter =
        |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'|' | b'_' | b'-');
    let is_message = matches!(word, "message" | "pmessage" | "smessage");
    !is_message
        && word.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && word.bytes().all(is_letter)
}

/// Splits a line into words, separated by white space or quoted. Double quotes allow the escapes `\"`,
/// `\n`, `\x41`; single quotes allow `\'`. Stops at a word whose quote is unclosed or followed by a
/// letter: servers reject such lines.
pub(super) fn split(line: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return None;
        }
        let word = next_word(&mut rest);
        if word.is_none() {
            rest = &[];
        }
        word
    })
}

fn next_word(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut word = Vec::new();
    while let Some((byte, tail)) = rest.split_first().filter(|(byte, _)| !byte.is_ascii_whitespace()) {
        *rest = tail;
        if !matches!(byte, b'"' | b'\'') {
            word.push(*byte);
            continue;
        }
        while rest.first()? != byte {
            word.push(next_quoted(rest, *byte)?);
        }
        *rest = &rest[1..];
        if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            return None;
        }
    }
    Some(word)
}

fn next_quoted(rest: &mut &[u8], quote: u8) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let (byte, length) = match (quote, *rest) {
        (b'"', [b'\\', b'x', high, low, ..]) if digit(high).is_some() && digit(low).is_some() => {
            (digit(high)? << 4 | digit(low)?, 4)
        }
        (b'"', [b'\\', letter, ..]) => {
            let byte = match letter {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'b' => 8,
                b'a' => 7,
                other => *other,
            };
            (byte, 2)
        }
        (b'\'', [b'\\', b'\'', ..]) => (b'\'', 2),
        (_, [byte, ..]) => (*byte, 1),
        (_, []) => return None,
    };
    *rest = &rest[length..];
    Some(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line.as_bytes()).map(|word| String::from_utf8_lossy(&word).into_owned()).collect()
    }

    #[test]
    fn words_may_be_quoted() {
        assert_eq!(words(" SET  k v\t"), ["SET", "k", "v"]);
        assert_eq!(words(r#"ECHO "hello world" 'a "b" \'c\''"#), ["ECHO", "hello world", "a \"b\" 'c'"]);
        assert_eq!(words(r#"ECHO "\"\x41\n\q\xzz" """#), ["ECHO", "\"A\nqxzz", ""]);
        assert_eq!(words(r#"ECHO a "b"#), ["ECHO", "a"]);
        assert_eq!(words(r#"ECHO "a"b c"#), ["ECHO"]);
        assert_eq!(words(r#"ECHO "a\"#), ["ECHO"]);
    }

    #[test]
    fn names_are_letters() {
        for name in ["GET", "FT.SEARCH", "config|get"] {
            assert!(may_be_command(name), "{name}");
        }
        for other in ["message", "hello world", "1", "", "\u{7}"] {
            assert!(!may_be_command(other), "{other}");
        }
    }
}
