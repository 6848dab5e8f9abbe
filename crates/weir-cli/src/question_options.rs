//! `--set KEY=VALUE`: states the options of a question by their names in a file of questions.

use clap::Args as ClapArgs;
use std::path::Path;
use toml::{Table, Value};
use weir_questions::QuestionSpec;
use weir_questions::kinds;
use weir_questions::messages::Failure;
use weir_questions::options::{Options as _, object_of};
use weir_questions::output::place;

/// Options of a question on a command line.
#[derive(ClapArgs, Clone)]
pub struct Settings {
    /// Set an option of the question by its name in a file of questions (`weir run --help`): cutoff=10k,
    /// digest=sha256, ignore_case=true. VALUE: text, or a value of TOML. May be given several times; several
    /// values of one option form a list
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, Value)>,
}

/// A key and its value. A value that is not TOML is a text.
fn setting(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("give KEY=VALUE, for example cutoff=10k")?;
    Ok((key.to_string(), value.parse().unwrap_or_else(|_| Value::String(value.to_string()))))
}

/// The options of a question, as a table in a file of questions has them.
#[derive(Default)]
pub struct QuestionOptions(Table);

impl QuestionOptions {
    /// Adds an option. Several values form a list.
    pub fn add(&mut self, key: &str, value: impl Into<Value>) {
        let list = |value| match value {
            Value::Array(list) => list,
            one => vec![one],
        };
        let value = match self.0.remove(key) {
            Some(before) => [list(before), list(value.into())].concat().into(),
            None => value.into(),
        };
        self.0.insert(key.to_string(), value);
    }

    /// Adds an option that is a path. The reader of the question may run in another directory, so the path of
    /// a file becomes absolute.
    ///
    /// # Errors
    /// A path that is not UTF-8: questions are text.
    pub fn add_path(&mut self, key: &str, path: &Path) -> Result<(), Failure> {
        let absolute = match place::is_remote(path) {
            true => path.to_path_buf(),
            false => std::path::absolute(path).map_err(Failure::new)?,
        };
        let text = absolute.to_str();
        let wrong = || Failure::new(format!("{}: the name is not UTF-8", path.display()));
        self.add(key, text.ok_or_else(wrong)?);
        Ok(())
    }

    /// Adds the options of `--set`.
    ///
    /// # Errors
    /// As [`add_path`](Self::add_path).
    pub fn add_settings(&mut self, settings: &Settings) -> Result<(), Failure> {
        for (key, value) in &settings.set {
            match value {
                Value::String(path) if QuestionSpec::named(key).is_some_and(|option| option.is_path) => {
                    self.add_path(key, Path::new(path))?
                }
                _ => self.add(key, value.clone()),
            }
        }
        Ok(())
    }

    /// The question with these options.
    ///
    /// # Errors
    /// An option does not exist, or its value has another type.
    pub fn question(self) -> Result<QuestionSpec, Failure> {
        object_of(&self.0).and_then(|given| kinds::question(&given)).map_err(Failure::new)
    }
}
