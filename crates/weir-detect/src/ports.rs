//! Finds the patterns of rules by the ports that they name: a packet is searched for those only that its
//! ports can match.

use crate::patterns::{Collected, Patterns};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use weir_rules::{Direction, PortSet, Rule};

/// Ports of a set that is worth looking up.
const PORTS_MAX: usize = 64;
/// Maximum number of sets for one transport and direction. Once there are so many, packets between other
/// ports are searched for all patterns.
const SETS_MAX: usize = 256;

/// Patterns of rules by ports. Those of two ports are put together when the first packet with these ports
/// comes.
#[derive(Debug, Default)]
pub struct ByPorts {
    /// The patterns, each with the number behind it.
    all: Vec<(Box<[u8]>, u32)>,
    /// Those of rules with any port, or many. Numbers of `all`, as below.
    rest: Vec<u32>,
    by_source: FxHashMap<u16, Vec<u32>>,
    by_destination: FxHashMap<u16, Vec<u32>>,
    built: Mutex<FxHashMap<Key, Built>>,
}

/// A port of the source and one of the destination, each if rules name it; `None`: all patterns.
type Key = Option<[Option<u16>; 2]>;

/// A set, once the first worker has built it.
type Built = Arc<OnceLock<Patterns>>;

/// The sets that a worker has used.
#[derive(Debug, Default)]
pub struct UsedSets(FxHashMap<Key, Built>);

/// The ports of a set, if they are few.
fn few(set: &PortSet) -> Option<Vec<u16>> {
    let count: usize = set.ranges().map(|(first, last)| usize::from(last - first) + 1).sum();
    (count <= PORTS_MAX).then(|| set.ranges().flat_map(|(first, last)| first..=last).collect())
}

impl ByPorts {
    /// Adds a pattern of a rule, and the number that is found with it. `has_ports`: the packets have ports.
    pub fn add(&mut self, pattern: &[u8], number: u32, rule: &Rule, has_ports: bool) {
        let at = self.all.len() as u32;
        self.all.push((pattern.into(), number));
        let is_one_way = has_ports && rule.direction == Direction::ToDestination;
        let ports = |set| few(set).filter(|_| is_one_way);
        let (source, destination) = (ports(&rule.source.ports), ports(&rule.destination.ports));
        let is_source = match (&source, &destination) {
            (Some(source), Some(destination)) => source.len() < destination.len(),
            (source, _) => source.is_some(),
        };
        let (index, ports) = match is_source {
            true => (&mut self.by_source, source),
            false => (&mut self.by_destination, destination),
        };
        match ports {
            Some(ports) => ports.into_iter().for_each(|port| index.entry(port).or_default().push(at)),
            None => self.rest.push(at),
        }
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The patterns of rules that packets between these ports may match.
    pub fn of_ports<'u>(&self, [source, destination]: [u16; 2], used: &'u mut UsedSets) -> &'u Patterns {
        let named = |index: &FxHashMap<u16, Vec<u32>>, port| index.contains_key(&port).then_some(port);
        let mut key = Some([named(&self.by_source, source), named(&self.by_destination, destination)]);
        if !used.0.contains_key(&key) && used.0.len() >= SETS_MAX {
            key = None;
        }
        let built = used.0.entry(key).or_insert_with(|| self.place_of(&mut key));
        built.get_or_init(|| self.build(key))
    }

    /// The place of a set, which another worker may have built. Beyond the bound the set of all patterns.
    fn place_of(&self, key: &mut Key) -> Built {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if !built.contains_key(key) && built.len() >= SETS_MAX {
            *key = None;
        }
        Arc::clone(built.entry(*key).or_default())
    }

    fn build(&self, key: Key) -> Patterns {
        let mut collected = Collected::default();
        let mut add = |numbers: &[u32]| {
            for (pattern, number) in numbers.iter().map(|number| &self.all[*number as usize]) {
                collected.add(pattern, *number);
            }
        };
        match key {
            Some([source, destination]) => {
                add(&self.rest);
                source.into_iter().for_each(|port| add(&self.by_source[&port]));
                destination.into_iter().for_each(|port| add(&self.by_destination[&port]));
            }
            None => add(&(0..self.all.len() as u32).collect::<Vec<_>>()),
        }
        collected.build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_rules::{Variables, parse};

    const RULES: &str = "alert tcp any any -> any any (sid:1;)\n\
                         alert tcp any any -> any [80,8080] (sid:2;)\n\
                         alert tcp any 80 -> any any (sid:3;)\n\
                         alert tcp any 80 <> any any (sid:4;)\n\
                         alert tcp any 1000: -> any any (sid:5;)\n\
                         alert tcp any any -> any !80 (sid:6;)\n\
                         alert tcp any [1,2] -> any 3 (sid:7;)\n";

    fn index(has_ports: bool) -> ByPorts {
        let mut index = ByPorts::default();
        for (number, parsed) in (0..).zip(&parse(RULES, 0, &Variables::default())) {
            index.add(b"a", number, parsed.rule.as_ref().expect("it is right"), has_ports);
        }
        index
    }

    fn found(index: &ByPorts, ports: [u16; 2], used: &mut UsedSets) -> Vec<u32> {
        let mut found = vec![];
        index.of_ports(ports, used).search(b"a", |numbers, _, _| found.extend_from_slice(numbers));
        found.sort_unstable();
        found
    }

    #[test]
    fn rules_are_found_by_either_port() {
        let (index, mut used) = (index(true), UsedSets::default());
        assert_eq!(found(&index, [5, 5], &mut used), [0, 3, 4, 5]);
        assert_eq!(found(&index, [5, 80], &mut used), [0, 1, 3, 4, 5]);
        assert_eq!(found(&index, [80, 8080], &mut used), [0, 1, 2, 3, 4, 5]);
        assert_eq!(found(&index, [2, 3], &mut used), [0, 3, 4, 5, 6]);
        // Packets without named ports share a set.
        assert_eq!(found(&index, [7, 7], &mut used), [0, 3, 4, 5]);
        assert_eq!(used.0.len(), 4);
    }

    #[test]
    fn packets_without_ports_are_searched_for_all() {
        let index = index(false);
        assert_eq!(found(&index, [0, 0], &mut UsedSets::default()), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn beyond_the_bound_all_patterns_are_searched() {
        let mut index = ByPorts::default();
        let text: String =
            (0..SETS_MAX + 9).map(|port| format!("alert tcp any any -> any {port} (sid:1;)\n")).collect();
        for (number, parsed) in (0..).zip(&parse(&text, 0, &Variables::default())) {
            index.add(b"a", number, parsed.rule.as_ref().expect("it is right"), true);
        }
        let (mut used, mut second) = (UsedSets::default(), UsedSets::default());
        for port in 0..SETS_MAX as u16 + 9 {
            assert!(found(&index, [0, port], &mut used).contains(&u32::from(port)));
            assert!(found(&index, [0, port], &mut second).contains(&u32::from(port)));
        }
        assert_eq!(used.0.len(), SETS_MAX + 1);
    }
}
