//! `weir top`: the traffic on a screen, while it comes.

use crate::flags::Flags;
use crate::subcommand::Subcommand;
use crate::top;
use crate::words::Words;
use clap::Args as ClapArgs;
use weir_questions::Group;
use weir_questions::Input;

/// Arguments of `top`.
#[derive(ClapArgs, Clone)]
struct Args {
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    input: Flags<Input>,
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
    Subcommand::new("top", about, |mut args: Args, _| {
        let filter = args.words.settle(&mut args.input.0.read)?;
        top::run(&args.input.0, &filter)
    })
    .in_group(Group::Everyday)
    .with_examples(EXAMPLES)
}
