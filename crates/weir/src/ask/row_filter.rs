//! Filters on the columns of rows: of parts of sessions (files, certificates), and of what inspectors add to
//! connections. The program finds the sessions or connections; the columns of a row decide whether it is
//! shown: `files.mime_type == "text/html"`.
//!
//! A filter is split at its outermost `and`s: terms that name columns of the rows stay here, the others go to
//! the program.

use super::compile::{Compiler, sources_of};
use super::deferred_predicate::lower_predicate;
use super::program::Executor;
use crate::flow::record::ColumnMask;
use crate::rows::session::Log;
use weir_compile::{FieldKey, PartFields, StackCatalog};
use weir_engine::deferred_predicate::DeferredPredicate;
use weir_engine::plan::RemainderSet;
use weir_ir::abi::Continuation;
use weir_lang::diag::{Diagnostic, Diagnostics};
use weir_lang::filter::{self, Catalog, Expr, FieldInfo, Filter, Predicate};
use weir_packet::{Column, Row};
use weir_sessions::Field;

/// A condition on the rows of a log, by their columns.
pub struct RowFilter {
    node: Node,
    scratch: Continuation,
}

enum Node {
    Is { column: usize, predicate: DeferredPredicate },
    All(Vec<Node>),
    Any(Vec<Node>),
}

impl std::fmt::Debug for RowFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowFilter").finish_non_exhaustive()
    }
}

impl RowFilter {
    /// Whether a row matches.
    pub fn takes(&mut self, row: Row<'_>) -> bool {
        self.node.holds(row, &mut self.scratch)
    }

    /// The columns that the condition reads.
    pub fn columns(&self) -> ColumnMask {
        let mut columns = vec![];
        self.node.collect_columns(&mut columns);
        columns.into_iter().collect()
    }
}

impl Node {
    fn collect_columns(&self, columns: &mut Vec<usize>) {
        match self {
            Self::Is { column, .. } => columns.push(*column),
            Self::All(nodes) | Self::Any(nodes) => {
                nodes.iter().for_each(|node| node.collect_columns(columns))
            }
        }
    }

    fn holds(&self, row: Row<'_>, scratch: &mut Continuation) -> bool {
        match self {
            Self::Is { column, predicate } => {
                let mut met = RemainderSet::one(0);
                predicate.rule_out(&row.cell(*column).value(), &mut met, scratch);
                !met.is_empty()
            }
            Self::All(nodes) => nodes.iter().all(|node| node.holds(row, scratch)),
            Self::Any(nodes) => nodes.iter().any(|node| node.holds(row, scratch)),
        }
    }
}

/// The columns of rows that filters know as fields, in addition to those of the stack. The program knows
/// nothing of these fields: they decide about rows.
#[derive(Debug, Clone)]
pub struct RowFields {
    parts: PartFields,
    /// For each field: the index of its column.
    columns: Vec<Option<usize>>,
}

impl RowFields {
    /// The fields of `name`, whose values are in the columns of rows with the fields' column names.
    pub fn new(name: &'static str, doc: &'static str, fields: &'static [Field], columns: &[Column]) -> Self {
        Self::of_parts(PartFields { name, doc, fields }, columns)
    }

    fn of_parts(parts: PartFields, columns: &[Column]) -> Self {
        let place = |field: &Field| columns.iter().position(|column| column.name == field.column);
        Self { parts, columns: parts.fields.iter().map(place).collect() }
    }

    /// The fields themselves.
    pub fn filter_fields(&self, compiler: &Compiler) -> Vec<FieldInfo> {
        let catalog = self.catalog(compiler);
        let numbered = catalog.fields().iter().enumerate();
        let own = numbered.filter(|(index, _)| is_own(&catalog, compiler, *index));
        own.map(|(_, field)| field.clone()).collect()
    }

    /// The names that filters on the rows know: those of the stack, and these fields.
    fn catalog(&self, compiler: &Compiler) -> StackCatalog {
        StackCatalog::with_parts(compiler.stack(), compiler.sessions(), Some(self.parts))
    }

