//! Ports of the loopback, as another user of the machine finds them.

use crate::links::http_client::Client;
use crate::links::recorder::name;
use crate::links::{
    Capturing, FIRST_LIGHT, empty, frames_of, inside, make_pair, scratch, secret, send, sh, text,
};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a command as the user `nobody`.
fn as_nobody(program: &str, args: &[&str]) -> Output {
    let words = ["--reuid=65534", "--regid=65534", "--clear-groups", "--", program];
    Command::new("setpriv").args(words).args(args).output().expect("setpriv runs")
}

/// The status of a request of a user (by number) and of root; `000`: no connection.
fn statuses(args: &[&str]) -> (String, String) {
    let curl = [&["-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "10"], args].concat();
    let of_root = Command::new("curl").args(&curl).output().expect("curl runs");
    (text(&as_nobody("curl", &curl).stdout), text(&of_root.stdout))
}

fn pair(nobody: &str, root: &str) -> (String, String) {
    (nobody.to_string(), root.to_string())
}

/// Whether what the test needs is there.
fn has_programs(test: &str) -> bool {
    let has = |program: &str| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    let all = ["setpriv", "curl"].iter().all(|program| has(program));
    if !all {
        eprintln!("skipped: {test} needs setpriv (util-linux) and curl");
    }
    all
}

#[test]
fn a_recorder_answers_only_those_who_have_its_token() {
    let test = "other_users::a_recorder_answers_only_those_who_have_its_token";
    if !has_programs(test) || !inside(test) {
        return;
    }
    make_pair(0);
    let (name, dumps) = (name("others"), scratch("others-dumps"));
    empty(&dumps);
    let dumps_name = dumps.to_str().expect("text");
    let args = [
        "record",
        "-i",
        "in0",
        "--name",
        &name,
        "--ring",
        "32M",
        "--dumps",
        dumps_name,
        "--api",
        "127.0.0.1:8080",
        "--metrics",
        ":9464",
    ];
    let recorder = Capturing::start(&args);
    // The address works as it is printed.
    let address = recorder.word("http://127.0.0.1:8080/");
    assert_eq!(statuses(&[&address]), pair("200", "200"), "who knows the address has the token");
    send("out0", &frames_of(Path::new(FIRST_LIGHT)));
    let own = Client::of_address(&address);
    assert_eq!(own.get("/flows").status, 200);

    let base = "http://127.0.0.1:8080/api/v1";
    for path in ["status", "flows", "packets", "dumps", "questions", "triggers", "events", "nowhere"] {
        assert_eq!(statuses(&[&format!("{base}/{path}")]), pair("401", "401"), "{path}");
    }
    let json = ["-H", "Content-Type: application/json", "-d", "{\"before\":60}"];
    for url in
        [format!("{base}/dumps"), format!("{base}/dumps?{}", address.split_once('?').expect("a token").1)]
    {
        assert_eq!(
            statuses(&[&json[..], &[&url]].concat()),
            pair("401", "401"),
            "an address changes nothing"
        );
    }
    assert_eq!(fs::read_dir(&dumps).expect("a directory").count(), 0, "nobody wrote files");
    assert_eq!(statuses(&["http://127.0.0.1:9464/metrics"]), pair("403", "200"));
    assert_eq!(statuses(&["-H", "Sec-Fetch-Site: cross-site", "http://127.0.0.1:9464/metrics"]).1, "403");
    let said = text(&recorder.end().stderr);
    assert_eq!(said.matches("a connection of the user nobody").count(), 1, "said once: {said}");

    // Users whom the command line names read the metrics.
    let admitted = Capturing::start(&[&args[..], &["--allow-user", "nobody"]].concat());
    assert_ne!(admitted.word("http://127.0.0.1:8080/"), address, "each recorder has its own token");
    assert_eq!(statuses(&["http://127.0.0.1:9464/metrics"]), pair("200", "200"));
    admitted.end();
}

#[test]
fn the_rights_of_a_socket_file_say_who_may_ask() {
    let test = "other_users::the_rights_of_a_socket_file_say_who_may_ask";
    if !has_programs(test) || !inside(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    sh(&format!("chmod 755 {}", folder.path().display()));
    let socket = folder.path().join("api").to_str().expect("text").to_string();
    let (name, api) = (name("socket"), format!("unix:{socket}"));
    let recorder = Capturing::start(&["record", "-i", "lo", "--name", &name, "--ring", "16M", "--api", &api]);
    recorder.word("http://localhost");
    let url = ["--unix-socket", &socket, "http://localhost/api/v1/status"];
    assert_eq!(statuses(&url), pair("000", "200"));
    sh(&format!("chmod 666 {socket}"));
    assert_eq!(statuses(&url), pair("200", "200"), "its owner has given it to all");
    recorder.end();
    assert!(!Path::new(&socket).exists(), "the file is gone");
}

#[test]
fn a_capture_over_tcp_is_for_the_user_who_offers_it() {
    let test = "other_users::a_capture_over_tcp_is_for_the_user_who_offers_it";
    if !has_programs(test) || !inside(test) {
        return;
    }
    for (port, address) in
        [("5001", "127.0.0.1"), ("0.0.0.0:5002", "127.0.0.1"), ("0.0.0.0:5003", "10.9.9.9")]
    {
        if address == "10.9.9.9" {
            sh("ip addr add 10.9.9.9/32 dev lo");
        }
        let output = format!("tcp-listen:{port}");
        let offering =
            Capturing::start_until(&["packets", "-r", FIRST_LIGHT, "-w", &output], "waiting for clients");
        let number = port.rsplit(':').next().expect("a port");
        let read = format!("timeout 5 cat < /dev/tcp/{address}/{number} | wc -c");
        assert_eq!(text(&as_nobody("bash", &["-c", &read]).stdout).trim(), "0", "{port}");
        let own = Command::new("bash").args(["-c", &read]).output().expect("bash runs");
        let bytes: usize = text(&own.stdout).trim().parse().expect("a number");
        assert!(bytes > 100_000, "{port}: {bytes} bytes");
        let said = text(&offering.wait().stderr);
        assert!(said.contains("the user nobody of this machine was refused"), "{said}");
    }
}

#[test]
fn tokens_that_others_can_read_are_refused() {
    let test = "other_users::tokens_that_others_can_read_are_refused";
    if !inside(test) {
        return;
    }
    let token = secret("others-token", "0123456789abcdef");
    let token = token.to_str().expect("text");
    let run = |mode: &str| {
        sh(&format!("chmod {mode} {token}"));
        let name = name("token-mode");
        let args = [
            "-k",
            "INT",
            "2",
            env!("CARGO_BIN_EXE_weir"),
            "record",
            "-i",
            "lo",
            "--ring",
            "16M",
            "--name",
            &name,
        ];
        let args = [&args[..], &["--api", "9465", "--api-token-file", token]].concat();
        let output = Command::new("timeout").args(&args[2..]).output().expect("timeout runs");
        text(&output.stderr)
    };
    for mode in ["644", "640", "604"] {
        let said = run(mode);
        assert!(said.contains("other users can read it: chmod 600"), "{mode}: {said}");
    }
    assert!(run("400").contains("the API is at"));
}
