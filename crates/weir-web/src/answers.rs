//! From a reply of the service to a response of HTTP.

use crate::body::{ChannelBody, Output, Part};
use crate::bounds::{BODY_BYTES_MAX, BODY_MAX, QUERY_MAX, STREAM_MAX, TURN_MAX};
use crate::client::{Client, EndsWith};
use crate::page;
use crate::reply::{Refusal, Reply};
use crate::request::{Given, Request as Asked};
use crate::routes::{Answer, Cost, OPENAPI, Route};
use crate::service::Shared;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

const JSON: &str = "application/json";

/// Answers a request to a route.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    route: &'static Route,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    let answered = match route.answer {
        Answer::Events => events(&shared),
        Answer::Openapi => Ok(json(StatusCode::OK, OPENAPI.into())),
        Answer::Service(cost, read) => match given(path, request).await {
            Ok((path, uri, body)) => match read(&Given { path, uri: &uri, body: &body }) {
                Ok(asked) => run(shared, cost, asked).await,
                Err(refusal) => Err(refusal),
            },
            Err(refusal) => Err(refusal),
        },
    };
    answered.unwrap_or_else(|refusal| refused(&refusal))
}

/// The parts of a request, with the whole body.
async fn given(
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<(Vec<String>, axum::http::Uri, Bytes), Refusal> {
    let path = path.map_err(|_| Refusal::bad("the path is not UTF-8"))?;
    let path = path.iter().map(|(_, value)| value.to_string()).collect();
    let (head, body) = request.into_parts();
    if head.method != Method::POST {
        return Ok((path, head.uri, Bytes::new()));
    }
    // Pages of other servers can send other types without asking the browser first.
    let content_type =
        head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(JSON) {
        return Err(Refusal::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is not JSON")
            .with_hint("send the header `Content-Type: application/json`"));
    }
    let late = || Refusal::with_status(StatusCode::REQUEST_TIMEOUT, "the body came too slowly");
    let large = |_| {
        let message = format!("the body is broken off, or longer than {BODY_BYTES_MAX} bytes");
        Refusal::with_status(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let body = timeout(BODY_MAX, axum::body::to_bytes(body, BODY_BYTES_MAX)).await;
    Ok((path, head.uri, body.map_err(|_| late())?.map_err(large)?))
}

fn events(shared: &Shared) -> Result<Response, Refusal> {
    let body = shared.events.listen().ok_or_else(|| {
        Refusal::too_many("too many clients listen to events").with_hint("close another page of the recorder")
    })?;
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Lets the service answer, on another thread.
async fn run(shared: Arc<Shared>, cost: Cost, asked: Asked) -> Result<Response, Refusal> {
    let (turns, time_max): (&Arc<Semaphore>, Duration) = match cost {
        Cost::Short => (&shared.short, QUERY_MAX),
        Cost::Query => (&shared.queries, QUERY_MAX),
        Cost::Stream => (&shared.streams, STREAM_MAX),
    };
    let turn = timeout(TURN_MAX, Arc::clone(turns).acquire_owned()).await;
    let Ok(Ok(turn)) = turn else {
        return Err(Refusal::busy("other queries are running").with_hint("ask again in a moment"));
    };
    let client = Client::default();
    let ends = EndsWith(client.clone());
    let late = {
        let client = client.clone();
        Timer(tokio::spawn(async move {
            tokio::time::sleep(time_max).await;
            client.end_late();
        }))
    };
    let (reply, replied) = oneshot::channel();
    let service = Arc::clone(&shared.service);
    let asking = client.clone();
    let work = spawn_blocking(move || {
        let _turn = turn;
        let _late = late;
        match service.answer(asked, &asking) {
            Ok(Reply::Stream { content_type, file_name, bytes, write }) => {
                let (mut output, parts) = Output::new(asking.clone());
                let head = Replied::Stream { content_type, file_name, bytes, parts };
                if reply.send(Ok(head)).is_ok() {
                    let written = write(&mut output);
                    output.finish(written);
                }
            }
            Ok(whole) => drop(reply.send(Ok(Replied::Whole(whole)))),
            Err(refusal) => drop(reply.send(Err(refusal))),
        }
    });
    // The thread goes on by itself with a stream.
    drop(work);
    let replied = replied.await.unwrap_or_else(|_| Err(Refusal::failed("the answer has failed")))?;
    Ok(match replied {
        Replied::Whole(Reply::Json(text)) => json(StatusCode::OK, text.into()),
        Replied::Whole(Reply::Created(text)) => json(StatusCode::CREATED, text.into()),
        Replied::Whole(_) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Replied::Stream { content_type, file_name, bytes, parts } => {
            let mut response = Response::new(Body::new(ChannelBody::new(parts, Some(ends))));
            let head = response.headers_mut();
            head.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            head.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            let file_name: String = file_name.chars().filter(|letter| plain(*letter)).collect();
            if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{file_name}\"")) {
                head.insert(CONTENT_DISPOSITION, value);
            }
            if let Some(bytes) = bytes {
                head.insert(CONTENT_LENGTH, bytes.into());
            }
            response
        }
    })
}

enum Replied {
    Whole(Reply),
    Stream {
        content_type: &'static str,
        file_name: String,
        bytes: Option<u64>,
        parts: tokio::sync::mpsc::Receiver<Part>,
    },
}

/// Ends with the query.
struct Timer(JoinHandle<()>);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn json(status: StatusCode, text: Bytes) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A refusal as a response.
pub(crate) fn refused(refusal: &Refusal) -> Response {
    let mut response = json(refusal.status, refusal.text().into());
    let head = response.headers_mut();
    match refusal.status {
        StatusCode::UNAUTHORIZED => {
            head.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            head.insert(RETRY_AFTER, HeaderValue::from_static("2"));
        }
        _ => {}
    }
    response
}

/// The response to a method that the path does not have.
pub(crate) fn wrong_method(allowed: &str) -> Response {
    let refusal = Refusal::with_status(StatusCode::METHOD_NOT_ALLOWED, "this path has other methods")
        .with_hint("/api/v1/openapi.json lists all routes");
    let mut response = refused(&refusal);
    if let Ok(value) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(ALLOW, value);
    }
    response
}

/// A file of the page.
pub(crate) fn file(path: &str) -> Response {
    match page::file(path) {
        Ok((content_type, bytes)) => {
            let mut response = Response::new(Body::from(Bytes::from_static(bytes)));
            response.headers_mut().insert(page::TYPE, content_type);
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            response
        }
        Err(refusal) => refused(&refusal),
    }
}
