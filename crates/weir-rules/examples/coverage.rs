//! Prints how many rules of files are understood, and why others are not.

use std::collections::BTreeMap;
use weir_rules::{Variables, parse};

fn main() -> std::io::Result<()> {
    let (mut all, mut reasons) = (0, BTreeMap::<String, (u32, String)>::new());
    let mut backtracking = 0;
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let text = String::from_utf8_lossy(&bytes);
        for parsed in parse(&text, 0, &Variables::default()) {
            all += 1;
            match parsed.rule {
                Ok(rule) => {
                    let tests = rule.inspections.iter().flat_map(|one| &one.tests);
                    let is_backtracking = |test: &weir_rules::Test| matches!(test, weir_rules::Test::Pcre(pcre) if pcre.needs_backtracking);
                    backtracking += u32::from(tests.clone().any(is_backtracking));
                }
                Err(refusal) => {
                    let reason = reasons.entry(refusal.diagnostic.message.clone()).or_default();
                    reason.0 += 1;
                    reason.1 = format!("{path}:{}", parsed.line);
                }
            }
        }
    }
    let refused: u32 = reasons.values().map(|(count, _)| count).sum();
    println!("{all} rules, {refused} refused, {backtracking} need backtracking");
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    for (reason, (count, place)) in reasons {
        println!("{count:6}  {reason}  ({place})");
    }
    Ok(())
}
