//! The trie of all questions' terms: common predicates are stored and evaluated once.
//!
//! A path from the root is a conjunction: first predicates on the packet, outer layers first, then those on
//! the connection's record, then those on a session (Retina §4.1). Lowering walks the packet part; a node at
//! which the packet part of a path ends has the bit of the remainder.
//!
//! For questions about packets, connections or sessions, columns of events belong to the packet: a predicate
//! holds if it holds for any of the packet's events. For questions about events, each row is tested by
//! itself; of the packet, the trie only tests what every matching row implies.

use crate::catalog::{FieldKey, StackCatalog};
use crate::question::{Decides, Question, TrieAlternative};
use rustc_hash::FxHashMap;
use weir_lang::diag::{Diagnostic, Span};
use weir_lang::filter::{Op, Predicate, Stage};
use weir_packet::BitSet;

/// Maximum number of remainders (question, predicates on connection, session and row) of one program.
pub const REMAINDERS_MAX: usize = 4_096;
/// Maximum number of classes of packets: sets of remainders. A flow's record has up to two bits for each.
pub const CLASSES_MAX: usize = 4_096;
/// Maximum number of nodes of a trie. Every node may be tested on every edge of the parse tree.
pub const NODES_MAX: usize = 4_096;

/// A node's number in [`Trie::nodes`].
pub type NodeId = usize;

/// The remainders of the packets of a class, by index into [`Trie::bits`].
pub type Class = Vec<usize>;

/// Classes of packets, by index into [`Trie::classes`].
pub type ClassSet = BitSet<Class>;

/// A predicate, and the nodes that follow if it holds.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// Index into [`Trie::predicates`]; `None` for the root.
    pub predicate: Option<usize>,
    /// The stage at which the predicate is known.
    pub stage: Option<Stage>,
    /// Whether packets or connections are decided; questions of the same mode share nodes.
    pub mode: Decides,
    /// Further predicates of the conjunctions.
    pub children: Vec<NodeId>,
    /// Indices into [`Trie::bits`] of the remainders whose packet part ends here, ascending.
    pub bits: Vec<usize>,
    /// Index into [`Trie::classes`], if any packet part ends here.
    pub class: Option<usize>,
    /// Questions that are answered here.
    pub questions: Vec<usize>,
}

/// All questions' terms.
#[derive(Debug, Clone, Default)]
pub struct Trie {
    /// The predicates, each once.
    pub predicates: Vec<Predicate>,
    /// The root first; children follow their parents.
    pub nodes: Vec<Node>,
    /// The remainders: predicates that are evaluated later, on connections and sessions.
    pub alternatives: Vec<TrieAlternative>,
    /// The sets of remainders that packets satisfy: a packet's terms have one bit for each. Questions with
    /// the same packet predicates share a class.
    pub classes: Vec<Class>,
    /// What each question decides about.
    pub modes: Vec<Decides>,
    /// Questions that receive packets.
    takes_packets: Vec<bool>,
}

impl Trie {
    /// Builds the trie.
    ///
    /// # Errors
    /// If there are more remainders than [`REMAINDERS_MAX`], more classes than [`CLASSES_MAX`], or more nodes
    /// than [`NODES_MAX`].
    pub fn of(questions: &[Question], catalog: &StackCatalog) -> Result<Self, Diagnostic> {
        let mut builder = Builder { trie: Self::default(), indices: FxHashMap::default(), catalog };
        builder.trie.nodes.push(Node::default());
        for (index, question) in questions.iter().enumerate() {
            // If there is only one filter, the error points at all of it.
            let whole = Span { source: 0, start: 0, end: question.filter.text.len() as u32 };
            let alone = questions.len() == 1;
            builder.question(index, question).map_err(|wrong| if alone { wrong.at(whole) } else { wrong })?;
        }
        builder.trie.classify()?;
        Ok(builder.trie)
    }

    /// The root.
    pub const ROOT: NodeId = 0;

    /// Whether every packet satisfies some remainder, so no predicate on packets is needed.
    pub fn is_unconditional(&self) -> bool {
        self.nodes.iter().skip(1).all(|node| node.bits.is_empty())
    }

    /// Whether some question about packets has no predicate on packets, so all packets are needed.
    pub fn wants_every_packet(&self) -> bool {
        let root = &self.nodes[Self::ROOT];
        root.bits.iter().any(|&bit| self.modes[self.alternatives[bit].question] == Decides::Packets)
    }

