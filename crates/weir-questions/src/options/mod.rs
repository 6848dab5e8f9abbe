//! The options of a question and of a run, each declared once.
//!
//! [`options!`] declares a struct of options: each field with its type, its default, its group, its text, and
//! the flag that states it on a command line. The macro makes a table of them ([`Options::TABLE`]), from
//! which everything else follows: the flags of the command and their help, the keys of files of questions,
//! the control socket, the API and the Python package, their checks, and the text of `weir run --help`.

mod declare;
mod value;

pub(crate) use value::choice;
pub use value::{OptionValue, Times, Word, text_of};

use serde_json::{Map, Number, Value};
use std::ffi::{OsStr, OsString};

/// Options that [`options!`] declares.
pub trait Options: Default + Clone + 'static {
    /// All options, in the order of the help.
    const TABLE: &'static [Declared<Self>];

    /// The option with this name.
    fn named(name: &str) -> Option<&'static Declared<Self>> {
        Self::TABLE.iter().find(|option| option.name == name)
    }

    /// Sets the options of an object of JSON. `null` is as if the option was not given.
    ///
    /// # Errors
    /// An option does not exist, or has another value: its name, and what is wrong.
    fn set_all(&mut self, given: &Map<String, Value>) -> Result<(), String> {
        for (name, value) in given {
            let option = Self::named(name).ok_or_else(|| unknown::<Self>(name))?;
            option.set_value(self, value).map_err(|wrong| format!("`{name}`: {wrong}"))?;
        }
        Ok(())
    }

    /// The options that differ from their defaults, as JSON.
    fn given(&self) -> Map<String, Value> {
        let value = |option: &Declared<Self>| Some((option.name.to_string(), option.value(self)?));
        Self::TABLE.iter().filter_map(value).collect()
    }
}

/// A value of TOML as one of JSON.
///
/// # Errors
/// A number is not finite.
pub fn json_of(value: &toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text.clone()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Number::from_f64(*number)
            .map(Value::Number)
            .ok_or_else(|| format!("{number} is no finite number"))?,
        toml::Value::Boolean(value) => Value::Bool(*value),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(values) => values.iter().map(json_of).collect::<Result<_, _>>()?,
        toml::Value::Table(table) => Value::Object(object_of(table)?),
    })
}

/// A table of TOML as an object of JSON.
///
/// # Errors
/// As [`json_of`], with the key.
pub fn object_of(table: &toml::Table) -> Result<Map<String, Value>, String> {
    let member = |(key, value): (&String, &toml::Value)| {
        json_of(value).map(|value| (key.clone(), value)).map_err(|wrong| format!("`{key}`: {wrong}"))
    };
    table.iter().map(member).collect()
}

/// The message about a name that no option has.
fn unknown<T: Options>(name: &str) -> String {
    let names = T::TABLE.iter().map(|option| option.name);
    let hint = match weir::lang::diag::suggest(name, names.clone()) {
        Some(near) => format!("is `{near}` meant?"),
        None => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
    };
    format!("there is no option `{name}`: {hint}")
}

/// An option of a `T`.
pub struct Declared<T: 'static> {
    /// The name in files, on the control socket, in the API and in Python.
    pub name: &'static str,
    /// The heading of the help; empty: that of the command's own options.
    pub group: &'static str,
    /// The lines of its text.
    lines: &'static [&'static str],
    /// Makes its text, if the text depends on the build.
    made_text: Option<fn() -> String>,
    /// The flag of the command line.
    pub flag: Flag,
    /// How often the option may be given.
    pub times: Times,
    /// The allowed words. Empty: every word is allowed.
    pub known: &'static [&'static str],
    /// Whether a word is a number.
    pub is_number: bool,
    /// Whether a word is the path of a file.
    pub is_path: bool,
    /// The default is a value, which the help shows.
    has_default: bool,
    /// Only the command line has the option: it is about rights, messages or terminals.
    pub is_of_command: bool,
    set: fn(&mut T, &OsStr) -> Result<(), String>,
    clear: fn(&mut T),
    get: fn(&T) -> Value,
}

/// How a command line states an option.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// The long name, without `--`. Empty: the option's name, with `-` for `_`.
    long: &'static str,
    /// The letter.
    pub short: Option<char>,
    /// Another long name.
    pub alias: Option<&'static str>,
    /// The name of the value in the help.
    pub value: &'static str,
    /// What separates several values in a word.
    pub separator: Option<char>,
    /// Whether all words that follow are values.
    pub takes_all: bool,
    /// The flag that this one needs.
    pub needs: Option<&'static str>,
    /// Whether values may begin with a minus, so that the message about such a value is the option's own.
    pub takes_minus: bool,
    /// No flag states the option.
    pub is_flagless: bool,
    /// The help does not show the flag.
    pub is_hidden: bool,
}

