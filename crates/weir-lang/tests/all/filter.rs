//! Filetests (`filetests/filter`) and properties of the whole path from text to terms.

use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::path::Path;
use weir_lang::diag::{Diagnostic, Severity};
use weir_lang::filter::ast::{Expr, Literal, Predicate};
use weir_lang::filter::{self, Filter, Op, Stage, compile, compile_bpf};
use weir_packet::LinkType;
use weir_testing::language::{SampleCatalog, fuzz_filter};

/// The compiled filter, or its diagnostics.
fn outcome(language: &str, text: &str) -> String {
    let catalog = SampleCatalog::new();
    let result = match language {
        "bpf" => compile_bpf(text, &catalog),
        _ => compile(text, &catalog),
    };
    let mut out = String::new();
    match result {
        Ok(filter) => {
            writeln!(out, "expr  {}", filter.expr.display(&catalog)).unwrap();
            match &filter.expr {
                Expr::Predicate(Predicate { literals, .. }) => write_frame_test(&mut out, literals),
                _ => write_terms(&mut out, &filter, &catalog),
            }
            filter.warnings.iter().for_each(|warning| write_diagnostic(&mut out, text, warning));
        }
        Err(list) => list.iter().for_each(|diagnostic| write_diagnostic(&mut out, text, diagnostic)),
    }
    out.lines().fold(String::new(), |all, line| all + line.trim_end() + "\n")
}

fn write_terms(out: &mut String, filter: &Filter, catalog: &SampleCatalog) {
    for term in &filter.terms {
        let parts: Vec<String> =
            term.predicates.iter().map(|&i| filter.predicates[i].display(catalog).to_string()).collect();
        let shown = if parts.is_empty() { "(always)".to_string() } else { parts.join(" | ") };
        writeln!(out, "term  {shown}").unwrap();
    }
}

/// The test of an expression in the syntax of pcap-filter(7) on Ethernet frames.
fn write_frame_test(out: &mut String, literals: &[Literal]) {
    let [Literal::Frame(test)] = literals else { return };
    match test.of(LinkType::ETHERNET) {
        Some(test) => writeln!(out, "eth   {test}").unwrap(),
        None => writeln!(out, "eth   not on this link").unwrap(),
    }
}

fn write_diagnostic(out: &mut String, text: &str, diagnostic: &Diagnostic) {
    let severity = if diagnostic.severity == Severity::Error { "error" } else { "warning" };
    writeln!(out, "{severity}[{}]: {}", diagnostic.code, diagnostic.message).unwrap();
    let mut carets = String::new();
    for (index, _) in text.char_indices() {
        let under = |(span, _): &&(weir_lang::diag::Span, String)| {
            span.start as usize <= index && index < span.end as usize
        };
        carets.push(if diagnostic.spans.iter().any(|span| under(&span)) { '^' } else { ' ' });
    }
    if diagnostic.spans[0].0.start as usize >= text.len() {
        carets.push('^');
    }
    writeln!(out, "  {text}\n  {carets}").unwrap();
    if let Some(help) = &diagnostic.help {
        writeln!(out, "  help: {help}").unwrap();
    }
}

/// A file of cases: `> filter` or `bpf> filter`, followed by the expected result. `WEIR_BLESS=1` rewrites it.
fn run_file(path: &Path) -> Result<usize, String> {
    let old = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut new = String::new();
    let mut cases = 0;
    for line in old.lines() {
        let case = line.strip_prefix("> ").map(|text| ("display", text));
        let case = case.or_else(|| line.strip_prefix("bpf> ").map(|text| ("bpf", text)));
        let empty = match line {
            ">" => Some(("display", "")),
            "bpf>" => Some(("bpf", "")),
            _ => None,
        };
        if let Some((language, text)) = case.or(empty) {
            cases += 1;
            new += &format!("\n{line}\n{}", outcome(language, text));
        } else if line.starts_with('#') {
            new += &format!("{line}\n");
        }
    }
    if !old.starts_with("# ") {
        return Err(format!("{}: the first line is `# ` and one sentence", path.display()));
    }
    if old == new {
        return Ok(cases);
    }
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(path, new).map_err(|error| error.to_string())?;
        return Ok(cases);
    }
    let differs = old.lines().zip(new.lines()).position(|(a, b)| a != b).unwrap_or(0);
    let shown = |text: &str| text.lines().skip(differs).take(6).collect::<Vec<_>>().join("\n  ");
    Err(format!(
        "{} differs from line {} on (WEIR_BLESS=1 accepts):\nwas\n  {}\nis\n  {}",
        path.display(),
        differs + 1,
        shown(&old),
        shown(&new)
    ))
}

