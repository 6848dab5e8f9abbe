//! Outputs that are divided into files by size and by time.

use crate::cli::formats::{arrow_rows, files, parquet_rows};
use crate::cli::{answer, count, example, scratch, text, weir};
use std::fs;
use std::path::{Path, PathBuf};

/// An empty directory.
fn directory(name: &str) -> PathBuf {
    let path = scratch(name);
    fs::create_dir_all(&path).expect("a scratch folder");
    path
}

fn capture() -> String {
    example().to_str().expect("a path of text").to_string()
}

/// Runs a question several times over the shipped capture, with these options.
fn ask(question: &str, times: usize, output: &Path, options: &[&str]) {
    let (file, option) =
        (capture(), if output.ends_with("x.pcapng") || output.ends_with("x.pcap") { "-w" } else { "-o" });
    let mut args = vec![question];
    args.extend(options);
    args.extend([option, output.to_str().unwrap(), "-r"]);
    args.extend(vec![file.as_str(); times]);
    answer(&args, 0);
}

/// The rows of a text format, without header and trailer.
fn rows(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "{} ends with a whole row", path.display());
    let is_csv = path.extension().is_some_and(|ending| ending == "csv");
    let lines = text.lines().filter(|line| !line.starts_with('#')).skip(usize::from(is_csv));
    lines.map(str::to_string).collect()
}

#[test]
fn the_files_of_a_text_format_have_all_rows_once_and_in_order() {
    for ending in ["json", "csv", "log"] {
        for rotate in ["64k", "2s", "1s,64k"] {
            let dir = directory(&format!("rotated-{ending}-{rotate}"));
            let whole = scratch(&format!("whole-{rotate}.{ending}"));
            ask("packets", 3, &whole, &[]);
            ask("packets", 3, &dir.join("x").with_extension(ending), &["--rotate", rotate]);
            let parts = files(&dir);
            assert!(parts.len() > 2, "{rotate}: {parts:?}");
            let joined: Vec<String> = parts.iter().flat_map(|path| rows(path)).collect();
            assert!(joined == rows(&whole), "{ending} {rotate}: {} rows", joined.len());
            if ending == "log" {
                let is_complete =
                    |path: &PathBuf| fs::read_to_string(path).unwrap().starts_with("#separator");
                assert!(parts.iter().all(is_complete), "{parts:?}");
            }
        }
    }
}

#[test]
fn the_files_of_other_formats_have_all_rows() {
    for (name, number) in [
        ("x.parquet", &(|path: &Path| parquet_rows(path).0) as &dyn Fn(&Path) -> usize),
        ("x.arrow", &arrow_rows),
        ("x.pcap", &packets_of),
        ("x.pcapng", &packets_of),
    ] {
        let total = 4 * count("frame") as usize;
        for rotate in ["300k", "2s", "1d"] {
            let dir = directory(&format!("rotated-{name}-{rotate}"));
            ask("packets", 4, &dir.join(name), &["--rotate", rotate]);
            let parts = files(&dir);
            let numbers: Vec<usize> = parts.iter().map(|path| number(path)).collect();
            assert_eq!(numbers.iter().sum::<usize>(), total, "{name} {rotate}: {parts:?} {numbers:?}");
            assert!(numbers.iter().all(|rows| *rows > 0), "{name} {rotate}: {parts:?} {numbers:?}");
            assert_eq!(
                parts.len() == 1,
                rotate == "1d" || (name == "x.parquet" && rotate == "300k"),
                "{parts:?}"
            );
        }
    }
}

fn packets_of(path: &Path) -> usize {
    answer(&["packets", "-r", path.to_str().unwrap(), "--count"], 0).trim().parse().expect("a number")
}

#[test]
fn each_file_begins_at_its_period_and_is_named_after_it() {
    let dir = directory("rotated-names");
    ask("packets", 1, &dir.join("x.json"), &["--rotate", "2s"]);
    let mut before = 0;
    for path in files(&dir) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let (_, seconds) = name.strip_suffix(".json").and_then(|name| name.rsplit_once('-')).expect(name);
        let seconds: f64 = seconds.parse().expect("a number");
        for row in rows(&path) {
            let (_, rest) = row.split_once("\"ts\":").expect("every row has a time");
            let time: f64 = rest.split(',').next().and_then(|time| time.parse().ok()).expect("a number");
            assert!((seconds..seconds + 2.0).contains(&(time % 60.0)), "{name}: {row}");
        }
        before += 1;
    }
    assert!(before > 2);
    // The same capture gives the same names, and nothing is replaced.
    ask("packets", 1, &dir.join("x.json"), &["--rotate", "2s"]);
    let names: Vec<_> =
        files(&dir).iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_string()).collect();
    assert_eq!(names.len(), 2 * before);
    assert_eq!(names.iter().filter(|name| name.ends_with("_001")).count(), before, "{names:?}");
}

