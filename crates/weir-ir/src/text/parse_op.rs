//! Parses instructions.

use super::lexer::Line;
use super::parse::{ParseError, Parser};
use super::words::{BINARY, COMPARE, LOAD, META, thing};
use crate::graph::{Event, Fuel, Inst, Op, Out, Pattern, Sequence, Set, Values, Var};

impl Parser {
    pub(super) fn inst(&mut self, line: &mut Line) -> Result<Inst, ParseError> {
        let mut results = Values::new();
        let is_value = |word: &str| word.strip_prefix('v').is_some_and(|n| n.parse::<u32>().is_ok());
        if line.peek_word().is_some_and(is_value) {
            results.push(self.value(line)?);
            while line.take(",") {
                results.push(self.value(line)?);
            }
            line.expect("=")?;
        }
        let word = line.word("an instruction")?;
        let op = self.op(&word, line)?;
        Ok(Inst { results, op })
    }

    fn op(&mut self, word: &str, line: &mut Line) -> Result<Op, ParseError> {
        if let Some(op) = thing(BINARY, word) {
            return Ok(Op::Binary(op, self.value(line)?, self.value(line)?));
        }
        if let Some(op) = thing(COMPARE, word) {
            return Ok(Op::Compare(op, self.value(line)?, self.value(line)?));
        }
        if let Some((width, little)) = thing(LOAD, word) {
            let (buf, offset, displacement) = (self.value(line)?, self.value(line)?, line.number()?);
            return Ok(Op::Load { buf, offset, displacement, width, little });
        }
        Ok(match word {
            "const" => Op::Const(line.number()?),
            "bool" if line.take("true") => Op::Bool(true),
            "bool" if line.take("false") => Op::Bool(false),
            "bool" => return Err(line.expected("`true` or `false`")),
            "not" => Op::Not(self.value(line)?),
            "from_bool" => Op::FromBool(self.value(line)?),
            "select" => Op::Select(self.value(line)?, self.value(line)?, self.value(line)?),
            "frame" => Op::Frame,
            "narrow" => Op::Narrow(self.value(line)?, self.value(line)?),
            "length" => Op::Length(self.value(line)?),
            "meta" => {
                let name = line.word("what the capture says")?;
                let Some(meta) = thing(META, &name) else {
                    return Err(line.error_before(format!("the capture says nothing of `{name}`")));
                };
                Op::Meta(meta)
            }
            "input" => Op::Input(line.number()?),
            "input_bytes" => Op::InputBytes(line.number()?),
            "member" => {
                let set = Set(line.id("set")?);
                Op::Member { set, high: self.value(line)?, low: self.value(line)? }
            }
            "search" => {
                let pattern = Pattern(line.id("pattern")?);
                let (buf, offset, length) = (self.value(line)?, self.value(line)?, self.value(line)?);
                Op::Search { pattern, buf, offset, length }
            }
            "sum16" => {
                let (buf, offset, length) = (self.value(line)?, self.value(line)?, self.value(line)?);
                Op::Sum16 { buf, offset, length, first: self.value(line)? }
            }
            "excerpt" => {
                let (buf, offset, length) = (self.value(line)?, self.value(line)?, self.value(line)?);
                Op::Excerpt { buf, offset, length }
            }
            _ => return self.flow_op(word, line),
        })
    }

    fn flow_op(&mut self, word: &str, line: &mut Line) -> Result<Op, ParseError> {
        Ok(match word {
            "get" => {
                let (flow, var) = (self.value(line)?, Var(line.id("var")?));
                Op::Get { flow, var, side: self.side(line)? }
            }
            "set" => {
                let (flow, var) = (self.value(line)?, Var(line.id("var")?));
                let side = self.side(line)?;
                Op::Set { flow, var, side, value: self.named(line, "=")? }
            }
            "append" => {
                let (flow, var) = (self.value(line)?, Var(line.id("var")?));
                Op::Append { flow, var, letter: self.value(line)? }
            }
            "seq_insert" => {
                let (sequence, flow) = (Sequence(line.id("sequence")?), self.value(line)?);
                let (side, at) = (self.named(line, "side")?, self.named(line, "at")?);
                let buf = self.named(line, "bytes")?;
                let (offset, length) = (self.value(line)?, self.value(line)?);
                let span = self.named(line, "span")?;
                line.expect("metas")?;
                let metas = self.list(line)?;
                Op::SeqInsert { sequence, flow, side, at, buf, offset, length, span, metas }
            }
            "seq_acknowledge" => {
                let (sequence, flow) = (Sequence(line.id("sequence")?), self.value(line)?);
                let (side, at) = (self.named(line, "side")?, self.named(line, "at")?);
                Op::SeqAcknowledge { sequence, flow, side, at }
            }
            "seq_next" => {
                let (sequence, flow) = (Sequence(line.id("sequence")?), self.value(line)?);
                Op::SeqNext { sequence, flow, side: self.named(line, "side")? }
            }
            "seq_assemble" => {
                let (sequence, flow) = (Sequence(line.id("sequence")?), self.value(line)?);
                Op::SeqAssemble { sequence, flow, side: self.named(line, "side")? }
            }
            "refuel" => Op::Refuel { fuel: Fuel(line.id("fuel")?) },
            "whole_value" => Op::WholeValue { number: line.number()? },
            "messages" => Op::Messages { flow: self.value(line)?, side: self.named(line, "side")? },
            "next_messages" => {
                Op::NextMessages { done: self.value(line)?, wanted: self.named(line, "wanted")? }
            }
            "collect" | "deliver" => {
                let (flow, side) = (self.value(line)?, self.named(line, "side")?);
                let (gap, buf) = (self.named(line, "gap")?, self.named(line, "bytes")?);
                let (offset, length) = (self.value(line)?, self.value(line)?);
                match word {
                    "collect" => {
                        let whole = if line.take("whole") { self.list(line)? } else { vec![] };
                        Op::Collect { flow, side, gap, buf, offset, length, whole }
                    }
                    _ => Op::Deliver { flow, side, gap, buf, offset, length },
                }
            }
            "keep" => {
                let (buf, offset) = (self.value(line)?, self.value(line)?);
                Op::Keep { buf, offset, length: self.value(line)? }
            }
            "emit" => {
                let event = Event(line.id("event")?);
                let flow = line.take("flow").then(|| self.value(line)).transpose()?;
                Op::Emit { event, flow, values: self.list(line)? }
            }
            "store" => Op::Store { out: Out(line.id("out")?), value: self.value(line)? },
            _ => return Err(line.error_before(format!("there is no instruction `{word}`"))),
        })
    }
}
