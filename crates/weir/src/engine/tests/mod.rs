//! Tests of callbacks, and of programs that change during a run, over the capture that the project ships.

mod callbacks;
mod change;
mod control;
mod handlers;
mod panics;
mod pipelines;
mod track;

use super::*;
use crate::CALLBACK_PANICS_MAX;
use crate::ask::compile::QUESTIONS_MAX;
use crate::handlers::datum;
use crate::handlers::stream_handler::erased;
use crate::io::CaptureReader;
use crate::items::item::{Flow, Item};
use crate::merge::changes::Changes;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_compile::Need;
use weir_engine::flow::EndReason;
use weir_engine::plan::Want;
use weir_engine::stream::Chunk;
use weir_packet::{Burst, PacketMeta, Poll, SourceError, Value};
use weir_sessions::tls::TlsHandshake;
use weir_sessions::{ProtocolSet, SessionRegistry};

const FIRST_LIGHT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");

/// Reads the shipped capture in bursts of a few packets, and calls a function before each burst.
struct Slow<F> {
    reader: CaptureReader,
    rest: Burst,
    size: usize,
    before: F,
}

fn slow<F: FnMut()>(size: usize, before: F) -> Slow<F> {
    Slow { reader: CaptureReader::open(&[FIRST_LIGHT]), rest: Burst::default(), size, before }
}

impl<F: FnMut()> Source for Slow<F> {
    fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
        (self.before)();
        if self.rest.packets.is_empty() && self.reader.poll(&mut self.rest)? == Poll::End {
            burst.packets.clear();
            return Ok(Poll::End);
        }
        burst.block = Arc::clone(&self.rest.block);
        let count = self.size.min(self.rest.packets.len());
        burst.packets = self.rest.packets.drain(..count).collect();
        Ok(Poll::Packets)
    }
}

fn compile(questions: &[(&str, Want)]) -> Compiled {
    // The recognised services depend on all questions together, so each question asks for all of them.
    let need = |want| Need { service: want == Want::Connections, ..Need::default() };
    let ask = |&(filter, want): &(&str, Want)| Ask { filter: filter.into(), need: need(want), want };
    let asks: Vec<Ask> = questions.iter().map(ask).collect();
    Compiler::default().compile(&asks, &Options::default()).unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Counts packets.
#[derive(Debug, Default)]
struct Count(u64);

impl Handler for Count {
    fn needs(needs: &mut Needs) {
        needs.packets();
    }

    fn packet(&mut self, _: &PacketMeta, _: &[u8]) {
        self.0 += 1;
    }
}
