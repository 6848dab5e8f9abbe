//! Which rules cannot be run, and why: their language is understood, but nothing provides what they ask for.

use crate::app;
use crate::buffers;
use crate::events;
use crate::expressions::HAS_BACKTRACKING;
use crate::fields::{behind, is_of_flow};
use crate::packet::is_header;
use crate::session_tests;
use weir::sessions::SessionRegistry;
use weir_rules::{BufferId, EventKind, PacketField, PacketTest, Rule, RuleProtocol, Test, Transform};

/// Why a rule cannot be run. `None`: the rule runs. `check_filter` says why a filter is wrong.
pub fn unsupported(rule: &Rule, check_filter: impl Fn(&str) -> Result<(), String>) -> Option<String> {
    let registry = SessionRegistry::builtin();
    let is_unknown = |(kind, event): &&(EventKind, String)| events::source(*kind, event).is_none();
    if let Some((_, event)) = rule.events.iter().find(is_unknown) {
        return Some(format!("the event `{event}` is not reported"));
    }
    if let Some(filter) = &rule.filter
        && let Err(why) = check_filter(filter)
    {
        return Some(format!("its filter `{filter}` is wrong: {why}"));
    }
    if let RuleProtocol::Session(name) = rule.protocol
        && app::protocols_of(name, registry).is_empty()
    {
        return Some(format!("the protocol `{name}` is not parsed"));
    }
    if let RuleProtocol::Session(name) = rule.protocol
        && name != "http2"
        && !registry.protocols().iter().any(|known| app::is(app::name_of(known.name), name))
    {
        return Some(format!("connections with the protocol `{name}` are not told apart"));
    }
    for test in &rule.packet {
        if let PacketTest::Number(field, _) = test
            && !is_of_flow(*field)
            && *field != PacketField::PayloadSize
            && behind(*field).is_empty()
        {
            return Some(format!("the field {field:?} of packets is not provided"));
        }
    }
    for test in &rule.session {
        let is_parsed = !app::protocols_of(app::protocol_of_field(test.field), registry).is_empty();
        if !is_parsed || !session_tests::is_known(test.field) {
            return Some(format!("`{}` is not provided", test.field));
        }
    }
    for inspection in &rule.inspections {
        let name = inspection.buffer.info().name;
        let is_packet = inspection.buffer == BufferId::PAYLOAD || is_header(inspection.buffer);
        if !is_packet && !buffers::is_known(name) {
            return Some(format!("the buffer `{name}` is not provided"));
        }
        let mut tests = inspection.tests.iter();
        let mut transforms = inspection.transforms.iter();
        let needs_backtracking = tests
            .any(|test| matches!(test, Test::Pcre(pcre) if pcre.needs_backtracking))
            || transforms.any(
                |transform| matches!(transform, Transform::PcreCapture(pcre) if pcre.needs_backtracking),
            );
        if !HAS_BACKTRACKING && needs_backtracking {
            return Some(
                "the expression has look-around or back-references, which need the feature `pcre2`"
                    .to_string(),
            );
        }
    }
    None
}
