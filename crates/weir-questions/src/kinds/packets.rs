//! `weir packets`: one line per packet, its detail or bytes, the number of packets, or a capture file.

use crate::form::Form;
use crate::kind::{Context, Counted, MakeLines, QuestionKind, Resolved};
use crate::messages::failure::Failure;
use crate::rows::make::made_rows;
use crate::spec::QuestionSpec;
use crate::text::packet_details::{PacketDetails, Shown};
use crate::text::packet_text::{self, PacketBytes, TextLines};
use weir::io::CaptureFormat;
use weir::{ColumnMask, Need, PACKET_COLUMNS, PacketKey, Question, Shape, Want};

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("packets capture.pcap 'icmp'", "one line per packet"),
    ("packets capture.pcap -w out.pcapng 'tls.sni contains \"example\"'", "all packets of some connections"),
    ("packets -i eth0 -w tcp-listen:9000 'tcp.port == 80'", "for `tshark -i TCP@127.0.0.1:9000`"),
    (
        "packets -i eth0 -w udp://10.0.0.2:9000,10.0.0.3:9000 --balance ip.src 'udp.port == 53'",
        "to two instances: weir dns -r udp://0.0.0.0:9000",
    ),
    ("packets capture.pcap -V --limit 1 'tls'", "every field of a packet, and what it completes"),
    ("packets capture.pcap --count 'tcp.flags.syn == 1'", "a number"),
];

/// The type of question.
pub fn kind() -> QuestionKind {
    let about = "Packets, one line each; or their number; or a capture file with them";
    let kind = QuestionKind::new("packets", about, resolve).with_examples(EXAMPLES);
    let options = &["detail", "hex", "balance"];
    QuestionKind { is_capturable: true, options, keeps: |spec| spec.detail, ..kind }
}

/// Columns that are shown only if they are named.
const ON_REQUEST: &[&str] = &["frame"];

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let has_instances = spec.instances().is_some();
    if spec.balance.is_some() && !has_instances {
        return Err(Failure::new("--balance is for packets to instances: give -w udp://HOST:PORT,HOST:PORT"));
    }
    if spec.format.is_some() && has_instances {
        return Err(Failure::new("packets over UDP have a form of their own: give no --format"));
    }
    if spec.has_packet_texts() {
        return resolve_details(spec, context);
    }
    let none = Shape::default();
    let (lines, shape) = match context.form {
        Form::Capture(format) => {
            let options = *format == CaptureFormat::Pcapng && !has_instances;
            (false, Shape { frames: true, options, ..none })
        }
        Form::Count => (false, Shape { count_only: true, ..none }),
        Form::Rows(_) | Form::Lines { .. } => (true, Shape { as_rows: true, ..none }),
    };
    let need = Need { packets: true, lines, ..Need::default() };
    let question = match has_instances {
        true => {
            let key = PacketKey::of(context.compiler, spec.balance.as_deref().unwrap_or("flow"))?;
            key.question(&spec.filter, shape).map_err(Failure::new)?
        }
        false => Question::new(weir::Ask { filter: spec.filter.clone(), need, want: Want::Packets }, shape),
    };
    let resolved = Resolved::new(vec![question], "", PACKET_COLUMNS.to_vec(), made_rows);
    Ok(Resolved { counted: Counted::Matched, on_request: ON_REQUEST, ..resolved }
        .with_shown_columns(ColumnMask::NONE))
}

/// Texts of packets: with their bytes, or in detail, with the sessions of the same filter.
fn resolve_details(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let ask = |need, want| weir::Ask { filter: spec.filter.clone(), need, want };
    let need = Need { packets: true, lines: !spec.detail, ..Need::default() };
    let packets = |shape| Question::new(ask(need, Want::Packets), shape);
    let columns = packet_text::COLUMNS.to_vec();
    let json = spec.format.is_some();
    let resolved = if spec.detail {
        let (dissector, registry) = (context.compiler.dissector()?, context.compiler.sessions());
        let sessions = ask(Need::default(), Want::Sessions(registry.all()));
        let questions = vec![
            packets(Shape { frames: true, ..Shape::default() }),
            Question::new(sessions, Shape { all_rows: true, ..Shape::default() }),
        ];
        let shown = Shown { dissector, hex: spec.hex, json };
        Resolved::new(questions, "", columns, PacketDetails::new(shown, registry, context.memory_max))
    } else {
        let question = packets(Shape { as_rows: true, ..Shape::default() });
        Resolved::new(vec![question], "", columns, PacketBytes::new(json))
    };
    let lines: MakeLines = Box::new(|out, _| Box::new(TextLines::new(out)));
    Ok(Resolved { lines: Some(lines), ..resolved })
}
