//! Runs a compiled program over packets and collects all its output.

use super::packets::{Bursts, Packet};
use std::convert::Infallible;
use std::sync::Arc;
use weir::{Compiled, Compiler, Item, Shape, run};
use weir_compile::events::{StackEvent, events};
use weir_engine::flow::{EndReason, FlowView};
use weir_engine::stream::{Chunk, StreamHandle, StreamSubscriber};
use weir_engine::subscriber::{EventView, Order, Subscriber};
use weir_engine::worker::Worker;
use weir_ir::graph::{Var, VarKind};
use weir_packet::{Burst, Poll, Source, ValueType};

/// The items of all questions in the order of their delivery, then the calls of the engine's subscriber.
///
/// # Panics
/// If the counters of packets or flows do not add up.
pub(super) fn told(compiler: &Compiler, compiled: &Compiled, packets: &[Packet]) -> Vec<String> {
    let mut rows = vec![];
    let mut each = |question: usize, item: Item<'_>| {
        rows.push(format!("{question} {item:?}"));
        Ok::<(), Infallible>(())
    };
    let shape = Shape { as_rows: true, ..Shape::default() };
    let shapes = vec![shape; compiled.question_count()];
    let mut source = Bursts::of(packets);
    let Ok(outcome) = run(compiler, compiled, &mut source, &shapes, 1, &mut each, &mut |_| {});
    assert_eq!(outcome.counters.packet.packets, packets.len() as u64, "every packet is counted");
    assert_eq!(outcome.counters.adds_up(0), Ok(()), "{:?}", outcome.counters);
    rows.push(format!("matched {:?}", outcome.matched));
    rows.push(format!("{:?} {:?}", outcome.counters.packet, outcome.counters.drops));
    rows.extend(heard(compiler, compiled, packets));
    rows
}

/// The bytes of streams, the values of events and the variables of connections, which rows show only in part.
fn heard(compiler: &Compiler, compiled: &Compiled, packets: &[Packet]) -> Vec<String> {
    let witness = Witness { events: events(compiler.stack()), said: vec![] };
    let mut worker = Worker::new(Arc::clone(compiled.plan()), witness);
    let (mut source, mut burst, mut number) = (Bursts::of(packets), Burst::default(), 0);
    while source.poll(&mut burst).expect("from memory") != Poll::End {
        while worker.pass_time(number, burst.packets[0].time.0) {}
        worker.take(&burst, 0..burst.packets.len(), number);
        number += 1;
    }
    while worker.finish(number) {}
    worker.into_subscriber().said
}

struct Witness {
    events: Vec<StackEvent>,
    said: Vec<String>,
}

impl Subscriber for Witness {
    fn connection(&mut self, order: Order, question: usize, flow: &FlowView<'_>, reason: EndReason) {
        let mut text = format!("{order:?} {question} {flow:?} {reason:?}");
        for (at, var) in flow.graph.vars.iter().enumerate() {
            if var.table != flow.table || !var.observed {
                continue;
            }
            let bytes = match var.kind {
                VarKind::Bits(bits) => usize::from(bits) / 8,
                VarKind::Letters(most) => usize::from(most) + 1,
            };
            let start = flow.layout.offset(Var(at as u32));
            let sides = if var.each_side { 2 } else { 1 };
            let held = (0..sides).map(|side| {
                let start = start + side * flow.layout.stride(flow.table);
                format!("{:02x?}", &flow.data[start..start + bytes])
            });
            text += &format!(" {}={}", var.name, held.collect::<Vec<_>>().join("/"));
        }
        self.said.push(text);
    }

    fn event(&mut self, order: Order, question: usize, event: &EventView<'_>) {
        let columns = &self.events[event.event.index()].columns;
        let said =
            columns.iter().enumerate().map(|(at, (_, value_type))| match (event.column(at), value_type) {
                // Compares the bytes, not their number: numbers also count the bytes of unwanted columns.
                (Some(words), ValueType::Bytes | ValueType::Text) => format!("{:02x?}", event.bytes(words)),
                (words, _) => format!("{words:x?}"),
            });
        let said: Vec<String> = said.collect();
        self.said.push(format!("{order:?} {question} {} {said:?}", event.event));
    }
}

impl StreamSubscriber for Witness {
    fn stream_data(
        &mut self,
        order: Order,
        question: usize,
        stream: &mut StreamHandle<'_>,
        chunk: &Chunk<'_>,
    ) {
        self.said.push(format!("{order:?} {question} {:?} {:?} {chunk:02x?}", stream.flow, stream.from));
    }

    fn stream_terminated(
        &mut self,
        order: Order,
        question: usize,
        stream: &mut StreamHandle<'_>,
        reason: EndReason,
    ) {
        let counts = (stream.counts(), stream.sequence);
        self.said
            .push(format!("{order:?} {question} {:?} {:?} {counts:?} {reason:?}", stream.flow, stream.from));
    }
}
