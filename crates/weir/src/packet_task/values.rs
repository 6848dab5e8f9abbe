//! The fields that a task names, and the key of its packets.

use super::key::{KeyLayout, name_of};
use crate::ask::compile::Compiler;
use crate::ask::names::{Names, keys_of, part_of};
use crate::rows::values::{Part, Source};
use weir_compile::{TuplePart, ValueOf};
use weir_lang::aggregate::Key;
use weir_lang::diag::{Diagnostic, Diagnostics, Sources};
use weir_packet::{Cell, ValueType};

/// A field of a task's packets.
#[derive(Debug, Clone)]
pub struct TaskField {
    /// Its name, as stated, without a prefix.
    pub name: String,
    /// The type of its values.
    pub value_type: ValueType,
    /// Bits of a number; 0 if the field has no such size.
    pub bits: u32,
    pub(super) part: Part,
}

impl TaskField {
    /// The range of its words among those of a packet: see [`TaskPacket::words`](super::TaskPacket::words).
    pub fn words(&self) -> std::ops::Range<usize> {
        self.part.word..self.part.word + self.part.words
    }

    /// The value is the index of a [layer](TaskValues::layers).
    pub fn is_layer(&self) -> bool {
        self.part.source == Source::Packet(ValueOf::Tuple(TuplePart::Layer))
    }
}

/// The fields and the key of a task's packets.
#[derive(Debug, Clone)]
pub struct TaskValues {
    pub(super) key: Option<KeyLayout>,
    pub(super) fields: Vec<TaskField>,
    pub(super) layers: Vec<String>,
}

impl TaskValues {
    /// The key of the text `key` (`ip.src/24, tcp.dstport`; `flow` and `hosts` for both directions), and the
    /// fields of these names.
    ///
    /// # Errors
    /// All mistakes in the texts; more than 64 fields.
    pub fn of(compiler: &Compiler, key: Option<&str>, fields: &str) -> Result<Self, Diagnostics> {
        let names = Names::of_packets(compiler);
        let key = key.map(|text| KeyLayout::of(&names, text)).transpose()?;
        let mut word = 0;
        let mut field = |key: &Key| {
            let part = Part { prefix: key.prefix, ..part_of(&names, key.field, word) };
            word += part.words;
            let info = &names.fields[key.field];
            TaskField { name: name_of(key), value_type: info.value_type, bits: info.bits, part }
        };
        let fields: Vec<TaskField> = match fields.trim().is_empty() {
            true => vec![],
            false => keys_of(&names, "fields", fields, &[])?.iter().map(&mut field).collect(),
        };
        if fields.len() > u64::BITS as usize {
            let message = "a script takes at most 64 fields of packets".to_string();
            let list = vec![Diagnostic::error("W0199", message)];
            return Err(Diagnostics { sources: Sources::new(), list });
        }
        let layers = compiler.stack().layers.iter().map(|layer| layer.protocol.filter_name.clone()).collect();
        Ok(Self { key, fields, layers })
    }

    /// The key; `None` if the task finds the keys itself.
    pub fn key(&self) -> Option<&KeyLayout> {
        self.key.as_ref()
    }

    /// The fields, in the order in which they are stated.
    pub fn fields(&self) -> &[TaskField] {
        &self.fields
    }

    /// Number of words of all fields.
    pub fn words(&self) -> usize {
        self.fields.iter().map(|field| field.part.words).sum()
    }

    /// The names of the stack's layers: the value of the field `proto` is an index.
    pub fn layers(&self) -> &[String] {
        &self.layers
    }

    /// The value of a field whose words are those of [`TaskPacket::words`](super::TaskPacket::words).
    pub fn cell<'a>(&'a self, field: &TaskField, words: &[u64]) -> Cell<'a> {
        field.part.cell(words.get(field.words()).unwrap_or_default(), &self.layers)
    }

    /// All values that a program computes.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        let of_key = self.key.iter().flat_map(KeyLayout::parts);
        of_key.chain(self.fields.iter().map(|field| &field.part))
    }
}
