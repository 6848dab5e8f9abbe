//! `weir rules`: the rules that the project ships, over its examples.

use super::outputs::{signal, until};
use super::tcp::Running;
use super::{example, text, weir};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rules")
}

fn arguments<'a>(of: &'a [&'a str], capture: &'a Path, rules: &'a Path) -> Vec<&'a str> {
    let [capture, rules] = [capture, rules].map(|path| path.to_str().expect("text"));
    [&["rules", "-r", capture, "-S", rules][..], of].concat()
}

/// The number of rows of each signature ID.
fn counts(rows: &[u8]) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for line in text(rows).lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        *counts.entry(row["sid"].as_u64().expect("a number")).or_default() += 1;
    }
    counts
}

#[test]
fn rules_of_the_project_find_what_is_in_its_examples() {
    let output = weir(&arguments(&[], &example(), &rules()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected =
        BTreeMap::from([(1_000_001, 18), (1_000_002, 1), (1_000_003, 1), (1_000_004, 1), (1_000_006, 2)]);
    assert_eq!(counts(&output.stdout), expected);
    // The rows do not depend on the number of workers, except for their order.
    let shared = weir(&arguments(&["-j", "3"], &example(), &rules()));
    assert_eq!(counts(&shared.stdout), expected, "{}", text(&shared.stderr));
    let filtered = weir(&arguments(&["udp"], &example(), &rules()));
    assert_eq!(counts(&filtered.stdout), BTreeMap::from([(1_000_003, 1)]));
}

#[test]
fn alerts_belong_to_connections_and_are_events_of_suricata() {
    let output = weir(&arguments(&["--format", "eve"], &example(), &rules()));
    let events: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let shop = events.iter().find(|event| event["alert"]["signature_id"] == 1_000_003).expect("an alert");
    assert_eq!(shop["event_type"], "alert");
    assert_eq!(shop["alert"]["signature"], "A name of the shop");
    assert_eq!(shop["alert"]["metadata"]["owner"][0], "shop");
    assert_eq!(shop["alert"]["severity"], 1);
    assert_eq!((&shop["dest_port"], &shop["app_proto"]), (&53.into(), &"dns".into()));
    // The identifiers are those of the connection's own row.
    let rows = weir(&arguments(&[], &example(), &rules()));
    let uids = |output: &std::process::Output| -> Vec<String> {
        let uid = |line: &str| {
            let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
            row["uid"].as_str().expect("text").to_string()
        };
        text(&output.stdout).lines().map(uid).collect()
    };
    let flows = weir(&["flows", "-r", example().to_str().expect("text")]);
    let (of_alerts, of_flows) = (uids(&rows), uids(&flows));
    assert!(!of_alerts.is_empty() && of_alerts.iter().all(|uid| of_flows.contains(uid)));
}

#[test]
fn a_wrong_rule_is_refused_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("site.rules");
    let rules = "alert tcp any any -> any any (contant:\"x\"; sid:1;)\n\
                 alert http any any -> any any (http.method; content:\"HEAD\"; sid:2;)\n\
                 alert tcp any any -> any any (stream-event:fin_but_no_session; sid:3;)\n";
    std::fs::write(&file, rules).expect("it is writable");
    let output = weir(&arguments(&[], &example(), &file));
    let said = text(&output.stderr);
    assert_eq!(counts(&output.stdout), BTreeMap::from([(2, 1)]), "{said}");
    for word in ["did you mean `content`?", "1 rule is refused, of 3", "1:3: the event"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let checked = weir(&["rules", "--check", "-S", file.to_str().expect("text")]);
    assert!(!checked.status.success());
    let (table, said) = (text(&checked.stdout), text(&checked.stderr));
    assert!(
        table.contains("the event `stream.fin_but_no_session` is not reported; for example 1:3"),
        "{table}"
    );
    assert!(said.contains("site.rules:1:31"), "{said}");
    // Rules where captures are expected.
    let stray = weir(&["rules", "-S", file.to_str().expect("text"), "-r", file.to_str().expect("text")]);
    assert!(text(&stray.stderr).contains("holds rules: give `-S"), "{}", text(&stray.stderr));
    let late = weir(&arguments(&["http.host == 'a'"], &example(), &file));
    assert!(!late.status.success());
}

#[test]
fn a_site_has_its_own_variables_classes_and_suppressions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it is writable");
        path.to_str().expect("text").to_string()
    };
    let rules = write(
        "a.rules",
        "alert http $HOME_NET any -> $SHOP any (http.method; content:\"GET\"; classtype:own-class; sid:1;)\n\
         alert http any any -> $SHOP any (http.method; content:\"HEAD\"; sid:2;)\n",
    );
    let variables =
        write("site.toml", "[address-groups]\nHOME_NET = \"192.0.2.0/24\"\nSHOP = \"198.51.100.0/24\"\n");
    let classes = write("classification.config", "config classification: own-class,A class of our own,4\n");
    let tunings = write("threshold.config", "suppress gen_id 1, sig_id 2\n");
    let example = example();
    let base = ["rules", "-r", example.to_str().expect("text"), "-S", &rules];
    let usual = weir(&[&base[..], &["--variables", &variables]].concat());
    let before = counts(&usual.stdout);
    assert!(before.contains_key(&1) && before.contains_key(&2), "{before:?} {}", text(&usual.stderr));
    let options = ["--variables", &variables, "--classes", &classes, "--tunings", &tunings];
    let output = weir(&[&base[..], &options].concat());
    let after = counts(&output.stdout);
    assert_eq!((after.get(&1), after.get(&2)), (before.get(&1), None), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("\"class\":\"A class of our own\",\"severity\":4"));
    let unknown = weir(&base);
    assert!(text(&unknown.stderr).contains("SHOP"), "{}", text(&unknown.stderr));
}

