//! The meaning of texts: the checked model of protocols and stacks, both small and built-in ones.

use std::time::Duration;
use weir_lang::model::{
    BinaryOp, EdgeKind, Expr, Field, FieldId, FieldType, HeaderItem, Protocol, ShowPart, Side, Stmt, Target,
    Trigger,
};
use weir_lang::{Library, load};

fn protocol(inside: &str) -> Protocol {
    let text = format!("//! A test\nprotocol x as y.z {{ {inside} }}");
    match load(&[("x.weir", &text)]) {
        Ok((library, _)) => library.protocol("x").expect("it was just read").clone(),
        Err(wrong) => panic!("{wrong}"),
    }
}

fn field<'a>(protocol: &'a Protocol, path: &str) -> &'a Field {
    protocol.fields.iter().find(|field| field.path == path).unwrap_or_else(|| panic!("no field {path}"))
}

#[test]
fn names_and_documentation_are_kept() {
    let x = protocol("header { a as b: u8 \"what a is\" } let c = a \"what c is\" alias d = a \"what d is\"");
    assert_eq!((x.name.as_str(), x.filter_name.as_str(), x.doc.as_str()), ("x", "y.z", "A test"));
    assert_eq!((field(&x, "a").alias.as_deref(), field(&x, "a").doc.as_str()), (Some("b"), "what a is"));
    assert_eq!((x.lets[0].doc.as_str(), x.aliases[0].doc.as_str()), ("what c is", "what d is"));
}

#[test]
fn groups_and_runs_prefix_their_names_and_aliases() {
    let tcp = Library::builtin().protocol("tcp").expect("tcp").clone();
    assert_eq!(field(&tcp, "flags.ae").alias.as_deref(), Some("flags.ns"));
    assert_eq!(field(&tcp, "options.mss.value").alias.as_deref(), Some("options.mss_val"));
    assert_eq!(field(&tcp, "options.window_scale.shift").alias.as_deref(), Some("options.wscale.shift"));
    let scale = tcp.presences.iter().find(|one| one.path == "options.window_scale").expect("a presence");
    assert_eq!(scale.alias.as_deref(), Some("options.wscale"));
    // Inside an item its own fields take precedence.
    let blocks = field(&tcp, "options.sack.blocks");
    let FieldType::Bytes(Expr::Binary(BinaryOp::Sub, length, _)) = &blocks.ty else {
        panic!("{:?}", blocks.ty)
    };
    let Expr::Field(FieldId(id)) = **length else { panic!("{length:?}") };
    assert_eq!(tcp.fields[usize::from(id)].path, "options.sack.length");
}

#[test]
fn a_group_of_bits_is_one_number_over_its_fields() {
    let x = protocol(
        "header { _: u4 flags { _: u3 a: u1 b { c: u2 d: u6 } } \"all of it\" far { e: u16le } wide { f: u64 g: u8 }
         if flags.b == 3 { more { h: u8 } } } let twice = flags * 2 show \"{flags} {flags.b}\"",
    );
    let bits = |path| match field(&x, path).ty {
        FieldType::Unsigned { bits, .. } => bits,
        ref other => panic!("{other:?}"),
    };
    assert_eq!((bits("flags"), bits("flags.b"), bits("flags.b.c"), bits("more")), (12, 8, 2, 8));
    assert_eq!(field(&x, "flags").doc, "all of it");
    assert!(x.fields.iter().all(|field| field.path != "far" && field.path != "wide"));
    let [
        _,
        HeaderItem::Whole(FieldId(0)),
        HeaderItem::Skip { bits: 3 },
        HeaderItem::Field(_),
        HeaderItem::Whole(_),
        ..,
    ] = x.header.as_slice()
    else {
        panic!("{:?}", x.header)
    };
    assert!(matches!(x.show[0], ShowPart::Value(Expr::Field(FieldId(0)))));
}

#[test]
fn layouts_keep_their_order_with_peeks_skips_and_branches() {
    let x = protocol(
        "header { a: u4 _: u4 peek b: u8 if a == 1 { c: u16le } else if a == 2 { d: macaddr } _: bytes[3] }",
    );
    let [
        HeaderItem::Field(_),
        HeaderItem::Skip { bits: 4 },
        HeaderItem::Peek(_),
        branch,
        HeaderItem::Skip { bits: 24 },
    ] = x.header.as_slice()
    else {
        panic!("{:?}", x.header)
    };
    let HeaderItem::If { then, otherwise, .. } = branch else { panic!("{branch:?}") };
    assert_eq!((then.len(), otherwise.len()), (1, 1));
    assert!(matches!(field(&x, "c").ty, FieldType::Unsigned { bits: 16, little: true }));
}

