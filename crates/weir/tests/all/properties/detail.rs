//! The detail of packets: the layers of each packet are those that native programs find, every field is there
//! once, filters see the same values, and tshark finds the same bytes.

use crate::properties::drive::{MemoryPacket, ask, compile, in_memory, read_capture, rows};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir::lang::model::{HeaderItem, LayerId, Protocol};
use weir::packet::{DropReason, PacketMeta, Value};
use weir::{
    Ask, Compiler, Dissector, Executor, Item, LayerDetail, Options, PacketDetail, PartDetail, Shape, Want,
};

/// Packets of a capture whose fields become filters.
const SAMPLED: usize = 3;
/// Filters per program.
const FILTERS: usize = 48;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The captures in this folder, with their stacks.
fn captures(folder: &str) -> Vec<(PathBuf, String)> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "pcap"));
    paths.sort();
    let stack = |path: &PathBuf| {
        let text = std::fs::read_to_string(path.with_extension("expect")).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("stack ")).unwrap_or("internet").to_string()
    };
    paths.into_iter().map(|path| (path.clone(), stack(&path))).collect()
}

/// The packets of a capture, each with its detail and with the layers that a program finds.
fn each_packet(
    compiler: &Compiler,
    path: &Path,
    mut each: impl FnMut(&Dissector, &MemoryPacket, PacketDetail, Vec<LayerId>),
) {
    let dissector = compiler.dissector().unwrap();
    let packets = read_capture(path.to_str().unwrap());
    let ask = Ask { need: weir::path_need(), ..ask("", Want::Packets) };
    let compiled = compile(compiler, &[ask], &Options::default());
    let shape = Shape { frames: true, ..Shape::default() };
    let mut take = |_: usize, item: Item| {
        if let Item::Packet { meta, frame, path, .. } = item {
            let detail = dissector.packet(&meta, &frame);
            each(&dissector, &packets[meta.number as usize - 1], detail, path.layers().collect());
        }
        Ok::<(), Infallible>(())
    };
    let mut source = in_memory(&packets);
    let Ok(_) = weir::run(compiler, &compiled, &mut source, &[shape], 1, &mut take, &mut |_| {});
}

fn complete(detail: &PacketDetail) -> Vec<&LayerDetail> {
    detail.layers.iter().filter(|layer| layer.payload.is_some()).collect()
}

fn protocol(dissector: &Dissector, layer: LayerId) -> &Protocol {
    &dissector.stack().layers[usize::from(layer.0)].protocol
}

/// Asserts that every field that no packet lacks is there once, inside the header.
fn assert_fields(name: &str, protocol: &Protocol, layer: &LayerDetail) {
    for item in &protocol.header {
        let (HeaderItem::Field(field) | HeaderItem::Whole(field)) = item else { continue };
        let all = layer.parts.iter().filter_map(|part| match part {
            PartDetail::Field(one) if one.field == *field => Some(one),
            _ => None,
        });
        let all: Vec<_> = all.collect();
        let path = &protocol.fields[usize::from(field.0)].path;
        assert_eq!(all.len(), 1, "{name}: {}.{path}", protocol.name);
        let bytes = &all[0].bytes;
        let header = &layer.header;
        assert!(
            header.start <= bytes.start && (bytes.end <= header.end || bytes.is_empty()),
            "{name}: {}.{path} at {bytes:?} of {header:?}",
            protocol.name
        );
    }
}

/// Filters that the packet's fields satisfy.
fn filters(dissector: &Dissector, packet: &MemoryPacket, detail: &PacketDetail) -> BTreeSet<String> {
    let mut filters = BTreeSet::new();
    for layer in complete(detail) {
        let protocol = protocol(dissector, layer.layer);
        for number in 0..protocol.fields.len() {
            let Some(field) = layer.field(weir::lang::model::FieldId(number as u16)) else { continue };
            let value = match dissector.value(layer.layer, field, &packet.frame) {
                Value::Unsigned(number) => number.to_string(),
                Value::Address(address) => address.to_string(),
                Value::Mac(mac) => mac.map(|byte| format!("{byte:02x}")).join(":"),
                _ => continue,
            };
            filters.insert(format!("{}.{} == {value}", protocol.filter_name, protocol.fields[number].path));
        }
        for &(derived, number) in &layer.derived {
            let name = &protocol.lets[usize::from(derived.0)].name;
            filters.insert(format!("{}.{name} == {number}", protocol.filter_name));
        }
    }
    filters
}

