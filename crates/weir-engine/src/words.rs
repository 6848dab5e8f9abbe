//! Engine variables that have several words in flow records.

use crate::flow::{read_number, write_number};
use crate::sets::ClassSet;
use weir_ir::abi::Layout;
use weir_ir::engine_var::EngineVar;
use weir_ir::graph::{Graph, Table};

/// The consecutive words of an engine variable in the records of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Words {
    at: usize,
    pub count: usize,
}

impl Words {
    pub fn of(graph: &Graph, layout: &Layout, table: Table, var: EngineVar) -> Option<Self> {
        let place = |word: usize| Some(layout.offset(graph.find_var(table, &var.word(word as u16))?));
        let at = place(0)?;
        let count = (1..).take_while(|&word| place(word).is_some()).count() + 1;
        debug_assert!((0..count).all(|word| place(word) == Some(at + 8 * word)), "{var} of {table}");
        Some(Self { at, count })
    }

    /// Reads one of the words.
    #[inline]
    pub fn read(self, data: &[u8], word: usize) -> u64 {
        debug_assert!(word < self.count);
        read_number(data, self.at + 8 * word, 64)
    }

    /// Writes one of the words.
    #[inline]
    pub fn write(self, data: &mut [u8], word: usize, value: u64) {
        debug_assert!(word < self.count);
        write_number(data, self.at + 8 * word, 64, value);
    }

    /// Adds the classes of all words to `classes`.
    #[inline]
    pub fn add_to(self, classes: &mut ClassSet, data: &[u8]) {
        (0..self.count).for_each(|word| classes.insert_word(word, self.read(data, word)));
    }
}