impl<T: Options> Declared<T> {
    /// The option of a field of type `V`.
    pub const fn new<V: OptionValue>(
        (name, group, lines): (&'static str, &'static str, &'static [&'static str]),
        set: fn(&mut T, &OsStr) -> Result<(), String>,
        clear: fn(&mut T),
        get: fn(&T) -> Value,
    ) -> Self {
        let flag = Flag {
            long: "",
            short: None,
            alias: None,
            value: "VALUE",
            separator: None,
            takes_all: false,
            needs: None,
            takes_minus: false,
            is_flagless: false,
            is_hidden: false,
        };
        Self {
            name,
            group,
            lines,
            made_text: None,
            flag,
            times: V::TIMES,
            known: V::Item::KNOWN,
            is_number: V::Item::IS_NUMBER,
            is_path: V::Item::IS_PATH,
            has_default: false,
            is_of_command: false,
            set,
            clear,
            get,
        }
    }

    /// The flag has this long name.
    pub const fn long(mut self, name: &'static str) -> Self {
        self.flag.long = name;
        self
    }

    /// The flag has this letter.
    pub const fn short(mut self, letter: char) -> Self {
        self.flag.short = Some(letter);
        self
    }

    /// The flag has another long name.
    pub const fn alias(mut self, name: &'static str) -> Self {
        self.flag.alias = Some(name);
        self
    }

    /// The value has this name in the help.
    pub const fn shown(mut self, name: &'static str) -> Self {
        self.flag.value = name;
        self
    }

    /// Several values are separated in a word.
    pub const fn separated(mut self) -> Self {
        self.flag.separator = Some(',');
        self
    }

    /// All words that follow the flag are values.
    pub const fn takes_all(mut self) -> Self {
        self.flag.takes_all = true;
        self
    }

    /// The flag needs another one.
    pub const fn needs(mut self, name: &'static str) -> Self {
        self.flag.needs = Some(name);
        self
    }

    /// Values may begin with a minus.
    pub const fn minus(mut self) -> Self {
        self.flag.takes_minus = true;
        self
    }

    /// No flag states the option: words do, or other flags.
    pub const fn flagless(mut self) -> Self {
        self.flag.is_flagless = true;
        self
    }

    /// The help shows the flag only if this build has its feature.
    pub const fn shown_if(mut self, is_there: bool) -> Self {
        self.flag.is_hidden = !is_there;
        self
    }

    /// The values are paths, although texts.
    pub const fn path(mut self) -> Self {
        self.is_path = true;
        self
    }

    /// The allowed words.
    pub const fn one_of(mut self, known: &'static [&'static str]) -> Self {
        self.known = known;
        self
    }

    /// The text, if it depends on the build.
    pub const fn text_by(mut self, text: fn() -> String) -> Self {
        self.made_text = Some(text);
        self
    }

    /// Only the command line has the option.
    pub const fn of_command(mut self) -> Self {
        self.is_of_command = true;
        self
    }

    /// The field has a default, which the help shows.
    pub const fn with_default(mut self) -> Self {
        self.has_default = true;
        self
    }

    /// The long name of the flag.
    pub fn long_name(&self) -> String {
        if self.flag.long.is_empty() { self.name.replace('_', "-") } else { self.flag.long.to_string() }
    }

    /// The text of the help, without a full stop at its end.
    pub fn text(&self) -> String {
        if let Some(make) = self.made_text {
            return make();
        }
        let words: Vec<&str> = self.lines.iter().map(|line| line.trim()).collect();
        words.join(" ")
    }

    /// The default, as a word.
    pub fn default_word(&self) -> Option<String> {
        let word = || match (self.get)(&T::default()) {
            Value::String(text) => text,
            Value::Number(number) => number.to_string().trim_end_matches(".0").to_string(),
            other => other.to_string(),
        };
        self.has_default.then(word)
    }

    /// The value if it differs from the default.
    pub fn value(&self, of: &T) -> Option<Value> {
        let value = (self.get)(of);
        (value != (self.get)(&T::default())).then_some(value)
    }

    /// Sets the option as if it was not given.
    pub fn clear(&self, of: &mut T) {
        (self.clear)(of);
    }

    /// Sets the value of a word, or adds it to the list.
    ///
    /// # Errors
    /// What a right word is.
    pub fn set(&self, of: &mut T, word: &OsStr) -> Result<(), String> {
        let is_known = self.known.is_empty() || word.to_str().is_some_and(|word| self.known.contains(&word));
        match is_known {
            true => (self.set)(of, word),
            false => Err(format!("give one of {}", self.known.join(", "))),
        }
    }

    /// Checks a word.
    ///
    /// # Errors
    /// What a right word is.
    pub fn check(&self, word: &OsStr) -> Result<(), String> {
        self.set(&mut T::default(), word)
    }

    /// Sets the value of a file, a request or a program.
    ///
    /// # Errors
    /// What a right value is.
    pub fn set_value(&self, of: &mut T, value: &Value) -> Result<(), String> {
        let one = std::slice::from_ref(value);
        let values = match (self.times, value) {
            (_, Value::Null) => return Ok(()),
            (Times::Several, Value::Array(values)) => values,
            (_, Value::Array(_)) => return Err("give one value".to_string()),
            _ => one,
        };
        self.clear(of);
        for value in values {
            match (self.flag.separator, value) {
                (Some(separator), Value::String(text)) => {
                    text.split(separator).try_for_each(|word| self.set(of, OsStr::new(word)))?;
                }
                _ => self.set(of, &self.word(value)?)?,
            }
        }
        Ok(())
    }

    /// The word that states a value.
    fn word(&self, value: &Value) -> Result<OsString, String> {
        match (self.times, value) {
            (Times::Switch, Value::Bool(value)) => Ok(value.to_string().into()),
            (Times::Switch, _) => Err("give true or false".to_string()),
            (_, Value::String(text)) => Ok(text.into()),
            (_, Value::Number(number)) => Ok(number.to_string().into()),
            _ if self.is_number => Err("give a number".to_string()),
            _ => Err("give a text or a number".to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options;
    use serde_json::json;
    use std::path::PathBuf;

    #[derive(Debug, Clone, Copy, PartialEq)]
    pub enum Pace {
        Slow,
        Quick,
    }

    choice!(Pace { Slow = "slow", Quick = "quick" });

    fn kilometres(text: &str) -> Result<u64, String> {
        text.strip_suffix("km").and_then(|number| number.parse().ok()).ok_or_else(|| "give 3km".to_string())
    }

    options! {
        /// A walk.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Walk {
            "Path" {
                /// Walk this far,
                /// at least
                far: u64 = 3 => kilometres, shown("KM");
                to: Option<PathBuf>;
                over: Vec<String>, separated();
            }
            "" {
                how as "pace": Pace = Pace::Slow;
                lazy: bool;
                rests: f64 = 1.5;
                map: Option<String>, one_of(&["paper", "none"]);
            }
        }
        beside {
            /// Set by the program.
            pub number: usize;
        }
    }

    fn of(options: Value) -> Result<Walk, String> {
        let mut walk = Walk::default();
        let Value::Object(options) = options else { panic!("an object") };
        walk.set_all(&options).map(|()| walk)
    }

    #[test]
    fn values_and_words_state_the_same() {
        let given = json!({
            "far": "7km", "to": "the/sea", "over": ["a", "b"], "pace": "quick", "lazy": true, "rests": 0.5, "map": "paper",
        });
        let walk = of(given).unwrap();
        let mut spoken = Walk::default();
        for (name, word) in [
            ("far", "7km"),
            ("to", "the/sea"),
            ("over", "a"),
            ("over", "b"),
            ("pace", "quick"),
            ("lazy", "true"),
            ("rests", "0.5"),
            ("map", "paper"),
        ] {
            Walk::named(name).unwrap().set(&mut spoken, OsStr::new(word)).unwrap();
        }
        assert_eq!(walk, spoken);
        assert_eq!((walk.far, walk.how, walk.over.len(), walk.number), (7, Pace::Quick, 2, 0));
        assert_eq!(of(json!({"over": "a", "to": null, "rests": 2})).unwrap().over, ["a"]);
    }

    #[test]
    fn only_what_differs_from_the_default_is_given() {
        assert!(Walk::default().given().is_empty());
        assert!(of(json!({"far": "3km", "lazy": false, "pace": "slow"})).unwrap().given().is_empty());
        let given = of(json!({"far": "4km", "over": ["a"]})).unwrap().given();
        assert_eq!(Value::Object(given), json!({"far": 4, "over": ["a"]}));
    }

    #[test]
    fn refused_values_are_named_with_a_remedy() {
        let wrong = |options| of(options).unwrap_err();
        assert_eq!(wrong(json!({"farr": 1})), "there is no option `farr`: is `far` meant?");
        assert_eq!(
            wrong(json!({"xyz": 1})),
            "there is no option `xyz`: there are far, to, over, pace, lazy, rests, map"
        );
        assert_eq!(wrong(json!({"far": 4})), "`far`: give 3km");
        assert_eq!(wrong(json!({"far": ["4km"]})), "`far`: give one value");
        assert_eq!(wrong(json!({"lazy": "true"})), "`lazy`: give true or false");
        assert_eq!(wrong(json!({"rests": true})), "`rests`: give a number");
        assert_eq!(wrong(json!({"to": {}})), "`to`: give a text or a number");
        assert_eq!(wrong(json!({"pace": "fast"})), "`pace`: give one of slow, quick");
        assert_eq!(wrong(json!({"map": "none yet"})), "`map`: give one of paper, none");
    }

    #[test]
    fn the_table_says_what_the_help_shows() {
        let far = Walk::named("far").unwrap();
        assert_eq!(
            (far.text().as_str(), far.group, far.flag.value),
            ("Walk this far, at least", "Path", "KM")
        );
        let defaults: Vec<Option<String>> = Walk::TABLE.iter().map(Declared::default_word).collect();
        let word = |text: &str| Some(text.to_string());
        assert_eq!(defaults, [word("3"), None, None, word("slow"), None, word("1.5"), None]);
        assert!(Walk::named("to").unwrap().is_path && !far.is_path && far.is_number);
    }
}
