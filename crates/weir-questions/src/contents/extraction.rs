//! `--extract DIR`: the contents of files in a directory, each content once.
//!
//! A content is written to a temporary file while it arrives. The row of its file decides: if the row is
//! shown, the temporary file gets its final name, unless the same content (by SHA-256) is already there;
//! otherwise it is removed. Rows come in one order for any number of workers, and so do the names.

use crate::contents::stream_files::{Files, StreamFile};
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weir::sessions::files::File;
use weir::sessions::{ContentStore, ContentWriter};

/// Maximum length of a file's name in the directory, bytes.
const NAME_BYTES_MAX: usize = 200;
/// Maximum length of an extension that stays when a name is cut, bytes, with its dot.
const EXTENSION_BYTES_MAX: usize = 16;
/// Bytes of a remembered content: the table while it grows, and the longest name.
const ENTRY_BYTES: usize = 3 * size_of::<([u8; 32], String)>() + NAME_BYTES_MAX;
/// Hexadecimal digits of a content's SHA-256 in its name: nobody can make two contents of one name.
const DIGEST_DIGITS: usize = 32;

/// The extraction of a run.
#[derive(Debug)]
pub struct Extraction {
    files: Arc<Files>,
    /// Number of temporary files so far.
    count: AtomicU64,
    known: Mutex<Known>,
    /// Maximum number of contents remembered, to write each once; at the limit, all are forgotten.
    known_max: usize,
}

/// The contents in the directory.
#[derive(Debug, Default)]
struct Known {
    /// Names by SHA-256.
    names: HashMap<[u8; 32], String>,
    /// How often the limit was reached and all contents were forgotten.
    forgotten: u64,
}

impl Extraction {
    /// An extraction into these files. What is remembered of them takes about `memory_max` bytes.
    pub fn new(files: Files, memory_max: usize) -> Self {
        let known_max = memory_max / ENTRY_BYTES;
        Self { files: Arc::new(files), count: AtomicU64::new(0), known: Mutex::default(), known_max }
    }

    /// The files that are written.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Keeps the content of a file whose row is shown, and returns its path. `fuid` names an incomplete
    /// content. `None`: the file has no content.
    pub fn keep(&self, file: &File, fuid: &str) -> Option<String> {
        let (content, facts) = (file.content.as_ref()?, file.facts()?);
        let path = |name: &str| self.files.directory().join(name).to_string_lossy().into_owned();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = facts.sha256.and_then(|digest| known.names.get(&digest)) {
            return Some(path(name));
        }
        let digest = facts.sha256.map(|digest| digest.iter().map(|byte| format!("{byte:02x}")).collect());
        let prefix = match (digest, file.ranges, file.time) {
            (Some::<String>(digits), ..) => digits[..DIGEST_DIGITS].to_string(),
            // The ranges of a download share the identifier.
            (None, Some(_), Some(time)) => format!("{fuid}-{}", time.0),
            (None, ..) => fuid.to_string(),
        };
        let given = file.name.as_deref().or(file.other_name.as_deref()).unwrap_or_default();
        let name = safe_name(&prefix, given, file.media_type);
        let mut is_there = true;
        content.with_writer(|writer| {
            if let Some(writer) = writer.downcast_mut::<ExtractedFile>() {
                is_there = writer.file.keep(&name);
                writer.is_kept = is_there;
            }
        });
        if !is_there {
            return None;
        }
        let shown = path(&name);
        if let Some(digest) = facts.sha256 {
            if known.names.len() >= self.known_max {
                known.names.clear();
                known.forgotten += 1;
            }
            known.names.insert(digest, name);
        }
        Some(shown)
    }

    /// Reports what the bounds cut.
    pub fn report(&self) {
        self.files.budget().report();
        let forgotten = self.known.lock().unwrap_or_else(PoisonError::into_inner).forgotten;
        if forgotten > 0 {
            note!(
                "weir: memory was short (--memory): {forgotten} times, extracted contents were forgotten, and equal ones may \
                 be written again"
            );
        }
    }
}

/// Gives contents to an extraction.
#[derive(Debug)]
pub struct Store(pub Arc<Extraction>);

impl ContentStore for Store {
    fn begin(&self) -> Box<dyn ContentWriter> {
        let number = self.0.count.fetch_add(1, Ordering::Relaxed);
        Box::new(ExtractedFile { file: self.0.files.temporary(number), is_kept: false })
    }
}

/// The file of a content. It is removed unless it is kept.
#[derive(Debug)]
struct ExtractedFile {
    file: StreamFile,
    is_kept: bool,
}

