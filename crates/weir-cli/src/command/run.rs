//! `weir run`: answers several questions from a file in one pass over the captures. A control socket can add
//! and remove questions during the run.

use crate::args::Input;
use crate::ask::{self, Asked};
use crate::compiled_in::{HAS_KAFKA, HAS_LUA};
use crate::failure::Failure;
use crate::file_options::Completable;
use crate::reload::{self, ReadAgain, Reload};
use crate::spec::{QuestionSpec, Stdout};
use crate::subcommand::{Group, Subcommand};
use crate::{input, output, words};
use clap::{ArgMatches, Args as ClapArgs, Command, FromArgMatches};
use serde::Deserialize;
use std::collections::BTreeMap;
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

/// The arguments of the command line, before those of a file complete them.
struct Given {
    args: Args,
    line: Completable,
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { args: Args::from_arg_matches(matches)?, line: Completable::new::<Args>(matches) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ClapArgs for Given {
    fn augment_args(command: Command) -> Command {
        Args::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Args::augment_args_for_update(command)
    }
}

fn questions() -> String {
    let formats = Format::labels();
    let kafka = if HAS_KAFKA { "kafka://BROKER/TOPIC, " } else { "" };
    let script = match HAS_LUA {
        true => "\n  script     script = \"FILE.lua\", arguments = [\"text\"]",
        false => "",
    };
    format!(
        "\
A file of questions:
  read = [\"capture.pcap\"]                # or -r; interface = [\"eth0\"] for a live capture
  idle_timeout = \"5m\"                    # every option above, with _ for -: policy = [\"bsd\"],
  memory = \"1G\"                          # workers = 4, bpf = true; the command line has precedence
  [[question]]
  name = \"com\"                           # unique
  ask = \"tls\"                            # the name of a command that answers a question
  filter = 'tls.sni matches \"[.]com$\"'   # default: all traffic
  format = \"json\"                        # {formats}
  output = \"com.json\"                    # default: standard output

ask is flows, packets, streams, follow, match, events, sessions, stats, overview, files, x509 or a
session protocol. Without `format`, the name of the output selects the format (.parquet, .csv …). The output of
packets may be a capture file (.pcap, .pcapng), or a connection (tcp-listen:PORT, tcp://HOST:PORT);
that of rows may be a receiver (ipfix://HOST:PORT, ipfix+tcp://…, syslog://…, syslog+tcp://…,
{kafka}clickhouse://HOST/TABLE). Further options, as on the command line; `weir ctl` and `weir explain`
take them as --set:
  all        rotate = \"1G,1h\", keep = 48 (files by size and time, the newest 48),
             count = true (only their number, to the output), csv_safe = true (CSV without formulas),
             spool = \"DIR\", spool_max = \"1G\", observation_domain = 7, sensor = \"NAME\", create = true (of rows that are sent),
             columns = [\"ts\", \"client\"], limit = 100, sort = \"-orig_bytes\", names = [\"dns\"];
             of tables: wide = true, local = true
  flows      ndpi = true (the columns of nDPI)
  match      patterns = ['user-agent: curl'], pattern_files = [\"FILE\"], ignore_case = true,
             fixed_strings = true, color = true (format = \"grep\"),
             matcher = \"rust\", context = 24, max_count = 1, streams = \"with\" (or \"without\")
  streams    digest = \"sha256\", files = \"DIR/\", files_max = \"1G/5000\"
  follow     uid = \"CAbc…\", as = \"hex\" (text, hex, raw; format = \"follow\"), decode = true;
             limit counts connections
  match, streams, follow
             cutoff = [\"dns:1k\", \"10k\"], priority = \"dns:9\", chunk = \"4k\", overlap = \"100\",
             flush = 1.5 (seconds)
  packets    detail = true, hex = true
  sessions, files, tls … (all protocols)
             all_rows = true (also beyond 8 bytes of rows for a byte of a connection's traffic)
  files      extract = \"DIR/\", extract_max = \"1G\"
  events     events = [\"tcp.retransmission\"]{script}"
    )
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("run questions.toml -r capture.pcap", "all questions of a file in one pass"),
    ("run questions.toml -r a.pcap b.pcap -j 4", "with four workers"),
    ("run --control /tmp/weir.sock -r capture.pcap", "questions come from weir ctl"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about =
        "Several questions in one pass, from a file; `weir ctl` adds and removes questions during the run";
    Subcommand::new("run", about, run).in_group(Group::Runs).with_examples(EXAMPLES)
}

/// The questions of a file as TOML. Each is deserialised separately, so that all mistakes can be reported.
#[derive(Debug, Default, Deserialize)]
struct Questions {
    #[serde(default)]
    question: Vec<Spanned<toml::Table>>,
}

/// A file of questions.
struct QuestionFile {
    path: PathBuf,
    text: String,
    questions: Questions,
    /// Options of the command line, each with the offset of its value.
    options: BTreeMap<String, Spanned<toml::Value>>,
}

/// The key of the questions.
const QUESTIONS: &str = "question";

impl QuestionFile {
    fn read(path: &Path) -> Result<Self, Failure> {
        let text = input::read_text(path)?;
        let wrong = |wrong| Failure::new(format!("{}: {wrong}", path.display()));
        let mut options: BTreeMap<String, Spanned<toml::Value>> = toml::from_str(&text).map_err(wrong)?;
        options.remove(QUESTIONS);
        let questions = toml::from_str(&text).map_err(wrong)?;
        Ok(Self { path: path.to_owned(), text, questions, options })
    }

    /// The questions, and the mistakes in the others.
    fn specs(&self) -> (Vec<QuestionSpec>, Vec<Failure>) {
        let (mut specs, mut wrong) = (vec![], vec![]);
        for question in &self.questions.question {
            match QuestionSpec::deserialize(question.get_ref().clone()) {
                Ok(spec) => specs.push(spec),
                Err(error) => {
                    let (line, error) = (self.line_of(question.span().start), error.message().to_string());
                    let path = self.path.display();
                    wrong.push(Failure::new(format!("{path}: the question of line {line}: {error}")));
                }
            }
        }
        (specs, wrong)
    }

    /// Adds the options to those of the command line, which has precedence.
    fn complete(&self, line: &Completable) -> Result<Args, Failure> {
        let wrong = |key: &str, value: &Spanned<toml::Value>, said: &str| {
            let (path, number) = (self.path.display(), self.line_of(value.span().start));
            Failure::new(format!("{path}: line {number}: `{key}`: {said}"))
        };
        let checked = self.options.iter().filter_map(|(key, value)| {
            line.check(key, value.get_ref()).err().map(|said| wrong(key, value, &said))
        });
        Failure::all(checked.collect())?;
        let options: Vec<_> =
            self.options.iter().map(|(key, value)| (key.clone(), value.get_ref().clone())).collect();
        line.complete(&options).map_err(|said| Failure::new(format!("{}: {said}", self.path.display())))
    }

    /// The line of the text at this offset, from 1.
    fn line_of(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    /// The mistake of a question that would overwrite the file.
    fn overwritten(&self, spec: &QuestionSpec) -> Option<Failure> {
        let own = output::file_id(&self.path);
        let is_own = spec.output.as_ref().is_some_and(|out| output::file_id(out) == own);
        is_own.then(|| {
            let message = format!("{} is the file of questions: write to another file", self.path.display());
            Failure::new(message).of_question(&spec.name)
        })
    }
}

/// Reads the questions of a file again. Options of the command line in it are checked, and apply at the next
/// start.
fn again(path: &Path, line: Completable) -> ReadAgain {
    // The working directory stays the same.
    let path = path.to_path_buf();
    Box::new(move || {
        let file = QuestionFile::read(&path)?;
        let (specs, mut wrong) = file.specs();
        wrong.extend(specs.iter().filter_map(|spec| file.overwritten(spec)));
        wrong.extend(file.complete(&line).err());
        Failure::all(wrong).map(|()| specs)
    })
}

fn run(given: Given, all: &[Subcommand]) -> Result<ExitCode, Failure> {
    let Given { mut args, line } = given;
    let (mut specs, mut wrong) = (vec![], vec![]);
    if let Some(path) = &args.file {
        let file = QuestionFile::read(path)?;
        (specs, wrong) = file.specs();
        wrong.extend(specs.iter().filter_map(|spec| file.overwritten(spec)));
        match file.complete(&line) {
            Ok(complete) => args = complete,
            Err(mistakes) => {
                wrong.push(mistakes);
                return Err(Failure::Several(wrong));
            }
        }
    }
    args.input.read = words::expand(&args.input.read)?;
    if args.input.read.is_empty() && args.input.interface.is_empty() {
        return Err(Failure::new(
            "no input: give -r FILE or -i INTERFACE, or `read = [\"FILE\"]` or `interface = [\"eth0\"]` in the file of questions",
        ));
    }
    if specs.is_empty() && wrong.is_empty() && args.control.is_none() {
        return Err(Failure::new("no question: give `[[question]]` in a file, or --control SOCKET"));
    }
    let read_again = match (&args.file, reload::applies(&args.input)) {
        (Some(path), true) => {
            reload::prepare()?;
            Some(Reload { file: path.display().to_string(), read_again: again(path, line) })
        }
        _ => None,
    };
    let asked = Asked {
        reload: read_again,
        input: &args.input,
        specs: &specs,
        wrong,
        socket: args.control.as_deref(),
        stats: args.stats,
        stdout: Stdout::Shared,
    };
    Ok(ask::answer(asked, all)?.ran.status)
}
