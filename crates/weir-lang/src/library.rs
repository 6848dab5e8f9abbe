//! Protocols and stacks by name: the built-in ones and those that the user adds.
//!
//! The built-in ones are the files of `protocols/`, which `build.rs` lists: a new layer only needs a new file
//! there.

use crate::check::{self, CheckedProtocol};
use crate::diag::{Diagnostic, Diagnostics, Sources};
use crate::model::{Protocol, Stack};
use crate::syntax::{self, ast};
use rustc_hash::FxHashSet;
use std::path::{Component, Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// Maximum size of one text, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 16 << 20;
/// Maximum number of files that one text imports, directly and indirectly.
pub(crate) const FILES_MAX: usize = 256;
/// Maximum number of reported mistakes; nobody reads more.
const DIAGNOSTICS_MAX: usize = 200;

/// All known protocols and stacks.
#[derive(Debug, Clone, Default)]
pub struct Library {
    protocols: Vec<CheckedProtocol>,
    stacks: Vec<Stack>,
    sources: Sources,
    /// The parsed texts, without replaced items.
    files: Vec<ast::File>,
    /// The number of files before the last addition.
    files_before: usize,
    additions: usize,
}

impl Library {
    /// The built-in protocols and stacks. Parses and checks their texts in a fraction of a millisecond; keep
    /// the result.
    ///
    /// # Panics
    /// Never: a test checks these texts.
    pub fn builtin() -> Library {
        match load(BUILTIN) {
            Ok((library, _)) => library,
            Err(wrong) => panic!("the built-in protocols are wrong:\n{wrong}"),
        }
    }

    /// The built-in texts: file name and text.
    pub fn builtin_texts() -> &'static [(&'static str, &'static str)] {
        BUILTIN
    }

    /// Every protocol, in the order of parsing.
    pub fn protocols(&self) -> impl Iterator<Item = &Protocol> {
        self.protocols.iter().map(|one| &*one.protocol)
    }

    /// The protocol with this name.
    pub fn protocol(&self, name: &str) -> Option<&Protocol> {
        self.protocols().find(|protocol| protocol.name == name)
    }

    /// Every stack. A stack follows the one that it extends.
    pub fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    /// The stack with this name.
    pub fn stack(&self, name: &str) -> Option<&Stack> {
        self.stacks.iter().find(|stack| stack.name == name)
    }

    /// The stack with this name, followed by those that it extends, nearest first.
    pub fn stack_and_bases(&self, name: &str) -> Vec<&str> {
        let trees = || self.files.iter().flat_map(|file| &file.stacks);
        let mut names = vec![];
        let mut next = trees().find(|tree| tree.name.text == name);
        // The checker has rejected stacks that extend themselves.
        while let Some(tree) = next {
            names.push(tree.name.text.as_str());
            next = tree.extends.as_ref().and_then(|base| trees().find(|tree| tree.name.text == base.text));
        }
        names
    }

    /// The texts that the spans of protocols and stacks refer to.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Names of the protocols that the last addition declares or extends, in the order of the text, without
    /// duplicates.
    pub fn latest_protocols(&self) -> impl Iterator<Item = &str> {
        let declared = self.latest().flat_map(|file| &file.protocols).map(|tree| tree.name.text.as_str());
        let extended = self.latest().flat_map(|file| &file.extensions).map(|tree| tree.of.text.as_str());
        let mut seen = FxHashSet::default();
        declared.chain(extended).filter(move |name| seen.insert(*name))
    }

    /// Names of the stacks that the last addition declares, in the order of the text.
    pub fn latest_stacks(&self) -> impl Iterator<Item = &str> {
        self.latest().flat_map(|file| &file.stacks).map(|tree| tree.name.text.as_str())
    }

    fn latest(&self) -> impl Iterator<Item = &ast::File> {
        self.files[self.files_before..].iter()
    }

    /// Adds a text. Its protocols and stacks may refer to existing ones, and replace existing ones of the
    /// same name, also in the stacks that use them. Returns the warnings.
    ///
    /// # Errors
    /// Every mistake found; the library is then unchanged. Mistakes in earlier texts are included
    /// only if this text causes them and has no mistakes of its own.
    pub fn extend_with(&mut self, file_name: &str, text: &str) -> Result<Diagnostics, Diagnostics> {
        self.extend_with_all(&[(file_name, text)])
    }

    /// Adds several texts, which may refer to each other in any order. Returns the warnings.
    ///
    /// # Errors
    /// As for [`extend_with`](Self::extend_with).
    pub fn extend_with_all(&mut self, texts: &[(&str, &str)]) -> Result<Diagnostics, Diagnostics> {
        self.extend(texts, &mut |_| Err(std::io::Error::other("this text is no file")))
    }

    /// Adds a text and its imports; `read` returns the text of a file. File names are relative to the
    /// importing file. Each file is read once, so files may import each other.
    ///
    /// # Errors
    /// As for [`extend_with`](Self::extend_with), and for a file that cannot be read.
    pub fn extend_with_imports(
        &mut self,
        file_name: &str,
        text: &str,
        read: &mut dyn FnMut(&Path) -> std::io::Result<String>,
    ) -> Result<Diagnostics, Diagnostics> {
        self.extend(&[(file_name, text)], read)
    }

    fn extend(
        &mut self,
        texts: &[(&str, &str)],
        read: &mut dyn FnMut(&Path) -> std::io::Result<String>,
    ) -> Result<Diagnostics, Diagnostics> {
        let mut sources = self.sources.clone();
        let mut list = Vec::new();
        let mut added: Vec<ast::File> = Vec::new();
        let mut first = None;
        let mut open: Vec<(String, String)> =
            texts.iter().rev().map(|&(name, text)| (name.to_string(), text.to_string())).collect();
        let mut known: Vec<PathBuf> = texts.iter().map(|(name, _)| plain(Path::new(name))).collect();
        while let Some((name, text)) = open.pop() {
            if let Some(too_long) = too_long(&name, &text) {
                list.push(too_long);
                continue;
            }
            let source = sources.add(name.as_str(), text.as_str());
            first.get_or_insert(source);
            let mut file = syntax::parse(&text, source, &mut list);
            file.addition = self.additions;
            for (import, span) in &file.imports {
                let path = plain(&Path::new(&name).parent().unwrap_or(Path::new("")).join(import));
                if known.contains(&path) {
                    continue;
                }
                if known.len() >= FILES_MAX {
                    let message = format!("more than {FILES_MAX} files are imported");
                    list.push(Diagnostic::error(check::codes::TOO_MUCH, message).at(*span));
                    break;
                }
                known.push(path.clone());
                match read(&path) {
                    Ok(text) => open.push((path.display().to_string(), text)),
                    Err(error) => {
                        let message = format!("`{}` can't be read: {error}", path.display());
                        list.push(
                            Diagnostic::error(check::codes::IMPORT, message)
                                .at(*span)
                                .help("imports are relative to this file"),
                        );
                    }
                }
            }
            added.push(file);
        }
        // Imports come first, so that the last stack belongs to the text itself.
        let own = texts.len().min(added.len());
        added.rotate_left(own);
        let mut files = self.files.clone();
        let files_before = files.len();
        files.iter_mut().for_each(|file| replace(file, &added));
        files.append(&mut added);
        let (mut protocols, mut stacks) = (Vec::new(), Vec::new());
        check::check(&files, &mut protocols, &mut stacks, &mut list);
        check::drop_followers(&mut list, &files, &sources);
        let list = relevant_diagnostics(list, first.unwrap_or(0));
        let has_errors = list.iter().any(Diagnostic::is_error);
        let diagnostics = Diagnostics { sources: sources.clone(), list };
        if has_errors {
            return Err(diagnostics);
        }
        let additions = self.additions + 1;
        *self = Library { protocols, stacks, sources, files, files_before, additions };
        Ok(diagnostics)
    }
}

