//! `weir run`: answers several questions from a file in one pass over the captures. A control socket can add and remove
//! questions during the run.

use crate::args::Input;
use crate::ask::{self, Asked};
use crate::failure::Failure;
use crate::spec::{QuestionSpec, Stdout};
use crate::subcommand::Subcommand;
use crate::{input, output};
use clap::Args as ClapArgs;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use toml::Spanned;
use weir::io::Format;

/// Arguments of `run`.
#[derive(ClapArgs, Clone)]
#[command(after_help = questions(), mut_arg("read", |arg| arg.required(false)))]
struct Args {
    /// File with questions (see below)
    #[arg(value_name = "QUESTIONS.toml")]
    file: Option<PathBuf>,
    #[command(flatten)]
    input: Input,
    /// Listen on this socket for requests of `weir ctl`
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Print counters, memory by owner, and counts and cycles per stage to standard error at the end
    #[arg(long)]
    stats: bool,
}

fn questions() -> String {
    format!(
        "\
A file of questions:
  read = [\"capture.pcap\"]                # or -r
  [[question]]
  name = \"com\"                           # unique
  ask = \"tls\"                            # the name of a command that answers a question
  filter = 'tls.sni matches \"[.]com$\"'   # default: all traffic
  format = \"json\"                        # {}
  output = \"com.json\"                    # default: standard output

ask is flows, packets, streams, match, events, sessions, stats, files, x509 or a session
protocol. The output of packets may be a capture file (.pcap, .pcapng). Further options, as on the
command line, cutoff to flush for streams, too; `weir ctl` and `weir explain` take them as --set:
  match      patterns = ['user-agent: curl'], ignore_case = true, fixed_strings = true,
             matcher = \"rust\", context = 24, max_count = 1, streams = \"with\" (or \"without\"),
             cutoff = [\"dns:1k\", \"10k\"], priority = \"dns:9\", chunk = \"4k\", overlap = \"100\",
             flush = 1.5 (seconds)
  streams    digest = \"sha256\", files = \"DIR/\"
  events     events = [\"tcp.retransmission\"]",
        Format::labels()
    )
}

/// The subcommand.
pub fn command() -> Subcommand {
    let about =
        "Several questions in one pass, from a file; `weir ctl` adds and removes questions during the run";
    Subcommand::new("run", about, run)
}

/// The contents of a file of questions.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Questions {
    /// Capture files, if the command line names none.
    #[serde(default)]
    read: Vec<PathBuf>,
    /// Name of a stack, or a .weir file with one.
    #[serde(default)]
    stack: Option<String>,
    /// Number of workers, unless the command line sets it.
    #[serde(default, deserialize_with = "workers")]
    workers: Option<usize>,
    /// The questions as TOML. Each is deserialised separately, so that all mistakes can be reported.
    #[serde(default)]
    question: Vec<Spanned<toml::Table>>,
}

/// Number of workers, with the same bounds as on the command line.
fn workers<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    let value = i64::deserialize(value).ok().and_then(|number| usize::try_from(number).ok());
    let wanted = || D::Error::custom("`workers`: give a whole number of at least 1, for example 4");
    value.filter(|number| *number > 0).map(Some).ok_or_else(wanted)
}

impl Questions {
    /// The questions of a file, and the mistakes in the others.
    fn specs(&self, path: &Path, text: &str) -> (Vec<QuestionSpec>, Vec<Failure>) {
        let (mut specs, mut wrong) = (vec![], vec![]);
        for question in &self.question {
            match QuestionSpec::deserialize(question.get_ref().clone()) {
                Ok(spec) => specs.push(spec),
                Err(error) => {
                    let before = text.get(..question.span().start).unwrap_or_default();
                    let line =
                        before.lines().count() + usize::from(before.ends_with('\n') || before.is_empty());
                    let (path, error) = (path.display(), error.message().to_string());
                    wrong.push(Failure::new(format!("{path}: the question of line {line}: {error}")));
                }
            }
        }
        (specs, wrong)
    }
}

fn run(args: Args, all: &[Subcommand]) -> Result<ExitCode, Failure> {
    let (mut questions, mut specs, mut wrong) = (Questions::default(), vec![], vec![]);
    if let Some(path) = &args.file {
        let text = input::read_text(path)?;
        questions =
            toml::from_str(&text).map_err(|wrong| Failure::new(format!("{}: {wrong}", path.display())))?;
        (specs, wrong) = questions.specs(path, &text);
        let overwrites = |spec: &&QuestionSpec| {
            spec.output.as_ref().is_some_and(|out| output::file_id(out) == output::file_id(path))
        };
        wrong.extend(specs.iter().filter(overwrites).map(|spec| {
            let message = format!("{} is the file of questions: write to another file", path.display());
            Failure::new(message).of_question(&spec.name)
        }));
    }
    let mut input = args.input.clone();
    if input.read.is_empty() {
        input.read = questions.read.drain(..).map(PathBuf::into_os_string).collect();
    }
    if input.program.stack.is_empty() {
        input.program.stack.extend(questions.stack.take());
    }
    if input.workers == 1 {
        input.workers = questions.workers.unwrap_or(1);
    }
    if input.read.is_empty() {
        return Err(Failure::new("no input: give -r FILE, or `read = [\"FILE\"]` in the file of questions"));
    }
    if questions.question.is_empty() && args.control.is_none() {
        return Err(Failure::new("no question: give `[[question]]` in a file, or --control SOCKET"));
    }
    let asked = Asked {
        input: &input,
        specs: &specs,
        wrong,
        socket: args.control.as_deref(),
        stats: args.stats,
        stdout: Stdout::Shared,
    };
    Ok(ask::answer(asked, all)?.ran.status)
}
