//! Expressions as an automaton that is stepped byte by byte: determinisation, one state at a time.
//!
//! A **state** is a set of *threads*: positions in the NFA immediately after a consumed byte. Transitions
//! that consume no byte (alternatives, `^`, `\b`, the end of a pattern) are followed once the next symbol is
//! known. Assertions therefore see the bytes on both sides, and a match that ends at `p` is reported by the
//! symbol *after* `p`. Symbols are classes of bytes, [`Machine::end`] for the end of the stream, and
//! [`Machine::unknown`] for a lost byte.
//!
//! Threads that begin at the current position are not part of a state; each step adds them. A state without
//! threads therefore means that no match is in progress: no earlier byte can be part of a later match. This
//! determines how much of a stream must be kept.

use std::collections::HashMap;
use std::sync::Arc;

use regex_automata::nfa::thompson::{NFA, State as Node};
use regex_automata::util::look::{Look, LookMatcher, LookSet};
use regex_automata::util::primitives::{PatternID, StateID};

/// The purpose of an automaton.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Where a match of any pattern ends, for any start.
    Ends,
    /// The end of one pattern's leftmost match, with Perl's preferences.
    Leftmost(u32),
    /// One pattern's matches that begin with the first symbol. In a reverse machine: their starts.
    Anchored(u32),
}

/// The context that assertions need of the preceding byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum Context {
    /// None: the start of the stream.
    #[default]
    Start,
    /// `\n`.
    Feed,
    /// `\r`.
    Return,
    /// A letter, digit or `_`.
    Word,
    /// Another byte, or a lost one.
    Other,
}

impl Context {
    pub(crate) const ALL: [Self; 5] = [Self::Start, Self::Feed, Self::Return, Self::Word, Self::Other];

    /// A byte of this kind.
    fn byte(self) -> Option<u8> {
        match self {
            Self::Start => None,
            Self::Feed => Some(b'\n'),
            Self::Return => Some(b'\r'),
            Self::Word => Some(b'a'),
            Self::Other => Some(b' '),
        }
    }
}

/// A state: a word of facts, the patterns that matched before the last symbol, and the threads. Shared by
/// caches and streams.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State(Arc<[u32]>);

impl State {
    const CONTEXT_BITS: u32 = 3;
    const CONTEXT: u32 = (1 << Self::CONTEXT_BITS) - 1;
    /// The next step starts new threads.
    const SEEDS: u32 = 1 << 3;
    const MATCHED: u32 = 1 << 4;
    const THREADS: u32 = 1 << 5;
    const PATTERNS_SHIFT: u32 = 8;

    fn new(context: Context, seeds: bool, matched: bool, patterns: &[u32], threads: &[u32]) -> Self {
        let flag = |yes: bool, flag: u32| if yes { flag } else { 0 };
        let facts = context as u32
            | flag(seeds, Self::SEEDS)
            | flag(matched, Self::MATCHED)
            | flag(!threads.is_empty(), Self::THREADS)
            | (patterns.len() as u32) << Self::PATTERNS_SHIFT;
        Self([&[facts], patterns, threads].concat().into())
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts(self.0[0])
    }

    /// The patterns of which a match ends before the last symbol ([`Goal::Ends`]), ascending.
    pub(crate) fn patterns(&self) -> &[u32] {
        &self.0[1..1 + self.pattern_count()]
    }

    fn threads(&self) -> &[u32] {
        &self.0[1 + self.pattern_count()..]
    }

    fn pattern_count(&self) -> usize {
        (self.0[0] >> Self::PATTERNS_SHIFT) as usize
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0) + 2 * size_of::<usize>()
    }
}

/// The most frequently tested properties of a state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts(u32);

impl Facts {
    /// The number of bits of the facts.
    pub(crate) const BITS: u32 = 3;

    pub(crate) fn bits(self) -> u32 {
        self.0 >> State::CONTEXT_BITS & ((1 << Self::BITS) - 1)
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits << State::CONTEXT_BITS)
    }

    /// A match ends before the last symbol.
    pub(crate) fn matched(self) -> bool {
        self.0 & State::MATCHED != 0
    }

    /// No match is in progress.
    pub(crate) fn idle(self) -> bool {
        self.0 & State::THREADS == 0
    }

    /// No further match is possible.
    pub(crate) fn dead(self) -> bool {
        self.0 & (State::THREADS | State::SEEDS) == 0
    }
}

/// An NFA and its alphabet.
#[derive(Debug)]
pub(crate) struct Machine {
    nfa: NFA,
    is_reverse: bool,
    classes: Box<[u8; 256]>,
    /// A representative byte of each class.
    samples: Vec<u8>,
    looks: LookSet,
    matcher: LookMatcher,
}

