//! The table of `docs/sessions.md` must match the registry. `WEIR_BLESS=1` rewrites it.

use std::fmt::Write as _;
use weir::sessions::SessionRegistry;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sessions.md");
const BEGIN: &str = "<!-- registry -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn every_protocol_of_the_registry_is_on_the_page() {
    let mut table = "| command | log, service | over | what | fields |\n|---|---|---|---|---|\n".to_string();
    let registry = SessionRegistry::builtin();
    for protocol in registry.protocols() {
        let log = if protocol.log == protocol.service {
            format!("`{}`", protocol.log)
        } else {
            format!("`{}`, `{}`", protocol.log, protocol.service)
        };
        let (name, over, doc) = (protocol.name, protocol.transports.join(", "), protocol.doc);
        let _ = writeln!(table, "| `weir {name}` | {log} | {over} | {doc} | {} |", protocol.fields.len());
    }
    for log in registry.part_logs() {
        let of: Vec<&str> = log.of.iter().map(|(protocol, _)| *protocol).collect();
        let (name, doc) = (log.name, log.doc);
        let _ = writeln!(table, "| `weir {name}` | `{name}` | {} | {doc} | |", of.join(", "));
    }
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    let (head, rest) = page.split_once(BEGIN).expect("where the table begins");
    let (was, tail) = rest.split_once(END).expect("where it ends");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(PAGE, format!("{head}{BEGIN}{table}{END}{tail}"))
            .expect("the project can be written to");
        return;
    }
    assert_eq!(was, table, "docs/sessions.md is stale: WEIR_BLESS=1 writes its table");
}
