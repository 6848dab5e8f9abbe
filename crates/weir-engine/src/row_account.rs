//! How many bytes of rows the sessions of a connection may have. A connection earns rows by the bytes that
//! its peers send, so a sender cannot make the output grow faster than his own traffic. Each question has an
//! account of its own: the rows of a question do not depend on other questions.

use std::cell::Cell;

/// Bytes of rows for a byte of traffic.
pub const ROWS_PER_BYTE: i64 = 8;

/// The fewest bytes of headers in the frame of a TCP segment: Ethernet, IPv4, and TCP without options.
const SEGMENT_OVERHEAD: usize = 54;
/// The fewest bytes of headers in the frame of a UDP datagram: Ethernet, IPv4 and UDP.
const DATAGRAM_OVERHEAD: usize = 42;

/// Bytes of rows that a connection may save for later: rows come at the end of a message, behind its bytes.
const SAVED_MAX: i32 = 256 << 10;

/// Bytes of rows that a connection may owe: its first messages may be small and their rows long.
const OWED_MAX: i32 = 4 << 10;

/// The accounts of a connection, one for each question that had rows of its sessions.
#[derive(Default)]
pub struct RowAccount {
    /// The balance of questions without rows so far, in bytes of rows.
    saved: Cell<i32>,
    of_questions: Cell<Box<[Balance]>>,
    /// Rows that were merged or left out, of all questions.
    limited: Cell<u32>,
}

/// The balance of a question.
#[derive(Clone, Copy)]
struct Balance {
    question: u32,
    /// Bytes of rows that are saved, or owed if negative.
    bytes: i32,
}

/// What a row is paid with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payment {
    /// The connection has earned the row.
    Earned,
    /// The connection owes the row.
    Owed,
    /// The connection may have no row before it earns more.
    Refused,
}

impl RowAccount {
    /// Earns rows by bytes in order. `is_datagram`: they came in a datagram, else in a segment.
    #[inline]
    pub(crate) fn earn(&self, bytes: usize, is_datagram: bool) {
        let overhead = if is_datagram { DATAGRAM_OVERHEAD } else { SEGMENT_OVERHEAD };
        let earned = ((bytes + overhead) as i64 * ROWS_PER_BYTE).min(i64::from(i32::MAX / 2)) as i32;
        // What was saved earlier is bounded, not what the bytes of this moment are worth.
        let add = |saved: i32| saved.min(SAVED_MAX) + earned;
        self.saved.set(add(self.saved.get()));
        let mut all = self.of_questions.take();
        all.iter_mut().for_each(|balance| balance.bytes = add(balance.bytes));
        self.of_questions.set(all);
    }

    /// Whether the connection owes a question all that it may owe: any further row would be refused.
    pub fn is_exhausted(&self, question: usize) -> bool {
        self.balance(question) <= -OWED_MAX
    }

    /// Pays for a row of so many bytes. `may_owe`: the connection may owe the row, if it does not owe the
    /// maximum yet; the debt may exceed the maximum by a row.
    pub fn pay(&self, question: usize, bytes: usize, may_owe: bool) -> Payment {
        let rest = i64::from(self.balance(question)) - bytes as i64;
        let payment = match rest {
            0.. => Payment::Earned,
            _ if may_owe && !self.is_exhausted(question) => Payment::Owed,
            _ => return Payment::Refused,
        };
        self.set(question, rest.max(i64::from(i32::MIN / 2)) as i32);
        payment
    }

    /// Counts a row that was merged or left out.
    pub fn limit(&self) {
        self.limited.set(self.limited.get().saturating_add(1));
    }

    /// Rows that were merged or left out, of all questions.
    pub fn limited(&self) -> u32 {
        self.limited.get()
    }

    /// Memory beside the account itself, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let all = self.of_questions.take();
        let bytes = size_of_val(&*all);
        self.of_questions.set(all);
        bytes
    }

    fn balance(&self, question: usize) -> i32 {
        let all = self.of_questions.take();
        let of = all.iter().find(|balance| balance.question == question as u32).map(|balance| balance.bytes);
        self.of_questions.set(all);
        of.unwrap_or(self.saved.get())
    }

    fn set(&self, question: usize, bytes: i32) {
        let mut all = self.of_questions.take();
        match all.iter_mut().find(|balance| balance.question == question as u32) {
            Some(balance) => balance.bytes = bytes,
            None => {
                let more = Balance { question: question as u32, bytes };
                all = all.iter().copied().chain([more]).collect();
            }
        }
        self.of_questions.set(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_earned_by_bytes_and_each_question_has_its_own() {
        let account = RowAccount::default();
        account.earn(46, false);
        assert_eq!(account.pay(0, 800, false), Payment::Earned);
        assert_eq!(account.pay(0, 1, false), Payment::Refused);
        assert_eq!(account.pay(7, 799, false), Payment::Earned);
        assert_eq!(account.heap_bytes(), 16);
        account.earn(0, true);
        assert_eq!(account.pay(0, 336, false), Payment::Earned);
        assert_eq!(account.pay(7, 337, false), Payment::Earned);
    }

    #[test]
    fn a_connection_owes_little_and_pays_back_first() {
        let account = RowAccount::default();
        let max = OWED_MAX as usize;
        assert_eq!(account.pay(0, max - 1, true), Payment::Owed);
        assert!(!account.is_exhausted(0));
        assert_eq!(account.pay(0, 1000, true), Payment::Owed, "the maximum may be exceeded by a row");
        assert!(account.is_exhausted(0));
        assert_eq!(account.pay(0, 1, true), Payment::Refused);
        account.earn(1000 - DATAGRAM_OVERHEAD, true);
        assert_eq!(account.pay(0, 8000 - max - 1000 + 1, false), Payment::Earned);
        assert_eq!(account.pay(0, 1, false), Payment::Refused);
    }

    #[test]
    fn little_is_saved_for_later_and_all_bytes_of_a_moment_count() {
        let account = RowAccount::default();
        account.earn(1 << 20, false);
        assert_eq!(account.pay(0, 8 << 20, false), Payment::Earned);
        (0..1000).for_each(|_| account.earn(1 << 20, false));
        assert_eq!(account.pay(0, SAVED_MAX as usize + (8 << 20), false), Payment::Earned);
        assert_eq!(account.pay(0, 8 * SEGMENT_OVERHEAD, false), Payment::Earned);
        assert_eq!(account.pay(0, 1, false), Payment::Refused);
        account.earn(1 << 40, false);
        assert_eq!(account.pay(0, 1 << 40, false), Payment::Refused);
    }
}
