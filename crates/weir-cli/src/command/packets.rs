//! `weir packets`: one line per packet, its detail or bytes, the number of packets, or a capture file.

use crate::args::{Ask, file_named};
use crate::ask::{self, Asked};
use crate::failure::Failure;
use crate::form::Form;
use crate::packet_details::{PacketDetails, Shown};
use crate::packet_text::{self, PacketBytes, TextLines};
use crate::rows::made_rows;
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Counted, Group, MakeLines, QuestionKind, Resolved, Subcommand};
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use weir::io::CaptureFormat;
use weir::{ColumnMask, Need, PACKET_COLUMNS, PacketKey, Question, Shape, Want};

/// Arguments of `packets`.
#[derive(ClapArgs, Clone)]
struct Args {
    #[command(flatten)]
    ask: Ask,
    /// Write the matching frames to this capture file (.pcap or .pcapng); or, as pcapng or in the --format,
    /// to a TCP connection: `tcp://HOST:PORT` connects, `tcp-listen:PORT` sends them to every client of this
    /// host that connects (127.0.0.1 and ::1; `tcp-listen:ADDRESS:PORT` also accepts other hosts, without a
    /// password: 0.0.0.0 is all of IPv4, [::] all). Or send them over UDP: `udp://HOST:PORT[,HOST:PORT…]` (or
    /// HOST:9000-9003) are instances of an application, which read them with `-r udp://:PORT`
    #[arg(short = 'w', long = "write", value_name = "OUT.pcap|OUT.pcapng|tcp…|udp…", conflicts_with_all = ["count", "output"])]
    write: Option<PathBuf>,
    /// With -w udp://: the fields that select the instance of a packet (ip.src/24, tcp.dstport); `flow` (the
    /// default) or `hosts` for both directions of a connection
    #[arg(long, value_name = "KEY", requires = "write")]
    balance: Option<String>,
    /// Show the layers and fields of each packet, with their bytes and meanings, and the sessions that it
    /// completes; as text, or with --format json as one object per packet
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
    (
        "packets -i eth0 -w udp://10.0.0.2:9000,10.0.0.3:9000 --balance ip.src 'udp.port == 53'",
        "to two instances: weir dns -r udp://0.0.0.0:9000",
    ),
    ("packets capture.pcap -V --limit 1 'tls'", "every field of a packet, and what it completes"),
    ("packets capture.pcap --count 'tcp.flags.syn == 1'", "a number"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "Packets, one line each; or their number; or a capture file with them";
    let kind = QuestionKind {
        is_capturable: true,
        options: &["detail", "hex", "balance"],
        keeps: |spec| spec.detail,
        ..QuestionKind::new(resolve)
    };
    Subcommand::new("packets", about, run)
        .with_question(kind)
        .in_group(Group::Everyday)
        .with_examples(EXAMPLES)
}

/// Columns that are shown only if they are named.
const ON_REQUEST: &[&str] = &["frame"];

fn run(args: Args, all: &[Subcommand]) -> Result<ExitCode, Failure> {
    let Args { ask: mut args, write, balance, detail, hex } = args;
    let spec = QuestionSpec { detail, hex, balance, ..args.spec("packets")? };
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
