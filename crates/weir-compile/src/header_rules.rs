//! Rules about headers, for devices: which packets certainly no question needs.
//!
//! The rules are about packets that have one IP header, with TCP or UDP directly behind it. Such a packet has
//! no other header of these protocols, so a predicate on `ip`, `ipv6`, `tcp` or `udp` tests one of the two.
//! All other packets pass: tunnels, fragments, extension headers, tags. Of each alternative of a filter, the
//! predicates that a rule can express become patterns, and the others are left out: the rules pass too many
//! packets rather than too few. A question about connections needs the packets of both directions, so each
//! pattern is also used with its ends exchanged.
//!
//! An index of packets has the same predicates one by one ([`header_terms`]). The index knows both headers
//! of a packet in a tunnel, and each predicate of an alternative may hold in either header.
//!
//! A datagram may contain a tunnel, or a layer whose instances are not those of addresses and ports. The
//! stack's edges say on which ports; packets with these ports pass.

use crate::catalog::{FieldKey, StackCatalog};
use crate::question::{Need, Question};
use std::collections::BTreeSet;
use weir_lang::filter::{Literal, Op, Predicate};
use weir_lang::model::{BinaryOp, Expr, FieldId, LayerId, Protocol, Stack};
use weir_lang::reach::Reach;
use weir_packet::{
    HeaderClass, HeaderCondition, HeaderPart, HeaderPattern, HeaderRules, HeaderTerm, HeaderTerms, IpVersion,
    Masked, Transport,
};

/// Patterns at most: devices have room for hundreds to thousands.
pub const PATTERNS_MAX: usize = 256;
/// Patterns of one alternative at most; predicates that would make more are left out.
const PATTERNS_OF_TERM_MAX: usize = 64;

/// Parts of all conditions of terms at most: an index compares each of its keys with each of them.
const PARTS_MAX: usize = 1024;

/// The packets that these questions need, by their headers. `None`: they may need every packet, or the
/// filters have too many alternatives.
pub fn header_terms(questions: &[Question], stack: &Stack, catalog: &StackCatalog) -> Option<HeaderTerms> {
    let terms = all_terms(questions, stack, catalog);
    let parts: usize = terms.iter().flatten().map(Vec::len).sum();
    let is_any = terms.iter().any(Vec::is_empty);
    let all_nested = questions.iter().any(|question| !is_about_packets_alone(question, catalog));
    (!is_any && parts <= PARTS_MAX).then_some(HeaderTerms { terms, all_nested })
}

/// The terms of these questions, in both directions.
fn all_terms(questions: &[Question], stack: &Stack, catalog: &StackCatalog) -> Vec<HeaderTerm> {
    let layers = Layers::of(stack);
    let mut terms = vec![];
    for transport in [Transport::Tcp, Transport::Udp] {
        let any = HeaderPart { transport: Some(transport), ..HeaderPart::default() };
        match layers.carrier_ports(stack, transport) {
            Some(ports) => {
                terms.extend(ports.iter().map(|&source_port| vec![vec![HeaderPart { source_port, ..any }]]))
            }
            None => terms.push(vec![vec![any]]),
        }
    }
    for question in questions {
        for term in &question.filter.terms {
            let predicates = term.predicates.iter().map(|&index| &question.filter.predicates[index]);
            terms.push(predicates.filter_map(|predicate| layers.choices(predicate, catalog)).collect());
        }
    }
    let exchange = |condition: &HeaderCondition| condition.iter().map(|part| part.exchanged()).collect();
    let exchanged = |term: &HeaderTerm| term.iter().map(exchange).collect();
    let others: Vec<_> = terms.iter().map(exchanged).collect();
    [terms, others].concat()
}

