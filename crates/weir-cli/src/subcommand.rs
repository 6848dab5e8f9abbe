//! What a subcommand is: its arguments, the function that runs it, and, where it answers a question about
//! traffic, the type of that question. Each file of `command` declares its own; `command/mod.rs` lists them.

use crate::asking::Asking;
use crate::flags::formats;
use clap::{ArgMatches, Args, FromArgMatches};
use std::borrow::Cow;
use std::process::ExitCode;
use weir::io::CaptureFormat;
use weir_questions::messages::Failure;
use weir_questions::{Group, QuestionKind};

/// A subcommand.
pub struct Subcommand {
    /// The name, as typed.
    pub name: &'static str,
    /// One line for the list of subcommands.
    pub about: Cow<'static, str>,
    /// The group in the list of commands.
    pub group: Group,
    /// This build lacks the subcommand: it is not in the help, and fails with a message.
    pub is_hidden: bool,
    /// Command lines at the end of the help, each with what it does.
    examples: Vec<(String, String)>,
    /// Text below the options in the help, before the examples.
    after_help: Option<String>,
    arguments: Box<dyn Fn(clap::Command) -> clap::Command>,
    run: Box<Run>,
}

/// A subcommand that asks a question has no arguments of its own.
#[derive(Args)]
pub struct NoArgs {}

type Run = dyn Fn(&ArgMatches, &[Subcommand]) -> Result<ExitCode, Failure>;

impl Subcommand {
    /// A subcommand that calls `run` with its arguments and the list of all subcommands.
    pub fn new<A: Args + FromArgMatches + 'static>(
        name: &'static str,
        about: impl Into<Cow<'static, str>>,
        run: impl Fn(A, &[Subcommand]) -> Result<ExitCode, Failure> + 'static,
    ) -> Self {
        let run = move |matches: &ArgMatches, all: &[Subcommand]| {
            run(A::from_arg_matches(matches).unwrap_or_else(|wrong| wrong.exit()), all)
        };
        let (about, arguments) = (about.into(), Box::new(A::augment_args));
        let (group, examples) = (Group::Everyday, vec![]);
        let (is_hidden, after_help, run) = (false, None, Box::new(run));
        Self { name, about, group, is_hidden, examples, after_help, arguments, run }
    }

    /// A subcommand that asks a question of this type: its flags are the options of the type.
    pub fn asking(kind: QuestionKind) -> Self {
        Self::asking_with(kind, &[], |asking: Asking, _: NoArgs| asking.answer())
    }

    /// As [`asking`](Self::asking), with arguments of its own, which `run` receives, and without flags for
    /// the options of all types that are named in `left_out`.
    pub fn asking_with<A: Args + FromArgMatches + 'static>(
        kind: QuestionKind,
        left_out: &'static [&'static str],
        run: impl Fn(Asking, A) -> Result<ExitCode, Failure> + 'static,
    ) -> Self {
        let (name, missing) = (kind.name, kind.missing);
        let both = move |matches: &ArgMatches, _: &[Subcommand]| {
            if let Some(why) = missing {
                return Err(Failure::new(why));
            }
            let own = A::from_arg_matches(matches).unwrap_or_else(|wrong| wrong.exit());
            run(Asking::of(name, matches), own)
        };
        let arguments = {
            let kind = kind.clone();
            move |command| {
                Self::with_formats(A::augment_args(Asking::arguments(command, &kind, left_out)), &kind)
            }
        };
        Self {
            name,
            about: kind.about,
            group: kind.group,
            examples: kind.examples,
            is_hidden: kind.missing.is_some(),
            after_help: kind.notes,
            arguments: Box::new(arguments),
            run: Box::new(both),
        }
    }

    /// The formats that questions of this type have.
    fn with_formats(command: clap::Command, kind: &QuestionKind) -> clap::Command {
        let own: Vec<&'static str> = match kind.is_capturable {
            true => CaptureFormat::LABELS.to_vec(),
            false => kind.own_format.into_iter().collect(),
        };
        command.mut_arg("format", |format| format.value_parser(formats(&own)))
    }

    /// Changes arguments: the texts and letters that differ from those of other commands.
    pub fn with_arguments(self, change: fn(clap::Command) -> clap::Command) -> Self {
        let before = self.arguments;
        Self { arguments: Box::new(move |command| change(before(command))), ..self }
    }

    /// Sets the group in the list of commands.
    pub fn in_group(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// Sets the examples at the end of the help: command lines without `weir`, and what they do.
    pub fn with_examples<T: AsRef<str>>(self, examples: &[(T, T)]) -> Self {
        let owned = |(line, what): &(T, T)| (line.as_ref().to_string(), what.as_ref().to_string());
        Self { examples: examples.iter().map(owned).collect(), ..self }
    }

    /// Sets the text below the options in the help.
    pub fn with_after_help(self, text: String) -> Self {
        Self { after_help: Some(text), ..self }
    }

    /// The clap command of the subcommand, without its arguments: for a run of another one.
    pub fn unbuilt(&self) -> clap::Command {
        clap::Command::new(self.name).about(self.about.to_string()).hide(self.is_hidden)
    }

    /// The clap command of the subcommand.
    pub fn command(&self) -> clap::Command {
        let command = clap::Command::new(self.name);
        let mut command = (self.arguments)(command).about(self.about.to_string()).hide(self.is_hidden);
        // As in grep, `-i` of `match` ignores case; the interface then has no letter.
        let takes_letter =
            |arg: &clap::Arg| arg.get_short() == Some('i') && arg.get_id().as_str() != "interface";
        if command.get_arguments().any(takes_letter) {
            command = command.mut_arg("interface", |interface| interface.short(None));
        }
        let mut text = self.after_help.clone().unwrap_or_default();
        if !self.examples.is_empty() {
            let width = self.examples.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
            text += if text.is_empty() { "Examples:" } else { "\n\nExamples:" };
            for (line, what) in &self.examples {
                let padding = " ".repeat(width - line.chars().count());
                text += &format!("\n  weir {line}{padding}  {what}");
            }
        }
        if text.is_empty() { command } else { command.after_help(text) }
    }

    /// Runs the subcommand; returns its exit status.
    pub fn run(&self, matches: &ArgMatches, all: &[Subcommand]) -> Result<ExitCode, Failure> {
        (self.run)(matches, all)
    }
}
