//! What the server asks for, and what all requests share.

use crate::admission::Admission;
use crate::client::Client;
use crate::events::Events;
use crate::reply::{Refusal, Reply};
use crate::request::Request;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Answers requests. Called on several threads, which may block.
pub trait Service: Send + Sync + 'static {
    /// The answer to a request. Ends early when the client [says so](Client::ends).
    ///
    /// # Errors
    /// Why there is no answer.
    fn answer(&self, request: Request, client: &Client) -> Result<Reply, Refusal>;
}

/// What all requests share.
pub(crate) struct Shared {
    pub service: Arc<dyn Service>,
    pub events: Events,
    pub admission: Admission,
    pub short: Arc<Semaphore>,
    pub queries: Arc<Semaphore>,
    pub streams: Arc<Semaphore>,
}
