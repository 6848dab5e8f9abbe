//! The questions behind a task.

use crate::ask::compile::{Ask, Compiler};
use crate::ask::names::{Names, part_of};
use crate::ask::question::Question;
use crate::handlers::flow_task::{Conditions, FlowTask, FlowWorker};
use crate::handlers::question_worker::{MakeQuestionWorker, QuestionWorker};
use crate::rows::events::EventRows;
use crate::rows::shape::Shape;
use crate::rows::values::{Part, Source, value_list, words_of};
use std::sync::Arc;
use weir_compile::{Need, TuplePart, ValueOf};
use weir_engine::plan::Want;
use weir_engine::stream::StreamParams;
use weir_lang::diag::Diagnostics;
use weir_packet::ValueType;
use weir_sessions::ProtocolSet;

/// Places of a packet's innermost layer with connections: see [`FlowQuestions::of`].
const PLACES: &[(&str, TuplePart)] = &[
    ("header_at", TuplePart::HeaderAt),
    ("payload_at", TuplePart::PayloadAt),
    ("payload_length", TuplePart::PayloadLength),
];

/// The packets without a connection.
const LOOSE: &str = "not (tcp or udp or icmp or icmpv6 or sctp)";

/// Conditions of a task.
pub const CONDITIONS_MAX: usize = 64;

/// Events of a task.
pub const EVENTS_MAX: usize = 32;

/// What a task asks for.
#[derive(Debug, Clone)]
pub struct FlowQuestions {
    /// The connections: a filter on packets.
    pub filter: String,
    /// The session protocols whose sessions the task receives.
    pub protocols: ProtocolSet,
    /// The task receives the bytes of streams, up to this offset of each direction; 0: no streams are
    /// reassembled.
    pub stream_bytes_max: u64,
    /// The task receives packets without a connection.
    pub loose_packets: bool,
    /// Filters that the task hears of for each packet, at most [`CONDITIONS_MAX`].
    pub conditions: Vec<String>,
    /// Events of the stack that the task hears of, at most [`EVENTS_MAX`].
    pub events: Vec<&'static str>,
    parts: Arc<[Part]>,
}

impl FlowQuestions {
    /// Questions for packets with these fields, in the order of their words: two for an address of IPv6, else
    /// one. `header_at`, `payload_at` and `payload_length` are offsets and length of the innermost layer with
    /// connections, in the captured bytes unless the packet is the last fragment of a datagram.
    ///
    /// # Errors
    /// A name that is no field of a number or an address.
    pub fn of(compiler: &Compiler, fields: &[&str]) -> Result<Self, String> {
        let names = Names::of_packets(compiler);
        let mut parts: Vec<Part> = vec![];
        for name in fields {
            let word = words_of(&parts);
            let place = PLACES.iter().find(|(place, _)| *place == *name);
            parts.push(match place {
                Some((_, part)) => Part {
                    source: Source::Packet(ValueOf::Tuple(*part)),
                    value_type: ValueType::Unsigned,
                    word,
                    words: 1,
                    prefix: None,
                },
                None => part_of(&names, names.named(name, "field")?, word),
            });
        }
        Ok(Self {
            filter: String::new(),
            protocols: ProtocolSet::EMPTY,
            stream_bytes_max: u64::MAX,
            loose_packets: true,
            conditions: vec![],
            events: vec![],
            parts: parts.into(),
        })
    }

    /// Whether this filter can be a filter of such questions.
    ///
    /// # Errors
    /// Mistakes in the filter, or the reason why it cannot be decided when a packet comes.
    pub fn check(compiler: &Compiler, filter: &str) -> Result<(), Diagnostics> {
        compiler.check_at_once(filter, false)
    }

