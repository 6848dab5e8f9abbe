//! Protocols and stacks by name: those that come with Weir, and those that its user adds.
//!
//! Those that come with Weir are the files of `protocols/`, which `build.rs` lists: a new file there
//! is all that a new layer needs.

use crate::check::{self, CheckedProtocol};
use crate::diag::{Diagnostic, Diagnostics, Sources};
use crate::format;
use crate::model::{Protocol, Stack};
use crate::syntax::{self, ast};
use rustc_hash::FxHashSet;
use std::path::{Component, Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// Bytes of one text at most.
pub(crate) const TEXT_BYTES_MAX: usize = 16 << 20;
/// Files that one text imports, by way of others too, at most.
pub(crate) const FILES_MAX: usize = 256;
/// Mistakes that are kept: who made more will not read them.
const DIAGNOSTICS_MAX: usize = 200;

/// All that is known of protocols and stacks.
#[derive(Debug, Clone, Default)]
pub struct Library {
    protocols: Vec<CheckedProtocol>,
    stacks: Vec<Stack>,
    sources: Sources,
    /// What was read, without what was replaced.
    files: Vec<ast::File>,
    /// How many of these were there before the last addition.
    files_before: usize,
    additions: usize,
}

impl Library {
    /// The protocols and stacks that come with Weir. Reads and checks their texts: a fraction of a
    /// millisecond, so keep the result.
    ///
    /// # Panics
    /// Never: a test checks these texts.
    pub fn builtin() -> Library {
        match load(BUILTIN) {
            Ok((library, _)) => library,
            Err(wrong) => panic!("the protocols that come with Weir are wrong:\n{wrong}"),
        }
    }

    /// The texts that come with Weir: file name and text.
    pub fn builtin_texts() -> &'static [(&'static str, &'static str)] {
        BUILTIN
    }

    /// Every protocol, in the order in which they were read.
    pub fn protocols(&self) -> impl Iterator<Item = &Protocol> {
        self.protocols.iter().map(|one| &*one.protocol)
    }

    /// The protocol of that name.
    pub fn protocol(&self, name: &str) -> Option<&Protocol> {
        self.protocols().find(|protocol| protocol.name == name)
    }

    /// Every stack; one that extends another comes after it.
    pub fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    /// The stack of that name.
    pub fn stack(&self, name: &str) -> Option<&Stack> {
        self.stacks.iter().find(|stack| stack.name == name)
    }

    /// The stack of that name, and those that it extends, nearest first.
    pub fn stack_and_bases(&self, name: &str) -> Vec<&str> {
        let trees = || self.files.iter().flat_map(|file| &file.stacks);
        let mut names = vec![];
        let mut next = trees().find(|tree| tree.name.text == name);
        // The checker has seen to it that no stack extends itself.
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

    /// Names of the protocols that the last addition declares or extends, as written, each once.
    pub fn latest_protocols(&self) -> impl Iterator<Item = &str> {
        let declared = self.latest().flat_map(|file| &file.protocols).map(|tree| tree.name.text.as_str());
        let extended = self.latest().flat_map(|file| &file.extensions).map(|tree| tree.of.text.as_str());
        let mut seen = FxHashSet::default();
        declared.chain(extended).filter(move |name| seen.insert(*name))
    }

    /// Names of the stacks that the last addition declares, as written.
    pub fn latest_stacks(&self) -> impl Iterator<Item = &str> {
        self.latest().flat_map(|file| &file.stacks).map(|tree| tree.name.text.as_str())
    }

    fn latest(&self) -> impl Iterator<Item = &ast::File> {
        self.files[self.files_before..].iter()
    }

    /// Adds a text. Its protocols and stacks may use what is there, and replace what is there of their
    /// names: stacks that use a protocol which is replaced then have the new one. Yields the warnings.
    ///
    /// # Errors
    /// Every mistake found; the library is then as it was. Of texts added before only what is wrong because
    /// of this one, and only where this one is not wrong itself.
    pub fn extend_with(&mut self, file_name: &str, text: &str) -> Result<Diagnostics, Diagnostics> {
        self.extend_with_all(&[(file_name, text)])
    }

    /// Adds several texts, which may use each other in any order. Yields the warnings.
    ///
    /// # Errors
    /// As [`extend_with`](Self::extend_with).
    pub fn extend_with_all(&mut self, texts: &[(&str, &str)]) -> Result<Diagnostics, Diagnostics> {
        self.extend(texts, &mut |_| Err(std::io::Error::other("this text is no file")))
    }

    /// Adds a text and what it imports; `read` yields the text of a file. Names of files are relative to the
    /// one that imports them; each is read once, so they may import each other.
    ///
    /// # Errors
    /// As [`extend_with`](Self::extend_with), and for a file that can't be read.
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
                                .help("what is imported is named as seen from this file"),
                        );
                    }
                }
            }
            added.push(file);
        }
        // What is imported comes first: the last stack of all is one of the text itself.
        let own = texts.len().min(added.len());
        added.rotate_left(own);
        let mut files = self.files.clone();
        let files_before = files.len();
        files.iter_mut().for_each(|file| replace(file, &added));
        files.append(&mut added);
        let (mut protocols, mut stacks) = (Vec::new(), Vec::new());
        check::check(&files, &mut protocols, &mut stacks, &mut list);
        check::drop_followers(&mut list, &files, &sources);
        let list = worth_saying(list, first.unwrap_or(0));
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

