//! Sessions that go on: each side is inspected as soon as it is there, and a rule matches once for each side
//! of a session.

use crate::buffers::{Transaction, number_of};
use weir::sessions::Session;
use weir::sessions::http::Reached;

/// Sessions of a connection that go on.
const ONGOING_MAX: usize = 256;
/// Rules that have matched in a session that goes on. Further ones may match again.
const MATCHED_MAX: usize = 256;

/// The sessions of a connection that go on.
#[derive(Debug, Default)]
pub struct OngoingSessions(Vec<Ongoing>);

/// What is known of a session that goes on.
#[derive(Debug, Default)]
pub struct Ongoing {
    number: u32,
    /// All of the request was inspected.
    is_request_over: bool,
    /// Rules that have matched, doubled, with a bit for the response.
    matched: Vec<u32>,
}

/// The rules on one side of a session that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// No rules.
    Nothing,
    /// Rules about one side of the session: rules about both sides wait for the whole session.
    OfOneSide,
    /// Rules about both sides of the session: those about one side were looked at before.
    OfBothSides,
    /// All rules.
    All,
}

/// Whether `next` says all that an earlier session of the connection says.
pub fn replaces(next: &dyn Session, before: &dyn Session) -> bool {
    let (Some(next), Some(before)) = (number_of(next), number_of(before)) else { return false };
    let is_response = |reached: Reached| reached == Reached::ResponseBody;
    next.0 == before.0
        && before.1.is_some_and(|before| next.1.is_none_or(|next| is_response(next) == is_response(before)))
}

impl OngoingSessions {
    /// Takes what is known of a session; nothing, unless the session has gone on so far.
    pub fn take(&mut self, session: &dyn Session) -> Ongoing {
        let Some((number, _)) = number_of(session) else { return Ongoing::default() };
        let at = self.0.iter().position(|known| known.number == number);
        at.map_or(Ongoing { number, ..Ongoing::default() }, |at| self.0.remove(at))
    }

    /// Keeps what is known of a session that goes on. Of too many, the oldest is forgotten: its rules may
    /// match again.
    pub fn keep(&mut self, ongoing: Ongoing) {
        if let Some(known) = self.0.iter_mut().find(|known| known.number == ongoing.number) {
            known.is_request_over |= ongoing.is_request_over;
            known.matched.extend(ongoing.matched);
            return;
        }
        if self.0.len() == ONGOING_MAX {
            self.0.remove(0);
        }
        self.0.push(ongoing);
    }

    /// The rules are other ones from now on: they look at all of each session.
    pub fn forget_rules(&mut self) {
        self.0.clear();
    }

    /// Bytes of memory.
    pub fn held_bytes(&self) -> usize {
        let rules: usize = self.0.iter().map(|known| 4 * known.matched.capacity()).sum();
        size_of::<Ongoing>() * self.0.capacity() + rules
    }
}

impl Ongoing {
    /// The rules to look at: those on the client's side, and those on the server's side.
    pub fn wanted(&self, transaction: &Transaction<'_>) -> [Wanted; 2] {
        match transaction.early {
            Some(Reached::RequestBody | Reached::Request) => [Wanted::OfOneSide, Wanted::Nothing],
            Some(Reached::ResponseBody) => [Wanted::Nothing, Wanted::OfOneSide],
            None if self.is_request_over => [Wanted::OfBothSides, Wanted::All],
            None => [Wanted::All; 2],
        }
    }

    /// Takes note that a rule matches on a side. Returns whether it is the first time, as far as is known.
    pub fn is_first(&mut self, rule: u32, to_server: bool) -> bool {
        let side = rule << 1 | u32::from(!to_server);
        let is_first = !self.matched.contains(&side);
        self.matched.extend((is_first && self.matched.len() < MATCHED_MAX).then_some(side));
        is_first
    }

    /// The session was inspected as far as it is.
    pub fn inspected(&mut self, transaction: &Transaction<'_>) {
        self.is_request_over |= transaction.early == Some(Reached::Request);
    }
}
