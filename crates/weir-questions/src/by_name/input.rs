//! What a run reads, and how its program is compiled, from options by name.

use crate::Input;
use crate::by_name::mistake::Mistake;
use crate::options::{Declared, Options as _};
use serde_json::{Map, Value};
use std::ffi::OsString;

/// Captures (files and the other names that `weir -r` takes) or interfaces, with options of the command in
/// `options`, an object of JSON: `{"stack": ["mine.weir"], "workers": 2, "idle_timeout": "5m"}`. `null` is
/// as if the option was not given.
///
/// # Errors
/// An option does not exist, or has another value than the command takes.
pub fn input(read: Vec<OsString>, interfaces: Vec<String>, options: &str) -> Result<Input, Mistake> {
    let options: Map<String, Value> = serde_json::from_str(options).map_err(Mistake::new)?;
    let mut input = Input { read, interface: interfaces, ..Input::default() };
    for (name, value) in &options {
        let option = known().find(|option| option.name == name).ok_or_else(|| unknown(name))?;
        option.set_value(&mut input, value).map_err(|wrong| Mistake::new(format!("`{name}`: {wrong}")))?;
    }
    Ok(input)
}

/// The options that are not about the command's messages, outputs and rights, nor name the input.
fn known() -> impl Iterator<Item = &'static Declared<Input>> {
    let all = Input::TABLE.iter();
    all.filter(|option| !option.is_of_command && !matches!(option.name, "read" | "interface"))
}

fn unknown(name: &str) -> Mistake {
    let names: Vec<&str> = known().map(|option| option.name).collect();
    let near = weir::lang::diag::suggest(name, names.iter().copied());
    let hint = near.map_or_else(|| names.join(", "), |near| format!("is `{near}` meant?"));
    Mistake::new(format!("there is no option `{name}` of the input: {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(options: &str) -> Result<Input, Mistake> {
        input(vec!["a.pcap".into()], vec![], options)
    }

    #[test]
    fn options_have_the_values_and_defaults_of_the_command() {
        let plain = of_file("{}").unwrap();
        assert_eq!((plain.workers, &*plain.mode, plain.bpf), (1, "fast", false));
        let options = r#"{"workers": 2, "stack": ["a.weir", "b"], "idle_timeout": "5m", "bpf": true, "follow": false, "mode": null}"#;
        let given = of_file(options).unwrap();
        assert_eq!((given.workers, given.idle_timeout, given.bpf), (2, Some(300.0), true));
        assert_eq!(given.stack, ["a.weir", "b"]);
        assert!(!given.follow && given.mode == "fast" && given.read == ["a.pcap"]);
    }

    #[test]
    fn refused_options_are_named_with_a_remedy() {
        let text = |options| of_file(options).err().map(|wrong| wrong.text).unwrap_or_default();
        assert_eq!(text(r#"{"worker": 2}"#), "there is no option `worker` of the input: is `workers` meant?");
        assert!(text(r#"{"metrics": ":0"}"#).contains("no option `metrics`"));
        assert!(text(r#"{"mode": "slow"}"#).contains("give one of strict, fast"));
        assert!(text(r#"{"workers": 0}"#).starts_with("`workers`: give a whole number from 1"));
    }
}
