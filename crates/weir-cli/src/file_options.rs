//! Options of a command line in a file of TOML: each long option is a key, with `_` instead of `-`, and its
//! value is parsed as on the command line. An option that is added to the command line is therefore also one
//! of the file.

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use toml::Value;

/// The arguments of a command line, which options of a file can complete.
pub struct Completable {
    matches: ArgMatches,
    command: Command,
}

/// The words of a command line that state an argument.
type Words = Vec<OsString>;

impl Completable {
    /// The arguments `matches` of type `A`.
    pub fn new<A: Args>(matches: &ArgMatches) -> Self {
        // No subcommand's own checks apply: the file may state an argument that the command line requires.
        let mut command = A::augment_args(Command::new("weir").no_binary_name(true));
        command.build();
        Self { matches: matches.clone(), command }
    }

    /// The keys that a file may have.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        self.command.get_arguments().filter(|arg| arg.get_id() != "help").filter_map(key_of)
    }

    /// Checks an option of the file.
    ///
    /// # Errors
    /// The values that the option accepts.
    pub fn check(&self, key: &str, value: &Value) -> Result<(), String> {
        let arg = self.arg(key)?;
        let parsed = self.command.clone().try_get_matches_from(words_of(arg, value)?);
        parsed.map(drop).map_err(|wrong| wanted(&wrong))
    }

    /// All arguments: those of the command line, then the options of the file that it does not state.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn complete<A: Args + FromArgMatches>(&self, options: &[(String, Value)]) -> Result<A, String> {
        let mut words = Words::new();
        for arg in self.command.get_arguments() {
            let is_given = self.matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
            let in_file = options.iter().find(|(key, _)| key_of(arg).as_ref() == Some(key));
            match in_file {
                _ if is_given => words.extend(self.given(arg)),
                Some((_, value)) => words.extend(words_of(arg, value)?),
                None => {}
            }
        }
        let matches = self.command.clone().try_get_matches_from(words).map_err(|wrong| wanted(&wrong))?;
        A::from_arg_matches(&matches).map_err(|wrong| wanted(&wrong))
    }

    fn arg(&self, key: &str) -> Result<&Arg, String> {
        let mut known = self.command.get_arguments().filter(|arg| arg.get_id() != "help");
        known.find(|arg| key_of(arg).as_deref() == Some(key)).ok_or_else(|| {
            let keys: Vec<String> = self.keys().collect();
            format!("there is no option `{key}`; there are {}, and [[question]]", keys.join(", "))
        })
    }

    /// The words of an argument that the command line states.
    fn given(&self, arg: &Arg) -> Words {
        let id = arg.get_id().as_str();
        if !takes_value(arg) {
            return option(arg, None).into_iter().collect();
        }
        let values = self.matches.get_raw(id).into_iter().flatten();
        values.filter_map(|value| option(arg, Some(value))).collect()
    }
}

/// The key of an argument: its long name. Arguments without one, such as files, have no key.
fn key_of(arg: &Arg) -> Option<String> {
    arg.get_long().map(|long| long.replace('-', "_"))
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// A word that states an argument: `--long=value`, `--long`, or the value of an argument without a name.
fn option(arg: &Arg, value: Option<&OsStr>) -> Option<OsString> {
    let Some(long) = arg.get_long() else { return value.map(OsStr::to_owned) };
    let mut word = OsString::from(format!("--{long}"));
    if let Some(value) = value {
        word.push("=");
        word.push(value);
    }
    Some(word)
}

/// The words that state a value of the file.
fn words_of(arg: &Arg, value: &Value) -> Result<Words, String> {
    if !takes_value(arg) {
        return match value {
            Value::Boolean(true) => Ok(option(arg, None).into_iter().collect()),
            Value::Boolean(false) => Ok(vec![]),
            _ => Err("give true or false".to_string()),
        };
    }
    let may_repeat = matches!(arg.get_action(), ArgAction::Append);
    let values = match value {
        Value::Array(values) if may_repeat => &values[..],
        Value::Array(_) => return Err("give one value".to_string()),
        one => std::slice::from_ref(one),
    };
    values.iter().map(|value| word_of(arg, value)).collect()
}

fn word_of(arg: &Arg, value: &Value) -> Result<OsString, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        _ => return Err("give a text or a number".to_string()),
    };
    option(arg, Some(OsStr::new(&text))).ok_or_else(|| "give it on the command line".to_string())
}

/// The part of a usage error that says which values are accepted.
fn wanted(wrong: &clap::Error) -> String {
    if let Some(source) = wrong.source() {
        return source.to_string();
    }
    match wrong.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(known)) if !known.is_empty() => {
            format!("give one of {}", known.join(", "))
        }
        _ => {
            let text = wrong.to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Args)]
    struct Options {
        file: Option<String>,
        #[arg(short = 'j', long, default_value_t = 1)]
        workers: u8,
        #[arg(long)]
        policy: Vec<String>,
        #[arg(long, value_parser = ["strict", "fast"], default_value = "fast")]
        mode: String,
        #[arg(long)]
        bpf: bool,
        #[arg(long, allow_hyphen_values = true)]
        idle_timeout: Option<f64>,
    }

    fn of(line: &[&str]) -> Completable {
        let command = Options::augment_args(Command::new("test").no_binary_name(true));
        Completable::new::<Options>(&command.try_get_matches_from(line).expect("a command line"))
    }

    fn options(text: &str) -> Vec<(String, Value)> {
        toml::from_str::<toml::Table>(text).expect("a table").into_iter().collect()
    }

    const FILE: &str = "workers = 4\npolicy = ['bsd', '10.0.0.0/8:windows']\nmode = 'strict'\nbpf = true\n\
                        idle_timeout = -1.5\n";

    #[test]
    fn the_file_states_what_the_command_line_leaves_open() {
        let line = of(&["q.toml", "-j", "2", "--policy", "linux"]);
        let both: Options = line.complete(&options(FILE)).expect("it is right");
        assert_eq!((both.file.as_deref(), both.workers, both.bpf), (Some("q.toml"), 2, true));
        assert_eq!((&both.policy[..], both.mode.as_str()), (&["linux".to_string()][..], "strict"));
        assert_eq!(both.idle_timeout, Some(-1.5));
        let file: Options = of(&[]).complete(&options(FILE)).expect("it is right");
        assert_eq!((file.workers, file.policy.len()), (4, 2));
        // The command line has precedence even if it states the default.
        let stated: Options = of(&["-j", "1"]).complete(&options(FILE)).expect("it is right");
        assert_eq!(stated.workers, 1);
    }

    #[test]
    fn values_are_checked_as_on_the_command_line() {
        let line = of(&[]);
        for (text, wanted) in [
            ("workers = 'many'", "invalid digit"),
            ("workers = [1, 2]", "give one value"),
            ("workers = true", "give a text or a number"),
            ("mode = 'slow'", "give one of strict, fast"),
            ("bpf = 1", "give true or false"),
            ("file = 'x'", "there is no option `file`; there are workers, policy, mode, bpf, idle_timeout"),
            ("timeout = 1", "there is no option `timeout`"),
        ] {
            let option = &options(text)[0];
            let said = line.check(&option.0, &option.1).expect_err(text);
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }
}
