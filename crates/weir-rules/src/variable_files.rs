//! Variables from files: `vars` of suricata.yaml, or TOML.
//!
//! ```yaml
//! vars:
//!   address-groups:
//!     HOME_NET: "[192.168.0.0/16,10.0.0.0/8]"
//!     EXTERNAL_NET: "!$HOME_NET"
//!   port-groups:
//!     HTTP_PORTS: "80"
//! ```
//!
//! ```toml
//! [address-groups]
//! HOME_NET = ["192.168.0.0/16", "10.0.0.0/8"]
//! [port-groups]
//! HTTP_PORTS = 80
//! ```
//!
//! Everything else in the files is ignored. YAML is read as a sequence of events: no tree is built, and
//! aliases, which could make a small text large, are not followed.

use crate::groups::{Groups, HELP_ADDRESSES, HELP_PORTS};
use crate::variables::Variables;
use saphyr_parser::{Event, Marker, Parser};
use toml::de::{DeTable, DeValue};
use weir_lang::diag::{Diagnostic, Span};

/// A code for the form of files of configuration.
const FILE: &str = "W0208";
/// Lists inside of each other.
const DEPTH_MAX: usize = 16;

/// A group's name, value and place.
struct Entry {
    of_ports: bool,
    name: String,
    value: String,
    span: Span,
}

/// Entries, and mistakes.
#[derive(Default)]
struct Found {
    entries: Vec<Entry>,
    wrong: Vec<Diagnostic>,
}

impl Variables {
    /// Sets the groups of a configuration of Suricata (`vars`). `source`: the text's number in the sources of
    /// diagnostics. Returns the mistakes; groups without a mistake are set.
    pub fn read_yaml(&mut self, text: &str, source: u16) -> Vec<Diagnostic> {
        self.take(yaml(text, source))
    }

    /// Sets the groups of a TOML file, as [`Self::read_yaml`] does.
    pub fn read_toml(&mut self, text: &str, source: u16) -> Vec<Diagnostic> {
        self.take(toml(text, source))
    }

    fn take(&mut self, Found { entries, mut wrong }: Found) -> Vec<Diagnostic> {
        for entry in &entries {
            match entry.of_ports {
                true => self.set_ports(entry.name.as_str(), entry.value.as_str()),
                false => self.set_addresses(entry.name.as_str(), entry.value.as_str()),
            }
        }
        // After all of them are set: groups may name those behind them.
        let groups = Groups::new(self);
        for entry in &entries {
            let word = format!("${}", entry.name);
            let (made, help) = match entry.of_ports {
                true => (groups.ports(&word).err(), HELP_PORTS),
                false => (groups.addresses(&word).err(), HELP_ADDRESSES),
            };
            let Some(why) = made else { continue };
            let help = if why.contains("names itself") {
                "write addresses or ports in one of these groups"
            } else {
                help
            };
            wrong.push(Diagnostic::error("W0202", why).at(entry.span).help(help));
        }
        wrong
    }
}

/// What a node of a YAML text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Root,
    Vars,
    Groups {
        of_ports: bool,
    },
    /// A list as the value of a group.
    List,
    Ignored,
}

/// A mapping or sequence that is open.
struct Node {
    role: Role,
    is_mapping: bool,
    /// The node is a key of the mapping around it.
    is_key: bool,
    /// The key whose value comes next.
    key: Option<String>,
}

/// Reads events of YAML.
struct Yaml {
    open: Vec<Node>,
    /// The text of the list that is open, and its first byte.
    list: String,
    list_at: u32,
    found: Found,
}

fn yaml(text: &str, source: u16) -> Found {
    let mut places = Places { text, source, letters: 0, bytes: 0 };
    let mut yaml = Yaml { open: vec![], list: String::new(), list_at: 0, found: Found::default() };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => {
                let span = places.span(span.start, span.end);
                yaml.take(event, span);
            }
            Err(error) => {
                let span = places.span(*error.marker(), *error.marker());
                let message = format!("this is no YAML: {}", error.info());
                let help = "check the indentation and the quotes of this line and the one before";
                yaml.found.wrong.push(Diagnostic::error(FILE, message).at(span).help(help));
                break;
            }
        }
    }
    yaml.found
}

