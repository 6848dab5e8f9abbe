//! Conversations of clients and servers, and the rows of the three logs.

use super::*;
use crate::conversation::{part_rows, rows};
use weir_packet::Value;

const CONNECT: &str =
    "> 10 27 0004 \"MQTT\" 04 c6 003c 0003 \"dev\" 0004 \"dead\" 0003 \"bye\" 0003 \"bob\" 0006 \"secret\"\n";

#[test]
fn a_client_connects_subscribes_and_publishes() {
    let talk = CONNECT.to_owned()
        + "< 20020000\n> 82 06 0001 0001 \"#\" 00\n< 9003000100\n> 30 05 0003 \"a/b\" 32 08 0003 \"a/b\" 0007 \"x\"\n\
           < 30 04 0001 \"c\" \"y\"\n> e000\n";
    let names = [
        "proto_name",
        "proto_version",
        "client_id",
        "connect_status",
        "will_topic",
        "will_payload",
        "mqtt.username",
        "mqtt.topics",
        "mqtt.subscriptions",
        "mqtt.client_publishes",
        "mqtt.server_publishes",
    ];
    assert_eq!(
        rows(&PROTOCOL, &talk, &names),
        ["MQTT | 3.1.1 | dev | Connection Accepted | dead | bye | bob | a/b,c | # | 2 | 1"]
    );
}

#[test]
fn version_5_has_properties() {
    let talk = "> 10 13 0004 \"MQTT\" 05 02 003c 03 210014 0003 \"dev\"\n< 20 03 00 87 00\n";
    assert_eq!(
        rows(&PROTOCOL, talk, &["proto_version", "client_id", "connect_status"]),
        ["5.0 | dev | Refused: not authorized"]
    );
}

#[test]
fn long_payloads_are_skipped_and_gaps_in_them_do_no_harm() {
    let talk = CONNECT.to_owned() + "> 30 ffff7f 0003 \"a/b\"\n> gap 2097146\n> 30 05 0003 \"c/d\"\n";
    let expected = ["a/b,c/d | -"];
    let filler = "00".repeat(PACKET_BYTES_MAX - 9);
    let talk = talk
        .replace("\n> gap 2097146", &format!("{filler}\n> gap {}", 2_097_151 - 5 - (PACKET_BYTES_MAX - 9)));
    assert_eq!(rows(&PROTOCOL, &talk, &["mqtt.topics", "connect_status"]), expected);
}

#[test]
fn one_side_alone() {
    assert_eq!(rows(&PROTOCOL, "< 20020005\n", &["connect_status"]), ["Refused: not authorized"]);
    assert_eq!(rows(&PROTOCOL, CONNECT, &["client_id", "connect_status"]), ["dev | -"]);
    assert_eq!(rows(&PROTOCOL, "> 00\n< 00", &["client_id"]), Vec::<String>::new());
}

#[test]
fn a_connect_makes_it_one() {
    let probe = |originator: &[u8]| (PROTOCOL.probe)(&Opening { originator, ..Opening::default() });
    assert_eq!(probe(b"\x10\x25\0\x04MQTT"), Probe::Certain);
    assert_eq!(probe(b"\x10\x25\0\x06MQIs"), Probe::Unsure);
    assert_eq!(probe(b"\x10"), Probe::Unsure);
    assert_eq!(probe(b"\x20\x02\0\0"), Probe::NotForUs);
    assert_eq!(probe(b"\x10\x80\x80\x80\x80"), Probe::NotForUs);
}

/// The columns of mqtt_publish.log.
fn published(talk: &str) -> Vec<String> {
    let columns = ["from_client", "retain", "qos", "status", "topic", "payload", "payload_len"];
    part_rows(&PROTOCOL, &publish::LOG, talk, &columns)
}

/// The columns of mqtt_subscribe.log.
fn subscribed(talk: &str) -> Vec<String> {
    let columns = ["action", "topics", "qos_levels", "granted_qos_level", "ack"];
    part_rows(&PROTOCOL, &subscription::LOG, talk, &columns)
}

#[test]
fn each_message_is_complete_when_its_quality_of_service_is() {
    for (talk, row) in [
        ("> 31 08 0003 \"a/b\" \"xyz\"\n", "true | true | at most once | ok | a/b | xyz | 3"),
        ("< 30 04 0001 \"c\" \"y\"\n", "false | false | at most once | ok | c | y | 1"),
        ("> 32 06 0001 \"a\" 0007 \"x\"\n< 40 02 0007\n", "true | false | at least once | ok | a | x | 1"),
        (
            "> 32 06 0001 \"a\" 0007 \"x\"\n< 40 02 0008\n",
            "true | false | at least once | incomplete_qos | a | x | 1",
        ),
        (
            "< 34 05 0001 \"a\" 0007\n> 50 02 0007\n< 62 02 0007\n> 70 02 0007\n",
            "false | false | exactly once | ok | a |  | 0",
        ),
        (
            "< 34 05 0001 \"a\" 0007\n> 50 02 0007\n> 70 02 0007\n",
            "false | false | exactly once | incomplete_qos | a |  | 0",
        ),
    ] {
        assert_eq!(published(&(CONNECT.to_owned() + talk)), [row], "{talk}");
    }
}

