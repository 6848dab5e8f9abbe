//! Connections that carry others: the rows of tunnels agree with the connections around connections, for
//! every kind of tunnel that a capture has.

use crate::properties::drive::{MemoryPacket, ask, compile, in_memory, read_capture};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use weir::packet::Cell;
use weir::sessions::ProtocolSet;
use weir::{
    Ask, Compiler, Executor, Item, Need, Notes, Options, Shape, Want, connection_columns, tunnel_columns,
};

/// Rows as texts by column.
type Rows = Vec<BTreeMap<String, String>>;

/// The rows of tunnels, and those of connections.
fn rows(packets: &[MemoryPacket], workers: usize, engine: Executor) -> [Rows; 2] {
    let compiler = Compiler::default();
    let tracked = ask("", Want::Tracked(ProtocolSet::EMPTY));
    let tunnels = Ask { need: Need { tunnels: true, ..Need::default() }, ..tracked };
    let flows = Ask { need: Need { service: true, ..Need::default() }, ..ask("", Want::Connections) };
    let as_rows = Shape { as_rows: true, ..Shape::default() };
    let shapes = [Shape { notes: Some(Notes::Tunnels), ..as_rows }, as_rows];
    let columns = [tunnel_columns(), connection_columns(compiler.stack())];
    let compiled = compile(&compiler, &[tunnels, flows], &Options { engine, ..Options::default() });
    let mut found = [vec![], vec![]];
    let mut each = |question: usize, item: Item<'_>| {
        if let Item::Rows(made) = item {
            found[question].extend(made.iter().map(|row| {
                let cells = columns[question].iter().enumerate().map(|(at, column)| (column, row.cell(at)));
                let present = cells.filter(|(_, cell)| cell.is_present());
                present.map(|(column, cell)| (column.name.to_string(), shown(cell))).collect()
            }));
        }
        Ok::<(), Infallible>(())
    };
    let mut source = in_memory(packets);
    let Ok(outcome) = weir::run(&compiler, &compiled, &mut source, &shapes, workers, &mut each, &mut |_| {});
    assert_eq!(outcome.counters.adds_up(0), Ok(()));
    found
}

fn shown(cell: Cell<'_>) -> String {
    match cell {
        Cell::Text(text) => text.to_string(),
        Cell::Texts(texts) => texts.iter().collect::<Vec<_>>().join(" "),
        Cell::Unsigned(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// All captures of the project's protocols.
fn captures() -> Vec<(String, Vec<MemoryPacket>)> {
    let folder = format!("{}/../../protocols", env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "pcap")).collect();
    paths.sort();
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, read_capture(&path.to_string_lossy()))
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn rows_of_tunnels_agree_with_the_connections_around_connections() {
    let mut kinds = BTreeSet::new();
    for (name, packets) in captures() {
        let [tunnels, flows] = rows(&packets, 1, Executor::Native);
        assert_eq!([&tunnels, &flows], rows(&packets, 1, Executor::Interpreter).each_ref(), "{name}");
        let innermost =
            |row: &BTreeMap<String, String>| Some(row.get("tunnel_parents")?.rsplit(' ').next()?.to_string());
        let mut carried = BTreeMap::new();
        flows.iter().filter_map(innermost).for_each(|uid| *carried.entry(uid).or_insert(0) += 1);
        let mut closed = BTreeMap::new();
        for row in &tunnels {
            let uid = &row["uid"];
            if let Some(count) = row.get("connections") {
                assert_eq!(row["action"], "Tunnel::CLOSE", "{name} {row:?}");
                *closed.entry(uid.clone()).or_insert(0) += count.parse::<u32>().expect("a number");
            } else {
                assert_eq!(row["action"], "Tunnel::DISCOVER", "{name} {row:?}");
            }
            let own = flows.iter().find(|flow| flow["uid"] == *uid).expect("the connection of the tunnel");
            let kind = row["tunnel_type"].strip_prefix("Tunnel::").expect("Zeek's names").to_lowercase();
            assert!(own["service"].split(',').any(|service| service == kind), "{name} {own:?}");
            kinds.insert(kind);
        }
        closed.retain(|_, count| *count > 0);
        assert_eq!(closed, carried, "{name}");
    }
    let usual =
        ["ayiya", "capwap", "geneve", "gre", "gtpv1", "l2tp", "lisp", "mpls", "teredo", "tzsp", "vxlan"];
    usual.into_iter().for_each(|kind| assert!(kinds.contains(kind), "no capture has {kind}"));
}

/// Workers divide the connections inside a tunnel, so each may have a part of the tunnel's own connection.
#[test]
fn each_worker_knows_its_tunnels() {
    for (name, packets) in captures() {
        let kinds = |workers| {
            let [tunnels, _] = rows(&packets, workers, Executor::Native);
            let ends = ["id.orig_h", "id.resp_h", "tunnel_type", "action"];
            tunnels.iter().map(|row| ends.map(|column| row[column].clone())).collect::<BTreeSet<_>>()
        };
        assert_eq!(kinds(1), kinds(3), "{name}");
    }
}

/// A sender may change the port of the outer connection, to spread the load over links.
#[test]
fn a_connection_that_goes_on_in_another_one_is_noted() {
    let (_, mut packets) = captures().into_iter().find(|(name, _)| name == "geneve").expect("it is there");
    let mut moved = packets.clone();
    let [begin, end] =
        [&packets, &moved].map(|packets| packets[0].time.0..=packets[packets.len() - 1].time.0);
    let length = end.end() - begin.start() + 1_000_000;
    for packet in &mut moved {
        packet.time.0 += length;
        // Behind the headers of Ethernet and IPv4.
        packet.frame[34..36].copy_from_slice(&41_234_u16.to_be_bytes());
    }
    packets.extend(moved);
    let [tunnels, _] = rows(&packets, 1, Executor::Native);
    let ports: Vec<_> =
        tunnels.iter().map(|row| (row["id.orig_p"].as_str(), row.get("connections"))).collect();
    let count = |count: &str| Some(count.to_string());
    let other = ports.iter().filter(|(port, _)| *port == "41234").collect::<Vec<_>>();
    assert_eq!(other, [&("41234", None), &("41234", count("0").as_ref())], "{ports:?}");
}
