//! The context of instances: the numbers of lower layers that distinguish instances with equal keys.
//! Protocols declare them (`context id`); a run may ignore some of them and add others.

use crate::diag::{Diagnostic, suggest};
use crate::model::{FieldId, FieldType, LetId, Protocol, Stack, ValueId};
use std::sync::Arc;

/// The field of the interface, as filters name it.
const INTERFACE: &str = "frame.interface_id";

/// The code of diagnostics about names of values: `docs/diagnostics.md` explains the code.
const CONTEXT: &str = "W0189";

/// Changes to the context that the protocols of a stack declare. Values have the names that filters use for
/// fields: `vlan.id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextChanges {
    /// Values that the protocols declare and that do not distinguish instances.
    pub ignored: Vec<String>,
    /// Further values that distinguish instances. If the two directions of a connection differ in such a
    /// value, each direction is a connection of its own.
    pub added: Vec<String>,
}

impl ContextChanges {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.ignored.is_empty() && self.added.is_empty()
    }
}

impl Stack {
    /// The names of the values that distinguish instances, in the order of the layers.
    pub fn context_names(&self) -> Vec<String> {
        let of_layers = self.layers.iter().flat_map(|layer| {
            let protocol = &layer.protocol;
            protocol.context.iter().chain(&protocol.tags).map(|&value| named(protocol, value))
        });
        let mut names: Vec<String> = self.by_interface.then(|| INTERFACE.to_string()).into_iter().collect();
        for name in of_layers {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The same stack with these changes to its context.
    ///
    /// # Errors
    /// The first name that is not part of the context and is to be ignored, or that is no number of a layer
    /// and is to be added.
    pub fn with_context(&self, changes: &ContextChanges) -> Result<Stack, Diagnostic> {
        let mut stack = self.clone();
        for name in &changes.ignored {
            if !stack.ignore(name) {
                return Err(self.unknown_ignored(name));
            }
        }
        for name in &changes.added {
            if !stack.distinguish(name) {
                return Err(self.unknown_added(name));
            }
        }
        Ok(stack)
    }

    /// Removes a value from the context of each layer that declares the value. Returns whether some layer
    /// does.
    fn ignore(&mut self, name: &str) -> bool {
        let mut is_known = false;
        for layer in &mut self.layers {
            let protocol = &layer.protocol;
            let declares =
                |value: &ValueId| protocol.context.contains(value) || protocol.tags.contains(value);
            if let Some(value) = protocol.named(name).filter(declares) {
                let protocol = Arc::make_mut(&mut layer.protocol);
                protocol.context.retain(|one| *one != value);
                protocol.tags.retain(|one| *one != value);
                is_known = true;
            }
        }
        is_known
    }

    /// Adds a value to the context of each layer that has the value. Returns whether some layer has.
    fn distinguish(&mut self, name: &str) -> bool {
        if name == INTERFACE {
            self.by_interface = true;
            return true;
        }
        let mut is_known = false;
        for layer in &mut self.layers {
            let Some(value) = layer.protocol.named(name) else { continue };
            is_known = true;
            if !layer.protocol.context.contains(&value) {
                let protocol = Arc::make_mut(&mut layer.protocol);
                protocol.context.push(value);
                // The directions of a connection may no longer differ in the value.
                protocol.tags.retain(|one| *one != value);
            }
        }
        is_known
    }

    fn unknown_ignored(&self, name: &str) -> Diagnostic {
        let names = self.context_names();
        let known = match names.is_empty() {
            true => format!("nothing distinguishes connections of stack `{}` but their keys", self.name),
            false => format!("these distinguish connections: {}", names.join(", ")),
        };
        let message = format!("`{name}` does not distinguish connections, so it can't be ignored");
        Diagnostic::error(CONTEXT, message).help(known).did_you_mean(name, names.iter().map(String::as_str))
    }

    fn unknown_added(&self, name: &str) -> Diagnostic {
        let numbers = self.layers.iter().flat_map(|layer| {
            let fields = (0..layer.protocol.fields.len() as u16).map(|field| ValueId::Field(FieldId(field)));
            fields.filter(|&value| layer.protocol.is_number(value)).map(|value| named(&layer.protocol, value))
        });
        let numbers: Vec<String> = numbers.collect();
        let message = format!("stack `{}` has no number `{name}`", self.name);
        let help = match suggest(name, numbers.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!(
                "give a field that is a number, such as gtp.teid or {INTERFACE}; `weir fields` lists them"
            ),
        };
        Diagnostic::error(CONTEXT, message).help(help)
    }
}

impl Protocol {
    /// The number that filters call so.
    fn named(&self, name: &str) -> Option<ValueId> {
        let prefixes = [&self.filter_name].into_iter().chain(&self.other_filter_names);
        let mut paths = prefixes.filter_map(|prefix| name.strip_prefix(prefix.as_str())?.strip_prefix('.'));
        paths.find_map(|path| {
            let field = self.fields.iter().position(|field| field.is_called(path));
            let value = match field {
                Some(field) => ValueId::Field(FieldId(field as u16)),
                None => ValueId::Let(LetId(self.lets.iter().position(|value| value.name == path)? as u16)),
            };
            self.is_number(value).then_some(value)
        })
    }

    /// Whether a value is a number of at most 64 bits.
    pub(crate) fn is_number(&self, value: ValueId) -> bool {
        let ValueId::Field(field) = value else { return true };
        matches!(
            self.fields[usize::from(field.0)].ty,
            FieldType::Unsigned { .. } | FieldType::Mac | FieldType::Ipv4 | FieldType::Counted(_)
        )
    }
}

/// The name of a value in filters.
fn named(protocol: &Protocol, value: ValueId) -> String {
    let name = match value {
        ValueId::Field(field) => &protocol.fields[usize::from(field.0)].path,
        ValueId::Let(value) => &protocol.lets[usize::from(value.0)].name,
    };
    format!("{}.{name}", protocol.filter_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Library;

    fn internet() -> Stack {
        Library::builtin().stack("internet").expect("it is built in").clone()
    }

    fn changes(ignored: &[&str], added: &[&str]) -> ContextChanges {
        let [ignored, added] = [ignored, added].map(|names| names.iter().map(ToString::to_string).collect());
        ContextChanges { ignored, added }
    }

    #[test]
    fn values_are_removed_and_added_by_name() {
        let before = internet().context_names();
        assert!(
            before.contains(&"vlan.id".to_string()) && before.contains(&"vxlan.vni".to_string()),
            "{before:?}"
        );
        let stack = internet().with_context(&changes(&["vlan.id"], &["gtp.teid", INTERFACE])).expect("known");
        let after = stack.context_names();
        assert!(!after.contains(&"vlan.id".to_string()), "{after:?}");
        assert!(["gtp.teid", INTERFACE].iter().all(|name| after.contains(&name.to_string())), "{after:?}");
        assert_eq!(
            internet().with_context(&ContextChanges::default()).expect("same").context_names(),
            before
        );
    }

    #[test]
    fn unknown_names_are_refused_with_a_hint() {
        let wrong = internet().with_context(&changes(&["vlan.di"], &[])).expect_err("a typo");
        assert!(wrong.help.as_deref().is_some_and(|help| help.contains("vlan.id")), "{wrong:?}");
        let wrong = internet().with_context(&changes(&["ip.ttl"], &[])).expect_err("no context");
        assert!(wrong.message.contains("can't be ignored"), "{wrong:?}");
        let wrong = internet().with_context(&changes(&[], &["gtp.tied"])).expect_err("a typo");
        assert!(wrong.help.as_deref().is_some_and(|help| help.contains("gtp.teid")), "{wrong:?}");
        // Addresses of 128 bits are no numbers.
        internet().with_context(&changes(&[], &["ipv6.src"])).expect_err("an address");
    }
}
