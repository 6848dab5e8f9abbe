//! Alerts as rows.

use crate::app;
use crate::flow::FlowState;
use crate::packet::{Moment, Packet};
use weir::flow_task::TaskFlow;
use weir::packet::{Cell, Column, Texts, ValueType};
use weir::packet_task::TaskRows;
use weir_rules::{Action, Classes, Rule};

/// The columns of alerts. The ends are those of the connection; `src` and `dst` are those of the packet that
/// completed the match.
pub const COLUMNS: &[Column] = &[
    Column::new("ts", ValueType::Time, "Time of the packet that completed the match"),
    Column::new("uid", ValueType::Text, "Identifier of the connection"),
    Column::new("start", ValueType::Time, "Time of the connection's first packet"),
    Column::new("id.orig_h", ValueType::Address, "Originator of the connection"),
    Column::new("id.orig_p", ValueType::Unsigned, "Originator's port"),
    Column::new("id.resp_h", ValueType::Address, "Responder of the connection"),
    Column::new("id.resp_p", ValueType::Unsigned, "Responder's port"),
    Column::new("proto", ValueType::Text, "Transport protocol"),
    Column::new("service", ValueType::Text, "Session protocol, with its name in rules"),
    Column::new("gid", ValueType::Unsigned, "Group of the rule"),
    Column::new("sid", ValueType::Unsigned, "Signature ID of the rule"),
    Column::new("rev", ValueType::Unsigned, "Revision of the rule"),
    Column::new("msg", ValueType::Text, "Message of the rule"),
    Column::new("class", ValueType::Text, "Class of the rule"),
    Column::new("severity", ValueType::Unsigned, "Priority of the rule; 1 is the most severe"),
    Column::new("action", ValueType::Text, "Action of the rule, or of its rate filter; Weir only reports"),
    Column::new("src", ValueType::Address, "Sender of the packet that completed the match"),
    Column::new("src_p", ValueType::Unsigned, "Sender's port"),
    Column::new("dst", ValueType::Address, "Receiver of that packet"),
    Column::new("dst_p", ValueType::Unsigned, "Receiver's port"),
    Column::new("direction", ValueType::Text, "to_server or to_client"),
    Column::new("packet", ValueType::Unsigned, "Number of that packet; absent at the end of a connection"),
    Column::new("references", ValueType::Texts, "References of the rule: kind,place"),
    Column::new("metadata", ValueType::Texts, "Metadata of the rule: key value"),
    Column::new("community_id", ValueType::Text, "Community ID, version 1"),
];

/// What a rule's rows say of it, written once.
#[derive(Debug, Default)]
pub struct Said {
    references: Vec<String>,
    metadata: Vec<String>,
    class: Option<String>,
    severity: u64,
}

impl Said {
    /// What is said of a rule.
    pub fn of(rule: &Rule, classes: &Classes) -> Self {
        let class = rule.class.as_deref().map(|name| (name, classes.class(name)));
        let joined = |(key, value): &(String, String), between: &str| match value.is_empty() {
            true => key.clone(),
            false => format!("{key}{between}{value}"),
        };
        Self {
            references: rule.references.iter().map(|reference| joined(reference, ",")).collect(),
            metadata: rule.metadata.iter().map(|pair| joined(pair, " ")).collect(),
            class: class.map(|(name, known)| known.map_or(name, |known| &known.description).to_string()),
            severity: u64::from(classes.priority(rule)),
        }
    }
}

/// Writes the row of an alert.
pub fn write(
    rows: &mut TaskRows<'_>,
    rule: &Rule,
    said: &Said,
    action: Action,
    flow: Option<(&TaskFlow<'_>, &FlowState)>,
    packet: &Packet<'_>,
    moment: Moment,
) {
    let mut row = rows.add();
    row.push(Cell::Time(moment.time));
    let port = |port: u32| Cell::Unsigned(u64::from(port));
    match flow {
        Some((flow, state)) => {
            row.push(Cell::Text(&flow.uid()));
            row.push(Cell::Time(flow.first_time()));
            for (address, number) in flow.endpoints() {
                row.push(Cell::Address(address));
                row.push(port(number));
            }
            row.push(Cell::Text(&flow.proto()));
            row.push(text(state.app.filter(|app| *app != app::FAILED)));
        }
        None => {
            row.push(Cell::Absent);
            row.push(Cell::Absent);
            for (address, number) in packet.ends {
                row.push(Cell::Address(address));
                row.push(port(number.into()));
            }
            row.push(Cell::Absent);
            row.push(Cell::Absent);
        }
    }
    for number in [rule.gid, rule.sid, rule.rev] {
        row.push(Cell::Unsigned(number.into()));
    }
    row.push(Cell::Text(&rule.message));
    row.push(text(said.class.as_deref()));
    row.push(Cell::Unsigned(said.severity));
    row.push(Cell::Text(action_name(action)));
    for (address, number) in packet.ends {
        row.push(Cell::Address(address));
        row.push(port(number.into()));
    }
    row.push(Cell::Text(if packet.to_server { "to_server" } else { "to_client" }));
    row.push(moment.number.map_or(Cell::Absent, Cell::Unsigned));
    for list in [&said.references, &said.metadata] {
        row.push(if list.is_empty() { Cell::Absent } else { Cell::Texts(Texts::Whole(list)) });
    }
    match flow.and_then(|(flow, _)| flow.community_id()) {
        Some(id) => row.push(Cell::Text(&id)),
        None => row.push(Cell::Absent),
    }
}

fn text(text: Option<&str>) -> Cell<'_> {
    text.map_or(Cell::Absent, Cell::Text)
}

fn action_name(action: Action) -> &'static str {
    match action {
        Action::Alert => "alert",
        Action::Pass => "pass",
        Action::Drop => "drop",
        Action::Reject => "reject",
    }
}