    /// The classes that need packets without a connection, too.
    pub fn classes_of_packets(&self) -> ClassSet {
        let is_of_packets = |&bit: &usize| self.takes_packets[self.alternatives[bit].question];
        let classes = self.classes.iter().enumerate();
        classes.filter(|(_, bits)| bits.iter().any(is_of_packets)).map(|(class, _)| class).collect()
    }

    /// Assigns a number to each set of remainders at which a packet part ends.
    fn classify(&mut self) -> Result<(), Diagnostic> {
        let mut numbers = FxHashMap::default();
        for node in self.nodes.iter_mut().filter(|node| !node.bits.is_empty()) {
            node.bits.sort_unstable();
            let number = *numbers.entry(node.bits.clone()).or_insert(self.classes.len());
            if number == self.classes.len() {
                self.classes.push(node.bits.clone());
            }
            node.class = Some(number);
        }
        if self.classes.len() > CLASSES_MAX {
            let (classes, help) =
                (self.classes.len(), "use `in { … }` for alternatives of one field, or ask in several runs");
            let message = format!(
                "{classes} different kinds of packets are asked for; one program tells {CLASSES_MAX} apart"
            );
            return Err(Diagnostic::error("W0190", message).help(help));
        }
        Ok(())
    }

    /// Whether a predicate that holds for the parsed part of a packet may be false for the whole packet.
    pub fn may_be_undone(&self, predicate: usize) -> bool {
        let Predicate { op, negated, .. } = self.predicates[predicate];
        negated || op == Op::Ne
    }

    /// Whether a predicate that does not hold for the parsed part of a packet may hold for the whole packet.
    pub fn may_come_to_hold(&self, predicate: usize) -> bool {
        let Predicate { op, negated, .. } = self.predicates[predicate];
        !negated || op == Op::Ne
    }

    /// Number of words of a packet's terms, with 64 classes each.
    pub fn words(&self) -> usize {
        self.classes.len().div_ceil(64).max(1)
    }

    /// Classes of connections' packets that depend on a predicate for which `is` holds.
    pub fn classes_with(&self, is: &dyn Fn(usize) -> bool) -> ClassSet {
        let mut classes = ClassSet::EMPTY;
        self.add_classes_below(Self::ROOT, false, is, &mut classes);
        classes
    }

    fn add_classes_below(
        &self,
        node: NodeId,
        hangs: bool,
        is: &dyn Fn(usize) -> bool,
        classes: &mut ClassSet,
    ) {
        let Node { predicate, mode, class, children, .. } = &self.nodes[node];
        let hangs = hangs || predicate.is_some_and(is);
        classes.extend(class.filter(|_| hangs && *mode == Decides::Connections));
        children.iter().for_each(|&child| self.add_classes_below(child, hangs, is, classes));
    }

    /// Whether predicates remain for connections or sessions.
    pub fn has_remainder(&self) -> bool {
        self.alternatives.iter().any(TrieAlternative::has_remainder)
    }
}

struct Builder<'a> {
    trie: Trie,
    indices: FxHashMap<Predicate, usize>,
    catalog: &'a StackCatalog,
}

