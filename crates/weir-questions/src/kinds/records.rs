//! `weir records`: the features of a group's packets as lists, one row for each record.

use crate::kind::{Context, QuestionKind, Resolved};
use crate::messages::failure::Failure;
use crate::rows::make::made_rows;
use crate::spec::QuestionSpec;
use weir::records::{PacketRecords, RecordLimits};

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

/// The type of question.
pub fn kind() -> QuestionKind {
    let about =
        "Features of packets as lists, grouped by connection or by any fields: for classifiers and notebooks";
    let options = &["key", "features", "packets", "first", "age", "idle"];
    let kind = QuestionKind::new("records", about, resolve).with_examples(EXAMPLES);
    QuestionKind { options, keeps: |_| true, ..kind }
}

fn resolve(spec: &QuestionSpec, context: &Context<'_>) -> Result<Resolved, Failure> {
    if spec.packets.is_some() && spec.first.is_some() {
        return Err(Failure::new(
            "`first` and `packets` both say how many packets a record has: give one of them",
        ));
    }
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
    let records = PacketRecords::of(context.compiler, key, spec.features.as_deref(), limits)?;
    let question = records.question(&spec.filter).map_err(Failure::new)?;
    Ok(Resolved::new(vec![question], "records", records.columns().to_vec(), made_rows))
}