#[test]
fn a_retransmission_is_the_same_message_and_a_number_may_be_used_again() {
    let talk = CONNECT.to_owned()
        + "> 32 06 0001 \"a\" 0007 \"x\" 3a 06 0001 \"a\" 0007 \"x\"\n< 40 02 0007\n> 32 06 0001 \"b\" 0007 \"y\"\n\
           > 32 06 0001 \"c\" 0007 \"z\"\n< 40 02 0007\n";
    let rows = published(&talk);
    let told: Vec<_> = rows.iter().map(|row| row.split(" | ").skip(3).take(2).collect::<Vec<_>>()).collect();
    assert_eq!(told, [["ok", "a"], ["incomplete_qos", "b"], ["ok", "c"]]);
}

#[test]
fn a_message_of_version_5_may_have_properties_and_be_refused() {
    let talk = "> 10 13 0004 \"MQTT\" 05 02 003c 03 210014 0003 \"dev\"\n> 32 0a 0001 \"a\" 0007 03 230001 \"x\"\n\
                < 40 03 0007 87\n> 32 07 0001 \"a\" 0008 00 \"x\"\n< 40 04 0008 00 00\n";
    let row = |status: &str| format!("true | false | at least once | {status} | a | x | 1");
    assert_eq!(published(talk), [row("incomplete_qos"), row("ok")]);
}

#[test]
fn the_length_of_a_long_payload_is_told_though_it_is_not_kept() {
    let talk = CONNECT.to_owned() + "> 30 904e 0001 \"a\" " + &"78".repeat(10_000 - 3) + "\n";
    let payload = "x".repeat(100);
    assert_eq!(published(&talk), [format!("true | false | at most once | ok | a | {payload} | 9997")]);
}

#[test]
fn subscriptions_begin_and_end_with_the_topics_of_the_client() {
    let talk = CONNECT.to_owned()
        + "> 82 0a 0001 0001 \"#\" 02 0001 \"b\" 00\n< 90 04 0001 0180\n> a2 05 0002 0001 \"#\"\n< b0 02 0002\n\
           > 82 06 0003 0001 \"c\" 01\n";
    assert_eq!(
        subscribed(&talk),
        [
            "MQTT::SUBSCRIBE | #,b | 2,0 | 1 | true",
            "MQTT::UNSUBSCRIBE | # | - | - | true",
            "MQTT::SUBSCRIBE | c | 1 | - | false",
        ]
    );
    assert_eq!(rows(&PROTOCOL, &talk, &["client_id", "mqtt.subscriptions"]), ["dev | #,b,c"], "one row");
}

#[test]
fn an_exchange_has_the_fields_of_its_client_and_its_own_topics() {
    let talk = CONNECT.to_owned() + "> 30 05 0003 \"a/b\"\n> 82 06 0001 0001 \"#\" 00\n< 90 03 0001 00\n";
    let conversation = crate::conversation::Conversation::parse(&talk);
    let (mut parser, mut sessions) = (MqttParser::default(), vec![]);
    for step in &conversation.steps {
        let crate::conversation::Act::Send(bytes) = &step.act else { continue };
        parser.parse(&Data { from: step.from, time: step.time, bytes, is_datagram: false }, &mut sessions);
    }
    let value = |session: &dyn Session, name: &str| {
        session.value(FIELDS.iter().position(|field| field.name == name).expect("a field")).into_owned()
    };
    let text = |text: &str| Value::Texts(vec![text.to_string()].into());
    let [message, change] = &sessions[..] else { panic!("before the connection ends") };
    assert!(!message.has_row() && !change.has_row());
    assert_eq!(value(&**message, "mqtt.clientid"), Value::Text("dev".into()));
    assert_eq!(value(&**message, "mqtt.topic"), text("a/b"));
    assert_eq!(value(&**change, "mqtt.subscriptions"), text("#"));
    assert_eq!(value(&**change, "mqtt.topic"), Value::Absent);
    assert!(message.time() < change.time());
}

#[test]
fn what_waits_is_bounded_and_what_is_given_up_is_counted() {
    let mut talk = CONNECT.to_owned() + "> 32 06 0001 \"a\" ffff \"x\"\n< 40 02 ffff\n";
    for number in 0..WAITING_MAX + 3 {
        talk += &format!("> 32 06 0001 \"a\" {number:04x} \"x\"\n");
    }
    assert_eq!(published(&talk).len(), 1 + WAITING_MAX + 3);
    let (mut parser, mut sessions) = (MqttParser::default(), vec![]);
    for step in &crate::conversation::Conversation::parse(&talk).steps {
        let crate::conversation::Act::Send(bytes) = &step.act else { continue };
        parser.parse(&Data { from: step.from, time: step.time, bytes, is_datagram: false }, &mut sessions);
    }
    assert_eq!((sessions.len(), parser.cut_off().parts), (1 + 3, 3));
}

#[test]
fn topics_of_a_subscription_are_bounded() {
    let topics = "0001 \"a\" 00".repeat(TOPICS_MAX + 2);
    let length = 2 + 4 * (TOPICS_MAX + 2);
    let request = format!("> 82 {:02x}{:02x} 0001 {topics}\n", length & 0x7f | 0x80, length >> 7);
    let kept = vec!["a"; TOPICS_MAX].join(",");
    assert_eq!(
        part_rows(&PROTOCOL, &subscription::LOG, &(CONNECT.to_owned() + &request), &["topics"]),
        [kept]
    );
    let body: Vec<u8> = std::iter::once(&[0, 1][..])
        .chain(vec![&b"\0\x01a\0"[..]; TOPICS_MAX + 2])
        .flatten()
        .copied()
        .collect();
    assert!(MqttSubscription::parse(false, &body, 4).is_some_and(|(_, number, cut)| (number, cut) == (1, 2)));
}
