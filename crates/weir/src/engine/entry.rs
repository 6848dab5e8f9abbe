//! A subscription: its questions, and the delivery of their answers.

use super::callback::{Deliver, Next, RunEnd, TakeItems};
use crate::ask::question::Question;
use crate::handlers::bundle::Bundle;
use crate::handlers::datum::{Needs, Passing};
use crate::handlers::isolation::{CallbackPanics, Isolation};
use crate::handlers::question_worker::{MakeQuestionWorker, QuestionWorker};
use crate::handlers::subscription::Subscription;
use crate::handlers::track::{Every, MakeTrack, track_store};
use crate::items::item::Item;
use crate::outcome::Outcome;
use crate::pipeline::Counts;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use weir_compile::events::EventSet;
use weir_engine::plan::Want;
use weir_engine::stream::{ChunkParams, StreamParams};
use weir_sessions::Session;

/// A subscription.
pub(super) struct Entry<'c> {
    /// The questions, in the order in which they were given.
    pub parts: Vec<Question>,
    deliver: Option<Box<dyn Deliver + 'c>>,
    items: Option<Box<dyn TakeItems + 'c>>,
    /// Called once for each session; otherwise once for each connection that has any.
    each_session: bool,
    /// Called when connections end: sessions wait until then.
    at_end: bool,
    /// Waiting sessions, by connection.
    held: HashMap<String, Vec<Arc<dyn Session>>>,
    held_sessions: usize,
    /// Sessions that were lost for lack of room.
    lost: u64,
    /// Connections for which the callback wants no more deliveries.
    ended: HashSet<String>,
    /// The subscription was removed. Earlier results may still arrive, and its questions keep their numbers
    /// until the next program takes over.
    pub is_over: bool,
    /// The subscription was removed, and no more answers to its questions can arrive.
    pub is_free: bool,
    /// The program being compiled includes its questions.
    pub is_asked: bool,
    /// The number of its subscription.
    pub serial: u64,
    /// The panics of its callback or handlers.
    isolation: Isolation,
    /// Of a pipeline: the counters of its operators.
    pipeline_counts: Option<Arc<Mutex<Counts>>>,
}

/// Limit of remembered connections that want no more deliveries: the end of some is never reported.
const ENDED_MAX: usize = 1 << 16;

/// Limit of sessions per subscription that wait for the end of their connection. Sessions beyond it count as
/// lost.
const HELD_SESSIONS_MAX: usize = 1 << 20;

impl<'c> Entry<'c> {
    fn of_parts(parts: Vec<Question>) -> Self {
        Self {
            parts,
            deliver: None,
            items: None,
            each_session: false,
            at_end: false,
            held: HashMap::new(),
            held_sessions: 0,
            lost: 0,
            ended: HashSet::new(),
            is_over: false,
            is_free: false,
            is_asked: false,
            serial: 0,
            isolation: Isolation::default(),
            pipeline_counts: None,
        }
    }

    /// A subscription whose questions have only handlers.
    pub fn of_handlers(question: Question, isolation: Isolation) -> Self {
        Self { isolation, ..Self::of_parts(vec![question]) }
    }

    /// A subscription that receives items as they arrive.
    pub fn of_items(questions: Vec<Question>, items: Box<dyn TakeItems + 'c>) -> Self {
        Self { items: Some(items), ..Self::of_parts(questions) }
    }

    /// The same, of a pipeline with these counters, whose panics are isolated.
    pub fn of_pipeline(self, isolation: Isolation, counts: Arc<Mutex<Counts>>) -> Self {
        Self { isolation, pipeline_counts: Some(counts), ..self }
    }

