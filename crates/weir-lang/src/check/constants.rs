//! Functions and tables: substitution of their definitions.
//!
//! A function is an expression over its parameters, a table a choice between numbers. Neither has state or
//! access to packets, so substitution is sufficient. The passes remove the duplicate computations that
//! substitution causes.

use super::codes;
use super::scope::duplicate;
use crate::diag::{Diagnostic, Span};
use crate::syntax::ast::{Expr, ExprKind, File, Function, Name, Table};
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum number of operators and names of an expression after substitution. Nested functions that use a
/// parameter twice double the size with each level.
pub(crate) const NODES_MAX: usize = 512;

/// Maximum number of functions that see each other: the search for recursion tries all of them.
pub(crate) const FUNCTIONS_MAX: usize = 512;

/// Maximum number of rows of a table.
pub(crate) const ROWS_MAX: usize = 256;

/// The functions and tables of files that were added together: a text and its imports.
#[derive(Debug, Default, Clone)]
pub(super) struct Constants {
    functions: FxHashMap<String, Function>,
    tables: FxHashMap<String, Table>,
}

impl Constants {
    /// The functions and tables of `files`, which see each other; reports their mistakes. An invalid one is
    /// kept, so that its uses cause no further errors.
    pub(super) fn of(files: &[&File], diagnostics: &mut Vec<Diagnostic>) -> Self {
        let mut constants = Constants::default();
        for function in files.iter().flat_map(|file| &file.functions) {
            if constants.functions.len() >= FUNCTIONS_MAX {
                let message = format!("at most {FUNCTIONS_MAX} functions are visible to a text");
                diagnostics.push(Diagnostic::error(codes::TOO_MUCH, message).at(function.name.span));
                break;
            }
            if let Some(first) = constants.functions.get(&function.name.text) {
                diagnostics.push(duplicate(&function.name.text, first.name.span, function.name.span));
                continue;
            }
            constants.functions.insert(function.name.text.clone(), function.clone());
        }
        for table in files.iter().flat_map(|file| &file.tables) {
            check_rows(table, diagnostics);
            if let Some(first) = constants.tables.get(&table.name.text) {
                diagnostics.push(duplicate(&table.name.text, first.name.span, table.name.span));
                continue;
            }
            let mut table = table.clone();
            // Excess rows were reported and are not processed: each row is a choice nested in the previous
            // one.
            table.rows.truncate(ROWS_MAX);
            constants.tables.insert(table.name.text.clone(), table);
        }
        for function in files.iter().flat_map(|file| &file.functions) {
            constants.check_body(function, diagnostics);
        }
        let names: Vec<&Name> =
            files.iter().flat_map(|file| &file.functions).map(|function| &function.name).collect();
        let circles: Vec<&Name> =
            names.into_iter().filter(|name| constants.calls(&name.text, &name.text)).collect();
        for name in circles {
            let message = format!("`{}` calls itself", name.text);
            let help = "functions are substituted where they are called: this would never end";
            diagnostics.push(Diagnostic::error(codes::CYCLE, message).at(name.span).help(help));
            // A body without calls, so that the bodies that call it can be checked.
            if let Some(known) = constants.functions.get_mut(&name.text) {
                known.body.kind = ExprKind::Number(0);
            }
        }
        constants
    }

    /// Joins these with the functions and tables of another text. Reports a name that both define
    /// differently.
    pub(super) fn joined(&self, others: &Constants, diagnostics: &mut Vec<Diagnostic>) -> Constants {
        let mut both = self.clone();
        for (name, function) in &others.functions {
            match self.functions.get(name) {
                Some(own) if !own.same(function) => {
                    diagnostics.push(duplicate(name, own.name.span, function.name.span));
                }
                _ => drop(both.functions.insert(name.clone(), function.clone())),
            }
        }
        for (name, table) in &others.tables {
            match self.tables.get(name) {
                Some(own) if !own.same(table) => {
                    diagnostics.push(duplicate(name, own.name.span, table.name.span));
                }
                _ => drop(both.tables.insert(name.clone(), table.clone())),
            }
        }
        both
    }

