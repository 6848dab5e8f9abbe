//! The sessions of a flow: probes until the protocol is certain, parses while a question wants the sessions,
//! probes again if another protocol follows in the same bytes, and then ignores further bytes.

use crate::counters::SessionCounters;
use crate::plan::Plan;
use crate::proxy_header::{self, Front};
use crate::recognised::Recognised;
use crate::watching::{BEGINNINGS_MAX, Part, Turn, Watched, Watching};
use weir_packet::Timestamp;
use weir_sessions::{
    Data, Direction, InnerPiece, Opening, Probe, Progress, ProtocolSet, Session, SessionParser,
};

/// The flow that sessions are found in.
#[derive(Clone, Copy)]
pub(crate) struct Carrier<'a> {
    pub plan: &'a Plan,
    /// Protocols that the flow may carry and that a question needs.
    pub probed: &'a ProtocolSet,
    /// Ports of originator and responder.
    pub ports: [u16; 2],
    /// The first protocol of the flow, if it is given.
    pub forced: Option<usize>,
    /// The bytes arrive in datagrams.
    pub is_datagram: bool,
}

impl Carrier<'_> {
    /// The protocols that a datagram is probed for after the parser of `protocol` refused it. That protocol
    /// is not among them: its probe may be less strict than its parser.
    fn others_than(&self, protocol: usize) -> ProtocolSet {
        *self.probed - ProtocolSet::of(protocol)
    }
}

/// What the sessions of one flow are in.
pub(crate) enum SessionPhase {
    /// No bytes since the start, or since the last protocol handed over; and how much was passed over since
    /// then: datagrams that no protocol recognised, or beginnings that are no part of the stream.
    Fresh(Recognised, u8),
    /// The protocol is not certain yet; the first bytes of both directions are kept.
    Probing(Box<Probing>),
    /// The protocol, which was recognised last, is certain and wanted; and the number of datagrams that
    /// neither its parser took nor another protocol recognised.
    Parsing(Recognised, FlowParser, u8),
    /// As `Parsing`, with a parser that yields a stream with sessions of its own.
    Tunnel(Box<Tunnel>),
    /// No protocol recognised the beginning of the stream.
    Watching(Box<Watching>),
    /// Several protocols share the flow's datagrams: this parser is tried first; other datagrams go to the
    /// rest.
    Beside(u8, FlowParser, Box<SessionPhase>),
    /// No more bytes are wanted.
    Over(Recognised),
}

impl Default for SessionPhase {
    fn default() -> Self {
        SessionPhase::Fresh(Recognised::default(), 0)
    }
}

/// The parser of a flow.
type FlowParser = Box<dyn SessionParser>;

/// A parser that yields a stream, and the sessions in that stream. The limit of protocols per flow also
/// limits the depth of nested tunnels.
pub(crate) struct Tunnel {
    protocol: usize,
    parser: FlowParser,
    /// The protocols that the inner stream is probed for.
    probed: ProtocolSet,
    /// Its recognised protocols begin with those of the outer sessions.
    inner: SessionPhase,
}

/// The first bytes of a flow.
#[derive(Default)]
pub(crate) struct Probing {
    before: Recognised,
    /// As in [`SessionPhase::Fresh`].
    passed: u8,
    /// The bytes of each direction.
    bytes: [Vec<u8>; 2],
    /// The pieces in which the bytes arrived: sender, time, length.
    pieces: Vec<(Direction, Timestamp, u32)>,
    /// Protocols that are still possible.
    candidates: ProtocolSet,
}

/// The bytes of each direction, and the pieces in which they arrived: sender, time, length.
type Pieces = ([Vec<u8>; 2], Vec<(Direction, Timestamp, u32)>);

/// Sessions that a call completed, each with its protocol's index.
pub(crate) type Yielded = Vec<(usize, Box<dyn Session>)>;

/// The result of probing.
enum Probed {
    Certain(usize),
    Unsure(ProtocolSet),
    Nothing,
}

