//! Thresholds and suppressions of a sensor (`threshold.config`):
//!
//! ```text
//! suppress gen_id 1, sig_id 2002087
//! suppress gen_id 1, sig_id 2002087, track by_src, ip [10.0.0.0/8,!10.1.2.3]
//! threshold gen_id 1, sig_id 2404000, type threshold, track by_dst, count 1, seconds 10
//! rate_filter gen_id 1, sig_id 1000, track by_src, count 10, seconds 60, new_action drop, timeout 300
//! ```
//!
//! `event_filter` is another word for `threshold`. The numbers 0 of `gen_id` and `sig_id` stand for all
//! rules.

use super::{read, wrong};
use crate::groups::{Groups, HELP_ADDRESSES};
use crate::model::{Rule, Threshold, ThresholdKind, Track};
use crate::sets::AddressSet;
use crate::text::RuleText;
use crate::variables::Variables;
use std::net::IpAddr;
use weir_lang::diag::Diagnostic;

/// Some rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleIds {
    /// `None`: of any group.
    pub gid: Option<u32>,
    /// `None`: all rules of the group.
    pub sid: Option<u32>,
}

impl RuleIds {
    /// Whether a rule is one of these.
    pub fn has(self, gid: u32, sid: u32) -> bool {
        self.gid.is_none_or(|one| one == gid) && self.sid.is_none_or(|one| one == sid)
    }

    fn is_one(self) -> bool {
        self.gid.is_some() && self.sid.is_some()
    }
}

/// Whose address a suppression looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Victim {
    Source,
    Destination,
    Either,
}

/// Alerts that are not reported; the rules keep their other effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppression {
    /// Of these rules.
    pub rules: RuleIds,
    /// Of these addresses; `None`: all alerts.
    pub of: Option<(Victim, AddressSet)>,
}

impl Suppression {
    /// Whether alerts of packets with these addresses are suppressed.
    pub fn holds(&self, source: IpAddr, destination: IpAddr) -> bool {
        self.of.as_ref().is_none_or(|(victim, addresses)| match victim {
            Victim::Source => addresses.has(source),
            Victim::Destination => addresses.has(destination),
            Victim::Either => addresses.has(source) || addresses.has(destination),
        })
    }
}

/// A threshold in the place of the rules' own ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalThreshold {
    /// Of these rules.
    pub rules: RuleIds,
    /// The threshold.
    pub threshold: Threshold,
}

/// What a rate filter makes of a rule's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RateAction {
    Alert,
    Drop,
    Pass,
    Reject,
}

/// Another action while alerts are frequent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateFilter {
    /// Of these rules.
    pub rules: RuleIds,
    /// Whose alerts are counted together.
    pub track: Track,
    /// So many alerts within so many seconds.
    pub count: u32,
    #[allow(missing_docs)]
    pub seconds: u32,
    /// The other action, for so many seconds.
    pub action: RateAction,
    #[allow(missing_docs)]
    pub timeout_s: u32,
}

/// All of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Tunings {
    pub suppressions: Vec<Suppression>,
    pub thresholds: Vec<GlobalThreshold>,
    pub rate_filters: Vec<RateFilter>,
}

impl Tunings {
    /// Adds the lines of a file. Returns the mistakes. `source`: the text's number in the sources of
    /// diagnostics.
    pub fn read(&mut self, text: &str, source: u16, variables: &Variables) -> Vec<Diagnostic> {
        let groups = Groups::new(variables);
        read(text, source, |line| self.line(line, &groups))
    }

    /// The suppressions of a rule.
    pub fn suppressions_of(&self, gid: u32, sid: u32) -> impl Iterator<Item = &Suppression> {
        self.suppressions.iter().filter(move |one| one.rules.has(gid, sid))
    }

    /// The rate filters of a rule.
    pub fn rate_filters_of(&self, gid: u32, sid: u32) -> impl Iterator<Item = &RateFilter> {
        self.rate_filters.iter().filter(move |one| one.rules.has(gid, sid))
    }

