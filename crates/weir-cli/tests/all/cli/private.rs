//! Files with what people do are for their owner alone, whichever command writes them, and no link leads the
//! command to another file.

use crate::cli::{example, text, weir};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Commands that write the output `OUT`, or into the directory `DIR`.
const COMMANDS: &[&str] = &[
    "packets -w OUT.pcapng",
    "packets -w OUT.pcap",
    "packets -o OUT.json",
    "flows -o OUT.json",
    "flows -o OUT.csv",
    "flows -o OUT.parquet",
    "flows -o OUT.arrow",
    "flows --count -o OUT.txt",
    "flows -o OUT.json --rotate 1h",
    "flows --format parquet -o DIR/",
    "sessions -o OUT.json",
    "http -o OUT.json",
    "zeek -d DIR",
    "zeek -d DIR --format parquet",
    "zeek -d DIR --extract DIR/contents",
    "streams -o DIR",
    "files --extract DIR -o OUT.json",
    "match -e GET -o OUT.json",
    "events -o OUT.json",
    "stats -o OUT.json",
    "aggregate count() -o OUT.json",
];

/// A folder in which others may look, outside of the private ones of this test run.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("its owner may");
    folder
}

fn run(line: &str, folder: &Path) -> std::process::Output {
    let words = line.split(' ').map(|word| {
        let at = |name: &str| folder.join(name).to_str().expect("text").to_string();
        word.replace("OUT", &at("out")).replace("DIR", &at("dir"))
    });
    let words: Vec<String> = words.collect();
    let file = example();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    weir(&[&words[..], &["-r", file.to_str().expect("text")]].concat())
}

/// All files and directories below, with their rights.
fn rights(folder: &Path) -> BTreeMap<PathBuf, (bool, u32)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a directory").flatten() {
        let about = entry.metadata().expect("it is there");
        all.insert(entry.path(), (about.is_dir(), about.permissions().mode() & 0o777));
        if about.is_dir() {
            all.extend(rights(&entry.path()));
        }
    }
    all
}

#[test]
fn files_are_for_their_owner_alone_whichever_command_writes_them() {
    for line in COMMANDS {
        let folder = folder();
        let output = run(line, folder.path());
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        let all = rights(folder.path());
        assert!(!all.is_empty(), "{line} writes files");
        for (path, (is_directory, mode)) in all {
            assert_eq!(mode, if is_directory { 0o700 } else { 0o600 }, "{line}: {}", path.display());
        }
    }
}

#[test]
fn a_group_reads_files_if_the_command_line_says_so() {
    for line in ["zeek -d DIR --extract DIR/contents --group-read", "flows -o OUT.json --group-read"] {
        let folder = folder();
        let output = run(line, folder.path());
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        for (path, (is_directory, mode)) in rights(folder.path()) {
            assert_eq!(mode, if is_directory { 0o750 } else { 0o640 }, "{line}: {}", path.display());
        }
    }
}

#[test]
fn no_command_follows_a_link_in_place_of_its_output() {
    for line in COMMANDS {
        let folder = folder();
        let output = run(line, folder.path());
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        // Every file becomes a link to one of somebody else.
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").expect("room");
        let files = rights(folder.path());
        let files: Vec<_> =
            files.iter().filter(|(path, (is_directory, _))| !is_directory && **path != victim).collect();
        for (path, _) in &files {
            fs::remove_file(path).expect("it is there");
            symlink(&victim, path).expect("a link");
        }
        let output = run(line, folder.path());
        let said = text(&output.stderr);
        assert_eq!(fs::read(&victim).expect("it is there"), b"precious", "{line}: {said}");
        // Names that are free otherwise (`part-1`, `_001`) are no refusal.
        let is_numbered = line.contains("DIR/") && !line.contains("extract") || line.contains("--rotate");
        if !is_numbered {
            assert!(said.contains("a symbolic link, which is not"), "{line}: {said}");
            assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        }
    }
}

#[test]
fn names_of_descriptors_devices_and_pipes_are_no_links() {
    let (folder, file) = (folder(), example());
    let (file, fifo) = (file.to_str().expect("text"), folder.path().join("fifo"));
    let expected = weir(&["flows", "-r", file, "--format", "json"]).stdout;
    let shell = |line: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", line]).env("WEIR", env!("CARGO_BIN_EXE_weir")).env("FILE", file);
        let output = command.current_dir(folder.path()).stdin(Stdio::null()).output().expect("bash runs");
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        output.stdout
    };
    let run = |to: &str| format!("$WEIR flows -r $FILE --format json -o {to}");
    for to in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        assert!(shell(&format!("{} | cat", run(to))) == expected, "{to} is a pipe");
        shell(&format!("{} > direct.json", run(to)));
        assert!(fs::read(folder.path().join("direct.json")).expect("a file") == expected, "{to} is a file");
    }
    shell(&format!("{} 5> fifth.json", run("/dev/fd/5")));
    assert!(fs::read(folder.path().join("fifth.json")).expect("a file") == expected);
    assert!(shell(&run("/dev/null")).is_empty());
    shell("mkfifo fifo");
    assert!(shell(&format!("{} & cat fifo; wait", run("fifo"))) == expected);
    assert!(shell(&format!("{} 2>&1", run(">(cat; echo)"))).starts_with(&expected), "a process substitution");
    assert!(fs::metadata(&fifo).is_ok());
}
