//! A subscription: the questions that it asks of the program, and what becomes of the answers.

use super::bundle::Bundle;
use super::callback::{Deliver, Next, RunEnd, TakeItems};
use super::datum::{Needs, Passing};
use super::track::{Every, MakeTrack, track_sink};
use crate::item::Item;
use crate::outcome::Outcome;
use crate::question::Question;
use crate::worker_sink::{MakeWorkerSink, WorkerSink};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use weir_compile::events::EventSet;
use weir_engine::plan::Want;
use weir_engine::stream::{ChunkParams, StreamParams};
use weir_sessions::Session;

/// A subscription.
pub(super) struct Entry<'c> {
    /// Its questions, in the order in which they were given.
    pub parts: Vec<Question>,
    deliver: Option<Box<dyn Deliver + 'c>>,
    items: Option<Box<dyn TakeItems + 'c>>,
    /// Called once for each session; otherwise once for each connection that has any.
    each_session: bool,
    /// Called when connections are over: sessions wait until then.
    at_end: bool,
    /// Sessions that wait, by connection.
    held: HashMap<String, Vec<Arc<dyn Session>>>,
    held_sessions: usize,
    /// Sessions that there was no room for.
    lost: u64,
    /// Connections of which no more is wanted.
    ended: HashSet<String>,
    /// It was taken away. What was found for it may still come, and its questions keep their numbers until the program is made anew.
    pub is_over: bool,
    /// It was taken away, and no answer to its questions is under way.
    pub is_free: bool,
    /// The program that is being made asks its questions.
    pub is_asked: bool,
    /// The number of its subscription.
    pub serial: u64,
}

/// Connections of which no more is wanted that are remembered: those of which the end is not told would stay.
const ENDED_MAX: usize = 1 << 16;

/// Sessions of a subscription that wait for their connections' ends. What is beyond is counted as lost.
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
        }
    }

    /// A subscription whose questions are answered by handlers alone.
    pub fn of_handlers(question: Question) -> Self {
        Self::of_parts(vec![question])
    }

    /// A subscription whose items are taken as they come.
    pub fn of_items(questions: Vec<Question>, items: Box<dyn TakeItems + 'c>) -> Self {
        Self { items: Some(items), ..Self::of_parts(questions) }
    }

    /// A callback's.
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
            let nothing: MakeTrack = Arc::new(track_sink::<()>);
            let make = needs.track.unwrap_or(nothing);
            let sink: MakeWorkerSink = Arc::new(move || WorkerSink::Track(make(every)));
            parts.push(match is_tracked {
                true => Question {
                    make: Some(sink),
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
        let (each_session, at_end) = (needs.each_session > 0, needs.at_end);
        Self { parts, deliver: Some(deliver), each_session, at_end, ..Self::of_parts(vec![]) }
    }

    /// A handler's: everything goes to it.
    pub fn of_handler(filter: &str, needs: Needs, make: MakeWorkerSink) -> Self {
        let callback = Self::of_callback(filter, needs, Every::Connection, Box::new(Nobody));
        let parts = callback.parts.into_iter().enumerate().map(|(index, part)| {
            let behind: MakeWorkerSink = Arc::new(move || WorkerSink::Behind(index));
            Question { make: Some(if index == 0 { Arc::clone(&make) } else { behind }), ..part }
        });
        Self { parts: parts.collect(), deliver: None, ..Self::of_parts(vec![]) }
    }

    /// Its filter.
    pub fn filter(&self) -> &str {
        self.parts.first().map_or("", |part| &part.ask.filter)
    }

    /// Nothing more is asked; what was found is delivered until its [end](Self::end).
    pub fn leave(&mut self) {
        self.is_over = true;
        self.parts.iter_mut().for_each(|part| *part = Question::nothing());
    }

    /// Nothing more is asked and delivered.
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

    /// The run is over, and went as `outcome` says; `first` is the number of its first question. What was lost.
    pub fn finish(&mut self, outcome: &Outcome, first: usize) -> u64 {
        self.held.clear();
        self.ended.clear();
        self.held_sessions = 0;
        if let Some(items) = &mut self.items {
            let matched = outcome.matched.get(first..first + self.parts.len()).unwrap_or_default();
            items.finish(Some(RunEnd { outcome, matched }));
        }
        std::mem::take(&mut self.lost) + self.deliver.as_mut().map_or(0, |deliver| deliver.finish())
    }

    /// Takes an item of one of its questions.
    pub fn take(&mut self, question: usize, item: Item) -> Next {
        if let Some(items) = &mut self.items {
            return items.take(question, item);
        }
        if matches!(item, Item::Pause) {
            return Next::Go;
        }
        let mut bundle = Bundle::of(item);
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

/// Stands where a handler's answers never come.
struct Nobody;

impl Deliver for Nobody {
    fn call(&mut self, _: &Bundle) -> Next {
        Next::Go
    }
}
