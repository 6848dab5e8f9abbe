//! Rules as a whole: what they say, and what mistakes say.

use crate::{
    Amount, BufferId, FastPattern, Parsed, Rule, SessionValue, Test, Track, Transform, Variables, parse,
};
use proptest::prelude::*;

fn rule(text: &str) -> Rule {
    let mut all = parse(text, 0, &Variables::default());
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0).rule.unwrap_or_else(|refusal| panic!("{text}: {:?}", refusal.diagnostic))
}

fn refusal(options: &str) -> (String, String) {
    let text = format!("alert tcp any any -> any any ({options} sid:7;)");
    match parse(&text, 0, &Variables::default()).remove(0) {
        Parsed { rule: Err(refusal), .. } => {
            assert_eq!(refusal.sid, Some(7), "{options}");
            let span = refusal.diagnostic.spans[0].0;
            (refusal.diagnostic.message, text[span.start as usize..span.end as usize].to_string())
        }
        Parsed { rule: Ok(rule), .. } => panic!("{options}: {rule:?}"),
    }
}

#[test]
fn older_words_and_sticky_buffers_say_the_same() {
    let older = rule(
        r#"alert http $HOME_NET any -> $EXTERNAL_NET any (msg:"a\; b"; content:"GET"; http_method; content:"/x|2e|php"; http_uri; nocase; fast_pattern; content:"id="; distance:0; http_uri; sid:1; rev:2;)"#,
    );
    let sticky = rule(
        r#"alert http $HOME_NET any -> $EXTERNAL_NET any (msg:"a\; b"; http.method; content:"GET"; http.uri; content:"/x.php"; nocase; fast_pattern; content:"id="; distance:0; sid:1; rev:2;)"#,
    );
    assert_eq!(older, sticky);
    assert_eq!((older.message.as_str(), older.sid, older.rev), ("a; b", 1, 2));
    let uri = older
        .inspections
        .iter()
        .find(|one| Some(one.buffer) == BufferId::of("http.uri"))
        .expect("the buffer");
    let [Test::Content(first), Test::Content(second)] = &uri.tests[..] else { panic!("{uri:?}") };
    assert_eq!(
        (first.bytes.as_slice(), first.nocase, first.fast),
        (&b"/x.php"[..], true, Some(FastPattern::Whole))
    );
    assert_eq!(second.distance, Some(Amount::Number(0)));
}

#[test]
fn variables_transforms_and_thresholds_are_understood() {
    let made = rule(
        r#"alert tcp any any <> any [80,8000:8100] (flow:established,to_server; content:"A"; byte_extract:2,0,length,relative,little; isdataat:!length,relative; byte_test:4,!>,1000,length,relative; threshold:type limit, track by_src, count 1, seconds 60; flowbits:isset,a|b; sid:3;)"#,
    );
    assert_eq!(made.variables, ["length"]);
    assert_eq!((made.flow.established, made.flow.to_server), (Some(true), Some(true)));
    assert_eq!((made.thresholds[0].track, made.thresholds[0].seconds), (Track::Source, 60));
    assert!(made.destination.ports.has(8050) && !made.destination.ports.has(8101));
    let [_, Test::ByteExtract(extract), Test::IsDataAt(at), Test::ByteTest(test)] =
        &made.inspections[0].tests[..]
    else {
        panic!("{made:?}")
    };
    assert!(extract.number.little && extract.number.relative);
    assert_eq!((at.at, at.negated), (Amount::Variable(0), true));
    assert_eq!((test.number.offset, test.negated), (Amount::Variable(0), true));
    let made = rule(
        r#"alert dns any any -> any any (dns.query; dotprefix; content:".example.com"; endswith; sid:4;)"#,
    );
    assert_eq!(made.inspections[0].transforms, [Transform::DotPrefix]);
}