    /// Sets the thresholds of a rule: that for this very rule replaces `threshold` in the rule; one for many
    /// rules holds if the rule has none. `detection_filter` stays.
    pub fn apply(&self, rule: &mut Rule) {
        let mut found = self.thresholds.iter().filter(|one| one.rules.has(rule.gid, rule.sid));
        let (own, general) = (found.clone().rfind(|one| one.rules.is_one()), found.next_back());
        if let Some(one) = own {
            rule.thresholds.retain(|threshold| threshold.kind == ThresholdKind::Detection);
            rule.thresholds.push(one.threshold);
        } else if let Some(one) = general.filter(|_| rule.thresholds.is_empty()) {
            rule.thresholds.push(one.threshold);
        }
    }

    fn line(&mut self, line: &RuleText<'_>, groups: &Groups<'_>) -> Result<(), Diagnostic> {
        let (word, rest) = line.text.split_once(char::is_whitespace).unwrap_or((line.text, ""));
        match word {
            "suppress" => {
                let mut parts = Parts::of(line, rest, SUPPRESS, &["gen_id", "sig_id", "track", "ip"])?;
                let rules = parts.rules()?;
                let of = match parts.has("track") || parts.has("ip") {
                    true => Some((parts.victim()?, parts.addresses(groups)?)),
                    false => None,
                };
                self.suppressions.push(Suppression { rules, of });
            }
            "threshold" | "event_filter" => {
                let names = ["gen_id", "sig_id", "type", "track", "count", "seconds", "multiplier"];
                let mut parts = Parts::of(line, rest, THRESHOLD, &names)?;
                let (rules, kind) = (parts.rules()?, parts.kind()?);
                let has_seconds = kind != ThresholdKind::Backoff;
                let threshold = Threshold {
                    kind,
                    track: parts.track()?,
                    count: parts.number("count", 1)?,
                    seconds: if has_seconds { parts.number("seconds", 1)? } else { 0 },
                    multiplier: if parts.has("multiplier") { parts.number("multiplier", 1)? } else { 10 },
                };
                self.thresholds.push(GlobalThreshold { rules, threshold });
            }
            "rate_filter" => {
                let names = ["gen_id", "sig_id", "track", "count", "seconds", "new_action", "timeout"];
                let mut parts = Parts::of(line, rest, RATE, &names)?;
                self.rate_filters.push(RateFilter {
                    rules: parts.rules()?,
                    track: parts.track()?,
                    count: parts.number("count", 1)?,
                    seconds: parts.number("seconds", 1)?,
                    action: parts.action()?,
                    timeout_s: parts.number("timeout", 0)?,
                });
            }
            _ => {
                let help = "there are `suppress`, `threshold`, `event_filter` and `rate_filter`";
                return Err(wrong(line, word, format!("there is no word `{word}`"), help));
            }
        }
        Ok(())
    }
}

const SUPPRESS: &str = "write for example `suppress gen_id 1, sig_id 2002087, track by_src, ip 10.0.0.0/8`";
const THRESHOLD: &str =
    "write for example `threshold gen_id 1, sig_id 2404000, type limit, track by_src, count 1, seconds 60`";
const RATE: &str = "write for example `rate_filter gen_id 1, sig_id 1000, track by_src, count 10, seconds 60, new_action drop, timeout 300`";

/// The parts of a line: names and values.
struct Parts<'l, 't> {
    line: &'l RuleText<'t>,
    form: &'static str,
    all: Vec<(&'t str, &'t str)>,
}

