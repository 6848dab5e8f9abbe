//! Who sends metrics to whom, and what is said about the sending.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Who measures: attributes of all metrics.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Name of the program (`service.name`).
    pub name: String,
    /// Its version (`service.version`).
    pub version: String,
    /// Name of this instance (`service.instance.id`), which no other instance has.
    pub instance: String,
}

/// What is sent, and to whom.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The collector: a name or an address of a host, and its port. IPv6 addresses are in brackets.
    pub authority: String,
    /// Time between two exports.
    pub interval: Duration,
    /// Who measures.
    pub resource: Resource,
}

/// What happens to metrics. Each change is reported once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The collector does not accept metrics, with the reason: it is not there, or refuses. Weir tries again.
    Failed(String),
    /// The collector accepts metrics again.
    Recovered,
    /// The collector accepts metrics, but not all of their values, with its reason. Further ones are only
    /// counted.
    Rejected(String),
    /// The last metrics of the run were not accepted, with the reason.
    LastFailed(String),
}

/// Numbers of exports so far.
#[derive(Debug, Default)]
pub struct Exports {
    accepted: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
}

impl Exports {
    /// Exports that the collector accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Exports that failed.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Values, in accepted exports, that the collector rejected.
    pub fn rejected_values(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

#[cfg(feature = "otlp")]
impl Exports {
    pub(crate) fn add_accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_rejected_values(&self, values: u64) {
        self.rejected.fetch_add(values, Ordering::Relaxed);
    }
}
