//! PostgreSQL: psql and pgbench query a server that logs connections and statements.

use super::Service;
use crate::capture::logs::{Row, cut, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "postgresql",
        shows: "psql and pgbench: startup with SCRAM, MD5, a password, none; a wrong password, a database that is not \
                there; TLS refused, then granted; queries simple, several at once, wrong, prepared, pipelined, cancelled; \
                COPY both ways, NOTIFY",
        script: SCRIPT,
    },
    tools: &[("postgres", "postgresql-15"), ("psql", "postgresql-client-15"), ("pgbench", "postgresql-contrib")],
    files: &[
        ("postgres.conf", CONFIGURATION),
        ("postgres.hba", WHO_MAY),
        ("postgres.sql", USERS),
        ("bench.sql", "SELECT name, depth FROM weirs WHERE depth > 1;\nINSERT INTO weirs VALUES ('bench', 7);\n"),
        ("pipeline.sql", "\\startpipeline\nSELECT 1;\nSELECT 2, 3;\nSELECT name FROM weirs ORDER BY name LIMIT 2;\n\\endpipeline\n"),
    ],
    stage: "
        export PATH=$PATH:/usr/lib/postgresql/15/bin
        mkdir pg; cp www.example.com.ec.pem pg/server.pem; cp www.example.com.ec.key pg/server.key
        chmod 600 pg/server.key; chown -R postgres pg
        runuser -u postgres -- initdb -D pg/data -U carol --auth=trust --locale=C.UTF-8 -E UTF8 >/dev/null
        cat postgres.conf >> pg/data/postgresql.conf; cp postgres.hba pg/data/pg_hba.conf
        runuser -u postgres -- postgres --single -D pg/data postgres < postgres.sql > /dev/null 2>pg/single.out",
    servers: &[(
        "server",
        "runuser -u postgres -- /usr/lib/postgresql/15/bin/postgres -D /run/lab/pg/data > postgres.log 2>&1",
    )],
    listens: &["198.51.100.10:5432"],
    ask: "sleep 1",
    logs: &[
        ("postgresql_connections", "connections to PostgreSQL", connections),
        ("postgresql_statements", "statements (PostgreSQL)", statements),
        ("postgresql_results", "results of queries (psql)", results),
    ],
};

const CONFIGURATION: &str = "
listen_addresses = '198.51.100.10'
unix_socket_directories = ''
ssl_cert_file = '/run/lab/pg/server.pem'
ssl_key_file = '/run/lab/pg/server.key'
log_line_prefix = '%r|%u|%d|%a|%e|'
log_statement = all
log_connections = on
log_disconnections = on
lc_messages = C
fsync = off
";

const WHO_MAY: &str = "
host all alice samenet scram-sha-256
host all alice 192.0.2.0/24 scram-sha-256
host all bob 192.0.2.0/24 md5
host all dave 192.0.2.0/24 password
host all carol 192.0.2.0/24 trust
";

const USERS: &str = "
CREATE USER alice PASSWORD 'weir';
SET password_encryption = md5;
CREATE USER bob PASSWORD 'weir';
CREATE USER dave PASSWORD 'weir';
CREATE DATABASE lab OWNER alice;
";

