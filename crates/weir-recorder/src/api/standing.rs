//! Triggers and questions about the traffic that comes: the API adds them to the run and removes them, as
//! `weir ctl` does.

use super::refusals::of_failure;
use crate::asking::PendingAsker;
use crate::dumps::DumpAsker;
use crate::triggers::Trigger;
use serde_json::{Value, json};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use weir::io::sink::{Format, Options, create};
use weir::packet::{Batch, Column, RowSink};
use weir::{Control, Subscription};
use weir_questions::QuestionSpec;
use weir_questions::by_name::Yielded;
use weir_questions::by_name::{TakeRows, kinds};
use weir_questions::run::QuestionSet;
use weir_questions::run::Run;
use weir_web::{Events, Refusal};

/// Triggers of the API at a time.
pub const TRIGGERS_MAX: usize = 64;
/// Questions of the API at a time.
pub const QUESTIONS_MAX: usize = 16;
/// Rows of a question in a second that become events; further ones are counted.
pub const ROWS_OF_SECOND: u64 = 500;
/// Rows in one event.
const ROWS_OF_EVENT: usize = 50;
/// Bytes of the rows in one event; longer rows are left out, and counted.
const EVENT_BYTES_MAX: usize = 64 << 10;

/// What the API has added to the run.
pub struct Standing {
    set: Arc<QuestionSet>,
    control: Control,
    asker: Option<DumpAsker>,
    events: Events,
    next: AtomicU64,
    /// Triggers of the command line, and of the API.
    triggers: Mutex<Vec<Added>>,
    questions: Mutex<Vec<Added>>,
}

struct Added {
    id: u64,
    /// `None`: it is from the command line, and stays.
    subscription: Option<Subscription>,
    ask: String,
    filter: String,
    counts: Arc<RowCounts>,
}

#[derive(Default)]
struct RowCounts {
    rows: AtomicU64,
    left_out: AtomicU64,
}

fn lock(mutex: &Mutex<Vec<Added>>) -> MutexGuard<'_, Vec<Added>> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Standing {
    /// `own`: the filters of the triggers with which the recorder began.
    pub fn new(run: &Run<'_>, own: &[String], asker: Option<DumpAsker>, events: Events) -> Self {
        let (set, control) = (run.set(), run.control());
        let own = (1..).zip(own).map(|(id, filter)| Added {
            id,
            subscription: None,
            ask: String::new(),
            filter: filter.clone(),
            counts: Arc::default(),
        });
        let triggers: Vec<Added> = own.collect();
        let next = AtomicU64::new(triggers.len() as u64 + 1);
        let (triggers, questions) = (Mutex::new(triggers), Mutex::default());
        Self { set: Arc::clone(set), control, asker, events, next, triggers, questions }
    }

    fn id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// All triggers.
    pub fn triggers(&self) -> Value {
        let all: Vec<_> = lock(&self.triggers).iter().map(trigger).collect();
        json!({ "triggers": all })
    }

    /// Adds a trigger to the run.
    pub fn add_trigger(&self, filter: &str) -> Result<Value, Refusal> {
        let checked = self.set.compiler.check_filter(filter, self.set.input.bpf);
        checked.map_err(|wrong| of_failure(wrong.into()))?;
        if filter.trim().is_empty() {
            return Err(Refusal::bad("a trigger without a filter would dump every connection")
                .with_hint("for packets of all kinds, POST /api/v1/dumps"));
        }
        // The lock is held until the run has the trigger: the bound holds for requests at the same time.
        let mut triggers = lock(&self.triggers);
        if triggers.iter().filter(|one| one.subscription.is_some()).count() >= TRIGGERS_MAX {
            return Err(Refusal::too_many(format!("there are {TRIGGERS_MAX} triggers: remove one first")));
        }
        let pending = PendingAsker::default();
        self.asker.iter().for_each(|asker| pending.set(asker.clone()));
        let reason = format!("matches the trigger `{filter}`");
        let (taker, question) = Trigger::new((filter, filter.to_string(), reason), pending);
        let subscription = self.control.subscribe_questions(vec![question], taker).map_err(Refusal::bad)?;
        let added = Added {
            id: self.id(),
            subscription: Some(subscription),
            ask: String::new(),
            filter: filter.to_string(),
            counts: Arc::default(),
        };
        let made = trigger(&added);
        triggers.push(added);
        Ok(made)
    }

    /// Removes a trigger. Its dumps go on to the end of their connections.
    pub fn remove_trigger(&self, id: u64) -> Result<(), Refusal> {
        self.remove(&self.triggers, id, "trigger")
    }

    /// All questions.
    pub fn questions(&self) -> Value {
        let all: Vec<_> = lock(&self.questions).iter().map(question).collect();
        json!({ "questions": all })
    }

    /// Adds a question to the run.
    pub fn add_question(&self, ask: &str, filter: &str) -> Result<Value, Refusal> {
        let kind = ask.trim();
        let is_log = kinds()
            .iter()
            .any(|one| one.name == kind && (one.is_log || kind == "flows" || kind == "sessions"));
        let id = self.id();
        let spec = QuestionSpec {
            name: format!("api-{id}"),
            ask: if is_log { kind.to_string() } else { "aggregate".to_string() },
            aggregate: (!is_log).then(|| kind.to_string()),
            filter: filter.to_string(),
            format: Some(Format::Json.label().to_string()),
            ..QuestionSpec::default()
        };
        if !is_log && !kind.contains(" every ") {
            return Err(Refusal::bad(format!("`{kind}` is no log, and no aggregate with windows"))
                .with_hint(
                    "ask for a log (tls, dns, flows …), or an aggregate such as `count() by ip.src every 1s`",
                ));
        }
        let mut questions = lock(&self.questions);
        if questions.len() >= QUESTIONS_MAX {
            return Err(Refusal::too_many(format!("there are {QUESTIONS_MAX} questions: remove one first")));
        }
        let settled = self.set.settle_rows(&spec).map_err(of_failure)?;
        let counts = Arc::<RowCounts>::default();
        let taker = EventTaker::new(id, &settled.columns, self.events.clone(), Arc::clone(&counts));
        let taker = Box::new(taker.map_err(|error| Refusal::failed(error.to_string()))?);
        let is_link = !self.set.input.interface.is_empty();
        let yielded = Yielded::new(settled.rows, taker, is_link, (spec.name, Arc::default()));
        let subscription =
            self.control.subscribe_questions(settled.questions, yielded).map_err(Refusal::bad)?;
        let added = Added {
            id,
            subscription: Some(subscription),
            ask: kind.to_string(),
            filter: filter.to_string(),
            counts,
        };
        let made = question(&added);
        questions.push(added);
        Ok(made)
    }

    /// Removes a question.
    pub fn remove_question(&self, id: u64) -> Result<(), Refusal> {
        self.remove(&self.questions, id, "question")
    }

    fn remove(&self, from: &Mutex<Vec<Added>>, id: u64, what: &str) -> Result<(), Refusal> {
        let mut all = lock(from);
        let at = all.iter().position(|one| one.id == id);
        let at = at.ok_or_else(|| Refusal::missing(format!("there is no {what} {id}")))?;
        let subscription = all[at].subscription.ok_or_else(|| {
            Refusal::conflict(format!("{what} {id} is from the command line of weir record, and stays"))
        })?;
        // It may have ended by itself.
        let _ = self.control.unsubscribe(subscription);
        all.remove(at);
        Ok(())
    }
}

