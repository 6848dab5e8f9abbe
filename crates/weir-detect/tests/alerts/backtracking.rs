//! Rules with look-around and back-references. Without the feature `pcre2`, they are not run.

use crate::support::rules;
use weir_detect::RuleProgram;
use weir_rules::{Classes, Tunings};

const RULES: &str = "\
    alert udp any any -> any 9 (content:\"user\"; pcre:\"/user=(\\w+)&pass=\\1$/\"; sid:1;)\n\
    alert udp any any -> any 9 (content:\"user\"; pcre:\"/user=(?!root)/\"; sid:2;)\n\
    alert udp any any -> any 9 (content:\"user\"; pcre:\"/^(a+)+(?=b)c/\"; sid:3;)\n";

#[test]
fn they_run_with_the_feature_alone() {
    let program = RuleProgram::of(rules(RULES), &Classes::default(), &Tunings::default(), |_| Ok(()));
    let expected = if cfg!(feature = "pcre2") { 0 } else { 3 };
    assert_eq!(program.unsupported().len(), expected, "{:?}", program.unsupported());
}

#[cfg(feature = "pcre2")]
mod with_pcre2 {
    use super::*;
    use crate::support::{listed, packet, program};
    use std::sync::Arc;
    use weir_detect::Detection;
    use weir_testing::frames::udp;

    fn alerts(payload: &[u8]) -> Vec<u64> {
        let detection = Detection::new(Arc::new(program(RULES)));
        let found = listed(&detection, &[packet(1, true, 17, &udp((1, 9), payload))]);
        found.into_iter().map(|alert| alert.sid).collect()
    }

    #[test]
    fn they_match_as_in_perl() {
        assert_eq!(alerts(b"user=bob&pass=bob"), [1, 2]);
        assert_eq!(alerts(b"user=bob&pass=eve"), [2]);
        assert_eq!(alerts(b"user=root&pass=x"), [0; 0]);
    }

    #[test]
    fn a_search_ends_at_its_limits() {
        let payload = [&[b'a'; 60][..], b"user"].concat();
        assert_eq!(alerts(&payload), [0; 0]);
    }
}
