//! Text of others, in captures and file names, and others who share a directory.

use crate::cli::{answer, example, scratch, text, weir};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A character that controls a terminal, or changes how other text is shown.
fn is_bad(letter: char) -> bool {
    let is_direction =
        matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() && !matches!(letter, '\n' | '\t') || is_direction
}

fn assert_clean(what: &str, shown: &[u8]) {
    let shown = String::from_utf8(shown.to_vec()).unwrap_or_else(|_| panic!("{what} is text"));
    let bad: BTreeSet<char> = shown.chars().filter(|letter| is_bad(*letter)).collect();
    assert!(bad.is_empty(), "{what}: {bad:?} in {shown}");
}

/// The capture of the shared folder, if it is there.
fn injection() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/found/inj.pcap");
    path.exists().then_some(path)
}

#[test]
fn control_characters_of_the_network_are_escaped_in_every_text_format() {
    let Some(path) = injection() else { return };
    let path = path.to_str().unwrap();
    for question in ["http", "tls", "dns", "files", "packets", "sessions", "flows", "events"] {
        for format in ["table", "json", "csv", "zeek", "eve"] {
            let output = weir(&[question, "-r", path, "--format", format]);
            let what = format!("{question} as {format}");
            if !output.status.success() {
                // Not every question has rows of every format.
                assert!(matches!(format, "zeek" | "eve"), "{what}: {}", text(&output.stderr));
            }
            assert_clean(&what, &output.stdout);
            assert_clean(&what, &output.stderr);
        }
    }
    for arguments in [
        &["match", "-r", path, "-e", "pwn", "--format", "grep"][..],
        &["explain", "tcp", "--packet", &format!("{path}:4")],
    ] {
        let output = weir(arguments);
        assert!(text(&output.stdout).contains("pwn") || arguments[0] == "explain", "{output:?}");
        assert_clean(arguments[0], &output.stdout);
    }
    assert!(answer(&["http", "-r", path, "--format", "csv"], 0).contains("\\x1b[2J"));
}

#[test]
fn file_names_and_filters_in_messages_are_escaped() {
    let name = "evil\u{1b}[31m\u{9b}2J\u{202e}gnp.pcap";
    let path = scratch(name);
    let (missing, bytes) = (path.to_str().unwrap(), std::fs::read(example()).unwrap());
    let _ = std::fs::remove_file(&path);
    let refused = weir(&["flows", "-r", missing]);
    assert_eq!(refused.status.code(), Some(2));
    assert_clean("a missing file", &refused.stderr);
    std::fs::write(&path, &bytes[..bytes.len() / 2 + 7]).unwrap();
    let cut = weir(&["flows", "-r", missing]);
    assert!(text(&cut.stderr).contains("evil\\x1b[31m\\x9b2J\\u{202e}gnp.pcap"), "{cut:?}");
    assert_clean("a cut file", &cut.stderr);
    assert_clean("an output", &weir(&["flows", "-r", missing, "-o", &format!("{missing}/x")]).stderr);
    let filter = weir(&["flows", "-r", example().to_str().unwrap(), "tcp.\u{1b}[31m\u{202e}port"]);
    assert_clean("a filter", &filter.stderr);
    let file = scratch("evil\u{1b}[31m\u{202e}.toml");
    std::fs::write(&file, "[[question]]\nname = \"a\u{202e}b\"\nask = \"x\u{202e}\"\n").unwrap();
    assert_clean("a question", &weir(&["run", file.to_str().unwrap(), "-r", missing]).stderr);
    let stack = scratch("evil\u{1b}[31m\u{202e}.weir");
    std::fs::write(&stack, "protocol x\u{1b}[31m {").unwrap();
    assert_clean("a stack", &weir(&["check", stack.to_str().unwrap()]).stderr);
}

