//! `weir record`: keeps all packets of the last minutes in memory, and those before on the disk.

use crate::ask::{self, Asked};
use crate::flags::Flags;
use crate::subcommand::Subcommand;
use clap::Args as ClapArgs;
use std::process::ExitCode;
use weir_questions::messages::Failure;
use weir_questions::source::file_names;
use weir_questions::{Group, Input, Stdout};
use weir_recorder::RecorderOptions;

/// Arguments of `record`.
#[derive(ClapArgs, Clone)]
struct Args {
    #[command(flatten)]
    options: Flags<RecorderOptions>,
    #[command(flatten)]
    input: Flags<Input>,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("record -i eth0 --ring 8G", "the last packets, in memory; Ctrl-C ends"),
    ("record -i eth0 --ring 8G --spool /data --spool-size 2T", "and those before, on the disk"),
    (
        "record -i eth0 --spool /data --spool-size 1T --keep dns=dns:100G/90d",
        "files of DNS are kept for longer",
    ),
    (
        "record -i eth0 --trigger 'tls.sni contains \"example\"' --dumps /data/dumps",
        "dumps connections, from their first packet on",
    ),
    ("record -i eth0 --ring 8G --page", "with a page for browsers"),
    ("flows -r ring: --from -5m 'tcp.port == 443'", "meanwhile: connections of the last five minutes"),
    ("packets -r ring: --from 14:02 --to 14:05 -w out.pcapng 'ip.addr == 10.0.0.7'", "packets of a host"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new(
        "record",
        "Keep all packets of a link, in memory and on the disk, for questions about the past",
        run,
    )
    .in_group(Group::Everyday)
    .with_examples(EXAMPLES)
}

fn run(args: Args, _: &[Subcommand]) -> Result<ExitCode, Failure> {
    let (Flags(options), Flags(mut input)) = (args.options, args.input);
    input.read = file_names::expand(&input.read)?;
    if input.interface.is_empty() && input.read.is_empty() {
        return Err(Failure::new("no input: name an interface, as in `weir record -i eth0`"));
    }
    let (recorder, stdout) = (Some(&options), Stdout::default());
    Ok(ask::answer(Asked { recorder, stdout, ..Asked::of(&input, &[]) })?.status)
}