impl SessionPhase {
    /// Processes the next bytes of one direction. Completed sessions are pushed to `out`.
    pub fn take(
        &mut self,
        carrier: &Carrier<'_>,
        data: &Data<'_>,
        out: &mut Yielded,
        counters: &mut SessionCounters,
    ) {
        let data = &self.without_blank_lines(carrier, data);
        match self {
            _ if data.bytes.is_empty() => {}
            SessionPhase::Over(_) => {}
            SessionPhase::Fresh(before, passed) => {
                let (before, passed) = (*before, *passed);
                let probed = match carrier.forced.filter(|_| before.is_empty()) {
                    Some(protocol) => Probed::Certain(protocol),
                    None => match front(carrier, passed, data.bytes) {
                        Front::Whole(length) => {
                            *self = SessionPhase::Fresh(before, passed + 1);
                            let rest = Data { bytes: &data.bytes[length..], ..*data };
                            return self.take(carrier, &rest, out, counters);
                        }
                        Front::Open => Probed::Unsure(*carrier.probed),
                        Front::None => probe(carrier, carrier.probed, opening(carrier, data)),
                    },
                };
                *self = match probed {
                    Probed::Certain(protocol) => certain(carrier.plan, before, protocol),
                    Probed::Nothing if carrier.is_datagram && passed < passed_max(before) => {
                        SessionPhase::Fresh(before, passed + counted(data))
                    }
                    Probed::Unsure(candidates) if data.bytes.len() <= kept_max(carrier) => {
                        SessionPhase::Probing(Probing::begin(before, passed, candidates, data))
                    }
                    refused => {
                        let watch = || {
                            let late_bytes_max = carrier.plan.limits.late_bytes_max;
                            let mut watching = Watching::begin(before, passed, late_bytes_max);
                            let watched = watching.take(data);
                            (watching, watched)
                        };
                        return self.refuse(carrier, &refused, before, watch, out, counters);
                    }
                };
                if let SessionPhase::Parsing(..) = self {
                    self.take(carrier, data, out, counters);
                }
            }
            SessionPhase::Parsing(recognised, parser, _) => {
                let (recognised, protocol) = (*recognised, recognised.last().unwrap_or(0));
                let progress = numbered(protocol, out, |sessions| parser.parse(data, sessions));
                match progress {
                    Progress::NotMine => return self.share(carrier, data, out, counters),
                    Progress::Inner => return self.enter(carrier, out, counters),
                    _ => {}
                }
                self.go_on(progress, recognised, counters);
                if let Progress::HandOver { rest_bytes } = progress {
                    let at = data.bytes.len().saturating_sub(rest_bytes);
                    self.take(carrier, &Data { bytes: &data.bytes[at..], ..*data }, out, counters);
                }
            }
            SessionPhase::Tunnel(tunnel) => {
                let Tunnel { protocol, parser, .. } = &mut **tunnel;
                let progress = numbered(*protocol, out, |sessions| parser.parse(data, sessions));
                tunnel.take_inner(carrier, out, counters);
                self.go_on_around(carrier, progress, out, counters);
                if let Progress::HandOver { rest_bytes } = progress {
                    let at = data.bytes.len().saturating_sub(rest_bytes);
                    self.take(carrier, &Data { bytes: &data.bytes[at..], ..*data }, out, counters);
                }
            }
            SessionPhase::Beside(..) => self.take_beside(carrier, data, out, counters),
            SessionPhase::Watching(watching) => {
                let watched = watching.take(data);
                self.watched(carrier, watched, out, counters);
            }
            SessionPhase::Probing(probing) => {
                probing.keep(data);
                let front = front(carrier, probing.passed, &probing.bytes[data.from as usize]);
                let probed = match front {
                    Front::None => probing.probe(carrier),
                    Front::Open => Probed::Unsure(probing.candidates),
                    Front::Whole(length) => {
                        let Probing { before, passed, .. } = **probing;
                        let kept = probing.behind(data.from, length);
                        *self = SessionPhase::Fresh(before, passed + 1);
                        return self.replay(carrier, kept, out, counters);
                    }
                };
                match probed {
                    Probed::Unsure(candidates) if !probing.is_full(carrier, data.from) => {
                        probing.candidates = candidates;
                    }
                    Probed::Nothing if carrier.is_datagram && probing.passed < passed_max(probing.before) => {
                        // The datagrams before said nothing, either. This one may, by itself.
                        *self = SessionPhase::Fresh(probing.before, probing.passed + counted(data));
                        self.take(carrier, data, out, counters);
                    }
                    Probed::Certain(protocol) => {
                        let kept = probing.behind(data.from, 0);
                        *self = certain(carrier.plan, probing.before, protocol);
                        self.replay(carrier, kept, out, counters);
                    }
                    refused => {
                        let probing = std::mem::take(&mut **probing);
                        let watch = || probing.watch(carrier);
                        self.refuse(carrier, &refused, probing.before, watch, out, counters);
                    }
                }
            }
        }
    }

