//! `weir explain`: the stages of a filter, and why a packet matches or not.

use crate::flags::{Part, Subset};
use crate::question_options::{QuestionOptions, Settings};
use crate::sandbox::{self, Needs};
use crate::subcommand::Subcommand;
use clap::Args as ClapArgs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use weir::explain;
use weir::io::CaptureReader;
use weir::link::Loader;
use weir::packet::{Burst, Poll, Source};
use weir_questions::Input;
use weir_questions::QuestionSpec;
use weir_questions::kinds;
use weir_questions::messages::Failure;
use weir_questions::run::{Run, RunSettings};
use weir_questions::{Group, QuestionKinds};

/// Arguments of `explain`.
#[derive(ClapArgs)]
struct Args {
    /// The filter
    #[arg(default_value = "")]
    filter: String,
    /// Type of data, by the name of its command: packets, flows, sessions, streams, match, events, stats, or
    /// a log such as tls. For packets, the program is that of `weir packets --count`: lines need more fields
    #[arg(long, value_name = "WHAT", default_value = "packets")]
    wants: String,
    #[command(flatten)]
    settings: Settings,
    /// Show only one stage
    #[arg(long, value_name = "STAGE", value_parser = ["parse", "trie", "ir", "opt", "kernel", "device", "fast-path", "code"])]
    stage: Option<String>,
    /// Explain why packet N of a capture file (`-`: standard input) matches or not, layer by layer, with the
    /// decisive bytes; with --stage ir or opt: the packet's path through the graph
    #[arg(long, value_name = "FILE:N", allow_hyphen_values = true)]
    packet: Option<String>,
    #[command(flatten)]
    program: Part<Program>,
}

/// The options that say how a program is compiled.
struct Program;

impl Subset for Program {
    type Options = Input;
    const NAMES: &[&str] =
        &["bpf", "stack", "ignore_context", "add_context", "decode_as", "engine", "without"];
}

impl Args {
    /// The question of the command.
    fn question(&self) -> Result<QuestionSpec, Failure> {
        let mut options = QuestionOptions::default();
        options.add("name", "");
        options.add("ask", self.wants.as_str());
        options.add("filter", self.filter.as_str());
        options.add_settings(&self.settings)?;
        options.question()
    }
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("explain 'tcp.port == 443 and tls'", "how a filter is evaluated"),
    ("explain 'tls.sni == \"a.example\"' --wants tls", "of a question"),
    (
        "explain --wants aggregate --set aggregate='count() by ip.src'",
        "of an aggregate: which values are stored",
    ),
    ("explain 'udp.port == 53' -r capture.pcap --packet 3", "why a packet matches or not"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new(
        "explain",
        "How a filter is evaluated: trie, split, graph, passes, code; or why a packet matched or not",
        |args: Args, _| run(&args),
    )
    .in_group(Group::Authors)
    .with_examples(EXAMPLES)
}

fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(place) = &args.packet {
        let input = Input { read: vec![split_place(place)?.0.into()], ..args.program.0.clone() };
        let needs = Needs::of(&input, &[args.question()?], None);
        sandbox::enter(&input, &needs, &Loader::default())?;
    }
    let mut run = prepare(args)?;
    let compiled = run.compile()?.clone();
    let catalog = run.set().compiler.catalog();
    let text = match (&args.packet, args.stage.as_deref()) {
        (Some(place), _) => {
            let (path, number) = split_place(place)?;
            let burst = find_packet(path, number)?;
            match args.stage.as_deref() {
                None => explain::packet(&compiled, catalog, &burst, number),
                Some(stage @ ("ir" | "opt")) => explain::trace(&compiled, catalog, &burst, stage),
                Some(other) => {
                    return Err(Failure::new(format!(
                        "--packet cannot be combined with --stage {other}, only with --stage ir or opt"
                    )));
                }
            }
        }
        (None, Some(stage)) => explain::stage(&compiled, catalog, stage),
        (None, None) => explain::overview(&compiled, catalog),
    };
    std::io::stdout().write_all(weir::packet::printable(&text, &['\n']).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The run that would answer the questions of a command.
fn prepare(args: &Args) -> Result<Run<'static>, Failure> {
    let settings = RunSettings { is_narrow: true, ..RunSettings::default() };
    let mut run = Run::new(&args.program.0, settings, &[])?;
    let mut spec = args.question()?;
    // The lines of packets need most fields of all layers, whatever the filter is.
    spec.count |= QuestionKinds::new(kinds::all()).get(&spec.ask)?.is_capturable;
    (spec.output, spec.format, spec.is_written) = (None, None, false);
    let questions = run.set().questions_of(&spec)?;
    run.show(questions)?;
    Ok(run)
}

fn split_place(place: &str) -> Result<(&str, u64), Failure> {
    let wrong =
        || Failure::new(format!("`{place}` is not of the form FILE:N; for example --packet capture.pcap:17"));
    let (path, number) = place.rsplit_once(':').ok_or_else(wrong)?;
    Ok((path, number.parse().map_err(|_| wrong())?))
}

/// The packet with this number, alone in a burst.
fn find_packet(path: &str, number: u64) -> Result<Burst, Failure> {
    let mut reader = CaptureReader::open(&[Path::new(path)]);
    let mut burst = Burst::default();
    loop {
        match reader.poll(&mut burst) {
            Ok(Poll::Packets | Poll::Idle { .. }) => {
                if let Some(index) = burst.packets.iter().position(|p| p.number == number) {
                    burst.packets = vec![burst.packets[index]];
                    return Ok(burst);
                }
            }
            Ok(Poll::End) => {
                return Err(Failure::new(format!(
                    "{path} has no packet {number}; it has {}",
                    reader.packets()
                )));
            }
            Err(error) => say!("weir: {error}"),
        }
    }
}
