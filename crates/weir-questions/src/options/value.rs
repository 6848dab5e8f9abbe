//! The values of options: what a word of a command line, or a value of JSON or TOML, means for a field.

use crate::quantity::moment;
use serde_json::{Number, Value};
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::PathBuf;
use weir::packet::Timestamp;

/// How often an option may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// The option has no value: it is given or not.
    Switch,
    /// Once.
    Once,
    /// Several times, as a list.
    Several,
}

/// A value that one word states.
pub trait Word: Sized + Clone + PartialEq {
    /// The allowed words. Empty: every word is allowed.
    const KNOWN: &'static [&'static str] = &[];
    /// Whether the option is given or not, without a word on the command line.
    const IS_SWITCH: bool = false;
    /// Whether the value is a number, which may begin with a minus.
    const IS_NUMBER: bool = false;
    /// Whether the value is the path of a file.
    const IS_PATH: bool = false;

    /// The value of a word.
    ///
    /// # Errors
    /// What a right word is.
    fn of_word(word: &OsStr) -> Result<Self, String>;

    /// The value as JSON.
    fn json(&self) -> Value;
}

/// The type of a field of options: a [`Word`], which has a default, or an `Option` or a `Vec` of words.
pub trait OptionValue {
    /// What one word states.
    type Item: Word;
    /// How often the option may be given.
    const TIMES: Times;

    /// Sets the item, or adds it to the list.
    fn put(&mut self, item: Self::Item);

    /// The value as JSON.
    fn json(&self) -> Value;
}

impl<T: Word> OptionValue for T {
    type Item = T;
    const TIMES: Times = if T::IS_SWITCH { Times::Switch } else { Times::Once };

    fn put(&mut self, item: T) {
        *self = item;
    }

    fn json(&self) -> Value {
        Word::json(self)
    }
}

impl<T: Word> OptionValue for Option<T> {
    type Item = T;
    const TIMES: Times = Times::Once;

    fn put(&mut self, item: T) {
        *self = Some(item);
    }

    fn json(&self) -> Value {
        self.as_ref().map_or(Value::Null, Word::json)
    }
}

impl<T: Word> OptionValue for Vec<T> {
    type Item = T;
    const TIMES: Times = Times::Several;

    fn put(&mut self, item: T) {
        self.push(item);
    }

    fn json(&self) -> Value {
        self.iter().map(Word::json).collect()
    }
}

/// The text of a word.
///
/// # Errors
/// The word is not UTF-8.
pub fn text_of(word: &OsStr) -> Result<&str, String> {
    word.to_str().ok_or_else(|| format!("{} is not UTF-8", word.display()))
}

impl Word for bool {
    const IS_SWITCH: bool = true;

    fn of_word(word: &OsStr) -> Result<Self, String> {
        word.to_str().and_then(|word| word.parse().ok()).ok_or_else(|| "give true or false".to_string())
    }

    fn json(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Word for String {
    fn of_word(word: &OsStr) -> Result<Self, String> {
        text_of(word).map(str::to_string)
    }

    fn json(&self) -> Value {
        Value::String(self.clone())
    }
}

impl Word for OsString {
    fn of_word(word: &OsStr) -> Result<Self, String> {
        Ok(word.to_owned())
    }

    fn json(&self) -> Value {
        Value::String(self.to_string_lossy().into_owned())
    }
}

impl Word for PathBuf {
    const IS_PATH: bool = true;

    fn of_word(word: &OsStr) -> Result<Self, String> {
        Ok(word.into())
    }

    fn json(&self) -> Value {
        Value::String(self.to_string_lossy().into_owned())
    }
}

impl Word for f64 {
    const IS_NUMBER: bool = true;

    fn of_word(word: &OsStr) -> Result<Self, String> {
        let number = word.to_str().and_then(|word| word.parse().ok());
        number.filter(|number: &f64| number.is_finite()).ok_or_else(|| "give a number".to_string())
    }

    fn json(&self) -> Value {
        Number::from_f64(*self).map_or(Value::Null, Value::Number)
    }
}

/// A whole number.
fn whole<T: std::str::FromStr + Display>(word: &OsStr, largest: T) -> Result<T, String> {
    let number = word.to_str().and_then(|word| word.parse().ok());
    number.ok_or_else(|| format!("give a whole number from 0 to {largest}"))
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Word for $type {
            const IS_NUMBER: bool = true;

            fn of_word(word: &OsStr) -> Result<Self, String> {
                whole(word, Self::MAX)
            }

            fn json(&self) -> Value {
                Value::from(*self)
            }
        }
    )*};
}

whole_numbers!(u16, u32, u64, usize);

impl Word for Timestamp {
    fn of_word(word: &OsStr) -> Result<Self, String> {
        text_of(word).and_then(moment)
    }

    fn json(&self) -> Value {
        Value::from(self.0)
    }
}

/// A choice among names.
macro_rules! choice {
    ($type:ident { $($variant:ident = $name:literal),* $(,)? }) => {
        impl $crate::options::Word for $type {
            const KNOWN: &'static [&'static str] = &[$($name),*];

            fn of_word(word: &std::ffi::OsStr) -> Result<Self, String> {
                match word.to_str() {
                    $(Some($name) => Ok(Self::$variant),)*
                    _ => Err(format!("give one of {}", <Self as $crate::options::Word>::KNOWN.join(", "))),
                }
            }

            fn json(&self) -> serde_json::Value {
                serde_json::Value::from(match self { $(Self::$variant => $name),* })
            }
        }
    };
}

pub(crate) use choice;
