//! Warns of filters on columns and fields with a small set of values that name a value outside this set,
//! which is probably a mistake.

use crate::flow::conn_state::CONN_STATES;
use crate::flow::connection::COLUMNS;
use crate::flow::places::proto_name;
use crate::flow::tunnel_names;
use weir_compile::{FieldKey, StackCatalog};
use weir_lang::diag::{Diagnostic, suggest};
use weir_lang::filter::{Catalog, Filter, Literal, Op};
use weir_lang::model::Stack;
use weir_sessions::SessionRegistry;

/// The sources of the sets of values.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub stack: &'a Stack,
    pub catalog: &'a StackCatalog,
    pub sessions: &'a SessionRegistry,
}

/// The possible values of a column; none if it can hold any text.
fn words_of(column: &str, known: Known<'_>) -> Vec<String> {
    let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    match column {
        "proto" => protos(known.stack),
        "service" => {
            let registry = known.sessions;
            let mut services: Vec<String> =
                registry.all().iter().map(|number| named(registry, number)).collect();
            services.dedup();
            services.extend(tunnel_names::services(known.stack));
            services
        }
        "conn_state" => owned(CONN_STATES),
        _ => vec![],
    }
}

/// The value of `conn.service` if one protocol was recognised: `quic,ssl` for QUIC.
fn named(registry: &SessionRegistry, number: usize) -> String {
    registry.services(number).collect::<Vec<_>>().join(",")
}

/// The protocols whose flows have two sides.
fn protos(stack: &Stack) -> Vec<String> {
    let mut protos: Vec<String> = vec![];
    for protocol in stack.layers.iter().map(|layer| &layer.protocol) {
        let name = proto_name(&protocol.name).into_owned();
        let is_two_sided = protocol.instance.as_ref().is_some_and(|i| !i.destination.is_empty());
        if is_two_sided && !protos.contains(&name) {
            protos.push(name);
        }
    }
    protos
}

/// The name of a field, and its possible values; `None` if it can hold any text.
fn named_words(key: FieldKey, name: &str, known: Known<'_>) -> Option<(String, Words)> {
    match key {
        FieldKey::Connection(column) => {
            let column = &*COLUMNS.get(usize::from(column))?.name;
            let words = words_of(column, known);
            (!words.is_empty()).then(|| (format!("conn.{column}"), Words { list: words, others: &[] }))
        }
        FieldKey::SessionField(protocol, field) => {
            let field = &known.sessions.protocol(usize::from(protocol)).fields[usize::from(field)];
            let words = field.words?;
            let list = (words.list)().into_iter().map(str::to_string).collect();
            Some((name.to_string(), Words { list, others: words.others }))
        }
        _ => None,
    }
}

/// The possible values of a field.
struct Words {
    list: Vec<String>,
    /// Prefixes of further, generated values.
    others: &'static [&'static str],
}

impl Words {
    fn has(&self, text: &str) -> bool {
        self.list.iter().any(|word| word == text) || self.others.iter().any(|other| text.starts_with(other))
    }

    /// The value that is probably meant: one that ends with the text, or differs in few letters.
    fn nearest(&self, text: &str) -> Option<&str> {
        let upper = text.to_uppercase();
        let is_end = |word: &&str| {
            let before = upper.strip_suffix(&word.to_uppercase());
            before.is_some_and(|before| before.ends_with(['_', '-', '.', ' ']))
        };
        let words = || self.list.iter().map(String::as_str);
        words().filter(is_end).max_by_key(|word| word.len()).or_else(|| suggest(text, words()))
    }
}

/// A warning for every value in a filter that its field never has.
pub(crate) fn unknown(filter: &Filter, known: Known<'_>) -> Vec<Diagnostic> {
    let Known { catalog, sessions: registry, .. } = known;
    let mut warnings = vec![];
    for predicate in filter.predicates.iter().filter(|p| matches!(p.op, Op::Eq | Op::Ne | Op::In)) {
        let key = catalog.key(predicate.field);
        let name = &catalog.fields()[predicate.field].name;
        let Some((field, words)) = named_words(key, name, known) else { continue };
        for literal in &predicate.literals {
            let Literal::Text(text) = literal else { continue };
            // Consecutive services are joined by commas.
            if words.has(text) || field == "conn.service" && text.split(',').all(|part| words.has(part)) {
                continue;
            }
            // Services have Zeek's names; protocols in filters have Wireshark's.
            let other = registry.number_of(text).filter(|_| field == "conn.service");
            let help =
                match other.map(|p| named(registry, p)).or_else(|| words.nearest(text).map(str::to_string)) {
                    Some(word) => format!("did you mean `{word}`?"),
                    None => format!("there are: {}", listed(&words.list)),
                };
            let message = format!("`{field}` is never `{text}`");
            warnings.push(Diagnostic::warning("W0196", message).at(predicate.span).help(help));
        }
    }
    warnings
}