    /// The bytes without the blank lines at the beginning of their direction. Servers of text protocols skip
    /// any number of them (RFC 9112, section 2.2; RFC 5626, section 4.4.1; nginx), so no protocol has to
    /// recognise itself behind them. They stay if a binary protocol is recognised with them.
    #[inline]
    fn without_blank_lines<'a>(&self, carrier: &Carrier<'_>, data: &Data<'a>) -> Data<'a> {
        let begins_blank = matches!(data.bytes, [b'\r' | b'\n', ..]) && !carrier.is_datagram;
        match begins_blank && carrier.forced.is_none() {
            true => self.after_blank_lines(carrier, data),
            false => *data,
        }
    }

    #[cold]
    fn after_blank_lines<'a>(&self, carrier: &Carrier<'_>, data: &Data<'a>) -> Data<'a> {
        let is_begun = match self {
            SessionPhase::Fresh(..) => false,
            SessionPhase::Probing(probing) => !probing.bytes[data.from as usize].is_empty(),
            _ => true,
        };
        let Some(blank) = data.bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')) else {
            return Data { bytes: if is_begun { data.bytes } else { &[] }, ..*data };
        };
        let behind = Data { bytes: &data.bytes[blank..], ..*data };
        let probe = |data| probe(carrier, carrier.probed, opening(carrier, data));
        match is_begun
            || matches!(probe(data), Probed::Certain(_))
            || matches!(probe(&behind), Probed::Nothing)
        {
            true => *data,
            false => behind,
        }
    }

    /// Processes a gap in one direction.
    pub fn gap(
        &mut self,
        carrier: &Carrier<'_>,
        (from, length_bytes): (Direction, u64),
        out: &mut Yielded,
        counters: &mut SessionCounters,
    ) {
        match self {
            _ if length_bytes == 0 => {}
            SessionPhase::Over(_) => {}
            SessionPhase::Parsing(recognised, parser, _) => {
                let (recognised, protocol) = (*recognised, recognised.last().unwrap_or(0));
                let parser = &mut **parser;
                let progress = numbered(protocol, out, |sessions| parser.gap(from, length_bytes, sessions));
                if progress == Progress::Inner {
                    return self.enter(carrier, out, counters);
                }
                self.go_on(progress, recognised, counters);
            }
            SessionPhase::Tunnel(tunnel) => {
                let Tunnel { protocol, parser, .. } = &mut **tunnel;
                let parser = &mut **parser;
                let progress = numbered(*protocol, out, |sessions| parser.gap(from, length_bytes, sessions));
                tunnel.take_inner(carrier, out, counters);
                self.go_on_around(carrier, progress, out, counters);
            }
            SessionPhase::Beside(protocol, parser, rest) => {
                let (protocol, parser) = (usize::from(*protocol), &mut **parser);
                let progress = numbered(protocol, out, |sessions| parser.gap(from, length_bytes, sessions));
                rest.gap(carrier, (from, length_bytes), out, counters);
                match progress {
                    Progress::Inner => self.refuse_inner(out, counters),
                    Progress::Done | Progress::HandOver { .. } => self.leave(counters),
                    Progress::Wanted | Progress::NotMine => {}
                }
            }
            // A datagram that was cut off or is missing does not affect the others.
            SessionPhase::Fresh(..) | SessionPhase::Probing(_) if carrier.is_datagram => {}
            SessionPhase::Fresh(before, _)
                if let Some(protocol) = carrier.forced.filter(|_| before.is_empty()) =>
            {
                *self = certain(carrier.plan, *before, protocol);
                self.gap(carrier, (from, length_bytes), out, counters);
            }
            SessionPhase::Fresh(before, _) if !can_watch(carrier) => *self = SessionPhase::Over(*before),
            SessionPhase::Probing(probing) if !can_watch(carrier) => {
                *self = SessionPhase::Over(probing.before)
            }
            SessionPhase::Fresh(before, passed) => {
                let mut watching = Watching::begin(*before, *passed, carrier.plan.limits.late_bytes_max);
                watching.gap(from, length_bytes);
                *self = SessionPhase::Watching(watching);
            }
            SessionPhase::Probing(probing) => {
                let (mut watching, _) = probing.watch(carrier);
                watching.gap(from, length_bytes);
                *self = SessionPhase::Watching(watching);
            }
            SessionPhase::Watching(watching) => {
                if !watching.gap(from, length_bytes) {
                    *self = SessionPhase::Over(watching.before);
                }
            }
        }
    }

    /// No protocol recognised the beginning of the flow. A stream may have further chances: `watch` returns
    /// its first bytes, and what the last piece of them says.
    fn refuse(
        &mut self,
        carrier: &Carrier<'_>,
        refused: &Probed,
        before: Recognised,
        watch: impl FnOnce() -> (Box<Watching>, Watched),
        out: &mut Yielded,
        counters: &mut SessionCounters,
    ) {
        counters.probes_cut += u64::from(matches!(refused, Probed::Unsure(_)));
        if !can_watch(carrier) {
            *self = SessionPhase::Over(before);
            return;
        }
        let (watching, watched) = watch();
        *self = SessionPhase::Watching(watching);
        self.watched(carrier, watched, out, counters);
    }

    /// Acts on what a watched stream said.
    fn watched(
        &mut self,
        carrier: &Carrier<'_>,
        watched: Watched,
        out: &mut Yielded,
        counters: &mut SessionCounters,
    ) {
        let SessionPhase::Watching(watching) = self else { return };
        match watched {
            Watched::Nothing => {}
            Watched::Over => *self = SessionPhase::Over(watching.before),
            Watched::Begins(turn) => {
                *self = SessionPhase::Fresh(watching.before, watching.passed + 1);
                self.take_turn(carrier, &turn, out, counters);
            }
            Watched::Probe => {
                let Turn { from, bytes, .. } = &watching.turn;
                let data = Data { from: *from, time: Timestamp(0), bytes, is_datagram: false };
                let late = *carrier.probed & carrier.plan.sessions.late();
                match probe_turn(carrier, &late, &data, watching.earlier.as_ref()) {
                    Probed::Certain(protocol) => {
                        let before = watching.before;
                        let begun = certain(carrier.plan, before, protocol);
                        let SessionPhase::Watching(watching) = std::mem::replace(self, begun) else { return };
                        let (earlier, turn) = watching.into_turns();
                        if let Some(earlier) = earlier {
                            self.take_turn(carrier, &earlier, out, counters);
                            // The parser gave up: the turn before is not of its protocol.
                            if !matches!(self, SessionPhase::Parsing(..) | SessionPhase::Tunnel(_)) {
                                *self = certain(carrier.plan, before, protocol);
                                self.gap(carrier, (earlier.from, earlier.length_bytes()), out, counters);
                            }
                        }
                        self.take_turn(carrier, &turn, out, counters);
                    }
                    Probed::Unsure(_) if watching.turn.bytes.len() > carrier.plan.limits.probe_bytes_max => {
                        watching.refuse_turn();
                    }
                    Probed::Unsure(_) => {}
                    Probed::Nothing => watching.refuse_turn(),
                }
            }
        }
    }

    /// Processes the parts of a turn.
    fn take_turn(
        &mut self,
        carrier: &Carrier<'_>,
        turn: &Turn,
        out: &mut Yielded,
        counters: &mut SessionCounters,
    ) {
        let (from, mut at) = (turn.from, 0);
        for part in &turn.parts {
            match *part {
                Part::Gap(bytes) => self.gap(carrier, (from, bytes), out, counters),
                Part::Bytes(time, length) => {
                    let bytes = &turn.bytes[at..at + length];
                    at += length;
                    self.take(carrier, &Data { from, time, bytes, is_datagram: false }, out, counters);
                }
            }
        }
    }

    /// Passes the kept bytes to the parser, in the pieces in which they arrived.
    fn replay(
        &mut self,
        carrier: &Carrier<'_>,
        (bytes, pieces): Pieces,
        out: &mut Yielded,
        counters: &mut SessionCounters,
    ) {
        let mut at = [0; 2];
        for (from, time, length) in pieces {
            let at = &mut at[from as usize];
            let bytes = &bytes[from as usize][*at..*at + length as usize];
            *at += length as usize;
            let is_datagram = carrier.is_datagram;
            self.take(carrier, &Data { from, time, bytes, is_datagram }, out, counters);
        }
    }

    /// Tries the first of the parsers that share a flow, then the rest.
    fn take_beside(
        &mut self,
        carrier: &Carrier<'_>,
        data: &Data<'_>,
        out: &mut Yielded,
        counters: &mut SessionCounters,
    ) {
        let SessionPhase::Beside(protocol, parser, rest) = self else { return };
        let progress = numbered(usize::from(*protocol), out, |sessions| parser.parse(data, sessions));
        match progress {
            Progress::Wanted => {}
            Progress::NotMine => {
                let others = carrier.others_than(usize::from(*protocol));
                rest.take(&Carrier { probed: &others, ..*carrier }, data, out, counters);
            }
            Progress::Inner => self.refuse_inner(out, counters),
            Progress::Done | Progress::HandOver { .. } => self.leave(counters),
        }
    }

    /// Ends the first of the parsers that share a flow, because it yields an inner stream, which is not
    /// supported in shared flows. The sessions of the parser are kept.
    fn refuse_inner(&mut self, out: &mut Yielded, counters: &mut SessionCounters) {
        if let SessionPhase::Beside(protocol, parser, _) = self {
            numbered(usize::from(*protocol), out, |sessions| parser.finish(sessions));
        }
        counters.inner_streams_cut += 1;
        self.leave(counters);
    }

    /// Begins the parser's inner stream, which is probed for the protocols that the parser's protocol hands
    /// over to.
    fn enter(&mut self, carrier: &Carrier<'_>, out: &mut Yielded, counters: &mut SessionCounters) {
        let SessionPhase::Parsing(recognised, parser, _) = std::mem::take(self) else { return };
        let inner = if recognised.is_full() {
            counters.inner_streams_cut += 1;
            SessionPhase::Over(recognised)
        } else {
            SessionPhase::Fresh(recognised, 0)
        };
        let protocol = recognised.last().unwrap_or(0);
        let probed = carrier.plan.probed & carrier.plan.sessions.handed_over_by(protocol);
        let mut tunnel = Box::new(Tunnel { protocol, parser, probed, inner });
        tunnel.take_inner(carrier, out, counters);
        *self = SessionPhase::Tunnel(tunnel);
        self.go_on_around(carrier, Progress::Inner, out, counters);
    }

    /// As [`go_on`](Self::go_on), for a parser that yields a stream: the sessions are over once neither the
    /// outer nor the inner ones are wanted.
    fn go_on_around(
        &mut self,
        carrier: &Carrier<'_>,
        progress: Progress,
        out: &mut Yielded,
        counters: &mut SessionCounters,
    ) {
        let SessionPhase::Tunnel(tunnel) = self else { return };
        let is_unwanted = tunnel.inner.is_over() && !carrier.plan.wanted.contains(tunnel.protocol);
        if !matches!(progress, Progress::Done | Progress::HandOver { .. }) && !is_unwanted {
            return;
        }
        tunnel.inner.finish(out, counters);
        count(&*tunnel.parser, counters);
        let recognised = tunnel.inner.recognised();
        let goes_on = matches!(progress, Progress::HandOver { .. }) && !recognised.is_full();
        *self = if goes_on { SessionPhase::Fresh(recognised, 0) } else { SessionPhase::Over(recognised) };
    }

    /// A datagram is not of the parsed protocol: from now on another protocol may share the flow.
    fn share(
        &mut self,
        carrier: &Carrier<'_>,
        data: &Data<'_>,
        out: &mut Yielded,
        counters: &mut SessionCounters,
    ) {
        let SessionPhase::Parsing(recognised, parser, passed) = std::mem::take(self) else { return };
        let protocol = recognised.last().unwrap_or(0);
        // The rest of a stream cannot be left to other protocols, so the sessions are over.
        let is_over = !carrier.is_datagram || recognised.is_full();
        let mut rest =
            if is_over { SessionPhase::Over(recognised) } else { SessionPhase::Fresh(recognised, passed) };
        let others = carrier.others_than(protocol);
        rest.take(&Carrier { probed: &others, ..*carrier }, data, out, counters);
        *self = match rest {
            // No protocol recognised the datagram.
            SessionPhase::Fresh(_, passed) => SessionPhase::Parsing(recognised, parser, passed),
            rest => SessionPhase::Beside(protocol as u8, parser, Box::new(rest)),
        };
    }

    /// Removes the first of the parsers that share a flow.
    fn leave(&mut self, counters: &mut SessionCounters) {
        if let SessionPhase::Beside(_, parser, rest) = self {
            count(&**parser, counters);
            *self = std::mem::take(&mut **rest);
        }
    }

    fn go_on(&mut self, progress: Progress, recognised: Recognised, counters: &mut SessionCounters) {
        if matches!(progress, Progress::Wanted | Progress::NotMine) {
            return;
        }
        if let SessionPhase::Parsing(_, parser, _) = self {
            count(&**parser, counters);
        }
        let goes_on = matches!(progress, Progress::HandOver { .. }) && !recognised.is_full();
        *self = if goes_on { SessionPhase::Fresh(recognised, 0) } else { SessionPhase::Over(recognised) };
    }

    /// Finishes the sessions of a flow that is over, and releases their memory.
    pub fn finish(&mut self, out: &mut Yielded, counters: &mut SessionCounters) {
        if let SessionPhase::Parsing(recognised, parser, _) = self {
            let (recognised, protocol) = (*recognised, recognised.last().unwrap_or(0));
            numbered(protocol, out, |sessions| parser.finish(sessions));
            self.go_on(Progress::Done, recognised, counters);
        } else if let SessionPhase::Beside(protocol, parser, rest) = self {
            numbered(usize::from(*protocol), out, |sessions| parser.finish(sessions));
            rest.finish(out, counters);
            self.leave(counters);
        } else if let SessionPhase::Probing(probing) = self {
            (probing.bytes, probing.pieces) = ([vec![], vec![]], vec![]);
        } else if let SessionPhase::Watching(watching) = self {
            *self = SessionPhase::Over(watching.before);
        } else if let SessionPhase::Tunnel(tunnel) = self {
            let Tunnel { protocol, parser, .. } = &mut **tunnel;
            numbered(*protocol, out, |sessions| parser.finish(sessions));
            tunnel.inner.finish(out, counters);
            count(&*tunnel.parser, counters);
            *self = SessionPhase::Over(tunnel.inner.recognised());
        }
    }

    /// Whether memory is held: by parsers, or for bytes whose protocol is not certain.
    pub fn holds(&self) -> bool {
        match self {
            SessionPhase::Fresh(..) | SessionPhase::Over(_) => false,
            SessionPhase::Probing(probing) => !probing.pieces.is_empty(),
            SessionPhase::Watching(_) => true,
            SessionPhase::Parsing(..) | SessionPhase::Beside(..) | SessionPhase::Tunnel(_) => true,
        }
    }

    /// The number of parsers.
    pub fn parsers(&self) -> usize {
        match self {
            SessionPhase::Fresh(..) | SessionPhase::Over(_) => 0,
            SessionPhase::Probing(_) | SessionPhase::Watching(_) => 0,
            SessionPhase::Parsing(..) => 1,
            SessionPhase::Beside(_, _, rest) => 1 + rest.parsers(),
            SessionPhase::Tunnel(tunnel) => 1 + tunnel.inner.parsers(),
        }
    }

    /// Whether no more bytes are wanted.
    pub fn is_over(&self) -> bool {
        matches!(self, SessionPhase::Over(_))
    }

    /// Adds protocols to the candidates, also for bytes that are kept while the protocol is not certain.
    pub fn consider(&mut self, protocols: ProtocolSet) {
        match self {
            SessionPhase::Probing(probing) => probing.candidates |= protocols,
            SessionPhase::Beside(_, _, rest) => rest.consider(protocols),
            SessionPhase::Tunnel(tunnel) => tunnel.inner.consider(protocols),
            _ => {}
        }
    }

    /// The protocols that were recognised.
    pub fn recognised(&self) -> Recognised {
        match self {
            SessionPhase::Fresh(before, _) => *before,
            SessionPhase::Probing(probing) => probing.before,
            SessionPhase::Watching(watching) => watching.before,
            SessionPhase::Beside(_, _, rest) => rest.recognised(),
            SessionPhase::Tunnel(tunnel) => tunnel.inner.recognised(),
            SessionPhase::Parsing(recognised, ..) | SessionPhase::Over(recognised) => *recognised,
        }
    }
}

