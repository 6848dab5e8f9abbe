//! A server of one text, such as the metrics of a run. Clients need no token: on this machine they are users
//! who are admitted (`weir_guard::peers`); who else may connect says the address. What a request says about
//! its place of origin must fit, as for the API ([`check_origin`]).
//!
//! Each connection is one request. The number of connections, the size of a request and all times are
//! bounded, and nothing that a client does delays anything but the server's own thread.

use crate::admission::{check_origin, is_loopback};
use crate::bounds::{TEXT_CONNECTIONS_MAX, TEXT_HEAD_BYTES_MAX, TEXT_TRANSFER_MAX};
use crate::page;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use weir_guard::peers;

/// What is served.
pub struct TextPage {
    /// The path: `/metrics`.
    pub path: &'static str,
    /// What it is, at the begin of a sentence: `The metrics`.
    pub what: &'static str,
    /// Makes the text.
    pub render: Box<Render>,
}

/// The type and the text for a client with this header `Accept`.
pub type Render = dyn Fn(&str) -> (&'static str, String) + Send + Sync;

impl std::fmt::Debug for TextPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextPage").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Whose request it is.
#[derive(Clone)]
struct Client {
    /// The address at which the client has found the server.
    own: SocketAddr,
    /// Why the client is refused.
    refused: Option<Arc<str>>,
}

impl TextPage {
    /// Serves until the process ends.
    ///
    /// # Errors
    /// The system makes no thread, or has no timers.
    pub fn serve(self, listener: TcpListener) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(TEXT_CONNECTIONS_MAX)
            .thread_name("weir-text")
            .build()?;
        listener.set_nonblocking(true)?;
        let page = Arc::new(self);
        let run = move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                accept(listener, page).await;
            });
        };
        std::thread::Builder::new().name("weir-text".into()).spawn(run).map(drop)
    }
}

async fn accept(listener: tokio::net::TcpListener, page: Arc<TextPage>) {
    let router = Router::new().fallback(any(answer)).with_state(page);
    let connections = Arc::new(Semaphore::new(TEXT_CONNECTIONS_MAX));
    loop {
        let Ok((stream, far)) = listener.accept().await else {
            // Most likely no file descriptors are left.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (Ok(connection), Ok(own)) = (Arc::clone(&connections).try_acquire_owned(), stream.local_addr())
        else {
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            let _connection = connection;
            // The kernel is asked for the user.
            let admitted = spawn_blocking(move || peers::admit_ends(far, own)).await;
            let Ok(admitted) = admitted else { return };
            let refused = admitted.err().map(|refused| refused.to_string().into());
            let router = router.layer(Extension(Client { own, refused }));
            let serving = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(TEXT_TRANSFER_MAX)
                .max_buf_size(TEXT_HEAD_BYTES_MAX)
                .keep_alive(false)
                .half_close(true)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            // A client that goes away is no fault of the server. One time for the request, one for the
            // answer.
            let _ = timeout(2 * TEXT_TRANSFER_MAX, serving).await;
        });
    }
}

async fn answer(
    State(page): State<Arc<TextPage>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    let TextPage { path, what, .. } = &*page;
    let mut response = match check(&request, &client) {
        Err(why) => (StatusCode::FORBIDDEN, format!("{why}\n")).into_response(),
        Ok(()) if ![Method::GET, Method::HEAD].contains(request.method()) => {
            let allowed = (ALLOW, HeaderValue::from_static("GET, HEAD"));
            (StatusCode::METHOD_NOT_ALLOWED, [allowed], format!("{what} can only be read.\n")).into_response()
        }
        Ok(()) if request.uri().path() != *path => {
            (StatusCode::NOT_FOUND, format!("{what} are at {path}.\n")).into_response()
        }
        Ok(()) => {
            let accepts = request.headers().get_all(ACCEPT).iter();
            let accepts: Vec<_> = accepts.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
            let (accepts, page) = (accepts.join(","), Arc::clone(&page));
            match spawn_blocking(move || (page.render)(&accepts)).await {
                Ok((content_type, text)) => {
                    ([(CONTENT_TYPE, HeaderValue::from_static(content_type))], text).into_response()
                }
                Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        }
    };
    page::protect(response.headers_mut());
    response
}

/// Refuses clients that are not admitted, and requests that a browser of an admitted user makes for a page of
/// another server.
fn check(request: &Request, client: &Client) -> Result<(), String> {
    if let Some(why) = &client.refused {
        return Err(why.to_string());
    }
    let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap_or_default());
    let authority = request.uri().authority().map(|name| name.as_str());
    check_origin(header("sec-fetch-site"), authority, header("host"))?;
    // The name of a page may have changed its address to this one.
    match header("host") {
        Some(host) if client.own.ip().to_canonical().is_loopback() && !is_loopback(host) => {
            Err("the header `Host` does not name the loopback".to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let render = |accept: &str| ("text/plain; version=0.0.4", format!("for {accept}\n"));
        let page = TextPage { path: "/metrics", what: "The metrics", render: Box::new(render) };
        page.serve(listener).expect("a thread");
        address
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        // The unread rest of a request may reset the connection.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn the_text_is_the_one_that_the_client_accepts() {
        let address = server();
        let plain = ask(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(plain.starts_with("HTTP/1.1 200 OK\r\n") && plain.ends_with("\r\n\r\nfor \n"), "{plain}");
        assert!(plain.contains("content-type: text/plain; version=0.0.4\r\n"), "{plain}");
        let head = "GET /metrics?x=1 HTTP/1.1\r\nhost: localhost\r\naccept: a/b\r\naccept: c/d\r\n\r\n";
        assert!(ask(address, head).ends_with("\r\n\r\nfor a/b,c/d\n"));
        let head = ask(address, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(head.contains("content-length: 5\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn wrong_requests_are_refused() {
        let address = server();
        let long =
            format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nx: {}", "y".repeat(2 * TEXT_HEAD_BYTES_MAX));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(200));
        for (request, status) in [
            ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
            ("\u{1}\u{2}\r\n\r\n", "400"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
            ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n", "403"),
            ("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "403"),
            ("GET http://localhost/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "200"),
            (&many, "431"),
            (&long, "431"),
        ] {
            let answer = ask(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.40}: {answer}");
        }
    }

    #[test]
    fn silent_clients_are_bounded_in_number_and_time() {
        let address = server();
        let silent: Vec<_> =
            (0..TEXT_CONNECTIONS_MAX).map(|_| TcpStream::connect(address).expect("a connection")).collect();
        std::thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert_eq!(ask(address, request), "", "the connection is closed");
        assert!(began.elapsed() < TEXT_TRANSFER_MAX, "at once");
        for mut stream in silent {
            stream.set_read_timeout(Some(TEXT_TRANSFER_MAX * 4)).expect("a time");
            let mut rest = vec![];
            let closed = stream.read_to_end(&mut rest);
            assert!(closed.is_ok(), "the connection is closed: {closed:?}");
        }
        assert!(ask(address, request).ends_with("for \n"));
    }
}