impl ContentWriter for ExtractedFile {
    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> usize {
        self.file.write(offset_bytes, bytes)
    }

    fn end(&mut self) {
        self.file.flush();
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.file.held_bytes()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Drop for ExtractedFile {
    fn drop(&mut self) {
        if !self.is_kept {
            self.file.remove();
        }
    }
}

/// The name of a file in the directory: `prefix`, the name that the sender gave, and an extension.
///
/// Of the sender's name only letters, digits and a few signs stay: no separators, control characters, or
/// characters that change the direction of text. The prefix prevents names that begin with a dot or a dash,
/// and the reserved names of Windows (`CON`).
fn safe_name(prefix: &str, given: &str, media_type: Option<&str>) -> String {
    let is_safe = |letter: char| letter.is_alphanumeric() || "._-+=@()[],~".contains(letter);
    let safe: String = given.chars().map(|letter| if is_safe(letter) { letter } else { '_' }).collect();
    let safe = safe.trim_matches(['.', '-', '_']);
    let (stem, extension) = match safe.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && extension.len() < EXTENSION_BYTES_MAX => {
            (stem, format!(".{extension}"))
        }
        _ => (safe, media_type.and_then(extension_of).map(|of| format!(".{of}")).unwrap_or_default()),
    };
    let room = NAME_BYTES_MAX.saturating_sub(prefix.len() + 1 + extension.len());
    let stem = &stem[..stem.floor_char_boundary(room)];
    let dash = if stem.is_empty() { "" } else { "-" };
    format!("{prefix}{dash}{stem}{extension}")
}

/// The usual extension of a media type.
fn extension_of(media_type: &str) -> Option<&'static str> {
    Some(match media_type {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/x-icon" => "ico",
        "image/tiff" => "tiff",
        "image/x-ms-bmp" => "bmp",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "application/x-gzip" => "gz",
        "application/x-bzip2" => "bz2",
        "application/x-xz" => "xz",
        "application/x-7z-compressed" => "7z",
        "application/x-rar" => "rar",
        "application/zstd" => "zst",
        "application/vnd.ms-cab-compressed" => "cab",
        "application/x-java-applet" => "class",
        "application/msword" => "doc",
        "application/ogg" => "ogg",
        "application/x-shockwave-flash" => "swf",
        "application/postscript" => "ps",
        "application/x-x509-ca-cert" => "pem",
        "application/xml" => "xml",
        "audio/x-wav" => "wav",
        "audio/mpeg" => "mp3",
        "video/mp4" => "mp4",
        "video/webm" => "webm",
        "video/x-flv" => "flv",
        "text/html" => "html",
        "text/json" => "json",
        "text/plain" => "txt",
        "text/rtf" => "rtf",
        "text/x-php" => "php",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_whatever_the_sender_gave() {
        for (given, media_type, name) in [
            ("report.pdf", Some("application/pdf"), "0a-report.pdf"),
            ("", Some("text/html"), "0a.html"),
            ("", None, "0a"),
            ("../../etc/passwd", None, "0a-etc_passwd"),
            ("..", Some("text/plain"), "0a.txt"),
            ("-rf", None, "0a-rf"),
            (".bashrc", None, "0a-bashrc"),
            ("a\0b\nc\x1b[2J.txt", None, "0a-a_b_c_[2J.txt"),
            ("\u{202e}gpj.exe", None, "0a-gpj.exe"),
            ("invoice\u{202e}cod.exe", None, "0a-invoice_cod.exe"),
            ("C:\\dir\\x.exe", None, "0a-C__dir_x.exe"),
            ("gr\u{fc}n \u{5d0}.txt", None, "0a-gr\u{fc}n_\u{5d0}.txt"),
            ("$(reboot);`id`|&", None, "0a-(reboot)__id"),
            ("CON", Some("text/plain"), "0a-CON.txt"),
        ] {
            assert_eq!(safe_name("0a", given, media_type), name, "{given:?}");
        }
        for given in ["\u{fc}".repeat(255) + ".tar", "x".repeat(300), ".".repeat(300), "a.".repeat(150)] {
            let name = safe_name(&"0".repeat(32), &given, Some("text/plain"));
            assert!(name.len() <= NAME_BYTES_MAX && name.starts_with("000"), "{name}");
            assert!(!name.contains('/') && !name.chars().any(char::is_control), "{name}");
        }
        assert!(safe_name("0a", &("\u{fc}".repeat(255) + ".tar"), None).ends_with("\u{fc}.tar"));
    }
}
