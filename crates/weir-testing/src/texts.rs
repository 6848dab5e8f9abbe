//! Generates texts of the protocol language from a fuzzer's bytes. If a text compiles, all engines must give
//! the same results for it.
//!
//! The text is generated from the start of the bytes, the filters and packets from their end. The text is
//! valid except for rules that only the checker knows. `file` assembles it from `header`, `instance`,
//! `machine` and `messages`; `names` holds the names in scope, and `expr` writes expressions. `packets`
//! builds frames from the checked text, and `runs` collects the output of a program for these frames.

mod expr;
mod file;
mod filter;
mod header;
mod instance;
mod machine;
mod messages;
mod names;
mod packets;
mod runs;
mod shrink;

use crate::choices::Choices;
use names::Names;
use packets::Packet;
pub use shrink::shrink_text;
use std::fmt;
use weir::{Ask, Compiled, Compiler, EventSet, Executor, Need, Options, Want};
use weir_engine::plan::Limits;
use weir_engine::sequence::{Policies, Policy};
use weir_engine::stream::{ChunkParams, StreamParams};
use weir_ir::verify::assert_valid;
use weir_lang::diag::Diagnostics;

/// Maximum number of packets for one text.
const PACKETS_MAX: usize = 60;

/// The result for a generated text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// The checker or the compiler refused it with this message.
    Refused(String),
    /// All engines gave the same rows for the packets; the number of rows.
    Agreed(usize),
}

/// Generates a text, filters and packets from `bytes`, and compares the engines.
///
/// # Panics
/// If engines differ, the verifier refuses a graph, or counters do not add up.
pub fn fuzz_text(bytes: &[u8]) {
    try_text(bytes);
}

/// As [`fuzz_text`], but returns the result.
///
/// # Panics
/// As [`fuzz_text`].
pub fn try_text(bytes: &[u8]) -> Tried {
    let case = match Case::of(bytes) {
        Ok(case) => case,
        Err(refused) => return refused,
    };
    crate::language::fuzz_lang(case.text.as_bytes());
    let shown = Shown(&case);
    let tried = case.try_engines();
    drop(shown);
    tried
}

/// A text, questions and packets.
#[derive(Debug, Clone)]
struct Case {
    text: String,
    asks: Vec<Ask>,
    /// Whether reassembly is strict: missing bytes are never passed over.
    strict: bool,
    /// Selects the bytes that win where segments overlap.
    policy: Policy,
    packets: Vec<Packet>,
}

impl Case {
    fn of(bytes: &[u8]) -> Result<Self, Tried> {
        let text = file::write(&mut Choices::new(bytes));
        let mut compiler = Compiler::default();
        compiler.add("made-up.weir", &text).map_err(|wrong| refused(&wrong))?;
        let choices = &mut Choices::from_end(bytes);
        let asks = asks(choices, &compiler);
        let (strict, policy) = (choices.chance(30), choices.pick(Policy::ALL));
        let count = 20 + choices.below(PACKETS_MAX - 20);
        let packets = packets::build(choices, compiler.stack(), &numbers(&text), count);
        Ok(Self { text, asks, strict, policy, packets })
    }

    fn try_engines(&self) -> Tried {
        let Self { text, asks, packets, .. } = self;
        let mut compiler = Compiler::default();
        if let Err(wrong) = compiler.add("made-up.weir", text) {
            return refused(&wrong);
        }
        let reference = match compiler.compile(asks, &self.options(Executor::Interpreter, &["all"])) {
            Ok(compiled) => compiled,
            Err(wrong) => return refused(&wrong),
        };
        assert_valid(reference.graph(), "lowering");
        let expected = runs::told(&compiler, &reference, packets);
        for engine in [Executor::Interpreter, Executor::Native] {
            let compiled = match compiler.compile(asks, &self.options(engine, &[])) {
                Ok(compiled) => compiled,
                Err(wrong) => return refused(&wrong),
            };
            assert_valid(compiled.graph(), "all passes");
            let got = runs::told(&compiler, &compiled, packets);
            if got != expected {
                let guilty = self.guilty(&compiler, &expected);
                let at = (0..got.len().max(expected.len())).find(|&at| got.get(at) != expected.get(at));
                let at = at.unwrap_or_default();
                panic!(
                    "{engine:?}: row {at} is\n  {:?}\nshould be\n  {:?}\nright without one of {guilty:?}",
                    got.get(at),
                    expected.get(at)
                );
            }
        }
        Tried::Agreed(expected.len())
    }

