//! Formatting changes only white space, is idempotent, and leaves the built-in texts unchanged.

use proptest::prelude::*;
use std::path::Path;
use weir_lang::diag::Span;
use weir_lang::syntax::{lexer::lex, parse};
use weir_lang::{Library, format};

/// Tokens, documentation and comments: the content that formatting must keep.
fn content(text: &str) -> (Vec<&str>, Vec<(usize, String)>) {
    let span = Span { source: 0, start: 0, end: text.len() as u32 };
    let tokens = lex(text, span, &mut Vec::new());
    let mut said = Vec::new();
    let mut at = 0;
    for token in &tokens.list {
        let (start, end) = (token.span.start as usize, token.span.end as usize);
        said.extend(text[at..start].lines().map(str::trim).filter(|line| !line.is_empty()));
        said.push(&text[start..end]);
        at = end;
    }
    (said, tokens.docs)
}

/// Formats a text, and checks that its content is unchanged and that a second run changes nothing.
fn laid_out(text: &str) -> String {
    let once = match format("x.weir", text) {
        Ok(once) => once,
        Err(wrong) => panic!("{wrong}"),
    };
    assert_eq!(content(text), content(&once), "in\n{text}\nand\n{once}");
    let twice = format("x.weir", &once).expect("what was laid out can be read");
    assert_eq!(once, twice, "twice is not once, of\n{text}");
    once
}

fn parses(text: &str) -> bool {
    let mut wrong = Vec::new();
    parse(text, 0, &mut wrong);
    wrong.is_empty()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).expect("a text")
}

#[test]
fn protocols_that_come_with_weir_are_laid_out() {
    for (name, text) in Library::builtin_texts() {
        assert_eq!(laid_out(text), *text, "{name}: `cargo run -p weir-cli -- fmt protocols/*.weir` mends it");
    }
}

#[test]
fn wrong_texts_that_can_be_read_are_laid_out() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/lang");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of texts") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        if path.extension().is_some_and(|e| e == "weir") && parses(&text) {
            laid_out(&text);
            count += 1;
        }
    }
    assert!(count > 20, "{count} texts");
}

#[test]
fn examples_of_the_documentation_are_laid_out() {
    let page = read("docs/language.md");
    let mut count = 0;
    for example in page.split("```\n").skip(1).step_by(2) {
        // Some examples are part of a protocol or of its header.
        let whole = [("", ""), ("protocol x {\n", "}\n"), ("protocol x {\nheader {\n", "}\n}\n")]
            .map(|(before, after)| format!("{before}{example}{after}"));
        if let Some(whole) = whole.iter().find(|whole| parses(whole)) {
            let new = laid_out(whole);
            let words = |text: &str| text.lines().map(|line| line.trim().to_string()).collect::<Vec<_>>();
            assert_eq!(words(&new), words(whole));
            count += 1;
        }
    }
    assert!(count >= 6, "{count} examples");
}

/// A built-in protocol with random white space between its tokens, including line ends.
fn scattered() -> impl Strategy<Value = String> {
    const BLANKS: &[&str] =
        &[" ", "", "  ", "    ", "\t", "\n", "\r\n", "\n\n\n", "\n   ", " // why\n", "\n\t//! x\n"];
    let blanks = prop::collection::vec(prop::sample::select(BLANKS), 1..200);
    (prop::sample::select(Library::builtin_texts()), blanks, 1..20usize).prop_map(
        |((_, text), blanks, every)| {
            let span = Span { source: 0, start: 0, end: text.len() as u32 };
            let mut new = String::new();
            let mut at = 0;
            for (index, token) in lex(text, span, &mut Vec::new()).list.iter().enumerate() {
                let (start, end) = (token.span.start as usize, token.span.end as usize);
                let old = &text[at..start];
                let blank = blanks[index % blanks.len()];
                let is_word =
                    |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "_.<>-+=".contains(c));
                let glued = is_word(new.chars().last()) && is_word(text[start..].chars().next());
                match index % every == 0 && !old.contains("//") && !(blank.is_empty() && glued) {
                    true => new.push_str(blank),
                    false => new.push_str(old),
                }
                new.push_str(&text[start..end]);
                at = end;
            }
            new
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn white_space_of_any_kind_is_laid_out(text in scattered()) {
        prop_assert!(parses(&text), "line ends mean nothing");
        laid_out(&text);
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_every_mistake() {
    let wrong =
        format("x.weir", "protocol x { header { a u8 } }\nprotocol y { lett }\n").expect_err("it is wrong");
    let said = wrong.to_string();
    assert!(said.contains("x.weir:1:25") && said.contains("W0006"), "{said}");
    assert!(format("x.weir", &" ".repeat(17 << 20)).is_err_and(|wrong| wrong.to_string().contains("W0007")));
}
