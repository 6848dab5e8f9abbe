//! The sessions of a flow: probe until it is certain which protocol it is, parse while somebody wants
//! its sessions, then be over.

use crate::counters::SessionCounters;
use crate::plan::Plan;
use weir_sessions::{Direction, Probe, Progress, Session, SessionParser};

/// Where the sessions of one flow stand.
#[derive(Default)]
pub(crate) enum FlowSessions {
    /// No byte yet.
    #[default]
    Fresh,
    /// Not yet certain; the first bytes of both directions are kept.
    Probing(Box<Probing>),
    /// Certain, and wanted.
    Parsing {
        /// Index of the protocol.
        protocol: u8,
        /// Its parser.
        parser: Box<dyn SessionParser>,
    },
    /// Nothing more is wanted of the bytes.
    Over {
        /// Index of the protocol, if one was recognised.
        protocol: Option<u8>,
    },
}

/// The first bytes of a flow.
pub(crate) struct Probing {
    bytes: [Vec<u8>; 2],
    /// Protocols that it may still be.
    candidates: u64,
}

/// The first bytes of each direction.
type Kept = [(Direction, Vec<u8>); 2];

/// Sessions yielded by a call, with their protocol's index.
pub(crate) type Yielded = Vec<Box<dyn Session>>;

impl FlowSessions {
    /// Takes the next bytes of one direction. What they complete is pushed to `out`.
    pub fn take(
        &mut self,
        plan: &Plan,
        from: Direction,
        gap_bytes: u64,
        bytes: &[u8],
        out: &mut Yielded,
        counters: &mut SessionCounters,
    ) {
        if gap_bytes == 0 && bytes.is_empty() {
            return;
        }
        if matches!(self, FlowSessions::Fresh) {
            if gap_bytes > 0 {
                *self = FlowSessions::Over { protocol: None };
                return;
            }
            *self = match probe_first(plan, from, bytes) {
                First::Certain(protocol) => certain(plan, protocol),
                First::Unsure(candidates) => {
                    FlowSessions::Probing(Box::new(Probing { bytes: Default::default(), candidates }))
                }
                First::None => FlowSessions::Over { protocol: None },
            };
        }
        match self {
            FlowSessions::Fresh | FlowSessions::Over { .. } => {}
            FlowSessions::Parsing { protocol, parser } => {
                let mut progress = Progress::Wanted;
                if gap_bytes > 0 {
                    progress = parser.gap(from, gap_bytes, out);
                }
                if progress == Progress::Wanted && !bytes.is_empty() {
                    progress = parser.parse(from, bytes, out);
                }
                if progress == Progress::Done {
                    count(&**parser, counters);
                    *self = FlowSessions::Over { protocol: Some(*protocol) };
                }
            }
            FlowSessions::Probing(probing) => {
                let next = probing.take(plan, from, gap_bytes, bytes, counters);
                if let Some((next, kept)) = next {
                    *self = next;
                    // What was kept goes through the parser in the order of directions.
                    for (from, bytes) in kept {
                        if !bytes.is_empty() {
                            self.take(plan, from, 0, &bytes, out, counters);
                        }
                    }
                }
            }
        }
    }

    /// The flow is over.
    pub fn finish(&mut self, out: &mut Yielded, counters: &mut SessionCounters) {
        if let FlowSessions::Parsing { parser, protocol } = self {
            parser.finish(out);
            count(&**parser, counters);
            *self = FlowSessions::Over { protocol: Some(*protocol) };
        }
    }

    /// Nothing more is wanted of the bytes.
    pub fn is_over(&self) -> bool {
        matches!(self, FlowSessions::Over { .. })
    }

    /// The protocol that was recognised.
    pub fn protocol(&self) -> Option<usize> {
        match self {
            FlowSessions::Parsing { protocol, .. } => Some(usize::from(*protocol)),
            FlowSessions::Over { protocol } => protocol.map(usize::from),
            _ => None,
        }
    }
}

/// Counts what the bounds of a parser cut off that is done with.
fn count(parser: &dyn SessionParser, counters: &mut SessionCounters) {
    let cut_off = parser.cut_off();
    counters.parts_cut += cut_off.parts;
    counters.sessions_cut += cut_off.sessions;
}

enum First {
    Certain(usize),
    Unsure(u64),
    None,
}

fn probe_first(plan: &Plan, from: Direction, bytes: &[u8]) -> First {
    let (orig, resp) = match from {
        Direction::Originator => (bytes, &[][..]),
        Direction::Responder => (&[][..], bytes),
    };
    probe(plan, plan.probed, orig, resp)
}

fn probe(plan: &Plan, candidates: u64, orig: &[u8], resp: &[u8]) -> First {
    let mut unsure = 0;
    for (index, protocol) in plan.protocols.iter().enumerate() {
        if candidates >> index & 1 == 0 {
            continue;
        }
        match (protocol.probe)(orig, resp) {
            Probe::Certain => return First::Certain(index),
            Probe::Unsure => unsure |= 1 << index,
            Probe::NotForUs => {}
        }
    }
    if unsure == 0 { First::None } else { First::Unsure(unsure) }
}

fn certain(plan: &Plan, protocol: usize) -> FlowSessions {
    if plan.parsed >> protocol & 1 == 1 {
        FlowSessions::Parsing { protocol: protocol as u8, parser: (plan.protocols[protocol].parser)() }
    } else {
        FlowSessions::Over { protocol: Some(protocol as u8) }
    }
}

impl Probing {
    fn take(
        &mut self,
        plan: &Plan,
        from: Direction,
        gap_bytes: u64,
        bytes: &[u8],
        counters: &mut SessionCounters,
    ) -> Option<(FlowSessions, Kept)> {
        let none = [(Direction::Originator, vec![]), (Direction::Responder, vec![])];
        let over = || Some((FlowSessions::Over { protocol: None }, none));
        if gap_bytes > 0 {
            return over();
        }
        // A segment may be larger than what is kept: what decides may still be within the bound, and then
        // all of it is parsed.
        self.bytes[from as usize].extend_from_slice(bytes);
        let bytes_max = plan.limits.probe_bytes_max;
        let [orig, resp] = self.bytes.each_ref().map(|bytes| &bytes[..bytes.len().min(bytes_max)]);
        match probe(plan, self.candidates, orig, resp) {
            First::Unsure(_) if self.bytes[from as usize].len() > bytes_max => {
                counters.probes_cut += 1;
                over()
            }
            First::Unsure(candidates) => {
                self.candidates = candidates;
                None
            }
            First::None => over(),
            First::Certain(protocol) => {
                let [orig, resp] = std::mem::take(&mut self.bytes);
                let kept = [(Direction::Originator, orig), (Direction::Responder, resp)];
                Some((certain(plan, protocol), kept))
            }
        }
    }
}