/// Whether each packet alone decides whether a question needs the packet.
fn is_about_packets_alone(question: &Question, catalog: &StackCatalog) -> bool {
    // Questions about packets have the results of sessions, too, which matter only if the filter uses them.
    let Need {
        connections,
        variables,
        service,
        tunnels,
        streams,
        odd,
        sessions,
        events,
        packets: _,
        lines: _,
        detail: _,
        path: _,
        cutoff: _,
        verdicts: _,
        strict: _,
        dispatch: _,
        headers: _,
        values: _,
        at_once: _,
    } = question.need;
    let is_of_packet = |predicate: &Predicate| {
        matches!(
            catalog.key(predicate.field),
            FieldKey::Layer(_)
                | FieldKey::Field(..)
                | FieldKey::Alias(..)
                | FieldKey::Presence(..)
                | FieldKey::Payload(_)
                | FieldKey::Frame
                | FieldKey::Meta(_)
        )
    };
    let needs_flows = connections | variables | service | tunnels | streams | odd;
    !needs_flows
        && sessions.is_empty()
        && events.is_empty()
        && question.filter.predicates.iter().all(is_of_packet)
}

/// The rules for these questions.
///
/// # Errors
/// Why there are none, as part of a sentence.
pub fn header_rules(
    questions: &[Question],
    stack: &Stack,
    catalog: &StackCatalog,
) -> Result<HeaderRules, &'static str> {
    let layers = Layers::of(stack);
    let mut passed = BTreeSet::new();
    let mut classes: Vec<HeaderClass> =
        HeaderClass::ALL.into_iter().filter(|class| layers.has(*class)).collect();
    for term in &all_terms(questions, stack, catalog) {
        passed.extend(in_one_header(term).into_iter().flat_map(|part| patterns(part, &classes)));
        if passed.len() > PATTERNS_MAX {
            return Err("they have too many alternatives");
        }
    }
    classes.retain(|class| !passed.contains(&HeaderPattern::of(*class)));
    if classes.is_empty() {
        return Err("they may need every packet of TCP and UDP");
    }
    let passed = passed.into_iter().filter(|pattern| classes.contains(&pattern.class)).collect();
    Ok(HeaderRules { passed, discarded: classes })
}

/// The headers in which all conditions of a term hold.
fn in_one_header(term: &[HeaderCondition]) -> Vec<HeaderPart> {
    let mut all = vec![HeaderPart::default()];
    for condition in term {
        let both = all.iter().flat_map(|one| condition.iter().filter_map(|other| one.and(*other)));
        let both: Vec<HeaderPart> = both.take(PATTERNS_OF_TERM_MAX + 1).collect();
        if both.len() <= PATTERNS_OF_TERM_MAX {
            all = both;
        }
    }
    all
}

/// The pattern of a header in each of these classes.
fn patterns(part: HeaderPart, classes: &[HeaderClass]) -> Vec<HeaderPattern> {
    let HeaderPart { version, transport, source, destination, source_port, destination_port } = part;
    let is_of = |class: &&HeaderClass| {
        version.is_none_or(|version| version == class.version)
            && transport.is_none_or(|transport| transport == class.transport)
    };
    let of =
        |&class: &HeaderClass| HeaderPattern { class, source, destination, source_port, destination_port };
    classes.iter().filter(is_of).map(of).collect()
}

/// The sides of a packet.
#[derive(Debug, Clone, Copy)]
enum Side {
    Source,
    Destination,
}

/// The layers that rules know, by their names.
struct Layers<'a> {
    stack: &'a Stack,
    ip: [Option<LayerId>; 2],
    transports: [Option<LayerId>; 2],
}

impl<'a> Layers<'a> {
    fn of(stack: &'a Stack) -> Self {
        let find = |name: &str| {
            let at = stack.layers.iter().position(|layer| layer.protocol.name == name)?;
            Some(LayerId(u16::try_from(at).ok()?))
        };
        Self { stack, ip: [find("ip"), find("ipv6")], transports: [find("tcp"), find("udp")] }
    }

    fn protocol(&self, layer: LayerId) -> &Protocol {
        &self.stack.layers[usize::from(layer.0)].protocol
    }

    fn version_of(&self, layer: LayerId) -> Option<IpVersion> {
        let at = self.ip.iter().position(|ip| *ip == Some(layer))?;
        Some([IpVersion::V4, IpVersion::V6][at])
    }