    /// Splits a filter into a filter for the program and a condition on rows; `None` if the filter names none
    /// of these fields.
    ///
    /// # Errors
    /// All errors in the filter, and an alternative that combines these fields with others.
    pub fn split_filter(
        &self,
        compiler: &Compiler,
        text: &str,
        bpf: bool,
    ) -> Result<(String, Option<RowFilter>), Diagnostics> {
        let whole = compiler.check_filter(text, bpf);
        if bpf || whole.is_ok() {
            return whole.map(|()| (text.to_string(), None));
        }
        let catalog = self.catalog(compiler);
        let wrong = |list| Diagnostics { sources: sources_of(text), list };
        let Filter { expr, .. } = filter::compile(text, &catalog).map_err(wrong)?;
        let parts = match expr {
            Expr::And(parts) => parts,
            one => vec![one],
        };
        let (mut own, mut others, mut mixed) = (vec![], vec![], vec![]);
        for part in parts {
            let mut predicates = vec![];
            collect(&part, &mut predicates);
            let is_own = |p: &&&Predicate| is_own(&catalog, compiler, p.field);
            match predicates.iter().filter(is_own).count() {
                0 => others.push(part),
                all if all == predicates.len() => own.push(part),
                _ => mixed.extend(predicates.first().map(|predicate| predicate.span)),
            }
        }
        if own.is_empty() && mixed.is_empty() {
            return whole.map(|()| (text.to_string(), None));
        }
        if !mixed.is_empty() {
            let message = format!("columns of `{}` and other fields are alternatives here", self.parts.name);
            let help = "join them with `and`, or ask two questions: rows are chosen by their own columns once their \
                        sessions are";
            let list = mixed.into_iter();
            let list = list.map(|span| Diagnostic::error("W0198", message.clone()).at(span).help(help));
            return Err(wrong(list.collect()));
        }
        let others = match others.len() {
            0 => String::new(),
            1 => others[0].display(&catalog).to_string(),
            _ => Expr::And(others).display(&catalog).to_string(),
        };
        let node = Node::All(own.iter().map(|part| self.node(part, &catalog)).collect());
        Ok((others, Some(RowFilter { node, scratch: Continuation::default() })))
    }

    fn node(&self, expr: &Expr, catalog: &StackCatalog) -> Node {
        let nodes = |parts: &[Expr]| parts.iter().map(|part| self.node(part, catalog)).collect();
        match expr {
            Expr::True => Node::All(vec![]),
            Expr::And(parts) => Node::All(nodes(parts)),
            Expr::Or(parts) => Node::Any(nodes(parts)),
            Expr::Predicate(predicate) => {
                let column = match catalog.key(predicate.field) {
                    FieldKey::SessionField(_, index) => {
                        self.columns.get(usize::from(index)).copied().flatten()
                    }
                    _ => None,
                };
                Node::Is {
                    column: column.unwrap_or(usize::MAX),
                    predicate: lower_predicate(
                        predicate.field,
                        &[(predicate, RemainderSet::one(0))],
                        (catalog, Executor::Interpreter),
                    ),
                }
            }
        }
    }
}

impl Log {
    /// The log's columns as fields, if its rows are parts of sessions.
    fn row_fields(&self) -> Option<RowFields> {
        self.fields_of_parts().map(|parts| RowFields::of_parts(parts, &self.columns()))
    }

    /// The fields of the log that filters on its rows know, in addition to those of the stack.
    pub fn filter_fields(&self, compiler: &Compiler) -> Vec<FieldInfo> {
        self.row_fields().map_or(vec![], |fields| fields.filter_fields(compiler))
    }

    /// Splits a filter on the log's rows into a filter for the program and a condition on rows.
    ///
    /// # Errors
    /// All errors in the filter, and an alternative that combines the log's columns with other fields.
    pub fn split_filter(
        &self,
        compiler: &Compiler,
        text: &str,
        bpf: bool,
    ) -> Result<(String, Option<RowFilter>), Diagnostics> {
        match self.row_fields() {
            Some(fields) => fields.split_filter(compiler, text, bpf),
            None => compiler.check_filter(text, bpf).map(|()| (text.to_string(), None)),
        }
    }
}

/// Whether a field is one of the rows' own: these come after those of all protocols.
fn is_own(catalog: &StackCatalog, compiler: &Compiler, field: usize) -> bool {
    let protocols = compiler.sessions().protocols().len();
    matches!(catalog.key(field), FieldKey::SessionField(of, _) if usize::from(of) == protocols)
}

fn collect<'a>(expr: &'a Expr, found: &mut Vec<&'a Predicate>) {
    match expr {
        Expr::True => {}
        Expr::Predicate(predicate) => found.push(predicate),
        Expr::And(parts) | Expr::Or(parts) => parts.iter().for_each(|part| collect(part, found)),
    }
}