impl Tunnel {
    /// Passes the inner stream's bytes from the parser to the inner sessions.
    fn take_inner(&mut self, carrier: &Carrier<'_>, out: &mut Yielded, counters: &mut SessionCounters) {
        let mut pieces = vec![];
        self.parser.take_inner(&mut pieces);
        let carrier = Carrier { is_datagram: false, probed: &self.probed, forced: None, ..*carrier };
        for InnerPiece { from, time, gap_bytes, bytes } in pieces {
            self.inner.gap(&carrier, (from, gap_bytes), out, counters);
            let data = Data { from, time, bytes: &bytes, is_datagram: false };
            self.inner.take(&carrier, &data, out, counters);
        }
    }
}

/// Datagrams that may remain unrecognised before a flow is given up. Besides a recognised protocol, some
/// datagrams may be encrypted. Before one is recognised, some may be keep-alives, junk, or the rest of an
/// earlier connection; most datagram flows carry no known protocol, and each probe costs time.
fn passed_max(before: Recognised) -> u8 {
    if before.is_empty() { 8 } else { 64 }
}

/// Maximum length of a keep-alive, bytes. Such a datagram is no message of a protocol: its sender only wants
/// address translators to remember the flow (RFC 5626, section 4.4.1; RFC 3948, section 4; `jaK` of SIP
/// clients).
const KEEP_ALIVE_BYTES_MAX: usize = 4;

