//! Parses the text form. Checks the syntax only; [`crate::verify`] checks the graph.

use super::error::ParseError;
use super::lexer::{Line, Token};
use super::operand::Operand;
use super::parse_op;
use super::parse_terminator::{fuels, terminator};
use crate::engine_var::VarName;
use crate::graph::{
    Block, BlockData, EventDecl, Graph, Op, PatternDecl, SequenceDecl, Table, TableDecl, Terminator, Type,
    Value, VarDecl, VarKind,
};
use crate::key::{KeyLayout, KeyPart, KeyRole, KeySide};
use crate::slot::SlotName;
use std::str::FromStr;

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
struct Parser {
    graph: Graph,
    /// The current block, which has no terminator yet.
    open: Option<BlockData>,
    /// The declared types of parameters.
    param_types: Vec<(Value, Type)>,
    last_line: usize,
}

impl Parser {
    fn line(&mut self, line: &mut Line) -> Result<(), ParseError> {
        if let Some(mut block) = self.open.take() {
            match terminator(line)? {
                Some(terminator) => {
                    block.terminator = terminator;
                    self.graph.blocks.push(block);
                }
                None => {
                    block.insts.push(parse_op::inst(line)?);
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
            "fast-path" => {
                line.advance();
                self.graph.is_fast_path = true;
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
                let name = line.name()?;
                let missing = || line.error_before(format!("there is no engine slot `{name}`"));
                let slot = SlotName::parse(name.clone()).ok_or_else(missing)?;
                self.graph.outs.push(slot);
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
            ends: false,
            delivers: false,
            asked: false,
            scattered: false,
            part: None,
            carries: None,
            key: KeyLayout::default(),
            timeout_ms: None,
        };
        while !line.is_at_end() {
            let flag = match line.peek_word() {
                Some("two_sided") => &mut table.two_sided,
                Some("observed") => &mut table.observed,
                Some("ends") => &mut table.ends,
                Some("delivers") => &mut table.delivers,
                Some("asked") => &mut table.asked,
                Some("scattered") => &mut table.scattered,
                Some("part") => {
                    line.advance();
                    table.part = Some(line.name()?);
                    continue;
                }
                Some("carries") => {
                    line.advance();
                    table.carries = Some(line.name()?);
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
                        "`two_sided`, `observed`, `delivers`, `asked`, `scattered`, `part`, `carries`, `key` or `timeout_ms`",
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
                let param = Value::parse("", line)?;
                line.expect(":")?;
                self.param_types.push((param, ty(line)?));
                params.push(param);
                if line.peek() != Some(&Token::Mark(")")) {
                    line.expect(",")?;
                }
            }
        }
        line.expect(":")?;
        Ok(BlockData { params, insts: vec![], terminator: Terminator::Restart })
    }

    /// Infers the types of results from the operands' (parameters declare theirs). Blocks may be in any
    /// order, so this repeats until nothing changes; a type that remains unknown becomes int.
    fn infer_types(&mut self) {
        let graph = &mut self.graph;
        let mut types: Vec<Option<Type>> = vec![None; values(graph)];
        for &(param, ty) in &self.param_types {
            types[param.index()] = Some(ty);
        }
        graph.values = types.iter().map(|ty| ty.unwrap_or(Type::Int)).collect();
        loop {
            let mut changed = false;
            for inst in graph.blocks.iter().flat_map(|block| &block.insts) {
                let result_types = match &inst.op {
                    Op::Binary(_, a, _) | Op::Select(_, a, _) if types[a.index()].is_none() => continue,
                    Op::SeqNext { sequence, .. } if sequence.index() >= graph.sequences.len() => continue,
                    op => graph.result_types(op),
                };
                for (&result, ty) in inst.results.iter().zip(result_types) {
                    if types[result.index()].is_none() {
                        types[result.index()] = Some(ty);
                        graph.values[result.index()] = ty;
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

/// The number after the highest number of a value.
fn values(graph: &Graph) -> usize {
    let mut count = 0;
    for block in &graph.blocks {
        let mut name = |value: Value| count = count.max(value.index() + 1);
        block.params.iter().for_each(|&param| name(param));
        for inst in &block.insts {
            inst.results.iter().for_each(|&result| name(result));
            inst.op.for_each_operand(&mut name);
        }
        block.terminator.for_each_operand(name);
    }
    count
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
