//! The position being checked, and checks of one value or one name.

use super::{Place, Report};
use crate::graph::{Graph, Type, Value};

/// The position being checked.
pub(super) struct Scope<'a, 'b> {
    pub(super) graph: &'a Graph,
    pub(super) definitions: &'a [u32],
    pub(super) report: &'a mut Report<'b>,
    pub(super) place: Place,
}

impl Scope<'_, '_> {
    pub(super) fn wrong(&mut self, message: String) {
        self.report.add(self.place, message);
    }

    /// The type of a value, which must exist.
    pub(super) fn type_of(&mut self, value: Value) -> Option<Type> {
        match self.definitions.get(value.index()) {
            None | Some(0) => {
                self.wrong(format!("{value} is never defined"));
                None
            }
            Some(_) => Some(self.graph.type_of(value)),
        }
    }

    pub(super) fn expect(&mut self, value: Value, wanted: Type) {
        if let Some(ty) = self.type_of(value)
            && ty != wanted
        {
            self.wrong(format!("{value} must be {wanted}, is {ty}"));
        }
    }

    pub(super) fn ints(&mut self, values: &[Value]) {
        values.iter().for_each(|&value| self.expect(value, Type::Int));
    }

    pub(super) fn exists(&mut self, what: impl std::fmt::Display, number: u32, count: usize) -> bool {
        let exists = (number as usize) < count;
        if !exists {
            self.wrong(format!("there is no {what}"));
        }
        exists
    }
}
