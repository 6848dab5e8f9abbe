//! `weir explain`: the stages of a filter, and why a packet matches or not.

use crate::args::Program;
use crate::failure::Failure;
use crate::subcommand::Subcommand;
use crate::{input, terminal};
use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use weir::io::CaptureReader;
use weir::packet::{Burst, Poll, Source};
use weir::sessions::SessionRegistry;
use weir::stream::StreamParams;
use weir::{Ask, Compiler, EventRows, Log, Need, Want, explain};

/// Arguments of `explain`.
#[derive(ClapArgs)]
struct Args {
    /// The filter
    #[arg(default_value = "")]
    filter: String,
    /// Type of data, by the name of its command: packets, flows, sessions, streams, events, or a log such as
    /// tls
    #[arg(long, value_name = "WHAT", default_value = "packets", value_parser = wanted(), hide_possible_values = true)]
    wants: String,
    /// Show only one stage
    #[arg(long, value_name = "STAGE", value_parser = ["parse", "trie", "ir", "opt", "fast-path", "code"])]
    stage: Option<String>,
    /// Explain why packet N of a capture file (`-`: standard input) matches or not, layer by layer, with the
    /// decisive bytes; with --stage ir or opt: the packet's path through the graph
    #[arg(long, value_name = "FILE:N", allow_hyphen_values = true)]
    packet: Option<String>,
    #[command(flatten)]
    program: Program,
}

/// The subcommand.
pub fn command() -> Subcommand {
    Subcommand::new(
        "explain",
        "How a filter is evaluated: trie, split, graph, passes, code; or why a packet matched or not",
        |args: Args, _| run(&args),
    )
}

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let compiler = input::compiler(&args.program.stack)?;
    let options = input::options(&args.program, None)?;
    let ask = asked(&compiler, args)?;
    let compiled = compiler.compile(&[ask], &options)?;
    if !compiled.warnings().list.is_empty() {
        say!("{}", compiled.warnings().render(terminal::stderr_color()));
    }
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
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The types of data, by command name.
fn wanted() -> PossibleValuesParser {
    let registry = SessionRegistry::builtin();
    let logs = registry.names(registry.all()).chain(Log::of_parts(registry).map(|log| log.ask));
    ["packets", "flows", "sessions", "streams", "events"].into_iter().chain(logs).collect::<Vec<_>>().into()
}

/// The question of the command with this name.
fn asked(compiler: &Compiler, args: &Args) -> Result<Ask, Failure> {
    let (mut filter, none) = (args.filter.clone(), Need::default());
    let (need, want) = match args.wants.as_str() {
        "packets" => (Need { packets: true, ..none }, Want::Packets),
        "flows" => (Need { service: true, ..none }, Want::Connections),
        "streams" => (Need { connections: true, ..none }, Want::Streams(StreamParams::default())),
        "events" => {
            // No names select all events.
            let rows = EventRows::of(compiler.stack(), &[]).map_err(Failure::new)?;
            (Need { events: rows.asked, ..none }, Want::Events)
        }
        "sessions" => (none, Want::Sessions(compiler.sessions().all())),
        name => {
            let log = Log::of(compiler.sessions(), name)
                .ok_or_else(|| Failure::new(format!("there is no command `{name}`")))?;
            // Conditions on columns of the log filter rows; they are not part of the program.
            filter = log.split_filter(compiler, &args.filter, args.program.bpf)?.0;
            (none, Want::Sessions(log.asked()))
        }
    };
    Ok(Ask { filter, need, want })
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