impl Yaml {
    fn take(&mut self, event: Event<'_>, span: Span) {
        match event {
            Event::MappingStart(..) => self.begin(true, span),
            Event::SequenceStart(..) => self.begin(false, span),
            Event::MappingEnd | Event::SequenceEnd => self.end(span),
            Event::Scalar(text, _, _, tag) => {
                let is_tagged = tag.is_some();
                self.scalar(&text, is_tagged, span);
            }
            Event::Alias(_) => {
                if let Some((_, name)) = self.entry() {
                    let message = format!("`{name}` is an alias (`*`), which is not followed");
                    self.wrong(message, "write the value itself", span);
                }
                self.complete();
            }
            Event::DocumentStart(_) => self.open.clear(),
            _ => {}
        }
    }

    /// The group whose value, or a part of it, comes next.
    fn entry(&self) -> Option<(bool, String)> {
        let group = self.open.iter().rposition(|node| node.role != Role::List)?;
        match (&self.open[group].role, &self.open[group].key) {
            (Role::Groups { of_ports }, Some(name)) => Some((*of_ports, name.clone())),
            _ => None,
        }
    }

    fn wrong(&mut self, message: String, help: &str, span: Span) {
        self.found.wrong.push(Diagnostic::error(FILE, message).at(span).help(help));
    }

    fn begin(&mut self, is_mapping: bool, span: Span) {
        let around = self.open.last();
        let is_key = around.is_some_and(|around| around.is_mapping && around.key.is_none());
        let key = around.and_then(|around| around.key.as_deref()).unwrap_or_default();
        let role = match around.map(|around| around.role) {
            None if is_mapping => Role::Root,
            Some(Role::Root) if is_mapping && key == "vars" => Role::Vars,
            Some(Role::Vars) if is_mapping && key == "address-groups" => Role::Groups { of_ports: false },
            Some(Role::Vars) if is_mapping && key == "port-groups" => Role::Groups { of_ports: true },
            Some(Role::Groups { .. }) if !is_mapping && !is_key => Role::List,
            Some(Role::List) if !is_mapping => Role::List,
            _ => Role::Ignored,
        };
        let is_inside = around.is_some_and(|around| around.role == Role::List);
        if role == Role::Ignored
            && let Some((_, name)) = self.entry()
        {
            self.wrong(format!("the value of `{name}` is a mapping"), "write a text or a list", span);
        }
        if role == Role::List {
            match is_inside {
                true => self.separate(),
                false => (self.list, self.list_at) = (String::new(), span.start),
            }
            self.list.push('[');
        }
        self.open.push(Node { role, is_mapping, is_key, key: None });
    }

    /// A comma before a member of the list that is open, but for the first one.
    fn separate(&mut self) {
        if !self.list.ends_with('[') {
            self.list.push(',');
        }
    }

    fn end(&mut self, span: Span) {
        let Some(node) = self.open.pop() else { return };
        if node.role == Role::List {
            self.list.push(']');
            let is_whole = self.open.last().is_none_or(|around| around.role != Role::List);
            if is_whole && let Some((of_ports, name)) = self.entry() {
                let span = Span { start: self.list_at, ..span };
                self.found.entries.push(Entry {
                    of_ports,
                    name,
                    value: std::mem::take(&mut self.list),
                    span,
                });
            }
        }
        match self.open.last_mut() {
            // Such a key is none that concerns us.
            Some(around) if node.is_key => around.key = Some(String::new()),
            _ => self.complete(),
        }
    }

    /// The value of a key is complete.
    fn complete(&mut self) {
        if let Some(around) = self.open.last_mut() {
            around.key = match (around.is_mapping, around.key.take()) {
                // An alias as a key.
                (true, None) => Some(String::new()),
                _ => None,
            };
        }
    }

    fn scalar(&mut self, text: &str, is_tagged: bool, span: Span) {
        let Some(node) = self.open.last_mut() else { return };
        if node.is_mapping && node.key.is_none() {
            node.key = Some(text.to_string());
            return;
        }
        let role = node.role;
        if let Some((of_ports, name)) = self.entry() {
            // `!$HOME_NET` without quotes is a tag, and no text.
            if text.is_empty() || is_tagged {
                let message = format!("`{name}` has no value");
                self.wrong(message, "a value with `!` needs quotes: `\"!$HOME_NET\"`", span);
            } else if role == Role::List {
                self.separate();
                self.list.push_str(text);
            } else {
                self.found.entries.push(Entry { of_ports, name, value: text.to_string(), span });
            }
        }
        self.complete();
    }
}

