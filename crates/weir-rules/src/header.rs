//! The header of a rule: action, protocol, ends and direction.

use crate::groups::{Groups, HELP_ADDRESSES, HELP_PORTS};
use crate::options::FORM;
use crate::sets::{AddressSet, PortSet};
use crate::text::RuleText;
use crate::unsupported;
use weir_lang::diag::Diagnostic;

/// A code for addresses and ports.
pub(crate) const ENDS: &str = "W0202";
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
pub(crate) fn header<'t>(rule: &RuleText<'t>, groups: &Groups<'_>) -> Result<Header<'t>, Diagnostic> {
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
        if let Some((why, help)) = unsupported::action(word) {
            return unsupported::diagnostic(why, rule.span(action_at, action_at + word.len()), help);
        }
        let help = "there are `alert`, `pass`, `drop`, `reject`, `rejectsrc`, `rejectdst`, `rejectboth`";
        wrong(FORM, format!("there is no action `{word}`"), (action_at, action_at + word.len()), help)
    })?;
    let (protocol_at, protocol) = next("protocol")?;
    let of_addresses = |(at, word): (usize, &str)| {
        groups.addresses(word).map_err(|why| wrong(ENDS, why, (at, at + word.len()), HELP_ADDRESSES))
    };
    let of_ports = |(at, word): (usize, &str)| {
        groups.ports(word).map_err(|why| wrong(ENDS, why, (at, at + word.len()), HELP_PORTS))
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
