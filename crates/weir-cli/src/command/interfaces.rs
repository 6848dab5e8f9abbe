//! `weir interfaces`: the network interfaces, and what capture on them needs.

use crate::flags::formats;
use crate::subcommand::Subcommand;
use crate::terminal;
use clap::Args as ClapArgs;
use std::process::ExitCode;
use weir::link::dpdk;
use weir::link::interfaces::{self, GRANT, Rights};
use weir::packet::{Batch, Column, Value, ValueType};
use weir_questions::Group;
use weir_questions::messages::Failure;

/// Arguments of `interfaces`.
#[derive(ClapArgs)]
struct Args {
    /// Format of rows
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    format: Option<String>,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("interfaces", "all interfaces"),
    ("interfaces --format json", "for other programs"),
    ("flows -i eth0", "how an interface is used"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "Network interfaces for -i, how they are captured, and what capture needs";
    Subcommand::new("interfaces", about, |args: Args, _| run(&args))
        .in_group(Group::Runs)
        .with_examples(EXAMPLES)
}

const COLUMNS: &[Column] = &[
    Column::new("name", ValueType::Text, "name of the interface"),
    Column::new("state", ValueType::Text, "up; up without a peer (no carrier); down"),
    Column::new("link", ValueType::Text, "link type of its packets"),
    Column::new("mtu", ValueType::Unsigned, "the longest packet that it sends, bytes"),
    Column::new("driver", ValueType::Text, "the driver of the kernel"),
    Column::new("queues", ValueType::Unsigned, "receive queues"),
    Column::new("methods", ValueType::Texts, "the methods of capture that work on it"),
    Column::new("missing", ValueType::Text, "what capture on it lacks"),
];

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let all = interfaces::all()
        .map_err(|error| Failure::new(format!("the interfaces cannot be listed: {error}")))?;
    let rights = Rights::of_process();
    let mut sink = terminal::listing(args.format.as_deref())?;
    sink.begin(COLUMNS)?;
    let mut rows = Batch::new(COLUMNS.len());
    for interface in all {
        let state = match (interface.is_up, interface.is_running) {
            (true, true) => "up",
            (true, false) => "no carrier",
            (false, _) => "down",
        };
        let name = &interface.name;
        let lacks = [
            (!interface.is_up).then(|| format!("sudo ip link set {name} up")),
            (!rights.net_raw).then(|| "CAP_NET_RAW".to_string()),
            (!rights.net_admin).then(|| "CAP_NET_ADMIN (af_xdp)".to_string()),
            (!rights.bpf).then(|| "CAP_BPF (af_xdp, filters in the kernel)".to_string()),
            (!rights.perfmon).then(|| "CAP_PERFMON (filters in the kernel)".to_string()),
        ];
        let missing: Vec<String> = lacks.into_iter().flatten().collect();
        let has_xdp = rights.net_raw && rights.net_admin && rights.bpf && !interface.is_loopback;
        let methods = [("af_packet", rights.net_raw), ("af_xdp", has_xdp)];
        let methods: Vec<String> =
            methods.into_iter().filter(|(_, works)| *works).map(|(name, _)| name.to_string()).collect();
        rows.push(&[
            Value::Text(name.as_str().into()),
            Value::Text(state.into()),
            Value::Text(interface.link.to_string().into()),
            Value::Unsigned(u64::from(interface.mtu_bytes)),
            interface.driver.map_or(Value::Absent, |driver| Value::Text(driver.into())),
            interface.queues.map_or(Value::Absent, |queues| Value::Unsigned(u64::from(queues))),
            Value::Texts(methods.into()),
            if missing.is_empty() { Value::Absent } else { Value::Text(missing.join(", ").into()) },
        ]);
    }
    sink.batch(&rows)?;
    sink.end()?;
    if !(rights.net_raw && rights.net_admin && rights.bpf && rights.perfmon) {
        note!("weir: run as root, or grant the capabilities to the program once: {GRANT}");
    }
    for (version, what) in weir::sandbox::of_newer_kernels() {
        note!("weir: this kernel is older than Linux {version}: {what}");
    }
    let ready = dpdk::readiness();
    match ready.release {
        Ok(release) => {
            let pages = match ready.free_huge_bytes >> 20 {
                0 => "no free huge pages, which devices on the PCI bus need: sudo sysctl vm.nr_hugepages=512"
                    .to_string(),
                free => format!("{free} MiB in free huge pages"),
            };
            note!("weir: {release} captures on its devices, -i dpdk:DEVICE ({pages})");
        }
        Err(why) => note!("weir: {why}"),
    }
    Ok(ExitCode::SUCCESS)
}