impl Builder<'_> {
    fn question(&mut self, index: usize, question: &Question) -> Result<(), Diagnostic> {
        let predicates = &question.filter.predicates;
        let is_late = |p: &usize| stage_of(self.catalog, &predicates[*p]) != Stage::Packet;
        let any_remainder = question.filter.terms.iter().any(|term| term.predicates.iter().any(is_late));
        let mode = match question.need.flows() || !question.need.events.is_empty() || any_remainder {
            true => Decides::Connections,
            false => Decides::Packets,
        };
        self.trie.modes.push(mode);
        self.trie.takes_packets.push(question.need.packets);
        for term in &question.filter.terms {
            let mut path: Vec<(Stage, usize, usize)> = vec![];
            for predicate in term.predicates.iter().map(|&p| &predicates[p]) {
                let (stage, depth) = (stage_of(self.catalog, predicate), depth_of(self.catalog, predicate));
                let key = self.catalog.key(predicate.field);
                let is_of_events = !question.need.events.is_empty();
                match key {
                    FieldKey::EventColumn(..) if is_of_events => {
                        path.push((Stage::Row, depth, self.share(predicate)));
                        let any = of_any_row(predicate);
                        path.extend(any.map(|any| (Stage::Packet, depth, self.share(&any))));
                    }
                    // No packet has such a row.
                    FieldKey::EndColumn(..) => path.push((Stage::Row, depth, self.share(predicate))),
                    _ => path.push((stage, depth, self.share(predicate))),
                }
            }
            path.sort_unstable();
            path.dedup();
            self.term(index, mode, &path)?;
        }
        Ok(())
    }

    fn term(
        &mut self,
        question: usize,
        mode: Decides,
        path: &[(Stage, usize, usize)],
    ) -> Result<(), Diagnostic> {
        let of = |wanted: Stage, predicates: &[Predicate]| -> Vec<Predicate> {
            let at_stage = path.iter().filter(|(stage, ..)| *stage == wanted);
            at_stage.map(|&(_, _, p)| predicates[p].clone()).collect()
        };
        let all = &self.trie.predicates;
        let (row, connection, session) =
            (of(Stage::Row, all), of(Stage::Connection, all), of(Stage::Session, all));
        let bit = self.bit(TrieAlternative { question, row, connection, session })?;
        let packet = path.iter().take_while(|(stage, ..)| *stage == Stage::Packet).count();
        let mut at = Trie::ROOT;
        for (place, &(stage, _, predicate)) in path.iter().enumerate() {
            if place == packet {
                self.end_of_packet_part(at, bit);
            }
            at = self.child(at, mode, stage, predicate)?;
        }
        if packet == path.len() {
            self.end_of_packet_part(at, bit);
        }
        if !self.trie.nodes[at].questions.contains(&question) {
            self.trie.nodes[at].questions.push(question);
        }
        Ok(())
    }

    fn end_of_packet_part(&mut self, node: NodeId, bit: usize) {
        if !self.trie.nodes[node].bits.contains(&bit) {
            self.trie.nodes[node].bits.push(bit);
        }
    }

    fn child(
        &mut self,
        node: NodeId,
        mode: Decides,
        stage: Stage,
        predicate: usize,
    ) -> Result<NodeId, Diagnostic> {
        let is_same = |&&child: &&NodeId| {
            let child = &self.trie.nodes[child];
            child.predicate == Some(predicate) && child.mode == mode
        };
        if let Some(&child) = self.trie.nodes[node].children.iter().find(is_same) {
            return Ok(child);
        }
        let child = self.trie.nodes.len();
        if child == NODES_MAX {
            return Err(Diagnostic::error(
                "W0195",
                format!("the filters make a tree of more than {NODES_MAX} predicates"),
            )
            .help("use `in { … }` for alternatives of one field, or ask in several runs"));
        }
        let (predicate, stage) = (Some(predicate), Some(stage));
        self.trie.nodes.push(Node { predicate, stage, mode, ..Node::default() });
        self.trie.nodes[node].children.push(child);
        Ok(child)
    }

    fn bit(&mut self, bit: TrieAlternative) -> Result<usize, Diagnostic> {
        if let Some(known) = self.trie.alternatives.iter().position(|known| *known == bit) {
            return Ok(known);
        }
        if self.trie.alternatives.len() == REMAINDERS_MAX {
            let message = format!(
                "more than {REMAINDERS_MAX} different combinations of connection and session predicates"
            );
            let help = "use `in { … }` for alternatives of one field, or ask in several runs";
            return Err(Diagnostic::error("W0190", message).help(help));
        }
        self.trie.alternatives.push(bit);
        Ok(self.trie.alternatives.len() - 1)
    }

    fn share(&mut self, predicate: &Predicate) -> usize {
        if let Some(&known) = self.indices.get(predicate) {
            return known;
        }
        let index = self.trie.predicates.len();
        self.trie.predicates.push(predicate.clone());
        self.indices.insert(predicate.clone(), index);
        index
    }
}

/// The predicate on a packet that follows if `predicate` holds for any of the packet's rows; `None` if none
/// follows.
fn of_any_row(predicate: &Predicate) -> Option<Predicate> {
    match predicate.op {
        _ if predicate.negated => None,
        // Other rows of the packet may have that value.
        Op::Ne => {
            Some(Predicate { op: Op::Exists, literals: vec![], slice: None, mask: None, ..predicate.clone() })
        }
        _ => Some(predicate.clone()),
    }
}

fn stage_of(catalog: &StackCatalog, predicate: &Predicate) -> Stage {
    match catalog.key(predicate.field) {
        FieldKey::Connection(_) => Stage::Connection,
        FieldKey::Session(_) | FieldKey::SessionField(..) => Stage::Session,
        _ => Stage::Packet,
    }
}

