//! A small HTTP server for one page, `/metrics`. It has threads of its own, so whatever a client does delays
//! no packet. Each connection is one request; the number of connections, the size of requests and all times
//! are bounded.

use super::exposition::Exposition;
use crate::failure::Failure;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weir_guard::peers;
use weir_web::{check_origin, is_loopback};

/// Connections at a time; further ones are closed.
const CONNECTIONS_MAX: usize = 16;

/// Bytes of a request.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Lines of a request's head.
const HEADERS_MAX: usize = 64;

/// Time for a request to be complete, and for its answer to be accepted.
const TRANSFER_MAX: Duration = Duration::from_secs(5);

/// Listens at an address, and answers requests with what `render` returns. Returns the address in use.
///
/// # Errors
/// The text is no address, or the address cannot be used.
pub fn listen(
    address: &str,
    render: impl Fn(Exposition) -> String + Send + Sync + 'static,
) -> Result<SocketAddr, Failure> {
    let listener = bind("--metrics", address, &addresses("--metrics", address, 9464)?)?;
    let bound = listener.local_addr().map_err(Failure::new)?;
    let (render, connections) = (Arc::new(render), Arc::new(AtomicUsize::new(0)));
    let thread = std::thread::Builder::new().name("weir-metrics".into());
    let listening = thread.spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Most likely no file descriptors are left; try again later.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            let connection = Connection::count(&connections);
            let Some(connection) = connection else { continue };
            let render = Arc::clone(&render);
            // If no thread can be created, the connection is closed.
            let _ = std::thread::Builder::new().name("weir-metrics".into()).spawn(move || {
                let _connection = connection;
                // The client may be gone.
                let _ = serve(&stream, &*render);
            });
        }
    });
    listening.map(drop).map_err(Failure::new)?;
    Ok(bound)
}

/// A connection that counts.
struct Connection(Arc<AtomicUsize>);

