//! No text makes the parser or the checker panic: random words of the language, and damaged built-in
//! protocols.

use proptest::prelude::*;
use weir_lang::Library;
use weir_testing::language::fuzz_lang;

/// Words and operators, so that random texts reach deep into the parser.
const WORDS: &[&str] = &[
    "protocol",
    "stack",
    "x",
    "y",
    "as",
    "{",
    "}",
    "header",
    "a",
    "b",
    ":",
    "u8",
    "u4",
    "u13",
    "u64",
    "bytes",
    "[",
    "]",
    "=",
    "where",
    ">=",
    "5",
    "\"text\"",
    "if",
    "else",
    "run",
    "until",
    "_",
    "stop",
    "peek",
    "alias",
    "|",
    "let",
    "payload",
    "rest",
    "..",
    "instance",
    "(",
    ")",
    "<->",
    "when",
    "each",
    "side",
    "vars",
    "prepare",
    "me.n",
    "peer.n",
    "n",
    "+=",
    "history",
    "S",
    "sequence",
    "at",
    "of",
    "spanning",
    "window",
    "from",
    "first",
    "0",
    "states",
    "start",
    "accept",
    "on",
    "->",
    "any",
    "restart",
    "timeout",
    "5s",
    "in",
    "otherwise",
    "event",
    "packet",
    "ordered",
    "assemble",
    ",",
    "show",
    "\"{a}{b +\"",
    "and",
    "or",
    "not",
    "==",
    "<",
    "+",
    "-",
    "*",
    "&",
    "^",
    "<<",
    ">>",
    "then",
    "true",
    "18446744073709551615",
    "below.src",
    "payload.length",
    "ordered.a",
    "originator",
    "extends",
    "internet",
    "eth",
    "ip",
    "udp",
    "repeat",
    "dispatch",
    "ETHERNET",
    "quoted",
    "//! doc\n",
    "\n",
    "\n",
    "\u{20ac}",
    "\"",
    "macaddr",
    "ipv6addr",
    "header.length",
];

fn words() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS), 0..120).prop_map(|words| words.join(" "))
}

/// A built-in text with lines or bytes removed and words inserted.
fn damaged() -> impl Strategy<Value = String> {
    let texts = Library::builtin_texts();
    let cuts =
        prop::collection::vec((any::<prop::sample::Index>(), 0..40usize, prop::sample::select(WORDS)), 1..6);
    (0..texts.len(), cuts).prop_map(move |(text, cuts)| {
        // Rename the declarations, so that the text can be checked together with the built-in ones.
        let mut text = texts[text].1.as_bytes().to_vec();
        for (at, length, word) in cuts {
            let at = at.index(text.len().max(1)).min(text.len());
            let end = (at + length).min(text.len());
            text.splice(at..end, word.bytes());
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn words_in_any_order_never_panic(text in words()) {
        fuzz_lang(text.as_bytes());
    }

    #[test]
    fn a_protocol_of_any_clauses_never_panics(inside in words()) {
        fuzz_lang(format!("protocol x {{ header {{ a: u8  b: u16 }} {inside} }}").as_bytes());
        fuzz_lang(format!("protocol x {{ header {{ {inside} }} }}").as_bytes());
    }

    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz_lang(&bytes);
    }

    #[test]
    fn damaged_protocols_never_panic(text in damaged()) {
        fuzz_lang(text.as_bytes());
    }

    #[test]
    fn additions_are_taken_whole_or_refused_with_a_reason(text in damaged()) {
        let mut library = Library::builtin();
        let before = (library.protocols().count(), library.stacks().len());
        if let Err(wrong) = library.extend_with("user.weir", &text) {
            prop_assert!(wrong.has_errors());
            prop_assert_eq!(before, (library.protocols().count(), library.stacks().len()));
            prop_assert!(wrong.to_string().contains("error[W0"));
        }
    }
}

#[test]
fn long_and_deep_texts_are_refused_without_overflow() {
    let deep = ["(", "not ", "if a then ", "a + (", "a ^ "]
        .map(|part| format!("protocol x {{ header {{ a: u8 }} let b = {}", part.repeat(100_000)));
    let blocks = ["if a == 1 { ", "g { ", "if a == 1 {} else "]
        .map(|part| format!("protocol x {{ header {{ a: u8 {}", part.repeat(100_000)));
    let stmts = ["if a == 1 { ", "if a == 1 { } else "].map(|part| {
        format!("protocol x {{ header {{ a: u8 }} instance (a) prepare {{ {}", part.repeat(100_000))
    });
    let lets: String = (0..10_000).map(|n| format!("let l{n} = l{} ", n + 1)).collect();
    let braces = "{".repeat(100_000);
    let lets = format!("protocol x {{ {lets} }}");
    let shifted = format!("protocol x {{ header {{ a: u8 }} let b = {} a }}", "a - ".repeat(150));
    for text in deep.iter().chain(&blocks).chain(&stmts).chain([&braces, &lets, &shifted]) {
        fuzz_lang(text.as_bytes());
    }
}

/// One mistake causes one diagnostic, or few: a missing, doubled or additional token, or a word with two
/// swapped letters.
#[test]
fn one_mistake_is_said_once() {
    const BESIDE: usize = 3;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/bfd.weir");
    let text = std::fs::read_to_string(path).expect("an example");
    let span = weir_lang::diag::Span { source: 0, start: 0, end: text.len() as u32 };
    let tokens = weir_lang::syntax::lexer::lex(&text, span, &mut Vec::new()).list;
    let (base, mut counts) = (weir_lang::Library::builtin(), [0; BESIDE + 1]);
    // Every third token, each with a different mistake.
    for (number, token) in tokens[..tokens.len() - 1].iter().enumerate().filter(|(number, _)| number % 3 == 0)
    {
        let (start, end) = (token.span.start as usize, token.span.end as usize);
        let word = &text[start..end];
        let is_word = word.len() > 3 && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let new = match number / 3 % 4 {
            0 => String::new(),
            1 => format!("{word} {word}"),
            2 => format!("{word} ]"),
            _ if is_word => format!("{}{}{}{}", &word[..1], &word[2..3], &word[1..2], &word[3..]),
            _ => continue,
        };
        let wrong = format!("{}{new}{}", &text[..start], &text[end..]);
        let Err(said) = base.clone().extend_with("wrong.weir", &wrong) else { continue };
        let errors = said.list.iter().filter(|one| one.is_error()).count();
        assert!(errors <= BESIDE, "`{word}` at byte {start} became `{new}`:\n{said}");
        counts[errors] += 1;
    }
    let all: usize = counts.iter().sum();
    assert!(all > 50 && counts[1] * 5 >= all * 4, "diagnostics of one mistake, by their number: {counts:?}");
}
