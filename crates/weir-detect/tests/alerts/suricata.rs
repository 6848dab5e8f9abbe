//! The alert tests of Suricata's verification suite, where `../shared/rules` is there: of the tests whose
//! rules all run, nearly all agree by signature ID and count.

use crate::support::run;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir::io::CaptureReader;
use weir_detect::{Detection, RuleProgram};
use weir_rules::{Classes, Rule, Tunings, Variables, parse};

/// Of the tests that run, so many agree, in percent. Tests with a configuration of their own, which is not
/// here, do not count.
const AGREE_MIN: usize = 95;

#[derive(serde::Deserialize)]
struct Expected {
    capture: String,
    #[serde(default)]
    alerts: BTreeMap<u64, u64>,
    alerts_total: Option<u64>,
    #[serde(default)]
    at_least: bool,
    #[serde(default)]
    own_configuration: bool,
    #[serde(default)]
    suricata_args: Vec<String>,
}

/// The directories with tests, at any depth.
fn tests_in(directory: &Path, found: &mut Vec<PathBuf>) {
    if directory.join("expect.json").exists() {
        found.push(directory.to_path_buf());
    }
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    entries.flatten().filter(|entry| entry.path().is_dir()).for_each(|entry| tests_in(&entry.path(), found));
}

fn alerts(rules: Vec<Rule>, capture: &Path, complete_only: bool) -> Option<BTreeMap<u64, u64>> {
    let program = RuleProgram::of(rules, &Classes::default(), &Tunings::default(), |_| Ok(()));
    if !program.unsupported().is_empty() {
        return None;
    }
    let detection = Detection::new(Arc::new(program));
    let detection = if complete_only { detection.with_complete_connections_only() } else { detection };
    let mut found = BTreeMap::new();
    // Damaged captures are read as far as they can be.
    let _ = run(&detection, "", &mut CaptureReader::open(&[capture]), |alert| {
        *found.entry(alert.sid).or_default() += 1
    });
    Some(found)
}

impl Expected {
    fn agrees(&self, found: &BTreeMap<u64, u64>) -> bool {
        let agree = self.alerts.iter().all(|(sid, count)| {
            let got = found.get(sid).copied().unwrap_or(0);
            if self.at_least && *count > 0 { got >= *count } else { got == *count }
        });
        let total: u64 = found.values().sum();
        agree && (!self.alerts.is_empty() || self.alerts_total.is_none_or(|expected| expected == total))
    }
}

#[test]
fn alerts_are_those_that_suricata_expects() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/rules");
    let mut tests = vec![];
    tests_in(&root.join("tests"), &mut tests);
    if tests.is_empty() {
        eprintln!("skipped: {} is not there", root.display());
        return;
    }
    tests.sort();
    let (mut run, mut agree, mut differ) = (0, 0, vec![]);
    for test in tests {
        let text = std::fs::read_to_string(test.join("expect.json")).expect("it is there");
        let expected: Expected = serde_json::from_str(&text).expect("JSON");
        let Ok(text) = std::fs::read_to_string(test.join("test.rules")) else { continue };
        let parsed = parse(&text, 0, &Variables::default());
        let rules: Result<Vec<Rule>, _> = parsed.into_iter().map(|parsed| parsed.rule).collect();
        let (Ok(rules), false) = (rules, expected.own_configuration) else { continue };
        let complete_only = !expected.suricata_args.iter().any(|word| word.contains("midstream=true"));
        let capture = root.join("captures").join(&expected.capture);
        let Some(found) = alerts(rules, &capture, complete_only) else { continue };
        run += 1;
        match expected.agrees(&found) {
            true => agree += 1,
            false => differ.push(format!("{}: {:?}, expected {:?}", test.display(), found, expected.alerts)),
        }
    }
    assert!(run >= 300, "only {run} tests run");
    assert!(agree * 100 >= run * AGREE_MIN, "{agree} of {run} agree:\n{}", differ.join("\n"));
}
