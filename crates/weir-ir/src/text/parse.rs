//! Parses the text form. Checks the syntax only; [`crate::verify`] checks the graph.

use super::lexer::{Line, Token};
use crate::engine_var::VarName;
use crate::graph::{
    Block, BlockData, EventDecl, Fuel, Graph, Op, PatternDecl, SequenceDecl, Table, TableDecl, Target,
    Terminator, Type, Value, VarDecl, VarKind,
};
use crate::key::{KeyLayout, KeyPart, KeyRole, KeySide};
use std::fmt;
use std::str::FromStr;
use weir_packet::DropReason;

/// An error in a text, and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
    /// Description of the error.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

impl FromStr for Graph {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse(text)
    }
}

/// Parses a graph.
pub fn parse(text: &str) -> Result<Graph, ParseError> {
    let mut parser = Parser::default();
    for (index, text) in text.lines().enumerate() {
        let mut line = Line::new(index + 1, text)?;
        if !line.is_at_end() {
            parser.line(&mut line)?;
            if !line.is_at_end() {
                return Err(line.expected("the end of the line"));
            }
            parser.last_line = index + 1;
        }
    }
    parser.finish()
}

#[derive(Default)]
pub(super) struct Parser {
    graph: Graph,
    /// The current block, which has no terminator yet.
    open: Option<BlockData>,
    types: Vec<Option<Type>>,
    last_line: usize,
}

