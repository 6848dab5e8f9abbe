//! Names of a catalogue: look-up, and what to suggest for a name that nobody knows.

use super::ast::{Catalog, FieldInfo};
use super::report::{self, Report};
use crate::diag::{Span, suggest};
use std::collections::HashMap;

/// A catalogue with an index by name.
pub(super) struct Names<'c> {
    pub fields: &'c [FieldInfo],
    by_name: HashMap<&'c str, usize>,
}

impl<'c> Names<'c> {
    /// Indexes every name and alias; where two fields share a name, the first has it.
    pub fn new(catalog: &'c dyn Catalog) -> Names<'c> {
        let fields = catalog.fields();
        let mut by_name = HashMap::new();
        for (index, field) in fields.iter().enumerate() {
            by_name.entry(field.name.as_str()).or_insert(index);
        }
        for (index, field) in fields.iter().enumerate() {
            for alias in &field.aliases {
                by_name.entry(alias.as_str()).or_insert(index);
            }
        }
        Names { fields, by_name }
    }

    /// The index of the field of this name.
    pub fn lookup(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Reports that nobody knows `name`.
    pub fn report_unknown(&self, name: &str, span: Span, report: &mut Report) {
        let help = match (self.nearest(name), self.protocol_of(name)) {
            (Some(near), _) => format!("did you mean `{near}`?{}", self.listing(name)),
            (None, Some(_)) => self.listing(name).trim_start().to_string(),
            (None, None) => "`weir fields` lists all names".to_string(),
        };
        report.error(report::UNKNOWN_FIELD, span, format!("there is no field `{name}`")).help = Some(help);
    }

    /// `weir fields tcp` for `tcp.prot`.
    fn listing(&self, name: &str) -> String {
        self.protocol_of(name)
            .map(|protocol| format!(" `weir fields {protocol}` lists what there is"))
            .unwrap_or_default()
    }

    /// The first part of `name`, if any field begins with it.
    fn protocol_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (protocol, _) = name.split_once('.')?;
        let begins = |known: &str| known.strip_prefix(protocol).is_some_and(|rest| rest.starts_with('.'));
        self.by_name.keys().any(|known| begins(known)).then_some(protocol)
    }

    /// The known name that is most alike: few letters changed, or the same last part.
    fn nearest(&self, name: &str) -> Option<&'c str> {
        // Among equals the first in the catalogue's order, names before aliases.
        let mut known: Vec<(&str, usize)> =
            self.by_name.iter().map(|(name, index)| (*name, *index)).collect();
        known.sort_unstable_by_key(|&(name, index)| (index, name != self.fields[index].name, name));
        let known = || known.iter().map(|(known, _)| *known);
        let lower = name.to_lowercase();
        let suffix = |known: &&str| known.rsplit_once('.').is_some_and(|(_, last)| last == lower);
        suggest(name, known()).or_else(|| known().find(suffix))
    }
}
