//! The API of a recorder over HTTP.

use crate::links::http_client::{Client, Response, encoded};
use crate::links::recorder::{count, name, wait_for, weir};
use crate::links::{
    Capturing, FIRST_LIGHT, empty, frames_of, inside, make_pair, scratch, secret, send, text,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PORT: u16 = 9465;
const TLS: &str = "tcp.port == 443";

/// A recorder with an API, and the packets of a capture.
struct Recorder {
    capturing: Capturing,
    client: Client,
    ring: String,
    frames: Vec<Vec<u8>>,
}

impl Recorder {
    fn start(of: &str, more: &[&str]) -> Self {
        make_pair(0);
        let (name, dumps) = (name(of), scratch(&format!("{of}-dumps")));
        empty(&dumps);
        let dumps_name = dumps.to_str().expect("text");
        let own =
            ["record", "-i", "in0", "--name", &name, "--ring", "32M", "--dumps", dumps_name, "--api", "9465"];
        let capturing = Capturing::start(&[&own, more].concat());
        let ring = format!("ring:{name}");
        let client = match more.contains(&"--api-token-file") {
            true => Client::new(PORT),
            false => Client::of_address(&capturing.word("http://")),
        };
        Self { capturing, client, ring, frames: frames_of(Path::new(FIRST_LIGHT)) }
    }

    /// Sends the capture, and waits until it is recorded.
    fn send(&self) {
        let before = count(&[&self.ring], "");
        for part in self.frames.chunks(50) {
            send("out0", part);
            std::thread::sleep(Duration::from_millis(2));
        }
        wait_for(&self.ring, before + self.frames.len() as u64);
    }
}

fn rows(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["rows"].as_array().expect("rows").clone()
}

/// Rows without what depends on the question.
fn without_uids(rows: &[Value]) -> Vec<String> {
    let plain = |row: &Value| {
        let mut row = row.as_object().expect("an object").clone();
        row.retain(|key, _| !key.contains("uid"));
        serde_json::to_string(&row).expect("text")
    };
    let mut all: Vec<String> = rows.iter().map(plain).collect();
    all.sort();
    all
}

fn of_command(args: &[&str]) -> Vec<String> {
    let (_, out, said) = weir(args);
    let rows: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{out} {said}")))
        .collect();
    without_uids(&rows)
}

fn saved(response: &Response, of: &str) -> PathBuf {
    assert_eq!((response.status, response.is_whole), (200, true), "{}", response.head);
    let path = scratch(&format!("{of}.pcapng"));
    fs::write(&path, &response.body).expect("a temporary file");
    path
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_past_over_http_is_that_of_the_command() {
    if !inside("recorder_api::the_past_over_http_is_that_of_the_command") {
        return;
    }
    let beside = scratch("api-beside.pcap");
    let recorder = Recorder::start("api-past", &[]);
    let beside_name = beside.to_str().expect("text");
    let tcpdump =
        Command::new("tcpdump").args(["-i", "in0", "-U", "-w", beside_name]).stderr(Stdio::piped()).spawn();
    let Ok(mut tcpdump) = tcpdump else { return eprintln!("skipped: tcpdump is not installed") };
    std::thread::sleep(Duration::from_millis(700));
    recorder.send();
    std::thread::sleep(Duration::from_millis(500));
    crate::links::sh(&format!("kill -INT {}", tcpdump.id()));
    tcpdump.wait().expect("it ends");
    let (client, ring) = (&recorder.client, recorder.ring.as_str());

    for filter in ["", TLS, "tls.sni contains \"e\"", "dns"] {
        let got = rows(&client.get(&format!("/flows?limit=1000&filter={}", encoded(filter))));
        let expected = of_command(&["flows", filter, "-r", ring, "--format", "json"]);
        assert!(without_uids(&got) == expected, "{filter}: {} rows instead of {}", got.len(), expected.len());
    }
    for log in ["dns", "tls", "http"] {
        let got = rows(&client.get(&format!("/rows/{log}?limit=1000")));
        assert_eq!(without_uids(&got), of_command(&[log, "-r", ring, "--format", "json"]), "{log}");
    }
    let ask = "count() as n, sum(frame.len) as bytes by ip.src";
    let got = rows(&client.get(&format!("/aggregate?limit=1000&ask={}", encoded(ask))));
    assert_eq!(without_uids(&got), of_command(&["aggregate", ask, "-r", ring, "--format", "json"]));
    let sorted = rows(&client.get("/flows?sort=-resp_bytes&limit=5"));
    let sizes: Vec<_> = sorted.iter().map(|row| row["resp_bytes"].as_u64()).collect();
    assert!(sizes.is_sorted_by(|one, other| one >= other) && sizes[0] > Some(0), "{sizes:?}");

    // Packets are those that tcpdump has seen.
    for filter in ["", TLS, "dns"] {
        let got =
            frames_of(&saved(&client.get(&format!("/packets?filter={}", encoded(filter))), "api-packets"));
        let expected = scratch("api-expected.pcapng");
        weir(&["packets", "-r", beside_name, "-w", expected.to_str().expect("text"), filter]);
        assert!(got == frames_of(&expected), "{filter}: {} packets", got.len());
    }
    let flow =
        rows(&client.get(&format!("/flows?limit=1&sort=-resp_bytes&filter={}", encoded(TLS))))[0].clone();
    let uid = flow["uid"].as_str().expect("text");
    let packets = saved(&client.get(&format!("/flows/{uid}/packets")), "api-flow");
    let own = frames_of(&packets).len() as u64;
    assert_eq!(
        own,
        flow["orig_pkts"].as_u64().unwrap_or(0) + flow["resp_pkts"].as_u64().unwrap_or(0),
        "{flow}"
    );
    let again = saved(&client.get(&format!("/packets?uid={uid}")), "api-flow-again");
    assert!(frames_of(&again) == frames_of(&packets));
    let (_, flows, _) = weir(&["flows", "--count", "-r", packets.to_str().expect("text")]);
    assert_eq!(flows.trim(), "1");
    let sessions = rows(&client.get(&format!("/flows/{uid}/sessions")));
    assert!(sessions.iter().any(|row| row["_path"] == "ssl" || row["_path"] == "tls"), "{sessions:?}");
    let streams = client.get(&format!("/flows/{uid}/streams")).json();
    let parts = streams["parts"].as_array().expect("parts");
    let sides: BTreeSet<_> = parts.iter().map(|part| part["is_orig"].as_bool()).collect();
    assert!(sides.len() == 2 && streams["complete"] == true, "both directions have bytes");

    // Pages are of one moment, while packets come.
    let first = client.get("/flows?limit=7");
    let (mut got, mut next) = (rows(&first), first.json()["next"].clone());
    let total = first.json()["total"].as_u64().expect("a number");
    recorder.send();
    while let Some(cursor) = next.as_str() {
        let page = client.get(&format!("/flows?limit=7&cursor={cursor}"));
        got.extend(rows(&page));
        next = page.json()["next"].clone();
    }
    let uids: BTreeSet<_> = got.iter().map(|row| row["uid"].to_string()).collect();
    assert_eq!((got.len() as u64, uids.len() as u64), (total, total));

    let times = client.get("/timeline?buckets=10").json();
    let all: u64 = times["packets"].as_array().expect("parts").iter().filter_map(Value::as_u64).sum();
    let sent = 2 * recorder.frames.len() as u64;
    assert!(all.abs_diff(sent) <= sent / 10, "{all} instead of {sent}: {times}");
    let status = client.get("/status").json();
    assert_eq!(status["packets"], sent);
    assert_eq!(status["counters"]["packets"], sent);
    assert_eq!(status["interfaces"], json!(["in0"]));
    recorder.capturing.end();
}

#[test]
fn triggers_dumps_and_questions_change_while_packets_come() {
    if !inside("recorder_api::triggers_dumps_and_questions_change_while_packets_come") {
        return;
    }
    let recorder = Recorder::start("api-change", &["--trigger", "icmp"]);
    let client = &recorder.client;
    let mut events = client.connect();
    write!(events, "GET /api/v1/events HTTP/1.1\r\n{}\r\n", client.headers).expect("it is open");
    let made = client.post("/triggers", &json!({ "filter": TLS }).to_string());
    assert_eq!(made.status, 201, "{}", made.text());
    let question = client.post("/questions", &json!({ "ask": "dns" }).to_string());
    assert_eq!(question.status, 201, "{}", question.text());
    let dump = client.post("/dumps", &json!({ "filter": "dns", "before": 5, "after": 3 }).to_string());
    assert_eq!(dump.status, 201, "{}", dump.text());
    let dump_name = dump.json()["name"].as_str().expect("text").to_string();
    recorder.send();
    let triggers = client.get("/triggers").json();
    let filters: Vec<_> =
        triggers["triggers"].as_array().expect("a list").iter().map(|one| &one["filter"]).collect();
    assert_eq!(filters, ["icmp", TLS]);

    // The dump of the request has its packets; those of the trigger have those of their connections.
    let listed = eventually("the dump is complete", || {
        let all = client.get("/dumps").json()["dumps"].clone();
        let own = all.as_array()?.iter().find(|one| one["name"] == dump_name.as_str())?.clone();
        (own["state"] == "complete").then_some(own)
    });
    let expected = count(&[&recorder.ring], "dns");
    assert_eq!(listed["packets"], expected, "{listed}");
    assert!(listed["reason"].as_str().is_some_and(|reason| reason.contains("dns")));
    let file = saved(&client.get(&format!("/dumps/{dump_name}")), "api-dump");
    assert_eq!(frames_of(&file).len() as u64, expected);
    let (_, flows, _) = weir(&["flows", "--count", "-r", &recorder.ring, TLS]);
    let wanted: usize = flows.trim().parse().expect("a number");
    assert!(wanted > 1);
    eventually("each connection has a dump", || {
        let all = client.get("/dumps").json()["dumps"].clone();
        let own = all
            .as_array()?
            .iter()
            .filter(|one| one["reason"].as_str().is_some_and(|text| text.contains(TLS)));
        (own.count() == wanted).then_some(())
    });

    // A dump that goes on ends on request.
    let long = client.post("/dumps", &json!({ "before": 60, "after": 3600 }).to_string()).json();
    let long = long["name"].as_str().expect("text").to_string();
    assert_eq!(client.ask("DELETE", &format!("/dumps/{long}"), "").status, 204);
    let ended = eventually("it ends", || {
        let all = client.get("/dumps").json()["dumps"].clone();
        let own = all.as_array()?.iter().find(|one| one["name"] == long.as_str())?.clone();
        (own["state"] == "complete").then_some(own)
    });
    assert_eq!(ended["packets"], recorder.frames.len() as u64);
    assert_eq!(client.ask("DELETE", &format!("/dumps/{long}"), "").status, 409);

    let id = made.json()["id"].as_u64().expect("a number");
    assert_eq!(client.ask("DELETE", &format!("/triggers/{id}"), "").status, 204);
    assert_eq!(client.ask("DELETE", &format!("/triggers/{id}"), "").status, 404);
    assert_eq!(client.ask("DELETE", "/triggers/1", "").status, 409, "the trigger of the command line stays");
    let counted = client.get("/questions").json()["questions"][0]["rows"].as_u64().unwrap_or(0);
    assert!(counted > 0, "the question has rows");
    let id = question.json()["id"].as_u64().expect("a number");
    assert_eq!(client.ask("DELETE", &format!("/questions/{id}"), "").status, 204);

    let mut heard = String::new();
    events.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
    let mut some = [0; 1 << 16];
    while let Ok(count @ 1..) = events.read(&mut some) {
        heard += &text(&some[..count]);
    }
    for kind in ["status", "dump", "rows", "trigger"] {
        assert!(heard.contains(&format!("event: {kind}\n")), "{kind}: {heard:.2000}");
    }
    let output = recorder.capturing.end();
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
}

#[test]
fn every_route_of_the_description_answers() {
    if !inside("recorder_api::every_route_of_the_description_answers") {
        return;
    }
    let recorder = Recorder::start("api-routes", &["--page"]);
    recorder.send();
    let client = &recorder.client;
    let described = client.get("/openapi.json").json();
    let uid = rows(&client.get("/flows?limit=1"))[0]["uid"].as_str().expect("text").to_string();
    let mut seen = 0;
    for (path, operations) in described["paths"].as_object().expect("paths") {
        let path = path.strip_prefix("/api/v1").expect("a route");
        for method in operations.as_object().expect("operations").keys().map(|name| name.to_uppercase()) {
            if path == "/events" {
                continue;
            }
            let given = path
                .replace("{uid}", &uid)
                .replace("{log}", "dns")
                .replace("{id}", "77")
                .replace("{name}", "x.pcapng");
            let given = match path {
                "/aggregate" => format!("{given}?ask={}", encoded("count() by ip.src")),
                "/check" | "/complete" => format!("{given}?filter=tcp.po"),
                _ => given,
            };
            let body = match path {
                "/triggers" => json!({ "filter": "icmp" }),
                "/dumps" => json!({ "before": 1 }),
                _ => json!({ "ask": "dns" }),
            };
            let response = client.ask(&method, &given, &body.to_string());
            let is_known = described["paths"][&format!("/api/v1{path}")][method.to_lowercase()]["responses"]
                .get(response.status.to_string())
                .is_some();
            assert!(is_known, "{method} {path}: {} {}", response.status, response.text());
            let expected = if path.contains("{id}") || path.contains("{name}") { 404 } else { 200 };
            assert!(
                response.status == expected || response.status == 201,
                "{method} {path}: {}",
                response.text()
            );
            seen += 1;
        }
    }
    assert!(seen > 20);
    let checked =
        client.get(&format!("/check?filter={}", encoded("ip.addr == 1.2.3.4 and \u{e4}.b == 1"))).json();
    assert_eq!(
        (checked["ok"].as_bool(), checked["mistakes"][0]["start"].as_u64()),
        (Some(false), Some(23)),
        "{checked}"
    );
    let refused = client.get(&format!("/flows?filter={}", encoded("tcp.prot == 443")));
    let why = refused.json();
    assert_eq!((refused.status, &why["position"]), (400, &json!([0, 8])), "{why}");
    assert!(why["hint"].as_str().is_some_and(|hint| hint.contains("tcp.port")), "{why}");
    let completed = client.get(&format!("/complete?filter={}", encoded("tcp.dstp"))).json();
    assert_eq!(completed["completions"][0]["name"], "tcp.dstport", "{completed}");
    let page =
        client.send(format!("GET / HTTP/1.1\r\n{}Connection: close\r\n\r\n", client.headers).as_bytes());
    assert!(
        page.status == 200 && page.head.contains("content-security-policy: default-src 'none'"),
        "{}",
        page.head
    );
    recorder.capturing.end();
}

#[test]
fn strangers_are_refused() {
    if !inside("recorder_api::strangers_are_refused") {
        return;
    }
    let token_file = secret("api-token", "0123456789abcdef\n");
    let short = secret("api-short-token", "short");
    let short = short.to_str().expect("text");
    let record = ["record", "-i", "lo", "--ring", "4M", "--name"];
    for (more, message) in [
        (&["--api", "0.0.0.0:9465"][..], "--api-token-file"),
        (&["--api", "nonsense"], "as in :9465"),
        (&["--api-token-file", "x"], "is for --api"),
        (&["--api", "9465", "--api-token-file", "/nowhere"], "No such file"),
        (&["--api", "9465", "--api-token-file", FIRST_LIGHT], "chmod 600"),
        (&["--api", "9465", "--api-token-file", short], "a token has 16"),
        (&["--api", "unix:/tmp/x", "--api-token-file", short], "needs no token"),
    ] {
        let (status, _, said) = weir(&[&record, &[&*name("api-wrong")][..], more].concat());
        assert!(status == Some(2) && said.contains(message), "{more:?}: {said}");
    }
    let recorder = Recorder::start("api-open", &["--page"]);
    let open = Client { port: PORT, headers: String::new() };
    let key = recorder.client.headers.lines().find(|line| line.starts_with("Authorization")).expect("a key");
    let ask_with = |key: &str, headers: &str| {
        open.send(
            format!("GET /api/v1/status HTTP/1.1\r\n{key}{headers}Connection: close\r\n\r\n").as_bytes(),
        )
        .status
    };
    let status = |headers: &str| ask_with(&format!("{key}\r\n"), headers);
    assert_eq!(ask_with("", "Host: localhost:9465\r\n"), 401);
    assert_eq!(status("Host: localhost:9465\r\n"), 200);
    assert_eq!(status("Host: evil.example\r\n"), 403);
    assert_eq!(status("Host: localhost:9465\r\nOrigin: http://evil.example\r\n"), 403);
    assert_eq!(status("Host: localhost:9465\r\nOrigin: http://localhost:9465\r\n"), 200);
    assert_eq!(status("Host: localhost:9465\r\nSec-Fetch-Site: cross-site\r\n"), 403);
    let foreign = format!(
        "POST /api/v1/triggers HTTP/1.1\r\nHost: localhost\r\n{key}\r\nContent-Type: text/plain\r\nContent-Length: 17\r\nConnection: close\r\n\r\n{{\"filter\":\"icmp\"}}"
    );
    assert_eq!(open.send(foreign.as_bytes()).status, 415);
    recorder.capturing.end();

    let token_name = token_file.to_str().expect("text");
    crate::links::sh("ip link del out0");
    let recorder = Recorder::start("api-token", &["--page", "--api-token-file", token_name]);
    let ask = |path: &str, headers: &str| {
        open.send(
            format!("GET {path} HTTP/1.1\r\nHost: any.example\r\n{headers}Connection: close\r\n\r\n")
                .as_bytes(),
        )
    };
    let right = "Authorization: Bearer 0123456789abcdef\r\n";
    assert_eq!(ask("/api/v1/status", right).status, 200);
    for wrong in [
        "",
        "Authorization: Bearer 0123456789abcdeX\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: Basic x\r\n",
    ] {
        let refused = ask("/api/v1/status", wrong);
        assert!(refused.status == 401 && refused.head.to_lowercase().contains("www-authenticate"), "{wrong}");
        assert_eq!(ask("/api/v1/nowhere", wrong).status, 401);
    }
    assert_eq!(ask("/", "").status, 200, "the page asks for the token");
    recorder.capturing.end();
}

#[test]
fn hostile_clients_delay_nobody() {
    if !inside("recorder_api::hostile_clients_delay_nobody") {
        return;
    }
    let recorder = Recorder::start("api-hostile", &[]);
    recorder.send();
    let client = &recorder.client;
    let long = "x".repeat(70_000);
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("[]", 400),
        ("null", 400),
        ("{\"filter\":7}", 400),
        ("{\"filter\":\"icmp\",\"more\":1}", 400),
        ("{\"filter\":\"\"}", 400),
        ("{\"filter\":\"tcp.prt == 1\"}", 400),
        ("\u{0}\u{1}\u{2}", 400),
        (&"[".repeat(60_000), 400),
        (&format!("{{\"filter\":\"{}\"}}", "(".repeat(8000)), 400),
        (&long, 413),
    ] {
        let response = client.post("/triggers", body);
        assert_eq!(response.status, status, "{body:.60}: {}", response.text());
        assert!(response.json()["error"].is_string());
    }
    for path in [
        "/flows?limit=0",
        "/flows?limit=100000",
        "/flows?limit=x",
        "/flows?more=1",
        "/flows?cursor=x",
        "/flows?from=yesterday",
        "/flows?from=-1m&to=-5m",
        "/timeline?buckets=0",
        "/timeline?buckets=99999999",
        "/aggregate",
        "/aggregate?ask=count(",
        "/flows?sort=nothing",
        "/complete?filter=%c3%a4&at=1",
        "/complete?filter=x&at=99",
        "/flows?filter=%ff%fe",
        "/check",
    ] {
        let response = client.get(path);
        assert_eq!(response.status, 400, "{path}: {}", response.text());
    }
    for path in [
        "/nowhere",
        "/rows/nothing",
        "/flows/x/packets",
        "/flows/Cxxxxxxxxxxxxxxxxx/streams",
        "/dumps/..%2f..%2fetc%2fpasswd",
        "/dumps/x",
        "/triggers/x",
    ] {
        let method = if path.starts_with("/triggers") { "DELETE" } else { "GET" };
        assert_eq!(client.ask(method, path, "").status, 404, "{path}");
    }
    assert_eq!(client.ask("PUT", "/triggers", "").status, 405);
    for raw in ["\r\n\r\n", "GET\r\n\r\n", "\u{1}\u{2}\u{3}\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        assert!([0, 400, 505].contains(&client.send(raw.as_bytes()).status), "{raw:?}");
    }
    let many = format!("GET /api/v1/status HTTP/1.1\r\n{}\r\n\r\n", "x: y\r\n".repeat(20_000));
    assert!(matches!(client.send(many.as_bytes()).status, 0 | 400 | 431));

    // Clients that send half a request, and clients that read nothing.
    let mut silent = vec![];
    for number in 0..40 {
        let mut stream = client.connect();
        let head = match number % 4 {
            0 => String::new(),
            1 => "GET /api/v1/sta".to_string(),
            2 => format!(
                "POST /api/v1/triggers HTTP/1.1\r\n{}Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{{",
                client.headers
            ),
            _ => format!("GET /api/v1/packets HTTP/1.1\r\n{}\r\n", client.headers),
        };
        stream.write_all(head.as_bytes()).expect("it is open");
        silent.push(stream);
    }
    let events: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = client.connect();
            write!(stream, "GET /api/v1/events HTTP/1.1\r\n{}\r\n", client.headers).expect("it is open");
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    assert_eq!(client.get("/status").status, 200);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let listening = client.get("/status").json()["counters"]["api_listeners"].as_u64().unwrap_or(0);
    assert_eq!(listening, 32, "further clients are refused");
    recorder.send();
    drop((silent, events));

    // A hundred clients at once.
    let began = Instant::now();
    let clients: Vec<_> = (0..100)
        .map(|number| {
            let client = client.clone();
            std::thread::spawn(move || match number % 3 {
                0 => client.get("/status").status,
                1 => client.get("/flows?limit=10").status,
                _ => client.get("/timeline").status,
            })
        })
        .collect();
    let statuses: Vec<u16> = clients.into_iter().map(|client| client.join().expect("it ends")).collect();
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert!(statuses.iter().filter(|status| **status == 200).count() > 60, "{statuses:?}");
    assert!(began.elapsed() < Duration::from_secs(40));
    let status = client.get("/status").json();
    assert_eq!(
        (status["packets"].as_u64(), status["lost"].as_u64()),
        (Some(2 * recorder.frames.len() as u64), Some(0))
    );
    let output = recorder.capturing.end();
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
}
