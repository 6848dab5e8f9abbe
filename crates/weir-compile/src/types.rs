//! The type of an expression's value, for display.

use weir_lang::model::{
    EdgeKind, EndValue, Expr, Field, FieldId, FieldType, LayerId, Protocol, Stack, Unit, VarId,
};
use weir_packet::ValueType;

/// The type of `expr` in a layer: an address if it is one on every path down; bytes if it is a field of
/// bytes; a time or an interval if it is such a variable; else a number. An IPv6 address needs two words of
/// 64 bits.
pub fn value_type(stack: &Stack, layer: LayerId, expr: &Expr) -> ValueType {
    match expr {
        Expr::Field(field) | Expr::Ordered(field) => {
            of_field(&stack.layers[usize::from(layer.0)].protocol.fields[usize::from(field.0)].ty)
        }
        Expr::Below(name) => of_below(stack, layer, name),
        Expr::Var(var, _) => of_var(&stack.layers[usize::from(layer.0)].protocol, *var),
        _ => ValueType::Unsigned,
    }
}

/// The type of a column of an event `on end`.
pub(crate) fn end_type(protocol: &Protocol, value: EndValue) -> ValueType {
    match value {
        EndValue::Var(var, _) => of_var(protocol, var),
        EndValue::State => ValueType::Text,
    }
}

fn of_var(protocol: &Protocol, var: VarId) -> ValueType {
    match protocol.vars[usize::from(var.0)].unit {
        Unit::None => ValueType::Unsigned,
        Unit::Time => ValueType::Time,
        Unit::Interval => ValueType::Interval,
    }
}

fn of_field(ty: &FieldType) -> ValueType {
    match ty {
        FieldType::Ipv4 => ValueType::Ipv4,
        FieldType::Ipv6 => ValueType::Ipv6,
        FieldType::Mac => ValueType::Mac,
        FieldType::Bytes(_) => ValueType::Bytes,
        FieldType::Text(_) => ValueType::Text,
        FieldType::Unsigned { .. } | FieldType::Counted(_) => ValueType::Unsigned,
    }
}

fn of_below(stack: &Stack, layer: LayerId, name: &str) -> ValueType {
    let given = givers(stack, layer, name);
    let types = given.iter().map(|&layer| {
        let protocol = &stack.layers[usize::from(layer.0)].protocol;
        match field_named(protocol, name) {
            Some(field) => of_field(&protocol.fields[usize::from(field.0)].ty),
            None => ValueType::Unsigned,
        }
    });
    let types: Vec<ValueType> = types.collect();
    let is_address = |ty: &ValueType| matches!(ty, ValueType::Ipv4 | ValueType::Ipv6);
    match types.split_first() {
        // IPv4 addresses are mapped into IPv6 if either version may be below; so are numbers and MAC
        // addresses.
        Some(_) if types.iter().any(is_address) => ValueType::Address,
        Some((first, rest)) if rest.iter().all(|other| other == first) => *first,
        _ => ValueType::Unsigned,
    }
}

pub(crate) fn field_named(protocol: &Protocol, name: &str) -> Option<FieldId> {
    let is = |field: &Field| field.is_called(name);
    protocol.fields.iter().position(is).map(|index| FieldId(index as u16))
}

/// The layers that `below.NAME` may refer to: on every path down, the nearest with that name.
pub(crate) fn givers(stack: &Stack, id: LayerId, name: &str) -> Vec<LayerId> {
    let (mut open, mut seen, mut found) = (vec![id], vec![], vec![]);
    while let Some(at) = open.pop() {
        for below in stack
            .edges
            .iter()
            .filter(|edge| edge.to == at && edge.kind != EdgeKind::Quoted)
            .map(|edge| edge.from)
        {
            if seen.contains(&below) {
                continue;
            }
            seen.push(below);
            let protocol = &stack.layers[usize::from(below.0)].protocol;
            let has =
                field_named(protocol, name).is_some() || protocol.lets.iter().any(|one| one.name == name);
            if has { found.push(below) } else { open.push(below) }
        }
    }
    found
}