#[test]
fn forms_are_those_of_the_guide() {
    let made = rule(
        r#"alert dns any any -> any any (dns.query; content:"example"; dns.query; content:".com"; sid:1;)"#,
    );
    assert_eq!(made.inspections.len(), 2, "two queries");
    let made = rule(
        r#"alert http any any -> any any (http.uri; content:"a"; http.method; content:"b"; http.uri; content:"c"; urilen:10<>20,raw; sid:1;)"#,
    );
    assert_eq!(made.inspections.len(), 2, "one address");
    let SessionValue::Numbers(numbers) = &made.session[0].test else { panic!("{made:?}") };
    assert!(numbers[0].holds(11) && !numbers[0].holds(10) && !numbers[0].holds(20));
    assert_eq!(made.session[0].qualifiers, ["raw"]);
    let made = rule("alert dcerpc any any -> any any (dcerpc.opnum:12,18-24,5; sid:1;)");
    let SessionValue::Numbers(numbers) = &made.session[0].test else { panic!("{made:?}") };
    let holds: Vec<u64> = (0..30).filter(|number| numbers.iter().any(|test| test.holds(*number))).collect();
    assert_eq!(holds, [5, 12, 18, 19, 20, 21, 22, 23, 24]);
    let made = rule(r#"alert tls any any -> any any (tls.subject:"C=US, CN=x"; sid:1;)"#);
    assert_eq!(made.session[0].test, SessionValue::Text { text: "C=US, CN=x".to_string(), negated: false });
    for (requires, holds) in [
        ("version >= 7.0.4 < 8 | >= 8.0.3", false),
        ("version >= 7.0.4 < 8 | >= 8", true),
        ("keyword http.uri", true),
        ("keyword foobar", false),
        ("feature ja4", true),
        ("feature foobar", false),
        ("keyword lua", false),
    ] {
        let text = format!("alert ip any any -> any any (requires:{requires}; sid:1;)");
        assert_eq!(parse(&text, 0, &Variables::default())[0].rule.is_ok(), holds, "{requires}");
    }
}

#[test]
fn mistakes_are_marked_and_have_a_reason() {
    for (options, message, marked) in [
        ("contnet:\"a\";", "the keyword `contnet` is not known", "contnet"),
        ("nocase;", "`nocase` is about the content before, and there is none", "nocase"),
        ("content:\"a|4|\";", "a hexadecimal byte has two digits", "4"),
        ("content:a;", "`content`: the value is no text in quotes", "a"),
        ("pcre:\"/(/\";", "`pcre`: unclosed group", "\"/(/\""),
        ("flow:estblished;", "`flow`: there is no word `estblished`", "estblished"),
        (
            "dsize:x;",
            "`dsize`: `x` is no comparison: write for example `300`, `>300`, `!300` or `300<>400`",
            "x",
        ),
        (
            "content:\"abc\"; depth:2;",
            "the content is longer than the bytes in which it is searched",
            "depth:2",
        ),
        ("content:\"abc\"; startswith; distance:0;", "`startswith` says where the content is", "distance:0"),
        ("content:\"a\"; depth:lenght;", "`depth`: `lenght` is no number", "lenght"),
        (
            "threshold:type limit, track by_src, count 1;",
            "`threshold`: `seconds` is missing",
            "type limit, track by_src, count 1",
        ),
    ] {
        let (said, place) = refusal(options);
        assert_eq!(said, message, "{options}");
        assert_eq!(place, marked, "{options}");
    }
}

#[test]
fn what_weir_does_not_have_is_refused_with_the_reason() {
    for (header, options, message) in [
        ("alert nfs", "", "`nfs`: Weir does not parse NFS yet"),
        (
            "alert tcp:flow_start",
            "",
            "`tcp:flow_start`: Weir does not run rules at a hook (`flow_start`) of `tcp`",
        ),
        (
            "accept:hook tcp:all",
            "",
            "`accept:hook` is an action of firewall rules: Weir observes traffic, and has no policy that drops",
        ),
        ("alert tcp", "frame:http.request;", "`frame`: Weir has no frames of protocols"),
        ("alert tcp", "ldap.request.dn; content:\"a\";", "`ldap.request.dn`: Weir does not parse LDAP yet"),
    ] {
        let text = format!("{header} any any -> any any ({options} sid:1;)");
        let refusal = parse(&text, 0, &Variables::default()).remove(0).rule.expect_err(&text);
        assert_eq!((refusal.diagnostic.code, refusal.diagnostic.message.as_str()), ("W0210", message));
    }
}

/// A rule with a hundred thousand options takes no time, and neither do parentheses in an expression.
#[test]
fn long_rules_are_refused() {
    let options: String =
        (0..100_000).map(|number| format!("http.uri; xor:\"{number:06x}\"; content:\"a\"; ")).collect();
    let text = format!("alert tcp any any -> any any ({options} sid:1;)");
    let refusal = parse(&text, 0, &Variables::default()).remove(0).rule.expect_err("too long");
    assert_eq!(refusal.diagnostic.message, "the rule has more than 65536 bytes");
    let deep = "(".repeat(4000) + &")".repeat(4000);
    let text = format!("alert tcp any any -> any any (pcre:\"/{deep}/\"; sid:1;)");
    assert!(parse(&text, 0, &Variables::default())[0].rule.is_err());
}

#[test]
fn quotes_of_expressions_may_be_missing() {
    for text in ["\"/a b/i\"", "/a b/i", "/a b/i\"", "!\"/a b/i\""] {
        let made = rule(&format!("alert tcp any any -> any any (pcre:{text}; sid:1;)"));
        let Test::Pcre(pcre) = &made.inspections[0].tests[0] else { panic!("{made:?}") };
        assert_eq!((pcre.pattern.as_str(), pcre.nocase, pcre.negated), ("a b", true, text.starts_with('!')));
    }
}

#[test]
fn one_rule_is_refused_alone() {
    let text = "alert tcp any any -> any any (sid:1;)\nalert tpc any any -> any any (sid:2;)\n# alert\nalert udp any any -> any 53 (sid:3;)\n";
    let parsed = parse(text, 0, &Variables::default());
    let sids: Vec<_> = parsed
        .iter()
        .map(|one| match &one.rule {
            Ok(rule) => (one.line, Ok(rule.sid)),
            Err(refusal) => (one.line, Err(refusal.sid)),
        })
        .collect();
    assert_eq!(sids, [(1, Ok(1)), (2, Err(Some(2))), (4, Ok(3))]);
}

proptest! {
    /// Whatever is written, nothing panics.
    #[test]
    fn any_text_is_understood_or_refused(text in any::<String>(), options in "[ -~]{0,80}") {
        parse(&text, 0, &Variables::default());
        parse(&format!("alert tcp any any -> any any ({options})"), 0, &Variables::default());
    }

    /// The same for texts made of words of rules.
    #[test]
    fn words_of_rules_in_any_order_are_understood_or_refused(words in prop::collection::vec(prop::sample::select(WORDS), 0..20)) {
        parse(&format!("alert tcp any any -> any any ({})", words.concat()), 0, &Variables::default());
    }
}

const WORDS: &[&str] = &[
    "content:\"abc|00|\";",
    "nocase;",
    "depth:3;",
    "offset:-1;",
    "distance:x;",
    "within:5;",
    "http_uri;",
    "http.uri;",
    "to_lowercase;",
    "pcre:\"/a[b/U\";",
    "pcre:\"/a(b|c)*/Ri\";",
    "byte_extract:2,0,x;",
    "byte_jump:4,x,relative;",
    "isdataat:!x;",
    "fast_pattern:1,2;",
    "bsize:3<>5;",
    "flowbits:set,;",
    "\"",
    ";",
    "(",
    ")",
    "|",
    "\\",
    ":",
    "!",
    ",",
    "é",
    "tag:host,1,packets,src;",
    "threshold:type;",
    "base64_decode:bytes 3;",
    "base64_data;",
    "file_data;",
    "xor:\"0a\";",
    "dsize:>1;",
    "tcp.flags:+SA,C;",
    "sid:9;",
];