    /// Whether a function of this name exists.
    pub(super) fn has_function(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    /// The table of this name, or the reason why there is none.
    pub(super) fn table(&self, name: &Name) -> Result<&Table, Diagnostic> {
        self.tables.get(&name.text).ok_or_else(|| unknown("table", name, self.tables.keys()))
    }

    /// The body of a function, with `args` in place of its parameters.
    pub(super) fn call(&self, name: &Name, args: &[Expr], span: Span) -> Result<Expr, Diagnostic> {
        let Some(function) = self.functions.get(&name.text) else {
            return Err(unknown("function", name, self.functions.keys()));
        };
        let (given, wanted) = (args.len(), function.params.len());
        if given != wanted {
            let plural = if wanted == 1 { "value" } else { "values" };
            let message = format!("`{}` is a function of {wanted} {plural}, {given} given", name.text);
            return Err(Diagnostic::error(codes::BAD_EXPRESSION, message)
                .at(span)
                .label(function.name.span, "declared here"));
        }
        let mut nodes = 0;
        // Resolve the arguments first: otherwise a nested call would be substituted once per use.
        let args: Option<Vec<Expr>> =
            args.iter().map(|arg| self.substitute(arg, &[], &[], None, &mut nodes)).collect();
        let put = args.and_then(|args| {
            self.substitute(&function.body, &function.params, &args, Some(span), &mut nodes)
        });
        put.ok_or_else(|| {
            let message = format!("more than {NODES_MAX} operators after substitution of `{}`", name.text);
            Diagnostic::error(codes::TOO_MUCH, message)
                .at(span)
                .help("name the repeated part: `let part = …`")
        })
    }

    /// `body` without calls and with `args` in place of `params`. Every part gets `span`, if there is one.
    /// `None` if the result exceeds the bound.
    fn substitute(
        &self,
        body: &Expr,
        params: &[Name],
        args: &[Expr],
        span: Option<Span>,
        nodes: &mut usize,
    ) -> Option<Expr> {
        *nodes += 1;
        if *nodes > NODES_MAX {
            return None;
        }
        let mut inner = |expr: &Expr| self.substitute(expr, params, args, span, nodes).map(Box::new);
        let kind = match &body.kind {
            ExprKind::Number(number) => ExprKind::Number(*number),
            ExprKind::Name(name) => {
                let param = params.iter().position(|param| param.text == *name);
                let Some(arg) = param.and_then(|param| args.get(param)) else { return Some(body.clone()) };
                *nodes += size_of(arg);
                return (*nodes <= NODES_MAX).then(|| arg.clone());
            }
            ExprKind::Not(a) => ExprKind::Not(inner(a)?),
            ExprKind::Binary(op, a, b) => ExprKind::Binary(*op, inner(a)?, inner(b)?),
            ExprKind::In(a, ranges) => ExprKind::In(inner(a)?, ranges.clone()),
            ExprKind::Choose(a, b, c) => ExprKind::Choose(inner(a)?, inner(b)?, inner(c)?),
            ExprKind::Lookup(table, a) => ExprKind::Lookup(table.clone(), inner(a)?),
            ExprKind::Call(name, given) => {
                let given: Option<Vec<Expr>> = given.iter().map(|arg| inner(arg).map(|arg| *arg)).collect();
                // A mistake in a call was reported at the call, or when its function was checked.
                let given = given?;
                let Some(function) = self.functions.get(&name.text) else { return Some(body.clone()) };
                if function.params.len() != given.len() {
                    return Some(Expr { kind: ExprKind::Call(name.clone(), given), span: body.span });
                }
                let span = span.or(Some(body.span));
                return self.substitute(&function.body, &function.params, &given, span, nodes);
            }
        };
        Some(Expr { kind, span: span.unwrap_or(body.span) })
    }

    /// A body may use its parameters, other functions, and tables.
    fn check_body(&self, function: &Function, diagnostics: &mut Vec<Diagnostic>) {
        let mut seen: FxHashMap<&str, Span> = FxHashMap::default();
        for param in &function.params {
            if let Some(first) = seen.insert(&param.text, param.span) {
                diagnostics.push(duplicate(&param.text, first, param.span));
            }
        }
        each(&function.body, &mut |expr| match &expr.kind {
            ExprKind::Name(name) if !seen.contains_key(name.as_str()) => {
                let message = format!("`{}` has no parameter `{name}`", function.name.text);
                let params = function.params.iter().map(|param| param.text.as_str());
                diagnostics.push(
                    Diagnostic::error(codes::UNKNOWN_NAME, message)
                        .at(expr.span)
                        .help("a function sees only its parameters: pass the value as one")
                        .did_you_mean(name, params),
                );
            }
            ExprKind::Lookup(name, _) => diagnostics.extend(self.table(name).err()),
            ExprKind::Call(name, args) => {
                // The arguments are irrelevant here: no call is substituted.
                let zeros: Vec<Expr> =
                    args.iter().map(|arg| Expr { kind: ExprKind::Number(0), span: arg.span }).collect();
                let is_known = self.functions.get(&name.text);
                if is_known.is_none_or(|known| known.params.len() != args.len()) {
                    diagnostics.extend(self.call(name, &zeros, expr.span).err());
                }
            }
            _ => {}
        });
    }

    /// Whether `from` calls `wanted`, directly or indirectly.
    fn calls(&self, from: &str, wanted: &str) -> bool {
        let mut open = vec![from.to_string()];
        let mut seen: FxHashSet<String> = FxHashSet::default();
        while let Some(name) = open.pop() {
            let Some(function) = self.functions.get(&name) else { continue };
            let mut found = false;
            each(&function.body, &mut |expr| {
                if let ExprKind::Call(called, _) = &expr.kind {
                    found |= called.text == wanted;
                    if seen.insert(called.text.clone()) {
                        open.push(called.text.clone());
                    }
                }
            });
            if found {
                return true;
            }
        }
        false
    }
}

fn unknown<'a>(what: &str, name: &Name, known: impl Iterator<Item = &'a String>) -> Diagnostic {
    // The first of two equally near names is suggested: sorting makes the suggestion independent of hashing.
    let mut known: Vec<&str> = known.map(String::as_str).collect();
    known.sort_unstable();
    let declare = if what == "table" { "table NAME { 0: 6  1: 14 }" } else { "fn NAME(a, b) = a + b" };
    Diagnostic::error(codes::UNKNOWN_NAME, format!("there is no {what} `{}`", name.text))
        .at(name.span)
        .help(format!("declare one outside of protocols: `{declare}`"))
        .did_you_mean(&name.text, known)
}