    /// The questions of one subscription. `make` makes the task of each worker, whose rows have this number
    /// of columns; they are rows of the first question.
    ///
    /// # Errors
    /// If the fields are more than a program has room for, the conditions or the events are too many, or the
    /// stack has no such event.
    pub fn questions(
        self,
        compiler: &Compiler,
        columns: usize,
        make: impl Fn() -> Box<dyn FlowTask> + Send + Sync + 'static,
    ) -> Result<Vec<Question>, String> {
        if self.conditions.len() > CONDITIONS_MAX {
            return Err(format!("{} conditions; a task has at most {CONDITIONS_MAX}", self.conditions.len()));
        }
        if self.events.len() > EVENTS_MAX {
            return Err(format!("{} events; a task has at most {EVENTS_MAX}", self.events.len()));
        }
        let values = value_list(self.parts.iter())?;
        let first_event = 1 + usize::from(self.stream_bytes_max > 0);
        let first_condition = first_event + self.events.len();
        let of_connections = first_condition..first_condition + self.conditions.len();
        // Of a packet without a connection, nothing is known later.
        let is_of_packets = |condition: &String| Self::check(compiler, condition).is_ok();
        let of_packets = self.conditions.iter().enumerate();
        let of_packets = of_packets.filter(|(_, filter)| self.loose_packets && is_of_packets(filter));
        let of_packets: Vec<usize> = of_packets.map(|(condition, _)| condition).collect();
        let conditions = Conditions {
            of_packets: (of_connections.end..).zip(of_packets.iter().copied()).collect(),
            of_connections,
            of_events: first_event..first_condition,
        };
        let parts = Arc::clone(&self.parts);
        let worker: MakeQuestionWorker = Arc::new(move || {
            let (words, parts) = (vec![0; words_of(&parts)], Arc::clone(&parts));
            QuestionWorker::Flows(Box::new(FlowWorker {
                task: make(),
                parts,
                columns,
                places: vec![],
                words,
                conditions: conditions.clone(),
                held: 0,
                happened: (0, 0),
            }))
        });
        let ask = |filter: String, need: Need, want: Want| Ask { filter, need, want };
        let need = Need { values, ..Need::default() };
        let first =
            Question::new(ask(self.filter.clone(), need, Want::Tracked(self.protocols)), Shape::default());
        let mut questions = vec![Question { make: Some(worker), ..first }];
        let mut behind = |question: Question| {
            let before = questions.len();
            let make: MakeQuestionWorker = Arc::new(move || QuestionWorker::Behind(before));
            questions.push(Question { make: Some(make), ..question });
        };
        if self.stream_bytes_max > 0 {
            let params = StreamParams { cutoff: [self.stream_bytes_max; 2], ..StreamParams::default() };
            behind(Question::new(
                ask(self.filter.clone(), Need::default(), Want::Streams(params)),
                Shape::default(),
            ));
        }
        // Events come before their packet.
        for event in &self.events {
            let asked = EventRows::of(compiler.stack(), &[event.to_string()]);
            let asked = asked.map_err(|name| format!("the stack has no event `{name}`"))?.asked;
            let need = Need { events: asked, ..Need::default() };
            behind(Question::new(ask(self.filter.clone(), need, Want::Events), Shape::default()));
        }
        // A condition is asked for before the packet is passed on.
        for condition in &self.conditions {
            let filter = all_of(&[&self.filter, condition]);
            let want = Want::Tracked(ProtocolSet::EMPTY);
            behind(Question::new(ask(filter, Need::default(), want), Shape::default()));
        }
        for condition in of_packets {
            let filter = all_of(&[&self.filter, &self.conditions[condition], LOOSE]);
            let need = Need { packets: true, at_once: true, ..Need::default() };
            behind(Question::new(ask(filter, need, Want::Packets), Shape::default()));
        }
        if self.loose_packets {
            let filter = all_of(&[&self.filter, LOOSE]);
            let need = Need { packets: true, at_once: true, values, ..Need::default() };
            behind(Question::new(ask(filter, need, Want::Packets), Shape::default()));
        }
        Ok(questions)
    }
}

/// A filter that holds where all of these hold; an empty one always does.
fn all_of(filters: &[&str]) -> String {
    let filters = filters.iter().map(|filter| filter.trim()).filter(|filter| !filter.is_empty());
    filters.map(|filter| format!("({filter})")).collect::<Vec<_>>().join(" and ")
}
