//! `weir zeek`: Zeek's logs, one question and one file each.

use crate::ask::{self, Asked};
use crate::flags::{Flags, Part, Subset, formats};
use crate::subcommand::Subcommand;
use crate::words::Words;
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use weir::io::Format;
use weir_questions::Input;
use weir_questions::QuestionSpec;
use weir_questions::kinds;
use weir_questions::local_users;
use weir_questions::messages::Failure;
use weir_questions::options::Options as _;
use weir_questions::source::input;
use weir_questions::{Group, QuestionKinds};

/// Arguments of `zeek`.
#[derive(ClapArgs)]
struct Args {
    #[command(flatten)]
    words: Words,
    /// Directory for the logs
    #[arg(short = 'd', long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    logs: Part<Logs>,
    /// Print counters, memory by owner, and counts and cycles per stage to standard error at the end
    #[arg(long, help_heading = "Output")]
    stats: bool,
    #[command(flatten)]
    input: Flags<Input>,
}

/// The options of the questions.
struct Logs;

impl Subset for Logs {
    type Options = QuestionSpec;
    const NAMES: &[&str] = &["format", "csv_safe", "rotate", "keep", "extract", "extract_max", "all_rows"];
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
    Subcommand::new("zeek", "Zeek's logs: conn.log, and one log for each protocol found", |args, _| run(args))
        .in_group(Group::Runs)
        .with_examples(EXAMPLES)
        .with_arguments(|command| {
            let of_logs = |arg: clap::Arg| arg.value_parser(formats(&[])).default_value(Format::Zeek.label());
            command.mut_arg("format", |arg| of_logs(arg.help("Format of the logs")))
        })
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    let (Flags(mut input), Part(mut stated)) = (args.input, args.logs);
    let (filter, dir) = (args.words.settle(&mut input.read)?, &args.dir);
    // All logs share one filter: report a mistake in it once.
    input::compiler(&input.stack)?.check_filter(&filter, input.bpf)?;
    local_users::begin(&input.allow_user, input.group_read);
    weir_guard::files::create_directories(dir)
        .map_err(|e| Failure::new(format!("{}: {e}", dir.display())))?;
    let label = stated.format.get_or_insert_with(|| Format::Zeek.label().to_string());
    let format: Format = label.parse().map_err(Failure::new)?;
    let ending = if format.is_columnar() { format.label() } else { "log" };
    let kinds = QuestionKinds::new(kinds::all());
    let spec = |path: &str, ask: &str| {
        let mut spec = QuestionSpec {
            name: path.to_string(),
            ask: ask.to_string(),
            filter: filter.clone(),
            output: Some(dir.join(format!("{path}.{ending}"))),
            // Like Zeek, create no empty logs.
            drops_empty: true,
            ..stated.clone()
        };
        let kind = kinds.get(ask)?;
        QuestionSpec::TABLE
            .iter()
            .filter(|one| !kind.has_option(one.name))
            .for_each(|one| one.clear(&mut spec));
        Ok(spec)
    };
    let registry = weir::sessions::SessionRegistry::builtin();
    let logs = weir::Log::all(registry).into_iter().chain(weir::Log::of_parts(registry));
    let first = [("conn", "flows"), ("weird", "weird"), ("tunnel", "tunnel")];
    let all = first.into_iter().chain(logs.map(|log| (log.path, log.ask)));
    let specs: Vec<QuestionSpec> = all.map(|(path, ask)| spec(path, ask)).collect::<Result<_, Failure>>()?;
    let asked = Asked { stats: args.stats, ..Asked::of(&input, &specs) };
    Ok(ask::answer(asked)?.status)
}
