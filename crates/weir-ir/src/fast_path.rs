//! The fast path: the path that most packets take, as a separate graph.
//!
//! A layer that may occur repeatedly is a loop in the graph. Its input is passed as parameters, because it
//! may come from any lower layer. In the first iteration of a usual layer
//! ([`Graph::usual`](crate::graph::Graph::usual)) almost everything about it is known: its offset, that the
//! packet is not a quoted one, that the loop counter is 0. [`fast_path_of`] follows the graph from its entry
//! through usual layers, upwards, and copies the blocks on the way; the passes then fold the constants. Edges
//! that are left out end in [`Terminator::Rejoin`]: the whole graph processes the packet from its entry. That
//! is correct because nothing before a lookup has an effect except on the packet's record. A lookup ends the
//! fast path, too: the tail belongs to the whole graph.
//!
//! The result contains no loop, no code after lookups, and only the first-named link type. It is Rubik's
//! parse tree unfolded (Rubik §5.1) as far as it pays: the code compiled at startup is small and fast, and
//! the whole graph's head is compiled when a packet needs it.

use crate::build::to;
use crate::graph::{Block, BlockData, Fuel, Graph, Inst, Meta, Op, Target, Terminator, Type, Value};
use crate::liveness::{Crossing, crossings};

/// Maximum number of copied instructions; the rest is left to the whole graph.
const INSTS_MAX: usize = 2_000;

/// The fast path of a whole graph, before any pass. `None` if the stack marks nothing as usual, or if nothing
/// is left out.
pub fn fast_path_of(graph: &Graph) -> Option<Graph> {
    if graph.usual.is_empty() {
        return None;
    }
    let declared = Graph {
        name: graph.name.clone(),
        tables: graph.tables.clone(),
        events: graph.events.clone(),
        sets: graph.sets.clone(),
        patterns: graph.patterns.clone(),
        outs: graph.outs.clone(),
        is_fast_path: true,
        ..Graph::default()
    };
    let copier = Copier {
        graph,
        fast_path: declared,
        crossings: crossings(graph),
        is_cold: cold(graph),
        link: link(graph),
        places: vec![Place::new(graph, None, None)],
        work: vec![],
        rejoin: None,
        insts: 0,
    };
    copier.run()
}

/// A point in the unfolding: the layers entered so far, each by its loop.
struct Place {
    below: Option<usize>,
    fuel: Option<Fuel>,
    /// By number in the whole graph: the copy made at this point.
    blocks: Vec<Option<Block>>,
    values: Vec<Option<Value>>,
}

impl Place {
    fn new(graph: &Graph, below: Option<usize>, fuel: Option<Fuel>) -> Self {
        Self { below, fuel, blocks: vec![None; graph.blocks.len()], values: vec![None; graph.values.len()] }
    }
}

struct Copier<'a> {
    graph: &'a Graph,
    fast_path: Graph,
    crossings: Vec<Crossing>,
    is_cold: Vec<bool>,
    /// The value that holds the link type, and the first link type in the switch.
    link: Option<(Value, u64)>,
    places: Vec<Place>,
    /// Copies whose contents are missing: place, and block of the whole graph.
    work: Vec<(usize, Block)>,
    rejoin: Option<Block>,
    insts: usize,
}

