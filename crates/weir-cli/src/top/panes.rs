//! The tables of `weir top`: their columns, and the values of their rows.

use super::sheet::{Cell, Column, Key, Page, Selection, Sheet, Sort};
use super::traffic::{Known, Sum, Traffic};
use std::net::{IpAddr, SocketAddr};
use weir::packet::DropReason;
use weir::{Connection, Glance, Hosts};

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pane {
    Connections,
    Hosts,
    Names,
    Protocols,
    Drops,
}

const fn number(name: &'static str, width: u16) -> Column {
    Column { name, width, is_right: true, grows: false }
}

const fn text(name: &'static str, width: u16) -> Column {
    Column { name, width, is_right: false, grows: false }
}

const fn long_text(name: &'static str, width: u16) -> Column {
    Column { grows: true, ..text(name, width) }
}

/// The columns of sums.
const SUMS: [Column; 3] = [number("bytes", 8), number("packets", 9), number("conns", 7)];

impl Pane {
    /// The tables, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Connections, Self::Hosts, Self::Names, Self::Protocols, Self::Drops];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Hosts => "hosts",
            Self::Names => "names",
            Self::Protocols => "protocols",
            Self::Drops => "drops",
        }
    }

    /// The columns.
    pub fn columns(self) -> &'static [Column] {
        // On a narrow terminal the last ones are left out.
        const CONNECTIONS: &[Column] = &[
            number("bytes", 8),
            number("bit/s", 7),
            long_text("client", 21),
            long_text("server", 21),
            text("service", 8),
            text("state", 6),
            text("proto", 6),
            number("packets", 8),
            number("secs", 7),
            text("uid", 18),
        ];
        const HOSTS: &[Column] = &[SUMS[0], SUMS[1], SUMS[2], long_text("host", 15)];
        const NAMES: &[Column] = &[number("sessions", 9), text("protocol", 9), long_text("name", 10)];
        const PROTOCOLS: &[Column] = &[SUMS[0], SUMS[1], SUMS[2], long_text("protocol", 12)];
        const DROPS: &[Column] = &[number("packets", 12), text("reason", 18), long_text("meaning", 20)];
        match self {
            Self::Connections => CONNECTIONS,
            Self::Hosts => HOSTS,
            Self::Names => NAMES,
            Self::Protocols => PROTOCOLS,
            Self::Drops => DROPS,
        }
    }

    /// The part of the table that fits into so many lines. The function that is returned formats copies of
    /// its rows, so the traffic is not needed for that.
    pub fn page<'t>(
        self,
        traffic: &'t Traffic,
        glance: &Glance,
        sort: Sort,
        page: (&Selection, usize),
    ) -> Box<dyn FnOnce() -> Sheet> {
        let columns = self.columns().len();
        match self {
            Self::Connections => {
                let now = traffic.now;
                let shown = Page::of(
                    traffic.connections.values(),
                    sort,
                    |known| connection_key(known, now, sort.column),
                    |known| Key::Text(&known.record.uid),
                    |known, wanted| known.record.uid == wanted,
                    page,
                );
                let shown = shown.map(Known::clone);
                let cell = move |known: &Known, column| connection(known, now, column);
                Box::new(move || shown.sheet(columns, cell, |known| known.record.uid.clone()))
            }
            Self::Hosts => {
                let host = |one: &(Option<IpAddr>, Sum)| Key::End(one.0, 0);
                let all = traffic.hosts.iter().map(|(host, sum)| (Some(*host), *sum));
                let all = all.chain(beyond(traffic.hosts.beyond).map(|sum| (None, sum)));
                let wanted = page.0.id.as_ref().and_then(|id| id.parse().ok());
                let key =
                    |one: &(Option<IpAddr>, Sum)| sum_key(&one.1, sort.column).unwrap_or_else(|| host(one));
                let shown = Page::of(all, sort, key, host, |one, _| one.0 == wanted, page);
                let name =
                    |host: Option<IpAddr>| host.map_or_else(|| BEYOND.to_string(), |host| host.to_string());
                let shown = shown.map(|(host, sum)| (name(host), sum));
                Box::new(move || shown.sheet(columns, sum, |(host, _)| host.clone()))
            }
            Self::Names => {
                let all = traffic.names.iter().map(|((protocol, name), sum)| (&**protocol, &**name, *sum));
                let all = all.chain(beyond(traffic.names.beyond).map(|sum| ("", BEYOND, sum)));
                let key = |one: &(&'t str, &'t str, Sum)| match sort.column {
                    0 => Key::Number(one.2.count as f64),
                    1 => Key::Text(one.0),
                    _ => Key::Text(one.1),
                };
                let rank = |one: &(&'t str, &'t str, Sum)| Key::Texts(one.0, one.1);
                let is_wanted =
                    |one: &(&str, &str, Sum), wanted: &str| wanted.split_once(' ') == Some((one.0, one.1));
                let shown = Page::of(all, sort, key, rank, is_wanted, page);
                let shown = shown.map(|(protocol, name, sum)| (protocol.to_string(), name.to_string(), sum));
                let cell = |(protocol, name, sum): &(String, String, Sum), column| match column {
                    0 => Cell::Number(sum.count),
                    1 => Cell::Text(protocol.clone()),
                    _ => Cell::Text(name.clone()),
                };
                Box::new(move || {
                    shown.sheet(columns, cell, |(protocol, name, _)| format!("{protocol} {name}"))
                })
            }
            Self::Protocols => {
                let all = traffic.protocols.iter().map(|(protocol, sum)| (&**protocol, *sum));
                let all = all.filter(|(_, sum)| *sum != Sum::default());
                let all = all.chain(beyond(traffic.protocols.beyond).map(|sum| (BEYOND, sum)));
                let key = |one: &(&'t str, Sum)| sum_key(&one.1, sort.column).unwrap_or(Key::Text(one.0));
                let rank = |one: &(&'t str, Sum)| Key::Text(one.0);
                let shown = Page::of(all, sort, key, rank, |one, wanted| one.0 == wanted, page);
                let shown = shown.map(|(protocol, sum)| (protocol.to_string(), sum));
                Box::new(move || shown.sheet(columns, sum, |(protocol, _)| protocol.clone()))
            }
            Self::Drops => {
                let key = |one: &(&'static str, u64, &'static str)| match sort.column {
                    0 => Key::Number(one.1 as f64),
                    1 => Key::Text(one.0),
                    _ => Key::Text(one.2),
                };
                let rank = |one: &(&'static str, u64, &'static str)| Key::Text(one.0);
                let all = drops(glance).into_iter();
                let shown = Page::of(all, sort, key, rank, |one, wanted| one.0 == wanted, page);
                let cell = |&(reason, packets, meaning): &(&str, u64, &str), column| match column {
                    0 => Cell::Number(packets),
                    1 => Cell::Text(reason.to_string()),
                    _ => Cell::Text(meaning.to_string()),
                };
                Box::new(move || shown.sheet(columns, cell, |(reason, ..)| reason.to_string()))
            }
        }
    }
}

/// The name of the row of what is beyond the bound of a table.
const BEYOND: &str = "(beyond the bound)";

/// What is beyond the bound of a table, if there is anything.
fn beyond(sum: Sum) -> Option<Sum> {
    (sum != Sum::default()).then_some(sum)
}

/// What a row is sorted by; `None` for the last column, its name.
fn sum_key<'a>(sum: &Sum, column: usize) -> Option<Key<'a>> {
    let number = match column {
        0 => sum.bytes,
        1 => sum.packets,
        2 => sum.count,
        _ => return None,
    };
    Some(Key::Number(number as f64))
}

fn sum((name, sum): &(String, Sum), column: usize) -> Cell {
    match column {
        0 => Cell::Bytes(sum.bytes),
        1 => Cell::Number(sum.packets),
        2 => Cell::Number(sum.count),
        _ => Cell::Text(name.clone()),
    }
}

/// What a connection is sorted by: ends by address and port, other columns by their values.
fn connection_key(known: &Known, now: i64, column: usize) -> Key<'_> {
    let record = &known.record;
    let address = |address| Some(address).filter(|_| record.hosts == Hosts::Addresses);
    match column {
        0 => Key::Number(known.bytes() as f64),
        1 => Key::Number(known.rate(now)),
        2 => Key::End(address(record.orig_h), record.orig_p),
        3 => Key::End(address(record.resp_h), record.resp_p),
        4 => Key::Text(record.service.as_deref().unwrap_or("-")),
        5 => Key::Text(record.conn_state),
        6 => Key::Text(&record.proto),
        7 => Key::Number(known.packets() as f64),
        8 => Key::Number(record.duration_ns.unwrap_or(0) as f64),
        _ => Key::Text(&record.uid),
    }
}