/// Depth of the predicate's layer, by the order of layers in the stack; outer layers are less deep.
fn depth_of(catalog: &StackCatalog, predicate: &Predicate) -> usize {
    catalog.key(predicate.field).layer().map_or(0, |layer| usize::from(layer.0) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::EventSet;
    use crate::question::Need;
    use weir_lang::Library;

    fn trie(filters: &[&str]) -> Result<Trie, Diagnostic> {
        let library = Library::builtin();
        let stack = library.stack("internet").expect("it is shipped");
        let catalog = StackCatalog::new(stack, &[], weir_sessions::SessionRegistry::builtin().protocols());
        let need = Need { packets: true, ..Need::default() };
        let question = |text: &&str| Question {
            filter: weir_lang::filter::compile(text, &catalog).expect("a filter"),
            need,
        };
        let questions: Vec<Question> = filters.iter().map(question).collect();
        Trie::of(&questions, &catalog)
    }

    #[test]
    fn what_several_demand_stands_once_outer_layers_first() {
        let trie = trie(&["tcp.port == 80 and ip.ttl > 9", "ip.ttl > 9 and udp"]).expect("it is small");
        // The root, ip.ttl, and the children tcp.port and udp of that.
        assert_eq!(trie.nodes.len(), 4);
        let [first] = trie.nodes[Trie::ROOT].children[..] else { panic!("one way from the root") };
        assert_eq!(trie.nodes[first].children.len(), 2);
        assert_eq!(trie.nodes[trie.nodes[first].children[0]].questions, [0]);
        assert_eq!(trie.nodes[trie.nodes[first].children[1]].questions, [1]);
    }

    #[test]
    fn the_packet_part_ends_where_what_is_late_begins() {
        let trie =
            trie(&["tcp.port == 443 and tls.sni contains \"x\" or tcp.port == 443 and udp"]).expect("small");
        assert!(trie.has_remainder() && !trie.is_unconditional());
        let port = trie.nodes[Trie::ROOT].children[0];
        assert_eq!(trie.nodes[port].bits.len(), 1, "the bit that waits for the session");
        assert_eq!(trie.nodes[port].children.len(), 2);
        // Questions about packets that need no connection do not share nodes with those that do.
        assert!(trie.nodes.iter().skip(1).all(|node| node.mode == Decides::Connections));
    }

    #[test]
    fn rows_are_asked_behind_their_packets() {
        let library = Library::builtin();
        let stack = library.stack("internet").expect("it is shipped");
        let catalog = StackCatalog::new(stack, &[], weir_sessions::SessionRegistry::builtin().protocols());
        let display = |predicate: &Predicate| predicate.display(&catalog).to_string();
        // By question: the predicates on packets, and those on rows.
        let asked = |text: &str, events: EventSet| {
            let filter = weir_lang::filter::compile(text, &catalog).expect("a filter");
            let need = Need { events, packets: events.is_empty(), ..Need::default() };
            let trie = Trie::of(&[Question { filter, need }], &catalog).expect("it is small");
            let of_packets = trie.nodes.iter().filter(|node| node.stage == Some(Stage::Packet));
            let packets = of_packets.filter_map(|node| node.predicate);
            let packets: Vec<String> = packets.map(|p| display(&trie.predicates[p])).collect();
            (packets, trie.alternatives[0].row.iter().map(display).collect::<Vec<_>>())
        };
        let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (seq, first) = ("tcp.aborted.seq > 9", [0].into_iter().collect());
        assert_eq!(
            asked(&format!("{seq} and udp"), EventSet::EMPTY).1,
            texts(&[]),
            "packets have what any row has"
        );
        assert_eq!(asked(seq, first), (texts(&[seq]), texts(&[seq])));
        assert_eq!(
            asked("not tcp.aborted.seq > 9", first),
            (texts(&[]), texts(&["not tcp.aborted.seq > 9"]))
        );
        assert_eq!(
            asked("tcp.aborted.seq != 9 and tcp.aborted", first),
            (texts(&["tcp.aborted.seq", "tcp.aborted"]), texts(&["tcp.aborted.seq != 9"]))
        );
    }

    #[test]
    fn growth_has_a_bound() {
        let either = |field: &str| (0..64).map(|n| format!("{field} > {n}")).collect::<Vec<_>>().join(" or ");
        let text = format!("({}) and ({})", either("tcp.src_port"), either("ip.ttl"));
        let error = trie(&[&text]).expect_err("4096 alternatives");
        assert_eq!((error.code, error.help.is_some()), ("W0195", true));
        assert_eq!(error.spans[0].0, Span { source: 0, start: 0, end: text.len() as u32 });
        let error = trie(&["tcp", &text]).expect_err("it is one of two");
        assert!(error.spans.is_empty(), "which one is not known");
    }
}