/// Places of bytes from those of letters. Events come in order, mostly.
struct Places<'t> {
    text: &'t str,
    source: u16,
    letters: usize,
    bytes: usize,
}

impl Places<'_> {
    fn span(&mut self, start: Marker, end: Marker) -> Span {
        let [start, end] = [start.index(), end.index()].map(|letters| self.byte(letters));
        Span { source: self.source, start, end: end.max(start) }
    }

    fn byte(&mut self, letters: usize) -> u32 {
        if letters < self.letters {
            (self.letters, self.bytes) = (0, 0);
        }
        let rest = self.text[self.bytes..].chars();
        let skipped = rest.take(letters - self.letters).map(char::len_utf8).sum::<usize>();
        (self.letters, self.bytes) = (letters, self.bytes + skipped);
        u32::try_from(self.bytes).unwrap_or(u32::MAX)
    }
}

fn toml(text: &str, source: u16) -> Found {
    let mut found = Found::default();
    let span = |range: std::ops::Range<usize>| {
        let at = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
        Span { source, start: at(range.start), end: at(range.end) }
    };
    let table = match DeTable::parse(text) {
        Ok(table) => table.into_inner(),
        Err(error) => {
            let place = error.span().unwrap_or(0..0);
            let message = format!("this is no TOML: {}", error.message());
            found.wrong.push(
                Diagnostic::error(FILE, message).at(span(place)).help("write for example `HTTP_PORTS = 80`"),
            );
            return found;
        }
    };
    for (key, of_ports) in [("address-groups", false), ("port-groups", true)] {
        let Some(groups) = table.get(key) else { continue };
        let Some(groups_table) = groups.get_ref().as_table() else {
            let message = format!("`{key}` is no table");
            found.wrong.push(
                Diagnostic::error(FILE, message).at(span(groups.span())).help(format!("write `[{key}]`")),
            );
            continue;
        };
        for (name, value) in groups_table.iter() {
            let name = name.get_ref().to_string();
            let mut text = String::new();
            match toml_value(value.get_ref(), &mut text, 0) {
                Some(()) => {
                    found.entries.push(Entry { of_ports, name, value: text, span: span(value.span()) });
                }
                None => {
                    let message = format!("the value of `{name}` is neither a text nor a list of texts");
                    let help = "write for example `HOME_NET = [\"10.0.0.0/8\", \"192.168.0.0/16\"]`";
                    found.wrong.push(Diagnostic::error(FILE, message).at(span(value.span())).help(help));
                }
            }
        }
    }
    found.entries.sort_by_key(|entry| entry.span.start);
    found
}

