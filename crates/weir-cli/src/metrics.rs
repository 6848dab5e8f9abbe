//! The counters of a run while it goes on, for others: `--metrics` serves them for Prometheus over HTTP, and
//! `--otlp` sends them to a collector of OpenTelemetry.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use weir::Watch;
use weir_questions::Input;
use weir_questions::QuestionSpec;
use weir_questions::messages::Failure;
use weir_questions::metrics::RunTotals;
use weir_questions::metrics::{Exposition, Metrics, Sending, instance, text};
use weir_web::TextPage;

/// To whom the metrics of a run are shown.
pub struct Readers<'a> {
    /// Address of the page.
    pub page: Option<&'a str>,
    /// The collector, and the seconds between two messages to it.
    pub collector: Option<(&'a str, f64)>,
}

impl<'a> Readers<'a> {
    /// Those that the options name.
    pub fn of(input: &'a Input) -> Self {
        let collector = input.otlp.as_deref().map(|collector| (collector, input.otlp_interval));
        Self { page: input.metrics.as_deref(), collector }
    }
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
        let bound = listen(address, move |accept| {
            let format = Exposition::accepted(accept);
            (format.content_type(), text(&metrics.families(), format))
        })?;
        note!("weir: metrics are at http://{bound}/metrics");
    }
    let sending = readers.collector.map(|(collector, seconds)| {
        let interval = Duration::from_secs_f64(seconds);
        Sending::start(collector, interval, instance(specs), metrics)
    });
    Ok(Published(sending.transpose()?))
}

/// The port that is proposed.
const PORT: u16 = 9464;

/// Serves what `render` returns for a header `Accept`. Returns the address in use.
fn listen(
    address: &str,
    render: impl Fn(&str) -> (&'static str, String) + Send + Sync + 'static,
) -> Result<SocketAddr, Failure> {
    let bound = weir_web::addresses(address, PORT).and_then(|addresses| weir_web::bind(&addresses));
    let listener = bound.map_err(|why| Failure::new(format!("--metrics {address}: {why}")))?;
    let bound = listener.local_addr().map_err(Failure::new)?;
    let page = TextPage { path: "/metrics", what: "The metrics", render: Box::new(render) };
    page.serve(listener).map_err(Failure::new)?;
    Ok(bound)
}
