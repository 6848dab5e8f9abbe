//! Reads the rules of several files on several threads: the rules that hold, and why others do not.
//!
//! A file is divided at line ends into parts of [`PART_BYTES`]; threads take part after part. The outcome
//! does not depend on the number of threads. Of two rules with the same signature ID and group, the one with
//! the higher revision holds.

use crate::groups::Groups;
use crate::header::Action;
use crate::model::Rule;
use crate::parse::{Parsed, Refusal, parse_one};
use crate::text::{RuleText, joined_lines};
use crate::variables::Variables;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::hash_map::Entry;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use weir_lang::diag::{Diagnostic, Sources};

/// Bytes of a part: some hundred rules, so that the threads end at the same time.
const PART_BYTES: usize = 128 << 10;

/// A file with rules.
#[derive(Debug, Clone, Copy)]
pub struct RuleFile<'t> {
    /// Its name in messages.
    pub name: &'t str,
    /// What it says.
    pub text: &'t str,
}

/// Where a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The number of the file in [`RuleSet::files`].
    pub file: usize,
    /// The number of the rule's first line, from 1.
    pub line: usize,
}

/// A rule that holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Where the rule is.
    pub place: Place,
    /// What the rule says.
    pub rule: Rule,
}

/// A rule that is refused.
#[derive(Debug, Clone)]
pub struct Refused {
    /// Where the rule is.
    pub place: Place,
    /// Why; the diagnostic's spans are places in [`Refused::text`].
    pub refusal: Refusal,
    /// The lines of the rule.
    pub text: String,
    /// The name of the file.
    file: String,
}

impl Refused {
    /// The diagnostic as text, with the line of the rule, carets and the remedy.
    pub fn render(&self, color: bool) -> String {
        let mut sources = Sources::new();
        sources.add_part(self.file.as_str(), self.text.as_str(), self.place.line);
        self.refusal.diagnostic.render(&sources, color)
    }

    /// The file, the line and the column of the mistake, with colons between.
    pub fn position(&self) -> String {
        let before = self.refusal.diagnostic.spans.first().map_or(0, |(span, _)| span.start as usize);
        let before = self.text.get(..before).unwrap_or(&self.text);
        let line = self.place.line + before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
        format!("{}:{line}:{column}", self.file)
    }
}

/// Of two rules with the same signature ID and group, the one that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    /// The group and the signature ID.
    pub gid: u32,
    #[allow(missing_docs)]
    pub sid: u32,
    /// The rule that holds, and its revision.
    pub kept: (Place, u32),
    /// The one that does not.
    pub dropped: (Place, u32),
}

/// The rules of several files.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    /// The names of the files.
    pub files: Vec<String>,
    /// The rules that hold, in the order of files and lines.
    pub rules: Vec<Listed>,
    /// The rules that are refused, in the same order.
    pub refusals: Vec<Refused>,
    /// The rules that another revision replaces.
    pub replaced: Vec<Replaced>,
    /// Comments that are rules: `#alert …`.
    pub disabled: u64,
    /// The names of options of all rules, with the number of options of this name; the most frequent one
    /// first.
    pub keywords: Vec<(String, u64)>,
}