/// The number by which an unrecognised datagram brings its flow closer to [`passed_max`]: 0 for a keep-alive,
/// because any number of them may come before the first message, and 1 for others.
fn counted(data: &Data<'_>) -> u8 {
    u8::from(data.bytes.len() > KEEP_ALIVE_BYTES_MAX)
}

/// Datagrams of a direction are kept up to so many times the bytes of a stream while no protocol is certain.
const DATAGRAMS_KEPT: usize = 4;

/// Bytes of a direction that are kept while no protocol is certain.
fn kept_max(carrier: &Carrier<'_>) -> usize {
    let pieces = if carrier.is_datagram { DATAGRAMS_KEPT } else { 1 };
    pieces * carrier.plan.limits.probe_bytes_max
}

/// The header of a proxy with which a direction of a stream begins, in front of every protocol.
fn front(carrier: &Carrier<'_>, passed: u8, bytes: &[u8]) -> Front {
    if carrier.is_datagram || passed >= BEGINNINGS_MAX { Front::None } else { proxy_header::find(bytes) }
}

/// Calls a parser, and numbers the sessions that it completes with the protocol.
fn numbered<T>(protocol: usize, out: &mut Yielded, parse: impl FnOnce(&mut Vec<Box<dyn Session>>) -> T) -> T {
    let mut sessions = vec![];
    let progress = parse(&mut sessions);
    out.extend(sessions.into_iter().map(|session| (protocol, session)));
    progress
}

