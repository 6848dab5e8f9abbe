//! The context in which a parser is opened: the settings of its protocol.

use crate::Contents;
use std::collections::BTreeMap;

/// A number that users may set for the parsers of a protocol: a bound, a port, a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The name, which begins with the protocol's name: `redis.text_bytes_max`.
    pub name: &'static str,
    /// The default value.
    pub default: u64,
    /// A description of one line.
    pub doc: &'static str,
}

/// The values of settings that differ from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Configuration(BTreeMap<&'static str, u64>);

impl Configuration {
    pub(crate) fn set(&mut self, setting: &Setting, value: u64) {
        self.0.insert(setting.name, value);
    }
}

/// The context in which a parser is opened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Context<'a> {
    configuration: &'a Configuration,
    contents: &'a Contents,
    early: Early,
}

/// Whether sessions are yielded before they end, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Early(pub(crate) Option<u64>);

impl Early {
    /// Whether somebody asks for early sessions.
    pub fn is_wanted(self) -> bool {
        self.0.is_some()
    }

    /// Whether a body that grows from one number of bytes to another one reaches the length at which it is
    /// inspected.
    pub fn is_reached(self, before: u64, after: u64) -> bool {
        self.0.is_some_and(|bytes| before < bytes && bytes <= after)
    }
}

/// All settings have their defaults, and nobody asks for the contents of files.
impl Default for Context<'_> {
    fn default() -> Self {
        static NOTHING_SET: Configuration = Configuration(BTreeMap::new());
        static NOBODY_ASKS: Contents = Contents(None);
        Self { configuration: &NOTHING_SET, contents: &NOBODY_ASKS, early: Early(None) }
    }
}

impl<'a> Context<'a> {
    pub(crate) fn of(configuration: &'a Configuration, contents: &'a Contents, early: Early) -> Self {
        Self { configuration, contents, early }
    }

    /// The value of a setting.
    pub fn number(&self, setting: &Setting) -> u64 {
        self.configuration.0.get(setting.name).copied().unwrap_or(setting.default)
    }

    /// What the parser is asked to do with the contents of files.
    pub fn contents(&self) -> &'a Contents {
        self.contents
    }

    /// Whether the parser yields [early](crate::Session::is_early) sessions, too.
    pub fn early(&self) -> Early {
        self.early
    }
}