    fn options(&self, engine: Executor, without: &[&str]) -> Options {
        let without_passes = without.iter().map(ToString::to_string).collect();
        let limits = Limits { strict: self.strict, ..Limits::default() };
        let policies = Policies::new(self.policy);
        Options { engine, without_passes, limits, policies, ..Options::default() }
    }

    /// The passes that cause the difference: if any one of them is omitted, the rows are as expected.
    fn guilty(&self, compiler: &Compiler, expected: &[String]) -> Vec<&'static str> {
        let Self { asks, packets, .. } = self;
        let says = |compiled: &Compiled| runs::told(compiler, compiled, packets);
        let is_right = |name: &&str| {
            let options = self.options(Executor::Interpreter, &[name]);
            compiler.compile(asks, &options).is_ok_and(|compiled| says(&compiled) == expected)
        };
        weir_ir::passes::PASSES.iter().map(|pass| pass.name).filter(is_right).collect()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)?;
        for Ask { filter, want, .. } in &self.asks {
            writeln!(f, "{want:?} of {filter:?}")?;
        }
        writeln!(f, "strict {}, {:?}", self.strict, self.policy)?;
        for Packet { time_ns, link, missing, bytes } in &self.packets {
            writeln!(f, "{time_ns} link {link} missing {missing} {bytes:02x?}")?;
        }
        Ok(())
    }
}

/// One question of each kind, or of some kinds: fewer questions let the passes remove more.
fn asks(choices: &mut Choices<'_>, compiler: &Compiler) -> Vec<Ask> {
    let catalog = compiler.catalog();
    let wants = [Want::Packets, Want::Connections, Want::Events, Want::Streams(params(choices))];
    let kept = choices.below(16) | 1 << choices.below(4);
    let kept = if choices.chance(50) { 15 } else { kept };
    let chosen = wants.into_iter().enumerate().filter(|(at, _)| kept >> at & 1 == 1);
    chosen
        .map(|(_, want)| {
            // Events and the packets of streams cannot be selected by properties that are known later.
            let is_late = match want {
                Want::Streams(params) => params.packets,
                _ => want == Want::Events,
            };
            let filter = match is_late || choices.chance(20) {
                true => String::new(),
                false => filter::write(choices, catalog, 2),
            };
            let events = if want == Want::Events { EventSet::FULL } else { EventSet::EMPTY };
            let lines = want == Want::Packets;
            Ask {
                filter,
                need: Need { events, lines, variables: want == Want::Connections, ..Need::default() },
                want,
            }
        })
        .collect()
}

/// The parameters of stream delivery.
fn params(choices: &mut Choices<'_>) -> StreamParams {
    let [first, bytes, overlap] = [(); 3].map(|()| choices.below(9) as u32);
    let flush_ns = choices.pick(&[0, 1_000_000_000]);
    let chunk = ChunkParams { bytes, overlap, flush_ns }.sane();
    let cutoff = [u64::from(first), u64::MAX];
    StreamParams {
        cutoff: if choices.chance(20) { cutoff } else { [u64::MAX; 2] },
        chunk: choices.chance(40).then_some(chunk),
        packets: choices.chance(30),
        ..StreamParams::default()
    }
}

fn refused(wrong: &Diagnostics) -> Tried {
    let error = wrong.list.iter().find(|one| one.is_error()).expect("it was refused");
    let place = error.spans.first().map(|(span, _)| wrong.sources.slice(*span));
    Tried::Refused(format!("{} {} {}", error.code, error.message, place.unwrap_or_default()))
}

/// The numbers in a text, with which its conditions compare.
fn numbers(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let number = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    };
    words.filter_map(number).collect()
}

/// Writes one protocol: the choices, and the names declared so far.
struct Author<'c, 'b> {
    choices: &'c mut Choices<'b>,
    names: Names,
    /// The number of names declared so far.
    count: usize,
    has_window: bool,
    /// Whether an event assembles the bytes that the sequence puts in order.
    assembles_in_order: bool,
}

impl<'c, 'b> Author<'c, 'b> {
    fn new(choices: &'c mut Choices<'b>, names: Names) -> Self {
        Self { choices, names, count: 0, has_window: false, assembles_in_order: false }
    }

    fn fresh(&mut self, letter: &str) -> String {
        self.count += 1;
        format!("{letter}{}", self.count)
    }

    /// Sometimes a description.
    fn doc(&mut self) -> String {
        if self.choices.chance(20) { " \"made up\"".into() } else { String::new() }
    }
}

/// Prints the case if the thread panics.
struct Shown<'a>(&'a Case);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
