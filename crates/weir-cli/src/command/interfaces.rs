//! `weir interfaces`: the network interfaces, and what capture on them needs.

use crate::args::formats;
use crate::failure::Failure;
use crate::output;
use crate::subcommand::{Group, Subcommand};
use clap::Args as ClapArgs;
use std::process::ExitCode;
use weir::link::interfaces::{self, GRANT, Rights};
use weir::packet::{Column, Value, ValueType};

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
    let mut sink = output::listing(args.format.as_deref())?;
    sink.begin(COLUMNS)?;
    for interface in all {
        let state = match (interface.is_up, interface.is_running) {
            (true, true) => "up",
            (true, false) => "no carrier",
            (false, _) => "down",
        };
        let name = &interface.name;
        let missing = match (rights.net_raw, interface.is_up) {
            (false, _) => Some("CAP_NET_RAW".to_string()),
            (true, false) => Some(format!("sudo ip link set {name} up")),
            (true, true) => None,
        };
        let methods = if rights.net_raw { vec!["af_packet".to_string()] } else { vec![] };
        sink.row(&[
            Value::Text(name.as_str().into()),
            Value::Text(state.into()),
            Value::Text(interface.link.to_string().into()),
            Value::Unsigned(u64::from(interface.mtu_bytes)),
            interface.driver.map_or(Value::Absent, |driver| Value::Text(driver.into())),
            interface.queues.map_or(Value::Absent, |queues| Value::Unsigned(u64::from(queues))),
            Value::Texts(methods.into()),
            missing.map_or(Value::Absent, |missing| Value::Text(missing.into())),
        ])?;
    }
    sink.end()?;
    if !rights.net_raw {
        note!("weir: capture needs the capability CAP_NET_RAW: run as root, or grant it once: {GRANT}");
    }
    Ok(ExitCode::SUCCESS)
}