fn connection(known: &Known, now: i64, column: usize) -> Cell {
    let record = &known.record;
    match column {
        0 => Cell::Bytes(known.bytes()),
        1 => Cell::BitsPerSecond(known.rate(now)),
        2 => Cell::Text(end(record, record.orig_h, record.orig_p)),
        3 => Cell::Text(end(record, record.resp_h, record.resp_p)),
        4 => Cell::Text(record.service.as_deref().unwrap_or("-").to_string()),
        // An open connection of TCP is S1; of one that has ended, the state has a mark.
        5 if known.is_over => Cell::Text(format!("{}.", record.conn_state)),
        5 => Cell::Text(record.conn_state.to_string()),
        6 => Cell::Text(record.proto.to_string()),
        7 => Cell::Number(known.packets()),
        8 => Cell::Seconds(record.duration_ns.unwrap_or(0) as f64 / 1e9),
        _ => Cell::Text(record.uid.clone()),
    }
}

/// Address and port.
fn end(record: &Connection, address: IpAddr, port: u32) -> String {
    match (record.hosts, u16::try_from(port)) {
        (Hosts::Addresses, Ok(port)) if record.proto != "icmp" => SocketAddr::new(address, port).to_string(),
        (Hosts::Addresses, _) => address.to_string(),
        _ => format!("{port}"),
    }
}

/// Packets that no question received, by reason, and those that the source lost.
fn drops(glance: &Glance) -> Vec<(&'static str, u64, &'static str)> {
    let dropped = DropReason::ALL
        .iter()
        .map(|&reason| (reason.label(), glance.counters.drops.of(reason), reason.doc()));
    let source = &glance.source;
    let lost = source.losses();
    let filtered = [
        ("(filtered)", glance.counters.packet.filtered, "Processed to the end; the filter does not match."),
        ("(kernel)", source.filtered, "Discarded by the kernel: the filter cannot match."),
        ("(card)", source.card_dropped, "Dropped by the network card before the kernel saw them."),
        ("(counted)", source.counted, "Counted for their connections by the kernel, and discarded."),
    ];
    dropped.chain(lost).chain(filtered).collect()
}
