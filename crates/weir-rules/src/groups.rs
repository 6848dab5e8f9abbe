//! Groups of addresses and ports, as rules and variables write them: `[10.0.0.0/8, !10.1.2.3, $DNS_SERVERS]`.
//!
//! A word is read into two lists: what is given, and what is taken away behind a `!`. A group inside of
//! another one, and a variable, add to the lists of the group around them, as in Suricata:
//! `[1.1.1.1, [!2.2.2.2]]` is `[1.1.1.1, !2.2.2.2]`, which is 1.1.1.1 alone. If nothing is given, everything
//! is. A group or variable behind a `!` is a set of its own, and this set is taken away.

use crate::sets::{AddressSet, PORT_MAX, PortSet, Ranges, V4_MAX};
use crate::variables::Variables;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

/// Variables and groups inside of each other.
const DEPTH_MAX: usize = 16;
/// Members of one group, with those of its variables.
const MEMBERS_MAX: usize = 65_536;
/// Longest word with variables whose set is kept for the next rule with this word.
const KEPT_BYTES: usize = 128;

pub(crate) const HELP_ADDRESSES: &str = "write for example `any`, `$HOME_NET`, `[10.0.0.0/8, !10.1.2.3]`";
pub(crate) const HELP_PORTS: &str = "write for example `any`, `$HTTP_PORTS`, `[80, 8000:8100, !8080]`";

/// Ranges of IPv4 and of IPv6; of ports the first list only.
type Pair = [Vec<(u128, u128)>; 2];
type Sets = [Ranges; 2];

/// What a group gives, and what it takes away.
#[derive(Debug, Clone, Default)]
struct Lists {
    given: Pair,
    taken: Pair,
}

/// The name and the value of a variable, or why there is none.
type Found<'v> = Result<(&'v str, &'v str), String>;

/// What is different for addresses and ports.
struct Kind {
    /// In messages.
    one: &'static str,
    many: &'static str,
    member: fn(&str) -> Result<Pair, String>,
    max: [u128; 2],
    /// The name and the value of a variable.
    variable: for<'v> fn(&'v Variables, &str) -> Found<'v>,
}

static ADDRESSES: Kind = Kind {
    one: "address",
    many: "addresses",
    member: address,
    max: [V4_MAX, u128::MAX],
    variable: Variables::addresses,
};
static PORTS: Kind =
    Kind { one: "port", many: "ports", member: port, max: [PORT_MAX, 0], variable: Variables::ports };

impl Kind {
    fn any(&self) -> Pair {
        let first = vec![(0, self.max[0])];
        [first, if self.max[1] == 0 { vec![] } else { vec![(0, self.max[1])] }]
    }
}

/// Reads words of rules with the same variables. Each variable is read once: variables that name each other
/// several times would take exponential time.
pub(crate) struct Groups<'v> {
    addresses: Known<'v>,
    ports: Known<'v>,
}

/// What is known of variables and words of one kind.
struct Known<'v> {
    kind: &'static Kind,
    variables: &'v Variables,
    by_name: RefCell<FxHashMap<&'v str, Result<Rc<Lists>, String>>>,
    by_word: RefCell<FxHashMap<String, Result<Sets, String>>>,
    /// Names of variables that are being read: the last one is a part of the one before.
    open: RefCell<Vec<&'v str>>,
}

impl<'v> Groups<'v> {
    pub fn new(variables: &'v Variables) -> Self {
        let known = |kind| Known {
            kind,
            variables,
            by_name: RefCell::default(),
            by_word: RefCell::default(),
            open: RefCell::default(),
        };
        Self { addresses: known(&ADDRESSES), ports: known(&PORTS) }
    }

    /// The addresses of a word.
    ///
    /// # Errors
    /// What is wrong.
    pub fn addresses(&self, word: &str) -> Result<AddressSet, String> {
        self.addresses.word(word).map(|[v4, v6]| AddressSet { v4, v6 })
    }

    /// The ports of a word.
    ///
    /// # Errors
    /// What is wrong.
    pub fn ports(&self, word: &str) -> Result<PortSet, String> {
        self.ports.word(word).map(|[ports, _]| PortSet(ports))
    }
}

impl<'v> Known<'v> {
    fn word(&self, word: &str) -> Result<Sets, String> {
        let is_kept = word.len() <= KEPT_BYTES && (word == "any" || word.contains('$'));
        if let Some(known) = self.by_word.borrow().get(word) {
            return known.clone();
        }
        let made = self.set(word, 0);
        if is_kept {
            self.by_word.borrow_mut().insert(word.to_string(), made.clone());
        }
        made
    }

