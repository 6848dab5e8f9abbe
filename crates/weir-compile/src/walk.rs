//! Visits the expressions of a protocol.

use weir_lang::model::{self, Expr, HeaderItem, Protocol, Stmt};

/// Calls `f` on every expression of a protocol, including nested ones.
pub(crate) fn for_each_expr(protocol: &Protocol, f: &mut impl FnMut(&Expr)) {
    items(&protocol.header, f);
    for field in &protocol.fields {
        use model::FieldType::{Bytes, Counted, Text};
        if let Bytes(length) | Text(length) | Counted(length) = &field.ty {
            walk(length, f);
        }
    }
    protocol.lets.iter().for_each(|l| walk(&l.value, f));
    if let Some(model::Payload { length: Some(length) }) = &protocol.payload {
        walk(length, f);
    }
    if let Some(instance) = &protocol.instance {
        instance
            .source
            .iter()
            .chain(&instance.destination)
            .chain(&instance.condition)
            .chain(&instance.reversed)
            .for_each(|e| walk(e, f));
    }
    protocol.vars.iter().filter_map(|v| v.first.as_ref()).for_each(|e| walk(e, f));
    statements(&protocol.count, f);
    protocol.join.iter().for_each(|e| walk(e, f));
    protocol.admit.iter().for_each(|e| walk(e, f));
    statements(&protocol.prepare, f);
    if let Some(steady) = &protocol.steady {
        steady.conditions.iter().for_each(|e| walk(e, f));
        statements(&steady.statements, f);
    }
    protocol.on.iter().for_each(|(_, list)| statements(list, f));
    if let Some(sequence) = &protocol.sequence {
        walk(&sequence.at, f);
        sequence.span.iter().for_each(|e| walk(e, f));
        sequence.window.iter().for_each(|(a, b)| [a, b].into_iter().for_each(|e| walk(e, f)));
        sequence.wholes.iter().for_each(|(a, b)| [a, b].into_iter().for_each(|e| walk(e, f)));
        sequence.condition.iter().for_each(|e| walk(e, f));
        sequence
            .acknowledge
            .iter()
            .chain(&sequence.confirm)
            .chain(&sequence.hold)
            .for_each(|(at, when)| [at].into_iter().chain(when).for_each(|e| walk(e, f)));
        sequence.assembled.iter().for_each(|(_, e)| walk(e, f));
        sequence.end.iter().for_each(|e| walk(e, f));
    }
    protocol.transitions.iter().for_each(|t| walk(&t.condition, f));
    protocol.events.iter().for_each(|e| e.columns.iter().for_each(|(_, e)| walk(e, f)));
    protocol.events.iter().filter_map(|e| e.condition.as_ref()).for_each(|e| walk(e, f));
    for part in &protocol.show {
        if let model::ShowPart::Value(e) = part {
            walk(e, f);
        }
    }
}

/// Calls `f` on an expression, its subexpressions, and the derived values that it names, each once.
pub(crate) fn walk_through_lets(protocol: &Protocol, expr: &Expr, f: &mut dyn FnMut(&Expr)) {
    let mut seen = vec![false; protocol.lets.len()];
    let mut open = vec![expr];
    while let Some(next) = open.pop() {
        let mut named = vec![];
        walk(next, &mut |e: &Expr| {
            f(e);
            if let Expr::Let(value) = e {
                named.push(usize::from(value.0));
            }
        });
        for index in named {
            if !std::mem::replace(&mut seen[index], true) {
                open.push(&protocol.lets[index].value);
            }
        }
    }
}

fn walk(expr: &Expr, f: &mut impl FnMut(&Expr)) {
    f(expr);
    match expr {
        Expr::Not(e) | Expr::In(e, _) => walk(e, f),
        Expr::Sum16(args) => args.iter().for_each(|e| walk(e, f)),
        Expr::ItemsFit(args) => args.iter().for_each(|e| walk(e, f)),
        Expr::Binary(_, a, b) => [a, b].into_iter().for_each(|e| walk(e, f)),
        Expr::Choose(a, b, c) => [a, b, c].into_iter().for_each(|e| walk(e, f)),
        _ => {}
    }
}

fn items(list: &[HeaderItem], f: &mut impl FnMut(&Expr)) {
    for item in list {
        match item {
            HeaderItem::If { condition, then, otherwise } => {
                walk(condition, f);
                items(then, f);
                items(otherwise, f);
            }
            HeaderItem::Run(run) => {
                walk(&run.until, f);
                run.items.iter().for_each(|i| items(&i.items, f));
            }
            _ => {}
        }
    }
}

fn statements(list: &[Stmt], f: &mut impl FnMut(&Expr)) {
    for stmt in list {
        match stmt {
            Stmt::Assign { value, .. } => walk(value, f),
            Stmt::History { condition, .. } => walk(condition, f),
            Stmt::If { condition, then, otherwise } => {
                walk(condition, f);
                statements(then, f);
                statements(otherwise, f);
            }
        }
    }
}
