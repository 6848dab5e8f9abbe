//! The key of a text, and the question with the key.

use super::compile::{Ask, Compiler};
use super::group_key::GroupKey;
use super::names::Names;
use super::packet_key::PacketKey;
use super::question::Question;
use crate::rows::shape::Shape;
use crate::rows::values::value_list;
use std::sync::Arc;
use weir_compile::Need;
use weir_engine::plan::Want;
use weir_lang::diag::Diagnostics;

impl PacketKey {
    /// The key of this text: fields of packets, separated by commas, addresses with or without a prefix
    /// (`ip.src/24, tcp.dstport`), or the words `flow`, `hosts`, `5tuple` and `pair`. With `flow` and
    /// `hosts`, the key is the same for both directions of a connection.
    ///
    /// # Errors
    /// All mistakes in the text.
    pub fn of(compiler: &Compiler, text: &str) -> Result<Self, Diagnostics> {
        let GroupKey { parts, ends, .. } = GroupKey::of(&Names::of_packets(compiler), text)?;
        Ok(Self { parts, ends })
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
