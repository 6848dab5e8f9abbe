//! No text makes the parser or the checker panic: random words of the language, and protocols that
//! come with Weir, damaged.

use proptest::prelude::*;
use weir_lang::{Library, fuzz_lang};

/// Words and signs, so that random texts get far into the parser.
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

/// A text that comes with Weir, with lines or bytes cut out and words put in.
fn damaged() -> impl Strategy<Value = String> {
    let texts = Library::builtin_texts();
    let cuts =
        prop::collection::vec((any::<prop::sample::Index>(), 0..40usize, prop::sample::select(WORDS)), 1..6);
    (0..texts.len(), cuts).prop_map(move |(text, cuts)| {
        // So that the names are new ones where text is checked beside what comes with Weir.
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
