//! Runs packets through a program as an engine does, in the simplest way.

use super::RecordingHost;
use std::collections::BTreeMap;
use weir_ir::abi::{Continuation, FlowRecord, OUTS_MAX, Program, Resume, Step};
use weir_ir::graph::Table;
use weir_packet::{Direction, DropReason, PacketMeta};

/// Maximum number of lookups and restarts of one packet; the packet is abandoned after that.
const STEPS_MAX: usize = 8;

/// Everything that a program did with some packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The outcome of each packet.
    pub packets: Vec<PacketOutcome>,
    /// The program's calls to the engine.
    pub calls: Vec<String>,
    /// The variables of each flow at the end, by table and key.
    pub flows: BTreeMap<(u32, Vec<u64>), Vec<u8>>,
}

/// Everything that a program did with a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketOutcome {
    /// The packet's terms, and the reason if it was dropped. `None` if the packet was abandoned.
    pub done: Option<(u64, Option<DropReason>)>,
    /// Table, key and swap of each lookup.
    pub lookups: Vec<(u32, Vec<u64>, u32)>,
    /// The slots of the continuation; slots that were not written are 0.
    pub outs: Vec<u64>,
}

struct Flow {
    id: u32,
    swap: bool,
    data: Vec<u8>,
}

/// Runs packets in order, each to its end before the next. Flows do not expire.
pub fn drive(program: &dyn Program, packets: &[(PacketMeta, Vec<u8>)]) -> Outcome {
    let mut host = RecordingHost::default();
    let mut flows: BTreeMap<(u32, Vec<u64>), Flow> = BTreeMap::new();
    let mut k = Continuation::default();
    let mut next_id = 0;
    let outcomes = packets
        .iter()
        .map(|(packet, frame)| {
            k.outs = [0; OUTS_MAX];
            let mut step = program.head(packet, frame, &mut k);
            let mut lookups = vec![];
            for _ in 0..STEPS_MAX {
                let place = (k.table, k.key().to_vec());
                match step {
                    Step::Done(_) => break,
                    Step::Lookup => lookups.push((k.table, k.key().to_vec(), k.swap)),
                    Step::Restart => drop(flows.remove(&place)),
                }
                let known = flows.contains_key(&place);
                let flow = flows.entry(place).or_insert_with(|| {
                    next_id += 1;
                    let data = vec![0; program.layout().size(Table(k.table))];
                    Flow { id: next_id, swap: k.sender().0 != k.sender().1, data }
                });
                let direction = Direction::responder_if(flow.swap != k.sender().0);
                let record = FlowRecord { id: flow.id, data: &mut flow.data };
                let at = Resume { packet, frame, flow: record, direction, is_new: !known };
                step = program.resume(&mut host, at, &mut k);
            }
            let done = match step {
                Step::Done(reason) => Some((k.terms, reason)),
                Step::Lookup | Step::Restart => None,
            };
            let outs = k.outs[..program.graph().outs.len()].to_vec();
            PacketOutcome { done, lookups, outs }
        })
        .collect();
    let flows = flows.into_iter().map(|(place, flow)| (place, flow.data)).collect();
    Outcome { packets: outcomes, calls: host.calls, flows }
}
