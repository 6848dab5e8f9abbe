//! Builds graphs: a cursor that appends instructions, and variables that become block parameters.
//!
//! Lowering uses variables that are assigned on some paths and read on others. [`Builder::write`] and
//! [`Builder::read`] convert them to static single assignment form on the fly, by the algorithm of Braun et
//! al., "Simple and Efficient Construction of Static Single Assignment Form" (CC 2013): a block is *sealed*
//! once all its predecessors are known.

use crate::graph::{
    BinaryOp, Block, BlockData, CompareOp, Fuel, Graph, Inst, Op, Target, Terminator, Type, Value, Values,
};
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::{SmallVec, smallvec};
use weir_packet::DropReason;

/// A variable of the builder; it exists only until the graph is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variable(pub u32);

/// Initial capacity for definitions: enough for small stacks.
const DEFINITIONS: usize = 1 << 12;

/// If a read walks back through more blocks than this, it also records the result in a block midway.
const MIDWAY: usize = 64;

/// State of a parameter that may turn out to be unnecessary: that is known only when its arguments are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Guess {
    /// Not provisional.
    #[default]
    None,
    /// Provisional, and not read so far.
    Unread,
    /// Provisional and read: the parameter must stay.
    Read,
}

#[derive(Debug, Default, Clone)]
struct BlockState {
    sealed: bool,
    terminated: bool,
    predecessors: Vec<Block>,
    incomplete: Vec<(Variable, Value)>,
}

/// Builds a [`Graph`].
#[derive(Debug)]
pub struct Builder {
    /// The graph so far.
    pub graph: Graph,
    at: Block,
    types: Vec<Type>,
    definitions: FxHashMap<(Variable, Block), Value>,
    /// By value: state of a provisional parameter whose arguments are still being determined.
    guesses: Vec<Guess>,
    states: Vec<BlockState>,
    /// Constants of each block, by type; shared within the block.
    constants: FxHashMap<(Type, u64, Block), Value>,
}

impl Builder {
    /// Starts at the entry block, which is sealed.
    pub fn new(graph: Graph) -> Self {
        let mut builder = Self {
            graph,
            at: Block(0),
            types: Vec::new(),
            definitions: FxHashMap::with_capacity_and_hasher(DEFINITIONS, FxBuildHasher),
            guesses: Vec::new(),
            states: Vec::new(),
            constants: FxHashMap::default(),
        };
        let entry = builder.block();
        builder.graph.entry = entry;
        builder.seal(entry);
        builder.switch_to(entry);
        builder
    }

    /// Returns the graph.
    ///
    /// # Panics
    /// If a reachable block has no terminator or is not sealed: a bug in lowering.
    pub fn finish(mut self) -> Graph {
        for (index, state) in self.states.iter().enumerate() {
            assert!(state.sealed, "block{index} was never sealed");
            assert!(state.terminated || state.predecessors.is_empty(), "block{index} has no end");
        }
        let zero = self.graph.value(Type::Int);
        for (index, state) in self.states.iter().enumerate() {
            if !state.terminated {
                let block = &mut self.graph.blocks[index];
                block.insts = vec![Inst { results: smallvec![zero], op: Op::Const(0) }];
                block.params.clear();
                block.terminator = Terminator::Done { terms: zero, reason: None };
            }
        }
        self.graph
    }

    /// Creates a block.
    pub fn block(&mut self) -> Block {
        self.graph.blocks.push(BlockData { params: vec![], insts: vec![], terminator: Terminator::Restart });
        self.states.push(BlockState::default());
        Block(self.graph.blocks.len() as u32 - 1)
    }

    /// Makes `block` the current block, to which instructions are appended.
    pub fn switch_to(&mut self, block: Block) {
        self.at = block;
    }

    /// The current block.
    pub fn current(&self) -> Block {
        self.at
    }

    /// Whether the current block has its terminator, so no instruction can follow.
    pub fn is_terminated(&self) -> bool {
        self.states[self.at.index()].terminated
    }

    /// Declares that all predecessors of `block` are known.
    pub fn seal(&mut self, block: Block) {
        let incomplete = std::mem::take(&mut self.states[block.index()].incomplete);
        self.states[block.index()].sealed = true;
        for (variable, param) in incomplete {
            let arguments = self.arguments(variable, block);
            self.hand_over(block, &arguments);
            debug_assert!(self.graph.block(block).params.contains(&param), "it was read and stays");
        }
    }

    /// Creates a variable.
    pub fn variable(&mut self, ty: Type) -> Variable {
        self.types.push(ty);
        Variable(self.types.len() as u32 - 1)
    }

    /// Assigns `variable` in the current block.
    pub fn write(&mut self, variable: Variable, value: Value) {
        debug_assert_eq!(self.types[variable.0 as usize], self.graph.type_of(value));
        self.definitions.insert((variable, self.at), value);
    }