    fn transport_of(&self, layer: LayerId) -> Option<Transport> {
        let at = self.transports.iter().position(|transport| *transport == Some(layer))?;
        Some([Transport::Tcp, Transport::Udp][at])
    }

    fn layer_of(&self, transport: Transport) -> Option<LayerId> {
        self.transports[usize::from(transport == Transport::Udp)]
    }

    /// Whether the stack has the layers of a class.
    fn has(&self, class: HeaderClass) -> bool {
        self.ip[usize::from(class.version == IpVersion::V6)].is_some()
            && self.layer_of(class.transport).is_some()
    }

    /// The side of an address or a port.
    fn side_of(&self, layer: LayerId, field: FieldId) -> Option<Side> {
        match self.protocol(layer).fields[usize::from(field.0)].path.as_str() {
            "src" | "src_port" => Some(Side::Source),
            "dst" | "dst_port" => Some(Side::Destination),
            _ => None,
        }
    }

    /// The ports, of either side, with which this transport protocol may carry tunnels, or layers with
    /// instances of their own. `None`: the ports do not tell.
    fn carrier_ports(&self, stack: &Stack, transport: Transport) -> Option<Vec<Masked>> {
        let from = self.layer_of(transport)?;
        let is_of_rules =
            |layer: LayerId| self.ip.contains(&Some(layer)) || self.transports.contains(&Some(layer));
        let is_carried = |layer: LayerId| is_of_rules(layer) || self.protocol(layer).instance.is_some();
        let (reach, mut ports) = (Reach::of(stack), vec![]);
        for edge in stack.edges.iter().filter(|edge| edge.from == from) {
            if reach.above(edge.to).chain([edge.to]).any(is_carried) {
                ports.extend(self.ports_of(from, &edge.condition)?);
            }
        }
        Some(ports)
    }

    /// Ports of which the packet has at least one, on either side, if the condition holds. `None`: there are
    /// no such ports.
    fn ports_of(&self, layer: LayerId, condition: &Expr) -> Option<Vec<Masked>> {
        let is_port =
            |expr: &Expr| matches!(expr, Expr::Field(field) if self.side_of(layer, *field).is_some());
        match condition {
            Expr::Binary(BinaryOp::LogicalOr, one, other) => {
                Some([self.ports_of(layer, one)?, self.ports_of(layer, other)?].concat())
            }
            Expr::Binary(BinaryOp::LogicalAnd, one, other) => {
                self.ports_of(layer, one).or_else(|| self.ports_of(layer, other))
            }
            Expr::Binary(BinaryOp::Eq, one, other) => match (&**one, &**other) {
                (port, Expr::Number(number)) | (Expr::Number(number), port) if is_port(port) => {
                    ranges_of(&[(*number, *number)])
                }
                _ => None,
            },
            Expr::In(port, ranges) if is_port(port) => ranges_of(ranges),
            _ => None,
        }
    }

    /// The headers of which the packet has one if the predicate holds. `None`: headers do not tell.
    fn choices(&self, predicate: &Predicate, catalog: &StackCatalog) -> Option<HeaderCondition> {
        if predicate.negated {
            return None;
        }
        let key = catalog.key(predicate.field);
        let layer = key.layer()?;
        let (version, transport) = (self.version_of(layer), self.transport_of(layer));
        if version.is_none() && transport.is_none() {
            return None;
        }
        // The layer is there, whatever else is compared.
        let there = HeaderPart { version, transport, ..HeaderPart::default() };
        let fields = match key {
            FieldKey::Field(_, field) => vec![field],
            FieldKey::Alias(_, alias) => self.protocol(layer).aliases[usize::from(alias)].fields.clone(),
            _ => vec![],
        };
        let sides: Option<Vec<Side>> = fields.iter().map(|field| self.side_of(layer, *field)).collect();
        let sides = sides.filter(|sides| !sides.is_empty() && predicate.slice.is_none());
        let (Some(sides), None) = (sides, predicate.mask) else { return Some(vec![there]) };
        let Some(values) = values_of(predicate, version) else { return Some(vec![there]) };
        let of = |side: &Side| {
            let side = *side;
            values.iter().map(move |&value| match (side, version.is_some()) {
                (Side::Source, true) => HeaderPart { source: value, ..there },
                (Side::Destination, true) => HeaderPart { destination: value, ..there },
                (Side::Source, false) => HeaderPart { source_port: value, ..there },
                (Side::Destination, false) => HeaderPart { destination_port: value, ..there },
            })
        };
        Some(sides.iter().flat_map(of).collect())
    }
}

