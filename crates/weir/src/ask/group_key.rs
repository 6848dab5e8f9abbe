//! The key by which packets and rows are grouped and balanced: the fields of a text, and which of them belong
//! to the two ends of a connection. Aggregates, records, scripts and the instances of an application take the
//! same keys.

use super::key_ends::KeyEnds;
use crate::ask::names::{Names, keys_of, parts_of};
use crate::rows::values::Part;
use weir_lang::aggregate::{Key, Shorthand};
use weir_lang::diag::Diagnostics;

/// Words for several fields of packets. `flow` and `hosts` are the same for both directions of a connection.
pub(crate) const OF_PACKETS: &[Shorthand<'_>] =
    &words_of_ends([&["src", "sport"], &["dst", "dport"]], [&["src"], &["dst"]]);

/// The same words for rows.
pub(crate) const OF_ROWS: &[Shorthand<'_>] = &words_of_ends(
    [&["id.orig_h", "id.orig_p"], &["id.resp_h", "id.resp_p"]],
    [&["id.orig_h"], &["id.resp_h"]],
);

const fn words_of_ends<'a>(ports: [&'a [&'a str]; 2], hosts: [&'a [&'a str]; 2]) -> [Shorthand<'a>; 4] {
    let flow = Shorthand { word: "flow", ends: ports, rest: &["proto"], is_two_way: true };
    let hosts = Shorthand { word: "hosts", ends: hosts, rest: &[], is_two_way: true };
    [
        flow,
        hosts,
        Shorthand { word: "5tuple", is_two_way: false, ..flow },
        Shorthand { word: "pair", is_two_way: false, ..hosts },
    ]
}

/// A key of packets.
#[derive(Debug, Clone)]
pub(crate) struct GroupKey {
    /// The parts, as the text names them.
    pub keys: Vec<Key>,
    /// The words of the parts.
    pub parts: Vec<Part>,
    /// The ends of a connection, if the key is the same for both directions.
    pub ends: Option<KeyEnds>,
    /// The whole text is one of the words for several fields: packets with none of these fields have no key.
    pub is_tuple: bool,
}

impl GroupKey {
    /// The key of packets with this text: fields separated by commas, addresses with or without a prefix
    /// (`ip.src/24, tcp.dstport`), or words for several.
    ///
    /// # Errors
    /// All mistakes in the text.
    pub fn of(names: &Names, text: &str) -> Result<Self, Diagnostics> {
        let keys = keys_of(names, "key", text, OF_PACKETS)?;
        let parts = parts_of(names, &keys);
        let is_tuple = OF_PACKETS.iter().any(|one| text.trim().eq_ignore_ascii_case(one.word));
        let ends = KeyEnds::of(&keys, &parts);
        Ok(Self { keys, parts, ends, is_tuple })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::compile::Compiler;

    fn key(text: &str) -> GroupKey {
        GroupKey::of(&Names::of_packets(&Compiler::default()), text).expect("a key")
    }

    #[test]
    fn both_directions_have_the_same_words() {
        for text in ["flow", "hosts", "frame.len, hosts", "flow, ip.ttl"] {
            let GroupKey { parts, ends, .. } = key(text);
            let ends = ends.expect("a key of both directions");
            let count = crate::rows::values::words_of(&parts);
            let there: Vec<u64> = (0..count as u64).map(|word| word * 7 + 3).collect();
            let mut back = there.clone();
            ends.words().iter().for_each(|&[sender, receiver]| back.swap(sender, receiver));
            assert_ne!(there, back);
            let (mut one, mut other, mut all) = (there, back, u64::MAX);
            assert_ne!(ends.order(&mut one, &mut all), ends.order(&mut other, &mut all), "{text}");
            assert_eq!((one, all), (other, u64::MAX));
        }
        assert!(["5tuple", "pair", "ip.src, ip.dst"].iter().all(|text| key(text).ends.is_none()));
    }

    #[test]
    fn what_is_missing_moves_with_its_end() {
        let GroupKey { ends, .. } = key("flow");
        let ends = ends.expect("a key of both directions");
        // Address, port, address, port, protocol: the receiver has no port.
        let (mut words, mut present) = ([0, 9, 80, 0, 5, 0, 1], 0b10111);
        assert!(ends.order(&mut words, &mut present));
        assert_eq!((words, present), ([0, 5, 0, 0, 9, 80, 1], 0b11101));
        assert_eq!((ends.other(0), ends.other(3), ends.other(4)), (Some(2), Some(1), None));
    }

    #[test]
    fn one_key_has_the_ends_of_one_connection() {
        let names = Names::of_packets(&Compiler::default());
        let wrong = GroupKey::of(&names, "flow, hosts").expect_err("two connections");
        assert_eq!(wrong.list[0].code, "W0134");
    }
}
