//! Full disks: small file systems in memory, in mount namespaces that the tests make. The tests need root;
//! without, they are skipped with a message.

use crate::cli::formats::parquet_rows;
use crate::cli::{answer, count, example, scratch, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs `weir` where `full/` is a disk of this size, then copies the files of the disk to `copies/`. `None`:
/// skipped.
fn on_small_disk(name: &str, size: &str, args: &[&str]) -> Option<(Output, PathBuf)> {
    let dir = scratch(&format!("full-{name}"));
    ["full", "copies"]
        .iter()
        .for_each(|inner| fs::create_dir_all(dir.join(inner)).expect("a scratch folder"));
    let script = format!(
        "mount -t tmpfs -o size={size} tmpfs full || exit 77; \"$@\"; status=$?; cp -a full/. copies/; exit $status"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_weir")]).args(args);
    let output = command.current_dir(&dir).output();
    let output = output.ok().filter(|output| {
        output.status.code() != Some(77) && !text(&output.stderr).contains("unshare failed")
    });
    if output.is_none() {
        eprintln!("skipped: {name} needs root and unshare (util-linux), to mount a small file system");
    }
    Some((output?, dir.join("copies")))
}

fn capture() -> String {
    fs::canonicalize(example()).expect("the shipped capture").to_str().expect("text").to_string()
}

fn rows_are_whole(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap();
    text.ends_with('\n') && text.lines().count() > 100
}

#[test]
fn what_was_written_is_readable_and_other_outputs_continue() {
    let file = capture();
    let whole = scratch("full-whole.json");
    for (name, is_readable) in [
        ("x.json", &rows_are_whole as &dyn Fn(&Path) -> bool),
        ("x.csv", &rows_are_whole),
        ("x.log", &rows_are_whole),
        ("x.arrow", &|path| fs::metadata(path).unwrap().len() == 0 || arrow_batches(path) > 0),
        ("x.parquet", &|path| parquet_rows(path).0 < 8 * count("frame") as usize),
        ("x.pcap", &|path| packets(path) > 500),
        ("x.pcapng", &|path| packets(path) > 500),
    ] {
        let questions = scratch(&format!("full-{name}.toml"));
        let stated = format!(
            "[[question]]\nname = \"full\"\nask = \"packets\"\noutput = \"full/{name}\"\n\
             [[question]]\nname = \"whole\"\nask = \"packets\"\noutput = {whole:?}\n"
        );
        fs::write(&questions, stated).unwrap();
        let size = if name == "x.parquet" { "64k" } else { "900k" };
        let mut args = vec!["run", questions.to_str().unwrap(), "-r"];
        args.extend(vec![file.as_str(); 8]);
        let Some((output, copies)) = on_small_disk(name, size, &args) else { return };
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {message}");
        assert_eq!(message.lines().count(), 1, "{name}: {message}");
        assert!(message.contains(&format!("question `full`: full/{name}: No space left")), "{message}");
        assert!(message.contains("--rotate and --keep"), "{message}");
        let written = fs::read_dir(&copies).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        assert!(written.len() == 1 && is_readable(&written[0]), "{name}: {written:?}");
        assert_eq!(fs::read_to_string(&whole).unwrap().lines().count() as u64, 8 * count("frame"), "{name}");
    }
}

/// Number of batches; the end of the stream is missing.
fn arrow_batches(path: &Path) -> usize {
    let reader = arrow_ipc::reader::StreamReader::try_new(fs::File::open(path).unwrap(), None).unwrap();
    reader.take_while(Result::is_ok).count()
}

fn packets(path: &Path) -> u64 {
    answer(&["packets", "-r", path.to_str().unwrap(), "--count"], 0).trim().parse().expect("a number")
}

#[test]
fn old_files_make_room_for_new_ones() {
    let file = capture();
    let args = [
        "packets",
        "-r",
        &file,
        &file,
        &file,
        &file,
        "-w",
        "full/x.pcapng",
        "--rotate",
        "256k",
        "--keep",
        "2",
    ];
    let Some((output, copies)) = on_small_disk("keep", "2m", &args) else { return };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let names: Vec<_> = fs::read_dir(&copies).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(names.len() == 2 && names.iter().all(|path| packets(path) > 0), "{names:?}");
}

/// Rows that exceed the memory wait in temporary files: the message names their place, and no output.
#[test]
fn sorting_without_room_for_temporary_files_says_which_disk_is_full() {
    let file = capture();
    let mut args =
        vec!["packets", "--sort", "length", "--format", "json", "--memory", "4M", "-o", "/dev/null", "-r"];
    args.extend(vec![file.as_str(); 40]);
    let weir = env!("CARGO_BIN_EXE_weir");
    let script = "mount -t tmpfs -o size=64k tmpfs /mnt || exit 77; TMPDIR=/mnt exec \"$@\"";
    let mut command = Command::new("unshare");
    let output = command.args(["--mount", "sh", "-c", script, "sh", weir]).args(&args).output();
    let output = output.ok().filter(|output| {
        output.status.code() != Some(77) && !text(&output.stderr).contains("unshare failed")
    });
    let Some(output) = output else {
        return eprintln!("skipped: it needs root and unshare (util-linux), to mount a small file system");
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("/mnt: No space left") && said.contains("TMPDIR=DIR"), "{said}");
    assert!(!said.contains("cannot write the output"), "{said}");
}

/// A terminal that is gone: each write fails with EIO. Python makes it.
#[test]
fn an_output_with_an_error_of_the_device_is_named() {
    const GONE: &str = "
import os, subprocess, sys, tty
ours, theirs = os.openpty()
tty.setraw(theirs)
weir = subprocess.Popen(sys.argv[1:], stdout=theirs, stderr=subprocess.PIPE)
os.close(theirs)
os.read(ours, 10)
os.close(ours)
sys.stderr.buffer.write(weir.communicate()[1])
sys.exit(weir.returncode)
";
    let file = capture();
    for words in ["flows", "packets", "sessions", "streams", "records", "packets --hex"] {
        for format in ["json", "csv"] {
            if words.contains("--hex") && format != "json" {
                continue;
            }
            let mut command = Command::new("python3");
            command.args(["-c", GONE, env!("CARGO_BIN_EXE_weir")]).args(words.split(' '));
            let output = command.args([file.as_str(), "--format", format]).output().expect("python3");
            let said = text(&output.stderr);
            assert!(said.contains("cannot write the output: Input/output error"), "{words} {format}: {said}");
            assert_eq!(output.status.code(), Some(2), "{words} {format}");
        }
    }
}