/// Reads files on `threads` threads (at least one).
pub fn load(files: &[RuleFile<'_>], variables: &Variables, threads: usize) -> RuleSet {
    let parts: Vec<Part<'_>> =
        files.iter().enumerate().flat_map(|(at, file)| parts(at, file.text, PART_BYTES)).collect();
    let next = AtomicUsize::new(0);
    let read = Mutex::new(Vec::with_capacity(parts.len()));
    let work = || {
        let groups = Groups::new(variables);
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = part.read(&groups);
            read.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(found);
        }
    };
    std::thread::scope(|scope| {
        let others = threads.clamp(1, parts.len().max(1)) - 1;
        (0..others).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let mut read = read.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    read.sort_by_key(|found| found.start);
    let mut set =
        RuleSet { files: files.iter().map(|file| file.name.to_string()).collect(), ..RuleSet::default() };
    let mut keywords: FxHashMap<&str, u64> = FxHashMap::default();
    for found in read {
        for (place, parsed, text) in found.parsed {
            match parsed.rule {
                Ok(rule) => set.rules.push(Listed { place, rule }),
                Err(refusal) => {
                    let file = set.files[place.file].clone();
                    set.refusals.push(Refused { place, refusal: *refusal, text: text.to_string(), file });
                }
            }
        }
        set.disabled += found.disabled;
        for (name, count) in found.keywords {
            *keywords.entry(name).or_default() += count;
        }
    }
    set.keywords = keywords.into_iter().map(|(name, count)| (name.to_string(), count)).collect();
    set.keywords.sort_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
    set.drop_replaced();
    set
}

impl RuleSet {
    /// The file and line of a place, with a colon between.
    pub fn position(&self, place: Place) -> String {
        format!("{}:{}", self.files.get(place.file).map_or("", String::as_str), place.line)
    }

    /// A warning for each rule that another revision replaces.
    pub fn replacements(&self) -> impl Iterator<Item = Diagnostic> + '_ {
        self.replaced.iter().map(|one| {
            let ((kept, kept_rev), (dropped, rev)) = (one.kept, one.dropped);
            let message = format!(
                "{}: the rule {}:{} of revision {rev} is left out: {} has revision {kept_rev}",
                self.position(dropped),
                one.gid,
                one.sid,
                self.position(kept)
            );
            Diagnostic::warning("W0207", message).help("remove one of the two, or give it another `sid`")
        })
    }

    /// Of rules with the same signature ID and group, only the one with the highest revision stays; of equal
    /// ones the first.
    fn drop_replaced(&mut self) {
        let mut best: FxHashMap<(u32, u32), usize> =
            FxHashMap::with_capacity_and_hasher(self.rules.len(), FxBuildHasher);
        let mut dropped: Vec<usize> = vec![];
        for (at, Listed { rule, .. }) in self.rules.iter().enumerate() {
            match best.entry((rule.gid, rule.sid)) {
                Entry::Vacant(free) => _ = free.insert(at),
                Entry::Occupied(mut known) if self.rules[*known.get()].rule.rev < rule.rev => {
                    dropped.push(known.insert(at));
                }
                Entry::Occupied(_) => dropped.push(at),
            }
        }
        dropped.sort_unstable();
        for at in &dropped {
            let Listed { place, rule } = &self.rules[*at];
            let kept = &self.rules[best[&(rule.gid, rule.sid)]];
            self.replaced.push(Replaced {
                gid: rule.gid,
                sid: rule.sid,
                kept: (kept.place, kept.rule.rev),
                dropped: (*place, rule.rev),
            });
        }
        let mut at = 0;
        self.rules.retain(|_| {
            at += 1;
            dropped.binary_search(&(at - 1)).is_err()
        });
    }
}

/// Lines of a file.
struct Part<'t> {
    file: usize,
    first_line: usize,
    text: &'t str,
}

/// What is found in a part.
struct Found<'t> {
    /// File and first line of the part.
    start: (usize, usize),
    parsed: Vec<(Place, Parsed, &'t str)>,
    disabled: u64,
    keywords: FxHashMap<&'t str, u64>,
}

/// Divides a file at line ends that are not joined, behind `bytes` bytes each.
fn parts(file: usize, text: &str, bytes: usize) -> impl Iterator<Item = Part<'_>> {
    let (mut start, mut first_line) = (0, 1);
    std::iter::from_fn(move || {
        if start >= text.len() {
            return None;
        }
        let all = text.as_bytes();
        let mut end = text.len().min(start + bytes);
        while end < text.len() {
            let Some(at) = memchr::memchr(b'\n', &all[end..]) else {
                end = text.len();
                break;
            };
            end += at + 1;
            let last = all[..end - 1].iter().rev().find(|byte| **byte != b'\r');
            if last != Some(&b'\\') {
                break;
            }
        }
        let part = Part { file, first_line, text: &text[start..end] };
        first_line += memchr::memchr_iter(b'\n', part.text.as_bytes()).count();
        start = end;
        Some(part)
    })
}