impl<'l, 't> Parts<'l, 't> {
    /// Divides a text at commas that are not inside of brackets.
    fn of(
        line: &'l RuleText<'t>,
        text: &'t str,
        form: &'static str,
        names: &[&str],
    ) -> Result<Self, Diagnostic> {
        let (mut all, mut depth, mut start): (Vec<(&str, &str)>, _, _) = (vec![], 0_usize, 0);
        for (at, letter) in text.char_indices().chain([(text.len(), ',')]) {
            match letter {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                ',' if depth == 0 || at == text.len() => {
                    // A backslash joins lines.
                    let part =
                        text[start..at].trim_matches(|letter: char| letter.is_whitespace() || letter == '\\');
                    start = at + 1;
                    let (name, value) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
                    if !names.contains(&name) {
                        let why = if name.is_empty() {
                            "a part is empty".into()
                        } else {
                            format!("there is no `{name}` here")
                        };
                        return Err(wrong(line, name, why, form));
                    }
                    if all.iter().any(|(known, _)| *known == name) {
                        return Err(wrong(line, name, format!("`{name}` is stated twice"), form));
                    }
                    all.push((name, value.trim_start()));
                }
                _ => {}
            }
        }
        Ok(Self { line, form, all })
    }

    fn has(&self, name: &str) -> bool {
        self.all.iter().any(|(known, _)| *known == name)
    }

