//! What a run reads, and how its program is compiled, from options by name.

use crate::args;
use crate::questions::mistake::Mistake;
use clap::{Args as _, FromArgMatches as _};
use serde_json::{Map, Value};
use std::ffi::OsString;

/// Options of the command's input that do not apply to other programs: those of its messages, its outputs and
/// its rights, and the input itself, which [`Input::of`] takes apart.
const OF_THE_COMMAND: &[&str] = &[
    "read",
    "interface",
    "monitor",
    "metrics",
    "allow-user",
    "group-read",
    "user",
    "write-to",
    "no-sandbox",
    "output-wait",
];

/// The input of a run.
pub struct Input(args::Input);

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("read", &self.0.read).field("interface", &self.0.interface).finish()
    }
}

impl Input {
    /// Captures (files and the other names that `weir -r` takes) or interfaces, with options of the command
    /// in `options`, an object of JSON: `{"stack": ["mine.weir"], "workers": 2, "idle_timeout": "5m"}`.
    /// `true` sets an option without a value; `null` and `false` are as if the option was not given.
    ///
    /// # Errors
    /// An option does not exist, or has another value than the command takes.
    pub fn of(read: Vec<OsString>, interfaces: Vec<String>, options: &str) -> Result<Self, Mistake> {
        let options: Map<String, Value> = serde_json::from_str(options).map_err(Mistake::new)?;
        let known = option_names();
        let mut words = vec![];
        for (key, value) in &options {
            let option = key.replace('_', "-");
            if !known.contains(&option) {
                let near = weir::lang::diag::suggest(key, known.iter().map(String::as_str));
                let all = || known.join(", ").replace('-', "_");
                let hint = near.map_or_else(all, |near| format!("is `{}` meant?", near.replace('-', "_")));
                return Err(Mistake::new(format!("there is no option `{key}` of the input: {hint}")));
            }
            add_words(&option, value, &mut words)?;
        }
        let matches = command().try_get_matches_from(words);
        let input = matches.and_then(|matches| args::Input::from_arg_matches(&matches));
        let mut input = input.map_err(|wrong| refusal(&wrong))?;
        (input.read, input.interface) = (read, interfaces);
        Ok(Self(input))
    }

    pub(super) fn into_args(self) -> args::Input {
        self.0
    }
}

fn command() -> clap::Command {
    args::Input::augment_args(clap::Command::new("weir").no_binary_name(true).disable_help_flag(true))
}

fn option_names() -> Vec<String> {
    let command = command();
    let all = command.get_arguments().filter_map(|argument| argument.get_long());
    all.filter(|name| !OF_THE_COMMAND.contains(name)).map(str::to_string).collect()
}

/// Adds an option as words of a command line.
fn add_words(option: &str, value: &Value, words: &mut Vec<String>) -> Result<(), Mistake> {
    match value {
        Value::Null | Value::Bool(false) => {}
        Value::Bool(true) => words.push(format!("--{option}")),
        Value::Number(number) => words.push(format!("--{option}={number}")),
        Value::String(text) => words.push(format!("--{option}={text}")),
        Value::Array(list) => return list.iter().try_for_each(|value| add_words(option, value, words)),
        Value::Object(_) => return Err(Mistake::new(format!("`{option}` is no table of options"))),
    }
    Ok(())
}

/// The message of a refused value, without advice on a command line.
fn refusal(wrong: &clap::Error) -> Mistake {
    let text = wrong.to_string();
    let text = text.split("\n\nFor more").next().unwrap_or_default();
    Mistake::new(text.strip_prefix("error: ").unwrap_or(text).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(options: &str) -> Result<args::Input, Mistake> {
        Input::of(vec!["a.pcap".into()], vec![], options).map(Input::into_args)
    }

    #[test]
    fn options_have_the_values_and_defaults_of_the_command() {
        let plain = input("{}").unwrap();
        assert_eq!((plain.workers, &*plain.mode, plain.program.bpf), (1, "fast", false));
        let options = r#"{"workers": 2, "stack": ["a.weir", "b"], "idle_timeout": "5m", "bpf": true, "follow": false, "mode": null}"#;
        let given = input(options).unwrap();
        assert_eq!((given.workers, given.idle_timeout, given.program.bpf), (2, Some(300.0), true));
        assert_eq!(given.program.stack, ["a.weir", "b"]);
        assert!(!given.follow && given.mode == "fast" && given.read == ["a.pcap"]);
    }

    #[test]
    fn refused_options_are_named_with_a_remedy() {
        let text = |options| input(options).err().map(|wrong| wrong.text).unwrap_or_default();
        assert_eq!(text(r#"{"worker": 2}"#), "there is no option `worker` of the input: is `workers` meant?");
        assert!(text(r#"{"metrics": ":0"}"#).contains("no option `metrics`"));
        assert!(text(r#"{"mode": "slow"}"#).contains("[possible values: strict, fast]"));
        assert!(text(r#"{"workers": 0}"#).starts_with("invalid value '0' for '--workers <N>'"));
    }
}
