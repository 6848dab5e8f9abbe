//! Requests, as a service answers them: values are checked for size and form, not for meaning.

use crate::bounds;
use crate::reply::Refusal;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The times of packets that a request is about, as the client wrote them. `None`: from the first packet, or
/// up to now.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Span {
    /// The first time: `-5m`, `14:02`, `2026-11-26 14:02:03`, seconds since 1970.
    pub from: Option<String>,
    /// The last time.
    pub to: Option<String>,
}

/// A question whose answer is rows.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsAsked {
    /// The type of the question: `flows`, `aggregate`, or the name of a log.
    pub kind: String,
    /// Of `aggregate`: the text of the aggregate, and of which rows it is.
    pub aggregate: Option<(String, Option<String>)>,
    /// The filter; empty: everything.
    pub filter: String,
    /// The times.
    pub span: Span,
    /// A column, with `-` before it for descending order.
    pub sort: Option<String>,
    /// Rows of the answer at most.
    pub limit: usize,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// The state of the recorder.
    Status,
    /// Packets, bytes and losses over time.
    Timeline {
        /// The times.
        span: Span,
        /// The number of parts.
        buckets: usize,
    },
    /// Rows.
    Rows(RowsAsked),
    /// Further rows of an answer.
    MoreRows {
        /// Where the rows go on, as the answer said.
        cursor: String,
        /// Rows at most.
        limit: usize,
    },
    /// Packets as a pcapng file.
    Packets {
        /// The filter; empty: all packets.
        filter: String,
        /// The times.
        span: Span,
    },
    /// Something about one connection. `filter` and `span`, those of the question whose answer had the
    /// connection, narrow the search.
    Connection {
        /// The identifier.
        uid: String,
        /// What is asked.
        part: Part,
        /// A filter that the connection matches.
        filter: String,
        /// Times that contain its packets.
        span: Span,
    },
    /// All triggers.
    Triggers,
    /// A new trigger.
    AddTrigger {
        /// The filter.
        filter: String,
    },
    /// Removes the trigger with this number.
    RemoveTrigger(u64),
    /// All dumps.
    Dumps,
    /// A new dump.
    AddDump {
        /// The filter.
        filter: String,
        /// Seconds before now.
        before: f64,
        /// Seconds after now.
        after: f64,
    },
    /// The file of a dump.
    Dump(String),
    /// Ends a dump.
    EndDump(String),
    /// All standing questions.
    Questions,
    /// A standing question: its rows are events.
    AddQuestion {
        /// The name of a type of questions, or the text of an aggregate.
        ask: String,
        /// The filter.
        filter: String,
    },
    /// Removes the question with this number.
    RemoveQuestion(u64),
    /// The mistakes of a filter.
    Check(String),
    /// How a filter can go on.
    Complete {
        /// The filter.
        filter: String,
        /// The byte before which the text is inserted.
        at: usize,
    },
}

/// What is asked about a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Its packets, as a pcapng file.
    Packets,
    /// Its bytes in order.
    Streams,
    /// Its rows of all logs.
    Sessions,
}

/// What a request of HTTP gives: the values in its path, its query, its body.
pub(crate) struct Given<'a> {
    pub path: Vec<String>,
    pub uri: &'a axum::http::Uri,
    pub body: &'a [u8],
}

impl Given<'_> {
    /// The value in the path.
    pub fn name(&self) -> Result<String, Refusal> {
        self.path.first().cloned().ok_or_else(Refusal::not_found)
    }

    pub fn number(&self) -> Result<u64, Refusal> {
        self.name()?.parse().map_err(|_| Refusal::not_found())
    }

    pub fn query<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let read = axum::extract::Query::<T>::try_from_uri(self.uri);
        read.map(|query| query.0).map_err(|wrong| Refusal::bad(wrong.body_text()))
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(self.body).map_err(|wrong| {
            Refusal::bad(format!("the body is not as expected: {wrong}"))
                .with_hint("send an object of JSON; /api/v1/openapi.json describes it")
        })
    }
}

/// The query of rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowsQuery {
    #[serde(default)]
    filter: String,
    from: Option<String>,
    to: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
    sort: Option<String>,
    ask: Option<String>,
    of: Option<String>,
}

impl RowsQuery {
    /// The request for rows of this type.
    pub fn request(self, kind: String) -> Result<Request, Refusal> {
        let limit = self.limit.unwrap_or(bounds::ROWS_USUAL);
        if limit == 0 || limit > bounds::ROWS_MAX {
            return Err(Refusal::bad(format!("limit: give a number from 1 to {}", bounds::ROWS_MAX)));
        }
        if let Some(cursor) = self.cursor {
            return Ok(Request::MoreRows { cursor, limit });
        }
        let aggregate = match (kind.as_str(), self.ask) {
            ("aggregate", Some(ask)) => Some((ask, self.of)),
            ("aggregate", None) => {
                return Err(Refusal::bad("ask: give an aggregate, such as `count() by ip.src`"));
            }
            (_, Some(_)) => return Err(Refusal::bad("ask is for /api/v1/aggregate")),
            (_, None) => None,
        };
        let (filter, span) = (filter(self.filter)?, Span { from: self.from, to: self.to });
        Ok(Request::Rows(RowsAsked { kind, aggregate, filter, span, sort: self.sort, limit }))
    }
}

/// A filter and times.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PacketsQuery {
    #[serde(default)]
    filter: String,
    from: Option<String>,
    to: Option<String>,
    uid: Option<String>,
}

impl PacketsQuery {
    pub fn parts(self) -> Result<(String, Span, Option<String>), Refusal> {
        Ok((filter(self.filter)?, Span { from: self.from, to: self.to }, self.uid))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimelineQuery {
    from: Option<String>,
    to: Option<String>,
    buckets: Option<usize>,
}

impl TimelineQuery {
    pub fn request(self) -> Result<Request, Refusal> {
        let buckets = self.buckets.unwrap_or(300);
        if buckets == 0 || buckets > bounds::BUCKETS_MAX {
            return Err(Refusal::bad(format!("buckets: give a number from 1 to {}", bounds::BUCKETS_MAX)));
        }
        Ok(Request::Timeline { span: Span { from: self.from, to: self.to }, buckets })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TriggerBody {
    pub filter: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DumpBody {
    #[serde(default)]
    filter: String,
    #[serde(default)]
    before: f64,
    #[serde(default)]
    after: f64,
}

impl DumpBody {
    pub fn request(self) -> Result<Request, Refusal> {
        let is_possible = |seconds: f64| (0.0..=bounds::DUMP_SECONDS_MAX).contains(&seconds);
        if !is_possible(self.before) || !is_possible(self.after) || self.before + self.after <= 0.0 {
            return Err(Refusal::bad(format!(
                "before and after: give seconds from 0 to {}, at least one of them above 0",
                bounds::DUMP_SECONDS_MAX
            )));
        }
        Ok(Request::AddDump { filter: filter(self.filter)?, before: self.before, after: self.after })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionBody {
    pub ask: String,
    #[serde(default)]
    pub filter: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckQuery {
    pub filter: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteQuery {
    pub filter: String,
    pub at: Option<usize>,
}

/// A filter of a size that is compiled in a short time.
pub(crate) fn filter(text: String) -> Result<String, Refusal> {
    match text.len() <= bounds::FILTER_BYTES_MAX {
        true => Ok(text),
        false => Err(Refusal::bad(format!("a filter has at most {} bytes", bounds::FILTER_BYTES_MAX))),
    }
}
