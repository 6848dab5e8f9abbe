//! The list of explained differences: `known.tsv`, one per line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A difference: file, category, description.
pub type Difference = (String, String, String);

/// Differences and their reasons.
pub struct Known {
    reasons: BTreeMap<Difference, String>,
}

const HEAD: &str = "# file\tcategory\twhat\treason (its class first)";
const UNEXPLAINED: &str = "UNEXPLAINED";

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/conformance/known.tsv"))
}

impl Known {
    /// Reads the list.
    pub fn read() -> Self {
        let text = std::fs::read_to_string(path()).unwrap_or_default();
        let mut reasons = BTreeMap::new();
        for line in text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
            let parts: Vec<&str> = line.split('\t').collect();
            let [file, category, what, reason] = parts[..] else {
                panic!("known.tsv: four columns, not: {line}")
            };
            reasons.insert((file.to_string(), category.to_string(), what.to_string()), reason.to_string());
        }
        Self { reasons }
    }

    /// Whether a difference is explained.
    pub fn explains(&self, difference: &Difference) -> bool {
        self.reasons.get(difference).is_some_and(|reason| reason != UNEXPLAINED)
    }

    /// The reason of a difference; empty if there is none.
    pub fn reason(&self, difference: &Difference) -> &str {
        self.reasons.get(difference).map_or("", String::as_str)
    }

    /// The class of its reason: the text before the colon.
    pub fn class(&self, difference: &Difference) -> &str {
        let reason = self.reason(difference);
        reason.split(':').next().unwrap_or(reason)
    }

    /// Listed differences that were not found.
    pub fn stale(&self, found: &BTreeSet<Difference>) -> Vec<&Difference> {
        self.reasons.keys().filter(|d| !found.contains(*d)).collect()
    }

    /// Rewrites the list. Differences of the same file and category keep their reasons.
    pub fn bless(&self, found: &BTreeSet<Difference>) {
        let mut text = format!("{HEAD}\n");
        for difference in found {
            let (file, category, what) = difference;
            let same = |d: &&Difference| d.0 == *file && d.1 == *category;
            let old = self
                .reasons
                .get(difference)
                .or_else(|| self.reasons.keys().find(same).map(|d| &self.reasons[d]));
            let reason = old.map_or(UNEXPLAINED, String::as_str);
            text.push_str(&format!("{file}\t{category}\t{what}\t{reason}\n"));
        }
        std::fs::write(path(), text).expect("the project can be written to");
    }
}