/// Counts losses at the bounds of a parser that is done.
fn count(parser: &dyn SessionParser, counters: &mut SessionCounters) {
    let cut_off = parser.cut_off();
    counters.parts_cut += cut_off.parts;
    counters.sessions_cut += cut_off.sessions;
}

fn opening<'a>(carrier: &Carrier<'_>, data: &Data<'a>) -> Opening<'a> {
    // Probes see no more of a stream than would be kept if it arrived in smaller pieces, so the result does
    // not depend on the pieces.
    let bytes_max = if carrier.is_datagram { usize::MAX } else { carrier.plan.limits.probe_bytes_max };
    let bytes = &data.bytes[..data.bytes.len().min(bytes_max)];
    let [originator, responder] = match data.from {
        Direction::Originator => [bytes, &[][..]],
        Direction::Responder => [&[][..], bytes],
    };
    Opening {
        originator,
        responder,
        earlier: [[&[]; 2]; 2],
        ports: carrier.ports,
        is_datagram: carrier.is_datagram,
    }
}

fn probe(carrier: &Carrier<'_>, candidates: &ProtocolSet, opening: Opening<'_>) -> Probed {
    let mut unsure = ProtocolSet::EMPTY;
    for protocol in carrier.plan.probes.candidates(&opening, candidates).iter() {
        match (carrier.plan.sessions.protocol(protocol).probe)(&opening) {
            Probe::Certain => return Probed::Certain(protocol),
            Probe::Unsure => unsure.insert(protocol),
            Probe::NotForUs => {}
        }
    }
    if unsure.is_empty() { Probed::Nothing } else { Probed::Unsure(unsure) }
}

