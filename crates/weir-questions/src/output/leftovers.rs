//! Outputs that a killed run did not complete: `conn.log.PID.part` beside the output `conn.log`.
//!
//! The next run that writes the output completes them and gives them a name of their own, with the time of
//! their last row before the ending, as files of `--rotate` have: `conn.2026-11-25-14-00-00.log`. Such a file
//! has whole rows, but not those that were still on their way.

use crate::form::Form;
use crate::output::part::Part;
use crate::output::rotation::names_at;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use weir::io::{Compression, Format, complete_parquet};
use weir::packet::Timestamp;
use weir_guard::files;

/// Bytes at the end of a text that may be a part of a row.
const ROW_BYTES_MAX: u64 = 64 << 20;

/// Completes what killed runs left of this output, and says so.
pub fn complete(output: &Path, form: Form) {
    for path in of(output) {
        match complete_one(&path, output, form) {
            Ok(None) => {}
            Ok(Some(name)) => {
                note!(
                    "weir: a run that was killed had not completed {}: the file has what it wrote",
                    name.display()
                );
            }
            Err(error) => {
                note!("weir: {} is of a run that was killed, and stays as it is: {error}", path.display());
            }
        }
    }
}

/// The temporary files of an output.
fn of(output: &Path) -> Vec<PathBuf> {
    let directory = output.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = output.file_name().and_then(|name| name.to_str()) else { return vec![] };
    let is_part = |other: &str| {
        let middle = other.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".part"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        middle.is_some_and(|middle| middle.split('-').all(is_number))
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let parts = entries.filter(|entry| {
        entry.file_type().is_ok_and(|about| about.is_file())
            && entry.file_name().to_str().is_some_and(is_part)
    });
    parts.map(|entry| entry.path()).collect()
}

/// The name of the completed file; `None` if another process still writes it, or it was empty.
fn complete_one(path: &Path, output: &Path, form: Form) -> io::Result<Option<PathBuf>> {
    let opened = match files::open_own(path) {
        // Another process has given the file its name.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let Some(mut part) = Part::left(opened, path, output) else { return Ok(None) };
    let file = part.file();
    // Names have whole seconds.
    let last = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match form {
        Form::Rows(Format::Parquet) if complete_parquet(file)? == 0 => file.set_len(0)?,
        Form::Rows(Format::Parquet) => {}
        // A compressed file ends with a whole frame.
        _ if Compression::of_path(output).is_some() => {}
        Form::Rows(format) if !format.is_columnar() => cut_to_whole_lines(file)?,
        // Readers of the other formats stop before a part of a packet or of a batch.
        _ => {}
    }
    if file.metadata()?.len() == 0 {
        return fs::remove_file(path).map(|()| None);
    }
    let last = Timestamp(i64::try_from(last).unwrap_or_default().saturating_mul(1_000_000_000));
    part.publish_as_first_of(names_at(output, last)).map(Some)
}

/// Removes the part of a row at the end of a text.
fn cut_to_whole_lines(file: &mut File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(ROW_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut end = vec![];
    file.read_to_end(&mut end)?;
    let whole = end.iter().rposition(|byte| *byte == b'\n').map_or(from, |at| from + at as u64 + 1);
    if whole < length { file.set_len(whole) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_killed_runs_get_names_and_others_stay() {
        let place = tempfile::tempdir().expect("a directory");
        let at = |name: &str| place.path().join(name);
        let output = at("conn.log");
        for (name, text) in [
            ("conn.log.17.part", "a\nb\nhalf"),
            ("conn.log.17-2.part", ""),
            ("conn.log.x.part", "not ours"),
            ("dns.log.17.part", "of another output"),
        ] {
            fs::write(at(name), text).expect("room");
        }
        let (busy, part) = Part::create(&output).expect("a file");
        complete(&output, Form::Rows(Format::Zeek));
        let mut names: Vec<String> = fs::read_dir(place.path())
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        names.sort();
        let completed = names.remove(0);
        assert!(completed.starts_with("conn.2") && completed.ends_with(".log"), "{completed}");
        assert_eq!(fs::read_to_string(at(&completed)).expect("text"), "a\nb\n");
        let own = format!("conn.log.{}.part", std::process::id());
        assert_eq!(
            names,
            [&own, "conn.log.x.part", "dns.log.17.part"],
            "the one that is being written stays"
        );
        drop((busy, part));
    }
}
