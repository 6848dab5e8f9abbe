//! Prints a graph.

use super::operand::{Operand, Separated, Words};
use crate::graph::operations::operations;
use crate::graph::{
    BlockData, Graph, Inst, Op, PatternDecl, SequenceDecl, TableDecl, Target, Terminator, Type, VarDecl,
    VarKind,
};
use crate::key::{KeyPart, KeySide};
use std::fmt::{self, Display, Formatter};

impl Display for Graph {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        print_declarations(self, f)?;
        for (at, block) in self.blocks.iter().enumerate() {
            print_block(self, at, block, f)?;
        }
        Ok(())
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Buf => f.write_str("buf"),
            Type::Flow(table) => write!(f, "flow {table}"),
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.block)?;
        if self.args.is_empty() { Ok(()) } else { write!(f, "({})", Separated(&self.args)) }
    }
}

impl Display for Inst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.results.is_empty() {
            write!(f, "{} = ", Separated(&self.results))?;
        }
        write!(f, "{}", self.op)
    }
}

macro_rules! word {
    ([$kind:ident]) => {
        ""
    };
    ($word:literal) => {
        $word
    };
}

macro_rules! lead {
    () => {
        ""
    };
    ($lead:literal) => {
        $lead
    };
}

macro_rules! printer {
    ($(
        $(#[$doc:meta])*
        $name:ident $word:tt
        $( ( $($part:ident: $part_type:ty $(as $part_wanted:ident)?),* ) )?
        $( { $(
            $(#[$field_doc:meta])*
            $field:ident: $field_type:ty $(as $field_wanted:ident)? $(= $lead:literal)?,
        )* } )?
        -> ($($result:tt)*) $effect:ident $(($touched:ident))?;
    )*) => {
        impl Display for Op {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                let mut words = Words::new(f);
                match self {
                    $(Op::$name $( ( $($part),* ) )? $( { $($field),* } )? => {
                        words.word(word!($word))?;
                        $( $($part.print("", &mut words)?;)* )?
                        $( $($field.print(lead!($($lead)?), &mut words)?;)* )?
                    })*
                }
                Ok(())
            }
        }
    };
}
operations!(printer);

impl Display for Terminator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Terminator::Jump(target) => write!(f, "jump {target}"),
            Terminator::Branch { condition, then, otherwise } => {
                write!(f, "branch {condition}, {then}, {otherwise}")
            }
            Terminator::Switch { value, cases, otherwise } => {
                write!(f, "switch {value}")?;
                for (case, target) in cases {
                    write!(f, ", {case}: {target}")?;
                }
                write!(f, ", else {otherwise}")
            }
            Terminator::Check { buf, offset, bytes, then, otherwise } => {
                write!(f, "check {buf} {offset} {bytes}, {then}, {otherwise}")
            }
            Terminator::Again { fuel, max, then, otherwise } => {
                write!(f, "again {fuel} {max}, {then}, {otherwise}")
            }
            Terminator::Lookup { table, key, swap, reversed, then } => {
                write!(f, "lookup {table} ({}) swap {swap}", Separated(key))?;
                if let Some(reversed) = reversed {
                    write!(f, " reversed {reversed}")?;
                }
                write!(f, ", {then}")
            }
            Terminator::Restart => write!(f, "restart"),
            Terminator::Rejoin { lookup: None, .. } => write!(f, "rejoin"),
            Terminator::Rejoin { lookup: Some(lookup), values, entered } => {
                write!(f, "rejoin lookup {lookup} ({}) entered ({})", Separated(values), Separated(entered))
            }
            Terminator::Done { terms, reason: None } => write!(f, "done {terms}"),
            Terminator::Done { terms, reason: Some(reason) } => write!(f, "done {terms} {}", reason.label()),
        }
    }
}

fn print_declarations(graph: &Graph, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "graph {}", Quoted(graph.name.as_bytes()))?;
    for (at, table) in graph.tables.iter().enumerate() {
        print_table(at, table, f)?;
    }
    for (at, var) in graph.vars.iter().enumerate() {
        print_var(at, var, f)?;
    }
    for (at, sequence) in graph.sequences.iter().enumerate() {
        print_sequence(at, sequence, f)?;
    }
    for (at, event) in graph.events.iter().enumerate() {
        writeln!(f, "event{at} {}{}", Name(&event.name), flag(event.wanted, "wanted"))?;
    }
    for (at, set) in graph.sets.iter().enumerate() {
        print_set(at, set, f)?;
    }
    for (at, pattern) in graph.patterns.iter().enumerate() {
        let (kind, bytes) = match pattern {
            PatternDecl::Contains(bytes) => ("contains", &bytes[..]),
            PatternDecl::Equals(bytes) => ("equals", &bytes[..]),
            PatternDecl::Less(bytes) => ("less", &bytes[..]),
            PatternDecl::Matches(text) => ("matches", text.as_bytes()),
        };
        writeln!(f, "pattern{at} {kind} {}", Quoted(bytes))?;
    }
    for (at, out) in graph.outs.iter().enumerate() {
        writeln!(f, "out{at} {}", Name(&out.text()))?;
    }
    if graph.fuels > 0 {
        writeln!(f, "fuels {}", graph.fuels)?;
    }
    if graph.is_fast_path {
        writeln!(f, "fast-path")?;
    }
    if !graph.usual.is_empty() {
        write!(f, "usual")?;
        graph.usual.iter().try_for_each(|fuels| write!(f, " ({})", Separated(fuels)))?;
        writeln!(f)?;
    }
    if graph.entry.0 != 0 {
        writeln!(f, "entry {}", graph.entry)?;
    }
    Ok(())
}