/// Probes the bytes of a turn; where they leave the protocol open, together with the turn before.
fn probe_turn(carrier: &Carrier<'_>, late: &ProtocolSet, data: &Data<'_>, earlier: Option<&Turn>) -> Probed {
    let alone = opening(carrier, data);
    let probed = probe(carrier, late, alone);
    let earlier = earlier.filter(|earlier| earlier.from != data.from);
    let (Probed::Unsure(candidates), Some(earlier)) = (&probed, earlier) else { return probed };
    let both = match data.from {
        Direction::Originator => Opening { responder: &earlier.bytes, ..alone },
        Direction::Responder => Opening { originator: &earlier.bytes, ..alone },
    };
    match probe(carrier, candidates, both) {
        Probed::Certain(protocol) => Probed::Certain(protocol),
        _ => probed,
    }
}

/// Whether a stream that no protocol recognised may have further chances.
fn can_watch(carrier: &Carrier<'_>) -> bool {
    let may = !carrier.is_datagram && carrier.plan.limits.late_bytes_max > 0;
    may && !(*carrier.probed & carrier.plan.sessions.late()).is_empty()
}

fn certain(plan: &Plan, before: Recognised, protocol: usize) -> SessionPhase {
    let recognised = before.with(protocol);
    if plan.parsed.contains(protocol) {
        let parser = plan.sessions.open(protocol, !plan.wanted.contains(protocol));
        SessionPhase::Parsing(recognised, parser, 0)
    } else {
        SessionPhase::Over(recognised)
    }
}