#[test]
fn operators_bind_as_the_grammar_says() {
    let x = protocol("header { a: u8  b: u8 } let c = not a == 1 and b & 3 << 1 == 2 or b in { 1, 4..6 }");
    let shown = format!("{:?}", x.lets[0].value);
    let expected = "Binary(LogicalOr, \
        Binary(LogicalAnd, \
        Not(Binary(Eq, Field(FieldId(0)), Number(1))), \
        Binary(Eq, Binary(And, Field(FieldId(1)), Binary(Shl, Number(3), Number(1))), Number(2))), \
        In(Field(FieldId(1)), [(1, 1), (4, 6)]))";
    assert_eq!(shown, expected);
    let y = protocol("header { a: u8 } let c = 9 - 3 - 1 + a * 2");
    let shown = format!("{:?}", y.lets[0].value);
    assert_eq!(
        shown,
        "Binary(Add, Binary(Sub, Binary(Sub, Number(9), Number(3)), Number(1)), Binary(Mul, Field(FieldId(0)), Number(2)))"
    );
}

#[test]
fn derived_values_come_before_their_users() {
    let x = protocol("header { n: u8 } let a = b + 1 let b = c let c = n payload = rest[.. a]");
    let names: Vec<&str> = x.lets.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["c", "b", "a"]);
}

#[test]
fn sequences_know_the_width_of_their_numbers() {
    let library = Library::builtin();
    let bits = |name: &str| library.protocol(name).and_then(|one| one.sequence.as_ref()).map(|one| one.bits);
    assert_eq!(bits("tcp"), Some(32), "of the field");
    assert_eq!(bits("ip"), Some(64), "an offset that was scaled never wraps");
    let x = protocol(
        "header { seq: u16  size: u16 } payload = rest instance (seq) <-> (size) each side { low: u32 }
         sequence at seq of payload spanning size window me.low .. me.low + (size << 1) from first timeout 1m",
    );
    let sequence = x.sequence.expect("a sequence");
    assert!(sequence.from_first && sequence.bits == 16 && sequence.span.is_some());
    let (low, _) = sequence.window.expect("a window");
    assert!(matches!(low, Expr::Var(_, Side::Me)));
}

#[test]
fn states_transitions_and_timeouts_of_tcp() {
    let tcp = Library::builtin().protocol("tcp").expect("tcp").clone();
    assert_eq!(tcp.states[0].name, "closed");
    assert!(tcp.states.iter().filter(|state| state.accept).map(|state| state.name.as_str()).eq(["done"]));
    let find = |name: &str| tcp.transitions.iter().find(|one| one.name == name).expect("a transition");
    assert!(find("again").from.is_empty() && find("again").to == Target::Restart);
    assert!(find("fin").ordered && !find("reset").ordered);
    let last = tcp.timeouts.last().expect("a timeout");
    assert!(last.states.is_empty() && last.after == Duration::from_secs(300));
    assert_eq!(tcp.timeouts[0].states.len(), 3);
    let segment = tcp.events.iter().find(|event| event.name == "segment").expect("an event");
    assert!(segment.assemble && segment.triggers == [Trigger::Ordered]);
    let aborted = tcp.events.iter().find(|event| event.name == "aborted").expect("an event");
    assert_eq!(aborted.columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["seq", "ack"]);
    assert!(tcp.show.iter().any(|part| matches!(part, ShowPart::Flags(flags) if flags.len() == 9)));
    assert!(matches!(
        tcp.count[0],
        Stmt::Assign { side: Side::Me, value: Expr::Binary(BinaryOp::Add, ..), .. }
    ));
}

