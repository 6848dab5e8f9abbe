//! The questions behind `weir top`, and the receiver of their answers.

use super::lock;
use super::traffic::{REPORT_NS, Traffic};
use std::sync::{Arc, Mutex};
use weir::sessions::SessionRegistry;
use weir::{Compiler, Every, Item, Need, Next, Question, Shape, TakeItems, Want};
use weir_questions::text::{SERVER_NAMES, ServerNames};

/// The columns that hold names of servers: those of sessions with the server, and those that DNS asks for.
fn names(registry: &SessionRegistry) -> ServerNames {
    ServerNames::of(registry, &[SERVER_NAMES, &["query"]].concat())
}

/// The questions about traffic that matches a filter.
pub fn questions(compiler: &Compiler, filter: &str) -> Vec<Question> {
    let protocols = names(compiler.sessions()).protocols();
    let want = Want::Sessions(protocols);
    let ask = weir::Ask { filter: filter.to_string(), need: Need::default(), want };
    let sessions = Question::new(ask, Shape { rows: Some(protocols), all_rows: true, ..Shape::default() });
    vec![Question::of_records(filter, Every::Within(REPORT_NS as u64)), sessions]
}

/// Adds answers to the traffic, as long as its filter is that of the questions.
pub struct Receiver {
    traffic: Arc<Mutex<Traffic>>,
    filter_number: u64,
    names: ServerNames,
    /// The names of protocols.
    protocols: Vec<&'static str>,
}

impl Receiver {
    /// A receiver of the answers to the [`questions`] about the traffic's current filter.
    pub fn new(compiler: &Compiler, traffic: Arc<Mutex<Traffic>>) -> Self {
        let filter_number = lock(&traffic).filter_number;
        let registry = compiler.sessions();
        let protocols = registry.protocols().iter().map(|protocol| protocol.name).collect();
        Self { traffic, filter_number, names: names(registry), protocols }
    }
}

impl TakeItems for Receiver {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        let mut traffic = lock(&self.traffic);
        if traffic.filter_number != self.filter_number {
            return Next::Go;
        }
        match item {
            Item::Tracked { connection, is_over, .. } => traffic.report(*connection, is_over),
            Item::Rows(rows) => {
                let protocol = self.protocols.get(rows.protocol).copied().unwrap_or_default();
                let names = rows.iter().filter_map(|row| self.names.of_row(rows.protocol, row));
                names.for_each(|name| traffic.name(protocol, name));
            }
            _ => {}
        }
        Next::Go
    }
}