/// Adds a value in the form of rules. `None` for values of other types.
fn toml_value(value: &DeValue<'_>, text: &mut String, depth: usize) -> Option<()> {
    match value {
        DeValue::String(word) if !word.is_empty() => text.push_str(word),
        DeValue::Integer(number) => text.push_str(number.as_str()),
        DeValue::Array(all) if depth < DEPTH_MAX => {
            text.push('[');
            for (at, one) in all.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                toml_value(one.get_ref(), text, depth + 1)?;
            }
            text.push(']');
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(read: impl FnOnce(&mut Variables, &str) -> Vec<Diagnostic>, text: &str) -> Vec<(String, String)> {
        let mut variables = Variables::default();
        let wrong = read(&mut variables, text).into_iter();
        wrong
            .map(|one| {
                (one.message, text[one.spans[0].0.start as usize..one.spans[0].0.end as usize].to_string())
            })
            .collect()
    }

    fn yaml_said(text: &str) -> Vec<(String, String)> {
        said(|variables, text| variables.read_yaml(text, 0), text)
    }

    #[test]
    fn groups_of_a_configuration_of_suricata_are_set() {
        let text = r#"%YAML 1.1
---
# é
suricata-version: "8.0"
anchored: &a {x: [1, {y: 2}], ? [a, b] : c}
other: {vars: {address-groups: {HOME_NET: 9.9.9.9}}}
vars:
  # more specific is better
  address-groups:
    HOME_NET: "[192.168.0.0/16,!192.168.7.0/24]"
    EXTERNAL_NET: "!$HOME_NET"
    DNS_SERVERS: [1.1.1.1, ["8.8.8.8", "$MINE"]]
    MINE: 10.0.0.1
  port-groups:
    HTTP_PORTS: 80
    MANY: [80, "8000:8100"]
  unknown: 5
outputs:
  - fast: *a
"#;
        let mut variables = Variables::default();
        assert_eq!(variables.read_yaml(text, 0), []);
        let groups = Groups::new(&variables);
        let has = |word: &str, address: &str| {
            groups.addresses(word).expect(word).has(address.parse().expect(address))
        };
        assert!(
            has("$HOME_NET", "192.168.1.1")
                && !has("$HOME_NET", "192.168.7.1")
                && !has("$HOME_NET", "9.9.9.9")
        );
        assert!(has("$EXTERNAL_NET", "192.168.7.1") && has("$DNS_SERVERS", "10.0.0.1"));
        assert!(groups.ports("$MANY").is_ok_and(|set| set.has(8050)));
    }

    #[test]
    fn mistakes_of_yaml_have_a_place() {
        let of = |lines: &str| yaml_said(&format!("é: 1\nvars:\n  address-groups:\n{lines}"));
        let one = |message: &str, place: &str| vec![(message.to_string(), place.to_string())];
        assert_eq!(of("    A: 1.1.1\n"), one("in `$A`: `1.1.1` is no address", "1.1.1"));
        assert_eq!(of("    A: \"$B\"\n    B: 1.1.1.1\n"), []);
        let said = of("    A: [$B]\n    B: $A\n");
        assert_eq!(
            said[0],
            ("in `$A`: `$A` names itself: $A names $B names $A".to_string(), "[$B]".to_string())
        );
        assert_eq!(of("    A: !$HOME_NET\n").len(), 1, "{:?}", of("    A: !$HOME_NET\n"));
        assert_eq!(of("    A: {b: c}\n")[0].0, "the value of `A` is a mapping");
        assert_eq!(of("    B: &x 1.1.1.1\n    A: *x\n")[0].0, "`A` is an alias (`*`), which is not followed");
        assert!(of("    A: \"\n")[0].0.starts_with("this is no YAML: "));
    }

    #[test]
    fn groups_of_toml_are_set() {
        let text = "x = 1\n[address-groups]\nHOME_NET = ['10.0.0.0/8', '!10.1.0.0/16']\nB = '$HOME_NET'\n[port-groups]\nP = [80, '90:95']\nQ = 1\n";
        let mut variables = Variables::default();
        assert_eq!(variables.read_toml(text, 0), []);
        let groups = Groups::new(&variables);
        assert!(groups.addresses("$B").is_ok_and(|set| !set.has("10.1.1.1".parse().expect("an address"))));
        assert!(groups.ports("[$P,$Q]").is_ok_and(|set| set.has(91) && set.has(1)));
        let of = |text: &str| said(|variables, text| variables.read_toml(text, 0), text);
        assert_eq!(
            of("[port-groups]\nP = 70000"),
            [("in `$P`: `70000` is no port".to_string(), "70000".to_string())]
        );
        assert_eq!(of("[port-groups]\nP = 1.5")[0].1, "1.5");
        assert_eq!(of("port-groups = 1")[0].0, "`port-groups` is no table");
        assert!(of("[port-groups")[0].0.starts_with("this is no TOML: "));
    }

    proptest! {
        /// Whatever the files say, nothing panics.
        #[test]
        fn any_file_is_read_or_refused(words in prop::collection::vec(prop::sample::select(WORDS), 0..30)) {
            let text = words.concat();
            Variables::default().read_yaml(&text, 0);
            Variables::default().read_toml(&text, 0);
        }
    }

    const WORDS: &[&str] = &[
        "vars:\n",
        "  address-groups:\n",
        "    A: ",
        "    B: ",
        "  port-groups:\n",
        "[",
        "]",
        "{",
        "}",
        ",",
        "1.1.1.1",
        "\"",
        "'",
        "$A",
        "$B",
        "!",
        "&x ",
        "*x",
        "? ",
        ": ",
        "\n",
        "- ",
        "---\n",
        "é",
        "#",
        "[address-groups]\n",
        "[port-groups]\n",
        "A = ",
        "80",
        "|\n",
        "=",
        "<<: ",
    ];
}
