//! The counters of a run while it goes on, for others: `--metrics` serves them for Prometheus over HTTP, and
//! `--otlp` sends them to a collector of OpenTelemetry.
//!
//! - `family.rs`: metrics as values, which both show
//! - `families.rs`: which metrics there are; `series.rs`: those of aggregates
//! - `exposition.rs`: their text, in two formats; `server.rs`: the HTTP server
//! - `otlp.rs`: the same for the collector

mod exposition;
mod families;
mod family;
mod otlp;
mod series;
mod server;

pub use otlp::collector;
pub use series::Series;
pub use server::{addresses, bind};

use crate::failure::Failure;
use crate::spec::QuestionSpec;
use crate::totals::RunTotals;
use families::Metrics;
use otlp::Sending;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use weir::Watch;

/// To whom the metrics of a run are shown.
pub struct Readers<'a> {
    /// Address of the page.
    pub page: Option<&'a str>,
    /// The collector, and the seconds between two messages to it.
    pub collector: Option<(&'a str, f64)>,
}

/// Metrics that are shown to others until the end of the run.
pub struct Published(Option<Sending>);

impl Published {
    /// Sends the last metrics to the collector, which has 2 s to accept them. The page remains until the
    /// process ends.
    pub fn finish(self) {
        if let Some(sending) = self.0 {
            sending.finish();
        }
    }
}

/// Shows the metrics of the run that `watch` shows, to these readers. Messages say where.
///
/// # Errors
/// The address of the page is none, or cannot be used; the system makes no thread.
pub fn publish(
    readers: Readers<'_>,
    specs: &[QuestionSpec],
    watch: &Watch,
    totals: &RunTotals,
) -> Result<Published, Failure> {
    let metrics = Metrics {
        watch: watch.clone(),
        totals: totals.clone(),
        begun: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        exports: readers.collector.map(|_| Arc::default()),
    };
    if let Some(address) = readers.page {
        let metrics = metrics.clone();
        let bound = server::listen(address, move |format| exposition::text(&metrics.families(), format))?;
        note!("weir: metrics are at http://{bound}/metrics");
    }
    let sending = readers.collector.map(|(collector, seconds)| {
        let interval = Duration::from_secs_f64(seconds);
        Sending::start(collector, interval, otlp::instance(specs), metrics)
    });
    Ok(Published(sending.transpose()?))
}
