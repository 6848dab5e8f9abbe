//! `weir explain`: what becomes of a filter, and why a packet matched or not.

use crate::args::Explain;
use crate::failure::Failure;
use crate::{input, terminal};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use weir::io::CaptureReader;
use weir::packet::{Burst, Poll, Source};
use weir::stream::StreamParams;
use weir::{Ask, Compiler, EventRows, Log, Need, Want, explain};

pub fn run(args: &Explain) -> Result<ExitCode, Failure> {
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

/// What the command of this name asks for.
fn asked(compiler: &Compiler, args: &Explain) -> Result<Ask, Failure> {
    let (mut filter, none) = (args.filter.clone(), Need::default());
    let (need, want) = match args.wants.as_str() {
        "packets" => (Need { packets: true, ..none }, Want::Packets),
        "flows" => (Need { service: true, ..none }, Want::Connections),
        "streams" => (Need { connections: true, ..none }, Want::Streams(StreamParams::default())),
        "events" => {
            // No names: all of them.
            let rows = EventRows::of(compiler.stack(), &[]).map_err(Failure::new)?;
            (Need { events: rows.asked, ..none }, Want::Events)
        }
        "sessions" => {
            let all = Log::all().iter().fold(0, |mask, log| mask | log.protocols);
            (none, Want::Sessions(all))
        }
        name => {
            let log = Log::of(name).ok_or_else(|| Failure::new(format!("there is no command `{name}`")))?;
            // What asks for columns of the log chooses rows, and is no part of the program.
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
