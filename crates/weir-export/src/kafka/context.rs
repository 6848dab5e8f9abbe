//! What librdkafka reports, in order: [`Reports`].

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryResult, ProducerContext};
use std::sync::{Arc, Mutex, PoisonError};

/// A report.
pub enum Report {
    /// The message with this number is stored, or failed for good.
    Settled(usize, Result<(), RDKafkaErrorCode>),
    /// No broker can be reached, for this reason.
    Interrupted(String),
}

/// Receives reports. They come while the producer is polled, on the thread that polls.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    reports: Vec<Report>,
    /// The latest failure of a connection.
    reason: String,
}

impl Reports {
    /// The reports since the last call. Their number is bounded by that of the messages, and by how often
    /// brokers go.
    pub fn take(&self) -> Vec<Report> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).reports)
    }
}

impl ClientContext for Reports {
    /// Nothing reads a log: what matters is reported.
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            let reason = match state.reason.as_str() {
                "" => reason.to_string(),
                reason => reason.to_string(),
            };
            state.reports.push(Report::Interrupted(reason));
        } else {
            // `NAME: failure (after 3ms in state CONNECT)`: times differ each time.
            let (reason, _) = reason.split_once(" (after ").unwrap_or((reason, ""));
            state.reason = reason.chars().filter(|c| !c.is_control()).take(300).collect();
        }
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let settled = result
            .as_ref()
            .map(drop)
            .map_err(|(error, _)| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown));
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.reports.push(Report::Settled(number, settled));
    }
}
