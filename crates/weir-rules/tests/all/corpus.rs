//! Replays the seeds of the fuzz target `rules`, and inputs that once failed: `corpus/rules/*`.
//! `WEIR_BLESS=1` rewrites the seeds: the rules and settings of `filetests/rules`, each rule with a payload.

use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn files(name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(name)).expect(name);
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// Payloads in which contents of the rules are found.
const PAYLOADS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
    b"POST /login?user=abcd& HTTP/1.1\r\nX-A: b\r\n\r\nabc abc def",
    b"len\x02\x00xx\x00\x01\x00\x0012345678MZ",
];

fn write_seeds() {
    std::fs::create_dir_all(folder("corpus/rules")).expect("a writable folder");
    for path in files("filetests/rules") {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a readable text");
        let seeds: Vec<Vec<u8>> = match path.extension().and_then(|extension| extension.to_str()) {
            Some("expect") => continue,
            Some("rules") => {
                let rules = text.lines().filter(|line| !line.starts_with('#')).enumerate();
                rules
                    .map(|(at, rule)| [rule.as_bytes(), b"\n\0", PAYLOADS[at % PAYLOADS.len()]].concat())
                    .collect()
            }
            _ => vec![text.into_bytes()],
        };
        for (at, seed) in seeds.iter().enumerate() {
            let seed_name = folder("corpus/rules").join(format!("{}-{at:02}", name.replace('.', "-")));
            std::fs::write(seed_name, seed).expect("a writable folder");
        }
    }
}

#[test]
fn rules_take_any_text() {
    if std::env::var_os("WEIR_BLESS").is_some() {
        write_seeds();
    }
    let seeds = files("corpus/rules");
    assert!(seeds.len() >= 20, "seeds are missing");
    for path in seeds {
        println!("{}", path.display());
        weir_testing::rules::fuzz_rules(&std::fs::read(&path).expect("a readable seed"));
    }
}