    /// The value of `variable` in the current block. If no path assigns it: 0, false or the frame.
    pub fn read(&mut self, variable: Variable) -> Value {
        self.read_in(variable, self.at)
    }

    fn read_in(&mut self, variable: Variable, block: Block) -> Value {
        // Walks up single predecessors without recursion, because stacks of layers make long chains. The
        // result is cached in the block of the read, for reads in later blocks; after a long walk also
        // midway, for reads in blocks that branch off there.
        let (mut steps, mut at, mut midway) = (0, block, block);
        let value = loop {
            if let Some(&value) = self.definitions.get(&(variable, at)) {
                if let Some(guess @ Guess::Unread) = self.guesses.get_mut(value.index()) {
                    *guess = Guess::Read;
                }
                break value;
            }
            let state = &self.states[at.index()];
            if !state.sealed {
                let param = self.param(at, self.types[variable.0 as usize]);
                self.states[at.index()].incomplete.push((variable, param));
                self.definitions.insert((variable, at), param);
                break param;
            }
            match state.predecessors[..] {
                [only] if steps < self.states.len() => {
                    steps += 1;
                    at = only;
                    if steps % MIDWAY == 0 {
                        midway = at;
                    }
                }
                // The entry, or an unreachable cycle.
                [] | [_] => break self.undefined(variable, at),
                _ => break self.join(variable, at),
            }
        };
        if at != block {
            self.definitions.insert((variable, block), value);
        }
        if midway != block {
            self.definitions.insert((variable, midway), value);
        }
        value
    }

    fn undefined(&mut self, variable: Variable, block: Block) -> Value {
        let op = match self.types[variable.0 as usize] {
            Type::Bool => Op::Bool(false),
            Type::Int => Op::Const(0),
            Type::Buf => Op::Frame,
            Type::Flow(table) => panic!("a flow of {table} is read where none was looked up"),
        };
        let value = self.graph.value(self.types[variable.0 as usize]);
        self.graph.blocks[block.index()].insts.insert(0, Inst { results: smallvec![value], op });
        self.definitions.insert((variable, block), value);
        value
    }

    /// The value of a variable where several edges meet: a parameter, unless all edges carry the same value.
    fn join(&mut self, variable: Variable, block: Block) -> Value {
        let param = self.param(block, self.types[variable.0 as usize]);
        self.definitions.insert((variable, block), param);
        self.guesses.resize(self.graph.values.len(), Guess::None);
        self.guesses[param.index()] = Guess::Unread;
        let arguments = self.arguments(variable, block);
        let guess = std::mem::take(&mut self.guesses[param.index()]);
        if let [(_, first), others @ ..] = &arguments[..]
            && guess == Guess::Unread
            && others.iter().all(|(_, value)| value == first)
        {
            self.graph.blocks[block.index()].params.retain(|&p| p != param);
            self.definitions.insert((variable, block), *first);
            return *first;
        }
        self.hand_over(block, &arguments);
        param
    }

    /// The value of a variable in each predecessor.
    fn arguments(&mut self, variable: Variable, block: Block) -> SmallVec<[(Block, Value); 4]> {
        let mut predecessors: SmallVec<[Block; 4]> = self.states[block.index()].predecessors[..].into();
        predecessors.sort_unstable();
        predecessors.dedup();
        predecessors.into_iter().map(|before| (before, self.read_in(variable, before))).collect()
    }

    fn hand_over(&mut self, block: Block, arguments: &[(Block, Value)]) {
        for &(before, value) in arguments {
            self.graph.blocks[before.index()].terminator.for_each_target_mut(|target| {
                if target.block == block {
                    target.args.push(value);
                }
            });
        }
    }

    /// Adds a parameter to `block`; explicit arguments come before those of variables.
    pub fn param(&mut self, block: Block, ty: Type) -> Value {
        let value = self.graph.value(ty);
        self.graph.blocks[block.index()].params.push(value);
        value
    }

    /// Appends an instruction with any number of results.
    pub fn push(&mut self, op: Op) -> Values {
        debug_assert!(!self.is_terminated(), "{} has ended", self.at);
        let mut results = Values::new();
        self.graph.result_types(&op).into_iter().for_each(|ty| results.push(self.graph.value(ty)));
        self.graph.blocks[self.at.index()].insts.push(Inst { results: results.clone(), op });
        results
    }

    /// Appends an instruction with one result.
    pub fn one(&mut self, op: Op) -> Value {
        self.push(op)[0]
    }

    fn shared(&mut self, ty: Type, word: u64, op: Op) -> Value {
        if let Some(&value) = self.constants.get(&(ty, word, self.at)) {
            return value;
        }
        let value = self.one(op);
        self.constants.insert((ty, word, self.at), value);
        value
    }

    /// A number constant.
    pub fn int(&mut self, value: u64) -> Value {
        self.shared(Type::Int, value, Op::Const(value))
    }

    /// A bool constant.
    pub fn bool(&mut self, value: bool) -> Value {
        self.shared(Type::Bool, u64::from(value), Op::Bool(value))
    }