impl<'t> Part<'t> {
    fn read(&self, groups: &Groups<'_>) -> Found<'t> {
        let start = (self.file, self.first_line);
        let mut found = Found { start, parsed: vec![], disabled: 0, keywords: FxHashMap::default() };
        for lines in joined_lines(self.text, self.first_line) {
            let Some(rule) = lines.rule(0) else {
                found.disabled += u64::from(is_disabled_rule(lines.text));
                continue;
            };
            // Spans of the diagnostic are places in these lines.
            let rule = RuleText { start: rule.start - lines.start, ..rule };
            let place = Place { file: self.file, line: lines.line };
            let parsed = parse_one(&rule, groups, &mut |name| *found.keywords.entry(name).or_default() += 1);
            found.parsed.push((place, parsed, lines.text.trim_end()));
        }
        found
    }
}

/// Whether a comment is a rule: `#alert tcp … (… sid:1;)`.
fn is_disabled_rule(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix('#') else { return false };
    let rest = rest.trim_start_matches('#').trim_start();
    let has_action = rest.split_whitespace().next().is_some_and(|word| Action::of(word).is_some());
    has_action && rest.contains('(') && rest.contains("sid:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(texts: &[&str], threads: usize) -> RuleSet {
        let files: Vec<_> = texts.iter().map(|text| RuleFile { name: "a.rules", text }).collect();
        load(&files, &Variables::default(), threads)
    }

    const HEADER: &str = "alert ip any any -> any any";

    #[test]
    fn the_higher_revision_holds() {
        let one = |sid, rev| format!("{HEADER} (sid:{sid}; rev:{rev};)\n");
        let first = one(1, 1) + &one(2, 7) + &one(3, 1);
        let second = one(1, 2) + &one(2, 6) + &one(3, 1) + &format!("{HEADER} (gid:2; sid:3;)\n");
        let set = of(&[&first, &second], 2);
        let rules: Vec<_> =
            set.rules.iter().map(|one| (one.place.file, one.rule.sid, one.rule.rev)).collect();
        assert_eq!(rules, [(0, 2, 7), (0, 3, 1), (1, 1, 2), (1, 3, 0)]);
        let replaced: Vec<_> = set.replaced.iter().map(|one| (one.sid, one.kept.1, one.dropped.1)).collect();
        assert_eq!(replaced, [(1, 2, 1), (2, 7, 6), (3, 1, 1)]);
        let said = set.replacements().next().expect("a warning").message;
        assert_eq!(said, "a.rules:1: the rule 1:1 of revision 1 is left out: a.rules:1 has revision 2");
    }

    #[test]
    fn refusals_have_their_place_in_the_file() {
        let text = format!("# text\n{HEADER} (sid:1;)\n\n  {HEADER} ( \\\n  contnet:\"a\"; sid:2;)\n");
        let set = of(&[&text], 1);
        let [refused] = &set.refusals[..] else { panic!("{set:?}") };
        assert_eq!((refused.place.line, refused.refusal.sid), (4, Some(2)));
        assert_eq!(refused.refusal.keyword.as_deref(), Some("contnet"));
        assert_eq!(refused.position(), "a.rules:5:3");
        let said = refused.render(false);
        assert!(said.contains("--> a.rules:5:3") && said.contains("did you mean `content`?"), "{said}");
    }

    #[test]
    fn comments_that_are_rules_are_disabled_rules() {
        let text = format!("#{HEADER} (sid:1;)\n## {HEADER} (sid:2;)\n# drop packets (all)\n# alert me\n#\n");
        assert_eq!(of(&[&text], 1).disabled, 2);
    }

    #[test]
    fn parts_end_at_lines_that_are_not_joined() {
        let text = "a\\\nb\\\r\nc\nd\n\ne";
        for bytes in 1..text.len() {
            let parts: Vec<_> = parts(0, text, bytes).collect();
            assert_eq!(parts.iter().map(|part| part.text).collect::<String>(), text);
            let of_parts: Vec<_> = parts
                .iter()
                .flat_map(|part| joined_lines(part.text, part.first_line))
                .map(|lines| (lines.text, lines.line))
                .collect();
            let of_text: Vec<_> = joined_lines(text, 1).map(|lines| (lines.text, lines.line)).collect();
            assert_eq!(of_parts, of_text, "{bytes}");
        }
    }

    proptest! {
        /// Parts have the lines of their text, whatever the text is.
        #[test]
        fn parts_have_the_lines_of_any_text(text in "[a\\\\\n\ré]{0,40}", bytes in 1..10_usize) {
            let of_parts: Vec<_> = parts(0, &text, bytes)
                .flat_map(|part| joined_lines(part.text, part.first_line).map(|one| (one.text, one.line)).collect::<Vec<_>>())
                .collect();
            let of_text: Vec<_> = joined_lines(&text, 1).map(|lines| (lines.text, lines.line)).collect();
            prop_assert_eq!(of_parts, of_text);
        }
    }
}