    /// The set of a word.
    fn set(&self, word: &str, depth: usize) -> Result<Sets, String> {
        let mut lists = Lists::default();
        self.collect(word, &mut lists, depth)?;
        self.merge(lists, word)
    }

    /// What is given, without what is taken away.
    fn merge(&self, lists: Lists, word: &str) -> Result<Sets, String> {
        let is_given = lists.given.iter().any(|given| !given.is_empty());
        let [first, second] = if is_given { lists.given } else { self.kind.any() }.map(Ranges::of);
        let [taken_first, taken_second] = lists.taken.map(Ranges::of);
        let [max_first, max_second] = self.kind.max;
        let made = [first.without(&taken_first, max_first), second.without(&taken_second, max_second)];
        match made.iter().all(Ranges::is_empty) {
            true => Err(format!("no {} is in `{word}`", self.kind.one)),
            false => Ok(made),
        }
    }

    /// Adds the members of a word to lists.
    fn collect(&self, word: &str, into: &mut Lists, depth: usize) -> Result<(), String> {
        if depth >= DEPTH_MAX {
            return Err(format!("`{word}`: groups are too deep, more than {DEPTH_MAX} in each other"));
        }
        for (negated, member) in members(word)? {
            let (given, taken) = if member.starts_with('[') && !negated {
                self.collect(member, into, depth + 1)?;
                continue;
            } else if member.starts_with('[') {
                (Pair::default(), self.set(member, depth + 1)?.map(|set| set.pairs().to_vec()))
            } else if let Some(name) = member.strip_prefix('$') {
                let lists = self.variable(name)?;
                match negated {
                    true => {
                        let set = self.merge((*lists).clone(), member)?;
                        (Pair::default(), set.map(|set| set.pairs().to_vec()))
                    }
                    false => (lists.given.clone(), lists.taken.clone()),
                }
            } else {
                let one = if member.eq_ignore_ascii_case("any") {
                    self.kind.any()
                } else {
                    (self.kind.member)(member)?
                };
                if negated { (Pair::default(), one) } else { (one, Pair::default()) }
            };
            let both = [(&mut into.given, given), (&mut into.taken, taken)];
            for (list, more) in both {
                list.iter_mut().zip(more).for_each(|(list, mut more)| list.append(&mut more));
            }
            let count: usize = into.given.iter().chain(&into.taken).map(Vec::len).sum();
            if count > MEMBERS_MAX {
                return Err(format!("the group has more than {MEMBERS_MAX} {}", self.kind.many));
            }
        }
        Ok(())
    }

    /// The lists of a variable.
    fn variable(&self, name: &str) -> Result<Rc<Lists>, String> {
        let name = name.trim();
        if let Some(known) = self.by_name.borrow().get(name) {
            return known.clone();
        }
        let (name, value) = (self.kind.variable)(self.variables, name)?;
        let begin = self.open.borrow().iter().position(|open| *open == name);
        if let Some(begin) = begin {
            let open = self.open.borrow();
            let names: Vec<_> = open[begin..].iter().chain([&name]).map(|name| format!("${name}")).collect();
            return Err(format!("`${name}` names itself: {}", names.join(" names ")));
        }
        if self.open.borrow().len() >= DEPTH_MAX {
            return Err(format!("`${name}`: variables are too deep, more than {DEPTH_MAX} name each other"));
        }
        self.open.borrow_mut().push(name);
        let mut lists = Lists::default();
        let made = self.collect(value, &mut lists, 0);
        self.open.borrow_mut().pop();
        let made = match made {
            Ok(()) => Ok(Rc::new(lists)),
            // The place of the mistake is the variable's value.
            Err(why) if self.open.borrow().is_empty() => Err(format!("in `${name}`: {why}")),
            Err(why) => return Err(why),
        };
        self.by_name.borrow_mut().insert(name, made.clone());
        made
    }
}