impl Machine {
    pub(crate) fn new(nfa: NFA, is_reverse: bool) -> Self {
        let classes = nfa.byte_classes();
        let mut samples = vec![];
        for byte in 0..=255 {
            if usize::from(classes.get(byte)) == samples.len() {
                samples.push(byte);
            }
        }
        let classes = Box::new(std::array::from_fn(|byte| classes.get(byte as u8)));
        let looks = nfa.look_set_any();
        Self { nfa, is_reverse, classes, samples, looks, matcher: LookMatcher::new() }
    }

    /// The number of symbols.
    pub(crate) fn symbols(&self) -> usize {
        self.samples.len() + 2
    }

    pub(crate) fn classes(&self) -> &[u8; 256] {
        &self.classes
    }

    pub(crate) fn symbol(&self, byte: u8) -> usize {
        usize::from(self.classes[usize::from(byte)])
    }

    /// The symbol after the last byte of a stream.
    pub(crate) fn end(&self) -> usize {
        self.samples.len()
    }

    /// The symbol of a lost byte. No thread consumes it.
    pub(crate) fn unknown(&self) -> usize {
        self.samples.len() + 1
    }

    /// The symbol of a byte of which only the context is known: for assertions, never matched.
    pub(crate) fn symbol_of(&self, context: Context) -> usize {
        match context {
            Context::Start => self.end(),
            Context::Other => self.unknown(),
            known => known.byte().map_or(self.end(), |byte| self.symbol(byte)),
        }
    }

    /// The context that a byte provides to the next position, as far as any assertion needs it.
    pub(crate) fn context_of(&self, byte: u8) -> Context {
        match byte {
            b'\n' if self.looks.contains_anchor_line() => Context::Feed,
            b'\r' if self.looks.contains_anchor_crlf() => Context::Return,
            b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' if self.looks.contains_word() => Context::Word,
            _ => Context::Other,
        }
    }

    /// The state in which no match is in progress.
    pub(crate) fn initial(&self, context: Context) -> State {
        let context = if self.looks.is_empty() { Context::Other } else { context };
        State::new(context, true, false, &[], &[])
    }

    /// The state after `symbol`. Cost: the number of threads and of the NFA states that they reach without a
    /// byte.
    pub(crate) fn step(&self, goal: Goal, work: &mut Work, state: &State, symbol: usize) -> State {
        let sample = self.samples.get(symbol).copied();
        let before = Context::ALL[(state.0[0] & State::CONTEXT) as usize].byte();
        let after = sample.or((symbol == self.unknown()).then_some(b' '));
        let mut seeds = state.0[0] & State::SEEDS != 0;
        let around = (before, after);
        if goal == Goal::Ends {
            self.follow_seeds(work, state.0[0] & State::CONTEXT, symbol, around);
        }
        work.begin(self.nfa.states().len());
        let start = (seeds && goal != Goal::Ends).then(|| self.start(goal));
        // In order of preference: earlier starts first, then the expression's order.
        for thread in state.threads().iter().copied().chain(start) {
            let cut = self.follow(goal, work, thread, around, sample);
            if cut {
                seeds = false;
                break;
            }
        }
        if matches!(goal, Goal::Anchored(_)) {
            seeds = false;
        }
        if goal == Goal::Ends {
            let begun = &work.seeds[&(state.0[0] & State::CONTEXT, symbol)];
            work.targets.extend(begun.iter().filter(|&&target| work.reached.insert(target)));
            work.targets.sort_unstable();
            work.patterns.sort_unstable();
        }
        let context = sample.map_or(Context::Other, |byte| self.context_of(byte));
        let matched = work.matched;
        let patterns = if goal == Goal::Ends { &*work.patterns } else { &[] };
        State::new(context, seeds, matched, patterns, &work.targets)
    }

    /// The threads of all patterns that begin with `symbol`. In large sets this is most of a step's work, and
    /// the same for all states with one context. They are never matches, because no pattern matches the empty
    /// string.
    fn follow_seeds(&self, work: &mut Work, context: u32, symbol: usize, around: (Option<u8>, Option<u8>)) {
        if work.seeds.contains_key(&(context, symbol)) {
            return;
        }
        work.begin(self.nfa.states().len());
        self.follow(Goal::Ends, work, self.start(Goal::Ends), around, self.samples.get(symbol).copied());
        let begun = work.targets.as_slice().into();
        work.seeds.insert((context, symbol), begun);
    }

