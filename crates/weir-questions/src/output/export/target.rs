//! Names of receivers on the command line: [`Target`].

use crate::messages::failure::Failure;
use crate::names::{address, authority};
use std::path::Path;
use weir::io::tcp::Endpoint;
use weir_export::clickhouse::Table;

/// What a receiver understands, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Ipfix(Address),
    Syslog(Address),
    /// Brokers as `HOST:PORT`, separated by commas.
    Kafka {
        brokers: String,
        topic: String,
    },
    ClickHouse(Table),
}

/// Where messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub is_tcp: bool,
    pub host: String,
    pub port: u16,
}

/// The names of receivers, and their forms.
pub const SCHEMES: &[(&str, &str)] = &[
    ("ipfix://", "ipfix://HOST:PORT"),
    ("ipfix+tcp://", "ipfix+tcp://HOST:PORT"),
    ("syslog://", "syslog://HOST:PORT"),
    ("syslog+tcp://", "syslog+tcp://HOST:PORT"),
    ("kafka://", "kafka://HOST[:9092][,HOST…]/TOPIC"),
    ("clickhouse://", "clickhouse://HOST[:8123]/[DATABASE.]TABLE"),
];

/// The longest name of a topic (Kafka, `org.apache.kafka.common.internals.Topic`).
const TOPIC_BYTES_MAX: usize = 249;

/// The scheme of a name, with `://`.
fn scheme(name: &str) -> Option<&str> {
    let end = name.find("://")?;
    let is_scheme = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name[..end].chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c));
    is_scheme.then(|| &name[..end + "://".len()])
}

impl Target {
    /// Whether the name has the form of a receiver's, which may have mistakes.
    pub fn is_named(name: &Path) -> bool {
        !Endpoint::is_named(name) && name.to_str().is_some_and(|name| scheme(name).is_some())
    }

    /// The receiver of this name; `None` if it is the name of a file or of a capture's connection.
    ///
    /// # Errors
    /// What is wrong with the name, and the right form.
    pub fn of(name: &Path) -> Option<Result<Self, Failure>> {
        let text = name.to_str().filter(|_| Self::is_named(name))?;
        let named = scheme(text)?;
        let Some(&(_, form)) = SCHEMES.iter().find(|(known, _)| *known == named) else {
            let known: Vec<&str> = SCHEMES.iter().map(|(_, form)| *form).collect();
            return Some(Err(Failure::new(format!(
                "{text}: unknown receiver `{named}`; there are {}. A file of this name is ./{text}",
                known.join(", ")
            ))));
        };
        let rest = &text[named.len()..];
        let target = match named {
            "kafka://" => topic(rest),
            "clickhouse://" => table(rest).map(Self::ClickHouse),
            _ => address(rest, None).map(|(host, port)| {
                let address = Address { is_tcp: named.ends_with("+tcp://"), host, port };
                if named.starts_with("ipfix") { Self::Ipfix(address) } else { Self::Syslog(address) }
            }),
        };
        Some(target.ok_or_else(|| {
            let port = if named.starts_with("ipfix") { 4739 } else { 514 };
            Failure::new(match named {
                "kafka://" => format!(
                    "{text}: write {form}, with an IPv6 address in brackets; a topic has letters, digits, `.`, `_` and `-`"
                ),
                "clickhouse://" => format!(
                    "{text}: write {form}, with an IPv6 address in brackets; names have letters, digits and `_`"
                ),
                _ => format!("{text}: write {form}, with an IPv6 address in brackets: {named}[::1]:{port}"),
            })
        }))
    }

    /// Whether rows that the receiver does not have wait in a queue.
    pub fn has_queue(&self) -> bool {
        match self {
            Self::Ipfix(address) | Self::Syslog(address) => address.is_tcp,
            Self::Kafka { .. } | Self::ClickHouse(_) => true,
        }
    }

    /// Whether the receiver takes batches of columns, with the name of a sensor.
    pub fn has_batches(&self) -> bool {
        matches!(self, Self::Kafka { .. } | Self::ClickHouse(_))
    }
}

