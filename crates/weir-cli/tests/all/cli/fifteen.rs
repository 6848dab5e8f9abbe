//! Runs tutorial pages: writes the files in their blocks, runs their commands, and compares the output with
//! the page.

use crate::cli::{scratch, text};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Defines `weir` for the shell that runs the commands: it prints tables, as to a terminal.
const SHELL: &str = r#"
weir() {
    case "$1 $*" in
        check*|fmt*|docs*|*--format*|*--count*) "$WEIR" "$@" ;;
        *) "$WEIR" "$@" --format table ;;
    esac
}
exec 2>&1
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

/// The page's fenced blocks: the text after the opening fence, and the lines.
fn blocks(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut lines = page.lines();
    let next = || {
        let kind = lines.by_ref().find_map(|line| line.strip_prefix("```"))?;
        Some((kind, lines.by_ref().take_while(|line| *line != "```").collect()))
    };
    iter::from_fn(next).collect()
}

/// `file` extended by a block. The block's first line is in the file already, and the other lines follow it.
fn extended(file: &str, block: &[&str]) -> String {
    let mut lines: Vec<_> = file.lines().collect();
    let places: Vec<_> = (0..lines.len()).filter(|at| lines[*at] == block[0]).collect();
    assert_eq!(places.len(), 1, "`{}` stands once in\n{file}", block[0]);
    let behind = places[0] + 1;
    lines.splice(behind..behind, block[1..].iter().copied());
    lines.join("\n") + "\n"
}

/// Whether `said` matches `shown`, in which a line `…` matches any number of lines.
fn is_shown(said: &[&str], shown: &[&str]) -> bool {
    match shown {
        [] => said.is_empty(),
        ["…", rest @ ..] => (0..=said.len()).any(|skipped| is_shown(&said[skipped..], rest)),
        [first, rest @ ..] => {
            said.first().is_some_and(|line| line.trim_end() == *first) && is_shown(&said[1..], rest)
        }
    }
}

fn run(command: &str, folder: &Path) -> String {
    let output = Command::new("sh")
        .args(["-c", &format!("{SHELL}{command}")])
        .env("WEIR", env!("CARGO_BIN_EXE_weir"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("there is a shell");
    text(&output.stdout)
}

#[test]
fn the_page_can_be_followed() {
    let page = read(root().join("docs/fifteen-minutes.md"));
    let folder = scratch("fifteen");
    std::fs::create_dir_all(folder.join("examples")).expect("a temporary folder");
    let capture = "examples/bfd.pcap";
    std::fs::copy(root().join(capture), folder.join(capture)).expect("the page's capture");
    let file = folder.join("bfd.weir");
    let blocks = blocks(&page);
    let last = blocks.iter().rposition(|(kind, _)| *kind == "weir").expect("the page has the whole text");
    let mut commands = 0;
    let mut written = false;
    for (number, (kind, lines)) in blocks.iter().enumerate() {
        if *kind == "weir" && number == last {
            let shown = lines.join("\n") + "\n";
            assert_eq!(shown, read(&file), "the whole text is what the steps make");
            assert_eq!(shown, read(root().join("examples/bfd.weir")), "the whole text is the example");
        } else if *kind == "weir" {
            let content = if written { extended(&read(&file), lines) } else { lines.join("\n") + "\n" };
            std::fs::write(&file, content).expect("a temporary file");
            written = true;
        } else {
            assert!(lines[0].starts_with("$ "), "{lines:?}");
            for step in lines.chunk_by(|_, below| !below.starts_with("$ ")) {
                let said = run(&step[0][2..], &folder);
                assert!(
                    is_shown(&said.trim_end().lines().collect::<Vec<_>>(), &step[1..]),
                    "{}\nprints\n{said}\nand not\n{}",
                    step[0],
                    step[1..].join("\n")
                );
                commands += 1;
            }
        }
    }
    assert!(commands > 10, "{commands} commands");
}

/// `docs/language-examples.md`: a block with a name is a file. `WEIR_BLESS=1` writes the output of
/// the commands.
#[test]
fn the_examples_of_the_language_run() {
    let path = root().join("docs/language-examples.md");
    let page = read(&path);
    let folder = scratch("language");
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    for capture in ["constructs.pcap", "first-light.pcap"] {
        std::fs::copy(root().join("examples").join(capture), folder.join(capture)).expect("the capture");
    }
    let (mut right, mut files, mut commands) = (String::new(), 0, 0);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        right += &format!("{line}\n");
        let Some(kind) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if let Some(name) = kind.strip_prefix("weir ") {
            let text = block.join("\n") + "\n";
            std::fs::write(folder.join(name), &text).expect("a temporary file");
            right += &text;
            files += 1;
        }
        for command in block.iter().filter(|line| kind.is_empty() && line.starts_with("$ ")) {
            let said = run(&command[2..], &folder);
            let said: String = said.lines().map(|line| format!("{}\n", line.trim_end())).collect();
            right += &format!("{command}\n{said}");
            commands += 1;
        }
        right += "```\n";
    }
    assert!(files > 4 && commands > 10, "{files} files, {commands} commands");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &right).expect("a writable page");
    } else {
        assert!(page == right, "docs/language-examples.md is stale: WEIR_BLESS=1 writes it\n{right}");
    }
}
