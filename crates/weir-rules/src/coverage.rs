//! How many rules of a set are accepted, and why the others are refused: the report of `weir rules --check`.

use crate::load::RuleSet;
use crate::model::{Rule, Test};
use std::collections::BTreeMap;
use std::fmt;

/// Reasons, and keywords, that the text form shows.
const REASONS_SHOWN: usize = 40;
const KEYWORDS_SHOWN: usize = 30;

/// A report about the rules of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Files.
    pub files: u64,
    /// All rules: accepted, refused and replaced ones. Disabled ones are not among them.
    pub rules: u64,
    /// Rules that hold.
    pub accepted: u64,
    /// Rules that are refused.
    pub refused: u64,
    /// Rules that another revision replaces.
    pub replaced: u64,
    /// Comments that are rules.
    pub disabled: u64,
    /// Accepted rules with an expression that only PCRE2 has: look-around or back-references.
    pub needs_pcre2: u64,
    /// Why rules are refused, the most frequent reason first.
    pub reasons: Vec<Reason>,
    /// Names of options with their numbers, the most frequent one first.
    pub keywords: Vec<(String, u64)>,
}

/// Why rules are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The diagnostic's code.
    pub code: &'static str,
    /// The option or the protocol; `None` if the rule as a whole is wrong.
    pub keyword: Option<String>,
    /// Rules that are refused for this reason.
    pub rules: u64,
    /// The first of these rules: its file, line and column, and its message.
    pub position: String,
    #[allow(missing_docs)]
    pub message: String,
}

impl Coverage {
    /// The report about a set.
    pub fn of(set: &RuleSet) -> Self {
        let mut reasons: BTreeMap<(&'static str, Option<&str>), Reason> = BTreeMap::new();
        for refused in &set.refusals {
            let (code, keyword) = (refused.refusal.diagnostic.code, refused.refusal.keyword.as_deref());
            let reason = reasons.entry((code, keyword)).or_insert_with(|| Reason {
                code,
                keyword: keyword.map(str::to_string),
                rules: 0,
                position: refused.position(),
                message: refused.refusal.diagnostic.message.clone(),
            });
            reason.rules += 1;
        }
        let mut reasons: Vec<_> = reasons.into_values().collect();
        // Stable: of equal numbers the order of codes and keywords stays.
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.rules));
        let [accepted, refused, replaced] =
            [set.rules.len(), set.refusals.len(), set.replaced.len()].map(|count| count as u64);
        Self {
            files: set.files.len() as u64,
            rules: accepted + refused + replaced,
            accepted,
            refused,
            replaced,
            disabled: set.disabled,
            needs_pcre2: set.rules.iter().filter(|one| needs_pcre2(&one.rule)).count() as u64,
            reasons,
            keywords: set.keywords.clone(),
        }
    }
}

/// Whether a rule has an expression that no linear engine can run.
fn needs_pcre2(rule: &Rule) -> bool {
    let mut tests = rule.inspections.iter().flat_map(|one| &one.tests);
    tests.any(|test| matches!(test, Test::Pcre(pcre) if pcre.needs_backtracking))
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |count: u64| match self.rules {
            0 => String::new(),
            rules => format!("{:7.2} %", count as f64 * 100.0 / rules as f64),
        };
        let files = if self.files == 1 { "1 file".to_string() } else { format!("{} files", self.files) };
        writeln!(f, "{:42}{:>9}", format!("rules in {files}"), self.rules)?;
        for (name, count) in [
            ("accepted", self.accepted),
            ("accepted, and need PCRE2", self.needs_pcre2),
            ("refused", self.refused),
            ("left out: another revision holds", self.replaced),
        ] {
            writeln!(f, "  {name:40}{count:>9}{}", share(count))?;
        }
        writeln!(f, "{:42}{:>9}", "disabled rules (comments)", self.disabled)?;
        if !self.reasons.is_empty() {
            self.fmt_reasons(f)?;
        }
        if !self.keywords.is_empty() {
            writeln!(f, "\nthe most used keywords")?;
            for (name, count) in self.keywords.iter().take(KEYWORDS_SHOWN) {
                writeln!(f, "{count:9}  {}", printable(name))?;
            }
        }
        Ok(())
    }
}

impl Coverage {
    fn fmt_reasons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nwhy rules are refused")?;
        let shown = &self.reasons[..self.reasons.len().min(REASONS_SHOWN)];
        let name = |reason: &Reason| printable(reason.keyword.as_deref().unwrap_or("-"));
        let width = shown.iter().map(|reason| name(reason).chars().count()).max().unwrap_or(0).clamp(7, 32);
        writeln!(f, "{:>9}  code   {:width$}  for example", "rules", "keyword")?;
        for reason in shown {
            let (message, keyword) = (printable(&reason.message), name(reason));
            writeln!(
                f,
                "{:9}  {}  {keyword:width$}  {}: {message}",
                reason.rules,
                reason.code,
                printable(&reason.position)
            )?;
        }
        let more = &self.reasons[shown.len()..];
        if !more.is_empty() {
            let rules: u64 = more.iter().map(|reason| reason.rules).sum();
            writeln!(f, "{rules:9}  for {} other reasons", more.len())?;
        }
        Ok(())
    }
}

/// A text from a file, without characters that control a terminal, and not longer than a line.
fn printable(text: &str) -> String {
    const LETTERS_MAX: usize = 160;
    let mut shown: String = text
        .chars()
        .take(LETTERS_MAX)
        .map(|letter| if letter.is_control() { '\u{fffd}' } else { letter })
        .collect();
    if text.chars().nth(LETTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{RuleFile, load};
    use crate::variables::Variables;

    #[test]
    fn a_report_counts_rules_and_reasons() {
        let text = r#"# Comment.
alert tcp any any -> any any (content:"a"; sid:1;)
alert tcp any any -> any any (pcre:"/(?=a)b/"; sid:2; rev:1;)
alert tcp any any -> any any (pcre:"/(?=a)b/"; sid:2; rev:2;)
alert tcp any any -> any any (contnet:"a"; sid:3;)
alert tcp any any -> any any (contnet:"b"; sid:4;)
alert tpc any any -> any any (sid:5;)
#alert tcp any any -> any any (sid:6;)
"#;
        let set = load(&[RuleFile { name: "a.rules", text }], &Variables::default(), 2);
        let expected = "\
rules in 1 file                                   6
  accepted                                        2  33.33 %
  accepted, and need PCRE2                        1  16.67 %
  refused                                         3  50.00 %
  left out: another revision holds                1  16.67 %
disabled rules (comments)                         1

why rules are refused
    rules  code   keyword  for example
        2  W0204  contnet  a.rules:5:31: the keyword `contnet` is not known
        1  W0203  tpc      a.rules:7:7: there is no protocol `tpc`

the most used keywords
        5  sid
        2  contnet
        2  pcre
        2  rev
        1  content
";
        assert_eq!(Coverage::of(&set).to_string(), expected);
        assert_eq!(printable("a\u{1b}[31m"), "a\u{fffd}[31m");
    }
}
