//! The filters of questions for the kernel: the part of a program that decides which packets no question
//! needs, and that counts packets of connections of which nothing more is wanted.

use std::fmt;
use std::sync::{Arc, OnceLock};
use weir_compile::header_rules::{header_rules, header_terms};
use weir_compile::trie::Trie;
use weir_compile::weaken::weakened;
use weir_compile::{Question, StackCatalog, lower_for_kernel};
use weir_engine::kernel_plan::KernelPlan;
use weir_ir::abi::Program;
use weir_ir::engine_var::VarName;
use weir_ir::graph::{Graph, Table, Terminator};
use weir_ir::kernel_flows::KernelLayout;
use weir_lang::model::{LayerId, Stack};
use weir_packet::{HeaderRules, HeaderTerms, KernelFilter, KernelFilters, KernelFlows, LinkType};
use weir_xdp::{Place, sink, translate};

/// By number of the filter: iterations of the graph's loops that it does, such as one for Ethernet, one for a
/// VLAN tag and one for IP. It passes packets that need more.
const TURNS: [u32; 4] = [3, 4, 6, 8];

/// Connections that the kernel has at most. With a key and an entry of some hundred bytes each, they take
/// tens of megabytes.
const FLOWS_MAX: usize = 1 << 16;

/// Makes the filters of compiled questions.
pub(crate) struct QuestionFilters {
    pub questions: Vec<Question>,
    /// The program of the questions.
    pub program: Arc<dyn Program>,
    /// The layer of each table of the program.
    pub tables: Vec<LayerId>,
    pub stack: Stack,
    /// The catalogue of the compiler.
    pub catalog: Arc<OnceLock<StackCatalog>>,
    pub passes: weir_ir::passes::Options,
    /// Where the engine finds the connections that the kernel takes over.
    pub kernel: Arc<OnceLock<KernelPlan>>,
    /// [`KernelPlan::quiet_packets`]
    pub quiet_packets: u8,
    /// [`KernelPlan::flows_max`]
    pub flows_max: usize,
    /// Made when the first filter is asked for.
    pub made: OnceLock<Option<Made>>,
}

/// The graph for the kernel, and the entries of connections.
#[derive(Debug)]
pub(crate) struct Made {
    graph: Graph,
    layout: KernelLayout,
}

impl fmt::Debug for QuestionFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuestionFilters").finish_non_exhaustive()
    }
}

impl QuestionFilters {
    /// The graph for the kernel. `None`: every packet is needed.
    fn made(&self) -> Option<&Made> {
        self.made.get_or_init(|| self.make()).as_ref()
    }

    fn make(&self) -> Option<Made> {
        let catalog = self.catalog.get()?;
        let (weak, is_weaker) = weakened(&self.questions, catalog);
        let mut lowered = lower_for_kernel(&self.stack, catalog, &weak, self.looked_up()).ok()?;
        if lowered.trie.wants_every_packet() {
            return None;
        }
        weir_ir::passes::optimize(&mut lowered.graph, &self.passes);
        let mut layout = KernelLayout::default();
        // The terms of weaker questions are not those of connections.
        if !is_weaker {
            let layers: Vec<u64> = lowered.tables.iter().map(|layer| u64::from(layer.0)).collect();
            layout = KernelLayout::of(&lowered.graph, &layers);
            layout.tables.retain(|table| self.are_steady(LayerId(table.layer as u16)));
        }
        // Packets of every connection are needed.
        let always = lowered.trie.nodes[Trie::ROOT].class;
        if always.is_some_and(|class| lowered.trie.classes_of_packets().contains(class)) {
            layout = KernelLayout::default();
        }
        need_other_flows(&mut lowered.graph, &layout);
        Some(Made { graph: lowered.graph, layout })
    }

    /// The graph of the verdict for frames of a link type. `None`: every packet is needed.
    pub fn graph(&self, link: LinkType) -> Option<Graph> {
        Some(sink(&self.made()?.graph, link))
    }

    /// The entries of connections.
    pub fn layout(&self) -> Option<&KernelLayout> {
        self.made().map(|made| &made.layout).filter(|layout| !layout.is_empty())
    }

    /// The layers whose connections the kernel takes over.
    pub fn taken_over(&self) -> Vec<&str> {
        let tables = self.layout().into_iter().flat_map(|layout| &layout.tables);
        tables.map(|table| self.stack.layers[table.layer as usize].protocol.name.as_str()).collect()
    }

    /// The layers whose instances the program looks up.
    fn looked_up(&self) -> Vec<LayerId> {
        let tables = self.program.graph().blocks.iter().filter_map(|block| match block.terminator {
            Terminator::Lookup { table, .. } => Some(self.tables[table.index()]),
            _ => None,
        });
        tables.collect()
    }

    /// Whether the text of the layer says for all variables that the program keeps how steady packets change
    /// them.
    fn are_steady(&self, layer: LayerId) -> bool {
        let vars = &self.stack.layers[usize::from(layer.0)].protocol.vars;
        let is_of_table = |table: Table| self.tables[table.index()] == layer;
        let mut kept = self.program.graph().vars.iter().filter(|var| is_of_table(var.table));
        kept.all(|kept| match &kept.name {
            VarName::Layer(name) => vars.iter().any(|var| var.name == *name && var.of_steady),
            VarName::Engine(..) => true,
        })
    }
}

/// Lets the engine have all packets of connections that the kernel does not take over.
fn need_other_flows(graph: &mut Graph, layout: &KernelLayout) {
    for block in &mut graph.blocks {
        if let Terminator::Lookup { table, .. } = block.terminator
            && layout.table(table).is_none()
        {
            block.terminator = Terminator::Restart;
        }
    }
}

impl KernelFilters for QuestionFilters {
    fn filter(
        &self,
        link: LinkType,
        number: usize,
        takes_over: bool,
    ) -> Result<Option<KernelFilter>, &'static str> {
        let Some(&turns) = TURNS.get(number) else { return Ok(None) };
        let Some(made) = self.made() else { return Ok(None) };
        let none = KernelLayout::default();
        let layout = self.layout().filter(|_| takes_over).unwrap_or(&none);
        let mut graph = made.graph.clone();
        need_other_flows(&mut graph, layout);
        let sunk = sink(&graph, link);
        let frame = translate(&sunk, Place::Frame, turns, layout)?;
        let copy = translate(&sunk, Place::Copy, turns, layout)?;
        Ok(Some(KernelFilter { frame, copy }))
    }

    fn flow_words(&self) -> Option<[usize; 3]> {
        self.layout().map(|layout| [layout.key_words, layout.entry_words, FLOWS_MAX])
    }

    fn take_over(&self, flows: Arc<dyn KernelFlows>) {
        let Some(layout) = self.layout() else { return };
        let layers = self.tables.iter().map(|layer| u64::from(layer.0)).collect();
        let (layout, flows_max) = (layout.clone(), self.flows_max);
        // Further interfaces have the same table.
        let quiet_packets = self.quiet_packets;
        let _ = self.kernel.set(KernelPlan { flows, layout, layers, flows_max, quiet_packets });
    }

    fn header_rules(&self) -> Result<HeaderRules, &'static str> {
        let catalog = self.catalog.get().ok_or("the questions are not compiled")?;
        header_rules(&self.questions, &self.stack, catalog)
    }

    fn header_terms(&self) -> Option<HeaderTerms> {
        header_terms(&self.questions, &self.stack, self.catalog.get()?)
    }
}
