//! The tables of `weir top`: their columns, and the values of their rows.

use super::sheet::{Cell, Column, Selection, Sheet, Sort};
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

    /// The part of the table that fits into so many lines.
    pub fn sheet(
        self,
        traffic: &Traffic,
        glance: &Glance,
        sort: Sort,
        (selection, height): (&Selection, usize),
    ) -> Sheet {
        let (view, page) = ((self.columns().len(), sort), (selection, height));
        match self {
            Self::Connections => {
                let of = |known: &&Known, column| connection(known, traffic.now, column);
                Sheet::of(
                    traffic.connections.values().collect(),
                    view,
                    of,
                    |known| known.record.uid.as_str().into(),
                    page,
                )
            }
            Self::Hosts => {
                let all = traffic.hosts.top(usize::MAX, |sum: &Sum| sum.bytes);
                let mut all: Vec<_> = all.into_iter().map(|(host, sum)| (host.to_string(), sum)).collect();
                all.extend(beyond(traffic.hosts.beyond));
                Sheet::of(all, view, sum, |(host, _)| host.as_str().into(), page)
            }
            Self::Names => {
                let mut all = traffic.names.top(usize::MAX, |sum: &Sum| sum.count);
                let (beyond, more) =
                    (beyond(traffic.names.beyond), |(name, sum)| ((String::new(), name), sum));
                all.extend(beyond.map(more));
                let of = |((protocol, name), sum): &((String, String), Sum), column| match column {
                    0 => Cell::Number(sum.count),
                    1 => Cell::Text(protocol.clone()),
                    _ => Cell::Text(name.clone()),
                };
                Sheet::of(all, view, of, |((protocol, name), _)| format!("{protocol} {name}").into(), page)
            }
            Self::Protocols => {
                let mut all = traffic.protocols.top(usize::MAX, |sum: &Sum| sum.bytes);
                all.retain(|(_, sum)| *sum != Sum::default());
                all.extend(beyond(traffic.protocols.beyond));
                Sheet::of(all, view, sum, |(protocol, _)| protocol.as_str().into(), page)
            }
            Self::Drops => {
                let of = |&(reason, packets, meaning): &(&str, u64, &str), column| match column {
                    0 => Cell::Number(packets),
                    1 => Cell::Text(reason.to_string()),
                    _ => Cell::Text(meaning.to_string()),
                };
                Sheet::of(drops(glance), view, of, |(reason, ..)| (*reason).into(), page)
            }
        }
    }
}

/// The row of what is beyond the bound of a table, if there is anything.
fn beyond(sum: Sum) -> Option<(String, Sum)> {
    (sum != Sum::default()).then(|| ("(beyond the bound)".to_string(), sum))
}

fn sum((name, sum): &(String, Sum), column: usize) -> Cell {
    match column {
        0 => Cell::Bytes(sum.bytes),
        1 => Cell::Number(sum.packets),
        2 => Cell::Number(sum.count),
        _ => Cell::Text(name.clone()),
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