/// Asserts that the packet alone matches each of the filters.
fn assert_match(compiler: &Compiler, name: &str, packet: &MemoryPacket, filters: &BTreeSet<String>) {
    let filters: Vec<&String> = filters.iter().collect();
    for filters in filters.chunks(FILTERS) {
        let asks: Vec<Ask> = filters.iter().map(|filter| ask(filter, Want::Packets)).collect();
        let options = Options { engine: Executor::Interpreter, ..Options::default() };
        let compiled = compile(compiler, &asks, &options);
        let matched = rows(compiler, &compiled, std::slice::from_ref(packet), 1).1.matched;
        let wrong: Vec<_> = filters.iter().zip(&matched).filter(|(_, matched)| **matched != 1).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
    }
}

fn check(path: &Path, stack: &str, sampled: usize) -> usize {
    let mut compiler = Compiler::default();
    compiler.use_stack(stack).unwrap();
    let in_messages = weir_compile::lower::in_messages(compiler.stack());
    let (name, mut samples, mut fields) = (path.display().to_string(), vec![], 0);
    let mut before = vec![];
    each_packet(&compiler, path, |dissector, packet, detail, layers| {
        let found: Vec<LayerId> = complete(&detail).iter().map(|layer| layer.layer).collect();
        // A path has the 32 innermost layers.
        let known = &found[found.len().saturating_sub(32)..];
        let further =
            layers.strip_prefix(known).unwrap_or_else(|| panic!("{name}: {layers:?}, not {known:?}"));
        let waits = detail.reason == Some(DropReason::FragmentWaiting);
        assert!(
            further.first().is_none_or(|layer| waits || in_messages.contains(layer)),
            "{name}: {further:?}"
        );
        for layer in complete(&detail) {
            assert_fields(&name, protocol(dissector, layer.layer), layer);
            fields += layer.parts.len();
        }
        // Packets of layers that were not sampled before.
        if samples.len() < sampled && detail.reason.is_none() && !before.contains(&layers) {
            before.push(layers);
            samples.push((packet.clone(), filters(dissector, packet, &detail)));
        }
    });
    for (packet, filters) in samples {
        assert_match(&compiler, &name, &packet, &filters);
    }
    fields
}

#[test]
fn every_field_of_every_layer_is_shown_as_filters_see_it() {
    let captures = [captures("examples"), captures("protocols")].concat();
    let fields: usize = captures.iter().map(|(path, stack)| check(path, stack, SAMPLED)).sum();
    assert!(fields > 100_000, "{fields} fields");
}

#[test]
fn recorded_traffic_of_others_has_the_layers_that_programs_find() {
    let root = root().join("../shared/traces");
    let Ok(index) = std::fs::read_to_string(root.join("INDEX.tsv")) else {
        return println!("skipped: no captures at {}", root.display());
    };
    for file in index.lines().skip(1).filter_map(|line| line.split('\t').next()).step_by(7) {
        let path = root.join(file);
        let is_small = std::fs::metadata(&path).is_ok_and(|about| about.len() < 1 << 20);
        // Damaged files have tests of their own.
        let mut source = weir::io::CaptureReader::open(&[&path]);
        let mut burst = weir::packet::Burst::default();
        let is_whole = loop {
            use weir::packet::{Poll, Source};
            match source.poll(&mut burst) {
                Ok(Poll::End) => break true,
                Ok(_) => {}
                Err(_) => break false,
            }
        };
        if is_small && is_whole {
            check(&path, "internet", 0);
        }
    }
}

