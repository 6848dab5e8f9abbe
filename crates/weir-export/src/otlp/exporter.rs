//! The thread that sends metrics.

use super::message;
use super::metric::Metric;
use super::report::{Event, Exports, Resource, Settings};
use super::retry::{printable, wait};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// Time for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Time for the collector to accept the metrics of one time.
const EXPORT_MAX: Duration = Duration::from_secs(10);

/// Time for the same at the end of the run.
const LAST_MAX: Duration = Duration::from_secs(2);

/// Sends metrics every few seconds, on a thread of its own, and once more at the end.
#[derive(Debug)]
pub struct Exporter {
    /// Tells the thread that the run is over.
    over: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Exporter {
    /// Starts the thread. `collect` returns the metrics as they are; `notify` takes what happens. Both run on
    /// this thread.
    ///
    /// # Errors
    /// The authority is none; the system makes no thread.
    pub fn start(
        settings: Settings,
        exports: Arc<Exports>,
        collect: impl Fn() -> Vec<Metric> + Send + 'static,
        notify: impl Fn(Event) + Send + 'static,
    ) -> io::Result<Self> {
        let endpoint = endpoint(&settings).map_err(io::Error::other)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (over, is_over) = oneshot::channel();
        let sender = Sender { settings, endpoint, exports, collect, notify, channel: None };
        let thread = std::thread::Builder::new().name("weir-otlp".into()).spawn(move || {
            runtime.block_on(sender.run(is_over));
            // The system may still look for the address of the collector.
            runtime.shutdown_background();
        })?;
        Ok(Self { over, thread })
    }

    /// Sends the last metrics, and waits until the collector has accepted them, at most 2 s.
    pub fn finish(self) {
        drop(self.over);
        // A panic of the thread has been printed.
        let _ = self.thread.join();
    }
}

fn endpoint(settings: &Settings) -> Result<Endpoint, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{}", settings.authority))?;
    let Resource { name, version, .. } = &settings.resource;
    Ok(endpoint.user_agent(format!("{name}/{version}"))?.connect_timeout(CONNECT_MAX))
}

struct Sender<C, N> {
    settings: Settings,
    endpoint: Endpoint,
    exports: Arc<Exports>,
    collect: C,
    notify: N,
    /// The connection, which is made when it is used.
    channel: Option<Channel>,
}

impl<C: Fn() -> Vec<Metric>, N: Fn(Event)> Sender<C, N> {
    async fn run(mut self, mut is_over: oneshot::Receiver<()>) {
        let (mut failures, mut has_rejected) = (0, false);
        let mut next = Instant::now() + self.settings.interval;
        loop {
            let Some(()) = unless(&mut is_over, sleep_until(next)).await else { break };
            let Some(exported) = unless(&mut is_over, self.export(EXPORT_MAX)).await else { break };
            match exported {
                Ok(rejected) => {
                    if failures > 0 {
                        (self.notify)(Event::Recovered);
                    }
                    if let Some(why) = rejected.filter(|_| !has_rejected) {
                        has_rejected = true;
                        (self.notify)(Event::Rejected(why));
                    }
                    failures = 0;
                }
                Err(why) => {
                    if failures == 0 {
                        (self.notify)(Event::Failed(why));
                    }
                    failures += 1;
                }
            }
            next = (next + wait(failures, self.settings.interval)).max(Instant::now());
        }
        if let Err(why) = self.export(LAST_MAX).await {
            (self.notify)(Event::LastFailed(why));
        }
    }

    /// Sends the metrics as they are now. Returns why the collector rejected some values, or why the export
    /// failed.
    async fn export(&mut self, limit: Duration) -> Result<Option<String>, String> {
        let exported = timeout(limit, self.send_all()).await;
        let exported = exported.unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs())));
        match &exported {
            Ok(_) => self.exports.add_accepted(),
            Err(_) => {
                // The connection may be one that leads nowhere.
                self.channel = None;
                self.exports.add_failed()
            }
        };
        exported
    }

    async fn send_all(&mut self) -> Result<Option<String>, String> {
        let channel = self.channel.get_or_insert_with(|| self.endpoint.connect_lazy()).clone();
        let mut client = MetricsServiceClient::new(channel);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut why = None;
        for request in message::requests(&self.settings.resource, (self.collect)(), now) {
            let response = client.export(request).await.map_err(|status| reason(&status))?;
            let partial = response.into_inner().partial_success.unwrap_or_default();
            if let Some(rejected) =
                u64::try_from(partial.rejected_data_points).ok().filter(|count| *count > 0)
            {
                self.exports.add_rejected_values(rejected);
                why = Some(printable(&partial.error_message));
            }
        }
        Ok(why)
    }
}

/// The result of some work. `None`: the run ended before.
async fn unless<T>(is_over: &mut oneshot::Receiver<()>, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| match Pin::new(&mut *is_over).poll(context) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(context).map(Some),
    })
    .await
}

/// What a status says: the cause of a connection's failure, or the words of the collector.
fn reason(status: &Status) -> String {
    let mut cause = std::error::Error::source(status);
    while let Some(next) = cause.and_then(std::error::Error::source) {
        cause = Some(next);
    }
    match cause {
        Some(cause) => printable(&cause.to_string()),
        None => format!("{:?}: {}", status.code(), printable(status.message())),
    }
}