/// The text of a file. Of a file that is too long, only enough bytes to detect this are read.
///
/// # Errors
/// If the file cannot be read, is not UTF-8, or is not a regular file: reading a pipe that a text
/// names could block.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    text_of(bytes)
}

/// Converts bytes to text.
///
/// # Errors
/// If the bytes are not UTF-8; the error gives the offset of the first invalid byte.
pub fn text_of(bytes: Vec<u8>) -> std::io::Result<String> {
    String::from_utf8(bytes).map_err(|wrong| {
        let at = wrong.utf8_error().valid_up_to();
        let message = format!("no valid UTF-8: the byte at offset {at}, {:#04x}", wrong.as_bytes()[at]);
        std::io::Error::new(std::io::ErrorKind::InvalidData, message)
    })
}

/// The path without `.`, and without `..` where that does not change its meaning.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// The diagnostic for a text that exceeds the maximum size.
pub(crate) fn too_long(name: &str, text: &str) -> Option<Diagnostic> {
    let message = || format!("{name} has more than {TEXT_BYTES_MAX} bytes");
    (text.len() > TEXT_BYTES_MAX).then(|| Diagnostic::error(check::codes::TOO_MUCH, message()))
}

/// Removes from a file the items that the added files declare again, and the extensions of these items.
fn replace(file: &mut ast::File, added: &[ast::File]) {
    let again =
        |name: &str, declared: fn(&ast::File, &str) -> bool| added.iter().any(|file| declared(file, name));
    let has_protocol =
        |file: &ast::File, name: &str| file.protocols.iter().any(|tree| tree.name.text == name);
    file.protocols.retain(|tree| !again(&tree.name.text, has_protocol));
    file.extensions.retain(|tree| {
        let same = |one: &ast::Extension| one.of.text == tree.of.text && one.name.text == tree.name.text;
        !again(&tree.of.text, has_protocol) && !added.iter().any(|file| file.extensions.iter().any(same))
    });
    file.stacks.retain(|tree| {
        !again(&tree.name.text, |file, name| file.stacks.iter().any(|tree| tree.name.text == name))
    });
}

