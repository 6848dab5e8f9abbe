//! `weir records`: the features of a group's packets as lists, one row for each record.

use crate::args::Ask;
use crate::ask;
use crate::failure::Failure;
use crate::rows::made_rows;
use crate::spec::QuestionSpec;
use crate::subcommand::{Context, Group, QuestionKind, Resolved, Subcommand};
use clap::Args as ClapArgs;
use std::process::ExitCode;
use weir::records::{PacketRecords, RecordLimits};

/// Arguments of `records`.
#[derive(ClapArgs)]
struct Args {
    /// The key: fields, separated by commas; `flow` for both directions of a connection, `5tuple` for one
    #[arg(long, value_name = "FIELDS")]
    key: Option<String>,
    /// Features of packets: numeric fields, separated by commas; also ts, iat (time since the packet before,
    /// nanoseconds), dir (direction, with --key flow), len, flags, seq, ack, ttl
    #[arg(long, value_name = "FIELDS")]
    features: Option<String>,
    /// Complete a record at this number of packets. Default: 1024
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "first")]
    packets: Option<u64>,
    /// Only the first N packets of each flow, as classifiers need them: lengths, times and directions, unless
    /// other features are named
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    first: Option<u64>,
    /// Complete a record this many seconds after its first packet. Default: 60
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    age: Option<f64>,
    /// A group ends this many seconds after its last packet. Default: 15
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    idle: Option<f64>,
    #[command(flatten)]
    ask: Ask,
}

/// Seconds, more than 0.
fn seconds(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no number of seconds above 0");
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0).ok_or_else(wrong)
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "records capture.pcap --first 32 -o splt.parquet",
        "lengths, times and directions of the first packets, for classifiers",
    ),
    (
        "records capture.pcap --key 5tuple --features ts,len,tcp.seq,ip.id 'tcp'",
        "all packets of each direction, in rows of up to 1024",
    ),
    ("records -i eth0 --key ip.src --features len --age 10", "lengths of the packets of each sender"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about =
        "Features of packets as lists, grouped by connection or by any fields: for classifiers and notebooks";
    let options = &["key", "features", "packets", "first", "age", "idle"];
    let kind = QuestionKind { options, keeps: |_| true, ..QuestionKind::new(resolve) };
    Subcommand::new("records", about, run)
        .with_question(kind)
        .in_group(Group::Everyday)
        .with_examples(EXAMPLES)
}

fn run(args: Args, all: &[Subcommand]) -> Result<ExitCode, Failure> {
    let Args { key, features, packets, first, age, idle, ask: mut args } = args;
    let spec = QuestionSpec { key, features, packets, first, age, idle, ..args.spec("records")? };
    ask::answer_one(&args.input, &spec, args.output.stats, all)
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    let usual = RecordLimits::within(context.memory_max);
    let ns = |seconds: Option<f64>, usual: u64| seconds.map_or(usual, |seconds| (seconds * 1e9) as u64);
    let limits = RecordLimits {
        packets_max: spec
            .first
            .or(spec.packets)
            .map_or(usual.packets_max, |count| count.try_into().unwrap_or(usize::MAX)),
        first_only: spec.first.is_some(),
        age_ns: ns(spec.age, usual.age_ns),
        idle_ns: ns(spec.idle, usual.idle_ns),
        ..usual
    };
    let key = spec.key.as_deref().unwrap_or("flow");
    let features = match (&spec.features, key) {
        (Some(features), _) => features,
        (None, "flow") => "iat,len,dir",
        (None, _) => "iat,len",
    };
    let records = PacketRecords::of(context.compiler, key, features, limits)?;
    let question = records.question(&spec.filter).map_err(Failure::new)?;
    Ok(Resolved::new(vec![question], "records", records.columns().to_vec(), made_rows))
}
