//! The API of a recorder over HTTP, and its page.
//!
//! The crate has the routes, the checks of clients, the limits and the stream of events. It knows nothing of
//! packets: a [`Service`] answers each [`Request`]. [`Server::start`] runs everything on a thread of its own,
//! so that no client delays the recorder.
//!
//! - `routes.rs`: the table of routes, and how a request of HTTP becomes a [`Request`]
//! - `address.rs`: where servers listen
//! - `admission.rs`: who may ask: tokens, names of hosts, places of origin
//! - `server.rs`: connections and their limits; `answers.rs`: from a [`Reply`] to a response
//! - `events.rs`: the stream of events
//! - `text_page.rs`: a server of one text, such as metrics
//! - `bounds.rs`: all limits
//! - `docs/openapi.json` in the repository describes the routes for other programs; a test compares both

#![forbid(unsafe_code)]

mod address;
mod admission;
mod answers;
mod body;
pub mod bounds;
mod client;
mod events;
mod page;
mod reply;
mod request;
mod routes;
mod server;
mod service;
mod text_page;

pub use address::{addresses, bind};
pub use admission::{Admission, Token};
pub use body::Output;
pub use client::Client;
pub use events::Events;
pub use reply::{Refusal, Reply, WriteBody};
pub use request::{Part, Request, RowsAsked, Span};
pub use routes::{OPENAPI, paths};
pub use server::{Listening, Server};
pub use service::Service;
pub use text_page::{Render, TextPage};