#[test]
fn filetests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/filter");
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let results: Vec<_> = paths.iter().map(|path| run_file(path)).collect();
    let wrong: Vec<_> = results.iter().filter_map(|result| result.as_ref().err().cloned()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let cases: usize = results.iter().flatten().sum();
    assert!(cases >= 40, "{cases} cases");
}

/// A small generator with a printed seed.
struct Random(u64);

impl Random {
    /// `WEIR_SEED` repeats a run.
    fn new(test: &str) -> Random {
        let seed = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            now.as_nanos() as u64
        });
        eprintln!("{test}: WEIR_SEED={seed}");
        Random(seed | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }
}

const TESTS: &[&str] = &[
    "tcp",
    "udp",
    "tls",
    "tcp.port == 443",
    "tcp.port != 443",
    "tcp.port in {80, 443, 8000-8080}",
    "ip.addr == 10.0.0.0/8",
    "ip.src in {1.2.3.4, 10.0.0.0/8, 1.2.3.0..1.2.3.9}",
    "ipv6.dst == 2001:db8::/32",
    "ip.ttl < 5",
    "tcp.flags & 0x12",
    "tcp.flags & 0x12 == 2",
    "tcp.flags.syn",
    "tcp.options.mss",
    "eth.src[0:3] == 00:1b:21",
    "eth.src[0] & 1 != 0",
    "eth.addr == ff:ff:ff:ff:ff:ff",
    "tcp[13] & 3 == 1",
    "tls.sni contains \"exa\\\"mple\"",
    "http.host ~ \"\\.com$\"",
    "conn.duration > 100ms",
    "frame.time >= \"2026-11-21 02:00:00.25\"",
    "conn.orig_addr in {::1, 10.0.0.0/8}",
    "tls.random contains 0a:ff",
    "dns.qry.name == \"a\"",
    "tls.ciphers in {1..5, 9}",
    "tls.resumed == 0",
    "tls.random[0:12] == \"twelve bytes\"",
    "ip.options[1:2] > 300",
    "not tls.sni in {\"b\", \"a\"}",
    "tls.random not contains 00",
    "eth.src contains aa:bb",
];

const BPF_TESTS: &[&str] = &[
    "tcp",
    "ip",
    "icmp6",
    "host 1.2.3.4",
    "src and dst host 1.2.3.4",
    "net 10",
    "net 10.1.0.0 mask 255.255.0.0",
    "host ::1",
    "ip6 net 2001:db8::/32",
    "port 80",
    "tcp src port https",
    "udp portrange 10-20",
    "port (80 or 443)",
    "ether host aa:bb:cc:dd:ee:ff",
    "ip proto \\udp",
    "vlan 5",
    "ip protochain 6",
    "len * 2 % 3 > ip[0:2] - 4",
    "tcp[((tcp[12] & 0xf0) >> 2):4] = 0x47455420",
    "less 100",
    "len > 100",
    "broadcast",
    "ip6 multicast",
    "tcp[tcpflags] & (tcp-syn|tcp-ack) != 0",
    "tcp[13] == 2",
    "ip[0] >> 4 > 4",
    "ip[2:2] & 0xff < 9",
    "icmp[icmptype] = icmp-echo",
    "ether[0] & 1 != 0",
    "(ip[8] & 3) <= 1",
    "5 > ip[8]",
];

fn random_filter(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 1 } else { 5 }) {
        0 | 1 => TESTS[random.below(TESTS.len())].to_string(),
        2 => format!("not ({})", random_filter(random, depth - 1)),
        3 => format!("({}) and ({})", random_filter(random, depth - 1), random_filter(random, depth - 1)),
        _ => format!("({}) or ({})", random_filter(random, depth - 1), random_filter(random, depth - 1)),
    }
}

/// Evaluates `expr`, with the values of positive predicates from `truth`.
fn evaluate(expr: &Expr, truth: &dyn Fn(&Predicate) -> bool) -> bool {
    match expr {
        Expr::True => true,
        Expr::Predicate(predicate) => truth(predicate),
        Expr::And(parts) => parts.iter().all(|part| evaluate(part, truth)),
        Expr::Or(parts) => parts.iter().any(|part| evaluate(part, truth)),
    }
}

