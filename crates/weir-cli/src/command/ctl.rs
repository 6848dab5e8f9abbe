//! `weir ctl`: adds, lists, changes and removes questions of an active `weir run --control SOCKET`.

use crate::flags::formats;
use crate::question_options::{QuestionOptions, Settings};
use crate::subcommand::Subcommand;
use crate::terminal;
use clap::Args as ClapArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use weir::packet::{Batch, Column, Value, ValueType};
use weir_questions::Group;
use weir_questions::QuestionSpec;
use weir_questions::messages::Failure;
use weir_questions::run::control::{self, Request};

/// Arguments of `ctl`.
#[derive(ClapArgs, Clone)]
struct Args {
    /// Socket of `weir run --control`
    socket: PathBuf,
    /// The request.
    #[command(subcommand)]
    command: RequestArgs,
}

/// The requests of `weir ctl`.
#[derive(clap::Subcommand, Clone)]
enum RequestArgs {
    /// Add a question
    Add(AddArgs),
    /// List the questions
    List,
    /// Change the instances to which a question sends its packets; no packet is lost or sent twice
    Change {
        /// Name of the question
        name: String,
        /// The instances: udp://HOST:PORT,HOST:PORT
        #[arg(short = 'o', long = "output", value_name = "udp://…")]
        output: PathBuf,
    },
    /// Remove a question and complete its file
    Remove {
        /// Name of the question
        name: String,
    },
}

/// Arguments of `ctl add`.
#[derive(ClapArgs, Clone)]
struct AddArgs {
    /// Name of the question
    name: String,
    /// Type of data: flows, packets, streams, follow, match, events, sessions, stats, overview, a session
    /// protocol, files, x509
    ask: String,
    /// Filter. Default: all traffic
    filter: Option<String>,
    /// For match: a pattern (may be given several times)
    #[arg(short = 'e', long = "regexp", value_name = "REGEX")]
    patterns: Vec<String>,
    /// Format of rows. Default: json
    #[arg(long, value_name = "FORMAT", value_parser = formats(&[]))]
    format: Option<String>,
    /// File for the rows (parquet, arrow and packed: or a directory). Default: standard output of the run
    #[arg(short = 'o', long = "output", value_name = "FILE|DIR/")]
    output: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

impl AddArgs {
    /// The question.
    fn question(&self) -> Result<QuestionSpec, Failure> {
        let mut options = QuestionOptions::default();
        options.add("name", self.name.as_str());
        options.add("ask", self.ask.as_str());
        self.filter.iter().for_each(|filter| options.add("filter", filter.as_str()));
        self.patterns.iter().for_each(|pattern| options.add("patterns", pattern.as_str()));
        self.format.iter().for_each(|format| options.add("format", format.as_str()));
        self.output.iter().try_for_each(|path| options.add_path("output", path))?;
        options.add_settings(&self.settings)?;
        options.question()
    }
}

/// Examples of command lines.
const EXAMPLES: &[(&str, &str)] = &[
    ("ctl /tmp/weir.sock add names tls 'tls.sni contains \"example\"' -o names.json", "adds a question"),
    ("ctl /tmp/weir.sock list", "the questions of the run"),
    ("ctl /tmp/weir.sock change front -o udp://10.0.0.2:9000,10.0.0.3:9000", "other instances"),
    ("ctl /tmp/weir.sock remove names", "removes it and completes its file"),
];

/// The subcommand.
pub fn command() -> Subcommand {
    let about = "Add, list, change and remove questions of an active `weir run --control SOCKET`";
    Subcommand::new("ctl", about, |args: Args, _| run(args)).in_group(Group::Runs).with_examples(EXAMPLES)
}

const COLUMNS: &[Column] = &[
    Column::new("name", ValueType::Text, "name of the question"),
    Column::new("ask", ValueType::Text, "requested data"),
    Column::new("filter", ValueType::Text, "filter of the question"),
    Column::new("output", ValueType::Text, "output of the rows"),
];

fn run(args: Args) -> Result<ExitCode, Failure> {
    let request = match &args.command {
        RequestArgs::Add(add) => Request::Add { question: Box::new(add.question()?) },
        RequestArgs::List => Request::List,
        RequestArgs::Change { name, output } => {
            Request::Change { name: name.clone(), output: output.clone() }
        }
        RequestArgs::Remove { name } => Request::Remove { name: name.clone() },
    };
    let answer = control::ask(&args.socket, &request)?;
    answer.note.iter().for_each(|note| say!("weir: {note}"));
    if let Some(micros) = answer.micros.filter(|_| !matches!(request, Request::List)) {
        say!("done in {:.1} ms", micros as f64 / 1e3);
        return Ok(ExitCode::SUCCESS);
    }
    let mut sink = terminal::listing(None)?;
    sink.begin(COLUMNS)?;
    let mut rows = Batch::new(COLUMNS.len());
    for question in &answer.questions {
        let text = |text: &str| Value::Text(text.to_string().into());
        let path = question.output.as_ref().map_or(Value::Absent, |path| text(&path.display().to_string()));
        rows.push(&[text(&question.name), text(&question.ask), text(&question.filter), path]);
    }
    sink.batch(&rows)?;
    sink.end()?;
    Ok(ExitCode::SUCCESS)
}
