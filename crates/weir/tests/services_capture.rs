//! What peers logged while `examples/services.pcap` was recorded is what we find in it, protocol by protocol.

mod support;

use std::cell::RefCell;
use support::{Capture, Found, Row, ask, same};
use weir::Engine;
use weir::sessions::postgresql::PgExchange;
use weir::sessions::tls::TlsHandshake;

static CAPTURE: Capture = Capture::new("services", ask_all);

fn ask_all<'c>(engine: &mut Engine<'c>, found: &'c RefCell<Found>) {
    ask::<PgExchange>(engine, "postgresql", found);
    ask::<TlsHandshake>(engine, "tls", found);
}

fn logged(log: &str) -> Vec<Row> {
    CAPTURE.logged(log)
}

fn sessions(protocol: &str) -> impl Iterator<Item = &'static Row> {
    CAPTURE.sessions(protocol)
}

#[track_caller]
fn assert_services(port: u32, wanted: &[(&str, usize)]) {
    CAPTURE.assert_services(port, wanted);
}

#[test]
fn postgresql_connections_are_those_that_the_server_logged() {
    let log = logged("postgresql_connections");
    let in_clear: Vec<_> = log.iter().filter(|row| row.is("tls", "false")).collect();
    let wanted = in_clear.iter().map(|row| {
        let method = match row.text("method") {
            "scram-sha-256" => "SASL",
            "md5" => "MD5",
            other => other,
        };
        // It says of those that it refuses neither the program nor how they tried to authenticate.
        let (method, program) =
            if row.is("let_in", "true") { (method, row.text("program")) } else { ("", "") };
        let mut values = row.texts(&["client_port", "user", "database", "let_in", "error", "text"]);
        values.extend([method.to_string(), program.to_string()]);
        values
    });
    let names = ["orig_p", "pgsql.user", "pgsql.database", "pgsql.success", "pgsql.error"];
    let found = sessions("postgresql").filter(|row| row.is("pgsql.request", "startup")).map(|row| {
        let mut values = row.texts(&names);
        let is_in = row.is("pgsql.success", "true");
        values.push(if is_in { "" } else { row.text("pgsql.text") }.to_string());
        for name in ["pgsql.authtype", "pgsql.application_name"] {
            values.push(if is_in { row.text(name) } else { "" }.to_string());
        }
        values
    });
    same(found.collect(), wanted.collect());
    let secret = log.len() - in_clear.len();
    let cancelled = logged("postgresql_statements").iter().filter(|row| row.is("error", "57014")).count();
    assert_services(5432, &[("postgresql", in_clear.len() + cancelled), ("postgresql,ssl", secret)]);
}

#[test]
fn postgresql_statements_are_those_that_the_server_logged() {
    let names = ["client_port", "query", "kind", "error", "text"];
    let secret = CAPTURE.of("postgresql_connections", "tls", "true");
    let is_secret = |row: &Row| secret.iter().any(|other| other.is("client_port", row.text("client_port")));
    let log = logged("postgresql_statements").into_iter().filter(|row| !is_secret(row));
    let wanted = log.map(|row| row.texts(&names));
    let asked = |row: &&Row| row.text("pgsql.request").ends_with("_query");
    let found = sessions("postgresql").filter(asked).map(|row| {
        let mut values = row.texts(&["orig_p", "pgsql.query"]);
        values.push(row.text("pgsql.request").trim_end_matches("_query").to_string());
        values.push(row.text("pgsql.error").to_string());
        let text = if row.is("pgsql.error", "") { "" } else { row.text("pgsql.text") };
        values.push(text.to_string());
        values
    });
    same(found.collect(), wanted.collect());
}

#[test]
fn results_of_postgresql_are_those_that_psql_shows() {
    let wanted = logged("postgresql_results").into_iter().map(|row| {
        let rows = if row.is("rows", "") { "0" } else { row.text("rows") };
        // psql shows no tag below a table.
        let tag = if row.is("tag", "") { format!("SELECT {rows}") } else { row.text("tag").to_string() };
        vec![row.text("query").to_string(), rows.to_string(), tag]
    });
    let by_program = |row: &&Row| {
        row.is("pgsql.request", "simple_query")
            && row.is("pgsql.error", "")
            && row.text("pgsql.query").ends_with(';')
    };
    let names = ["pgsql.query", "pgsql.rows", "pgsql.tag"];
    same(sessions("postgresql").filter(by_program).map(|row| row.texts(&names)).collect(), wanted.collect());
}

#[test]
fn frames_are_as_many_as_tcpdump_recorded() {
    CAPTURE.assert_frames();
}
