//! What is asked: filters, and what is wanted of the traffic that fulfils them.

use crate::catalog::{FieldKey, StackCatalog};
use weir_lang::diag::{Diagnostic, Severity};
use weir_lang::filter::{Filter, Predicate, Stage};

/// The most residues (question, predicates on connection and session) that one program tells apart.
pub const TERM_BITS_MAX: usize = 62;

/// What a question needs of the program. Several may be needed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Need {
    /// Packets themselves.
    pub packets: bool,
    /// What `show` says of each layer, in the packet's record.
    pub lines: bool,
    /// Where in the packet what `show` says stands, in the packet's record.
    pub places: bool,
    /// The order of layers, in the packet's record.
    pub path: bool,
    /// The record of each connection.
    pub connections: bool,
    /// The application protocol of each connection, for its record.
    pub service: bool,
    /// The bytes of streams in order.
    pub streams: bool,
    /// Sessions; of these protocols (a bit by index into the registry).
    pub sessions: u64,
    /// Events.
    pub events: bool,
    /// The number by which packets are spread over workers, and nothing else.
    pub dispatch: bool,
}

impl Need {
    /// A flow has to be found for every packet.
    pub fn flows(&self) -> bool {
        self.connections || self.streams || self.sessions != 0
    }

    /// Bytes in order are needed.
    pub fn bytes(&self) -> bool {
        self.streams || self.sessions != 0
    }
}

/// One question.
#[derive(Debug, Clone)]
pub struct Question {
    /// The filter.
    pub filter: Filter,
    /// What is wanted.
    pub need: Need,
}

/// One bit of a packet's terms: a question, and what remains to be asked of connection and session.
#[derive(Debug, Clone, PartialEq)]
pub struct TermBit {
    /// Index of the question.
    pub question: usize,
    /// Predicates on the connection's record; all must hold.
    pub connection: Vec<Predicate>,
    /// Predicates on a session; one session must fulfil all.
    pub session: Vec<Predicate>,
}

/// A conjunction of packet predicates that sets a bit.
#[derive(Debug, Clone)]
pub(crate) struct PacketTerm {
    pub bit: usize,
    pub question: usize,
    /// Indices into [`Terms::predicates`].
    pub predicates: Vec<usize>,
}

/// All questions' terms, predicates shared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms {
    pub predicates: Vec<Predicate>,
    pub terms: Vec<PacketTerm>,
    pub bits: Vec<TermBit>,
}

impl Terms {
    /// Splits every question's terms by stage.
    ///
    /// # Errors
    /// Where there are more residues than [`TERM_BITS_MAX`].
    pub fn split(questions: &[Question], catalog: &StackCatalog) -> Result<Self, Diagnostic> {
        let mut all = Self::default();
        for (index, question) in questions.iter().enumerate() {
            for term in &question.filter.terms {
                let mut bit = TermBit { question: index, connection: vec![], session: vec![] };
                let mut packet = vec![];
                for &p in &term.predicates {
                    let predicate = &question.filter.predicates[p];
                    match stage_of(catalog, predicate) {
                        Stage::Packet => packet.push(all.share(predicate)),
                        Stage::Connection => bit.connection.push(predicate.clone()),
                        Stage::Session => bit.session.push(predicate.clone()),
                    }
                }
                let bit = all.bits.iter().position(|b| *b == bit).unwrap_or_else(|| {
                    all.bits.push(bit);
                    all.bits.len() - 1
                });
                all.terms.push(PacketTerm { bit, question: index, predicates: packet });
            }
        }
        if all.bits.len() > TERM_BITS_MAX {
            return Err(Diagnostic {
                code: "W0190",
                severity: Severity::Error,
                message: format!(
                    "{} different combinations of connection and session predicates; at most {TERM_BITS_MAX} fit one program",
                    all.bits.len()
                ),
                spans: vec![],
                help: Some("use `in { … }` for alternatives of one field, or ask in several runs".into()),
            });
        }
        Ok(all)
    }

    fn share(&mut self, predicate: &Predicate) -> usize {
        let same = |p: &Predicate| Predicate { span: p.span, ..predicate.clone() } == *p;
        self.predicates.iter().position(same).unwrap_or_else(|| {
            self.predicates.push(predicate.clone());
            self.predicates.len() - 1
        })
    }
}

fn stage_of(catalog: &StackCatalog, predicate: &Predicate) -> Stage {
    match catalog.key(predicate.field) {
        FieldKey::Connection(_) => Stage::Connection,
        FieldKey::Session(_) | FieldKey::SessionField(..) => Stage::Session,
        _ => Stage::Packet,
    }
}