    /// Of a pipeline: what the bounds of its operators cut off.
    pub fn pipeline_counts(&self) -> Counts {
        let counts = self.pipeline_counts.as_ref();
        counts
            .map_or_else(Counts::new, |counts| counts.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// A subscription with a callback.
    pub fn of_callback(filter: &str, needs: Needs, every: Every, deliver: Box<dyn Deliver + 'c>) -> Self {
        let mut parts = vec![];
        if needs.packets {
            let mut part = Question::whole(filter, Want::Packets);
            part.shape.frames = true;
            parts.push(part);
        }
        if !needs.sessions.is_empty() {
            parts.push(Question::whole(filter, Want::Sessions(needs.sessions)));
        }
        if needs.connections {
            let is_tracked = needs.track.is_some() || every != Every::Connection;
            let nothing: MakeTrack = Arc::new(track_store::<()>);
            let make = needs.track.unwrap_or(nothing);
            let isolation = needs.isolation.clone();
            let worker: MakeQuestionWorker =
                Arc::new(move || QuestionWorker::Track(make(every, isolation.clone())));
            parts.push(match is_tracked {
                true => Question {
                    make: Some(worker),
                    ..Question::whole(filter, Want::Tracked(needs.track_sessions))
                },
                false => Question::whole(filter, Want::Connections),
            });
        }
        if let Some(bytes) = needs.bytes {
            let chunk = (bytes > 0).then_some(ChunkParams { bytes, overlap: 0, flush_ns: 0 });
            let params = StreamParams { chunk, ..StreamParams::default() };
            parts.push(Question::of_streams(filter, params, || Passing));
        }
        if needs.events {
            let mut part = Question::whole(filter, Want::Events);
            part.ask.need.events = EventSet::FULL;
            parts.push(part);
        }
        let (each_session, at_end, isolation) = (needs.each_session > 0, needs.at_end, needs.isolation);
        Self { parts, deliver: Some(deliver), each_session, at_end, isolation, ..Self::of_parts(vec![]) }
    }

    /// A subscription with a handler, which receives everything.
    pub fn of_handler(filter: &str, needs: Needs, make: MakeQuestionWorker) -> Self {
        let callback = Self::of_callback(filter, needs, Every::Connection, Box::new(Nobody));
        let parts = callback.parts.into_iter().enumerate().map(|(index, part)| {
            let behind: MakeQuestionWorker = Arc::new(move || QuestionWorker::Behind(index));
            Question { make: Some(if index == 0 { Arc::clone(&make) } else { behind }), ..part }
        });
        Self { parts: parts.collect(), isolation: callback.isolation, ..Self::of_parts(vec![]) }
    }

    /// The panics of its callback or handlers, if there were any; `place` is that of the entry.
    pub fn panics(&self, place: usize) -> Option<CallbackPanics> {
        self.isolation.report(Subscription { serial: self.serial, place })
    }

    /// The filter of the subscription.
    pub fn filter(&self) -> &str {
        self.parts.first().map_or("", |part| &part.ask.filter)
    }

    /// Removes the questions of the subscription; earlier results are delivered until its [end](Self::end).
    pub fn leave(&mut self) {
        self.is_over = true;
        self.parts.iter_mut().for_each(|part| *part = Question::nothing());
    }

    /// Removes the subscription; nothing more is delivered. Returns what was lost.
    pub fn end(&mut self) -> u64 {
        self.leave();
        self.held.clear();
        self.ended.clear();
        self.held_sessions = 0;
        if let Some(mut items) = self.items.take() {
            items.finish(None);
        }
        std::mem::take(&mut self.lost) + self.deliver.take().map_or(0, |mut deliver| deliver.finish())
    }

    /// Ends a run with this outcome; `first` is the number of the subscription's first question.
    pub fn finish_items(&mut self, outcome: &Outcome, first: usize) {
        if let Some(items) = &mut self.items {
            let matched = outcome.matched.get(first..first + self.parts.len()).unwrap_or_default();
            items.finish(Some(RunEnd { outcome, matched }));
        }
    }

    /// Ends the deliveries of a run. Returns what was lost.
    pub fn finish(&mut self) -> u64 {
        self.held.clear();
        self.ended.clear();
        self.held_sessions = 0;
        std::mem::take(&mut self.lost) + self.deliver.as_mut().map_or(0, |deliver| deliver.finish())
    }

    /// Delivers an item of one of the questions.
    pub fn take(&mut self, question: usize, item: Item<'_>) -> Next {
        if let Some(items) = &mut self.items {
            return items.take(question, item);
        }
        match item {
            Item::Pause => Next::Go,
            // Rows are those of events.
            Item::Rows(rows) => {
                let mut calls = rows.iter().map(|row| self.call(Bundle::of_event(row)));
                calls.find(|next| *next != Next::Go).unwrap_or(Next::Go)
            }
            item => self.call(Bundle::of(item)),
        }
    }

    /// Calls the callback with the data of an item, unless the data waits for the end of a connection.
    fn call(&mut self, mut bundle: Bundle) -> Next {
        let Some(deliver) = &mut self.deliver else { return Next::Go };
        let uid = bundle.flow.as_ref().map(|flow| flow.uid.as_str()).unwrap_or_default();
        if !self.ended.is_empty() && self.ended.contains(uid) {
            if bundle.is_over {
                self.ended.remove(uid);
            }
            return Next::Go;
        }
        if let Some(session) = bundle.session.take_if(|_| self.at_end) {
            match self.held_sessions < HELD_SESSIONS_MAX {
                true => self.held.entry(uid.to_string()).or_default().push(session),
                false => self.lost += 1,
            }
            self.held_sessions = (self.held_sessions + 1).min(HELD_SESSIONS_MAX);
            return Next::Go;
        }
        let mut next = Next::Go;
        if self.at_end {
            let sessions = match bundle.is_over {
                true => {
                    let sessions = self.held.remove(uid);
                    self.held_sessions -= sessions.as_ref().map_or(0, Vec::len);
                    sessions
                }
                false => self.held.get(uid).cloned(),
            };
            bundle.sessions = sessions.unwrap_or_default();
        }
        let uid = uid.to_string();
        let is_over = bundle.is_over;
        if self.at_end && self.each_session {
            for session in std::mem::take(&mut bundle.sessions) {
                bundle.session = Some(session);
                next = deliver.call(&bundle);
                if next != Next::Go {
                    break;
                }
            }
        } else {
            next = deliver.call(&bundle);
        }
        if next == Next::EndFlow && !is_over && !uid.is_empty() {
            self.held_sessions -= self.held.remove(&uid).map_or(0, |sessions| sessions.len());
            if self.ended.len() == ENDED_MAX {
                self.ended.clear();
            }
            self.ended.insert(uid);
        }
        next
    }
}

/// A receiver that is never called, for subscriptions with a handler.
struct Nobody;

impl Deliver for Nobody {
    fn call(&mut self, _: &Bundle) -> Next {
        Next::Go
    }
}
