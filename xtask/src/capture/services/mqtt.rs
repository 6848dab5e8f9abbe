//! MQTT: mosquitto's clients and server; the server logs every packet.

use super::Service;
use crate::capture::logs::{Row, between, cut, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "mqtt",
        shows: "mosquitto: 3.1, 3.1.1 and 5; QoS 0, 1 and 2; a retained message, a will, wildcards; many in one connection; a \
                user, a wrong password, nobody; a large message",
        script: SCRIPT,
    },
    tools: &[
        ("mosquitto", "mosquitto"),
        ("mosquitto_pub", "mosquitto-clients"),
        ("mosquitto_sub", "mosquitto-clients"),
        ("mosquitto_rr", "mosquitto-clients"),
    ],
    files: &[(
        "mosquitto.conf",
        "per_listener_settings true\nlistener 1883 198.51.100.10\nallow_anonymous true\n\
         listener 1884 198.51.100.10\nallow_anonymous false\npassword_file /run/lab/mosquitto.users\n\
         log_type all\nlog_dest stderr\nuser root\nconnection_messages true\n",
    )],
    stage: "mosquitto_passwd -c -b mosquitto.users alice weir",
    servers: &[("server", "mosquitto -c mosquitto.conf > mosquitto.log 2>&1")],
    listens: &["198.51.100.10:1883", "198.51.100.10:1884"],
    ask: "sleep 1",
    logs: &[
        ("mqtt", "connections (mosquitto)", connections),
        ("mqtt_messages", "messages published, there and back (mosquitto)", messages),
        ("mqtt_subscriptions", "subscriptions (mosquitto)", subscriptions),
    ],
};

const SCRIPT: &str = "
H='-h 198.51.100.10'
pub() { mosquitto_pub $H \"$@\" >> mosquitto-pub.out 2>&1; }
mosquitto_sub $H -i gauge4 -t 'weir/+/level' -t 'alarm/#' -q 2 -W 4 >> mosquitto-sub.out 2>&1 &
mosquitto_sub $H -i gauge5 -V mqttv5 -t 'weir/north/#' -q 1 -W 4 >> mosquitto-sub.out 2>&1 &
sleep 0.7
pub -i p31 -V mqttv31 -t weir/north/level -m 3.1; pub -i p311 -t weir/north/level -m 3.2 -q 1
pub -i p5 -V mqttv5 -t weir/north/level -m 3.3 -q 2 -D publish user-property unit metre -D connect session-expiry-interval 5
pub -i keeper -r -t weir/south/level -m 1.8; pub -i dying -t alarm/south -m flood --will-topic alarm/lost --will-payload gone --will-qos 1
seq 1 12 | pub -i lines -l -t weir/mill/level -q 1
seq 1 5 | pub -i alias -V mqttv5 -l -t weir/north/depth -D publish topic-alias 1
head -c 9000 /dev/zero | tr '\\0' w | pub -i large -s -t weir/north/picture
mosquitto_sub $H -i late -t weir/south/level -C 1 >> mosquitto-sub.out 2>&1
wait
pub -p 1884 -i let-in -u alice -P weir -t a -m b; fails 5 pub -p 1884 -i wrong -u alice -P dry -t a -m b
fails 5 pub -p 1884 -i nobody -t a -m b; fails 135 pub -p 1884 -V mqttv5 -i wrong5 -u alice -P dry -t a -m b
";

/// Connections: `New connection from 192.0.2.10:5000 on port 1883.`, then `New client connected from
/// 192.0.2.10:5000 as gauge (p2, c1, k60, u'alice').`, `No will message specified.` or `Will message
/// specified (4 bytes) (r0, q1).` and the topic, `Sending CONNACK to gauge (0, 0)`. For a rejected client the
/// log has the return code.
fn connections() -> Result<Vec<Row>> {
    let log = read("mosquitto.log")?;
    let lines: Vec<&str> = log.lines().collect();
    let mut rows: Vec<Row> = vec![];
    for (n, line) in lines.iter().enumerate() {
        let mut row =
            |port: &str, rest: Row| rows.push([vec![("client_port", port.to_string())], rest].concat());
        if line.contains(": New client connected from 192.0.2.10:") {
            let is_will = lines.get(n + 1).is_some_and(|next| next.contains(": Will message specified"));
            let topic =
                if is_will { lines.get(n + 2).map_or("", |next| between(next, "\t", "\n")) } else { "" };
            let client = cut(line, " as ", " (");
            let answer = format!("Sending CONNACK to {client} (");
            let answer = lines[n..].iter().find(|line| line.contains(&answer));
            row(
                between(line, "192.0.2.10:", " "),
                vec![
                    ("client_id", client),
                    ("version", cut(line, " (p", ",")),
                    ("keep_alive", cut(line, ", k", ")").split(',').next().unwrap_or("").to_string()),
                    ("user", cut(line, ", u'", "'")),
                    ("will_topic", topic.to_string()),
                    ("reason", answer.map_or(String::new(), |line| cut(line, ", ", ")"))),
                ],
            );
        } else if line.contains(": Sending CONNACK to 192.0.2.10 (") {
            // Refers to the last connection without a client name.
            let came =
                lines[..n].iter().rev().find(|line| line.contains(": New connection from 192.0.2.10:"));
            row(
                came.map_or("", |line| between(line, "192.0.2.10:", " ")),
                vec![("reason", cut(line, ", ", ")"))],
            );
        }
    }
    Ok(rows)
}

/// `Received PUBLISH from p311 (d0, q1, r0, m1, 'weir/north/level', ... (3 bytes))`,
/// `Sending PUBLISH to gauge4 (…)`
fn messages() -> Result<Vec<Row>> {
    let mut rows = vec![];
    for line in read("mosquitto.log")?.lines() {
        let from =
            ["Received PUBLISH from ", "Sending PUBLISH to "].iter().position(|words| line.contains(words));
        let Some(from) = from else { continue };
        rows.push(vec![
            ("client_id", cut(line, if from == 0 { " from " } else { " to " }, " (")),
            ("from", ["client", "server"][from].to_string()),
            ("topic", cut(line, ", '", "', ")),
            ("bytes", cut(line, "... (", " bytes")),
        ]);
    }
    Ok(rows)
}

/// `Received SUBSCRIBE from gauge4`, then one indented line per topic: `weir/+/level (QoS 2)`.
fn subscriptions() -> Result<Vec<Row>> {
    let (mut rows, mut client) = (vec![], None);
    for line in read("mosquitto.log")?.lines() {
        let said = line.split_once(": ").map_or("", |(_, said)| said);
        if let Some(id) = said.strip_prefix("Received SUBSCRIBE from ") {
            client = Some(id.to_string());
        } else if let (Some(id), Some(topic)) = (&client, said.strip_prefix('\t')) {
            let topic = topic.split(" (QoS").next().unwrap_or("");
            rows.push(vec![("client_id", id.clone()), ("topic", topic.to_string())]);
        } else if said.starts_with("Sending SUBACK") {
            client = None;
        }
    }
    Ok(rows)
}