impl Copier<'_> {
    fn run(mut self) -> Option<Graph> {
        self.fast_path.entry = self.copy(0, self.graph.entry);
        while let Some((place, block)) = self.work.pop() {
            self.fill(place, block)?;
        }
        // Everything is usual: a separate graph gains nothing.
        self.rejoin.is_some().then_some(self.fast_path)
    }

    /// The copy of `block` at `place`. A new copy is queued to be filled.
    fn copy(&mut self, place: usize, block: Block) -> Block {
        if let Some(copy) = self.places[place].blocks[block.index()] {
            return copy;
        }
        let params = &self.graph.block(block).params;
        let params = params.iter().map(|&param| self.define(place, param)).collect();
        let copy = self.push(BlockData { params, insts: vec![], terminator: Terminator::Restart });
        self.places[place].blocks[block.index()] = Some(copy);
        self.work.push((place, block));
        copy
    }

    fn push(&mut self, data: BlockData) -> Block {
        self.fast_path.blocks.push(data);
        Block(self.fast_path.blocks.len() as u32 - 1)
    }

    fn define(&mut self, place: usize, value: Value) -> Value {
        let copy = self.fast_path.value(self.graph.type_of(value));
        self.places[place].values[value.index()] = Some(copy);
        copy
    }

    /// The most recent copy of a value on the path to `place`.
    fn value(&self, place: usize, value: Value) -> Option<Value> {
        let mut at = Some(place);
        while let Some(place) = at {
            let place = &self.places[place];
            if place.values[value.index()].is_some() {
                return place.values[value.index()];
            }
            at = place.below;
        }
        None
    }

    fn fill(&mut self, place: usize, block: Block) -> Option<()> {
        let data = self.graph.block(block);
        let mut insts = Vec::with_capacity(data.insts.len());
        self.insts += data.insts.len();
        for inst in &data.insts {
            let mut op = inst.op.clone();
            self.map(place, |f| op.map_operands(f))?;
            let results = inst.results.iter().map(|&result| self.define(place, result)).collect();
            insts.push(Inst { results, op });
        }
        let terminator = self.terminator(place, block)?;
        let copy = self.places[place].blocks[block.index()]?;
        let filled = &mut self.fast_path.blocks[copy.index()];
        (filled.insts, filled.terminator) = (insts, terminator);
        Some(())
    }

    /// Calls `change` with a function from values to their copies. `None` if a value has no copy, which would
    /// be a bug: then there is no fast path, which only costs speed.
    fn map(&self, place: usize, change: impl FnOnce(&mut dyn FnMut(Value) -> Value)) -> Option<()> {
        let mut all = true;
        change(&mut |value| {
            self.value(place, value).unwrap_or_else(|| {
                all = false;
                value
            })
        });
        all.then_some(())
    }

    fn terminator(&mut self, place: usize, block: Block) -> Option<Terminator> {
        let graph = self.graph;
        Some(match &graph.block(block).terminator {
            Terminator::Again { fuel, then, .. } => Terminator::Jump(self.enter(place, *fuel, then)?),
            Terminator::Lookup { table, key, swap, reversed, .. } => {
                let (mut key, mut swap, mut reversed) = (key.clone(), *swap, *reversed);
                self.map(place, |f| {
                    key.iter_mut().chain([&mut swap]).chain(&mut reversed).for_each(|v| *v = f(*v));
                })?;
                let then = self.after_lookup(place, block)?;
                Terminator::Lookup { table: *table, key, swap, reversed, then }
            }
            Terminator::Switch { value, cases, .. } if self.link.is_some_and(|(link, _)| link == *value) => {
                let first = self.link.map(|(_, first)| first);
                let (number, usual) = cases.iter().find(|(number, _)| Some(*number) == first)?;
                let cases = vec![(*number, self.target(place, usual)?)];
                let otherwise = to(self.rejoin());
                Terminator::Switch { value: self.value(place, *value)?, cases, otherwise }
            }
            other => {
                let mut terminator = other.clone();
                // The terminator's own operands first; arguments are mapped with their targets.
                terminator.for_each_target_mut(|target| target.args.clear());
                self.map(place, |f| terminator.map_operands(f))?;
                let mut targets = vec![];
                other.for_each_target(|target| targets.push(target));
                let mut copies = targets.into_iter().map(|target| self.target(place, target));
                let mut all = true;
                terminator.for_each_target_mut(|target| match copies.next().flatten() {
                    Some(copy) => *target = copy,
                    None => all = false,
                });
                all.then_some(terminator)?
            }
        })
    }

    /// The copy of an edge's target.
    fn target(&mut self, place: usize, target: &Target) -> Option<Target> {
        // Tests for a loop before copying its head: a copy of the head would hide the copies of the passed
        // values.
        let leads_out = match self.graph.block(target.block).terminator {
            Terminator::Again { fuel, .. } => !self.is_entered(place, fuel),
            _ => self.is_cold[target.block.index()],
        };
        if leads_out || self.insts > INSTS_MAX {
            return Some(to(self.rejoin()));
        }
        let mut args = target.args.clone();
        self.map(place, |f| args.iter_mut().for_each(|v| *v = f(*v)))?;
        Some(Target { block: self.copy(place, target.block), args })
    }

    /// Whether the layer is to be entered: it is usual, above the layers entered so far.
    fn is_entered(&self, place: usize, fuel: Fuel) -> bool {
        let level = |fuel: Fuel| self.graph.usual.iter().position(|level| level.contains(&fuel));
        let below = self.places[place].fuel.and_then(level);
        level(fuel).is_some() && level(fuel) > below
    }

    /// Enters a layer.
    fn enter(&mut self, place: usize, fuel: Fuel, then: &Target) -> Option<Target> {
        // The graph's entry itself may be a loop that is left out.
        if !self.is_entered(place, fuel) {
            return Some(to(self.rejoin()));
        }
        let mut args = then.args.clone();
        self.map(place, |f| args.iter_mut().for_each(|v| *v = f(*v)))?;
        self.places.push(Place::new(self.graph, Some(place), Some(fuel)));
        Some(Target { block: self.copy(self.places.len() - 1, then.block), args })
    }

    /// The block that continues at the whole graph's entry.
    fn rejoin(&mut self) -> Block {
        if let Some(block) = self.rejoin {
            return block;
        }
        let terminator = Terminator::Rejoin { lookup: None, values: vec![], entered: vec![] };
        let block = self.push(BlockData { params: vec![], insts: vec![], terminator });
        self.rejoin = Some(block);
        block
    }

    /// The block that continues in the whole graph after the lookup that ends `block`.
    fn after_lookup(&mut self, place: usize, block: Block) -> Option<Block> {
        let number = self.crossings.iter().position(|crossing| crossing.from == block)?;
        let Crossing { then, values, .. } = &self.crossings[number];
        let (then, mut values) = (*then, values.clone());
        self.map(place, |f| values.iter_mut().for_each(|v| *v = f(*v)))?;
        let types: Vec<Type> =
            self.graph.block(then).params.iter().map(|&param| self.graph.type_of(param)).collect();
        let params = types.into_iter().map(|ty| self.fast_path.value(ty)).collect();
        let mut entered = vec![];
        let mut at = Some(place);
        while let Some(place) = at {
            entered.extend(self.places[place].fuel);
            at = self.places[place].below;
        }
        let terminator = Terminator::Rejoin { lookup: Some(number as u32), values, entered };
        Some(self.push(BlockData { params, insts: vec![], terminator }))
    }
}