/// `HOST[:9092][,HOST…]/TOPIC`.
fn topic(text: &str) -> Option<Target> {
    let (brokers, topic) = text.split_once('/')?;
    let is_topic = (1..=TOPIC_BYTES_MAX).contains(&topic.len())
        && topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && ![".", ".."].contains(&topic);
    let brokers: Option<Vec<_>> = brokers.split(',').map(|broker| authority(broker, 9092)).collect();
    let brokers = brokers?.join(",");
    is_topic.then(|| Target::Kafka { brokers, topic: topic.to_string() })
}

/// `HOST[:8123]/[DATABASE.]TABLE`.
fn table(text: &str) -> Option<Table> {
    let (server, table) = text.split_once('/')?;
    let (database, name) = match table.split_once('.') {
        Some((database, name)) => (Some(database), name),
        None => (None, table),
    };
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let (host, port) = address(server, Some(8123))?;
    let are_names = is_name(name) && database.is_none_or(is_name);
    are_names.then(|| Table { host, port, database: database.map(str::to_string), name: name.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<Result<Target, String>> {
        Target::of(Path::new(name)).map(|target| target.map_err(|wrong| wrong.to_string()))
    }

    fn right(name: &str) -> Target {
        of(name).expect("it is a receiver").expect("it is right")
    }

    fn address(is_tcp: bool, host: &str, port: u16) -> Address {
        Address { is_tcp, host: host.to_string(), port }
    }

    #[test]
    fn names_of_receivers_are_read() {
        assert_eq!(right("ipfix://192.0.2.1:4739"), Target::Ipfix(address(false, "192.0.2.1", 4739)));
        assert_eq!(right("syslog+tcp://[::1]:514"), Target::Syslog(address(true, "::1", 514)));
        for file in ["ipfix", "ipfix:/x", "./ipfix://x", "x y://z", "tcp://host:9000", "tcp-listen:9000", "-"]
        {
            assert!(of(file).is_none(), "{file}");
        }
    }

    #[test]
    fn brokers_have_a_default_port() {
        for (name, brokers, topic) in [
            ("kafka://a/weir", "a:9092", "weir"),
            ("kafka://a:1,b,[::1],[::2]:3/weir.conn-1_x", "a:1,b:9092,[::1]:9092,[::2]:3", "weir.conn-1_x"),
        ] {
            let wanted = Target::Kafka { brokers: brokers.to_string(), topic: topic.to_string() };
            assert_eq!(right(name), wanted);
        }
    }

    #[test]
    fn a_table_may_have_a_database() {
        for (name, host, port, database, table) in [
            ("clickhouse://db/conn", "db", 8123, None, "conn"),
            ("clickhouse://[::1]:80/weir.conn_2", "::1", 80, Some("weir"), "conn_2"),
        ] {
            let database = database.map(str::to_string);
            let wanted = Table { host: host.to_string(), port, database, name: table.to_string() };
            assert_eq!(right(name), Target::ClickHouse(wanted));
        }
    }

    #[test]
    fn wrong_names_get_the_right_form() {
        for (name, wanted) in [
            ("ipfix://host", "write ipfix://HOST:PORT"),
            ("ipfix+tcp://::1:4739", "ipfix+tcp://[::1]:4739"),
            ("syslog://host:0", "write syslog://HOST:PORT"),
            ("nats://host:9092", "there are ipfix://HOST:PORT, ipfix+tcp://HOST:PORT, syslog://HOST:PORT"),
            ("kafka://host:9092", "write kafka://HOST[:9092][,HOST…]/TOPIC"),
            ("kafka://host:9092/", "write kafka://"),
            ("kafka://host,/topic", "write kafka://"),
            ("kafka:///topic", "write kafka://"),
            ("kafka://host/..", "write kafka://"),
            ("kafka://host/a/b", "letters, digits"),
            ("kafka://::1/topic", "in brackets"),
            ("clickhouse://host", "write clickhouse://HOST[:8123]/[DATABASE.]TABLE"),
            ("clickhouse://host/", "write clickhouse://"),
            ("clickhouse://host/a.b.c", "letters, digits"),
            ("clickhouse://host/a`b", "letters, digits"),
            ("clickhouse://host:0/a", "write clickhouse://"),
            ("clickhouse://user@host/a?x=1", "write clickhouse://"),
        ] {
            let said = of(name).expect("it is a receiver").expect_err(name);
            assert!(said.contains(wanted), "{name}: {said}");
        }
        let long = format!("kafka://host/{}", "a".repeat(250));
        assert!(of(&long).is_some_and(|target| target.is_err()));
    }
}