fn print_table(at: usize, table: &TableDecl, f: &mut Formatter<'_>) -> fmt::Result {
    let two_sided = flag(table.two_sided, "two_sided");
    let observed = flag(table.observed, "observed");
    let ends = flag(table.ends, "ends");
    let delivers = flag(table.delivers, "delivers");
    let asked = flag(table.asked, "asked");
    let scattered = flag(table.scattered, "scattered");
    write!(f, "table{at} {}{two_sided}{observed}{ends}{delivers}{asked}{scattered}", Name(&table.name))?;
    if let Some(whole) = &table.part {
        write!(f, " part {}", Name(whole))?;
    }
    if let Some(carries) = &table.carries {
        write!(f, " carries {}", Name(carries))?;
    }
    if !table.key.is_undeclared() {
        write!(f, " key ({})", Separated(table.key.parts()))?;
    }
    match table.timeout_ms {
        Some(millis) => writeln!(f, " timeout_ms {millis}"),
        None => writeln!(f),
    }
}

impl Display for KeyPart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", Name(&self.name), self.role, self.bits)?;
        match self.side {
            KeySide::Neither => Ok(()),
            KeySide::First => f.write_str(" first"),
            KeySide::Second => f.write_str(" second"),
        }
    }
}

fn print_var(at: usize, var: &VarDecl, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "var{at} {} {}", var.table, Name(&var.name.text()))?;
    match var.kind {
        VarKind::Bits(bits) => write!(f, " u{bits}")?,
        VarKind::Letters(max) => write!(f, " letters {max}")?,
    }
    writeln!(f, "{}{}", flag(var.each_side, "each_side"), flag(var.observed, "observed"))
}

fn print_sequence(at: usize, sequence: &SequenceDecl, f: &mut Formatter<'_>) -> fmt::Result {
    let from = if sequence.from_first { "first" } else { "zero" };
    let wholes = if sequence.wholes > 0 { format!(" wholes {}", sequence.wholes) } else { String::new() };
    let retain = flag(sequence.retain, "retain");
    let headers_only = flag(sequence.headers_only, "headers_only");
    let overwrite = flag(sequence.overwrite, "overwrite");
    let distinct = flag(sequence.distinct, "distinct");
    let tells = flag(sequence.tells, "tells");
    write!(f, "sequence{at} {} {}", sequence.table, Name(&sequence.name))?;
    writeln!(
        f,
        " bits {} from {from} metas {}{wholes}{retain}{headers_only}{overwrite}{distinct}{tells}",
        sequence.bits, sequence.metas
    )
}

fn print_set(at: usize, set: &[(u128, u128)], f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "set{at} {{")?;
    for (index, (first, last)) in set.iter().enumerate() {
        write!(f, "{} {first}", if index > 0 { "," } else { "" })?;
        if last != first {
            write!(f, "..{last}")?;
        }
    }
    writeln!(f, " }}")
}

fn print_block(graph: &Graph, at: usize, block: &BlockData, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "block{at}")?;
    for (index, &param) in block.params.iter().enumerate() {
        write!(f, "{}{param}: {}", if index > 0 { ", " } else { "(" }, graph.type_of(param))?;
    }
    writeln!(f, "{}:", if block.params.is_empty() { "" } else { ")" })?;
    for inst in &block.insts {
        writeln!(f, "    {inst}")?;
    }
    writeln!(f, "    {}", block.terminator)
}

fn flag(set: bool, word: &'static str) -> impl Display {
    fmt::from_fn(move |f| if set { write!(f, " {word}") } else { Ok(()) })
}

/// A name, quoted if it is not one word.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let starts = self.0.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if starts && !self.0.contains("..") && self.0.chars().all(plain) {
            f.write_str(self.0)
        } else {
            write!(f, "{}", Quoted(self.0.as_bytes()))
        }
    }
}

/// Quoted bytes; bytes that are not printable text are written as `\xNN`.
struct Quoted<'a>(&'a [u8]);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '"' | '\\' => write!(f, "\\{c}")?,
                    c if c.is_control() => {
                        c.encode_utf8(&mut [0; 4]).bytes().try_for_each(|b| write!(f, "\\x{b:02x}"))?;
                    }
                    c => write!(f, "{c}")?,
                }
            }
            chunk.invalid().iter().try_for_each(|b| write!(f, "\\x{b:02x}"))?;
        }
        f.write_str("\"")
    }
}