/// Limit of values that a help text lists.
const LISTED_MAX: usize = 24;

/// Lists some values for a sentence.
fn listed(words: &[String]) -> String {
    let shown = words[..words.len().min(LISTED_MAX)].join(", ");
    if words.len() > LISTED_MAX { format!("{shown} …") } else { shown }
}

#[cfg(test)]
mod tests {
    use crate::{Ask, Compiler, Need, Options, Want};

    /// Texts and helps of the warnings about a filter.
    fn warned(filter: &str) -> Vec<(String, String)> {
        let ask = Ask { filter: filter.into(), need: Need::default(), want: Want::Connections };
        let compiled = Compiler::default().compile(&[ask], &Options::default()).expect("it is right");
        let list = compiled.warnings.list.into_iter().filter(|one| one.code == "W0196");
        list.map(|one| (one.message, one.help.unwrap_or_default())).collect()
    }

    #[test]
    fn words_that_no_connection_has_are_warned_of() {
        for (filter, message, help) in [
            ("conn.service == \"tls\"", "`conn.service` is never `tls`", "did you mean `ssl`?"),
            ("conn.proto == \"tpc\"", "`conn.proto` is never `tpc`", "did you mean `tcp`?"),
            ("not conn.proto in { \"tcp\", \"upd\" }", "`conn.proto` is never `upd`", "did you mean `udp`?"),
            ("conn.conn_state != \"sf\"", "`conn.conn_state` is never `sf`", "did you mean `SF`?"),
            (
                "smb2.nt_status == \"STATUS_ACCESS_DENIED\"",
                "`smb2.nt_status` is never `STATUS_ACCESS_DENIED`",
                "did you mean `ACCESS_DENIED`?",
            ),
            (
                "smb.status in { \"SUCCESS\", \"FOO\" }",
                "`smb2.nt_status` is never `FOO`",
                "there are: SUCCESS, ",
            ),
            (
                "dns.rcode_name == \"NXDOMIAN\"",
                "`dns.rcode_name` is never `NXDOMIAN`",
                "did you mean `NXDOMAIN`?",
            ),
            ("tls.version == \"TLS 1.2\"", "`tls.version` is never `TLS 1.2`", "did you mean `TLSv12`?"),
            (
                "dhcp.msg_types == \"DISCOVERY\"",
                "`dhcp.msg_types` is never `DISCOVERY`",
                "did you mean `DISCOVER`?",
            ),
            ("conn.service == \"gopher\"", "`conn.service` is never `gopher`", "there are: "),
        ] {
            let warned = warned(filter);
            assert_eq!(warned.len(), 1, "{filter}");
            assert!(warned[0].0 == message && warned[0].1.starts_with(help), "{filter}: {warned:?}");
        }
    }

    #[test]
    fn words_that_there_are_pass_and_so_do_parts_of_them() {
        for filter in [
            "conn.service == \"ssl\" and conn.proto in { \"tcp\", \"udp\", \"icmp\" }",
            "conn.conn_state matches \"^rst\" or conn.proto contains \"c\"",
            "conn.history == \"Dd\" or conn.conn_state == \"RSTOS0\"",
            "smb2.nt_status == \"0xc0000999\" or smb2.nt_status contains \"DENIED\"",
            "tls.version == \"unknown-1285\" or tls.curve == \"x25519\" or tls.sni == \"anything\"",
            "dns.qtype_name in { \"AAAA\", \"NBSTAT\", \"query-1234\" } or mysql.command == \"login\"",
        ] {
            assert_eq!(warned(filter), [], "{filter}");
        }
    }
}
