//! Columns of connections that have few words for values: a filter that asks for another one is probably
//! wrong, and is told so.

use crate::connection::{COLUMNS, CONN_STATES, proto_name};
use weir_compile::{FieldKey, StackCatalog};
use weir_lang::diag::{Diagnostic, suggest};
use weir_lang::filter::{Filter, Literal, Op};
use weir_lang::model::Stack;
use weir_sessions::PROTOCOLS;

/// The words that a column can hold; none where it can hold any.
fn words_of(column: &str, stack: &Stack) -> Vec<String> {
    let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    match column {
        "proto" => protos(stack),
        "service" => {
            let mut services: Vec<String> =
                PROTOCOLS.iter().map(|protocol| protocol.service.to_string()).collect();
            services.dedup();
            services
        }
        "conn_state" => owned(CONN_STATES),
        _ => vec![],
    }
}

/// The protocols whose instances have two sides.
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

/// A warning for every word that a filter wants of a column which never holds it.
pub(crate) fn unknown(filter: &Filter, catalog: &StackCatalog, stack: &Stack) -> Vec<Diagnostic> {
    let mut warnings = vec![];
    for predicate in &filter.predicates {
        let FieldKey::Connection(column) = catalog.key(predicate.field) else { continue };
        let column = &*COLUMNS[usize::from(column)].name;
        let words = words_of(column, stack);
        if words.is_empty() || !matches!(predicate.op, Op::Eq | Op::Ne | Op::In) {
            continue;
        }
        for literal in &predicate.literals {
            let Literal::Text(text) = literal else { continue };
            // Services that followed on each other are joined by commas.
            if text.split(',').all(|part| words.iter().any(|word| word == part)) {
                continue;
            }
            // Services have Zeek's names, filters' protocols Wireshark's.
            let other = PROTOCOLS.iter().find(|p| column == "service" && p.name == text);
            let meant = other.map(|p| p.service).or_else(|| suggest(text, words.iter().map(String::as_str)));
            let help = match meant {
                Some(word) => format!("did you mean `{word}`?"),
                None => format!("there are: {}", words.join(", ")),
            };
            let message = format!("`conn.{column}` is never `{text}`");
            warnings.push(Diagnostic::warning("W0196", message).at(predicate.span).help(help));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use crate::{Ask, Compiler, Need, Options, Want};

    /// Messages and helps of the warnings about a filter.
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
        ] {
            assert_eq!(warned(filter), [], "{filter}");
        }
    }
}