#[test]
fn terms_mean_what_the_expression_means() {
    let mut random = Random::new("terms_mean_what_the_expression_means");
    let catalog = SampleCatalog::new();
    for _ in 0..1_000 {
        let text = random_filter(&mut random, 4);
        let Ok(filter) = compile(&text, &catalog) else { continue };
        for round in 0..20u64 {
            let truth = |predicate: &Predicate| coins(predicate, round) != predicate.negated;
            let by_terms = filter
                .terms
                .iter()
                .any(|term| term.predicates.iter().all(|&index| truth(&filter.predicates[index])));
            assert_eq!(evaluate(&filter.expr, &truth), by_terms, "{text}");
        }
        for term in &filter.terms {
            let stages: Vec<Stage> = term
                .predicates
                .iter()
                .map(|&index| filter::Catalog::fields(&catalog)[filter.predicates[index].field].stage)
                .collect();
            assert!(stages.is_sorted(), "{text}");
        }
    }
}

/// The value of a predicate, without negation, in one of many random worlds: one random bit per comparison;
/// if one of several literals suffices, one bit for each of them.
fn coins(predicate: &Predicate, world: u64) -> bool {
    let coin = |op: Op, literals: Vec<Literal>| {
        let mut hasher = std::hash::DefaultHasher::new();
        (world, predicate.field, predicate.slice, predicate.mask, op, literals).hash(&mut hasher);
        hasher.finish() % 2 == 1
    };
    match (predicate.op, &predicate.literals[..]) {
        (Op::Eq | Op::In, all) => all.iter().any(|literal| coin(Op::Eq, vec![literal.clone()])),
        (Op::Matches, [Literal::Text(text)]) => {
            let mut parts =
                text.split("|(?:").map(|part| part.trim_start_matches("(?:").trim_end_matches(')'));
            parts.any(|part| coin(Op::Matches, vec![Literal::Text(part.into())]))
        }
        (op, all) => coin(op, all.to_vec()),
    }
}

#[test]
fn what_is_printed_parses_to_the_same() {
    let mut random = Random::new("what_is_printed_parses_to_the_same");
    let catalog = SampleCatalog::new();
    for test in TESTS {
        assert!(compile(test, &catalog).is_ok(), "{test}: {:?}", compile(test, &catalog));
    }
    for test in BPF_TESTS {
        assert!(compile_bpf(test, &catalog).is_ok(), "{test}: {:?}", compile_bpf(test, &catalog));
    }
    for _ in 0..500 {
        fuzz_filter(random_filter(&mut random, 5).as_bytes());
        let mut text = "tcp".to_string();
        for _ in 0..random.below(9) {
            let test = BPF_TESTS[random.below(BPF_TESTS.len())];
            text = match random.below(4) {
                0 => format!("{text} and {test}"),
                1 => format!("{text} or {test}"),
                2 => format!("not ({text}) or not {test}"),
                _ => format!("({text}) and not ({test})"),
            };
        }
        assert!(compile_bpf(&text, &catalog).is_ok() || text.len() > 100, "{text}");
        fuzz_filter(text.as_bytes());
    }
}

#[test]
fn no_text_panics() {
    const PIECES: &[&str] = &[
        "tcp",
        "tcp.port",
        "ip.addr",
        "eth.src",
        "tls.sni",
        "frame.time",
        "conn.duration",
        "==",
        "!=",
        "<",
        ">=",
        "in",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ",",
        "..",
        "-",
        ":",
        "/",
        "&",
        "|",
        "and",
        "or",
        "not",
        "!",
        "~",
        "contains",
        "matches",
        "\"",
        "\\",
        "\"a\"",
        "443",
        "70000",
        "0x",
        "10.0.0.0/8",
        "::",
        "aa:bb",
        "1.5s",
        "é",
        "0",
        "host",
        "port",
        "net",
        "src",
        "dst",
        "portrange",
        "tcp[13]",
        "tcp-syn",
        "len",
        "vlan",
        "proto",
        "ip",
        "ether",
        "mask",
        "less",
        "1-2",
        "+",
        "<<",
        "-5",
        "tcp.port:443",
        "'",
        "\u{0}",
    ];
    let mut random = Random::new("no_text_panics");
    for _ in 0..6_000 {
        let mut text = String::new();
        for _ in 0..random.below(12) {
            text += PIECES[random.below(PIECES.len())];
            text += if random.below(2) == 0 { " " } else { "" };
        }
        fuzz_filter(text.as_bytes());
    }
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..random.below(40)).map(|_| random.below(256) as u8).collect();
        fuzz_filter(&bytes);
    }
}

