//! `weir zeek`: Zeek's logs, one question and one file each.

use super::sessions;
use crate::args::{Contents, Input, RotateArgs, formats};
use crate::ask::{self, Asked};
use crate::command::sessions::RowArgs;
use crate::failure::Failure;
use crate::spec::{QuestionSpec, Stdout};
use crate::subcommand::{Group, Subcommand};
use crate::words::Words;
use crate::{input, local_users};
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use weir::io::Format;

/// Arguments of `zeek`.
#[derive(ClapArgs, Clone)]
struct Args {
    #[command(flatten)]
    words: Words,
    /// Directory for the logs
    #[arg(short = 'd', long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Format of the logs
    #[arg(long, value_name = "FORMAT", default_value = "zeek", value_parser = formats(&[]))]
    format: String,
    /// With --format csv: texts that a spreadsheet would execute as formulas begin with an apostrophe
    #[arg(long)]
    csv_safe: bool,
    #[command(flatten)]
    rotation: RotateArgs,
    #[command(flatten)]
    contents: Contents,
    #[command(flatten)]
    rows: RowArgs,
    /// Print counters, memory by owner, and counts and cycles per stage to standard error at the end
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    input: Input,
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("zeek capture.pcap", "Zeek's logs in this directory"),
    ("zeek capture.pcap -d logs --format json", "as JSON"),
    ("zeek capture.pcap -d logs 'not dns'", "of a part of the traffic"),
    ("zeek capture.pcap -d logs --extract files", "and the contents of files.log in files"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new("zeek", "Zeek's logs: conn.log, and one log for each protocol found", run)
        .in_group(Group::Runs)
        .with_examples(EXAMPLES)
}

fn run(mut args: Args, all: &[Subcommand]) -> Result<ExitCode, Failure> {
    let filter = args.words.settle(&mut args.input.read)?;
    let dir = &args.dir;
    // All logs share one filter: report a mistake in it once.
    let program = &args.input.program;
    input::compiler(&program.stack)?.check_filter(&filter, program.bpf)?;
    local_users::begin(&args.input.allow_user, args.input.group_read);
    weir_guard::files::create_directories(dir)
        .map_err(|e| Failure::new(format!("{}: {e}", dir.display())))?;
    let format: Format = args.format.parse().map_err(Failure::new)?;
    let ending = if format.is_columnar() { format.label() } else { "log" };
    let spec = |path: &str, ask: &str| {
        args.rotation.put_into(QuestionSpec {
            name: path.to_string(),
            ask: ask.to_string(),
            filter: filter.clone(),
            format: Some(args.format.clone()),
            output: Some(dir.join(format!("{path}.{ending}"))),
            csv_safe: args.csv_safe,
            // Like Zeek, create no empty logs.
            drops_empty: true,
            ..QuestionSpec::default()
        })
    };
    let noted = ["weird", "tunnel"].map(|path| args.rows.put_into(spec(path, path)));
    let mut specs = vec![spec("conn", "flows")];
    specs.extend(noted);
    let registry = weir::sessions::SessionRegistry::builtin();
    let contents = &args.contents;
    let logs = weir::Log::all(registry).into_iter().chain(weir::Log::of_parts(registry));
    specs.extend(logs.map(|log| match sessions::is_extractable(log.ask) {
        true => args.rows.put_into(contents.put_into(spec(log.path, log.ask))),
        false => args.rows.put_into(spec(log.path, log.ask)),
    }));
    let asked = Asked {
        input: &args.input,
        specs: &specs,
        wrong: vec![],
        socket: None,
        reload: None,
        stats: args.stats,
        stdout: Stdout::Shared,
    };
    Ok(ask::answer(asked, all)?.ran.status)
}
