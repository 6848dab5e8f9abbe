//! Texts in the protocol language and their diagnostics: `filetests/lang/*.weir`, each with its `.expect`.
//! The first line of a text says what the case shows. `WEIR_BLESS=1` writes the expectations.

use std::path::{Path, PathBuf};
use weir_lang::Library;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/lang")
}

fn said_about(name: &str, text: &str) -> String {
    let mut library = Library::builtin();
    let said = match library.extend_with(name, text) {
        Ok(warnings) => warnings,
        Err(wrong) => wrong,
    };
    if said.list.is_empty() { "nothing to say\n".to_string() } else { said.render(false) }
}

#[test]
fn texts_are_told_what_is_expected() {
    let bless = std::env::var_os("WEIR_BLESS").is_some();
    let mut texts: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the folder of texts")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    texts.retain(|path| path.extension().is_some_and(|extension| extension == "weir"));
    texts.sort();
    assert!(texts.len() >= 25, "texts are missing");
    let mut wrong = Vec::new();
    for path in texts {
        let text = std::fs::read_to_string(&path).expect("a readable text");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(
            text.starts_with("// ") && text.lines().next().is_some_and(|line| line.ends_with('.')),
            "{name} starts with a sentence"
        );
        let found = said_about(&name, &text);
        let expect = path.with_extension("expect");
        if bless {
            std::fs::write(&expect, &found).expect("a writable folder");
        } else if std::fs::read_to_string(&expect).ok().as_deref() != Some(&found) {
            wrong.push(format!("{name}:\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "not as expected (WEIR_BLESS=1 accepts):\n{}", wrong.join("\n"));
}

#[test]
fn every_code_is_explained_in_the_documentation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagnostics.md");
    let text = std::fs::read_to_string(path).expect("docs/diagnostics.md");
    let of_aggregates = weir_lang::aggregate::CODES.iter().map(|(code, _)| code);
    for code in weir_lang::check::codes::ALL.iter().chain(of_aggregates) {
        assert!(text.contains(&format!("| {code} |")), "{code} is not in docs/diagnostics.md");
    }
}