    fn value(&self, name: &str) -> Result<&'t str, Diagnostic> {
        let found = self.all.iter().find(|(known, _)| *known == name);
        let missing = || wrong(self.line, self.line.text, format!("`{name}` is missing"), self.form);
        let (name, value) = found.ok_or_else(missing)?;
        match value.is_empty() {
            true => Err(wrong(self.line, name, format!("`{name}` has no value"), self.form)),
            false => Ok(value),
        }
    }

    fn word<T: Copy>(&self, name: &str, known: &[(&str, T)]) -> Result<T, Diagnostic> {
        let value = self.value(name)?;
        let found = known.iter().find(|(word, _)| *word == value);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<_> = known.iter().map(|(word, _)| format!("`{word}`")).collect();
            wrong(
                self.line,
                value,
                format!("`{name}` has no `{value}`"),
                &format!("there are {}", words.join(", ")),
            )
        })
    }

    fn number(&mut self, name: &str, least: u32) -> Result<u32, Diagnostic> {
        let value = self.value(name)?;
        let number = value.parse().ok().filter(|number| *number >= least);
        number.ok_or_else(|| {
            wrong(self.line, value, format!("`{name}`: `{value}` is no number from {least}"), self.form)
        })
    }

    fn rules(&mut self) -> Result<RuleIds, Diagnostic> {
        let [gid, sid] = [self.number("gen_id", 0)?, self.number("sig_id", 0)?];
        if gid == 0 && sid != 0 {
            let help = "`gen_id 0` means all groups: write `gen_id 1`, which is the group of usual rules";
            return Err(wrong(self.line, self.line.text, "one rule of all groups", help));
        }
        let some = |number| (number > 0).then_some(number);
        Ok(RuleIds { gid: some(gid), sid: some(sid) })
    }

    fn kind(&self) -> Result<ThresholdKind, Diagnostic> {
        let known = [
            ("limit", ThresholdKind::Limit),
            ("threshold", ThresholdKind::Threshold),
            ("both", ThresholdKind::Both),
            ("backoff", ThresholdKind::Backoff),
        ];
        self.word("type", &known)
    }

    fn track(&self) -> Result<Track, Diagnostic> {
        let known = [
            ("by_src", Track::Source),
            ("by_dst", Track::Destination),
            ("by_both", Track::Both),
            ("by_rule", Track::Rule),
            ("by_flow", Track::Flow),
        ];
        self.word("track", &known)
    }

    fn victim(&self) -> Result<Victim, Diagnostic> {
        let known =
            [("by_src", Victim::Source), ("by_dst", Victim::Destination), ("by_either", Victim::Either)];
        self.word("track", &known)
    }

    fn action(&self) -> Result<RateAction, Diagnostic> {
        let known = [
            ("alert", RateAction::Alert),
            ("drop", RateAction::Drop),
            ("pass", RateAction::Pass),
            ("reject", RateAction::Reject),
        ];
        self.word("new_action", &known)
    }

    fn addresses(&self, groups: &Groups<'_>) -> Result<AddressSet, Diagnostic> {
        let value = self.value("ip")?;
        groups.addresses(value).map_err(|why| wrong(self.line, value, why, HELP_ADDRESSES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn lines_of_all_kinds_are_read() {
        let text = "\
# A comment.
suppress gen_id 1, sig_id 7
suppress gen_id 1, sig_id 0, track by_either, ip [10.0.0.0/8, !10.1.0.0/16]
suppress gen_id 0, sig_id 0, track by_src, ip $HOME_NET
event_filter gen_id 1, sig_id 7, type both, track by_src, count 3, \\
    seconds 5
threshold gen_id 0, sig_id 0, type limit, track by_rule, count 1, seconds 60
rate_filter gen_id 1, sig_id 8, track by_src, count 10, seconds 60, new_action drop, timeout 300
";
        let mut tunings = Tunings::default();
        assert_eq!(tunings.read(text, 0, &Variables::default()), []);
        assert_eq!(
            tunings.rate_filters_of(1, 8).next().map(|one| (one.action, one.timeout_s)),
            Some((RateAction::Drop, 300))
        );
        let holds = |sid: u32, source: &str, destination: &str| {
            let [source, destination] = [source, destination].map(|text| text.parse().expect(text));
            tunings.suppressions_of(1, sid).any(|one| one.holds(source, destination))
        };
        assert!(holds(7, "8.8.8.8", "8.8.4.4"));
        assert!(holds(8, "8.8.8.8", "10.2.0.1") && !holds(8, "8.8.8.8", "10.1.0.1"));
        assert!(holds(8, "192.168.0.1", "8.8.8.8") && !holds(8, "8.8.8.8", "192.168.0.1"));
        let applied = |options: &str| {
            let mut rules =
                parse(&format!("alert ip any any -> any any ({options})"), 0, &Variables::default());
            let mut rule = rules.remove(0).rule.expect(options);
            tunings.apply(&mut rule);
            rule.thresholds.iter().map(|one| (one.kind, one.seconds)).collect::<Vec<_>>()
        };
        assert_eq!(
            applied("threshold:type limit, track by_src, count 1, seconds 9; sid:7;"),
            [(ThresholdKind::Both, 5)]
        );
        assert_eq!(
            applied("threshold:type limit, track by_src, count 1, seconds 9; sid:8;"),
            [(ThresholdKind::Limit, 9)]
        );
        assert_eq!(applied("sid:8;"), [(ThresholdKind::Limit, 60)]);
    }

    #[test]
    fn mistakes_have_a_place() {
        for (text, message, place) in [
            ("supress gen_id 1", "there is no word `supress`", "supress"),
            ("suppress gen_id 1, sigid 7", "there is no `sigid` here", "sigid"),
            ("suppress gen_id 1", "`sig_id` is missing", "suppress gen_id 1"),
            ("suppress gen_id 1, sig_id x", "`sig_id`: `x` is no number from 0", "x"),
            ("suppress gen_id 0, sig_id 5", "one rule of all groups", "suppress gen_id 0, sig_id 5"),
            (
                "suppress gen_id 1, sig_id 7, track by_src",
                "`ip` is missing",
                "suppress gen_id 1, sig_id 7, track by_src",
            ),
            ("suppress gen_id 1, sig_id 7, track by_x, ip 1.1.1.1", "`track` has no `by_x`", "by_x"),
            ("suppress gen_id 1, sig_id 7, track by_src, ip 1.1.1", "`1.1.1` is no address", "1.1.1"),
            ("suppress gen_id 1, gen_id 7", "`gen_id` is stated twice", "gen_id"),
            ("suppress", "a part is empty", ""),
            (
                "threshold gen_id 1, sig_id 1, type limit, track by_src, count 0, seconds 1",
                "`count`: `0` is no number from 1",
                "0",
            ),
        ] {
            let wrong = Tunings::default().read(text, 0, &Variables::default());
            let span = wrong[0].spans[0].0;
            let found = (wrong[0].message.as_str(), &text[span.start as usize..span.end as usize]);
            assert_eq!(found.0, message, "{text}");
            assert!(place.is_empty() || found.1 == place, "{text}: {}", found.1);
        }
    }
}
