//! The order of the two ends of a connection in a key that is the same for both directions.

use crate::rows::values::Part;
use weir_lang::aggregate::{End, Key};

/// The parts of a key that belong to the sender, and the same parts of the receiver.
#[derive(Debug, Clone)]
pub(crate) struct KeyEnds {
    /// Numbers of parts.
    parts: Vec<[usize; 2]>,
    /// Their words.
    words: Vec<[usize; 2]>,
}

impl KeyEnds {
    /// The ends in a key with these parts. `None`: each direction has a key of its own.
    pub fn of(keys: &[Key], parts: &[Part]) -> Option<Self> {
        let numbers = |end| (0..keys.len()).filter(move |&number| keys[number].end == Some(end));
        let pairs = numbers(End::Sender).zip(numbers(End::Receiver));
        let pairs: Vec<[usize; 2]> = pairs.map(|(sender, receiver)| [sender, receiver]).collect();
        let words_of = |number: usize| parts[number].word..parts[number].word + parts[number].words;
        let words = pairs.iter().flat_map(|&[sender, receiver]| {
            words_of(sender).zip(words_of(receiver)).map(|(one, other)| [one, other])
        });
        (!pairs.is_empty()).then(|| Self { words: words.collect(), parts: pairs.clone() })
    }

    /// Puts the smaller end first, so that both directions have the same words. `present`: a bit for each
    /// part that is there. Returns whether the ends were exchanged.
    #[inline]
    pub fn order(&self, words: &mut [u64], present: &mut u64) -> bool {
        let sender = self.words.iter().map(|&[sender, _]| words[sender]);
        let is_exchanged = sender.gt(self.words.iter().map(|&[_, receiver]| words[receiver]));
        if is_exchanged {
            self.words.iter().for_each(|&[sender, receiver]| words.swap(sender, receiver));
            for &[sender, receiver] in &self.parts {
                let differ = (*present >> sender ^ *present >> receiver) & 1;
                *present ^= differ << sender | differ << receiver;
            }
        }
        is_exchanged
    }

    /// The number of the same part of the other end.
    pub fn other(&self, part: usize) -> Option<usize> {
        self.parts.iter().find_map(|&[sender, receiver]| match part {
            _ if part == sender => Some(receiver),
            _ if part == receiver => Some(sender),
            _ => None,
        })
    }

    /// The words of the sender and the same words of the receiver.
    #[cfg(test)]
    pub fn words(&self) -> &[[usize; 2]] {
        &self.words
    }
}