#[test]
fn csv_safe_needs_csv_and_has_no_formulas() {
    let file = example();
    let file = file.to_str().unwrap();
    let refused = weir(&["flows", "-r", file, "--csv-safe"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--csv-safe needs --format csv"), "{refused:?}");
    let rows =
        answer(&["match", "-r", file, "-e", "[-+=@][a-z]+", "-C", "0", "--format", "csv", "--csv-safe"], 0);
    assert!(rows.contains(",'="), "{rows}");
    let is_formula = |field: &str| field.trim_matches('"').starts_with(['=', '+', '@']);
    assert!(!rows.lines().skip(1).flat_map(|row| row.split(',')).any(is_formula), "{rows}");
}

/// An empty directory.
fn directory(name: &str) -> PathBuf {
    let path = scratch(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory for tests");
    path
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn files_of_streams_follow_no_links_and_overwrite_no_input() {
    let (plain, planted) = (directory("streams-plain"), directory("streams-planted"));
    let file = example();
    let streams = |input: &Path, directory: &Path| {
        weir(&["streams", "-r", input.to_str().unwrap(), "-o", directory.to_str().unwrap(), "--count"])
    };
    assert!(streams(&file, &plain).status.success());
    let all = names(&plain);
    assert!(all.len() > 20);
    let (victim, missing, input) = (scratch("victim"), scratch("no-victim"), scratch("streams-input.pcap"));
    std::fs::write(&victim, "precious").unwrap();
    let _ = std::fs::remove_file(&input);
    std::fs::copy(&file, &input).unwrap();
    // Obstacles that others put in the way, each with its message.
    let plant = |number: usize, directory: &Path| {
        let path = directory.join(&all[number]);
        match number {
            0 => symlink(&victim, path).unwrap(),
            1 => symlink(&missing, path).unwrap(),
            2 => std::fs::hard_link(&input, path).unwrap(),
            _ => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        }
    };
    let link = "a symbolic link, which is not followed";
    let messages = [link, link, "an input file: write to another directory", "No such device"];
    for (number, message) in messages.iter().enumerate() {
        let alone = directory(&format!("streams-{number}"));
        plant(number, &alone);
        let output = streams(&input, &alone);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(&format!("{}: {message}", all[number])), "{output:?}");
        plant(number, &planted);
    }
    assert_eq!(streams(&input, &planted).status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert!(std::fs::read(&input).unwrap() == std::fs::read(&file).unwrap());
    assert!(!missing.exists());
    assert_eq!(names(&planted), all);
    for name in &all[4..] {
        let same = std::fs::read(plain.join(name)).unwrap() == std::fs::read(planted.join(name)).unwrap();
        assert!(same, "{name}: other files are written");
    }
}

#[test]
fn runs_of_zeek_in_one_directory_share_no_temporary_files() {
    let (first, second, both) = (directory("zeek-first"), directory("zeek-second"), directory("zeek-both"));
    let sessions = example().with_file_name("sessions.pcap");
    let captures = [example(), sessions];
    let start = |capture: &Path, directory: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let command =
            command.args(["zeek", "-r", capture.to_str().unwrap(), "-d", directory.to_str().unwrap()]);
        command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary was built")
    };
    for (capture, directory) in captures.iter().zip([&first, &second]) {
        assert!(start(capture, directory).wait().unwrap().success());
    }
    // A link in the place of a temporary file of earlier versions.
    let victim = scratch("zeek-victim");
    std::fs::write(&victim, "precious").unwrap();
    symlink(&victim, both.join("conn.log.part")).unwrap();
    for round in 0..5 {
        let running = [&captures[0], &captures[1]].map(|capture| start(capture, &both));
        for child in running {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        let expected: BTreeSet<String> = names(&first).into_iter().chain(names(&second)).collect();
        let found: BTreeSet<String> =
            names(&both).into_iter().filter(|name| name != "conn.log.part").collect();
        assert_eq!(found, expected, "round {round}");
        for name in &found {
            let read = |directory: &Path| std::fs::read(directory.join(name)).ok();
            let log = read(&both);
            assert!(log == read(&first) || log == read(&second), "{name} is of one run, round {round}");
        }
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
}

/// Other users may not use the control socket, even if its permissions were changed. Only root can run this.
#[test]
fn requests_of_other_users_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("weir-users-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let everyone =
        |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    everyone(&folder);
    let (socket, binary) = (folder.join("weir.sock"), folder.join("weir"));
    std::fs::copy(env!("CARGO_BIN_EXE_weir"), &binary).unwrap();
    let mut running = Command::new(&binary);
    let running = running.args(["run", "-r", "-", "--control"]).arg(&socket).stdin(Stdio::piped());
    let mut child = running.spawn().unwrap();
    let began = std::time::Instant::now();
    while !socket.exists() && began.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let list = |user: u32| {
        let mut command = Command::new(&binary);
        command.arg("ctl").arg(&socket).arg("list").uid(user).output().unwrap()
    };
    let closed = list(65534);
    assert!(text(&closed.stderr).contains("Permission denied"), "{closed:?}");
    everyone(&socket);
    let refused = list(65534);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("user 65534 may not use this socket"), "{refused:?}");
    assert!(list(0).status.success());
    std::io::copy(&mut File::open(example()).unwrap(), &mut child.stdin.take().unwrap()).unwrap();
    assert!(child.wait().unwrap().success());
    std::fs::remove_dir_all(&folder).unwrap();
}