/// Blocks from which every path leads to an end with a reason, to a loop that is not marked as usual, or to a
/// lookup in a one-sided table, such as the fragments of a datagram.
fn cold(graph: &Graph) -> Vec<bool> {
    let mut is_cold = vec![false; graph.blocks.len()];
    let mut order = vec![];
    let mut seen = vec![false; graph.blocks.len()];
    let mut stack = vec![(graph.entry, false)];
    while let Some((block, left)) = stack.pop() {
        if left {
            order.push(block);
        } else if !std::mem::replace(&mut seen[block.index()], true) {
            stack.push((block, true));
            graph.block(block).terminator.for_each_successor(|next| stack.push((next, false)));
        }
    }
    for block in order.into_iter().filter(|&block| block != graph.entry) {
        is_cold[block.index()] = match &graph.block(block).terminator {
            Terminator::Done { reason, .. } => reason.is_some(),
            Terminator::Again { fuel, .. } => !graph.usual.iter().flatten().any(|usual| usual == fuel),
            Terminator::Lookup { table, .. } => !graph.tables[table.index()].two_sided,
            Terminator::Restart | Terminator::Rejoin { .. } => false,
            other => {
                let mut all = true;
                other.for_each_successor(|next| all &= is_cold[next.index()]);
                all
            }
        };
    }
    is_cold
}

/// The value that holds the link type, if the entry switches on it, and the first link type.
fn link(graph: &Graph) -> Option<(Value, u64)> {
    let entry = graph.block(graph.entry);
    let Terminator::Switch { value, cases, .. } = &entry.terminator else { return None };
    let is_link = |inst: &&Inst| inst.op == Op::Meta(Meta::Link) && inst.results[0] == *value;
    entry.insts.iter().find(is_link)?;
    Some((*value, cases.first()?.0))
}
