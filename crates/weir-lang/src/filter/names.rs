//! Names of a catalogue: lookup, and suggestions for unknown names.

use super::ast::{Catalog, FieldInfo};
use super::report::{self, Report};
use crate::diag::{Span, suggest};

/// Names of other tools without a field here, and what to write instead.
const FOREIGN: &[(&str, &str)] = &[
    ("tcp.stream", STREAM_NUMBER),
    ("udp.stream", STREAM_NUMBER),
    ("tcp.analysis.retransmission", "did you mean `tcp.retransmission`?"),
];
const STREAM_NUMBER: &str = "connections have no numbers but a `uid`, the same in every run (`weir flows FILE --wide`): \
                             `weir follow FILE UID`, or a filter by their addresses and ports";

/// What to write instead of another tool's name.
pub fn help_on_foreign(name: &str) -> Option<&'static str> {
    FOREIGN.iter().find(|(foreign, _)| *foreign == name).map(|(_, help)| *help)
}

/// A catalogue's fields.
pub(crate) struct Names<'c> {
    pub fields: &'c [FieldInfo],
    catalog: &'c dyn Catalog,
}

impl<'c> Names<'c> {
    pub fn new(catalog: &'c dyn Catalog) -> Names<'c> {
        Names { fields: catalog.fields(), catalog }
    }

    /// The index of the field of this name.
    pub fn lookup(&self, name: &str) -> Option<usize> {
        self.catalog.find(name)
    }

    /// Every name, then every alias, in the catalogue's order.
    fn known(&self) -> impl Iterator<Item = (&'c str, usize)> + use<'c> {
        let fields = self.fields;
        let names = fields.iter().enumerate().map(|(index, field)| (field.name.as_str(), index));
        let aliases = fields
            .iter()
            .enumerate()
            .flat_map(|(index, field)| field.aliases.iter().map(move |alias| (alias.as_str(), index)));
        names.chain(aliases)
    }

    /// Reports the unknown name `name`.
    pub fn report_unknown(&self, name: &str, span: Span, report: &mut Report) {
        let help = match (self.nearest(name), self.protocol_of(name)) {
            _ if let Some(help) = help_on_foreign(name) => help.to_string(),
            (Some(near), _) => format!("did you mean `{near}`?{}", self.listing(name)),
            (None, Some(_)) => self.listing(name).trim_start().to_string(),
            (None, None) => "`weir fields` lists all names".to_string(),
        };
        let (message, help) = match self.catalog.why_not(name) {
            Some(why) => (format!("`{name}` can't be used here"), why),
            None => (format!("there is no field `{name}`"), help),
        };
        report.error(report::UNKNOWN_FIELD, span, message).help = Some(help);
    }

    /// The command that lists the fields: `weir fields tcp` for `tcp.prot`.
    fn listing(&self, name: &str) -> String {
        self.protocol_of(name)
            .map(|protocol| format!(" `weir fields {protocol}` lists what there is"))
            .unwrap_or_default()
    }

    /// The first part of `name`, if some field's name begins with it.
    fn protocol_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (protocol, _) = name.split_once('.')?;
        let begins = |known: &str| known.strip_prefix(protocol).is_some_and(|rest| rest.starts_with('.'));
        self.known().any(|(known, _)| begins(known)).then_some(protocol)
    }

    /// The most similar known name. First: the same protocol and the same last part, or a word of it. Then: a
    /// small edit distance, the protocol's own names first. Last: the same last part.
    fn nearest(&self, name: &str) -> Option<&'c str> {
        // Among equals the first in the catalogue's order, names before aliases.
        let mut known: Vec<(&str, usize)> = self.known().collect();
        known.sort_unstable_by_key(|&(name, index)| (index, name != self.fields[index].name, name));
        let known = || known.iter().map(|(known, _)| *known);
        let lower = name.to_lowercase();
        let suffix = |known: &&str| known.rsplit_once('.').is_some_and(|(_, last)| last == lower);
        let own = self.protocol_of(name);
        let is_own = |known: &&str| own.is_some() && known.split('.').next() == own;
        let wanted = lower.rsplit('.').next().unwrap_or_default();
        let last = |known: &'c str| known.rsplit('.').next().unwrap_or_default();
        let same = known().filter(is_own).find(|known| last(known) == wanted);
        same.or_else(|| suggest(name, known().filter(is_own)))
            .or_else(|| {
                known().filter(is_own).find(|known| last(known).split('_').any(|word| word == wanted))
            })
            .or_else(|| suggest(name, known()))
            .or_else(|| known().find(suffix))
    }
}
