//! The server with a service that needs no packets: limits, streams that are broken off, clients that go
//! away.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weir_web::bounds::{BODY_BYTES_MAX, CONNECTIONS_MAX, QUERIES_MAX};
use weir_web::{Admission, Client, Events, Listening, Refusal, Reply, Request, Server, Service, Token};

const TOKEN: &str = "0123456789abcdef";

/// What the service does is in the filter of a request.
#[derive(Default)]
struct Fake {
    running: AtomicUsize,
    most: AtomicUsize,
    ended: AtomicUsize,
}

impl Fake {
    fn wait(&self, client: &Client) {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let ends = client.ends();
        let began = Instant::now();
        while !ends.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl Service for Fake {
    fn answer(&self, request: Request, client: &Client) -> Result<Reply, Refusal> {
        match request {
            Request::Rows(asked) if asked.filter == "wait" => {
                self.wait(client);
                Ok(Reply::Json("{}".into()))
            }
            Request::Rows(asked) if asked.filter == "panic" => panic!("a fault of the service"),
            Request::Packets { filter, .. } => Ok(Reply::Stream {
                content_type: "application/x-pcapng",
                file_name: "a\"\r\nb.pcapng".into(),
                bytes: None,
                write: Box::new(move |output| {
                    output.write_all(&[b'x'; 100_000])?;
                    match filter.as_str() {
                        "cut" => Err(std::io::Error::other("packets are missing")),
                        "endless" => loop {
                            output.write_all(&[b'x'; 100_000])?;
                        },
                        _ => Ok(()),
                    }
                }),
            }),
            Request::AddTrigger { filter } => Ok(Reply::Created(filter.len().to_string())),
            Request::Status => Ok(Reply::Json("{}".into())),
            other => Err(Refusal::bad(format!("{other:?}"))),
        }
    }
}

fn start(events: &Events) -> (Server, Arc<Fake>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a port");
    let admission = Admission::Own(Token::of(TOKEN).expect("a token"));
    let fake = Arc::<Fake>::default();
    let service = Arc::clone(&fake) as Arc<dyn Service>;
    let listening = Listening::Port(listener);
    let server = Server::start(listening, (admission, true), service, events.clone()).expect("a thread");
    (server, fake, address)
}

fn open(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let _ = stream.write_all(request.as_bytes());
    stream
}

fn get(path: &str) -> String {
    request("GET", path, "")
}

/// A request with the token, and further headers.
fn request(method: &str, path: &str, more: &str) -> String {
    format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{more}Connection: close\r\n\r\n"
    )
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut answer = vec![];
    let _ = open(address, request).read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn eventually(what: &str, is_true: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_token_in_an_address_is_no_parameter_of_a_route() {
    let (_server, _, address) = start(&Events::default());
    let with = |query: &str| {
        ask(
            address,
            &format!("GET /api/v1/status{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        )
    };
    assert!(with(&format!("?token={TOKEN}")).starts_with("HTTP/1.1 200"));
    assert!(with(&format!("?token={TOKEN}&more=1")).starts_with("HTTP/1.1 400"), "an unknown parameter");
    assert!(
        with("").starts_with("HTTP/1.1 401") && with("?token=0123456789abcdeX").starts_with("HTTP/1.1 401")
    );
}

#[test]
fn a_socket_file_serves_those_who_may_open_it() {
    let path = std::env::temp_dir().join(format!("weir-web-{}.sock", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a directory for temporary files");
    let service = Arc::<Fake>::default() as Arc<dyn Service>;
    let rules = (Admission::Socket, false);
    let server =
        Server::start(Listening::File(listener), rules, service, Events::default()).expect("a thread");
    let mut stream = std::os::unix::net::UnixStream::connect(&path).expect("it listens");
    stream
        .write_all(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("room");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(server);
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn a_stream_that_lacks_something_has_no_end() {
    let (_server, _, address) = start(&Events::default());
    let whole = ask(address, &get("/packets?filter=whole"));
    assert!(whole.ends_with("\r\n0\r\n\r\n") && whole.contains("filename=\"ab.pcapng\""), "{whole:.600}");
    assert!(!ask(address, &get("/packets?filter=cut")).ends_with("0\r\n\r\n"));
}

#[test]
fn queries_are_bounded_and_end_with_their_clients() {
    let (_server, fake, address) = start(&Events::default());
    let clients: Vec<_> = (0..QUERIES_MAX + 3).map(|_| open(address, &get("/flows?filter=wait"))).collect();
    eventually("the first ones run", || fake.running.load(Ordering::SeqCst) == QUERIES_MAX);
    // Short answers do not wait for them.
    assert!(ask(address, &get("/status")).starts_with("HTTP/1.1 200"));
    drop(clients);
    eventually("they end with their clients", || fake.running.load(Ordering::SeqCst) == 0);
    assert_eq!(fake.most.load(Ordering::SeqCst), QUERIES_MAX);
    assert!(ask(address, &get("/flows?filter=panic")).starts_with("HTTP/1.1 500"));
    let endless = open(address, &get("/packets?filter=endless"));
    std::thread::sleep(Duration::from_millis(100));
    drop(endless);
    assert!(ask(address, &get("/packets?filter=whole")).ends_with("0\r\n\r\n"));
}

#[test]
fn requests_and_connections_are_bounded() {
    let (server, _, address) = start(&Events::default());
    let post = |kind: &str, body: &str| {
        let length = body.len();
        let more = format!("Content-Type: {kind}\r\nContent-Length: {length}\r\n");
        ask(address, &format!("{}{body}", request("POST", "/triggers", &more)))
    };
    assert!(post("application/json; charset=utf-8", "{\"filter\":\"tcp\"}").starts_with("HTTP/1.1 201"));
    assert!(post("text/plain", "{\"filter\":\"tcp\"}").starts_with("HTTP/1.1 415"));
    assert!(post("application/json", &"x".repeat(BODY_BYTES_MAX + 1)).starts_with("HTTP/1.1 413"));
    assert!(
        post("application/json", &format!("{{\"filter\":\"{}\"}}", "x".repeat(9000)))
            .starts_with("HTTP/1.1 400")
    );
    let wrong = ask(address, &request("PUT", "/triggers", ""));
    assert!(wrong.starts_with("HTTP/1.1 405") && wrong.contains("allow: GET, POST"), "{wrong}");
    let silent: Vec<_> = (0..CONNECTIONS_MAX).map(|_| open(address, "")).collect();
    let refused = server.refused();
    eventually("further connections are closed", || {
        let _ = ask(address, &get("/status"));
        refused.load(Ordering::SeqCst) > 0
    });
    drop(silent);
    eventually("others find room", || ask(address, &get("/status")).starts_with("HTTP/1.1 200"));
}

#[test]
fn events_reach_clients_and_end_with_the_server() {
    let events = Events::default();
    let (server, _, address) = start(&events);
    let mut client = open(address, &get("/events"));
    eventually("the client listens", || events.has_listeners());
    events.publish("status", "{}");
    drop(server);
    let mut heard = String::new();
    let _ = client.read_to_string(&mut heard);
    assert!(heard.contains("event: status\ndata: {}\n\n") && heard.ends_with("0\r\n\r\n"), "{heard}");
}