fn check_rows(table: &Table, diagnostics: &mut Vec<Diagnostic>) {
    let rows = table.rows.iter().flat_map(|(numbers, _)| numbers);
    let mut sorted: Vec<_> = rows.collect();
    if sorted.len() > ROWS_MAX {
        let message = format!("a table has at most {ROWS_MAX} rows");
        diagnostics.push(Diagnostic::error(codes::TOO_MUCH, message).at(table.name.span));
    }
    sorted.sort_unstable_by_key(|(low, high, _)| (*low, *high));
    for pair in sorted.windows(2) {
        let ((_, high, first), (low, _, second)) = (pair[0], pair[1]);
        if low <= high {
            let message = "two rows of a table have the same number";
            let diagnostic = Diagnostic::error(codes::DUPLICATE, message);
            diagnostics.push(diagnostic.label(*second, "again here").label(*first, "first here"));
        }
    }
}

/// Calls `visit` for an expression and all its subexpressions.
fn each(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
    visit(expr);
    match &expr.kind {
        ExprKind::Number(_) | ExprKind::Name(_) => {}
        ExprKind::Not(a) | ExprKind::In(a, _) | ExprKind::Lookup(_, a) => each(a, visit),
        ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(|inner| each(inner, visit)),
        ExprKind::Choose(a, b, c) => [a, b, c].into_iter().for_each(|inner| each(inner, visit)),
        ExprKind::Call(_, args) => args.iter().for_each(|arg| each(arg, visit)),
    }
}

fn size_of(expr: &Expr) -> usize {
    let mut nodes = 0;
    each(expr, &mut |_| nodes += 1);
    nodes
}