    fn start(&self, goal: Goal) -> u32 {
        let one = |pattern: u32| {
            let pattern = PatternID::new(pattern as usize).ok();
            pattern.and_then(|pattern| self.nfa.start_pattern(pattern))
        };
        let id = match goal {
            Goal::Ends => None,
            Goal::Leftmost(pattern) | Goal::Anchored(pattern) => one(pattern),
        };
        id.unwrap_or(self.nfa.start_anchored()).as_u32()
    }

    /// Follows one thread to all bytes that it waits for. Returns true if a match makes later threads
    /// irrelevant.
    fn follow(
        &self,
        goal: Goal,
        work: &mut Work,
        thread: u32,
        around: (Option<u8>, Option<u8>),
        byte: Option<u8>,
    ) -> bool {
        work.stack.push(thread);
        while let Some(node) = work.stack.pop() {
            if !work.seen.insert(node) {
                continue;
            }
            let taken = |next: Option<StateID>| next.filter(|_| byte.is_some());
            let sample = byte.unwrap_or(0);
            let next = match self.nfa.state(StateID::must(node as usize)) {
                Node::ByteRange { trans } => taken(trans.matches_byte(sample).then_some(trans.next)),
                Node::Sparse(sparse) => taken(sparse.matches_byte(sample)),
                Node::Dense(dense) => taken(dense.matches_byte(sample)),
                Node::Look { look, next } => {
                    if self.holds(*look, around) {
                        work.stack.push(next.as_u32());
                    }
                    None
                }
                Node::Union { alternates } => {
                    work.stack.extend(alternates.iter().rev().map(|id| id.as_u32()));
                    None
                }
                Node::BinaryUnion { alt1, alt2 } => {
                    work.stack.extend([alt2.as_u32(), alt1.as_u32()]);
                    None
                }
                Node::Capture { next, .. } => {
                    work.stack.push(next.as_u32());
                    None
                }
                Node::Fail => None,
                Node::Match { pattern_id } => {
                    work.matched = true;
                    if matches!(goal, Goal::Leftmost(_)) {
                        return true;
                    }
                    work.patterns.push(pattern_id.as_u32());
                    None
                }
            };
            if let Some(next) = next.filter(|next| work.reached.insert(next.as_u32())) {
                work.targets.push(next.as_u32());
            }
        }
        false
    }

    /// Whether the assertion holds between the two bytes, in the order of stepping.
    fn holds(&self, look: Look, (before, after): (Option<u8>, Option<u8>)) -> bool {
        // A reverse NFA has reversed assertions; `\r\n` needs the original ones, so they are reversed again.
        let (look, left, right) =
            if self.is_reverse { (look.reversed(), after, before) } else { (look, before, after) };
        let mut text = [0; 2];
        let mut bytes = 0;
        for byte in [left, right].into_iter().flatten() {
            text[bytes] = byte;
            bytes += 1;
        }
        self.matcher.matches(look, &text[..bytes], usize::from(left.is_some()))
    }
}

/// Buffers for one step, and the memory accounting of all cached states.
#[derive(Debug)]
pub(crate) struct Work {
    stack: Vec<u32>,
    seen: Marks,
    reached: Marks,
    targets: Vec<u32>,
    patterns: Vec<u32>,
    matched: bool,
    /// New threads of all patterns, by context and symbol.
    seeds: HashMap<(u32, usize), Box<[u32]>>,
    /// The memory of cached states, in bytes.
    pub(crate) cached_bytes: usize,
    pub(crate) cached_bytes_max: usize,
    /// How often a cache was emptied.
    pub(crate) clears: u64,
}

impl Work {
    pub(crate) fn new(cached_bytes_max: usize) -> Self {
        Self {
            stack: vec![],
            seen: Marks::default(),
            reached: Marks::default(),
            targets: vec![],
            patterns: vec![],
            matched: false,
            seeds: HashMap::new(),
            cached_bytes: 0,
            cached_bytes_max,
            clears: 0,
        }
    }

    fn begin(&mut self, nodes: usize) {
        self.stack.clear();
        self.targets.clear();
        self.patterns.clear();
        self.matched = false;
        self.seen.begin(nodes);
        self.reached.begin(nodes);
    }
}

/// A set of small numbers that is cleared in constant time.
#[derive(Debug, Default)]
struct Marks {
    round: u32,
    rounds: Vec<u32>,
}

impl Marks {
    fn begin(&mut self, size: usize) {
        if self.rounds.len() < size || self.round == u32::MAX {
            self.rounds = vec![0; size.max(self.rounds.len())];
            self.round = 0;
        }
        self.round += 1;
    }

    fn insert(&mut self, number: u32) -> bool {
        let mark = &mut self.rounds[number as usize];
        let is_new = *mark != self.round;
        *mark = self.round;
        is_new
    }
}
