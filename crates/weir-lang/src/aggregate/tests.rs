//! Aggregates and mistakes in aggregates.

use super::*;
use crate::filter::{FieldInfo, Stage};
use weir_packet::ValueType;

struct Few(Vec<FieldInfo>);

impl Catalog for Few {
    fn fields(&self) -> &[FieldInfo] {
        &self.0
    }
}

fn fields() -> Few {
    let field = |name: &str, value_type| FieldInfo {
        name: name.to_string(),
        aliases: vec![],
        value_type,
        bits: 0,
        stage: Stage::Packet,
        doc: String::new(),
        is_protocol: name == "tcp",
        is_frame: false,
        key: 0,
    };
    Few(vec![
        field("frame.len", ValueType::Unsigned),
        field("ip.src", ValueType::Ipv4),
        field("ip.dst", ValueType::Ipv4),
        field("tcp.dstport", ValueType::Unsigned),
        field("tls.sni", ValueType::Text),
        field("dns.answers", ValueType::Texts),
        field("tcp", ValueType::Bool),
        field("conn.duration", ValueType::Interval),
    ])
}

const PAIR: Shorthand<'_> =
    Shorthand { word: "pair", ends: [&["ip.src"], &["ip.dst"]], rest: &["tcp.dstport"], is_two_way: false };
const HOSTS: Shorthand<'_> = Shorthand { word: "hosts", is_two_way: true, ..PAIR };

fn compiled(text: &str) -> Aggregate {
    compile(text, &fields(), &[PAIR, HOSTS]).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"))
}

/// The mistakes: code, text under the span, message, help.
fn mistakes(text: &str) -> Vec<String> {
    let wrong = compile(text, &fields(), &[PAIR, HOSTS]).expect_err(text);
    let shown = |one: &Diagnostic| {
        let span = one.spans[0].0;
        let under = &text[span.start as usize..(span.end as usize).min(text.len())];
        format!("{} `{under}` {}; {}", one.code, one.message, one.help.clone().unwrap_or_default())
    };
    wrong.iter().map(shown).collect()
}

#[test]
fn measures_keys_and_windows_are_understood() {
    let made = compiled(
        "count(), sum(frame.len) as bytes, distinct(ip.src) by ip.dst/24, tcp.dstport every 10s top 20",
    );
    let names: Vec<&str> = made.measures.iter().map(|measure| measure.name.as_str()).collect();
    assert_eq!(names, ["count", "bytes", "distinct_ip_src"]);
    assert_eq!(made.measures[1].field, Some(0));
    let keys: Vec<_> = made.keys.iter().map(|key| (key.field, key.prefix, key.name.as_str())).collect();
    assert_eq!(keys, [(2, Some(24), "ip.dst/24"), (3, None, "tcp.dstport")]);
    assert_eq!(made.window, Some(Window { length_ns: 10_000_000_000, step_ns: 10_000_000_000 }));
    assert_eq!(made.top, Some(Top { rows: 20, by: 0 }));
    let made = compiled("COUNT() over 1m every 10s by pair");
    assert_eq!(made.window, Some(Window { length_ns: 60_000_000_000, step_ns: 10_000_000_000 }));
    assert_eq!(made.keys.len(), 3);
}

#[test]
fn a_word_for_several_keys_says_which_belong_to_an_end() {
    let keys = |text: &str| -> Vec<(usize, Option<End>)> {
        compiled(text).keys.iter().map(|key| (key.field, key.end)).collect()
    };
    assert_eq!(keys("count() by pair"), [(1, None), (2, None), (3, None)]);
    let hosts = [(1, Some(End::Sender)), (2, Some(End::Receiver)), (3, None)];
    assert_eq!(keys("count() by Hosts"), hosts);
    assert_eq!(keys("count() by frame.len, hosts")[1..], hosts);
    assert_eq!(
        mistakes("count() by hosts, hosts"),
        ["W0134 `hosts` a key has the ends of one connection; leave `hosts` out",]
    );
}

#[test]
fn bounds_of_intervals_are_times() {
    let made = compiled("histogram(conn.duration, 0.5, 1, 90s), histogram(frame.len, 64, 1500)");
    let functions: Vec<_> = made.measures.iter().map(|measure| measure.function.clone()).collect();
    assert_eq!(
        functions,
        [
            Function::Histogram(vec![500_000_000, 1_000_000_000, 90_000_000_000]),
            Function::Histogram(vec![64, 1500])
        ]
    );
}

#[test]
fn conditions_name_measures_or_state_them() {
    let made = compiled(
        "count() as n by ip.src having n > 10 and sum(frame.len) >= 1000 or not median(conn.duration) < 0.5",
    );
    let condition = Condition::Any(vec![
        Condition::All(vec![
            Condition::Is(0, Comparison::Greater, 10.0),
            Condition::Is(1, Comparison::AtLeast, 1000.0),
        ]),
        Condition::Not(Box::new(Condition::Is(2, Comparison::Less, 0.5e9))),
    ]);
    assert_eq!(made.having, Some(condition));
    assert_eq!(made.measures.iter().map(|one| one.is_hidden).collect::<Vec<_>>(), [false, true, true]);
    let made = compiled("count() top 5 by sum(frame.len) by ip.src");
    assert_eq!((made.top, made.keys.len()), (Some(Top { rows: 5, by: 1 }), 1));
    // `by` after `top` may also be the key.
    let made = compiled("count() top 5 by ip.src");
    assert_eq!((made.top, made.keys.len()), (Some(Top { rows: 5, by: 0 }), 1));
    // A rate of intervals is seconds per second.
    let made =
        compiled("rate(conn.duration) as r, max(conn.duration) as d having r > 0.5 and d > 1.5 and d < 0x10");
    let condition = Condition::All(vec![
        Condition::Is(0, Comparison::Greater, 0.5),
        Condition::Is(1, Comparison::Greater, 1.5e9),
        Condition::Is(1, Comparison::Less, 16e9),
    ]);
    assert_eq!(made.having, Some(condition));
    let made =
        compiled("count() as n, sum(frame.len) as b by ip.src top 5 by b having max(conn.duration) > 90s");
    assert_eq!(made.top, Some(Top { rows: 5, by: 1 }));
    assert_eq!(made.having, Some(Condition::Is(2, Comparison::Greater, 90e9)));
}

