//! The server: connections, their limits, and the thread that serves them.

use crate::admission::{Admission, Asking, without_token};
use crate::answers;
use crate::bounds::{CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_MAX, QUERIES_MAX, SILENCE_MAX, THREADS_MAX};
use crate::events::Events;
use crate::page;
use crate::reply::Refusal;
use crate::routes::{BASE, ROUTES};
use crate::service::{Service, Shared};
use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::Uri;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot};

/// How much later than the recorder's threads those of queries get a processor (nice value).
const NICENESS: i32 = 10;
/// Time for the ends of streams of events to be sent.
const FLUSH: Duration = Duration::from_millis(50);
/// Time for responses at the end.
const END_MAX: Duration = Duration::from_millis(300);

/// Where clients connect.
#[derive(Debug)]
pub enum Listening {
    /// An address.
    Port(TcpListener),
    /// A socket file.
    File(UnixListener),
}

/// A server that runs until it is dropped.
pub struct Server {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    refused: Arc<AtomicU64>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

impl Server {
    /// Serves the clients that connect here. `has_page`: with the page at `/`.
    ///
    /// # Errors
    /// The system makes no thread, or has no timers.
    pub fn start(
        listening: Listening,
        (admission, has_page): (Admission, bool),
        service: Arc<dyn Service>,
        events: Events,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS_MAX)
            .thread_name("weir-api")
            // Queries have processors that the recorder does not need.
            .on_thread_start(|| {
                let _ = rustix::process::setpriority_process(None, NICENESS);
            })
            .build()?;
        match &listening {
            Listening::Port(listener) => listener.set_nonblocking(true)?,
            Listening::File(listener) => listener.set_nonblocking(true)?,
        }
        let (end, ended) = oneshot::channel::<()>();
        let refused = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&refused);
        let shared = Arc::new(Shared {
            service,
            events: events.clone(),
            admission,
            short: Arc::new(Semaphore::new(THREADS_MAX - 2 * QUERIES_MAX)),
            queries: Arc::new(Semaphore::new(QUERIES_MAX)),
            streams: Arc::new(Semaphore::new(QUERIES_MAX)),
        });
        let run = move || {
            let _ = rustix::process::setpriority_process(None, NICENESS / 2);
            let router = router(&shared, has_page);
            runtime.block_on(async {
                let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
                tokio::spawn(async move {
                    match listening {
                        Listening::Port(listener) => {
                            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                            accept(listener, router, connections, counter).await;
                        }
                        Listening::File(listener) => {
                            let Ok(listener) = tokio::net::UnixListener::from_std(listener) else { return };
                            accept(listener, router, connections, counter).await;
                        }
                    }
                });
                let _ = ended.await;
                events.end();
                // The last events are on their way.
                tokio::time::sleep(FLUSH).await;
            });
            runtime.shutdown_timeout(END_MAX);
        };
        let thread = std::thread::Builder::new().name("weir-api".into()).spawn(run)?;
        Ok(Self { end: Some(end), thread: Some(thread), refused })
    }

    /// Connections that were closed because there were too many.
    pub fn refused(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.refused)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            let _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn router(shared: &Arc<Shared>, has_page: bool) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let path = format!("{BASE}{}", route.path);
        let method = MethodFilter::try_from(route.method.clone()).unwrap_or(MethodFilter::GET);
        let handler =
            move |State(shared): State<Arc<Shared>>,
                  path: Result<RawPathParams, RawPathParamsRejection>,
                  request: Request| answers::answer(shared, route, path, request);
        router = router.route(&path, on(method, handler));
    }
    if has_page {
        for (path, _, _) in page::FILES {
            router = router.route(path, on(MethodFilter::GET, move || async move { answers::file(path) }));
        }
    }
    router
        .fallback(|| async { answers::refused(&Refusal::not_found()) })
        .method_not_allowed_fallback(|request: Request| async move {
            answers::wrong_method(&allowed(request.uri().path()))
        })
        .layer(middleware::from_fn_with_state(Arc::clone(shared), admit))
        .with_state(Arc::clone(shared))
}

/// The methods of a path, for the header `Allow`.
fn allowed(path: &str) -> String {
    let path = path.strip_prefix(BASE).unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    let is_same = |own: &str| {
        let own: Vec<&str> = own.split('/').collect();
        own.len() == parts.len()
            && own.iter().zip(&parts).all(|(own, part)| own.starts_with('{') || own == part)
    };
    let methods = ROUTES.iter().filter(|route| is_same(route.path)).map(|route| route.method.as_str());
    let methods: Vec<&str> = methods.collect();
    if methods.is_empty() { "GET".to_string() } else { methods.join(", ") }
}

/// Lets requests of clients through that may ask.
async fn admit(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let is_public = page::file(request.uri().path()).is_ok();
    let (method, target, head) = (request.method(), request.uri(), request.headers());
    let mut response = match shared.admission.check(&Asking { method, target, head, is_public }) {
        Ok(()) => {
            if let Some(query) = request.uri().query() {
                let plain = format!("{}?{}", request.uri().path(), without_token(query));
                // A part of a valid target is one.
                *request.uri_mut() = plain.parse::<Uri>().unwrap_or_default();
            }
            next.run(request).await
        }
        Err(refusal) => answers::refused(&refusal),
    };
    page::protect(response.headers_mut());
    response
}

/// Waits for connections.
trait Accept {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for tokio::net::TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn next(&self) -> io::Result<Self::Stream> {
        let (stream, _) = self.accept().await?;
        let _ = stream.set_nodelay(true);
        // The system closes connections of clients that are gone, or that accept nothing.
        let silence_ms = u32::try_from(SILENCE_MAX.as_millis()).unwrap_or(u32::MAX);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, silence_ms);
        Ok(stream)
    }
}

impl Accept for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn next(&self) -> io::Result<Self::Stream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

async fn accept(listener: impl Accept, router: Router, connections: Arc<Semaphore>, refused: Arc<AtomicU64>) {
    loop {
        let Ok(stream) = listener.next().await else {
            // Most likely no file descriptors are left.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(connection) = Arc::clone(&connections).try_acquire_owned() else {
            refused.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            let _connection = connection;
            // A client that goes away is no fault of the server.
            let _ = serve(stream, router).await;
        });
    }
}

async fn serve<S>(stream: S, router: Router) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await
}