#[test]
fn rules_are_a_question_like_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("questions.toml");
    let alerts = folder.path().join("alerts.json");
    let questions = format!(
        "[[question]]\nname = \"alerts\"\nask = \"rules\"\nrules = [{:?}]\nformat = \"json\"\noutput = {:?}\n\n\
         [[question]]\nname = \"names\"\nask = \"dns\"\nformat = \"json\"\noutput = {:?}\n",
        rules().to_str().expect("text"),
        alerts.to_str().expect("text"),
        folder.path().join("dns.json").to_str().expect("text"),
    );
    std::fs::write(&file, questions).expect("it is writable");
    let output = weir(&["run", file.to_str().expect("text"), "-r", example().to_str().expect("text")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = std::fs::read(&alerts).expect("it was written");
    assert_eq!(counts(&rows).get(&1_000_001), Some(&18));
}

/// Other rules take over between two requests of a connection, which keeps its bits.
#[test]
fn rules_are_read_again_at_a_signal() {
    const PACKETS_BEFORE: usize = 97;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, alerts) = (folder.path().join("some.rules"), folder.path().join("alerts.json"));
    let write = |rule: &str| std::fs::write(&file, rule).expect("it is writable");
    write("alert http any any -> any any (http.method; content:\"GET\"; flowbits:set,known; sid:1;)\n");
    let [rules, output] = [&file, &alerts].map(|path| path.to_str().expect("text"));
    let args = ["rules", "-r", "-", "-S", rules, "-o", output];
    let mut run = Running::start(&args, Stdio::piped());
    let mut input = run.child.stdin.take().expect("it is piped");
    let bytes = std::fs::read(example()).expect("the capture");
    // Behind the header of the file, each record has a header of 16 bytes.
    let length = |at: usize| u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("four bytes"));
    let behind = (0..PACKETS_BEFORE).fold(24, |at, _| at + 16 + length(at) as usize);
    input.write_all(&bytes[..behind]).expect("it reads");
    let found = || counts(&std::fs::read(&alerts).unwrap_or_default());
    until("the requests so far have alerts", || found().get(&1).is_some_and(|count| *count >= 3));
    let before = found();
    write("alert http any any -> any any (http.method; content:\"GET\"; flowbits:isset,known; sid:2;)\n");
    signal(&run.child, "HUP");
    run.wait_for("1 rule runs from now on");
    input.write_all(&bytes[behind..]).expect("it reads");
    drop(input);
    let ended = run.end();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let after = found();
    assert_eq!(after.get(&1), before.get(&1), "the former rule is gone");
    // tshark: the fifth connection has two requests behind the first 97 packets, and one before.
    assert_eq!(after.get(&2), Some(&2), "one connection had made a request before: {after:?}");
}
