//! Replies and refusals.

use crate::body::Output;
use axum::http::StatusCode;
use serde_json::{Map, Value};
use std::io;

/// Writes the body of a response. An error breaks the response off, so that the client does not take the body
/// for whole.
pub type WriteBody = Box<dyn FnOnce(&mut Output) -> io::Result<()> + Send>;

/// The answer to a request.
pub enum Reply {
    /// A text of JSON.
    Json(String),
    /// As `Json`, after something was made.
    Created(String),
    /// Done; there is nothing to say.
    Done,
    /// A body that is written while it is sent.
    Stream {
        /// The type of the contents.
        content_type: &'static str,
        /// The name for the file of the client.
        file_name: String,
        /// Bytes of the body, if they are known.
        bytes: Option<u64>,
        /// Writes the body, on the same thread as the answer was made.
        write: WriteBody,
    },
}

/// Why a request has no answer.
#[derive(Debug)]
pub struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) error: String,
    pub(crate) position: Option<(usize, usize)>,
    pub(crate) hint: Option<String>,
}

impl Refusal {
    fn of(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), position: None, hint: None }
    }

    /// 400: the request has a mistake.
    pub fn bad(error: impl Into<String>) -> Self {
        Self::of(StatusCode::BAD_REQUEST, error)
    }

    /// 401.
    pub(crate) fn unauthorized() -> Self {
        Self::of(StatusCode::UNAUTHORIZED, "the token is missing or wrong")
            .with_hint("send the header `Authorization: Bearer TOKEN`, or add `token=TOKEN` to the address: the recorder prints the \
                        token when it starts, unless --api-token-file has it")
    }

    /// 403: this client may not ask.
    pub(crate) fn forbidden(error: impl Into<String>) -> Self {
        Self::of(StatusCode::FORBIDDEN, error)
    }

    /// 404.
    pub fn not_found() -> Self {
        Self::of(StatusCode::NOT_FOUND, "there is no such thing")
            .with_hint("/api/v1/openapi.json lists all routes")
    }

    /// 404: what was asked for is not there.
    pub fn missing(error: impl Into<String>) -> Self {
        Self::of(StatusCode::NOT_FOUND, error)
    }

    /// 409: the state of the recorder does not allow the request.
    pub fn conflict(error: impl Into<String>) -> Self {
        Self::of(StatusCode::CONFLICT, error)
    }

    /// 410: what was asked for is no longer there.
    pub fn gone(error: impl Into<String>) -> Self {
        Self::of(StatusCode::GONE, error)
    }

    /// 429: a limit is reached.
    pub fn too_many(error: impl Into<String>) -> Self {
        Self::of(StatusCode::TOO_MANY_REQUESTS, error)
    }

    /// 500: the recorder failed.
    pub fn failed(error: impl Into<String>) -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, error)
    }

    /// 503: not now.
    pub(crate) fn busy(error: impl Into<String>) -> Self {
        Self::of(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    pub(crate) fn with_status(status: StatusCode, error: impl Into<String>) -> Self {
        Self::of(status, error)
    }

    /// The bytes of the mistake in the filter: the first one, and the one behind the last.
    #[must_use]
    pub fn at(mut self, start: usize, end: usize) -> Self {
        self.position = Some((start, end));
        self
    }

    /// What to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The refusal as a text of JSON.
    pub(crate) fn text(&self) -> String {
        let mut object = Map::new();
        object.insert("error".into(), self.error.clone().into());
        if let Some((start, end)) = self.position {
            object.insert("position".into(), vec![start, end].into());
        }
        object.extend(self.hint.iter().map(|hint| ("hint".to_string(), hint.clone().into())));
        Value::Object(object).to_string()
    }
}
