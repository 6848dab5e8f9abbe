//! The state of the recorder: on request, and once a second as an event.

use super::past::Past;
use super::timeline::{Buckets, Counts, History};
use crate::dump_list::ListedDump;
use crate::options::RecorderOptions;
use crate::recording::Recording;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir::Watch;
use weir::io::ring::{Stretch, TimeRange};
use weir_questions::run::QuestionSet;
use weir_web::{Events, Refusal, Span};

/// Time between two looks at the counters.
const PERIOD: Duration = Duration::from_secs(1);

/// The state of the recorder.
pub struct State {
    set: Arc<QuestionSet>,
    options: Arc<RecorderOptions>,
    past: Arc<Past>,
    watch: Watch,
    events: Events,
    begun: Instant,
    history: Mutex<History>,
    /// Connections that the server refused.
    refused: OnceLock<Arc<AtomicU64>>,
}

/// A dump for other programs.
pub fn dump(dump: &ListedDump) -> Value {
    json!({
        "name": dump.file,
        "id": dump.name,
        "state": dump.state.label(),
        "packets": dump.packets,
        "bytes": dump.bytes,
        "reason": dump.reason,
    })
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

impl State {
    pub fn new(
        set: &Arc<QuestionSet>,
        recording: &Recording,
        past: Arc<Past>,
        (watch, events): (Watch, Events),
    ) -> Self {
        let options = recording.options().clone();
        let (begun, history, refused) = (Instant::now(), Mutex::default(), OnceLock::new());
        Self { set: Arc::clone(set), options, past, watch, events, begun, history, refused }
    }

    /// The counter of connections that the server refuses.
    pub fn set_refused(&self, counter: Arc<AtomicU64>) {
        let _ = self.refused.set(counter);
    }

    /// Whether the times of packets are those of the clock.
    fn is_live(&self) -> bool {
        !self.set.input.interface.is_empty()
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> Counts {
        let ring = self.past.ring.counters();
        let source = self.watch.glance().source;
        Counts {
            packets: ring.packets,
            bytes: ring.bytes,
            lost: source.dropped() + ring.too_long + ring.no_segment,
        }
    }

    /// The state as an object.
    pub fn status(&self) -> Value {
        let Counts { packets, bytes, lost } = self.counts();
        let ring = &self.past.ring;
        let times = ring.times();
        let mut counters = Map::new();
        for (name, count, _) in self.set.totals.further().map(|all| all.counters()).unwrap_or_default() {
            counters.insert(name.to_string(), count.into());
        }
        let source = self.watch.glance().source;
        counters.insert("source_received".into(), source.received.into());
        counters.insert("source_dropped".into(), source.dropped().into());
        let (listeners, events_lost) = self.events.counts();
        let refused = self.refused.get().map_or(0, |counter| counter.load(Ordering::Relaxed));
        counters.insert("api_listeners".into(), listeners.into());
        counters.insert("api_events_lost".into(), events_lost.into());
        counters.insert("api_connections_refused".into(), refused.into());
        let options = &self.options;
        let (spool, _) = options.spool_params().unwrap_or_default();
        let interfaces: Vec<_> = match self.is_live() {
            true => self.set.input.interface.clone(),
            false => self.set.input.read.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
        };
        json!({
            "name": options.name,
            "version": env!("CARGO_PKG_VERSION"),
            "interfaces": interfaces,
            "live": self.is_live(),
            "now": seconds(now_ns()),
            "seconds": self.begun.elapsed().as_secs_f64(),
            "packets": packets,
            "bytes": bytes,
            "lost": lost,
            "ring": {
                "bytes": ring.segments() as u64 * ring.segment_bytes() as u64,
                "first": times.map(|times| seconds(times.first)),
                "last": times.map(|times| seconds(times.last)),
            },
            "spool": spool.as_ref().map(|spool| json!({
                "directory": spool.directory.to_string_lossy(),
                "bytes_max": spool.rest.bytes_max,
                "classes": spool.classes.iter().map(|(name, retention)| json!({
                    "name": name,
                    "bytes_max": retention.bytes_max,
                    "seconds_max": retention.age_max.map(|age| age.as_secs_f64()),
                })).collect::<Vec<_>>(),
            })),
            "dumps": options.dumps.as_ref().map(|place| place.to_string_lossy()),
            "counters": counters,
        })
    }

    /// The segments in memory and on the disk.
    fn stretches(&self) -> Result<Vec<Stretch>, Refusal> {
        let mut all = self.past.ring.stretches();
        if let Some(mut spool) = self.past.spool() {
            all.extend(spool.stretches().map_err(|error| Refusal::failed(error.to_string()))?);
        }
        Ok(all)
    }

    /// Packets, bytes and losses in parts of a time.
    pub fn timeline(&self, span: &Span, buckets: usize) -> Result<Value, Refusal> {
        let TimeRange { mut first, mut last } = Past::times(span)?;
        let stretches = self.stretches()?;
        let stored = stretches.iter().map(|one| one.times).reduce(|one, other| TimeRange {
            first: one.first.min(other.first),
            last: one.last.max(other.last),
        });
        let now = now_ns();
        if first == i64::MIN {
            // The second in which the first packet came began before.
            first = stored.map_or(now - 60_000_000_000, |stored| stored.first.saturating_sub(1_000_000_000));
        }
        if last == i64::MAX {
            last = if self.is_live() { now } else { stored.map_or(now, |stored| stored.last) };
        }
        let times = TimeRange { first, last: last.max(first.saturating_add(1)) };
        let mut parts = Buckets::new(times, buckets);
        {
            let history = self.history();
            parts.add_history(&history, (now, self.counts()), self.is_live());
            let until = if self.is_live() { history.first().unwrap_or(i64::MAX) } else { i64::MAX };
            parts.add_stretches(&stretches, until);
        }
        let mut answer = parts.to_json();
        answer["stored"] = json!({
            "from": stored.map(|stored| seconds(stored.first)),
            "to": stored.map(|stored| seconds(stored.last)),
        });
        Ok(answer)
    }

    /// Looks at the counters: once a second.
    fn tick(&self) {
        let came = self.history().add(now_ns(), self.counts());
        if !self.events.has_listeners() {
            return;
        }
        let mut status = self.status();
        status["rate"] = json!({ "packets": came.packets, "bytes": came.bytes, "lost": came.lost });
        self.events.publish("status", &status.to_string());
        if came.lost > 0 {
            self.events
                .publish("loss", &json!({ "packets": came.lost, "now": seconds(now_ns()) }).to_string());
        }
    }
}

/// Looks at the counters until it is dropped.
pub struct Ticker {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub fn start(state: &Arc<State>) -> std::io::Result<Self> {
        let (end, ended) = channel::<()>();
        let state = Arc::clone(state);
        let run = move || {
            state.tick();
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                state.tick();
            }
        };
        let thread = std::thread::Builder::new().name("weir-status".into()).spawn(run)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
