//! `weir top`: the traffic on a screen, while it comes.

use crate::args::Input;
use crate::subcommand::{Group, Subcommand};
use crate::top;
use crate::words::Words;
use clap::Args as ClapArgs;

/// Arguments of `top`.
#[derive(ClapArgs, Clone)]
struct Args {
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    input: Input,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("top -i eth0", "an interface, until q"),
    ("top -i eth0 'tcp.port == 443'", "a part of the traffic; / changes the filter"),
    ("top capture.pcap", "a file; the screen stays at its end"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "Live traffic on the terminal: connections, hosts, names of servers, protocols, drops; ? shows the keys";
    Subcommand::new("top", about, |mut args: Args, all| {
        let filter = args.words.settle(&mut args.input.read)?;
        top::run(&args.input, &filter, all)
    })
    .in_group(Group::Everyday)
    .with_examples(EXAMPLES)
}
