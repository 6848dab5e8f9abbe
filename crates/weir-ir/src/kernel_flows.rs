//! The connections that the kernel has taken over: where the graph for the kernel, and the engine, find their
//! variables.
//!
//! The engine gives a connection to the kernel by writing its variables to an entry of the kernel's table.
//! The kernel counts packets there that change nothing else (`steady` in the text of a layer). For every
//! other packet it opens the entry: all packets of the connection are for the engine again, which first takes
//! the variables back.
//!
//! An entry consists of words of 64 bits: [`STATE`], [`LAST_TIME`], [`SWAP`], then the variables. Variables
//! with sides have two words, the originator's first. A key consists of the number of the layer, then the
//! words of the connection's key.

use crate::engine_var::VarName;
use crate::graph::{BinaryOp, Graph, Op, Table, Terminator, Type, Value, Var, VarKind};
use weir_packet::flow_entry::FIRST_VAR;

pub use weir_packet::flow_entry::{LAST_TIME, STATE, SWAP};

/// What the kernel does with a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It reads the variable, as the variable was when the engine gave the connection away.
    Read,
    /// It adds to the variable. The engine adds what was added.
    Sum,
    /// It sets the variable, and the engine takes over the value.
    Value,
}

/// A variable of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelVar {
    /// Its name.
    pub name: VarName,
    /// Whether each side has one.
    pub each_side: bool,
    /// Its bits, at most 64.
    pub bits: u8,
    /// Its first word.
    pub word: usize,
    /// What the kernel does with it.
    pub role: Role,
}

/// The entries of connections of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelTable {
    /// The table in the graph for the kernel.
    pub table: Table,
    /// The number of the layer: the first word of keys.
    pub layer: u64,
    /// The variables.
    pub vars: Vec<KernelVar>,
}

/// The entries of all tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelLayout {
    /// The tables whose connections the kernel takes over.
    pub tables: Vec<KernelTable>,
    /// Words of a key. Shorter keys are followed by zeros.
    pub key_words: usize,
    /// Words of an entry.
    pub entry_words: usize,
}

impl KernelLayout {
    /// The layout for an optimised graph for the kernel. `layers`: the number of each table's layer.
    pub fn of(graph: &Graph, layers: &[u64]) -> Self {
        let mut layout = Self { entry_words: FIRST_VAR, ..Self::default() };
        for block in &graph.blocks {
            let Terminator::Lookup { table, key, then, .. } = &block.terminator else { continue };
            let is_known = layout.tables.iter().any(|known| known.table == *table);
            if is_needed_anyway(graph, *then) || is_known {
                continue;
            }
            let vars = vars_of(graph, *table);
            layout.key_words = layout.key_words.max(1 + key.len());
            let words = vars.last().map_or(FIRST_VAR, |last| last.word + 1 + usize::from(last.each_side));
            layout.entry_words = layout.entry_words.max(words);
            layout.tables.push(KernelTable { table: *table, layer: layers[table.index()], vars });
        }
        layout
    }

    /// Whether the kernel takes over no connection.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The entries of a table.
    pub fn table(&self, table: Table) -> Option<&KernelTable> {
        self.tables.iter().find(|known| known.table == table)
    }

    /// The entries of a layer.
    pub fn of_layer(&self, layer: u64) -> Option<&KernelTable> {
        self.tables.iter().find(|known| known.layer == layer)
    }

    /// A connection's key in the kernel's table.
    pub fn key(&self, layer: u64, key: &[u64]) -> Vec<u64> {
        let mut all = Vec::with_capacity(self.key_words);
        all.push(layer);
        all.extend_from_slice(key);
        all.resize(self.key_words, 0);
        all
    }
}

impl KernelTable {
    /// The entry's variable with this name.
    pub fn var(&self, name: &VarName) -> Option<&KernelVar> {
        self.vars.iter().find(|known| known.name == *name)
    }
}

/// Whether a graph for the kernel needs every packet of the instance that this block has looked up.
pub fn is_needed_anyway(graph: &Graph, found: crate::graph::Block) -> bool {
    let block = graph.block(found);
    let is_free = |op: &Op| op.is_pure() || matches!(op, Op::Get { .. });
    matches!(block.terminator, Terminator::Restart) && block.insts.iter().all(|inst| is_free(&inst.op))
}

/// The number that an instruction adds to a variable, if it does: `value` is the new value.
pub fn addend(graph: &Graph, flow: Value, var: Var, side: Option<Value>, value: Value) -> Option<Value> {
    let definition = |of: Value| {
        let mut insts = graph.blocks.iter().flat_map(|block| &block.insts);
        insts.find(|inst| inst.results.contains(&of)).map(|inst| &inst.op)
    };
    let is_old = |of: Value| match definition(of) {
        Some(Op::Get { flow: of, var: read, side: of_side }) => (*of, *read, *of_side) == (flow, var, side),
        _ => false,
    };
    match definition(value)? {
        Op::Binary(BinaryOp::Add, a, b) if is_old(*a) => Some(*b),
        Op::Binary(BinaryOp::Add, a, b) if is_old(*b) => Some(*a),
        _ => None,
    }
}

fn vars_of(graph: &Graph, table: Table) -> Vec<KernelVar> {
    let mut vars: Vec<KernelVar> = vec![];
    let mut word = FIRST_VAR;
    for inst in graph.blocks.iter().flat_map(|block| &block.insts) {
        let (flow, var, role) = match &inst.op {
            Op::Get { flow, var, .. } => (*flow, *var, Role::Read),
            Op::Set { flow, var, side, value } => match addend(graph, *flow, *var, *side, *value) {
                Some(_) => (*flow, *var, Role::Sum),
                None => (*flow, *var, Role::Value),
            },
            _ => continue,
        };
        if graph.type_of(flow) != Type::Flow(table) {
            continue;
        }
        let declared = &graph.vars[var.index()];
        if let Some(known) = vars.iter_mut().find(|known| known.name == declared.name) {
            if role != Role::Read && known.role != Role::Value {
                known.role = role;
            }
            continue;
        }
        let VarKind::Bits(bits) = declared.kind else { continue };
        let (name, each_side) = (declared.name.clone(), declared.each_side);
        vars.push(KernelVar { name, each_side, bits, word, role });
        word += 1 + usize::from(each_side);
    }
    vars
}