/// Selects the diagnostics about the texts from `first` on; about other texts only if the new texts cause
/// them and have no mistakes of their own. The list is sorted by place and truncated to a readable number.
pub(crate) fn relevant_diagnostics(mut list: Vec<Diagnostic>, first: u16) -> Vec<Diagnostic> {
    let is_own =
        |one: &Diagnostic| one.spans.is_empty() || one.spans.iter().any(|(span, _)| span.source >= first);
    let has_errors = list.iter().any(Diagnostic::is_error);
    if !has_errors || list.iter().any(|one| one.is_error() && is_own(one)) {
        list.retain(is_own);
    }
    if has_errors && list.len() > DIAGNOSTICS_MAX {
        // Warnings must not displace the errors that prevent the run.
        list.retain(Diagnostic::is_error);
    }
    list.truncate(DIAGNOSTICS_MAX);
    list.sort_by_key(|diagnostic| diagnostic.spans.first().map(|(span, _)| (span.source, span.start)));
    list
}

/// A library of only these texts (name and text), and its warnings.
///
/// # Errors
/// Every mistake found.
pub fn load(texts: &[(&str, &str)]) -> Result<(Library, Diagnostics), Diagnostics> {
    let mut library = Library::default();
    let warnings = library.extend_with_all(texts)?;
    Ok((library, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_with_weir_checks_without_a_warning() {
        match load(BUILTIN) {
            Ok((library, warnings)) => {
                assert!(warnings.list.is_empty(), "{warnings}");
                assert!(library.stack("internet").is_some());
            }
            Err(wrong) => panic!("{wrong}"),
        }
    }

    #[test]
    fn what_is_no_text_is_refused_and_not_waited_for() {
        let wrong = read_text(Path::new("/dev/null")).expect_err("no regular file");
        assert_eq!(wrong.kind(), std::io::ErrorKind::InvalidInput);
        let wrong = text_of(b"ab\xffcd".to_vec()).expect_err("no UTF-8").to_string();
        assert!(wrong.contains("offset 2, 0xff"), "{wrong}");
    }
}