impl Parser {
    fn line(&mut self, line: &mut Line) -> Result<(), ParseError> {
        if let Some(mut block) = self.open.take() {
            match self.terminator(line)? {
                Some(terminator) => {
                    block.terminator = terminator;
                    self.graph.blocks.push(block);
                }
                None => {
                    block.insts.push(self.inst(line)?);
                    self.open = Some(block);
                }
            }
            return Ok(());
        }
        let word = line.peek_word().unwrap_or("").to_owned();
        match word.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "block" => self.open = Some(self.block(line)?),
            "graph" => {
                line.advance();
                self.graph.name = line.string()?;
            }
            "fuels" => {
                line.advance();
                self.graph.fuels = line.number()?;
            }
            "straight" => {
                line.advance();
                self.graph.is_straight = true;
            }
            "usual" => {
                line.advance();
                while line.peek() == Some(&Token::Mark("(")) {
                    self.graph.usual.push(fuels(line)?);
                }
            }
            "entry" => {
                line.advance();
                self.graph.entry = Block(line.id("block")?);
            }
            "table" => self.table(line)?,
            "var" => self.var(line)?,
            "sequence" => self.sequence(line)?,
            "event" => self.event(line)?,
            "set" => self.set(line)?,
            "pattern" => self.pattern(line)?,
            "out" => {
                in_order(line, "out", self.graph.outs.len())?;
                self.graph.outs.push(line.name()?);
            }
            _ => return Err(line.expected("a declaration or `blockN`")),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Graph, ParseError> {
        let at_end = |message: &str| ParseError {
            line: self.last_line.max(1),
            column: 1,
            message: message.to_owned(),
        };
        if self.open.is_some() {
            return Err(at_end("the last block has no end"));
        }
        if self.graph.blocks.is_empty() {
            return Err(at_end("there are no blocks"));
        }
        self.infer_types();
        Ok(self.graph)
    }

    fn table(&mut self, line: &mut Line) -> Result<(), ParseError> {
        in_order(line, "table", self.graph.tables.len())?;
        let mut table = TableDecl {
            name: line.name()?,
            two_sided: false,
            observed: false,
            delivers: false,
            asked: false,
            part: None,
            key: KeyLayout::default(),
            timeout_ms: None,
        };
        while !line.is_at_end() {
            let flag = match line.peek_word() {
                Some("two_sided") => &mut table.two_sided,
                Some("observed") => &mut table.observed,
                Some("delivers") => &mut table.delivers,
                Some("asked") => &mut table.asked,
                Some("part") => {
                    line.advance();
                    table.part = Some(line.name()?);
                    continue;
                }
                Some("key") => {
                    line.advance();
                    table.key = key_layout(line)?;
                    continue;
                }
                Some("timeout_ms") => {
                    line.advance();
                    table.timeout_ms = Some(line.number()?);
                    continue;
                }
                _ => {
                    return Err(line.expected(
                        "`two_sided`, `observed`, `delivers`, `asked`, `part`, `key` or `timeout_ms`",
                    ));
                }
            };
            *flag = true;
            line.advance();
        }
        self.graph.tables.push(table);
        Ok(())
    }

    fn var(&mut self, line: &mut Line) -> Result<(), ParseError> {
        in_order(line, "var", self.graph.vars.len())?;
        let table = Table(line.id("table")?);
        let name = line.name()?;
        let name = match VarName::parse_engine(&name) {
            Some(var) => var,
            None if name.starts_with('$') => {
                return Err(line.error_before(format!("there is no engine variable `{name}`")));
            }
            None => VarName::Layer(name),
        };
        let kind = match line.word("`u8`, `u16`, `u32`, `u64` or `letters`")?.as_str() {
            "u8" => VarKind::Bits(8),
            "u16" => VarKind::Bits(16),
            "u32" => VarKind::Bits(32),
            "u64" => VarKind::Bits(64),
            "letters" => VarKind::Letters(line.number()?),
            _ => return Err(line.error_before("expected `u8`, `u16`, `u32`, `u64` or `letters`".to_owned())),
        };
        let each_side = line.take("each_side");
        let observed = line.take("observed");
        self.graph.vars.push(VarDecl { table, name, kind, each_side, observed });
        Ok(())
    }

    fn sequence(&mut self, line: &mut Line) -> Result<(), ParseError> {
        in_order(line, "sequence", self.graph.sequences.len())?;
        let table = Table(line.id("table")?);
        let name = line.name()?;
        line.expect("bits")?;
        let bits = line.number()?;
        line.expect("from")?;
        let from_first = line.take("first");
        if !from_first && !line.take("zero") {
            return Err(line.expected("`first` or `zero`"));
        }
        line.expect("metas")?;
        let metas = line.number()?;
        let wholes = if line.take("wholes") { line.number()? } else { 0 };
        let retain = line.take("retain");
        let headers_only = line.take("headers_only");
        let overwrite = line.take("overwrite");
        let distinct = line.take("distinct");
        let tells = line.take("tells");
        self.graph.sequences.push(SequenceDecl {
            table,
            name,
            bits,
            from_first,
            retain,
            headers_only,
            overwrite,
            distinct,
            tells,
            metas,
            wholes,
        });
        Ok(())
    }

    fn event(&mut self, line: &mut Line) -> Result<(), ParseError> {
        in_order(line, "event", self.graph.events.len())?;
        let name = line.name()?;
        let wanted = line.take("wanted");
        self.graph.events.push(EventDecl { name, wanted });
        Ok(())
    }

    fn set(&mut self, line: &mut Line) -> Result<(), ParseError> {
        in_order(line, "set", self.graph.sets.len())?;
        line.expect("{")?;
        let mut set = vec![];
        while !line.take("}") {
            let first = line.number()?;
            let last = if line.take("..") { line.number()? } else { first };
            set.push((first, last));
            if line.peek() != Some(&Token::Mark("}")) {
                line.expect(",")?;
            }
        }
        self.graph.sets.push(set);
        Ok(())
    }

    fn pattern(&mut self, line: &mut Line) -> Result<(), ParseError> {
        in_order(line, "pattern", self.graph.patterns.len())?;
        let pattern = match line.word("`contains`, `equals`, `less` or `matches`")?.as_str() {
            "contains" => PatternDecl::Contains(line.bytes()?),
            "equals" => PatternDecl::Equals(line.bytes()?),
            "less" => PatternDecl::Less(line.bytes()?),
            "matches" => PatternDecl::Matches(line.string()?),
            _ => {
                return Err(
                    line.error_before("expected `contains`, `equals`, `less` or `matches`".to_owned())
                );
            }
        };
        self.graph.patterns.push(pattern);
        Ok(())
    }

    fn block(&mut self, line: &mut Line) -> Result<BlockData, ParseError> {
        in_order(line, "block", self.graph.blocks.len())?;
        let mut params = vec![];
        if line.take("(") {
            while !line.take(")") {
                let param = self.value(line)?;
                line.expect(":")?;
                self.types[param.index()] = Some(ty(line)?);
                params.push(param);
                if line.peek() != Some(&Token::Mark(")")) {
                    line.expect(",")?;
                }
            }
        }
        line.expect(":")?;
        Ok(BlockData { params, insts: vec![], terminator: Terminator::Restart })
    }

    pub(super) fn value(&mut self, line: &mut Line) -> Result<Value, ParseError> {
        let value = Value(line.id("v")?);
        if value.index() >= self.types.len() {
            self.types.resize(value.index() + 1, None);
        }
        Ok(value)
    }

    /// Parses `(v1, v2)`.
    pub(super) fn list(&mut self, line: &mut Line) -> Result<Vec<Value>, ParseError> {
        line.expect("(")?;
        let mut values = vec![];
        while !line.take(")") {
            values.push(self.value(line)?);
            if line.peek() != Some(&Token::Mark(")")) {
                line.expect(",")?;
            }
        }
        Ok(values)
    }

    /// Parses `word v1`.
    pub(super) fn named(&mut self, line: &mut Line, word: &str) -> Result<Value, ParseError> {
        line.expect(word)?;
        self.value(line)
    }

    pub(super) fn side(&mut self, line: &mut Line) -> Result<Option<Value>, ParseError> {
        line.take("side").then(|| self.value(line)).transpose()
    }

    fn target(&mut self, line: &mut Line) -> Result<Target, ParseError> {
        let block = Block(line.id("block")?);
        let args = if line.peek() == Some(&Token::Mark("(")) { self.list(line)? } else { vec![] };
        Ok(Target { block, args })
    }

    /// Parses `, block1, block2` at the end of a line.
    fn two_targets(&mut self, line: &mut Line) -> Result<(Target, Target), ParseError> {
        line.expect(",")?;
        let then = self.target(line)?;
        line.expect(",")?;
        Ok((then, self.target(line)?))
    }

    /// Parses a terminator; `None` if the line starts otherwise.
    fn terminator(&mut self, line: &mut Line) -> Result<Option<Terminator>, ParseError> {
        let word = line.peek_word().unwrap_or("").to_owned();
        let words = ["jump", "branch", "switch", "check", "again", "lookup", "restart", "rejoin", "done"];
        if !words.contains(&&*word) {
            return Ok(None);
        }
        line.advance();
        Ok(Some(match word.as_str() {
            "jump" => Terminator::Jump(self.target(line)?),
            "branch" => {
                let condition = self.value(line)?;
                let (then, otherwise) = self.two_targets(line)?;
                Terminator::Branch { condition, then, otherwise }
            }
            "switch" => self.switch(line)?,
            "check" => {
                let (buf, offset, bytes) = (self.value(line)?, self.value(line)?, line.number()?);
                let (then, otherwise) = self.two_targets(line)?;
                Terminator::Check { buf, offset, bytes, then, otherwise }
            }
            "again" => {
                let (fuel, max) = (Fuel(line.id("fuel")?), line.number()?);
                let (then, otherwise) = self.two_targets(line)?;
                Terminator::Again { fuel, max, then, otherwise }
            }
            "lookup" => {
                let table = Table(line.id("table")?);
                let key = self.list(line)?;
                let swap = self.named(line, "swap")?;
                let reversed = line.take("reversed").then(|| self.value(line)).transpose()?;
                line.expect(",")?;
                Terminator::Lookup { table, key, swap, reversed, then: Block(line.id("block")?) }
            }
            "done" => {
                let terms = self.value(line)?;
                Terminator::Done { terms, reason: reason(line)? }
            }
            "rejoin" => match line.take("lookup") {
                true => {
                    let lookup = Some(line.number()?);
                    let values = self.list(line)?;
                    line.expect("entered")?;
                    Terminator::Rejoin { lookup, values, entered: fuels(line)? }
                }
                false => Terminator::Rejoin { lookup: None, values: vec![], entered: vec![] },
            },
            _ => Terminator::Restart,
        }))
    }

    fn switch(&mut self, line: &mut Line) -> Result<Terminator, ParseError> {
        let value = self.value(line)?;
        let mut cases = vec![];
        loop {
            line.expect(",")?;
            if line.take("else") {
                return Ok(Terminator::Switch { value, cases, otherwise: self.target(line)? });
            }
            let case = line.number()?;
            line.expect(":")?;
            cases.push((case, self.target(line)?));
        }
    }

    /// Infers the types of results from the operands' (parameters declare theirs). Blocks may be in any order, so this
    /// repeats until nothing changes; a type that remains unknown becomes int.
    fn infer_types(&mut self) {
        self.graph.values = self.types.iter().map(|ty| ty.unwrap_or(Type::Int)).collect();
        loop {
            let mut changed = false;
            for inst in self.graph.blocks.iter().flat_map(|block| &block.insts) {
                let types = match &inst.op {
                    Op::Binary(_, a, _) | Op::Select(_, a, _) if self.types[a.index()].is_none() => continue,
                    Op::SeqNext { sequence, .. } if sequence.index() >= self.graph.sequences.len() => {
                        continue;
                    }
                    op => self.graph.result_types(op),
                };
                for (&result, ty) in inst.results.iter().zip(types) {
                    if self.types[result.index()].is_none() {
                        self.types[result.index()] = Some(ty);
                        self.graph.values[result.index()] = ty;
                        changed = true;
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }
}

/// Parses `(fuel1, fuel2)`.
fn fuels(line: &mut Line) -> Result<Vec<Fuel>, ParseError> {
    line.expect("(")?;
    let mut fuels = vec![];
    while !line.take(")") {
        fuels.push(Fuel(line.id("fuel")?));
        if line.peek() != Some(&Token::Mark(")")) {
            line.expect(",")?;
        }
    }
    Ok(fuels)
}

/// Parses the identifier of a declaration; declarations are numbered in order.
fn in_order(line: &mut Line, prefix: &str, next: usize) -> Result<(), ParseError> {
    match line.id(prefix)? {
        number if number as usize == next => Ok(()),
        _ => Err(line.error_before(format!("`{prefix}{next}` comes next"))),
    }
}

fn ty(line: &mut Line) -> Result<Type, ParseError> {
    Ok(match line.word("a type")?.as_str() {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "buf" => Type::Buf,
        "flow" => Type::Flow(Table(line.id("table")?)),
        word => {
            return Err(
                line.error_before(format!("`{word}` is no type: `bool`, `int`, `buf` or `flow tableN`"))
            );
        }
    })
}

fn reason(line: &mut Line) -> Result<Option<DropReason>, ParseError> {
    if line.is_at_end() {
        return Ok(None);
    }
    let label = line.word("a drop reason")?;
    match DropReason::ALL.iter().find(|r| r.label() == label) {
        Some(&reason) => Ok(Some(reason)),
        None => Err(line.error_before(format!("`{label}` is no drop reason"))),
    }
}

/// Parses `(NAME ROLE BITS [first | second], …)`.
fn key_layout(line: &mut Line) -> Result<KeyLayout, ParseError> {
    let mut parts = vec![];
    line.expect("(")?;
    while !line.take(")") {
        if !parts.is_empty() {
            line.expect(",")?;
        }
        let name = line.name()?;
        let word = line.word("what the part of the key stands for")?;
        let Some(&(role, _)) = KeyRole::ALL.iter().find(|(_, known)| *known == word) else {
            return Err(
                line.error_before("expected `address`, `mac`, `number`, `port` or `other`".to_owned())
            );
        };
        let bits = line.number()?;
        let side = match (line.take("first"), line.take("second")) {
            (true, _) => KeySide::First,
            (_, true) => KeySide::Second,
            _ => KeySide::Neither,
        };
        parts.push(KeyPart { name, bits, role, side });
    }
    Ok(KeyLayout::of(parts))
}