#[test]
fn the_oldest_files_are_deleted_and_files_of_others_are_not() {
    let dir = directory("rotated-keep");
    let others = ["x.json", "x.old.json", "y.2001-01-01-00-00-00.json", "x.2001-01-01-00-00-00.csv"];
    others.iter().for_each(|name| fs::write(dir.join(name), "not ours\n").unwrap());
    fs::write(dir.join("x.2001-01-01-00-00-00.json"), "of an earlier run\n").unwrap();
    let whole = scratch("rotated-keep.json");
    ask("packets", 1, &whole, &[]);
    let all_rows = rows(&whole);
    // Many files of one period, too.
    for rotate in ["1s", "1d,32k"] {
        ask("packets", 1, &dir.join("x.json"), &["--rotate", rotate, "--keep", "3"]);
        let all = files(&dir);
        assert_eq!(all.len(), 3 + others.len(), "{rotate}: {all:?}");
        assert!(others.iter().all(|name| dir.join(name).exists()), "{rotate}: {all:?}");
        let kept = all.iter().filter(|path| !others.iter().any(|name| path.ends_with(name)));
        let kept: Vec<_> = kept.collect();
        let joined: Vec<String> = kept.iter().flat_map(|path| rows(path)).collect();
        let is_newest = !joined.is_empty() && all_rows.ends_with(&joined);
        assert!(is_newest, "{rotate}: the newest rows are kept: {kept:?}");
        kept.iter().for_each(|path| fs::remove_file(path).unwrap());
    }
}

#[test]
fn zeeks_logs_and_questions_of_a_file_are_divided_too() {
    let dir = directory("rotated-zeek");
    answer(&["zeek", "-r", &capture(), "-d", dir.to_str().unwrap(), "--rotate", "10s"], 0);
    let whole = directory("rotated-zeek-whole");
    answer(&["zeek", "-r", &capture(), "-d", whole.to_str().unwrap()], 0);
    for log in ["conn", "dns", "http"] {
        let parts = files(&dir).into_iter();
        let parts: Vec<_> = parts
            .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{log}.")))
            .collect();
        let joined: Vec<String> = parts.iter().flat_map(|path| rows(path)).collect();
        assert!(joined == rows(&whole.join(format!("{log}.log"))), "{log}: {parts:?}");
        assert!(
            parts.iter().all(|path| fs::read_to_string(path).unwrap().contains(&format!("#path\t{log}\n")))
        );
    }
    let (file, dir) = (scratch("rotated.toml"), directory("rotated-run"));
    let output = dir.join("dns.json");
    let text = format!(
        "[[question]]\nname = \"d\"\nask = \"dns\"\noutput = {output:?}\nrotate = \"1s\"\nkeep = 2\n"
    );
    fs::write(&file, text).unwrap();
    answer(&["run", file.to_str().unwrap(), "-r", &capture()], 0);
    assert_eq!(files(&dir).len(), 2);
}

#[test]
fn an_output_that_cannot_be_divided_is_refused() {
    let file = capture();
    let refused = |args: &[&str]| {
        let output = weir(&[args, &["-r", &file, "--rotate", "1h"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        text(&output.stderr)
    };
    assert!(refused(&["flows"]).contains("give -o FILE"));
    let output = scratch("rotated-refused");
    let output = output.to_str().unwrap();
    assert!(refused(&["flows", "-o", output, "--columns", "uid"]).contains("column `ts`"));
    assert!(refused(&["flows", "-o", output, "--count"]).contains("one number"));
    let unit = weir(&["flows", "-r", &file, "-o", output, "--rotate", "10m"]);
    assert!(text(&unit.stderr).contains("10min"), "{unit:?}");
    assert!(!Path::new(output).exists());
}
