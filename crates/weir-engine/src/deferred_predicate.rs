//! Deferred predicates: conditions on a connection's record, on a session or on a row of an event, which
//! packets alone cannot decide.
//!
//! All predicates on one field are evaluated together, on a value that is read once. A predicate that fails
//! rules out all remainders that need it. A hundred questions about one name therefore read the name once.

use crate::sets::RemainderSet;
use std::net::IpAddr;
use std::sync::Arc;
use weir_ir::abi::{Continuation, Program};
use weir_packet::Value;

/// The field that deferred predicates are evaluated on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeferredField {
    /// A column of the connection's record.
    Connection(usize),
    /// The protocol of a session.
    Session(usize, usize),
    /// Whether a session is of this protocol.
    Protocol(usize),
    /// A column of an event.
    Event {
        /// The event's number in the graph.
        event: usize,
        /// The index of the column.
        column: usize,
        /// The column holds bytes.
        is_bytes: bool,
    },
}

/// What a remainder requires of a connection, or of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Nothing.
    Nothing,
    /// That it does not exist, or exists and fulfils all predicates. All these predicates are negated.
    Absence,
    /// That it exists and fulfils all predicates.
    Presence,
}

/// A field, and up to 64 predicates on it.
#[derive(Clone)]
pub struct DeferredPredicate {
    /// The field.
    pub field: DeferredField,
    /// The answers for one value: a bit for each predicate (`weir-compile`'s deferred graph). `None`: the
    /// predicate is the truth of the field.
    program: Option<Arc<dyn Program>>,
    /// Predicates with `!=`: a value exists, and the program answers no for all of its elements.
    all_differ: u64,
    /// Predicates that are negated, after `!=` is applied.
    negated: u64,
    /// For each predicate: the remainders that need it.
    remainders: Vec<RemainderSet>,
    /// The union of these remainders.
    pub asked_by: RemainderSet,
}

impl DeferredPredicate {
    /// A field without predicates. `program` has a bit for each predicate that will be added.
    pub fn new(field: DeferredField, program: Option<Arc<dyn Program>>) -> Self {
        Self {
            field,
            program,
            all_differ: 0,
            negated: 0,
            remainders: Vec::new(),
            asked_by: RemainderSet::EMPTY,
        }
    }

    /// Adds the predicate of the program's next bit, which `remainders` need.
    ///
    /// # Panics
    /// If there are 64 predicates already.
    pub fn add(&mut self, all_differ: bool, negated: bool, remainders: RemainderSet) {
        let bit = self.remainders.len();
        assert!(bit < 64, "a word has a bit for each predicate");
        self.all_differ |= u64::from(all_differ) << bit;
        self.negated |= u64::from(negated) << bit;
        self.asked_by |= &remainders;
        self.remainders.push(remainders);
    }

    /// Removes from `met` the remainders that the field's value rules out.
    pub fn rule_out(&self, value: &Value<'_>, met: &mut RemainderSet, k: &mut Continuation) {
        let fulfilled = self.ask(value, k);
        self.keep_fulfilled(fulfilled, met);
    }

    /// As [`rule_out`](Self::rule_out), for a number given as its high and low word, or for a missing value.
    pub fn rule_out_by(&self, words: Option<[u64; 2]>, met: &mut RemainderSet, k: &mut Continuation) {
        let fulfilled = words.map(|words| self.ask_number(words, k));
        self.keep_fulfilled(fulfilled, met);
    }

    /// As [`rule_out`](Self::rule_out), for bytes.
    pub fn rule_out_by_bytes(&self, bytes: &[u8], met: &mut RemainderSet, k: &mut Continuation) {
        let fulfilled = self.ask_bytes(bytes, k);
        self.keep_fulfilled(Some(fulfilled), met);
    }

    /// Removes from `met` the remainders that are ruled out. `fulfilled`: the predicates that some element
    /// fulfils; `None` if there is no value.
    fn keep_fulfilled(&self, fulfilled: Option<u64>, met: &mut RemainderSet) {
        let held = match fulfilled {
            Some(any) => any ^ self.all_differ,
            None => 0,
        };
        let mut failed = !(held ^ self.negated);
        if self.remainders.len() < 64 {
            failed &= (1 << self.remainders.len()) - 1;
        }
        while failed != 0 {
            *met -= &self.remainders[failed.trailing_zeros() as usize];
            failed &= failed - 1;
        }
    }

    /// The predicates that some element of the value fulfils; `None` if there is no value.
    fn ask(&self, value: &Value<'_>, k: &mut Continuation) -> Option<u64> {
        let mut number = |high: u64, low: u64| self.ask_number([high, low], k);
        match value {
            Value::Absent => None,
            Value::Bool(b) => Some(number(0, u64::from(*b))),
            Value::Unsigned(n) => Some(number(0, *n)),
            // Fractions are not compared: the filter language has none.
            Value::Fraction(_) => Some(u64::MAX),
            Value::Time(t) => Some(number(0, t.0.max(0) as u64)),
            Value::Interval(ns) => Some(number(0, *ns)),
            Value::Address(IpAddr::V4(a)) => Some(number(0, u64::from(u32::from(*a)))),
            Value::Address(IpAddr::V6(a)) => {
                let n = u128::from(*a);
                Some(number((n >> 64) as u64, n as u64))
            }
            Value::Mac(m) => Some(number(0, m.iter().fold(0, |n, &b| n << 8 | u64::from(b)))),
            Value::Numbers(list) => {
                (!list.is_empty()).then(|| list.iter().fold(0, |any, &n| any | number(0, n)))
            }
            Value::Text(text) => Some(self.ask_bytes(text.as_bytes(), k)),
            Value::Bytes(bytes) => Some(self.ask_bytes(bytes, k)),
            Value::Texts(list) => (!list.is_empty())
                .then(|| list.iter().fold(0, |any, t| any | self.ask_bytes(t.as_bytes(), k))),
        }
    }

    fn ask_number(&self, words: [u64; 2], k: &mut Continuation) -> u64 {
        match &self.program {
            Some(program) => program.ask(&words, &[], k),
            None => 0u64.wrapping_sub(words[1] & 1),
        }
    }

    fn ask_bytes(&self, bytes: &[u8], k: &mut Continuation) -> u64 {
        match &self.program {
            Some(program) => program.ask(&[], &[bytes], k),
            None => u64::MAX,
        }
    }
}