#[test]
fn growth_is_bounded() {
    let catalog = SampleCatalog::new();
    let alternatives: Vec<String> =
        (0..14).map(|i| format!("(tcp.port == {} or udp.port == {})", 2 * i, 2 * i + 1)).collect();
    let list = compile(&alternatives.join(" and "), &catalog).unwrap_err();
    assert_eq!(list.iter().map(|d| d.code).collect::<Vec<_>>(), ["W0117"]);
    let fine = compile(&alternatives[..12].join(" and "), &catalog).unwrap();
    assert_eq!(fine.terms.len(), filter::TERMS_MAX);
    assert_eq!(fine.predicates.len(), 24);
    let long = "tcp or ".repeat(20_000) + "tcp";
    assert_eq!(compile(&long, &catalog).unwrap_err()[0].code, "W0117");
}

#[test]
fn depth_is_bounded() {
    let catalog = SampleCatalog::new();
    // Maximum nesting: every stage recurses, and no stage may overflow its stack.
    let deep = "(tcp or (udp and ".repeat(99) + "ip" + &"))".repeat(99);
    assert!(compile(&deep, &catalog).is_ok());
    fuzz_filter(deep.as_bytes());
    let chain = |length: usize| "ip or ip6 and ".repeat(length) + "arp";
    assert!(compile_bpf(&chain(90), &catalog).is_ok());
    fuzz_filter(chain(90).as_bytes());
    assert_eq!(compile_bpf(&chain(1_000), &catalog).unwrap_err()[0].code, "W0117");
    fuzz_filter(("not (".repeat(99) + "tcp port 80 or udp" + &")".repeat(99)).as_bytes());
    for text in ["(", "not ", "! (", "port (", "tcp[(", "(1 + "] {
        fuzz_filter(text.repeat(5_000).as_bytes());
    }
}

#[test]
fn repetitions_cost_little() {
    let catalog = SampleCatalog::new();
    let ports: String = (0..1_500).map(|port| format!("{port} or ")).collect();
    let text = format!("port {ports}{}ip", "5 or ".repeat(8_000));
    let filter = compile_bpf(&text, &catalog).unwrap();
    let [Literal::Frame(test)] = &filter.predicates[0].literals[..] else { panic!("one test") };
    let test = test.of(LinkType::ETHERNET).unwrap().to_string();
    assert!(test.len() < 250_000, "the ports are one set: {} bytes", test.len());
    let hosts: String = (0..3_000).map(|n| format!("tcp[{n}] = 1 or ")).collect();
    assert_eq!(compile_bpf(&format!("{hosts}ip"), &catalog).unwrap_err()[0].code, "W0117");
}

#[test]
fn diagnostics_have_known_codes_and_a_remedy() {
    let mut random = Random::new("diagnostics_have_known_codes_and_a_remedy");
    let catalog = SampleCatalog::new();
    for _ in 0..1_000 {
        let mut text = random_filter(&mut random, 2);
        let at = random.below(text.len());
        text.remove(at);
        if let Err(list) = compile(&text, &catalog) {
            for diagnostic in list {
                assert!(filter::CODES.iter().any(|(code, _)| *code == diagnostic.code), "{diagnostic:?}");
                assert!(diagnostic.help.is_some(), "{text}: {diagnostic:?}");
                for (span, _) in &diagnostic.spans {
                    assert!(
                        span.start <= span.end && span.end as usize <= text.len(),
                        "{text}: {diagnostic:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn predicates_are_equal_by_meaning() {
    let catalog = SampleCatalog::new();
    let filter = compile("tcp.port == 80 or tcp.port in {80} or tcp.port==0x50", &catalog).unwrap();
    assert_eq!(filter.predicates.len(), 1);
    assert_eq!(filter.terms.len(), 1);
    assert_eq!(filter.predicates[0].op, Op::Eq);
}
