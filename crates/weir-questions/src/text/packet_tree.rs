//! A packet's layers and fields as text: a line for each layer, and under it a line for each field, with its
//! range of bytes, its name in filters, its value, and its description.

use std::fmt::Write as _;
use std::ops::Range;
use weir::lang::model::{FieldId, LayerId, Protocol};
use weir::packet::{Value, printable};
use weir::{Dissector, FieldDetail, LayerDetail, PacketDetail, PartDetail, shown_value};

/// Maximum number of bytes of a value that are shown.
const VALUE_BYTES_MAX: usize = 32;
/// The widest column of values that keeps the descriptions aligned.
const VALUE_WIDTH_MAX: usize = 40;

/// A line of a layer.
struct Line {
    range: String,
    name: String,
    value: String,
    doc: String,
}

/// The layers and fields of a packet with these bytes.
pub fn text(dissector: &Dissector, detail: &PacketDetail, frame: &[u8]) -> String {
    let mut text = String::new();
    for layer in &detail.layers {
        push_layer(&mut text, dissector, layer, frame);
    }
    push_rest(&mut text, detail, frame.len());
    text
}

fn protocol(dissector: &Dissector, layer: LayerId) -> &Protocol {
    &dissector.stack().layers[usize::from(layer.0)].protocol
}

fn push_layer(text: &mut String, dissector: &Dissector, layer: &LayerDetail, frame: &[u8]) {
    let protocol = protocol(dissector, layer.layer);
    let Range { start, end } = layer.header;
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}  {}  bytes {start}..{end}", protocol.filter_name, protocol.doc);
    let mut lines = vec![];
    let tree = Tree { dissector, protocol, layer: layer.layer, frame };
    tree.push_parts(&mut lines, &layer.parts, 0);
    for &(derived, number) in &layer.derived {
        let derived = &protocol.lets[usize::from(derived.0)];
        lines.push(Line {
            range: String::new(),
            name: format!("[{}.{}]", protocol.filter_name, derived.name),
            value: number.to_string(),
            doc: derived.doc.clone(),
        });
    }
    push_lines(text, &lines);
}

