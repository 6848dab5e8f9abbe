//! The key of a text, and the question with the key.

use super::shared::PacketKey;
use crate::compile::{Ask, Compiler};
use crate::item::Shape;
use crate::names::{Names, keys_of, parts_of};
use crate::question::Question;
use crate::values::{Part, value_list, words_of};
use std::sync::Arc;
use weir_compile::Need;
use weir_engine::plan::Want;
use weir_lang::aggregate::{Key, Shorthand};
use weir_lang::diag::Diagnostics;

/// Words for several fields. The keys `flow` and `hosts` are the same for both directions: their first words
/// stand for the ends, each with half of the words. `5tuple` and `pair` mean the same fields, of one
/// direction, as in aggregates.
const PAIR: &[&str] = &["src", "dst"];
const TUPLE: &[&str] = &["src", "sport", "dst", "dport", "proto"];
const SHORTHANDS: &[Shorthand<'_>] = &[("flow", TUPLE), ("hosts", PAIR), ("5tuple", TUPLE), ("pair", PAIR)];

/// The parts of a key, and how many of their first words stand for each end of a connection; 0: the key has a
/// direction.
pub(crate) fn key_parts(names: &Names, text: &str) -> Result<(Vec<Key>, Vec<Part>, usize), Diagnostics> {
    let keys = keys_of(names, "key", text, SHORTHANDS)?;
    let parts = parts_of(names, &keys);
    let is = |word: &str| text.trim().eq_ignore_ascii_case(word);
    let ends = if is("flow") {
        TUPLE.len() - 1
    } else if is("hosts") {
        PAIR.len()
    } else {
        0
    };
    let end_words = words_of(&parts[..ends]) / 2;
    Ok((keys, parts, end_words))
}

impl PacketKey {
    /// The key of this text: fields of packets, separated by commas, addresses with or without a prefix
    /// (`ip.src/24, tcp.dstport`). The keys `flow` and `hosts` alone are the same for both directions of a
    /// connection.
    ///
    /// # Errors
    /// All mistakes in the text.
    pub fn of(compiler: &Compiler, text: &str) -> Result<Self, Diagnostics> {
        let names = Names::of_packets(compiler);
        let (_, parts, end_words) = key_parts(&names, text)?;
        Ok(Self { parts, end_words })
    }

    /// The question for packets that match a filter, whose items have this [key](crate::Item::Packet).
    ///
    /// # Errors
    /// If the key has more fields than a program has room for.
    pub fn question(&self, filter: &str, shape: Shape) -> Result<Question, String> {
        let values = value_list(&self.parts)?;
        let need = Need { packets: true, values, ..Need::default() };
        let ask = Ask { filter: filter.to_string(), need, want: Want::Packets };
        Ok(Question { key: Some(Arc::new(self.clone())), ..Question::new(ask, shape) })
    }
}