#[test]
fn mistakes_are_underlined_with_what_to_write() {
    for (text, expected) in [
        ("avg(frame.len)", "W0130 `avg` there is no function `avg`; did you mean `mean(field)`?"),
        (
            "cuont()",
            "W0130 `cuont` there is no function `cuont`; did you mean `count()`, or `count(field)` for records that have the field?",
        ),
        ("sum()", "W0131 `sum()` `sum` needs a field; write `sum(field)`"),
        (
            "sum(tls.sni)",
            "W0131 `tls.sni` `sum` cannot be computed of `tls.sni`, which is a text; `distinct(tls.sni)` counts its different values, `by tls.sni` groups by them",
        ),
        (
            "count() by frame.length",
            "W0106 `frame.length` there is no field `frame.length`; `weir fields frame` lists what there is",
        ),
        (
            "count() by dns.answers",
            "W0134 `dns.answers` records cannot be grouped by `dns.answers`, which is a list; a key has one value for each record",
        ),
        (
            "count() by ip.src/33",
            "W0134 `ip.src/33` `/33` is no prefix of `ip.src`; its addresses have 32 bits",
        ),
        ("count() every 0s", "W0133 `0s` a window without length; for example 500ms, 10s, 5m, 1h"),
        (
            "count() over 25s every 10s",
            "W0133 `25s` the length of the window is no multiple of its step; for example `over 60s every 10s`",
        ),
        (
            "count() over 25s",
            "W0133 `25s` `over` needs `every`; write `over 25s every TIME`, for example `over 25s every 10s`",
        ),
        ("count() group by ip.src", "W0132 `group` `group` begins no clause; write `by`"),
        (
            "count() by ip.src having n > 1",
            "W0132 `n` there is no measure `n`; there are count; a field is in a function, as in `max(n)`",
        ),
        ("count() top 0", "W0132 `0` `0` is no number of groups; for example `top 20`"),
        (
            "quantile(frame.len, 95)",
            "W0131 `95` a share is between 0 and 1, and not 95; write `quantile(field, 0.95)`",
        ),
        (
            "count(), count()",
            "W0135 `count()` two columns are called `count`; name one of them: `sum(frame.len) as bytes`",
        ),
        (
            "count by ip.src",
            "W0104 `by` `(` after `count` is missing before `by`; write `count()`, with the field in the parentheses if there is one",
        ),
        (
            "",
            "W0104 `` a function is missing before the end; for example `count(), sum(frame.len) by ip.src`",
        ),
        ("count() every 10s every 5s", "W0132 `every` `every` is stated twice; "),
        (
            "count() as other",
            "W0135 `count()` the rows of aggregates have a column `other` already; name one of them: `sum(frame.len) as bytes`",
        ),
        (
            "histogram(frame.len) as h, count() as h_from",
            "W0135 `count()` two columns are called `h_from`; name one of them: `sum(frame.len) as bytes`",
        ),
        (
            "histogram(frame.len, 0.5)",
            "W0131 `0.5` the bound 0.5 is no whole number; bounds are whole numbers, each larger than the one before",
        ),
        (
            "histogram(frame.len, 64, 64)",
            "W0131 `64` the bound 64 is too small; bounds are whole numbers, each larger than the one before",
        ),
        (
            "histogram(frame.len) top 5",
            "W0131 `5` `histogram_frame_len` is no number, and cannot be compared; ",
        ),
        ("count() having count() > 5s", "W0109 `5s` `5s` is a time, and is compared with a number; "),
    ] {
        assert_eq!(mistakes(text).first().map(String::as_str), Some(expected), "{text}");
    }
    let several = mistakes("avg(frame.len), sum(ip.src) by ip.sorce every soon");
    assert_eq!(several.len(), 4, "{several:?}");
}

#[test]
fn no_text_is_too_much() {
    for text in [
        "count() having ".to_string() + &"(".repeat(10_000),
        "count(),".repeat(1_000),
        "((((".to_string(),
        "sum(sum(sum(".to_string(),
    ] {
        assert!(compile(&text, &fields(), &[]).is_err());
    }
}

#[test]
fn a_filter_follows_the_word_where() {
    for (text, parts) in [
        ("count() by ip.src", ("count() by ip.src", "")),
        ("count() every 1s where tcp.flags.syn == 1", ("count() every 1s", "tcp.flags.syn == 1")),
        ("count() every 1s  WHERE\ttcp", ("count() every 1s", "tcp")),
        // Neither a name nor a text is the clause.
        ("count() as where_all by ip.src", ("count() as where_all by ip.src", "")),
        ("count() where tls.sni contains \" where \"", ("count()", "tls.sni contains \" where \"")),
        ("count() where tcp matches \"a\" and x where y", ("count()", "tcp matches \"a\" and x where y")),
    ] {
        assert_eq!(split_filter(text), parts, "{text}");
    }
}