#[test]
fn variables_know_what_they_hold_at_first() {
    let x = protocol(
        "header { a: u16  b: u16 } let sum = a + b instance (a) <-> (b)
         each side { window: u16 = max \"unscaled\"  none: u8 } vars { first: u32 = sum + 1 } timeout 1m",
    );
    assert!(matches!(x.vars[0].first, Some(Expr::Number(0xffff))));
    assert!(x.vars[1].first.is_none());
    assert!(matches!(x.vars[2].first, Some(Expr::Binary(BinaryOp::Add, ..))));
}

#[test]
fn the_start_comes_first_wherever_it_is_written() {
    let x = protocol(
        "header { a: u8 } instance (a) states { end: accept  begin: start } on go: begin -> end idle 2s timeout 500ms",
    );
    assert_eq!(x.states[0].name, "begin");
    assert_eq!(x.transitions[0].from, [0]);
    assert_eq!(x.timeouts[0].after, Duration::from_millis(500));
    assert_eq!(x.transitions[0].timeout, Some(Duration::from_secs(2)));
}

#[test]
fn the_internet_stack_has_its_layers_edges_and_keys() {
    let library = Library::builtin();
    let stack = library.stack("internet").expect("the stack");
    let name = |id: weir_lang::model::LayerId| stack.layers[usize::from(id.0)].protocol.name.as_str();
    let start = |link| stack.starts.iter().find(|(number, _)| *number == link).map(|(_, layer)| name(*layer));
    assert_eq!((start(1), start(276), start(228)), (Some("eth"), Some("sll2"), Some("raw")));
    assert!(
        stack
            .edges
            .iter()
            .any(|edge| (name(edge.from), name(edge.to), edge.kind) == ("icmp", "ip", EdgeKind::Quoted))
    );
    // A group of layers is an edge from each.
    assert_eq!(stack.edges.iter().filter(|edge| name(edge.to) == "tcp").count(), 8);
    let repeat =
        |wanted: &str| stack.layers.iter().find(|one| one.protocol.name == wanted).map(|one| one.repeat_max);
    assert_eq!((repeat("vlan"), repeat("arp")), (Some(32), Some(1)));
    assert_eq!(stack.dispatch.iter().map(|(layer, ..)| name(*layer)).collect::<Vec<_>>(), ["ip", "ipv6"]);
}

#[test]
fn a_stack_that_extends_another_puts_its_edges_first_and_replaces_starts() {
    let mut library = Library::builtin();
    let text = "
        protocol vx { header { kind: u8 } payload = rest }
        stack mine extends internet {
            udp -> vx when dst_port == 4789
            eth -> vx
            start RAW, 147: vx
            repeat udp 2
        }";
    let warnings = library.extend_with("mine.weir", text).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(warnings.list.is_empty(), "{warnings}");
    let (mine, internet) =
        (library.stack("mine").expect("mine"), library.stack("internet").expect("internet"));
    assert_eq!(mine.edges.len(), internet.edges.len() + 2);
    assert_eq!(mine.layers.len(), internet.layers.len() + 1);
    let name = |id: weir_lang::model::LayerId| mine.layers[usize::from(id.0)].protocol.name.as_str();
    assert_eq!((name(mine.edges[0].from), name(mine.edges[0].to)), ("udp", "vx"));
    assert!(mine.starts.iter().filter(|(link, _)| *link == 101).map(|(_, layer)| name(*layer)).eq(["vx"]));
    assert!(mine.starts.iter().any(|(link, _)| *link == 147));
    assert_eq!(mine.layers.iter().find(|one| one.protocol.name == "udp").map(|one| one.repeat_max), Some(2));
}

#[test]
fn a_protocol_of_a_known_name_replaces_it_in_every_stack() {
    let mut library = Library::builtin();
    let count = library.protocols().count();
    let arp = "protocol arp { header { mine: u8 } }";
    for (text, field) in [(arp, "mine"), (&arp.replace("mine", "again"), "again")] {
        let warnings = library.extend_with("arp.weir", text).unwrap_or_else(|wrong| panic!("{wrong}"));
        assert!(warnings.list.is_empty(), "{warnings}");
        assert_eq!(library.protocols().count(), count);
        assert!(library.latest_protocols().eq(["arp"]));
        let stack = library.stack("internet").expect("it is still there");
        let layer = stack.layers.iter().find(|layer| layer.protocol.name == "arp").expect("arp");
        assert_eq!(layer.protocol.fields[0].path, field);
    }
}

#[test]
fn what_is_refused_leaves_the_library_as_it_was() {
    let mut library = Library::builtin();
    let count = library.protocols().count();
    let wrong =
        library.extend_with("x.weir", "protocol good { header { a: u8 } } protocol bad { header { a: u9 } }");
    assert!(wrong.expect_err("a mistake").has_errors());
    assert_eq!(library.protocols().count(), count);
    let span = library.protocol("tcp").expect("tcp").span;
    assert_eq!(library.sources().slice(span), "tcp");
    assert_eq!(library.sources().name(span.source), "protocols/tcp.weir");
}

#[test]
fn what_is_extended_is_of_the_latest_text_too() {
    let mut library = Library::builtin();
    let text = "extend tcp with windows { let is_shut = window == 0 \"a window of nothing\" }";
    library.extend_with("windows.weir", text).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(library.latest_protocols().eq(["tcp"]));
    let has =
        |library: &Library| library.protocol("tcp").unwrap().lets.iter().any(|one| one.name == "is_shut");
    assert!(has(&library), "filters know it");
    // An extension of the same name replaces it.
    let text = "extend tcp with windows { let is_open = window > 0 \"a window of something\" }";
    library.extend_with("windows.weir", text).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(!has(&library));
}
