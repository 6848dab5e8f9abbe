//! `weir run`: answers several questions from a file in one pass over the captures. A control socket can add
//! and remove questions during the run.

use crate::ask::{self, Asked};
use crate::flags::{self, Flags};
use crate::reload::{self, ReadAgain, Reload};
use crate::subcommand::Subcommand;
use clap::{ArgMatches, Args as ClapArgs, Command, FromArgMatches};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use toml::{Spanned, Value};
use weir::lang::diag::suggest;
use weir_questions::Input;
use weir_questions::QuestionSpec;
use weir_questions::compiled_in::HAS_KAFKA;
use weir_questions::kinds;
use weir_questions::messages::Failure;
use weir_questions::options::{Declared, Options as _, Times, json_of, object_of};
use weir_questions::output::place;
use weir_questions::run::RunOptions;
use weir_questions::source::file_names;
use weir_questions::source::input;
use weir_questions::{COMMON_OPTIONS, Group, QuestionKinds};

/// Arguments of `run`.
#[derive(ClapArgs)]
struct Args {
    /// File with questions (see below)
    #[arg(value_name = "QUESTIONS.toml")]
    file: Option<PathBuf>,
    #[command(flatten)]
    options: Flags<RunOptions>,
    #[command(flatten)]
    input: Flags<Input>,
}

/// What a command line states, which options of a file can complete.
struct CommandLine {
    file: Option<PathBuf>,
    matches: ArgMatches,
}

impl FromArgMatches for CommandLine {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { file: Args::from_arg_matches(matches)?.file, matches: matches.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ClapArgs for CommandLine {
    fn augment_args(command: Command) -> Command {
        Args::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Args::augment_args_for_update(command)
    }
}

/// All options of a run.
#[derive(Default)]
struct Complete {
    own: RunOptions,
    input: Input,
}

impl Complete {
    /// Sets an option of a file.
    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let value = json_of(value)?;
        match (RunOptions::named(key), Input::named(key)) {
            (Some(option), _) => option.set_value(&mut self.own, &value),
            (None, Some(option)) => option.set_value(&mut self.input, &value),
            (None, None) => {
                let own = RunOptions::TABLE.iter().map(|option| option.name);
                let known: Vec<&str> = own.chain(Input::TABLE.iter().map(|option| option.name)).collect();
                let hint = match suggest(key, known.iter().copied()) {
                    Some(near) => format!("is `{near}` meant?"),
                    None => format!("there are {}, and [[question]]", known.join(", ")),
                };
                Err(format!("there is no option `{key}`: {hint}"))
            }
        }
    }

    /// Sets the options of the command line, which has precedence.
    fn apply_command_line(&mut self, matches: &ArgMatches) {
        flags::read_into(matches, &mut self.own).unwrap_or_else(|wrong| wrong.exit());
        flags::read_into(matches, &mut self.input).unwrap_or_else(|wrong| wrong.exit());
    }
}

fn questions() -> String {
    let kafka = if HAS_KAFKA { "kafka://BROKER/TOPIC, " } else { "" };
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
  format = \"json\"                        # `weir tls --help` lists the formats
  output = \"com.json\"                    # default: standard output

Without `format`, the name of the output selects the format (.parquet, .csv …). The output of
packets may be a capture file (.pcap, .pcapng), or a connection (tcp-listen:PORT, tcp://HOST:PORT);
that of rows may be a receiver (ipfix://HOST:PORT, ipfix+tcp://…, syslog://…, syslog+tcp://…,
{kafka}clickhouse://HOST/TABLE). `weir ctl` and `weir explain` take the options of
questions as --set, and `weir COMMAND --help` explains them:
{}",
        option_lines()
    )
}

/// The widest line of options.
const WIDTH_MAX: usize = 98;

/// The options of each type of question. Types with the same options share lines.
fn option_lines() -> String {
    let kinds = QuestionKinds::new(kinds::all());
    let mut groups: Vec<(Vec<&str>, &[&str])> = vec![(vec!["all"], COMMON_OPTIONS)];
    for kind in kinds.iter().filter(|kind| !kind.options.is_empty()) {
        match groups.iter_mut().find(|(_, options)| *options == kind.options) {
            Some((names, _)) => names.push(kind.name),
            None => groups.push((vec![kind.name], kind.options)),
        }
    }
    let mut text = String::new();
    for (names, options) in groups {
        let is_of_protocols = names
            .iter()
            .any(|name| kinds.iter().any(|kind| kind.name == *name && kind.group == Group::Protocols));
        let names = match names[..] {
            [first, second, ..] if is_of_protocols => format!("{first}, {second} … (all protocols)"),
            _ => names.join(", "),
        };
        text += &format!("  {names}\n");
        let mut line = String::new();
        let is_shown = |name: &&&str| !["name", "ask", "filter"].contains(*name);
        for option in options.iter().filter(is_shown).filter_map(|name| QuestionSpec::named(name)) {
            let word = format!("{} = {}, ", option.name, value_of(option));
            if !line.is_empty() && line.chars().count() + word.chars().count() > WIDTH_MAX {
                text += &format!("{}\n", line.trim_end());
                line.clear();
            }
            if line.is_empty() {
                line = "    ".to_string();
            }
            line += &word;
        }
        text += &format!("{}\n", line.trim_end().trim_end_matches(','));
    }
    text.trim_end().to_string()
}

/// The value of an option, as a file of questions has it.
fn value_of(option: &Declared<QuestionSpec>) -> String {
    let value = match option.known {
        [] if option.flag.is_flagless => "…".to_string(),
        [] => option.flag.value.to_string(),
        known => known.join("|"),
    };
    match option.times {
        Times::Switch => "true".to_string(),
        // A time may have a unit.
        Times::Once if option.is_number && !value.contains("TIME") => value,
        Times::Once => format!("\"{value}\""),
        Times::Several => format!("[\"{value}\"]"),
    }
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
    Subcommand::new("run", about, |line: CommandLine, _| run(&line))
        .with_after_help(questions())
        .in_group(Group::Runs)
        .with_examples(EXAMPLES)
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
            let given = object_of(question.get_ref());
            match given.and_then(|given| kinds::question(&given)) {
                Ok(spec) => specs.push(spec),
                Err(error) => {
                    let line = self.line_of(question.span().start);
                    let path = self.path.display();
                    wrong.push(Failure::new(format!("{path}: the question of line {line}: {error}")));
                }
            }
        }
        (specs, wrong)
    }

