//! Any bytes as rules of Suricata.

use regex_automata::nfa::thompson::{self, pikevm::PikeVM};
use regex_automata::{Anchored, Input, util::syntax};
use std::ops::Range;
use weir_rules::{
    Classes, Coverage, Expressions, Inspector, Pcre, References, RuleFile, Tunings, Variables, load, parse,
};

/// Rules of an input that inspect its payload.
const RULES_MAX: usize = 64;
/// Bytes of the payload.
const PAYLOAD_BYTES_MAX: usize = 2048;
/// Searches for expressions in one input, and the memory of one expression: both bound the time.
const SEARCHES_MAX: u32 = 200;
const EXPRESSION_BYTES_MAX: usize = 64 << 10;

/// Reads any bytes as rules, and as each kind of settings. Every refusal has a place and a text. Reading on
/// threads finds the same as reading line by line. Accepted rules inspect what follows the first zero byte,
/// else the text itself, and end.
///
/// # Panics
/// If this does not hold.
pub fn fuzz_rules(bytes: &[u8]) {
    let (text, payload) = match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, bytes),
    };
    let text = String::from_utf8_lossy(text);
    let payload = &payload[..payload.len().min(PAYLOAD_BYTES_MAX)];
    let variables = settings(&text);
    let parsed = parse(&text, 0, &variables);
    let set = load(&[RuleFile { name: "fuzz.rules", text: &text }], &variables, 1);
    let refused = parsed.iter().filter(|one| one.rule.is_err()).count();
    assert_eq!(refused, set.refusals.len());
    assert_eq!(parsed.len() - refused, set.rules.len() + set.replaced.len());
    for refused in &set.refusals {
        assert!(refused.refusal.diagnostic.is_error() && !refused.refusal.diagnostic.spans.is_empty());
        let said = refused.render(true);
        assert!(said.contains("fuzz.rules") && !refused.position().is_empty(), "{said}");
    }
    assert!(!Coverage::of(&set).to_string().is_empty());
    let mut searches = 0;
    for listed in set.rules.iter().take(RULES_MAX) {
        for inspection in &listed.rule.inspections {
            let expressions = Searches { count: &mut searches };
            let mut inspector = Inspector::new(payload, listed.rule.variables.len(), expressions);
            inspector.inspect(&inspection.tests);
        }
    }
}

/// The text as each kind of settings. Returns the variables.
fn settings(text: &str) -> Variables {
    let mut variables = Variables::default();
    let mut wrong = variables.read_toml(text, 0);
    wrong.extend(variables.read_yaml(text, 0));
    wrong.extend(Classes::default().read(text, 0));
    wrong.extend(References::default().read(text, 0));
    wrong.extend(Tunings::default().read(text, 0, &variables));
    for one in wrong {
        let (span, _) = one.spans[0];
        assert!(span.start <= span.end && span.end as usize <= text.len(), "{one:?}");
        assert!(
            text.is_char_boundary(span.start as usize) && text.is_char_boundary(span.end as usize),
            "{one:?}"
        );
    }
    variables
}

/// Compiles an expression for each search: an accepted one compiles, or is too large.
struct Searches<'s> {
    count: &'s mut u32,
}

impl Expressions for Searches<'_> {
    fn find(&mut self, pcre: &Pcre, bytes: &[u8], from: usize, anchored: bool) -> Option<Range<usize>> {
        *self.count += 1;
        if *self.count > SEARCHES_MAX || pcre.needs_backtracking {
            return None;
        }
        let syntax = syntax::Config::new()
            .case_insensitive(pcre.nocase)
            .dot_matches_new_line(pcre.dot_all)
            .multi_line(pcre.multi_line)
            .ignore_whitespace(pcre.extended)
            .swap_greed(pcre.ungreedy)
            .octal(true)
            .unicode(false)
            .utf8(false);
        let size = thompson::Config::new().nfa_size_limit(Some(EXPRESSION_BYTES_MAX));
        let regex = match PikeVM::builder().syntax(syntax).thompson(size).build(&pcre.pattern) {
            Ok(regex) => regex,
            Err(error) => {
                assert!(error.size_limit().is_some(), "{pcre:?}: {error}");
                return None;
            }
        };
        let anchored = if anchored { Anchored::Yes } else { Anchored::No };
        let input = Input::new(bytes).range(from.min(bytes.len())..).anchored(anchored);
        regex.find_iter(&mut regex.create_cache(), input).next().map(|found| found.range())
    }
}
