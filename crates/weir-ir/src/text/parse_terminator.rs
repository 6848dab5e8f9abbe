//! Parses terminators.

use super::error::ParseError;
use super::lexer::{Line, Token};
use super::operand::Operand;
use crate::graph::{Block, Fuel, Table, Target, Terminator};
use weir_packet::DropReason;

fn target(line: &mut Line) -> Result<Target, ParseError> {
    let block = Block(line.id("block")?);
    let args = if line.peek() == Some(&Token::Mark("(")) { Operand::parse("", line)? } else { vec![] };
    Ok(Target { block, args })
}

/// Parses `, block1, block2` at the end of a line.
fn two_targets(line: &mut Line) -> Result<(Target, Target), ParseError> {
    line.expect(",")?;
    let then = target(line)?;
    line.expect(",")?;
    Ok((then, target(line)?))
}

/// Parses a terminator; `None` if the line starts otherwise.
pub(super) fn terminator(line: &mut Line) -> Result<Option<Terminator>, ParseError> {
    let word = line.peek_word().unwrap_or("").to_owned();
    let words = ["jump", "branch", "switch", "check", "again", "lookup", "restart", "rejoin", "done"];
    if !words.contains(&&*word) {
        return Ok(None);
    }
    line.advance();
    Ok(Some(match word.as_str() {
        "jump" => Terminator::Jump(target(line)?),
        "branch" => {
            let condition = Operand::parse("", line)?;
            let (then, otherwise) = two_targets(line)?;
            Terminator::Branch { condition, then, otherwise }
        }
        "switch" => switch(line)?,
        "check" => {
            let (buf, offset, bytes) = (Operand::parse("", line)?, Operand::parse("", line)?, line.number()?);
            let (then, otherwise) = two_targets(line)?;
            Terminator::Check { buf, offset, bytes, then, otherwise }
        }
        "again" => {
            let (fuel, max) = (Fuel(line.id("fuel")?), line.number()?);
            let (then, otherwise) = two_targets(line)?;
            Terminator::Again { fuel, max, then, otherwise }
        }
        "lookup" => {
            let table = Table(line.id("table")?);
            let key = Operand::parse("", line)?;
            let swap = Operand::parse("swap", line)?;
            let reversed = Operand::parse("reversed", line)?;
            line.expect(",")?;
            Terminator::Lookup { table, key, swap, reversed, then: Block(line.id("block")?) }
        }
        "done" => {
            let terms = Operand::parse("", line)?;
            Terminator::Done { terms, reason: reason(line)? }
        }
        "rejoin" => match line.take("lookup") {
            true => {
                let lookup = Some(line.number()?);
                let values = Operand::parse("", line)?;
                line.expect("entered")?;
                Terminator::Rejoin { lookup, values, entered: fuels(line)? }
            }
            false => Terminator::Rejoin { lookup: None, values: vec![], entered: vec![] },
        },
        _ => Terminator::Restart,
    }))
}

fn switch(line: &mut Line) -> Result<Terminator, ParseError> {
    let value = Operand::parse("", line)?;
    let mut cases = vec![];
    loop {
        line.expect(",")?;
        if line.take("else") {
            return Ok(Terminator::Switch { value, cases, otherwise: target(line)? });
        }
        let case = line.number()?;
        line.expect(":")?;
        cases.push((case, target(line)?));
    }
}

/// Parses `(fuel1, fuel2)`.
pub(super) fn fuels(line: &mut Line) -> Result<Vec<Fuel>, ParseError> {
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
