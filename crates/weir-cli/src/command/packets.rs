//! `weir packets`: one line per packet, its detail or bytes, the number of packets, or a capture file.

use crate::args::{Ask, file_named};
use crate::ask::{self, Asked};
use crate::failure::Failure;
use crate::form::Form;
use crate::packet_details::{self, PacketDetails, Shown, TextLines};
use crate::rows::WriteRows;
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Counted, Group, MakeLines, QuestionKind, Resolved, Subcommand};
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use weir::io::CaptureFormat;
use weir::lang::model::Stack;
use weir::packet::{Batch, Column, PacketMeta, Value, ValueType};
use weir::{Item, Need, Path, Question, Shape, Want};

/// Arguments of `packets`.
#[derive(ClapArgs, Clone)]
struct Args {
    #[command(flatten)]
    ask: Ask,
    /// Write the matching frames to this capture file (.pcap or .pcapng); or, as pcapng or in the --format, to a TCP
    /// connection: `tcp://HOST:PORT` connects, `tcp-listen:PORT` sends them to every client of this host that connects
    /// (127.0.0.1 and ::1; `tcp-listen:ADDRESS:PORT` also accepts other hosts, without a password: 0.0.0.0 is all of IPv4,
    /// [::] all)
    #[arg(short = 'w', long = "write", value_name = "OUT.pcap|OUT.pcapng|tcp…", conflicts_with_all = ["count", "output"])]
    write: Option<PathBuf>,
    /// Show the layers and fields of each packet, with their bytes and meanings, and the sessions that it completes; as
    /// text, or with --format json as one object per packet
    #[arg(short = 'V', long, conflicts_with_all = ["write", "count"])]
    detail: bool,
    /// Show the bytes of each packet: below its line, or below its detail
    #[arg(short = 'x', long, conflicts_with_all = ["write", "count"])]
    hex: bool,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("packets capture.pcap 'icmp'", "one line per packet"),
    ("packets capture.pcap -w out.pcapng 'tls.sni contains \"example\"'", "all packets of some connections"),
    ("packets -i eth0 -w tcp-listen:9000 'tcp.port == 80'", "for `tshark -i TCP@127.0.0.1:9000`"),
    ("packets capture.pcap -V --limit 1 'tls'", "every field of a packet, and what it completes"),
    ("packets capture.pcap --count 'tcp.flags.syn == 1'", "a number"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "Packets, one line each; or their number; or a capture file with them";
    let kind = QuestionKind {
        is_capturable: true,
        options: &["detail", "hex"],
        keeps: |spec| spec.detail,
        ..QuestionKind::new(resolve)
    };
    Subcommand::new("packets", about, run)
        .with_question(kind)
        .in_group(Group::Everyday)
        .with_examples(EXAMPLES)
}

const COLUMNS: &[Column] = &[
    Column::new("number", ValueType::Unsigned, "number of the packet in the run"),
    Column::new("ts", ValueType::Time, "time of capture"),
    Column::new("length", ValueType::Unsigned, "bytes on the wire"),
    Column::new("layers", ValueType::Text, "layers, outermost first"),
    Column::new("info", ValueType::Text, "text of the layers"),
];

fn run(args: Args, all: &[Subcommand]) -> Result<ExitCode, Failure> {
    let Args { ask: mut args, write, detail, hex } = args;
    let spec = QuestionSpec { detail, hex, ..args.spec("packets")? };
    let stats = args.output.stats;
    let Some(path) = write else { return ask::answer_one(&args.input, &spec, stats, all) };
    let spec = QuestionSpec { output: file_named(Some(path.clone())), is_written: true, ..spec };
    let answered = ask::answer(Asked::one(&args.input, &spec, args.output.stats), all)?;
    if !answered.is_unread {
        note!("{} packets written to {}", answered.answers, path.display());
    }
    Ok(answered.ran.status)
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    if spec.has_packet_texts() {
        return resolve_details(spec, context);
    }
    let none = Shape::default();
    let (lines, shape) = match context.form {
        Form::Capture(format) => {
            (false, Shape { frames: true, options: *format == CaptureFormat::Pcapng, ..none })
        }
        Form::Count => (false, Shape { count_only: true, ..none }),
        Form::Rows(_) | Form::Lines { .. } => (true, Shape { lines: true, ..none }),
    };
    let need = Need { packets: true, lines, ..Need::default() };
    let question = Question::new(weir::Ask { filter: spec.filter.clone(), need, want: Want::Packets }, shape);
    let stack = context.compiler.stack().clone();
    let mut one = Batch::new(COLUMNS.len());
    let rows = move |item: &Item<'_>, rows: WriteRows<'_>| match item {
        Item::Packet { meta, path, line, .. } => {
            one.clear();
            one.push(&values(&stack, meta, *path, line));
            rows(&one, 0..1)
        }
        _ => Ok(()),
    };
    let resolved = Resolved::new(vec![question], "", COLUMNS.to_vec(), rows);
    Ok(Resolved { counted: Counted::Matched, ..resolved })
}

/// Packets with their bytes; if detail is wanted, with the sessions of the same filter.
fn resolve_details(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let shape = Shape { frames: true, lines: !spec.detail, ..Shape::default() };
    let need = Need { packets: true, lines: !spec.detail, ..Need::default() };
    let ask = |need, want| weir::Ask { filter: spec.filter.clone(), need, want };
    let mut questions = vec![Question::new(ask(need, Want::Packets), shape)];
    let registry = context.compiler.sessions();
    if spec.detail {
        let sessions = ask(Need::default(), Want::Sessions(registry.all()));
        questions.push(Question::new(sessions, Shape::default()));
    }
    let shown = Shown {
        detail: spec.detail.then(|| context.compiler.dissector()).transpose()?,
        hex: spec.hex,
        json: spec.format.is_some(),
    };
    let (stack, memory_max) = (context.compiler.stack().clone(), context.memory_max);
    let rows = PacketDetails::new(shown, stack, registry, memory_max);
    let resolved = Resolved::new(questions, "", packet_details::COLUMNS.to_vec(), rows);
    let lines: MakeLines = Box::new(|out, _| Box::new(TextLines::new(out)));
    Ok(Resolved { lines: Some(lines), ..resolved })
}

/// The values of [`COLUMNS`].
fn values<'a>(stack: &Stack, meta: &PacketMeta, path: Path, line: &'a str) -> [Value<'a>; 5] {
    [
        Value::Unsigned(meta.number),
        Value::Time(meta.time),
        Value::Unsigned(u64::from(meta.wire_bytes)),
        Value::Text(weir::Stats::path_name(stack, path).into()),
        Value::Text(line.into()),
    ]
}