/// Our names of fields, and those of tshark.
const SAME: &[(&str, &str)] = &[
    ("eth.dst", "eth.dst"),
    ("eth.type", "eth.type"),
    ("ip.total_length", "ip.len"),
    ("ip.id", "ip.id"),
    ("ip.ttl", "ip.ttl"),
    ("ip.protocol", "ip.proto"),
    ("ip.checksum", "ip.checksum"),
    ("ip.src", "ip.src"),
    ("ip.dst", "ip.dst"),
    ("ipv6.payload_length", "ipv6.plen"),
    ("ipv6.hop_limit", "ipv6.hlim"),
    ("ipv6.src", "ipv6.src"),
    ("ipv6.dst", "ipv6.dst"),
    ("tcp.src_port", "tcp.srcport"),
    ("tcp.dst_port", "tcp.dstport"),
    ("tcp.flags", "tcp.flags"),
    ("tcp.flags.syn", "tcp.flags.syn"),
    ("tcp.window", "tcp.window_size_value"),
    ("tcp.checksum", "tcp.checksum"),
    ("tcp.urgent_pointer", "tcp.urgent_pointer"),
    ("tcp.options.mss.value", "tcp.options.mss_val"),
    ("tcp.options.timestamp.tsval", "tcp.options.timestamp.tsval"),
    ("udp.src_port", "udp.srcport"),
    ("udp.dst_port", "udp.dstport"),
    ("udp.length", "udp.length"),
    ("udp.checksum", "udp.checksum"),
    ("vxlan.vni", "vxlan.vni"),
];

/// The places of some fields of a packet: tshark's name, offset, bytes.
type Places = BTreeSet<(&'static str, usize, usize)>;

fn our_places(dissector: &Dissector, detail: &PacketDetail) -> Places {
    fn collect(protocol: &Protocol, parts: &[PartDetail], places: &mut Places) {
        for part in parts {
            match part {
                PartDetail::Item(item) => collect(protocol, &item.parts, places),
                PartDetail::Field(field) => {
                    let path = &protocol.fields[usize::from(field.field.0)].path;
                    let name = format!("{}.{path}", protocol.filter_name);
                    if let Some((_, theirs)) = SAME.iter().find(|(ours, _)| *ours == name) {
                        places.insert((theirs, field.bytes.start, field.bytes.len()));
                    }
                }
            }
        }
    }
    let mut places = Places::new();
    for layer in &detail.layers {
        collect(protocol(dissector, layer.layer), &layer.parts, &mut places);
    }
    places
}

/// The value of an attribute.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

fn tshark_places(path: &Path) -> Option<Vec<Places>> {
    let output = Command::new("tshark").args(["-n", "-T", "pdml", "-r"]).arg(path).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let packets = text.split("<packet>").skip(1).map(|packet| {
        let place = |line: &str| {
            let name = attribute(line, "name")?;
            let (_, theirs) = SAME.iter().find(|(_, theirs)| *theirs == name)?;
            let number = |name| attribute(line, name)?.parse::<usize>().ok();
            Some((*theirs, number("pos")?, number("size")?))
        };
        packet.lines().filter_map(place).collect()
    });
    Some(packets.collect())
}

#[test]
fn tshark_finds_the_same_fields_at_the_same_places() {
    for name in ["first-light", "tunnels"] {
        let path = root().join(format!("examples/{name}.pcap"));
        let Some(theirs) = tshark_places(&path) else { return println!("skipped: tshark is not installed") };
        let (mut number, mut compared) = (0, 0);
        each_packet(&Compiler::default(), &path, |dissector, _, detail, _| {
            let ours = our_places(dissector, &detail);
            let missing: Vec<_> = ours.difference(&theirs[number]).collect();
            number += 1;
            assert!(missing.is_empty(), "{name}, packet {number}: {missing:?}");
            compared += ours.len();
        });
        assert_eq!(number, theirs.len());
        assert!(compared > 10 * number, "{name}: {compared} fields of {number} packets");
    }
}

#[test]
fn truncated_headers_show_the_fields_that_are_there() {
    // A SYN over IPv6, with options.
    let frame = &read_capture(crate::properties::drive::FIRST_LIGHT)[70].frame;
    let dissector = Compiler::default().dissector().unwrap();
    let whole = PacketMeta {
        wire_bytes: frame.len() as u32,
        link: weir::packet::LinkType::ETHERNET,
        ..PacketMeta::default()
    };
    let mut before = 0;
    for captured in 0..=frame.len() {
        let meta = PacketMeta { captured_bytes: captured as u32, ..whole };
        let detail = dissector.packet(&meta, &frame[..captured]);
        let fields = detail.layers.iter().map(|layer| layer.parts.len()).sum();
        assert!(fields >= before, "{captured} bytes: {fields} fields, {before} of a shorter packet");
        let is_cut = detail.layers.last().is_some_and(|layer| layer.payload.is_none());
        assert_eq!(is_cut, detail.reason == Some(DropReason::Truncated), "{captured} bytes");
        before = fields;
    }
    assert!(before > 30, "{before} fields");
}