impl Probing {
    fn begin(before: Recognised, passed: u8, candidates: ProtocolSet, data: &Data<'_>) -> Box<Self> {
        let mut probing = Self { before, passed, candidates, ..Self::default() };
        probing.keep(data);
        Box::new(probing)
    }

    fn keep(&mut self, data: &Data<'_>) {
        self.bytes[data.from as usize].extend_from_slice(data.bytes);
        self.pieces.push((data.from, data.time, data.bytes.len() as u32));
    }

    /// The kept pieces of a stream as those of one that no protocol recognised, and what the last piece says.
    fn watch(&self, carrier: &Carrier<'_>) -> (Box<Watching>, Watched) {
        let mut watching = Watching::begin(self.before, self.passed, carrier.plan.limits.late_bytes_max);
        let mut watched = Watched::Nothing;
        let mut rest = self.bytes.each_ref().map(Vec::as_slice);
        for &(from, time, length) in &self.pieces {
            let (bytes, behind) = rest[from as usize].split_at(length as usize);
            rest[from as usize] = behind;
            watched = watching.take(&Data { from, time, bytes, is_datagram: false });
        }
        (watching, watched)
    }

    /// Takes what is kept, without the first bytes of a direction.
    fn behind(&mut self, from: Direction, length: usize) -> Pieces {
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes[from as usize].drain(..length);
        let mut left = length as u32;
        for (_, _, of_piece) in pieces.iter_mut().filter(|piece| piece.0 == from) {
            let skipped = left.min(*of_piece);
            *of_piece -= skipped;
            left -= skipped;
        }
        (bytes, pieces)
    }

    /// Whether more bytes of a direction are kept than probes may inspect: several datagrams, because the
    /// other side may have to be heard a few times.
    fn is_full(&self, carrier: &Carrier<'_>, from: Direction) -> bool {
        self.bytes[from as usize].len() > kept_max(carrier)
    }

    /// The last three datagrams of a side, the last one first. A datagram that is repeated immediately, as in
    /// captures of several ports of a switch, is used once.
    fn last_datagrams(&self, from: Direction) -> [&[u8]; 3] {
        let mut rest = &self.bytes[from as usize][..];
        let lengths = self.pieces.iter().rev().filter(|piece| piece.0 == from).map(|piece| piece.2);
        let mut datagrams = lengths.map(|length| {
            let (before, last) = rest.split_at(rest.len() - length as usize);
            rest = before;
            last
        });
        let mut behind: &[u8] = &[];
        std::array::from_fn(|_| {
            behind = datagrams.find(|datagram| *datagram != behind).unwrap_or_default();
            behind
        })
    }

    /// Runs the probes of the candidates, on the first bytes of a stream, or on the last datagrams of each
    /// side.
    fn probe(&self, carrier: &Carrier<'_>) -> Probed {
        let bytes_max = carrier.plan.limits.probe_bytes_max;
        let seen = |from: Direction| {
            if carrier.is_datagram {
                return self.last_datagrams(from);
            }
            // A segment may exceed the bound on kept bytes; the deciding bytes may still be within the bound,
            // and all of the segment is then parsed.
            let bytes = &self.bytes[from as usize];
            [&bytes[..bytes.len().min(bytes_max)], &[], &[]]
        };
        let [originator, responder] = [Direction::Originator, Direction::Responder].map(seen);
        let opening = Opening {
            originator: originator[0],
            responder: responder[0],
            earlier: [[originator[1], originator[2]], [responder[1], responder[2]]],
            ports: carrier.ports,
            is_datagram: carrier.is_datagram,
        };
        probe(carrier, &self.candidates, opening)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_see_the_last_three_datagrams_of_each_side() {
        let (from, other) = (Direction::Originator, Direction::Responder);
        let data = |from, bytes| Data { from, time: Timestamp(0), bytes, is_datagram: true };
        let mut probing = Probing::begin(Recognised::default(), 0, ProtocolSet::of(0), &data(from, b"a"));
        assert_eq!(probing.last_datagrams(from), [&b"a"[..], b"", b""]);
        for bytes in [&b"bb"[..], b"ccc", b"dd"] {
            probing.keep(&data(from, bytes));
            probing.keep(&data(other, b"x"));
        }
        assert_eq!(probing.last_datagrams(from), [&b"dd"[..], b"ccc", b"bb"]);
        assert_eq!(probing.last_datagrams(other), [&b"x"[..], b"", b""], "the same again tells nothing");
        probing.keep(&data(other, b"y"));
        assert_eq!(probing.last_datagrams(other), [&b"y"[..], b"x", b""]);
    }
}