    /// Appends arithmetic.
    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        self.one(Op::Binary(op, a, b))
    }

    /// Appends a comparison.
    pub fn compare(&mut self, op: CompareOp, a: Value, b: Value) -> Value {
        self.one(Op::Compare(op, a, b))
    }

    /// A bool that is true if the int is not 0.
    pub fn truth(&mut self, value: Value) -> Value {
        let zero = self.int(0);
        self.compare(CompareOp::Ne, value, zero)
    }

    /// Ends the current block.
    pub fn end(&mut self, terminator: Terminator) {
        assert!(!self.is_terminated(), "{} has ended already", self.at);
        for successor in terminator.successors() {
            self.states[successor.index()].predecessors.push(self.at);
        }
        self.graph.blocks[self.at.index()].terminator = terminator;
        self.states[self.at.index()].terminated = true;
    }

    /// Ends the current block with a jump to `block`.
    pub fn jump(&mut self, block: Block) {
        self.end(Terminator::Jump(to(block)));
    }

    /// Ends the current block with a branch on a bool.
    pub fn branch(&mut self, condition: Value, then: Block, otherwise: Block) {
        self.end(Terminator::Branch { condition, then: to(then), otherwise: to(otherwise) });
    }

    /// Ends the current block with a check that `buf` contains `bytes` bytes from `offset` on.
    pub fn check(&mut self, buf: Value, offset: Value, bytes: u32, then: Block, otherwise: Block) {
        self.end(Terminator::Check { buf, offset, bytes, then: to(then), otherwise: to(otherwise) });
    }

    /// Ends the current block with a bounded loop edge: to `then` at most `max` times per packet, then to
    /// `otherwise`. Uses a new fuel.
    pub fn again(&mut self, max: u32, then: Block, otherwise: Block) -> Fuel {
        let fuel = Fuel(self.graph.fuels);
        self.graph.fuels += 1;
        self.end(Terminator::Again { fuel, max, then: to(then), otherwise: to(otherwise) });
        fuel
    }

    /// Ends the current block and the packet.
    pub fn done(&mut self, terms: Value, reason: Option<DropReason>) {
        self.end(Terminator::Done { terms, reason });
    }
}

/// A target without explicit arguments.
pub fn to(block: Block) -> Target {
    Target { block, args: vec![] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A variable that is 7, or 8 on one of two paths. Returns its value at the join, and the parameters
    /// there.
    fn at_the_join(is_changed: bool) -> (Value, Value, Vec<Value>) {
        let mut b = Builder::new(Graph::default());
        let variable = b.variable(Type::Int);
        let seven = b.int(7);
        b.write(variable, seven);
        let yes = b.bool(true);
        let [then, otherwise, join] = [(); 3].map(|()| b.block());
        b.branch(yes, then, otherwise);
        for block in [then, otherwise] {
            b.seal(block);
            b.switch_to(block);
            if is_changed && block == then {
                let eight = b.int(8);
                b.write(variable, eight);
            }
            b.jump(join);
        }
        b.seal(join);
        b.switch_to(join);
        let read = b.read(variable);
        (seven, read, b.graph.block(join).params.clone())
    }

    #[test]
    fn a_parameter_is_there_where_ways_bring_different_values() {
        let (seven, read, params) = at_the_join(false);
        assert_eq!((read, params), (seven, vec![]));
        let (seven, read, params) = at_the_join(true);
        assert_ne!(read, seven);
        assert_eq!(params, [read]);
    }

    #[test]
    fn what_a_loop_changes_has_a_parameter_at_its_head_and_the_ends_fit() {
        let mut b = Builder::new(Graph::default());
        let (kept, counted) = (b.variable(Type::Int), b.variable(Type::Int));
        let zero = b.int(0);
        b.write(kept, zero);
        b.write(counted, zero);
        let [head, body, exit, left, right] = [(); 5].map(|()| b.block());
        b.graph.fuels = 1;
        b.jump(head);
        b.switch_to(head);
        b.end(Terminator::Again { fuel: crate::graph::Fuel(0), max: 9, then: to(body), otherwise: to(exit) });
        b.seal(body);
        b.switch_to(body);
        let yes = b.bool(true);
        b.branch(yes, left, right);
        for side in [left, right] {
            b.seal(side);
            b.switch_to(side);
            let one = b.int(1);
            let before = b.read(counted);
            let more = b.binary(BinaryOp::Add, before, one);
            b.write(counted, more);
            b.jump(head);
        }
        b.seal(head);
        b.seal(exit);
        b.switch_to(exit);
        let sum = {
            let (kept, counted) = (b.read(kept), b.read(counted));
            b.binary(BinaryOp::Add, kept, counted)
        };
        b.done(sum, None);
        let graph = b.finish();
        assert!(!graph.block(head).params.is_empty());
        crate::verify::verify(&graph).unwrap_or_else(|wrong| panic!("{graph}\n{wrong:?}"));
    }
}
