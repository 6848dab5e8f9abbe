//! The limits of the server. `docs/bounds.md` lists them.

use std::time::Duration;

/// Connections at a time; further ones are closed.
pub const CONNECTIONS_MAX: usize = 256;
/// Time for the head of a request, also between two requests of a connection.
pub const HEAD_MAX: Duration = Duration::from_secs(10);
/// Bytes of the head of a request: a filter has three bytes for each of its own, if all are encoded.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
/// Bytes of the body of a request.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// Time for the body of a request.
pub const BODY_MAX: Duration = Duration::from_secs(10);
/// A client that accepts nothing for this time loses the connection.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Queries at a time that read packets. Others wait for their turn.
pub const QUERIES_MAX: usize = 4;
/// Time that a query waits for its turn.
pub const TURN_MAX: Duration = Duration::from_secs(20);
/// Time of a query whose answer is rows.
pub const QUERY_MAX: Duration = Duration::from_secs(30);
/// Time of a query whose answer is a stream of packets.
pub const STREAM_MAX: Duration = Duration::from_secs(600);
/// Bytes of a stream of packets.
pub const STREAM_BYTES_MAX: u64 = 4 << 30;
/// Bytes of a stream that wait for the client, in parts of [`PART_BYTES`].
pub const WAITING_PARTS_MAX: usize = 16;
/// Bytes of a part of a stream.
pub const PART_BYTES: usize = 64 << 10;
/// Clients of the stream of events.
pub const LISTENERS_MAX: usize = 32;
/// Events that wait for a client; further ones are lost, and counted.
pub const EVENTS_MAX: usize = 256;
/// Rows of a page.
pub const ROWS_MAX: usize = 1000;
/// Rows of a page if the request does not say.
pub const ROWS_USUAL: usize = 100;
/// Parts of a timeline.
pub const BUCKETS_MAX: usize = 2000;
/// Bytes of a filter.
pub const FILTER_BYTES_MAX: usize = 8 << 10;
/// Seconds of a dump, before and after the request.
pub const DUMP_SECONDS_MAX: f64 = 86_400.0;
/// Connections at a time of a server of one text; further ones are closed.
pub const TEXT_CONNECTIONS_MAX: usize = 16;
/// Bytes of the head of a request to it.
pub const TEXT_HEAD_BYTES_MAX: usize = 8 << 10;
/// Time for a request to it to be complete, and for its answer to be accepted.
pub const TEXT_TRANSFER_MAX: Duration = Duration::from_secs(5);
/// Threads that answer requests: those of queries and of streams that go on, and some for short answers.
pub(crate) const THREADS_MAX: usize = QUERIES_MAX * 2 + 8;