/// Lines in columns.
fn push_lines(text: &mut String, lines: &[Line]) {
    let width = |of: fn(&Line) -> &str| lines.iter().map(|line| of(line).chars().count()).max().unwrap_or(0);
    let (ranges, names) = (width(|line| &line.range), width(|line| &line.name));
    let values = width(|line| &line.value).min(VALUE_WIDTH_MAX);
    for Line { range, name, value, doc } in lines {
        let line = format!("    {range:ranges$}  {name:names$}  {value:values$}  {doc}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// The context of a layer's lines.
struct Tree<'a> {
    dissector: &'a Dissector,
    protocol: &'a Protocol,
    layer: LayerId,
    frame: &'a [u8],
}

impl Tree<'_> {
    fn push_parts(&self, lines: &mut Vec<Line>, parts: &[PartDetail], depth: usize) {
        // The bits of the fields around the current one: a group that is also one number.
        let mut around: Vec<Range<usize>> = vec![];
        for part in parts {
            match part {
                PartDetail::Field(field) => {
                    let is_inside = |bits: &Range<usize>| {
                        !field.bits.is_empty() && bits.start <= field.bits.start && field.bits.end <= bits.end
                    };
                    around.retain(is_inside);
                    lines.push(self.field(field, depth + around.len()));
                    around.push(field.bits.clone());
                }
                PartDetail::Item(item) => {
                    around.clear();
                    let path = &self.protocol.presences[usize::from(item.item.0)].path;
                    lines.push(Line {
                        range: range(&item.bytes),
                        name: self.name(path, depth),
                        value: format!("tag {}", item.tag),
                        doc: if item.is_whole { String::new() } else { "malformed, or cut short".into() },
                    });
                    self.push_parts(lines, &item.parts, depth + 1);
                }
            }
        }
    }

    fn field(&self, field: &FieldDetail, depth: usize) -> Line {
        let declared = &self.protocol.fields[usize::from(field.field.0)];
        let value = self.dissector.value(self.layer, field, self.frame);
        Line {
            range: range(&field.bytes),
            name: self.name(&declared.path, depth),
            value: match field.bytes.is_empty() {
                true => "(empty)".to_string(),
                false => printable(&shown_value(&value, VALUE_BYTES_MAX), &[]).into_owned(),
            },
            doc: declared.doc.clone(),
        }
    }

    fn name(&self, path: &str, depth: usize) -> String {
        format!("{:indent$}{}.{path}", "", self.protocol.filter_name, indent = 2 * depth)
    }
}

fn range(bytes: &Range<usize>) -> String {
    format!("{}..{}", bytes.start, bytes.end)
}

/// The bytes that no layer parsed, and why.
fn push_rest(text: &mut String, detail: &PacketDetail, captured: usize) {
    let last = detail.layers.last();
    let (payload, is_payload) = match last {
        None => (0..captured, false),
        Some(LayerDetail { payload: Some(payload), .. }) => (payload.clone(), true),
        Some(LayerDetail { header, .. }) => (header.end..captured.max(header.end), false),
    };
    if !payload.is_empty() {
        let missing = payload.end.saturating_sub(captured.max(payload.start));
        let name = if is_payload { "payload" } else { "rest" };
        let doc = match (is_payload, missing) {
            (true, 0) => "no layer of the stack parses these bytes".to_string(),
            (true, missing) => format!("of which {missing} bytes were not captured"),
            (false, _) => "not parsed".to_string(),
        };
        let _ = writeln!(text, "{name}  {doc}  bytes {}", range(&payload));
    }
    if is_payload && payload.end < captured {
        let _ = writeln!(text, "trailer  after the payload  bytes {}..{captured}", payload.end);
    }
    if let Some(reason) = detail.reason {
        let _ = writeln!(text, "stopped  {}: {}", reason.label(), reason.doc());
    }
}

/// A packet's layers as JSON: `"layers":[…]` and, if the packet was not parsed to its end, `"stopped":"…"`.
pub fn json(dissector: &Dissector, detail: &PacketDetail, frame: &[u8]) -> String {
    let layers = detail.layers.iter().map(|layer| {
        let protocol = protocol(dissector, layer.layer);
        let parts = json_parts(dissector, layer.layer, &layer.parts, frame);
        let derived = layer.derived.iter().map(|&(derived, number)| {
            let name = &protocol.lets[usize::from(derived.0)].name;
            format!("{}:{number}", quoted(&format!("{}.{name}", protocol.filter_name)))
        });
        let payload = layer.payload.as_ref().map(|bytes| format!(",\"payload\":{{{}}}", place(bytes)));
        format!(
            "{{\"name\":{},{},\"fields\":{parts},\"derived\":{{{}}}{}}}",
            quoted(&protocol.filter_name),
            place(&layer.header),
            derived.collect::<Vec<_>>().join(","),
            payload.unwrap_or_default(),
        )
    });
    let stopped = detail.reason.map(|reason| format!(",\"stopped\":{}", quoted(reason.label())));
    format!("\"layers\":[{}]{}", layers.collect::<Vec<_>>().join(","), stopped.unwrap_or_default())
}

fn json_parts(dissector: &Dissector, layer: LayerId, parts: &[PartDetail], frame: &[u8]) -> String {
    let protocol = protocol(dissector, layer);
    let name = |path: &str| quoted(&format!("{}.{path}", protocol.filter_name));
    let path = |field: FieldId| &protocol.fields[usize::from(field.0)].path;
    let parts = parts.iter().map(|part| match part {
        PartDetail::Field(field) => format!(
            "{{\"name\":{},{},\"bits\":[{},{}],\"value\":{}}}",
            name(path(field.field)),
            place(&field.bytes),
            field.bits.start,
            field.bits.end,
            weir::io::json_text(&dissector.value(layer, field, frame)),
        ),
        PartDetail::Item(item) => format!(
            "{{\"name\":{},{},\"tag\":{},\"is_whole\":{},\"fields\":{}}}",
            name(&protocol.presences[usize::from(item.item.0)].path),
            place(&item.bytes),
            item.tag,
            item.is_whole,
            json_parts(dissector, layer, &item.parts, frame),
        ),
    });
    format!("[{}]", parts.collect::<Vec<_>>().join(","))
}

fn place(bytes: &Range<usize>) -> String {
    format!("\"offset\":{},\"length\":{}", bytes.start, bytes.len())
}

fn quoted(text: &str) -> String {
    weir::io::json_text(&Value::Text(text.into()))
}
