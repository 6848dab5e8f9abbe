//! What a parser is opened with: the settings of its protocol.

use std::collections::BTreeMap;

/// A number that whoever asks may set for the parsers of a protocol: a bound, a port, a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its name, which begins with that of its protocol: `redis.text_bytes_max`.
    pub name: &'static str,
    /// Its value where nobody sets it.
    pub default: u64,
    /// One line of meaning.
    pub doc: &'static str,
}

/// Settings that were set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Configuration(BTreeMap<&'static str, u64>);

impl Configuration {
    pub(crate) fn set(&mut self, setting: &Setting, value: u64) {
        self.0.insert(setting.name, value);
    }
}

/// What a parser is opened with.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Context<'a> {
    configuration: &'a Configuration,
}

/// All settings have their defaults.
impl Default for Context<'_> {
    fn default() -> Self {
        static NOTHING_SET: Configuration = Configuration(BTreeMap::new());
        Self { configuration: &NOTHING_SET }
    }
}

impl<'a> Context<'a> {
    pub(crate) fn of(configuration: &'a Configuration) -> Self {
        Self { configuration }
    }

    /// The value of a setting.
    pub fn number(&self, setting: &Setting) -> u64 {
        self.configuration.0.get(setting.name).copied().unwrap_or(setting.default)
    }
}
