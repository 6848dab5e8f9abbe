//! The files of `examples/fleet`, which `docs/fleet.md` explains.

use crate::kafka::broker::{Broker, MESSAGE_MAX, Message, folder};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn fleet(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet").join(file)
}

fn read(file: &str) -> String {
    fs::read_to_string(fleet(file)).expect("an example")
}

/// Whether Python has a module; a message if not.
fn has(module: &str, package: &str, test: &str) -> bool {
    let imported =
        Command::new("python3").args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    let has = imported.is_ok_and(|status| status.success());
    if !has {
        eprintln!("skipped: {test} needs {module}: python3 -m pip install {package}");
    }
    has
}

fn python(args: &[&str]) -> String {
    let output = Command::new("python3").args(args).output().expect("python3 runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_parts_of_the_compose_file_find_each_other() {
    if !has("yaml", "pyyaml", "the compose file") {
        return;
    }
    let path = fleet("compose.yaml");
    let load = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let compose: serde_json::Value =
        serde_json::from_str(&python(&["-c", load, path.to_str().expect("text")])).expect("JSON");
    let services = compose["services"].as_object().expect("services");
    assert!(["kafka", "clickhouse", "sensor"].iter().all(|name| services.contains_key(*name)));
    for (name, service) in services {
        for volume in service["volumes"].as_array().expect("volumes") {
            let source = volume.as_str().and_then(|volume| volume.split(':').next()).expect("a source");
            match source.strip_prefix("./") {
                Some(file) => assert!(fleet(file).is_file(), "{name}: {source}"),
                None => assert!(
                    compose["volumes"].as_object().is_some_and(|all| all.contains_key(source)),
                    "{source}"
                ),
            }
        }
        let needed = service["depends_on"].as_array().into_iter().flatten();
        assert!(needed.into_iter().all(|other| services.contains_key(other.as_str().expect("a name"))));
    }
    let build = &services["sensor"]["build"];
    let context = fleet(build["context"].as_str().expect("a folder"));
    assert!(context.join(build["dockerfile"].as_str().expect("a file")).is_file());
    // Clients use the addresses that the broker advertises.
    let advertised =
        services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].as_str().expect("addresses");
    let addresses: BTreeSet<&str> =
        advertised.split(',').filter_map(|one| one.split_once("://")).map(|(_, at)| at).collect();
    let outputs = read("sensor.toml").matches("kafka://127.0.0.1:9092/weir.").count();
    assert!(addresses.contains("127.0.0.1:9092") && outputs == 3, "{addresses:?}");
    assert!(
        addresses.contains("kafka:19092") && read("clickhouse.sql").contains("'kafka:19092'"),
        "{addresses:?}"
    );
}

/// The sensor's file of questions, the tables, and the function of Flink, over a capture.
#[test]
fn rows_of_the_sensor_reach_the_table_and_flink() {
    let Some(broker) = Broker::start("kafka-fleet") else { return };
    for topic in ["weir.conn", "weir.dns", "weir.tls"] {
        broker.create(topic, MESSAGE_MAX);
    }
    let place = folder("kafka-fleet-weir");
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/first-light.pcap");
    let questions = read("sensor.toml")
        .replace("interface = [\"eth0\"]", &format!("read = [{capture:?}]"))
        .replace("metrics = \"127.0.0.1:9464\"", "")
        .replace("kafka://127.0.0.1:9092/", &broker.output(""));
    fs::write(place.join("sensor.toml"), questions).expect("a file for tests");
    let ran =
        Command::new(env!("CARGO_BIN_EXE_weir")).args(["run", "sensor.toml"]).current_dir(&place).output();
    let ran = ran.expect("weir runs");
    assert_eq!((String::from_utf8_lossy(&ran.stderr).as_ref(), ran.status.code()), ("", Some(0)));
    let messages = broker.read("weir.conn");
    let uids: BTreeSet<String> = messages.iter().flat_map(|message| message.texts("uid")).collect();
    assert!(uids.len() > 50 && !broker.read("weir.dns").is_empty() && !broker.read("weir.tls").is_empty());
    // A repeat, as after the death of a sensor.
    for (at, message) in messages.iter().chain(messages.iter().take(1)).enumerate() {
        fs::write(place.join(format!("{at}.arrows")), &message.value).expect("a file for tests");
        let headers = serde_json::to_string(&message.headers).expect("JSON");
        fs::write(place.join(format!("{at}.json")), headers).expect("a file for tests");
    }
    in_clickhouse(&place, &messages, uids.len() as u64);
    in_flink(&place, uids.len());
}

fn in_clickhouse(place: &Path, messages: &[Message], uids: u64) {
    if !has("chdb", "chdb-core", "clickhouse.sql") {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/kafka/clickhouse.py");
    let sql = fleet("clickhouse.sql");
    let said = python(&[script, sql.to_str().expect("text"), place.to_str().expect("text")]);
    let counted: serde_json::Value =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!((counted["rows"].as_u64(), counted["uids"].as_u64()), (Some(uids), Some(uids)), "{said}");
    assert_eq!(counted["runs"], serde_json::json!([messages[0].run()]));
    assert_eq!(
        (counted["lost"].as_u64(), &counted["sensors"]),
        (Some(0), &serde_json::json!([messages[0].key]))
    );
}

fn in_flink(place: &Path, uids: usize) {
    if !has("pyarrow", "pyarrow", "the function of flink.py") {
        return;
    }
    let count = "import sys; sys.path.insert(0, sys.argv[1]); import flink; \
                 print(sum(1 for _ in flink.rows(open(sys.argv[2], 'rb').read())))";
    let (fleet, batch) = (fleet(""), place.join("0.arrows"));
    let counted = python(&["-B", "-c", count, fleet.to_str().expect("text"), batch.to_str().expect("text")]);
    assert_eq!(counted.trim(), uids.to_string());
}