    /// The options of the file.
    fn options(&self) -> Result<Complete, Failure> {
        let mut complete = Complete::default();
        let mut wrong = vec![];
        for (key, value) in &self.options {
            if let Err(said) = complete.set(key, value.get_ref()) {
                let (path, line) = (self.path.display(), self.line_of(value.span().start));
                wrong.push(Failure::new(format!("{path}: line {line}: `{key}`: {said}")));
            }
        }
        Failure::all(wrong).map(|()| complete)
    }

    /// The line of the text at this offset, from 1.
    fn line_of(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    /// The mistake of a question that would overwrite the file.
    fn overwritten(&self, spec: &QuestionSpec) -> Option<Failure> {
        let own = place::file_id(&self.path);
        let is_own = spec.output.as_ref().is_some_and(|out| place::file_id(out) == own);
        is_own.then(|| {
            let message = format!("{} is the file of questions: write to another file", self.path.display());
            Failure::new(message).of_question(&spec.name)
        })
    }
}

/// Reads the questions of a file again. Options of the command line in it are checked, and apply at the next
/// start.
fn again(path: &Path) -> ReadAgain {
    // The working directory stays the same.
    let path = path.to_path_buf();
    Box::new(move || {
        let file = QuestionFile::read(&path)?;
        let (specs, mut wrong) = file.specs();
        wrong.extend(specs.iter().filter_map(|spec| file.overwritten(spec)));
        wrong.extend(file.options().err());
        Failure::all(wrong).map(|()| specs)
    })
}

fn run(line: &CommandLine) -> Result<ExitCode, Failure> {
    let (mut specs, mut wrong, mut complete) = (vec![], vec![], Complete::default());
    if let Some(path) = &line.file {
        let file = QuestionFile::read(path)?;
        (specs, wrong) = file.specs();
        wrong.extend(specs.iter().filter_map(|spec| file.overwritten(spec)));
        match file.options() {
            Ok(options) => complete = options,
            Err(mistakes) => {
                wrong.push(mistakes);
                return Err(Failure::Several(wrong));
            }
        }
    }
    complete.apply_command_line(&line.matches);
    let Complete { own, mut input } = complete;
    input.read = file_names::expand(&input.read)?;
    if input.read.is_empty() && input.interface.is_empty() {
        return Err(Failure::new(
            "no input: give -r FILE or -i INTERFACE, or `read = [\"FILE\"]` or `interface = [\"eth0\"]` in the file of questions",
        ));
    }
    if specs.is_empty() && wrong.is_empty() && own.control.is_none() {
        return Err(Failure::new("no question: give `[[question]]` in a file, or --control SOCKET"));
    }
    let reload = match (&line.file, reload::applies(&input)) {
        (Some(path), true) => {
            reload::prepare()?;
            Some(Reload { file: path.display().to_string(), read_again: again(path) })
        }
        _ => None,
    };
    let socket = own.control.as_deref();
    let asked = Asked { reload, wrong, socket, stats: own.stats, ..Asked::of(&input, &specs) };
    Ok(ask::answer(asked)?.status)
}