/// The text of a file; of one that is too long as much as shows that.
///
/// # Errors
/// Where it can't be read, is no UTF-8, or no regular file: what a text names is not waited for, as a pipe would be.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    text_of(bytes)
}

/// These bytes as a text.
///
/// # Errors
/// Where they are no UTF-8, with the place of the first that is none.
pub fn text_of(bytes: Vec<u8>) -> std::io::Result<String> {
    String::from_utf8(bytes).map_err(|wrong| {
        let at = wrong.utf8_error().valid_up_to();
        let message = format!("no valid UTF-8: the byte at offset {at}, {:#04x}", wrong.as_bytes()[at]);
        std::io::Error::new(std::io::ErrorKind::InvalidData, message)
    })
}

/// A path without `.` and, where that says the same, `..`.
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

/// What is said of a text that has more bytes than are read.
pub(crate) fn too_long(name: &str, text: &str) -> Option<Diagnostic> {
    let message = || format!("{name} has more than {TEXT_BYTES_MAX} bytes");
    (text.len() > TEXT_BYTES_MAX).then(|| Diagnostic::error(check::codes::TOO_MUCH, message()))
}

/// Takes out of a file what the files that are added declare anew, and what extended that.
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

/// What is about the texts from `first` on; about others only where those make them wrong and are not wrong
/// themselves. No more than anybody reads, as a reader goes through the text.
pub(crate) fn worth_saying(mut list: Vec<Diagnostic>, first: u16) -> Vec<Diagnostic> {
    let is_own =
        |one: &Diagnostic| one.spans.is_empty() || one.spans.iter().any(|(span, _)| span.source >= first);
    let has_errors = list.iter().any(Diagnostic::is_error);
    if !has_errors || list.iter().any(|one| one.is_error() && is_own(one)) {
        list.retain(is_own);
    }
    if has_errors && list.len() > DIAGNOSTICS_MAX {
        // Warnings must not push out the reason why nothing runs.
        list.retain(Diagnostic::is_error);
    }
    list.truncate(DIAGNOSTICS_MAX);
    list.sort_by_key(|diagnostic| diagnostic.spans.first().map(|(span, _)| (span.source, span.start)));
    list
}

/// A library of these texts (name and text) alone, and the warnings about them.
///
/// # Errors
/// Every mistake found.
pub fn load(texts: &[(&str, &str)]) -> Result<(Library, Diagnostics), Diagnostics> {
    let mut library = Library::default();
    let warnings = library.extend_with_all(texts)?;
    Ok((library, warnings))
}

/// Reads any bytes as a user's file: must not panic, whatever they are.
#[doc(hidden)]
pub fn fuzz_lang(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(wrong) = load(&[("fuzz.weir", &text)]) {
        assert!(wrong.has_errors(), "refused without saying why");
        let _ = wrong.render(true);
    }
    match format("fuzz.weir", &text) {
        Ok(laid_out) => assert_eq!(format("fuzz.weir", &laid_out).ok(), Some(laid_out)),
        Err(wrong) => assert!(wrong.has_errors(), "refused without saying why"),
    }
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
