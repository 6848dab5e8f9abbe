//! The header of a rule: action, protocol, ends and direction; addresses and ports are sets.

use crate::options::FORM;
use crate::text::RuleText;
use crate::variables::Variables;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_lang::diag::Diagnostic;

/// A code for addresses and ports.
pub(crate) const ENDS: &str = "W0202";
/// Variables and groups inside of each other.
const DEPTH_MAX: usize = 16;
/// Ranges of one set.
const RANGES_MAX: usize = 65_536;

/// A set of numbers: ranges in order, with both ends, which do not touch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    fn of(mut all: Vec<(u128, u128)>) -> Self {
        all.sort_unstable();
        let mut joined: Vec<(u128, u128)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match joined.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    fn complement(&self, max: u128) -> Self {
        let (mut all, mut next) = (vec![], Some(0));
        for &(first, last) in &self.0 {
            if let Some(next) = next.filter(|next| *next < first) {
                all.push((next, first - 1));
            }
            next = last.checked_add(1).filter(|next| *next <= max);
        }
        all.extend(next.map(|next| (next, max)));
        Self(all)
    }

    fn without(&self, other: &Self, max: u128) -> Self {
        // What is in neither the complement of this, nor in the other.
        let mut all = self.complement(max).0;
        all.extend(&other.0);
        Self::of(all).complement(max)
    }

    fn has(&self, number: u128) -> bool {
        let at = self.0.partition_point(|(first, _)| *first <= number);
        at > 0 && self.0[at - 1].1 >= number
    }
}

/// A set of IP addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AddressSet {
    v4: Ranges,
    v6: Ranges,
}

/// A set of ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortSet(Ranges);

const V4_MAX: u128 = u32::MAX as u128;
const PORT_MAX: u128 = u16::MAX as u128;

/// A member of a set of addresses, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// Addresses of IPv4, with both ends.
    V4(Ipv4Addr, Ipv4Addr),
    /// Addresses of IPv6, with both ends.
    V6(Ipv6Addr, Ipv6Addr),
}

impl AddressSet {
    /// All addresses.
    pub fn any() -> Self {
        Self { v4: Ranges(vec![(0, V4_MAX)]), v6: Ranges(vec![(0, u128::MAX)]) }
    }

    /// Whether the set has an address.
    pub fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.v4.has(u128::from(v4.to_bits())),
            IpAddr::V6(v6) => self.v6.has(v6.to_bits()),
        }
    }

    /// Whether the set has all addresses.
    pub fn is_any(&self) -> bool {
        *self == Self::any()
    }

    /// The ranges, in order: those of IPv4 first.
    pub fn ranges(&self) -> impl Iterator<Item = Address> + '_ {
        let v4 = |number: u128| Ipv4Addr::from_bits(number as u32);
        let of_v4 = self.v4.0.iter().map(move |(first, last)| Address::V4(v4(*first), v4(*last)));
        let v6 = Ipv6Addr::from_bits;
        of_v4.chain(self.v6.0.iter().map(move |(first, last)| Address::V6(v6(*first), v6(*last))))
    }
}

impl PortSet {
    /// All ports.
    pub fn any() -> Self {
        Self(Ranges(vec![(0, PORT_MAX)]))
    }

    /// Whether the set has a port.
    pub fn has(&self, port: u16) -> bool {
        self.0.has(u128::from(port))
    }

    /// Whether the set has all ports.
    pub fn is_any(&self) -> bool {
        *self == Self::any()
    }

    /// The ranges, in order, with both ends.
    pub fn ranges(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.0.0.iter().map(|(first, last)| (*first as u16, *last as u16))
    }
}

/// The action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Action {
    Alert,
    Pass,
    Drop,
    Reject,
}

impl Action {
    /// The action of this name.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "alert" => Self::Alert,
            "pass" => Self::Pass,
            "drop" => Self::Drop,
            "reject" | "rejectsrc" | "rejectdst" | "rejectboth" => Self::Reject,
            _ => return None,
        })
    }
}

/// The arrow of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// `->`
    ToDestination,
    /// `<>`
    Both,
    /// `=>`: both sides of a transaction.
    Transaction,
}

/// Addresses and ports of one end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ends {
    /// The addresses.
    pub addresses: AddressSet,
    /// The ports.
    pub ports: PortSet,
}