const SCRIPT: &str = "
export PATH=$PATH:/usr/lib/postgresql/15/bin PGHOST=198.51.100.10 PGDATABASE=lab PGPASSWORD=weir PSQLRC=/dev/null PAGER=cat
ask() { psql -e -f - \"$@\" >> psql.out 2>> psql-error.out; }
ask 'user=alice' <<'END'
CREATE TABLE weirs (name text, depth int);
INSERT INTO weirs VALUES ('north', 1), ('south', 2), ('mill', 3);
SELECT name, depth FROM weirs ORDER BY depth;
SELECT name FROM weirs WHERE depth > 9;
BEGIN;
UPDATE weirs SET depth = depth + 1 WHERE name <> 'mill';
SELECT nonsense FROM weirs;
ROLLBACK;
SELEKT 1;
END
psql 'user=alice sslmode=disable application_name=several' -c 'SELECT 1; SELECT 2; SELECT 3' >/dev/null
ask 'user=bob sslmode=disable application_name=level' <<'END'
SELECT count(*) FROM generate_series(1, 500);
SELECT n, repeat('drop ', 30) FROM generate_series(1, 60) n;
LISTEN water;
NOTIFY water, 'it rises';
END
psql 'user=dave sslmode=disable' -c 'SELECT current_user' >/dev/null
fails 2 psql 'user=alice password=dry sslmode=disable' -c 'SELECT 1' 2>/dev/null
fails 2 psql 'user=bob dbname=ocean sslmode=disable' -c 'SELECT 1' 2>/dev/null
fails 2 psql 'user=mallory sslmode=disable' -c 'SELECT 1' 2>/dev/null
psql 'user=alice sslmode=disable' -c '\\copy weirs TO weirs.txt'
psql 'user=alice sslmode=disable' -c '\\copy weirs FROM weirs.txt' >/dev/null
PGSSLMODE=disable pgbench -n -M extended -U alice -t 2 -f bench.sql > pgbench.out 2>&1
PGSSLMODE=disable pgbench -n -M prepared -U alice -t 3 -f bench.sql >> pgbench.out 2>&1
PGSSLMODE=disable pgbench -n -M extended -U alice -t 2 -f pipeline.sql >> pgbench.out 2>&1
fails 1 timeout --foreground -s INT 1 psql 'user=alice sslmode=disable' -c 'SELECT pg_sleep(9)' 2>/dev/null || true
psql 'user=carol sslmode=disable' -c 'ALTER SYSTEM SET ssl = on' -c 'SELECT pg_reload_conf()' >/dev/null; sleep 0.5
psql 'user=alice sslmode=require' -c 'SELECT name FROM weirs' >/dev/null
";

/// Lines of the server's log: the fields of its prefix (port, user, database, program, code) and the message.
fn lines() -> Result<Vec<([String; 5], String)>> {
    let mut lines = vec![];
    for line in read("postgres.log")?.lines() {
        let parts: Vec<&str> = line.splitn(6, '|').collect();
        let [remote, user, database, program, code, said] = parts[..] else { continue };
        let port = cut(remote, "(", ")");
        if !port.is_empty() {
            let prefix = [&port, user, database, program, code].map(|part| part.replace("[unknown]", ""));
            lines.push((prefix, said.to_string()));
        }
    }
    Ok(lines)
}

/// `connection authenticated: identity="alice" method=scram-sha-256 (…)`, or
/// `connection authorized: user=alice database=lab application_name=psql SSL enabled (protocol=…)`, or
/// `FATAL:  password authentication failed …`.
fn connections() -> Result<Vec<Row>> {
    let lines = lines()?;
    let mut rows = vec![];
    for ([port, user, database, _, code], said) in &lines {
        let of_it = |what: &str| {
            let mut said = lines.iter().filter(|(prefix, _)| prefix[0] == *port).map(|(_, said)| said);
            said.find(|said| said.contains(what)).cloned().unwrap_or_default()
        };
        let let_in = said.contains("connection authorized: ");
        let refused = of_it("FATAL:  ");
        // A missing database is detected last.
        if !(let_in && refused.is_empty() || said.starts_with("FATAL:  ")) {
            continue;
        }
        rows.push(vec![
            ("client_port", port.clone()),
            ("user", user.clone()),
            ("database", database.clone()),
            ("program", cut(&of_it("connection authorized: "), "application_name=", " ")),
            ("method", cut(&of_it("connection authenticated: "), "method=", " ")),
            ("tls", said.contains(" SSL enabled ").to_string()),
            ("let_in", let_in.to_string()),
            ("error", if let_in { String::new() } else { code.clone() }),
            ("text", cut(said, "FATAL:  ", "\n")),
        ]);
    }
    Ok(rows)
}

/// `LOG:  statement: SELECT 1` or `LOG:  execute <unnamed>: SELECT 1`; `ERROR:  …` follows, or stands alone
/// before `STATEMENT:  SELEKT 1` after a syntax error.
fn statements() -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = vec![];
    let mut failed: Option<(String, String, String)> = None;
    for ([port, .., code], said) in &lines()? {
        let row = |kind: &str, query: &str| {
            vec![
                ("client_port", port.clone()),
                ("kind", kind.to_string()),
                ("query", query.to_string()),
                ("error", String::new()),
                ("text", String::new()),
            ]
        };
        if let Some(query) = said.strip_prefix("LOG:  statement: ") {
            rows.push(row("simple", query));
        } else if let Some((_, query)) =
            said.strip_prefix("LOG:  execute ").and_then(|rest| rest.split_once(": "))
        {
            rows.push(row("extended", query));
        } else if let Some(text) = said.strip_prefix("ERROR:  ") {
            // The client receives the position in a separate field.
            let text = text.split(" at character ").next().unwrap_or(text);
            failed = Some((port.clone(), code.clone(), text.to_string()));
        } else if let Some(query) = said.strip_prefix("STATEMENT:  ")
            && let Some((of, code, text)) = failed.take().filter(|failed| failed.0 == *port)
        {
            let last = rows.last().is_some_and(|row| row[0].1 == of && row[2].1 == query);
            if !last {
                rows.push(row("simple", query));
            }
            if let Some(row) = rows.last_mut() {
                (row[3].1, row[4].1) = (code, text);
            }
        }
    }
    Ok(rows)
}

/// The output of `psql -e`: each query, then the number of rows, or the command tag.
fn results() -> Result<Vec<Row>> {
    let (mut rows, mut query): (Vec<Row>, Option<String>) = (vec![], None);
    for line in read("psql.out")?.lines() {
        if line.ends_with(';') {
            query = Some(line.to_string());
            continue;
        }
        let count = line.strip_prefix('(').and_then(|rest| rest.strip_suffix(" rows)"));
        let count = count.or((line == "(1 row)").then_some("1"));
        let is_tag = line.chars().next().is_some_and(char::is_uppercase)
            && line.chars().all(|char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == ' ');
        if (count.is_some() || is_tag)
            && let Some(query) = query.take()
        {
            let tag = if is_tag { line } else { "" };
            rows.push(vec![
                ("query", query),
                ("rows", count.unwrap_or("").to_string()),
                ("tag", tag.to_string()),
            ]);
        }
    }
    Ok(rows)
}
