//! Which rules are looked at for a packet: those whose pattern is in its bytes or in its sessions, and those
//! without a pattern.

use crate::app;
use crate::buffers::Transaction;
use crate::flow::Stream;
use crate::ongoing::Wanted;
use crate::packet::Packet;
use crate::ports::UsedSets;
use crate::ruleset::{Found, RuleProgram, SessionGroup, Transport, is_of_both};
use crate::verdict::{Made, make};

/// The rules that are looked at for a packet, and the memory of the search.
#[derive(Default)]
pub struct Candidates {
    /// The rules. One may be there several times.
    pub list: Vec<Candidate>,
    lower: Vec<u8>,
    marks: Marks,
    /// By transport and direction.
    used: [[UsedSets; 2]; Transport::COUNT],
}

/// Rules that are candidates already: a pattern may be found often.
#[derive(Default)]
struct Marks {
    of: Vec<[u32; 2]>,
    now: u32,
}

impl Marks {
    /// Nothing is marked from now on.
    fn begin(&mut self, rules: usize) {
        self.now = self.now.wrapping_add(1);
        if self.now == 0 || self.of.len() != rules {
            (self.of, self.now) = (vec![[0; 2]; rules], 1);
        }
    }

    /// Marks a rule; whether it was not marked.
    #[inline]
    fn is_first(&mut self, rule: u32, in_stream: bool) -> bool {
        let mark = &mut self.of[rule as usize][usize::from(in_stream)];
        std::mem::replace(mark, self.now) != self.now
    }
}

/// A packet, and what is known of its connection and its stream.
pub struct Seen<'a> {
    pub transport: Transport,
    /// The capture has no begin of this connection, and streams are inspected of whole connections only
    /// (`--complete`).
    pub is_unseen: bool,
    /// The packet is the first one of its direction.
    pub is_first: bool,
    pub stream: &'a Stream,
    /// The bytes of the stream.
    pub window: &'a [u8],
    /// Bytes that the other side has sent.
    pub other_bytes: u64,
}

/// A rule that may match, and what it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    pub rule: u32,
    pub of: Of,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    Packet,
    /// The place in the stream where a pattern ended.
    Stream(u64),
    /// The number of the session, and whether the client's side is inspected.
    Session(u16, bool),
}

impl Candidates {
    /// Forgets what is known of the rules: others come.
    pub fn forget_rules(&mut self) {
        self.used = Default::default();
    }