/// The header of a rule.
#[derive(Debug, Clone)]
pub(crate) struct Header<'t> {
    pub action: Action,
    pub protocol: &'t str,
    /// First byte of the protocol.
    pub protocol_at: usize,
    pub source: Ends,
    pub destination: Ends,
    pub direction: Direction,
    /// The parenthesis of the options.
    pub options_at: usize,
}

/// Reads the words before the options.
pub(crate) fn header<'t>(rule: &RuleText<'t>, variables: &Variables) -> Result<Header<'t>, Diagnostic> {
    let text = rule.text;
    let mut words = Words { text, at: 0 };
    let wrong = |code, message: String, (start, end): (usize, usize), help: &str| {
        Diagnostic::error(code, message).at(rule.span(start, end)).help(help)
    };
    let form = "a rule is `ACTION PROTOCOL SOURCE PORTS -> DESTINATION PORTS (options)`";
    let mut next = |what: &str| {
        let found = words.next();
        found.ok_or_else(|| {
            wrong(FORM, format!("the rule has no {what}"), (text.len().saturating_sub(1), text.len()), form)
        })
    };
    let (action_at, word) = next("action")?;
    let action = Action::of(word).ok_or_else(|| {
        let help = "there are `alert`, `pass`, `drop`, `reject`, `rejectsrc`, `rejectdst`, `rejectboth`";
        wrong(FORM, format!("there is no action `{word}`"), (action_at, action_at + word.len()), help)
    })?;
    let (protocol_at, protocol) = next("protocol")?;
    let of_addresses = |(at, word): (usize, &str)| {
        addresses(word, variables, 0).map_err(|why| {
            wrong(
                ENDS,
                why,
                (at, at + word.len()),
                "write for example `any`, `$HOME_NET`, `[10.0.0.0/8, !10.1.2.3]`",
            )
        })
    };
    let of_ports = |(at, word): (usize, &str)| {
        ports(word, variables, 0).map(PortSet).map_err(|why| {
            wrong(
                ENDS,
                why,
                (at, at + word.len()),
                "write for example `any`, `$HTTP_PORTS`, `[80, 8000:8100, !8080]`",
            )
        })
    };
    let source =
        Ends { addresses: of_addresses(next("source")?)?, ports: of_ports(next("ports of the source")?)? };
    let (arrow_at, arrow) = next("direction")?;
    let direction = match arrow {
        "->" => Direction::ToDestination,
        "=>" => Direction::Transaction,
        "<>" => Direction::Both,
        _ => {
            let span = (arrow_at, arrow_at + arrow.len());
            return Err(wrong(FORM, format!("`{arrow}` is no direction"), span, "write `->` or `<>`"));
        }
    };
    let destination = Ends {
        addresses: of_addresses(next("destination")?)?,
        ports: of_ports(next("ports of the destination")?)?,
    };
    words.skip();
    let options_at = words.at;
    if !text[options_at..].starts_with('(') {
        return Err(wrong(FORM, "the rule has no options".into(), (options_at, text.len()), form));
    }
    Ok(Header { action, protocol, protocol_at, source, destination, direction, options_at })
}

