//! Flags of the command line, made of the tables of options ([`weir_questions::options`]).

use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::ffi::OsStr;
use std::path::PathBuf;
use weir::io::Format;
use weir_questions::options::{Declared, Options, Times};

/// All options of a type, as arguments of a command.
#[derive(Debug, Clone)]
pub struct Flags<T>(pub T);

impl<T: Options> Args for Flags<T> {
    fn augment_args(command: Command) -> Command {
        add(command, T::TABLE)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Options> FromArgMatches for Flags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        read(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Some options of a type.
pub trait Subset {
    /// The type.
    type Options: Options;
    /// The names of the options.
    const NAMES: &'static [&'static str];
}

/// Some options of a type, as arguments of a command.
pub struct Part<S: Subset>(pub S::Options);

impl<S: Subset> Args for Part<S> {
    fn augment_args(command: Command) -> Command {
        add(command, S::Options::TABLE.iter().filter(|option| S::NAMES.contains(&option.name)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Subset> FromArgMatches for Part<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        read(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Adds the flags of these options to a command.
pub fn add<T: Options>(command: Command, options: impl IntoIterator<Item = &'static Declared<T>>) -> Command {
    let flags = options.into_iter().filter(|option| !option.flag.is_flagless);
    flags.fold(command, |command, option| command.arg(arg(option)))
}

/// The flag of an option.
fn arg<T: Options>(option: &'static Declared<T>) -> Arg {
    let flag = &option.flag;
    let mut arg = Arg::new(option.name).long(option.long_name()).help(option.text()).hide(flag.is_hidden);
    if let Some(short) = flag.short {
        arg = arg.short(short);
    }
    if let Some(alias) = flag.alias {
        arg = arg.alias(alias);
    }
    if !option.group.is_empty() {
        arg = arg.help_heading(option.group);
    }
    if let Some(needs) = flag.needs {
        arg = arg.requires(needs);
    }
    arg = match option.times {
        Times::Switch => return arg.action(ArgAction::SetTrue),
        Times::Once => arg.action(ArgAction::Set),
        Times::Several => arg.action(ArgAction::Append),
    };
    if flag.takes_all {
        arg = arg.num_args(1..);
    }
    if let Some(separator) = flag.separator {
        arg = arg.value_delimiter(separator);
    }
    if let Some(word) = option.default_word() {
        arg = arg.default_value(word);
    }
    arg = match option.known {
        [] => arg
            .value_parser(OsStringValueParser::new().try_map(move |word| option.check(&word).map(|()| word))),
        known => arg.value_parser(PossibleValuesParser::new(known)),
    };
    arg.value_name(flag.value)
        .allow_hyphen_values(flag.takes_minus)
        .allow_negative_numbers(option.is_number && !flag.takes_minus)
}

/// The options that a command line states.
///
/// # Errors
/// The parser of clap has accepted what an option refuses.
pub fn read<T: Options>(matches: &ArgMatches) -> Result<T, clap::Error> {
    let mut options = T::default();
    read_into(matches, &mut options).map(|()| options)
}

/// Sets the options that a command line states.
///
/// # Errors
/// As [`read`].
pub fn read_into<T: Options>(matches: &ArgMatches, options: &mut T) -> Result<(), clap::Error> {
    // Arguments of the command's own may have the name of an option without a flag.
    let of_flags = T::TABLE.iter().filter(|option| !option.flag.is_flagless);
    for option in of_flags.filter(|option| is_given(matches, option.name)) {
        option.clear(options);
        let wrong = |text: String| clap::Error::raw(clap::error::ErrorKind::ValueValidation, text);
        if option.times == Times::Switch {
            option.set(options, OsStr::new("true")).map_err(wrong)?;
            continue;
        }
        let words = matches.get_raw(option.name).into_iter().flatten();
        words.into_iter().try_for_each(|word| option.set(options, word)).map_err(wrong)?;
    }
    Ok(())
}

/// Whether the command has this argument, and its line states it.
pub fn is_given(matches: &ArgMatches, name: &str) -> bool {
    matches.try_contains_id(name).unwrap_or(false)
        && matches.value_source(name) == Some(ValueSource::CommandLine)
}

/// The output file; `-` is standard output.
pub fn file_named(output: Option<PathBuf>) -> Option<PathBuf> {
    output.filter(|path| path.as_os_str() != "-")
}

/// The formats of rows, and those that only one type of question has.
pub fn formats(own: &[&'static str]) -> PossibleValuesParser {
    let formats = Format::ALL.iter().map(|format| PossibleValue::new(format.label()).help(format.doc()));
    own.iter().map(PossibleValue::new).chain(formats).collect::<Vec<_>>().into()
}

/// The flag that prints counters.
pub fn stats() -> Arg {
    let text =
        "Print counters, memory by owner, and counts and cycles per stage to standard error at the end";
    Arg::new("stats").long("stats").help(text).help_heading("Output").action(ArgAction::SetTrue)
}
