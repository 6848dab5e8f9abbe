//! The filters of questions for the kernel: the part of a program that decides which packets no question needs.

use std::fmt;
use std::sync::{Arc, OnceLock};
use weir_compile::header_rules::header_rules;
use weir_compile::trie::Trie;
use weir_compile::weaken::weakened;
use weir_compile::{Question, StackCatalog, lower};
use weir_ir::abi::Program;
use weir_ir::graph::Graph;
use weir_lang::model::Stack;
use weir_packet::{HeaderRules, KernelFilter, KernelFilters, LinkType};
use weir_xdp::{Place, sink, translate};

/// By number of the filter: iterations of the graph's loops that it does, such as one for Ethernet, one for a VLAN tag and one for IP.
/// It passes packets that need more.
const TURNS: [u32; 2] = [3, 8];

/// Makes the filters of compiled questions.
pub(crate) struct QuestionFilters {
    pub questions: Vec<Question>,
    pub trie: Trie,
    /// The program of the questions.
    pub program: Arc<dyn Program>,
    pub stack: Stack,
    /// The catalogue of the compiler.
    pub catalog: Arc<OnceLock<StackCatalog>>,
    pub passes: weir_ir::passes::Options,
}

impl fmt::Debug for QuestionFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuestionFilters").finish_non_exhaustive()
    }
}

impl QuestionFilters {
    /// The graph of the verdict for frames of a link type. `None`: every packet is needed.
    pub fn graph(&self, link: LinkType) -> Option<Graph> {
        let (weak, is_weaker) = weakened(&self.questions, self.catalog.get()?);
        if !is_weaker {
            return Some(sink(self.program.graph(), link, first_word(&self.trie)));
        }
        let mut lowered = lower(&self.stack, self.catalog.get()?, &weak).ok()?;
        if lowered.trie.wants_every_packet() {
            return None;
        }
        weir_ir::passes::optimize(&mut lowered.graph, &self.passes);
        Some(sink(&lowered.graph, link, first_word(&lowered.trie)))
    }
}

/// The first word of the classes that need packets without a connection.
fn first_word(trie: &Trie) -> u64 {
    trie.classes_of_packets().words().first().copied().unwrap_or(0)
}

impl KernelFilters for QuestionFilters {
    fn filter(&self, link: LinkType, number: usize) -> Result<Option<KernelFilter>, &'static str> {
        let Some(&turns) = TURNS.get(number) else { return Ok(None) };
        let Some(sunk) = self.graph(link) else { return Ok(None) };
        let frame = translate(&sunk, Place::Frame, turns)?;
        let copy = translate(&sunk, Place::Copy, turns)?;
        Ok(Some(KernelFilter { frame, copy }))
    }

    fn header_rules(&self) -> Result<HeaderRules, &'static str> {
        let catalog = self.catalog.get().ok_or("the questions are not compiled")?;
        header_rules(&self.questions, &self.stack, catalog)
    }
}