fn trigger(added: &Added) -> Value {
    json!({ "id": added.id, "filter": added.filter, "removable": added.subscription.is_some() })
}

fn question(added: &Added) -> Value {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    json!({
        "id": added.id,
        "ask": added.ask,
        "filter": added.filter,
        "rows": count(&added.counts.rows),
        "left_out": count(&added.counts.left_out),
    })
}

/// Turns the rows of a question into events. Called by the threads of the run: never waits.
struct EventTaker {
    id: u64,
    events: Events,
    sink: Box<dyn RowSink + Send>,
    text: Shared,
    counts: Arc<RowCounts>,
    second: Instant,
    rows_of_second: u64,
}

/// A text that a sink writes.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl EventTaker {
    fn new(id: u64, columns: &[Column], events: Events, counts: Arc<RowCounts>) -> io::Result<Self> {
        let text = Shared::default();
        let mut sink = create(Format::Json, Box::new(text.clone()), &Options::default());
        sink.begin(columns)?;
        Ok(Self { id, events, sink, text, counts, second: Instant::now(), rows_of_second: 0 })
    }
}

impl TakeRows for EventTaker {
    fn rows(&mut self, rows: &Batch) -> io::Result<bool> {
        self.counts.rows.fetch_add(rows.rows() as u64, Ordering::Relaxed);
        if self.second.elapsed().as_secs() >= 1 {
            (self.second, self.rows_of_second) = (Instant::now(), 0);
        }
        let wanted = if self.events.has_listeners() { rows.rows() } else { 0 };
        let shown = wanted.min(usize::try_from(ROWS_OF_SECOND - self.rows_of_second).unwrap_or(0));
        self.rows_of_second += shown as u64;
        let mut left_out = (wanted - shown) as u64;
        for first in (0..shown).step_by(ROWS_OF_EVENT) {
            self.sink.rows(rows, first..shown.min(first + ROWS_OF_EVENT))?;
            self.sink.flush()?;
            let text = std::mem::take(&mut *self.text.0.lock().unwrap_or_else(PoisonError::into_inner));
            let text = String::from_utf8_lossy(&text);
            let (mut bytes, mut list) = (0, vec![]);
            for line in text.lines() {
                bytes += line.len();
                if bytes > EVENT_BYTES_MAX {
                    left_out += 1;
                } else {
                    list.push(line);
                }
            }
            self.events
                .publish("rows", &format!("{{\"question\":{},\"rows\":[{}]}}", self.id, list.join(",")));
        }
        if left_out > 0 {
            self.counts.left_out.fetch_add(left_out, Ordering::Relaxed);
            let said = json!({ "question": self.id, "left_out": left_out });
            self.events.publish("rows_left_out", &said.to_string());
        }
        Ok(true)
    }

    fn pause(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}