/// The values that a comparison accepts: addresses of this version, or ports. `None`: they are no prefixes.
fn values_of(predicate: &Predicate, version: Option<IpVersion>) -> Option<Vec<Masked>> {
    let one = || match predicate.literals.as_slice() {
        [Literal::Numbers(from, to)] => Some((*from, *to)),
        _ => None,
    };
    match (predicate.op, version) {
        (Op::Eq | Op::In, Some(_)) => predicate.literals.iter().map(address).collect(),
        (Op::Eq | Op::In, None) => {
            let range = |literal: &Literal| match literal {
                Literal::Numbers(from, to) => Some((*from, *to)),
                _ => None,
            };
            ranges_of(&predicate.literals.iter().map(range).collect::<Option<Vec<_>>>()?)
        }
        (Op::Lt, None) => ranges_of(&[(0, one()?.0.checked_sub(1)?)]),
        (Op::Le, None) => ranges_of(&[(0, one()?.1)]),
        (Op::Gt, None) => ranges_of(&[(one()?.1.checked_add(1)?, 0xffff)]),
        (Op::Ge, None) => ranges_of(&[(one()?.0, 0xffff)]),
        _ => None,
    }
}

fn address(literal: &Literal) -> Option<Masked> {
    let (number, bits, prefix) = match literal {
        Literal::Ipv4(address, prefix) => (u128::from(u32::from(*address)), 32, u32::from(*prefix)),
        Literal::Ipv6(address, prefix) => (u128::from(*address), 128, u32::from(*prefix)),
        _ => return None,
    };
    let all = u128::MAX >> (128 - bits);
    let mask = all & !all.checked_shr(prefix).unwrap_or(0);
    Some(Masked { value: number & mask, mask })
}

/// Ports as masked numbers: each range is divided into blocks whose sizes are powers of two. `None`: that are
/// too many.
fn ranges_of(ranges: &[(u64, u64)]) -> Option<Vec<Masked>> {
    let mut all = vec![];
    for &(from, to) in ranges {
        let (mut from, end) = (from, to.min(0xffff) + 1);
        while from < end {
            // The largest aligned block that fits.
            let aligned = if from == 0 { 1 << 16 } else { from & from.wrapping_neg() };
            let fits = 1 << (end - from).ilog2();
            let size = aligned.min(fits);
            all.push(Masked { value: u128::from(from), mask: u128::from(0x1_0000 - size) });
            from += size;
        }
        if all.len() > PATTERNS_OF_TERM_MAX {
            return None;
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_aligned_blocks() {
        for (from, to) in [(80, 80), (0, 65_535), (1, 65_534), (8_000, 8_100), (100, 99), (65_535, 70_000)] {
            let blocks = ranges_of(&[(from, to)]).unwrap();
            for port in 0..=0xffff_u64 {
                let holds = blocks.iter().filter(|block| block.holds(u128::from(port))).count();
                assert_eq!(holds, usize::from((from..=to).contains(&port)), "{port} in {from}..{to}");
            }
        }
    }

    #[test]
    fn prefixes_become_masks() {
        let masked = |text: &str, prefix| address(&Literal::Ipv4(text.parse().unwrap(), prefix)).unwrap();
        assert_eq!(masked("10.1.2.3", 8), Masked { value: 0x0a00_0000, mask: 0xff00_0000 });
        assert_eq!(masked("10.1.2.3", 0), Masked::default());
        assert_eq!(masked("10.1.2.3", 32).mask, 0xffff_ffff);
        let all = address(&Literal::Ipv6("::1".parse().unwrap(), 128)).unwrap();
        assert_eq!(all, Masked { value: 1, mask: u128::MAX });
    }
}
