//! Who receives a packet, by its classes: decided once for each combination of classes, and not for each
//! packet. `docs/data-path.md` has the design.

use crate::counters::{Account, Counters};
use crate::matcher::Matcher;
use crate::sets::{QuestionSet, Terms};

/// Combinations of classes that are kept. Few occur; one that hashes to the place of another one takes it.
const LISTS: usize = 64;

/// What happens to packets of certain classes.
#[derive(Debug)]
struct List {
    /// The classes that questions about packets ask for, and how a packet is counted if no question receives
    /// it.
    key: (u64, Account),
    account: Account,
    /// Questions that receive the packet.
    receivers: Box<[usize]>,
    /// Questions that only count it.
    counting: Box<[usize]>,
    /// Packets that are not counted yet.
    packets: u64,
}

/// The lists of a plan, and the packets of questions that only count them.
#[derive(Debug)]
pub(crate) struct PacketLists {
    lists: Box<[Option<List>; LISTS]>,
    /// Questions that only count packets.
    counted: QuestionSet,
    /// By question: packets since the subscriber has last got their number.
    counts: Vec<u64>,
}

impl PacketLists {
    /// No list yet, for so many questions. The subscriber only counts the packets of those in `counted`.
    pub fn new(questions: usize, counted: QuestionSet) -> Self {
        Self { lists: Box::new([const { None }; LISTS]), counted, counts: vec![0; questions] }
    }

    /// Counts a packet with these terms, and returns the questions that receive it. `None`: more than its
    /// first 64 classes decide.
    #[inline]
    pub fn take(
        &mut self,
        terms: Terms<'_>,
        otherwise: Account,
        matcher: &Matcher,
        counters: &mut Counters,
    ) -> Option<&[usize]> {
        let classes = matcher.listed_classes(terms)?;
        let place = (classes.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % LISTS;
        let key = (classes, otherwise);
        if self.lists[place].as_ref().is_none_or(|list| list.key != key) {
            self.decide(place, key, matcher, counters);
        }
        let list = self.lists[place].as_mut()?;
        list.packets += 1;
        Some(&list.receivers)
    }

    #[cold]
    fn decide(&mut self, place: usize, key: (u64, Account), matcher: &Matcher, counters: &mut Counters) {
        if let Some(before) = &mut self.lists[place] {
            settle(before, &mut self.counts, counters);
        }
        let all = matcher.questions_about_packets(Terms::new(key.0, &[]));
        let account = if all.is_empty() { key.1 } else { Account::Delivered };
        let counting = (&*all & &self.counted).iter().collect();
        let receivers = (&*all - &self.counted).iter().collect();
        self.lists[place] = Some(List { key, account, receivers, counting, packets: 0 });
    }

    /// Adds a packet that was matched without a list, for a question.
    pub fn add(&mut self, question: usize) -> bool {
        let is_counted = self.counted.contains(question);
        if is_counted {
            self.counts[question] += 1;
        }
        is_counted
    }

    /// Calls `each` with each question that only counts, and its packets since the last call.
    pub fn settle(&mut self, counters: &mut Counters, mut each: impl FnMut(usize, u64)) {
        for list in self.lists.iter_mut().flatten() {
            settle(list, &mut self.counts, counters);
        }
        for question in &self.counted {
            let count = std::mem::take(&mut self.counts[question]);
            if count > 0 {
                each(question, count);
            }
        }
    }
}

/// Counts the packets of a list.
fn settle(list: &mut List, counts: &mut [u64], counters: &mut Counters) {
    let packets = std::mem::take(&mut list.packets);
    counters.account_many(list.account, packets);
    list.counting.iter().for_each(|question| counts[*question] += packets);
}
