//! Rules with look-around and back-references. Without the feature `pcre2`, they are not run.

use weir_detect::RuleProgram;
use weir_rules::{Classes, Rule, Tunings, Variables, parse};

fn rules(text: &str) -> Vec<Rule> {
    parse(text, 0, &Variables::default())
        .into_iter()
        .map(|parsed| parsed.rule.expect("it is right"))
        .collect()
}

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
    use std::sync::Arc;
    use weir::io::{MemoryPacket, MemorySource};
    use weir::packet::{Cell, Timestamp};
    use weir::{Compiler, Engine, Item, Next, Options, TakeItems};
    use weir_detect::{COLUMNS, Detection};
    use weir_testing::frames::{ethernet, ipv4, udp};

    struct Take<'t>(&'t mut Vec<u64>);

    impl TakeItems for Take<'_> {
        fn take(&mut self, _: usize, item: Item<'_>) -> Next {
            let Item::Rows(rows) = item else { return Next::Go };
            let sid = COLUMNS.iter().position(|column| column.name == "sid").expect("a column");
            for row in rows.iter() {
                let Cell::Unsigned(sid) = row.cell(sid) else { panic!("a number") };
                self.0.push(sid);
            }
            Next::Go
        }
    }

    fn alerts(payload: &[u8]) -> Vec<u64> {
        let program = RuleProgram::of(rules(RULES), &Classes::default(), &Tunings::default(), |_| Ok(()));
        let detection = Detection::new(Arc::new(program));
        let mut found = vec![];
        let compiler = Compiler::default();
        let questions = detection.questions(&compiler, "").expect("the fields are there");
        let mut engine = Engine::with(compiler, Options::default());
        engine.subscribe_questions(questions, Take(&mut found)).expect("no filter");
        let ends = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let bytes = ethernet(0x0800, &ipv4(ends, 17, 1, 0, &[], &udp((1, 9), payload)));
        let packet = MemoryPacket { time: Timestamp(1), ..MemoryPacket::ethernet(bytes) };
        engine.run(&mut MemorySource::new().then_packets([packet]), 1).expect("it compiles");
        drop(engine);
        found
    }

    #[test]
    fn they_match_as_in_perl() {
        assert_eq!(alerts(b"user=bob&pass=bob"), [1, 2]);
        assert_eq!(alerts(b"user=bob&pass=eve"), [2]);
        assert_eq!(alerts(b"user=root&pass=x"), []);
    }

    #[test]
    fn a_search_ends_at_its_limits() {
        let payload = [&[b'a'; 60][..], b"user"].concat();
        assert_eq!(alerts(&payload), []);
    }
}