impl Connection {
    /// Counts one more connection. `None`: as many as are allowed are open.
    fn count(connections: &Arc<AtomicUsize>) -> Option<Self> {
        let connection = Self(Arc::clone(connections));
        (connections.fetch_add(1, Ordering::SeqCst) < CONNECTIONS_MAX).then_some(connection)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The addresses that `HOST:PORT` names, or a port of the loopback address: `:PORT`, `PORT`.
///
/// # Errors
/// The text names none. `option` and `port` are those of the message.
pub fn addresses(option: &str, address: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let own = address.strip_prefix(':').unwrap_or(address).parse::<u16>();
    let addresses: Vec<SocketAddr> = match own {
        Ok(own) => vec![(Ipv4Addr::LOCALHOST, own).into()],
        Err(_) => address.to_socket_addrs().map(Iterator::collect).unwrap_or_default(),
    };
    if addresses.is_empty() {
        return Err(Failure::new(format!(
            "{option} {address}: give a port of this host, as in :{port}, or an address with a port, as in 0.0.0.0:{port} or \
             [::1]:{port}"
        )));
    }
    Ok(addresses)
}

/// Binds the first of these addresses that this host has. `option` and `address` are those of the message.
///
/// # Errors
/// None of them can be used.
pub fn bind(option: &str, address: &str, addresses: &[SocketAddr]) -> Result<TcpListener, Failure> {
    TcpListener::bind(addresses).map_err(|error| {
        let why = match error.kind() {
            ErrorKind::AddrInUse => "another program uses this port: give another one, or :0 for a free one",
            ErrorKind::AddrNotAvailable => "this host has no such address: `ip addr` lists those that it has",
            ErrorKind::PermissionDenied => "this user may not use this port: give one from 1024",
            _ => return Failure::new(format!("{option} {address}: {error}")),
        };
        Failure::new(format!("{option} {address}: {why}"))
    })
}

/// What a request is answered with.
struct Response {
    status: &'static str,
    content_type: &'static str,
    body: String,
    /// The client wants no body.
    is_head: bool,
}

impl Response {
    fn refusal(status: &'static str, why: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: format!("{why}\n"), is_head: false }
    }

    fn bytes(&self) -> Vec<u8> {
        let Self { status, content_type, body, is_head } = self;
        let length = body.len();
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n"
        );
        [head.as_bytes(), if *is_head { b"" } else { body.as_bytes() }].concat()
    }
}

/// Answers one request.
fn serve(mut stream: &TcpStream, render: &impl Fn(Exposition) -> String) -> io::Result<()> {
    let until = Instant::now() + TRANSFER_MAX;
    let response = match read_head(stream, until)? {
        Some(head) => match peers::admit(stream) {
            Ok(()) => answer(&head, &stream.local_addr()?, render),
            Err(refused) => Response::refusal("403 Forbidden", &refused.to_string()),
        },
        None => Response::refusal("431 Request Header Fields Too Large", "The request is too long."),
    };
    let (bytes, until, mut sent) = (response.bytes(), Instant::now() + TRANSFER_MAX, 0);
    while sent < bytes.len() {
        stream.set_write_timeout(Some(left(until)?))?;
        sent += stream.write(&bytes[sent..])?;
    }
    stream.shutdown(Shutdown::Write)
}

/// Time until then.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The head of a request, with its empty line. `None`: it exceeds the bound.
fn read_head(mut stream: &TcpStream, until: Instant) -> io::Result<Option<Vec<u8>>> {
    let (mut head, mut some) = (vec![], [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > REQUEST_BYTES_MAX {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut some)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => head.extend_from_slice(&some[..read]),
        }
    }
    Ok(Some(head))
}

/// `own`: the address at which the client has found the server.
fn answer(head: &[u8], own: &SocketAddr, render: &impl Fn(Exposition) -> String) -> Response {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    if !matches!(request.parse(head), Ok(httparse::Status::Complete(_))) {
        return Response::refusal("400 Bad Request", "This is no request of HTTP/1.1.");
    }
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    if !["GET", "HEAD"].contains(&method) {
        return Response::refusal("405 Method Not Allowed", "The metrics can only be read.");
    }
    if let Err(why) = check_place(&request, own) {
        return Response::refusal("403 Forbidden", why);
    }
    let target =
        target.strip_prefix("http://").map_or(target, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
    if target.split('?').next() != Some("/metrics") {
        return Response::refusal("404 Not Found", "The metrics are at /metrics.");
    }
    let accepts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let accepts: Vec<_> = accepts.map(|header| String::from_utf8_lossy(header.value)).collect();
    let format = Exposition::accepted(&accepts.join(","));
    Response {
        status: "200 OK",
        content_type: format.content_type(),
        body: render(format),
        is_head: method == "HEAD",
    }
}

/// Refuses requests that a browser of an admitted user makes for a page of another server.
fn check_place(request: &httparse::Request<'_, '_>, own: &SocketAddr) -> Result<(), &'static str> {
    let header = |name: &str| {
        let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| std::str::from_utf8(header.value).unwrap_or_default())
    };
    let target = request.path.unwrap_or_default();
    let authority = target.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    check_origin(header("sec-fetch-site"), authority, header("host"))?;
    // The name of a page may have changed its address to this one.
    match header("host") {
        Some(host) if own.ip().to_canonical().is_loopback() && !is_loopback(host) => {
            Err("the header `Host` does not name the loopback")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> SocketAddr {
        let render = |format| format!("{format:?}\n");
        listen("0", render).unwrap_or_else(|_| panic!("there is a free port"))
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // The unread rest of a request may reset the connection.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn the_page_has_the_format_that_the_client_accepts() {
        let address = server();
        let plain = ask(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(plain.starts_with("HTTP/1.1 200 OK\r\n") && plain.ends_with("\r\n\r\nPlain\n"), "{plain}");
        assert!(plain.contains("Content-Type: text/plain; version=0.0.4"), "{plain}");
        let accept = "accept: application/openmetrics-text;version=1.0.0";
        let open = ask(address, &format!("GET /metrics?x=1 HTTP/1.1\r\n{accept}\r\n\r\n"));
        assert!(open.contains("application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"), "{open}");
        assert!(open.ends_with("\r\n\r\nOpenMetrics\n"), "{open}");
        let head = ask(address, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 6\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn wrong_requests_are_refused() {
        let address = server();
        let long = format!("GET /metrics HTTP/1.1\r\nx: {}", "y".repeat(REQUEST_BYTES_MAX));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(HEADERS_MAX + 1));
        for (request, status) in [
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("\u{1}\u{2}\r\n\r\n", "400"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
            ("GET /metrics HTTP/1.1\r\nSec-Fetch-Site: cross-site\r\n\r\n", "403"),
            ("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "403"),
            ("GET http://localhost/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "200"),
            (&many, "400"),
            (&long, "431"),
        ] {
            let answer = ask(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.40}: {answer}");
        }
    }

    #[test]
    fn silent_clients_are_bounded_in_number_and_time() {
        let address = server();
        let silent: Vec<_> = (0..CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
        std::thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        assert_eq!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n"), "", "the connection is closed");
        assert!(began.elapsed() < TRANSFER_MAX, "at once");
        for mut stream in silent {
            stream.set_read_timeout(Some(TRANSFER_MAX * 4)).unwrap();
            assert!(matches!(stream.read(&mut [0; 16]), Ok(0)), "the connection is closed");
        }
        assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("Plain\n"));
    }

    #[test]
    fn mistakes_have_remedies() {
        let bound = |address: &str| bind("--metrics", address, &addresses("--metrics", address, 9464)?);
        let said = |address: &str| match bound(address) {
            Ok(_) => panic!("{address} is no address"),
            Err(failure) => failure.to_string(),
        };
        let taken = server().to_string();
        assert!(said(&taken).contains("another program uses this port"), "{}", said(&taken));
        for wrong in ["", "nonsense", "1.2.3.4", "70000", ":x"] {
            assert!(said(wrong).contains("as in :9464"), "{}", said(wrong));
        }
        assert!(said("203.0.113.7:9464").contains("no such address"), "{}", said("203.0.113.7:9464"));
    }
}