/// The members of a list between brackets, or the word itself; each with whether it is negated.
fn members(word: &str) -> Result<Vec<(bool, &str)>, String> {
    let word = word.trim();
    let inner = match word.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(|| format!("`{word}` has no `]`"))?,
        None => return Ok(vec![negation(word)]),
    };
    let (mut all, mut depth, mut start) = (vec![], 0_usize, 0);
    for (at, letter) in inner.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1).ok_or_else(|| format!("`{word}` has too many `]`"))?,
            ',' if depth == 0 => {
                all.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.push(&inner[start..]);
    // A comma behind the last member is harmless.
    all.retain(|member| !member.trim().is_empty());
    match (depth, all.is_empty()) {
        (0, false) => Ok(all.into_iter().map(|member| negation(member.trim())).collect()),
        (0, true) => Err("the list is empty".to_string()),
        _ => Err(format!("`{word}` has too few `]`")),
    }
}

fn negation(word: &str) -> (bool, &str) {
    let rest = word.trim_start_matches('!');
    ((word.len() - rest.len()) % 2 == 1, rest.trim_start())
}

/// An address, a prefix or a range.
fn address(word: &str) -> Result<Pair, String> {
    let wrong = || format!("`{word}` is no address");
    let parse = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| wrong());
    let (first, last) = if let Some((first, last)) = word.split_once('-') {
        (parse(first)?, parse(last)?)
    } else if let Some((base, prefix)) = word.split_once('/') {
        let base = parse(base)?;
        let bits = if base.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix.trim().parse::<u32>() {
            Ok(prefix) => prefix,
            // A mask such as 255.255.0.0, whose ones come first.
            Err(_) => match prefix.trim().parse::<Ipv4Addr>().map(Ipv4Addr::to_bits) {
                Ok(mask) if base.is_ipv4() && mask.leading_ones() == mask.count_ones() => mask.leading_ones(),
                _ => return Err(wrong()),
            },
        };
        if prefix > bits {
            return Err(format!("`{word}`: a prefix has at most {bits} bits"));
        }
        match base {
            IpAddr::V4(v4) => {
                let host = u32::MAX.checked_shr(prefix).unwrap_or(0);
                (
                    Ipv4Addr::from_bits(v4.to_bits() & !host).into(),
                    Ipv4Addr::from_bits(v4.to_bits() | host).into(),
                )
            }
            IpAddr::V6(v6) => {
                let host = u128::MAX.checked_shr(prefix).unwrap_or(0);
                (
                    Ipv6Addr::from_bits(v6.to_bits() & !host).into(),
                    Ipv6Addr::from_bits(v6.to_bits() | host).into(),
                )
            }
        }
    } else {
        let one = parse(word)?;
        (one, one)
    };
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
            Ok([vec![(u128::from(first.to_bits()), u128::from(last.to_bits()))], vec![]])
        }
        (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => {
            Ok([vec![], vec![(first.to_bits(), last.to_bits())]])
        }
        _ => Err(wrong()),
    }
}

