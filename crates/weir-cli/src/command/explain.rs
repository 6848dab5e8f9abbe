//! `weir explain`: the stages of a filter, and why a packet matches or not.

use crate::failure::Failure;
use crate::flags::{Part, Subset};
use crate::form::Form;
use crate::input_options::Input;
use crate::kind::{Context, Group, QuestionKinds};
use crate::kinds;
use crate::outlets::Outlets;
use crate::question_options::{QuestionOptions, Settings};
use crate::spec::QuestionSpec;
use crate::subcommand::Subcommand;
use crate::{input, runner};
use clap::Args as ClapArgs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use weir::Limits;
use weir::io::{CaptureReader, Findings, Format, Patience};
use weir::packet::{Burst, Poll, Source};
use weir::{Compiled, Compiler, Engine, Item, Next, TakeItems, explain};

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
    let (compiler, compiled) = compile(args)?;
    runner::warn(&compiled);
    let catalog = compiler.catalog();
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

/// The program that answers the questions of a command.
fn compile(args: &Args) -> Result<(Compiler, Compiled), Failure> {
    let compiler = input::compiler(&args.program.0.stack)?;
    let options =
        weir::Options { narrow: true, limits: Limits::default(), ..input::options(&args.program.0)? };
    let (spec, kinds) = (args.question()?, QuestionKinds::new(kinds::all()));
    let kind = kinds.get(&spec.ask)?;
    kind.check_options(&spec)?;
    // The lines of packets need most fields of all layers, whatever the filter is.
    let form = if kind.is_capturable { Form::Count } else { Form::Rows(Format::Json) };
    let findings = Findings::default();
    let outlets = Outlets::with(Patience::unlimited(), false);
    let context = Context {
        compiler: &compiler,
        bpf: args.program.0.bpf,
        findings: &findings,
        form: &form,
        inputs: vec![],
        captures: &[],
        outlets: &outlets,
        memory_max: usize::MAX,
        file_contents: None,
        extraction: None,
    };
    let resolved = (kind.resolve)(&spec, &context)?;
    let mut engine = Engine::with(compiler.clone(), options);
    engine.subscribe_questions(resolved.questions, NoRun)?;
    let compiled = engine.compile()?;
    Ok((compiler, compiled))
}

/// Receives nothing: the program is only shown.
struct NoRun;

impl TakeItems for NoRun {
    fn take(&mut self, _: usize, _: Item<'_>) -> Next {
        Next::End
    }
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