    /// The rules that may match a packet, and the bytes that it put in order.
    pub fn find_in_packet(&mut self, set: &RuleProgram, seen: &Seen<'_>, packet: &Packet<'_>) {
        let side = usize::from(!packet.to_server);
        let group = &set.packets[seen.transport as usize][side];
        let addresses = packet.ends.map(|(address, _)| address);
        let of_packet = |rule| Candidate { rule, of: Of::Packet };
        if packet.is_there {
            self.list.extend(group.always.rules_of(addresses).map(of_packet));
        }
        if packet.is_there && seen.is_first {
            self.list.extend(group.once.rules_of(addresses).map(of_packet));
        }
        let (stream, window) = (seen.stream, seen.window);
        let new = window.get(stream.new_at..).unwrap_or_default();
        let in_stream = |rule: u32, place: u64| Candidate { rule, of: Of::Stream(place) };
        if !new.is_empty() {
            let end = stream.offset + window.len() as u64;
            let may_match = |rule: &&u32| stream.may_match(**rule, end, seen.other_bytes);
            let always = group.always_stream.iter().filter(may_match);
            self.list.extend(always.map(|&rule| in_stream(rule, stream.offset)));
            self.list.extend(stream.waiting.iter().map(|&(rule, place)| in_stream(rule, place)));
        }
        if group.patterns.is_empty() || new.is_empty() && packet.payload.is_empty() {
            return;
        }
        let Self { lower: bytes, marks, used, list: candidates } = self;
        let group_used = &mut used[seen.transport as usize][side];
        let patterns = group.patterns.of_ports(packet.ends.map(|(_, port)| port), group_used);
        marks.begin(set.rules.len());
        // A packet that brings just the next bytes is searched together with them.
        let is_same = new == packet.payload;
        if !packet.payload.is_empty() && !is_same {
            lower(packet.payload, bytes);
            patterns.search(bytes, |found, _, _| {
                let rules = found.iter().map(|number| Found::of(*number));
                // A connection without a stream: its packets stand for the stream.
                let rules = rules.filter(|found| !found.in_stream || seen.is_unseen);
                candidates.extend(
                    rules
                        .filter(|found| marks.is_first(found.rule, false))
                        .map(|found| of_packet(found.rule)),
                );
            });
        }
        if new.is_empty() {
            return;
        }
        // A pattern may begin before the new bytes; it ends in them.
        let from = stream.new_at.saturating_sub(patterns.longest().saturating_sub(1));
        lower(&window[from..], bytes);
        let old = stream.new_at - from;
        patterns.search(bytes, |found, start, end| {
            if end <= old {
                return;
            }
            let place = stream.offset + (from + end) as u64;
            for found in found.iter().map(|number| Found::of(*number)) {
                let is_wanted = match found.in_stream {
                    true => stream.may_match(found.rule, place, seen.other_bytes),
                    false => is_same && start >= old,
                };
                if is_wanted && marks.is_first(found.rule, found.in_stream) {
                    let of = if found.in_stream { Of::Stream(place) } else { Of::Packet };
                    candidates.push(Candidate { rule: found.rule, of });
                }
            }
        });
    }

    /// The rules that may match a session, of those that are `wanted` on the client's and on the server's
    /// side.
    pub fn find_in_session<'t>(
        &mut self,
        set: &RuleProgram,
        number: u16,
        transaction: &Transaction<'t>,
        wanted: [Wanted; 2],
        made: &mut Made<'t>,
    ) {
        for (name, group) in &set.sessions {
            if !app::is(transaction.app, name) {
                continue;
            }
            for ((to_server, group), wanted) in [true, false].into_iter().zip(group).zip(wanted) {
                if wanted == Wanted::Nothing || wanted == Wanted::OfBothSides && !group.with_both {
                    continue;
                }
                let first = self.list.len();
                let of = Of::Session(number, to_server);
                self.list.extend(group.always.iter().map(|&rule| Candidate { rule, of }));
                self.search_buffers(set, group, transaction, (to_server, of), made);
                if wanted != Wanted::All && group.with_both {
                    let of_both = |rule: u32| is_of_both(&set.rules[rule as usize].rule);
                    let is_wanted = |one: &Candidate| of_both(one.rule) == (wanted == Wanted::OfBothSides);
                    let kept: Vec<Candidate> = self.list.drain(first..).filter(is_wanted).collect();
                    self.list.extend(kept);
                }
            }
        }
    }

    fn search_buffers<'t>(
        &mut self,
        set: &RuleProgram,
        group: &SessionGroup,
        transaction: &Transaction<'t>,
        (to_server, of): (bool, Of),
        made: &mut Made<'t>,
    ) {
        for (key, patterns) in &group.buffers {
            let buffers = made
                .entry((*key, to_server))
                .or_insert_with(|| make(transaction, &set.keys[usize::from(*key)], to_server));
            let Self { lower: copy, marks, list: candidates, .. } = self;
            marks.begin(set.rules.len());
            for bytes in buffers {
                lower(bytes, copy);
                patterns.search(copy, |rules, _, _| {
                    let rules = rules.iter().filter(|rule| marks.is_first(**rule, false));
                    candidates.extend(rules.map(|&rule| Candidate { rule, of }));
                });
            }
        }
    }
}

/// Writes bytes in lower case.
fn lower(bytes: &[u8], to: &mut Vec<u8>) {
    to.clear();
    to.extend_from_slice(bytes);
    to.make_ascii_lowercase();
}