/// A port, or a range with a colon.
fn port(word: &str) -> Result<Pair, String> {
    let number = |text: &str, empty: u16| {
        let text = text.trim();
        let parsed = if text.is_empty() { Some(empty) } else { text.parse().ok() };
        parsed.map(u128::from).ok_or_else(|| format!("`{word}` is no port"))
    };
    let (first, last) = match word.split_once(':') {
        Some((first, last)) => (number(first, 0)?, number(last, u16::MAX)?),
        None if word.is_empty() => return Err("a port is missing".to_string()),
        None => (number(word, 0)?, number(word, 0)?),
    };
    match first <= last {
        true => Ok([vec![(first, last)], vec![]]),
        false => Err(format!("`{word}`: the last port is before the first one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(word: &str) -> Result<AddressSet, String> {
        let mut variables = Variables::default();
        variables.set_addresses("HOME_NET", "[10.0.0.0/8,192.168.0.0/16]");
        variables.set_addresses("EXTERNAL_NET", "!$HOME_NET");
        variables.set_addresses("HOLED", "[10.0.0.0/8,!10.1.0.0/16]");
        variables.set_addresses("LOOP", "$ROUND");
        variables.set_addresses("ROUND", "[1.1.1.1,!$LOOP]");
        Groups::new(&variables).addresses(word)
    }

    #[test]
    fn addresses_are_sets() {
        let has = |word: &str, address: &str| set(word).expect(word).has(address.parse().expect(address));
        for (word, inside, outside) in [
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("!10.1.2.3", "10.1.2.4", "10.1.2.3"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("$EXTERNAL_NET", "8.8.8.8", "192.168.7.1"),
            ("!$EXTERNAL_NET", "192.168.7.1", "8.8.8.8"),
            ("[10.0.0.0/8,!10.1.0.0/16,[10.1.2.3]]", "10.2.0.1", "10.1.9.9"),
            ("[!10.1.2.3, !10.1.2.4]", "10.1.2.5", "10.1.2.4"),
            ("10.1.2.3-10.1.2.9", "10.1.2.9", "10.1.2.10"),
            ("[2001:db8::/32, 1.1.1.1]", "2001:db8::1", "2001:db9::1"),
            ("172.16.0.0/255.240.0.0", "172.31.0.1", "172.32.0.1"),
            // Groups inside of others, and variables, add to the lists around them.
            ("[1.1.1.1,[!2.2.2.2]]", "1.1.1.1", "3.3.3.3"),
            ("[10.0.0.0/8,$HOLED]", "10.2.0.1", "10.1.0.1"),
            ("[8.8.8.8,$EXTERNAL_NET]", "8.8.8.8", "9.9.9.9"),
            // Behind a `!` they are sets.
            ("!$HOLED", "10.1.0.1", "10.2.0.1"),
            ("[10.0.0.0/8,![10.0.0.0/9,!10.1.0.0/16]]", "10.1.0.1", "10.2.0.1"),
            ("![!10.1.2.3]", "10.1.2.3", "10.1.2.4"),
        ] {
            assert!(has(word, inside), "{word} has {inside}");
            assert!(!has(word, outside), "{word} does not have {outside}");
        }
        assert!(set("any").is_ok_and(|set| set.is_any()));
        for empty in ["[1.1.1.1,!1.1.1.1]", "[1.1.1.3,!1.1.0.0/16]", "!any", "[$HOME_NET,$EXTERNAL_NET]"] {
            assert_eq!(set(empty), Err(format!("no address is in `{empty}`")));
        }
        for wrong in ["", "[", "[]", "[[1.1.1.1]", "1.1.1", "1.1.1.1/33", "$NOBODY", "2.2.2.2-1.1.1.1", "x"] {
            assert!(set(wrong).is_err(), "{wrong}");
        }
        let why = "in `$LOOP`: `$LOOP` names itself: $LOOP names $ROUND names $LOOP";
        assert_eq!(set("$LOOP"), Err(why.to_string()));
    }

    #[test]
    fn ports_are_sets() {
        let mut variables = Variables::default();
        variables.set_ports("HTTP_PORTS", "[80,8080]");
        let groups = Groups::new(&variables);
        let of = |word: &str| groups.ports(word).map(|set| set.ranges().collect::<Vec<_>>());
        assert_eq!(of("80"), Ok(vec![(80, 80)]));
        assert_eq!(of("[80,81:90,!85]"), Ok(vec![(80, 84), (86, 90)]));
        assert_eq!(of("[1:80,![2,4]]"), Ok(vec![(1, 1), (3, 3), (5, 80)]));
        assert_eq!(of("!$HTTP_PORTS"), Ok(vec![(0, 79), (81, 8079), (8081, 65535)]));
        assert_eq!(of(":1023"), Ok(vec![(0, 1023)]));
        assert_eq!(of("1024:"), Ok(vec![(1024, 65535)]));
        assert_eq!(of("any"), Ok(vec![(0, 65535)]));
        for wrong in ["", "65536", "90:80", "x", "[80", "!any", "$HTTP"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables_that_name_each_other_often_are_read_once() {
        let mut variables = Variables::default();
        variables.set_addresses("A0", "10.0.0.0/8");
        for depth in 1..12 {
            let before = format!("$A{}", depth - 1);
            variables.set_addresses(
                format!("A{depth}"),
                format!("[{}]", vec![format!("!{before}"); 30].join(",")),
            );
        }
        assert!(Groups::new(&variables).addresses("$A11").is_ok());
        // Lists that grow are refused.
        for depth in 1..12 {
            let before = format!("$A{}", depth - 1);
            variables.set_addresses(format!("A{depth}"), format!("[{}]", vec![before; 30].join(",")));
        }
        let why = Groups::new(&variables).addresses("$A11").expect_err("too many");
        assert!(why.contains("more than 65536 addresses"), "{why}");
        let mut deep = Variables::default();
        for depth in 0..100_000 {
            deep.set_addresses(format!("D{depth}"), format!("$D{}", depth + 1));
        }
        assert!(Groups::new(&deep).addresses("$D0").is_err_and(|why| why.contains("too deep")));
        let brackets = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(Groups::new(&deep).addresses(&brackets).is_err());
    }
}