/// The words of a header: groups between brackets are one word.
struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    fn skip(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len()
            - rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '\\').len();
    }

    fn next(&mut self) -> Option<(usize, &'t str)> {
        self.skip();
        let (start, mut depth) = (self.at, 0_usize);
        for (at, letter) in self.text[start..].char_indices() {
            match letter {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                '(' if depth == 0 => {
                    self.at = start + at;
                    return (at > 0).then(|| (start, &self.text[start..start + at]));
                }
                _ if letter.is_whitespace() && depth == 0 => {
                    self.at = start + at;
                    return Some((start, &self.text[start..start + at]));
                }
                _ => {}
            }
        }
        self.at = self.text.len();
        (self.at > start).then(|| (start, &self.text[start..]))
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

fn deeper(depth: usize, word: &str) -> Result<usize, String> {
    match depth < DEPTH_MAX {
        true => Ok(depth + 1),
        false => Err(format!("`{word}`: groups or variables are too deep: does one name itself?")),
    }
}

/// The addresses of a word.
fn addresses(word: &str, variables: &Variables, depth: usize) -> Result<AddressSet, String> {
    let depth = deeper(depth, word)?;
    let (mut given, mut taken) = ([vec![], vec![]], [vec![], vec![]]);
    let members = members(word)?;
    let has_given = members.iter().any(|(negated, _)| !negated);
    for (negated, member) in members {
        let set = if member.starts_with('[') {
            addresses(member, variables, depth)?
        } else if let Some(name) = member.strip_prefix('$') {
            addresses(&variables.addresses(name)?, variables, depth)?
        } else if member == "any" {
            AddressSet::any()
        } else {
            address(member)?
        };
        let into = if negated { &mut taken } else { &mut given };
        into[0].extend(set.v4.0);
        into[1].extend(set.v6.0);
        if into[0].len() + into[1].len() > RANGES_MAX {
            return Err(format!("the list has more than {RANGES_MAX} members"));
        }
    }
    let [v4, v6] = given.map(Ranges::of);
    let any = AddressSet::any();
    let (v4, v6) = if has_given { (v4, v6) } else { (any.v4, any.v6) };
    let [taken_v4, taken_v6] = taken.map(Ranges::of);
    let made = AddressSet { v4: v4.without(&taken_v4, V4_MAX), v6: v6.without(&taken_v6, u128::MAX) };
    match made.v4.0.is_empty() && made.v6.0.is_empty() {
        true => Err(format!("no address is in `{word}`")),
        false => Ok(made),
    }
}

/// An address, a prefix or a range.
fn address(word: &str) -> Result<AddressSet, String> {
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
    let empty = || Ranges(vec![]);
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
            let range = (u128::from(first.to_bits()), u128::from(last.to_bits()));
            Ok(AddressSet { v4: Ranges(vec![range]), v6: empty() })
        }
        (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => {
            Ok(AddressSet { v4: empty(), v6: Ranges(vec![(first.to_bits(), last.to_bits())]) })
        }
        _ => Err(wrong()),
    }
}

/// The ports of a word.
fn ports(word: &str, variables: &Variables, depth: usize) -> Result<Ranges, String> {
    let depth = deeper(depth, word)?;
    let (mut given, mut taken) = (vec![], vec![]);
    let members = members(word)?;
    let has_given = members.iter().any(|(negated, _)| !negated);
    for (negated, member) in members {
        let set = if member.starts_with('[') {
            ports(member, variables, depth)?
        } else if let Some(name) = member.strip_prefix('$') {
            ports(&variables.ports(name)?, variables, depth)?
        } else if member == "any" {
            PortSet::any().0
        } else {
            port(member)?
        };
        let into = if negated { &mut taken } else { &mut given };
        into.extend(set.0);
    }
    let given = if has_given { Ranges::of(given) } else { PortSet::any().0 };
    let made = given.without(&Ranges::of(taken), PORT_MAX);
    if made.0.is_empty() { Err(format!("no port is in `{word}`")) } else { Ok(made) }
}

/// A port, or a range with a colon.
fn port(word: &str) -> Result<Ranges, String> {
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
        true => Ok(Ranges(vec![(first, last)])),
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
        variables.set_addresses("LOOP", "$LOOP");
        addresses(word, &variables, 0)
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
        ] {
            assert!(has(word, inside), "{word} has {inside}");
            assert!(!has(word, outside), "{word} does not have {outside}");
        }
        assert!(set("any").is_ok_and(|set| set.is_any()));
        assert!(set("[1.1.1.1,!1.1.1.1]").is_err());
        for wrong in
            ["", "[", "[]", "[[1.1.1.1]", "1.1.1", "1.1.1.1/33", "$NOBODY", "$LOOP", "2.2.2.2-1.1.1.1", "x"]
        {
            assert!(set(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ports_are_sets() {
        let mut variables = Variables::default();
        variables.set_ports("HTTP_PORTS", "[80,8080]");
        let of =
            |word: &str| ports(word, &variables, 0).map(PortSet).map(|set| set.ranges().collect::<Vec<_>>());
        assert_eq!(of("80"), Ok(vec![(80, 80)]));
        assert_eq!(of("[80,81:90,!85]"), Ok(vec![(80, 84), (86, 90)]));
        assert_eq!(of("!$HTTP_PORTS"), Ok(vec![(0, 79), (81, 8079), (8081, 65535)]));
        assert_eq!(of(":1023"), Ok(vec![(0, 1023)]));
        assert_eq!(of("1024:"), Ok(vec![(1024, 65535)]));
        assert_eq!(of("any"), Ok(vec![(0, 65535)]));
        for wrong in ["", "65536", "90:80", "x", "[80", "!any", "$HTTP"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
