//! `weir records`: lists of features hold every packet once, in its group.

use serde_json::Value;
use std::collections::BTreeMap;

const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");

fn rows(args: &[&str]) -> Vec<Value> {
    let output = crate::cli::weir(args);
    assert!(output.status.success(), "{}", crate::cli::text(&output.stderr));
    crate::cli::text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn numbers(row: &Value, column: &str) -> Vec<u64> {
    row[column].as_array().expect(column).iter().map(|number| number.as_u64().expect("a number")).collect()
}

#[test]
fn lists_have_the_packets_that_an_aggregate_counts() {
    let aggregate =
        rows(&["aggregate", "count(), sum(frame.len) as bytes, max(ip.ttl) by 5tuple", FIRST_LIGHT]);
    let key = |row: &Value| {
        format!("{} {} {} {} {}", row["src"], row["sport"], row["dst"], row["dport"], row["proto"])
    };
    let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in aggregate.iter().filter(|row| !row["proto"].is_null()) {
        expected.insert(key(row), (row["count"].as_u64().unwrap(), row["bytes"].as_u64().unwrap()));
    }
    for packets in ["3", "100000"] {
        let args = [
            "records",
            FIRST_LIGHT,
            "--key",
            "5tuple",
            "--features",
            "len,ts",
            "--packets",
            packets,
            "-j",
            "2",
        ];
        let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for row in rows(&args) {
            let (lengths, times) = (numbers(&row, "len"), numbers(&row, "times"));
            assert!(
                lengths.len() <= packets.parse().unwrap()
                    && lengths.len() == times.len()
                    && times.is_sorted()
            );
            assert_eq!(row["packets"].as_u64(), Some(lengths.len() as u64));
            let sums = found.entry(key(&row)).or_default();
            *sums = (sums.0 + lengths.len() as u64, sums.1 + lengths.iter().sum::<u64>());
        }
        assert_eq!(found, expected);
    }
}

/// The two ends in a row: addresses, and ports if the key has them.
fn ends(row: &Value, [one, other]: [&[&str]; 2]) -> (String, String) {
    let end = |names: &[&str]| names.iter().map(|name| row[*name].to_string() + " ").collect::<String>();
    let (one, other) = (end(one), end(other));
    if one <= other { (one, other) } else { (other, one) }
}

/// Whoever groups by a word for both directions has the sums of the groups of one direction.
#[test]
fn words_for_both_directions_join_those_of_one() {
    const PORTS: [&[&str]; 2] = [&["src", "sport"], &["dst", "dport"]];
    const HOSTS: [&[&str]; 2] = [&["src"], &["dst"]];
    const OF_RECORDS: [&[&str]; 2] = [&["id.orig_h", "id.orig_p"], &["id.resp_h", "id.resp_p"]];
    type Sums = BTreeMap<(String, String), (u64, u64)>;
    let add = |sums: &mut Sums, key: (String, String), packets: u64, bytes: u64| {
        let sum = sums.entry(key).or_default();
        *sum = (sum.0 + packets, sum.1 + bytes);
    };
    for (both, one, names, of_records) in
        [("flow", "5tuple", PORTS, OF_RECORDS), ("hosts", "pair", HOSTS, OF_RECORDS.map(|names| &names[..1]))]
    {
        let aggregate = |word: &str| {
            let text = format!("count(), sum(frame.len) as bytes by {word}");
            let rows = rows(&["aggregate", &text, FIRST_LIGHT, "-j", "2"]);
            let (mut sums, mut count) = (Sums::new(), 0);
            for row in rows.iter().filter(|row| !row["src"].is_null()) {
                let [packets, bytes] = ["count", "bytes"].map(|name| row[name].as_u64().expect(name));
                add(&mut sums, ends(row, names), packets, bytes);
                count += 1;
            }
            (sums, count)
        };
        let ((expected, groups_of_one), (joined, groups)) = (aggregate(one), aggregate(both));
        assert_eq!(joined, expected, "{both}");
        assert_eq!(joined.len(), groups, "{both}: one group for each connection");
        assert!(groups < groups_of_one, "{both}");
        let mut recorded = Sums::new();
        for row in rows(&["records", FIRST_LIGHT, "--key", both, "--features", "len,dir"]) {
            let (lengths, directions) = (numbers(&row, "len"), numbers(&row, "dir"));
            assert_eq!((directions[0], directions.len()), (0, lengths.len()), "{both}");
            add(&mut recorded, ends(&row, of_records), lengths.len() as u64, lengths.iter().sum());
        }
        assert_eq!(recorded, expected, "{both}");
        // Rows have the same words.
        let of_rows = rows(&["aggregate", &format!("count() by {both}"), FIRST_LIGHT, "--of", "flows"]);
        let flows: u64 = of_rows.iter().map(|row| row["count"].as_u64().expect("a count")).sum();
        assert_eq!(flows, rows(&["flows", FIRST_LIGHT]).len() as u64, "{both}");
    }
}

#[test]
fn both_directions_of_a_flow_are_one_record() {
    let of_flows = rows(&["flows", FIRST_LIGHT, "tcp"]);
    let records = rows(&["records", FIRST_LIGHT, "--first", "4", "--features", "len,dir,iat", "tcp"]);
    assert_eq!(records.len(), of_flows.len());
    let ends =
        |row: &Value| ["id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p"].map(|name| row[name].to_string());
    for record in &records {
        let connection = of_flows.iter().find(|row| ends(row) == ends(record)).expect("the connection");
        let all = connection["orig_pkts"].as_u64().unwrap() + connection["resp_pkts"].as_u64().unwrap();
        let directions = numbers(record, "dir");
        assert_eq!(directions.len() as u64, all.min(4), "{record}");
        assert_eq!((directions[0], numbers(record, "iat")[0]), (0, 0));
    }
    let (alone, together) = (&["records", FIRST_LIGHT][..], &["records", FIRST_LIGHT, "-j", "3"][..]);
    let sorted = |args| {
        let mut rows: Vec<String> = rows(args).iter().map(Value::to_string).collect();
        rows.sort();
        rows
    };
    assert_eq!(sorted(alone), sorted(together));
}

#[test]
fn mistakes_say_what_to_write() {
    for (args, said) in [
        (&["--features", "ln"][..], "did you mean `len`?"),
        (&["--key", "5tuple", "--features", "dir"], "needs the key `flow`"),
        (&["--key", "ip.scr"], "did you mean `ip.src`?"),
        (&["--features", "len,len"], "two columns are called `len`"),
        (&["--key", "ip.src/33"], "its addresses have 32 bits"),
        (&["--features", "ip.src/24"], "lists have whole values"),
        (&["--first", "0"], "invalid value '0'"),
    ] {
        let output = crate::cli::weir(&[&["records", FIRST_LIGHT], args].concat());
        let text = crate::cli::text(&output.stderr);
        assert!(!output.status.success() && text.contains(said), "{args:?}: {text}");
    }
    let output = crate::cli::weir(&["records", FIRST_LIGHT, "--features", "ipv6.src"]);
    assert!(
        crate::cli::text(&output.stderr).contains("is no number"),
        "{}",
        crate::cli::text(&output.stderr)
    );
}

/// Keys are those of aggregates.
#[test]
fn keys_may_have_prefixes_and_names() {
    let records = rows(&["records", FIRST_LIGHT, "--key", "ip.src/24 as net, ip.proto", "--features", "len"]);
    let counts = rows(&["aggregate", "count() by ip.src/24 as net, ip.proto", FIRST_LIGHT]);
    let mut grouped = std::collections::BTreeMap::new();
    for record in &records {
        let key = (record["net"].to_string(), record["ip.proto"].to_string());
        *grouped.entry(key).or_insert(0) += record["packets"].as_u64().unwrap();
    }
    let of = |row: &Value| (row["net"].to_string(), row["ip.proto"].to_string());
    let counted = counts.iter().map(|row| (of(row), row["count"].as_u64().unwrap())).collect();
    assert_eq!(grouped, counted);
    assert!(records.iter().any(|record| record["net"] == "192.0.2.0/24"));
}

/// Packets without the field are another group than packets in which the field is 0.
#[test]
fn absence_is_not_zero() {
    let keys: Vec<Value> = rows(&["records", FIRST_LIGHT, "--key", "tcp.ack", "--features", "len"])
        .into_iter()
        .map(|row| row["tcp.ack"].clone())
        .filter(|ack| ack.as_u64().is_none_or(|ack| ack == 0))
        .collect();
    assert!(keys.iter().any(Value::is_null) && keys.iter().any(|ack| ack.as_u64() == Some(0)), "{keys:?}");
}

/// A question's share of 4 MiB has room for 128 groups.
#[test]
fn groups_end_if_memory_is_short() {
    let args = ["records", FIRST_LIGHT, "--key", "frame.number", "--features", "len", "--memory"];
    let count = |memory: &str, reason: &str| {
        let rows = rows(&[&args[..], &[memory]].concat());
        assert_eq!(rows.iter().map(|row| row["packets"].as_u64().unwrap()).sum::<u64>(), 2738, "{memory}");
        rows.iter().filter(|row| row["reason"] == reason).count()
    };
    assert_eq!(count("4M", "memory"), 2738 - 128);
    assert_eq!(count("4G", "memory"), 0);
}

/// Another question of the run holds packets until their connection is decided.
#[test]
fn packets_that_another_question_holds_are_grouped() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("held-groups");
    std::fs::create_dir_all(&dir).expect("a directory for tests");
    let file = dir.join("questions.toml");
    let [held, all, grouped] = ["held.json", "all.json", "grouped.json"].map(|name| dir.join(name));
    let text = format!(
        "[[question]]\nname = \"held\"\nask = \"packets\"\nfilter = 'tls.sni contains \"e\"'\noutput = {held:?}\n\
         [[question]]\nname = \"all\"\nask = \"aggregate\"\naggregate = \"count()\"\noutput = {all:?}\n\
         [[question]]\nname = \"grouped\"\nask = \"records\"\noutput = {grouped:?}\n"
    );
    std::fs::write(&file, text).expect("a file for tests");
    for workers in ["1", "3"] {
        let output = crate::cli::weir(&["run", file.to_str().unwrap(), "-r", FIRST_LIGHT, "-j", workers]);
        assert!(output.status.success(), "{}", crate::cli::text(&output.stderr));
        let read = |path: &std::path::Path| -> Vec<Value> {
            let text = std::fs::read_to_string(path).expect("an output");
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        };
        assert_eq!(read(&all)[0]["count"].as_u64(), Some(2738), "{workers} workers");
        let packets = |rows: Vec<Value>| rows.iter().map(|row| row["packets"].as_u64().unwrap()).sum::<u64>();
        assert_eq!(packets(read(&grouped)), packets(rows(&["records", FIRST_LIGHT])), "{workers} workers");
    }
}
