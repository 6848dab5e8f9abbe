//! `weir match`: the flags that grep has.

use crate::ask;
use crate::asking::Asking;
use crate::subcommand::Subcommand;
use crate::terminal::Colors;
use clap::Args as ClapArgs;
use std::io::IsTerminal;
use std::process::ExitCode;
use weir_questions::QuestionKind;
use weir_questions::kinds::GREP;
use weir_questions::messages::Failure;
use weir_questions::{QuestionSpec, StreamsShown};

/// Arguments that only this command has.
#[derive(ClapArgs)]
struct Own {
    /// Colours in grep's format; always also selects that format; auto: on a terminal
    #[arg(long, alias = "colour", value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    color: Colors,
    /// Print only the streams with matches, each once
    #[arg(short = 'l', long, conflicts_with = "without_match")]
    streams_with_matches: bool,
    /// Print only the streams without matches
    #[arg(short = 'L', long)]
    without_match: bool,
}

/// The subcommand.
pub fn command(kind: QuestionKind) -> Subcommand {
    Subcommand::asking_with(kind, &[], run).with_arguments(|command| {
        command
            .mut_arg("count", |arg| {
                arg.short('c').help("Print only the number of matches (with -l or -L: of streams)")
            })
            .mut_arg("output", |arg| {
                arg.help(
                    "Write matches to this file. parquet, arrow and packed also accept a directory (existing, or \
                     `DIR/`), with one file per hour. Or send them: syslog://HOST:PORT or syslog+tcp://HOST:PORT (a \
                     JSON message for each match)",
                )
            })
            .mut_arg("format", |arg| {
                arg.help(
                    "Format of matches. Default: grep (endpoints, offset, match; in colours) on a terminal, JSON \
                     lines otherwise",
                )
            })
    })
}

fn run(asking: Asking, own: Own) -> Result<ExitCode, Failure> {
    let mut asking = asking.settle()?;
    let spec = &asking.spec;
    if spec.patterns.is_empty() && spec.pattern_files.is_empty() && !spec.filter.is_empty() {
        let filter = &spec.filter;
        return Err(Failure::new(format!(
            "no pattern: `{filter}` is taken for the filter. A pattern follows -e: -e '{filter}'"
        )));
    }
    let is_stdout = spec.output.is_none();
    let is_terminal = is_stdout && std::io::stdout().is_terminal() && spec.columns.is_empty();
    let is_usual = is_terminal || own.color == Colors::Always && is_stdout;
    asking.spec = QuestionSpec {
        color: own.color.are_used(spec.output.as_deref()),
        format: spec.format.clone().or(is_usual.then(|| GREP.to_string())),
        streams: match (own.streams_with_matches, own.without_match) {
            (true, _) => Some(StreamsShown::With),
            (_, true) => Some(StreamsShown::Without),
            _ => None,
        },
        ..asking.spec
    };
    Ok(ask::answer(asking.asked())?.status_of_search())
}
