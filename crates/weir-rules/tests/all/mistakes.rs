//! Texts with mistakes and their diagnostics: `filetests/rules/*`, each with its `.expect`. The first line of
//! a text says what the case shows. `WEIR_BLESS=1` writes the expectations.

use std::path::{Path, PathBuf};
use weir_lang::diag::Diagnostics;
use weir_rules::{Classes, RuleFile, Tunings, Variables, load};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/rules")
}

/// What is said about rules: diagnostics, and how many hold.
fn said_about_rules(name: &str, text: &str) -> String {
    let set = load(&[RuleFile { name, text }], &Variables::default(), 2);
    let mut said: Vec<String> = set.refusals.iter().map(|refused| refused.render(false)).collect();
    let mut warnings = Diagnostics::default();
    warnings.list.extend(set.replacements());
    said.extend(warnings.list.iter().map(|one| one.render(&warnings.sources, false)));
    let (holds, refused) = (set.rules.len(), set.refusals.len());
    said.push(format!("{holds} hold, {refused} refused, {} disabled\n", set.disabled));
    said.join("\n")
}

fn said_about(name: &str, text: &str) -> String {
    let mut said = Diagnostics::default();
    let source = said.sources.add(name, text);
    let mut variables = Variables::default();
    said.list = match name {
        "variables.yaml" => variables.read_yaml(text, source),
        "variables.toml" => variables.read_toml(text, source),
        "threshold.config" => Tunings::default().read(text, source, &variables),
        "classification.config" => Classes::default().read(text, source),
        _ => return said_about_rules(name, text),
    };
    said.render(false)
}

#[test]
fn texts_are_told_what_is_expected() {
    let bless = std::env::var_os("WEIR_BLESS").is_some();
    let mut texts: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    texts.retain(|path| path.extension().is_some_and(|extension| extension != "expect"));
    texts.sort();
    assert!(texts.len() >= 12, "texts are missing");
    let mut wrong = Vec::new();
    for path in texts {
        let text = std::fs::read_to_string(&path).expect("a readable text");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let is_sentence = |line: &str| line.starts_with("# ") && line.ends_with('.');
        assert!(text.lines().next().is_some_and(is_sentence), "{name} starts with a sentence");
        let found = said_about(&name, &text);
        let expect = folder().join(format!("{name}.expect"));
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
    let page = std::fs::read_to_string(folder().join("../../docs/diagnostics.md")).expect("the page");
    for code in ["W0201", "W0202", "W0203", "W0204", "W0205", "W0206", "W0207", "W0208", "W0209", "W0210"] {
        assert!(page.contains(&format!("| {code} |")), "{code} is not in docs/diagnostics.md");
    }
}
