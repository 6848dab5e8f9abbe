//! Sessions in `examples/services.pcap` are compared with the peers' logs of the recording, protocol by
//! protocol.

use crate::support::{Capture, Found, Row, ask, distinct, same};
use std::cell::RefCell;
use weir::Engine;
use weir::sessions::bittorrent::TorrentHandshake;
use weir::sessions::dhcpv6::Dhcpv6Transaction;
use weir::sessions::modbus::ModbusTransaction;
use weir::sessions::mqtt::MqttConnection;
use weir::sessions::openvpn::OpenvpnHandshake;
use weir::sessions::postgresql::PgExchange;
use weir::sessions::radius::RadiusTransaction;
use weir::sessions::rdp::RdpConnection;
use weir::sessions::redis::RedisCommand;
use weir::sessions::rtp::RtpStream;
use weir::sessions::sip::SipTransaction;
use weir::sessions::snmp::SnmpConversation;
use weir::sessions::tls::TlsHandshake;
use weir::sessions::wireguard::WireguardHandshake;

static CAPTURE: Capture = Capture::new("services", ask_all);

fn ask_all<'c>(engine: &mut Engine<'c>, found: &'c RefCell<Found>) {
    ask::<TorrentHandshake>(engine, "bittorrent", found);
    ask::<Dhcpv6Transaction>(engine, "dhcpv6", found);
    ask::<ModbusTransaction>(engine, "modbus", found);
    ask::<MqttConnection>(engine, "mqtt", found);
    ask::<OpenvpnHandshake>(engine, "openvpn", found);
    ask::<PgExchange>(engine, "postgresql", found);
    ask::<RadiusTransaction>(engine, "radius", found);
    ask::<RdpConnection>(engine, "rdp", found);
    ask::<RedisCommand>(engine, "redis", found);
    ask::<RtpStream>(engine, "rtp", found);
    ask::<SipTransaction>(engine, "sip", found);
    ask::<SnmpConversation>(engine, "snmp", found);
    ask::<TlsHandshake>(engine, "tls", found);
    ask::<WireguardHandshake>(engine, "wireguard", found);
}

fn logged(log: &str) -> Vec<Row> {
    CAPTURE.logged(log)
}

fn sessions(protocol: &str) -> impl Iterator<Item = &'static Row> {
    CAPTURE.sessions(protocol)
}

#[track_caller]
fn assert_services(port: u32, wanted: &[(&str, usize)]) {
    CAPTURE.assert_services(port, wanted);
}

#[test]
fn postgresql_connections_are_those_that_the_server_logged() {
    let log = logged("postgresql_connections");
    let in_clear: Vec<_> = log.iter().filter(|row| row.is("tls", "false")).collect();
    let wanted = in_clear.iter().map(|row| {
        let method = match row.text("method") {
            "scram-sha-256" => "SASL",
            "md5" => "MD5",
            other => other,
        };
        // For refused connections the server logs neither program nor authentication method.
        let (method, program) =
            if row.is("let_in", "true") { (method, row.text("program")) } else { ("", "") };
        let mut values = row.texts(&["client_port", "user", "database", "let_in", "error", "text"]);
        values.extend([method.to_string(), program.to_string()]);
        values
    });
    let names = ["orig_p", "pgsql.user", "pgsql.database", "pgsql.success", "pgsql.error"];
    let found = sessions("postgresql").filter(|row| row.is("pgsql.request", "startup")).map(|row| {
        let mut values = row.texts(&names);
        let is_in = row.is("pgsql.success", "true");
        values.push(if is_in { "" } else { row.text("pgsql.text") }.to_string());
        for name in ["pgsql.authtype", "pgsql.application_name"] {
            values.push(if is_in { row.text(name) } else { "" }.to_string());
        }
        values
    });
    same(found.collect(), wanted.collect());
    let secret = log.len() - in_clear.len();
    let cancelled = logged("postgresql_statements").iter().filter(|row| row.is("error", "57014")).count();
    assert_services(5432, &[("postgresql", in_clear.len() + cancelled), ("postgresql,ssl", secret)]);
}

#[test]
fn postgresql_statements_are_those_that_the_server_logged() {
    let names = ["client_port", "query", "kind", "error", "text"];
    let secret = CAPTURE.of("postgresql_connections", "tls", "true");
    let is_secret = |row: &Row| secret.iter().any(|other| other.is("client_port", row.text("client_port")));
    let log = logged("postgresql_statements").into_iter().filter(|row| !is_secret(row));
    let wanted = log.map(|row| row.texts(&names));
    let asked = |row: &&Row| row.text("pgsql.request").ends_with("_query");
    let found = sessions("postgresql").filter(asked).map(|row| {
        let mut values = row.texts(&["orig_p", "pgsql.query"]);
        values.push(row.text("pgsql.request").trim_end_matches("_query").to_string());
        values.push(row.text("pgsql.error").to_string());
        let text = if row.is("pgsql.error", "") { "" } else { row.text("pgsql.text") };
        values.push(text.to_string());
        values
    });
    same(found.collect(), wanted.collect());
}

#[test]
fn results_of_postgresql_are_those_that_psql_shows() {
    let wanted = logged("postgresql_results").into_iter().map(|row| {
        let rows = if row.is("rows", "") { "0" } else { row.text("rows") };
        // psql prints no tag below a table.
        let tag = if row.is("tag", "") { format!("SELECT {rows}") } else { row.text("tag").to_string() };
        vec![row.text("query").to_string(), rows.to_string(), tag]
    });
    let by_program = |row: &&Row| {
        row.is("pgsql.request", "simple_query")
            && row.is("pgsql.error", "")
            && row.text("pgsql.query").ends_with(';')
    };
    let names = ["pgsql.query", "pgsql.rows", "pgsql.tag"];
    same(sessions("postgresql").filter(by_program).map(|row| row.texts(&names)).collect(), wanted.collect());
}

#[test]
fn redis_commands_are_those_that_were_monitored() {
    let names = ["client_port", "command", "key", "value", "arguments"];
    let wanted = logged("redis").into_iter().map(|row| {
        let mut values = row.texts(&names);
        // We keep the beginning of long values.
        values[3].truncate(256);
        // The value of EVAL is its first argument, the script.
        if values[1] == "EVAL" {
            values[3] = values[2].clone();
            values[2] = "name".into();
        }
        values
    });
    let names = ["orig_p", "redis.cmd.name", "redis.cmd.key", "redis.cmd.value", "redis.arguments"];
    // MONITOR shows neither invalid commands nor CONFIG.
    let is_told = |row: &&Row| {
        let reply = row.text("redis.reply.value");
        !["AUTH", "ECHO", "CONFIG"].contains(&row.text("redis.cmd.name"))
            && !reply.starts_with("ERR unknown")
            && !reply.starts_with("ERR wrong number")
    };
    same(sessions("redis").filter(is_told).map(|row| row.texts(&names)).collect(), wanted.collect());
}

#[test]
fn replies_of_redis_are_those_that_redis_cli_shows() {
    let log = logged("redis_replies");
    let found: Vec<_> = sessions("redis").take(log.len()).collect();
    for (row, wanted) in found.iter().zip(&log) {
        let name = wanted.text("command").split(' ').next().unwrap().to_uppercase();
        assert_eq!(row.text("redis.cmd.name"), name);
        let reply = match name.as_str() {
            // For an array our reply is its number of elements.
            "LRANGE" | "HGETALL" => wanted.text("reply").split(' ').count().to_string(),
            _ => wanted.text("reply").to_string(),
        };
        assert_eq!(row.text("redis.reply.value").trim_end(), reply, "{wanted:?}");
    }
    let errors: u64 =
        logged("redis_errors").iter().map(|row| row.text("count").parse::<u64>().unwrap()).sum();
    assert_eq!(sessions("redis").filter(|row| row.is("redis.success", "false")).count() as u64, errors);
    let users =
        sessions("redis").filter(|row| row.is("redis.cmd.name", "AUTH")).map(|row| row.text("redis.cmd.key"));
    assert_eq!(users.collect::<Vec<_>>(), ["alice", "alice"], "one of them with a wrong password");
    let connections = CAPTURE.connections().iter().filter(|c| c.resp_p == 6379).count();
    assert_services(6379, &[("redis", connections)]);
}

#[test]
fn mqtt_connections_are_those_that_mosquitto_logged() {
    let log = logged("mqtt");
    let names = ["client_port", "client_id", "keep_alive", "user", "will_topic", "reason"];
    let (let_in, refused): (Vec<_>, Vec<_>) = log.iter().partition(|row| row.is("reason", "0"));
    let wanted = let_in.iter().map(|row| {
        let version = ["3", "4", "", "", "5"][row.text("version").parse::<usize>().unwrap() - 1];
        [row.texts(&names), vec![version.to_string()]].concat()
    });
    let names = [
        "orig_p",
        "mqtt.clientid",
        "mqtt.kalive",
        "mqtt.username",
        "mqtt.willtopic",
        "mqtt.conack.val",
        "mqtt.ver",
    ];
    let is_in = |row: &&Row| row.is("mqtt.conack.val", "0");
    same(sessions("mqtt").filter(is_in).map(|row| row.texts(&names)).collect(), wanted.collect());
    let wanted = refused.iter().map(|row| row.texts(&["client_port", "reason"])).collect();
    let names = ["orig_p", "mqtt.conack.val"];
    same(sessions("mqtt").filter(|row| !is_in(row)).map(|row| row.texts(&names)).collect(), wanted);
    let at = |port: &str| sessions("mqtt").filter(|row| row.is("resp_p", port)).count();
    assert_services(1883, &[("mqtt", at("1883"))]);
    assert_services(1884, &[("mqtt", at("1884"))]);
}

#[test]
fn mqtt_messages_are_those_that_mosquitto_logged() {
    let mut wanted = vec![];
    let (messages, subscriptions) = (logged("mqtt_messages"), logged("mqtt_subscriptions"));
    for connection in logged("mqtt").iter().filter(|row| row.is("reason", "0")) {
        let id = connection.text("client_id");
        let of_it = || messages.iter().filter(|row| row.is("client_id", id));
        let count = |from: &str| of_it().filter(|row| row.is("from", from)).count().to_string();
        let mut topics: Vec<&str> = vec![];
        of_it().map(|row| row.text("topic")).for_each(|topic| {
            if !topics.contains(&topic) {
                topics.push(topic);
            }
        });
        let asked = subscriptions.iter().filter(|row| row.is("client_id", id)).map(|row| row.text("topic"));
        let asked = asked.collect::<Vec<_>>().join(" ");
        wanted.push(vec![id.to_string(), count("client"), count("server"), topics.join(" "), asked]);
    }
    let names = [
        "mqtt.clientid",
        "mqtt.client_publishes",
        "mqtt.server_publishes",
        "mqtt.topic",
        "mqtt.subscriptions",
    ];
    let is_in = |row: &&Row| row.is("mqtt.conack.val", "0");
    same(sessions("mqtt").filter(is_in).map(|row| row.texts(&names)).collect(), wanted);
}

#[test]
fn snmp_packets_are_as_many_as_the_agent_logged() {
    let log = logged("snmp");
    let flows = |port: u32| CAPTURE.connections().iter().filter(move |c| c.resp_p == port);
    let wanted: Vec<_> = log.iter().map(|row| row.texts(&["client", "client_port"])).collect();
    let found = flows(161).flat_map(|c| {
        let flow = vec![c.orig_h.to_string(), c.orig_p.to_string()];
        vec![flow; c.packets[0] as usize]
    });
    same(found.collect(), wanted);
    let counted =
        |counter: &str| CAPTURE.of("snmp_counters", "counter", counter)[0].text("value").to_string();
    assert_eq!(counted("1"), (log.len() + 1).to_string(), "the one that asks for it");
    let guessed = sessions("snmp").filter(|row| row.is("snmp.community", "guess")).count();
    assert_eq!(counted("4"), guessed.to_string());
    assert_services(161, &[("snmp", distinct(&log, "client_port"))]);
    assert_services(162, &[("snmp", logged("snmp_traps").len())]);
}

#[test]
fn snmp_variables_are_those_that_the_tools_show() {
    let shown = logged("snmp_values");
    let names: Vec<&str> = sessions("snmp").flat_map(|row| row.text("snmp.name").split(' ')).collect();
    // The encrypted PDUs of version 3 are not visible.
    let secret = "1.3.6.1.2.1.1.6.0";
    let wanted = shown.iter().map(|row| row.text("name"));
    // We keep a limited number of names per conversation.
    let bulk = |name: &str| name.starts_with("1.3.6.1.2.1.2.2.1.");
    for name in wanted.filter(|name| !bulk(name)) {
        assert!(names.contains(&name) || name == secret, "{name}");
    }
    let described = shown.iter().find(|row| row.is("name", "1.3.6.1.2.1.1.1.0")).unwrap();
    let description =
        sessions("snmp").map(|row| row.text("snmp.display_string")).find(|text| !text.is_empty());
    assert_eq!(format!("STRING: {:?}", description.unwrap()), described.text("value"));
    for trap in logged("snmp_traps") {
        let row = sessions("snmp").find(|row| row.is("orig_p", trap.text("client_port"))).unwrap();
        assert_eq!(row.text("snmp.name"), trap.text("names"));
    }
}

#[test]
fn radius_requests_are_those_that_freeradius_logged() {
    let log = logged("radius");
    let (answers, requests): (Vec<_>, Vec<_>) = log
        .iter()
        .partition(|row| !row.text("kind").ends_with("-Request") && !row.is("kind", "Status-Server"));
    let names = ["client_port", "id", "kind", "user", "called", "nas", "nas_name", "connect_info", "session"];
    let wanted = requests.iter().map(|row| {
        let mut values = row.texts(&names);
        let of_it = |other: &&&Row| ["client_port", "id"].iter().all(|name| other.is(name, row.text(name)));
        let answer = answers.iter().find(of_it).unwrap();
        values.push(answer.text("kind").to_string());
        values.push(answer.text("reply").to_string());
        values.push(row.text("station").replace('-', ":").to_lowercase());
        let address = if answer.is("address", "") { row } else { answer };
        values.push(address.text("address").to_string());
        let status = ["", "Start", "Stop", "Interim-Update"].iter().position(|name| row.is("status", name));
        values.push(status.filter(|status| *status > 0).map_or(String::new(), |status| status.to_string()));
        values
    });
    let names = [
        "orig_p",
        "radius.id",
        "radius.code_name",
        "radius.User_Name",
        "radius.Called_Station_Id",
        "radius.NAS_IP_Address",
        "radius.NAS_Identifier",
        "radius.Connect_Info",
        "radius.Acct_Session_Id",
        "radius.response",
        "radius.Reply_Message",
        "radius.Calling_Station_Id",
        "radius.Framed_IP_Address",
        "radius.Acct_Status_Type",
    ];
    same(sessions("radius").map(|row| row.texts(&names)).collect(), wanted.collect());
    let at = |port: &str| distinct(&CAPTURE.of("radius", "server_port", port), "client_port");
    assert_services(1812, &[("radius", at("1812"))]);
    assert_services(1813, &[("radius", at("1813"))]);
}

#[test]
fn modbus_requests_are_those_that_the_controller_logged() {
    let log = logged("modbus");
    let names = ["client_port", "transaction", "unit", "function", "address", "exception"];
    let wanted = log.iter().map(|row| row.texts(&names)).collect();
    let names = [
        "orig_p",
        "mbtcp.trans_id",
        "mbtcp.unit_id",
        "modbus.func_code",
        "modbus.reference_num",
        "modbus.exception_code",
    ];
    // A missing unit does not answer and is not logged.
    let is_answered = |row: &&Row| row.is("modbus.pdu_type", "RESP");
    let found: Vec<_> = sessions("modbus").filter(is_answered).collect();
    same(found.iter().map(|row| row.texts(&names)).collect(), wanted);
    let names = ["client_port", "transaction", "count"];
    let wanted = log.iter().filter(|row| !row.is("count", "")).map(|row| row.texts(&names)).collect();
    let names = ["orig_p", "mbtcp.trans_id", "modbus.word_cnt"];
    let told = |row: &&&Row| {
        !["5", "6", "15"].contains(&row.text("modbus.func_code")) && !row.is("modbus.word_cnt", "")
    };
    same(found.iter().filter(told).map(|row| row.texts(&names)).collect(), wanted);
    let silent = sessions("modbus").filter(|row| !is_answered(row)).count();
    assert_eq!(silent, 1, "the unit that is not there");
    assert_services(502, &[("modbus", distinct(&log, "client_port") + silent)]);
}

#[test]
fn sip_requests_are_those_that_kamailio_logged() {
    let log = logged("sip");
    let names = ["client_port", "method", "uri", "call_id", "agent", "code", "reason"];
    // Kamailio skips ACKs of its own refusals, so ACKs are not compared. It answers CANCEL itself, but logs
    // the next hop's reason.
    let wanted = log.iter().filter(|row| !row.is("method", "ACK")).map(|row| {
        let sequence = format!("{} {}", row.text("sequence"), row.text("method"));
        let mut values = row.texts(&names);
        if row.is("method", "CANCEL") {
            values[6] = "canceling".into();
        }
        [values, vec![row.text("from").into(), row.text("to").into(), sequence]].concat()
    });
    let names = [
        "orig_p",
        "sip.Method",
        "sip.r-uri",
        "sip.Call-ID",
        "sip.User-Agent",
        "sip.Status-Code",
        "sip.Reason-Phrase",
    ];
    // The proxy logs addresses without names and tags.
    let address = |text: &str| {
        let text = text.split_once('<').map_or(text, |(_, rest)| rest);
        text.split(['>']).next().unwrap().split(";tag=").next().unwrap().to_string()
    };
    let over_udp = sessions("sip").filter(|row| !row.is("resp_p", "5080") && !row.is("sip.Method", "ACK"));
    let found = over_udp.map(|row| {
        let ends = ["sip.From", "sip.To"].map(|name| address(row.text(name)));
        [row.texts(&names), ends.to_vec(), vec![row.text("sip.CSeq").to_string()]].concat()
    });
    same(found.collect(), wanted.collect());
    assert_services(5060, &[("sip", distinct(&log, "client_port"))]);
}

#[test]
fn calls_over_tcp_are_those_that_sipp_made() {
    let names = ["method", "uri", "call_id", "sequence", "code"];
    let wanted = logged("sip_tcp").into_iter().map(|row| row.texts(&names));
    let names = ["sip.Method", "sip.r-uri", "sip.Call-ID", "sip.CSeq", "sip.Status-Code"];
    let found = sessions("sip").filter(|row| row.is("resp_p", "5080"));
    same(found.map(|row| row.texts(&names)).collect(), wanted.collect());
    assert_services(5080, &[("sip", 1)]);
}

/// An end's statistics are those of its last report; it sends media for some seconds after it.
#[test]
fn streams_of_a_call_are_what_its_end_reported() {
    let number = |row: &Row, name: &str| row.text(name).parse::<u64>().unwrap();
    let log = logged("rtp");
    assert_eq!(log.len(), 1);
    let end = &log[0];
    let side = |row: &Row, is_sender: bool| {
        let is_orig = row.is("rtp.is_orig", "true") == is_sender;
        number(row, if is_orig { "orig_p" } else { "resp_p" })
    };
    let port = number(end, "port");
    let streams: Vec<_> = sessions("rtp").filter(|row| number(row, "rtp.packets") > 0).collect();
    assert_eq!(streams.len(), 2);
    for (what, is_sender) in [("sent", true), ("received", false)] {
        let stream = streams.iter().find(|row| side(row, is_sender) == port).unwrap();
        assert_eq!(stream.texts(&["rtp.payload", "rtp.lost"]), ["PCMU", "0"]);
        assert!(number(stream, "rtp.packets") >= number(end, what), "{what}: {stream:?}");
    }
    assert_eq!(end.text("lost"), "0,0");
    let reported = sessions("rtp").find(|row| side(row, true) == port + 1).unwrap();
    assert!(number(reported, "rtcp.sender.packetcount") >= number(end, "sent"), "{reported:?}");
}

#[test]
fn wireguards_handshakes_and_bytes_are_those_that_it_logged() {
    let servers = logged("wireguard_bytes");
    let wanted = logged("wireguard").into_iter().map(|row| {
        let server = servers.iter().find(|other| other.is("client", row.text("client"))).unwrap();
        let result = if row.is("answered", "true") { "answered" } else { "unanswered" };
        vec![server.text("server").rsplit_once(':').unwrap().0.replace(['[', ']'], ""), result.to_string()]
    });
    let names = ["resp_h", "wireguard.result"];
    same(sessions("wireguard").map(|row| row.texts(&names)).collect(), wanted.collect());
    let flows = || CAPTURE.connections().iter().filter(|c| c.resp_p == 51820);
    let found = flows().map(|c| c.bytes.unwrap_or([148, 0]).map(|bytes| bytes.to_string()).to_vec());
    same(found.collect(), servers.iter().map(|row| row.texts(&["sent", "received"])).collect());
    assert_services(51820, &[("wireguard", servers.len())]);
}

#[test]
fn openvpns_first_packets_are_those_that_it_logged() {
    let log = logged("openvpn");
    let names = ["server_port", "client_port", "protection", "server_sid"];
    let wanted = log.iter().map(|row| row.texts(&names)).collect();
    let names = ["resp_p", "orig_p", "openvpn.protection", "openvpn.rsessionid"];
    same(sessions("openvpn").map(|row| row.texts(&names)).collect(), wanted);
    let wanted = log.iter().filter(|row| !row.is("client_sid", ""));
    for row in wanted {
        let found = sessions("openvpn").find(|found| found.is("orig_p", row.text("client_port"))).unwrap();
        assert_eq!(found.text("openvpn.sessionid"), row.text("client_sid"));
    }
    let digest = |port: &str| {
        let row = sessions("openvpn").find(|row| row.is("resp_p", port)).unwrap();
        row.text("openvpn.hmac_length").to_string()
    };
    assert_eq!(["1195", "1196", "1200"].map(digest), ["20", "32", "20"], "as it is set up");
    // TLS is inside once a server answers, and readable unless these packets are encrypted.
    for row in &log {
        let has_tls = !row.is("server_sid", "") && !row.text("protection").starts_with("tls-crypt");
        let service = if has_tls { "openvpn,ssl" } else { "openvpn" };
        assert_services(row.text("server_port").parse().unwrap(), &[(service, 1)]);
    }
}

/// The client sends to a multicast group, and the server answers from its own address: two flows, one per
/// direction.
#[test]
fn dhcpv6_messages_are_those_that_dnsmasq_logged() {
    let log = logged("dhcpv6");
    let messages = |row: &Row| {
        let [id, duid] = ["dhcpv6.xid", "dhcpv6.duid.bytes"].map(|name| row.text(name).to_string());
        let types = row.text("dhcpv6.msg_types").split(' ').map(String::from);
        types.map(|kind| vec![id.clone(), kind, duid.clone()]).collect::<Vec<_>>()
    };
    // dnsmasq does not log the reply to a release.
    let mut wanted: Vec<_> = log.iter().map(|row| row.texts(&["id", "type", "duid"])).collect();
    let release = wanted.iter().find(|row| row[1] == "RELEASE").unwrap();
    wanted.push(vec![release[0].clone(), "REPLY".into(), release[2].clone()]);
    // dnsmasq does not log replies to information requests.
    let informed: Vec<_> = wanted.iter().filter(|row| row[1] == "INFORMATION-REQUEST").cloned().collect();
    wanted.extend(informed.into_iter().map(|row| vec![row[0].clone(), "REPLY".into(), row[2].clone()]));
    same(sessions("dhcpv6").flat_map(messages).collect(), wanted);
    for row in log.iter().filter(|row| row.is("type", "ADVERTISE")) {
        let given = sessions("dhcpv6").filter(|found| found.is("dhcpv6.xid", row.text("id")));
        assert!(given.into_iter().any(|found| found.is("dhcpv6.iaaddr.ip", row.text("address"))));
    }
    assert!(sessions("dhcpv6").any(|row| row.is("dhcpv6.client_fqdn", "reader.example.com")));
    assert!(sessions("dhcpv6").any(|row| row.is("dhcpv6.dns_server", "2001:db8:2::10")));
}

#[test]
fn bittorrent_handshakes_are_those_that_aria2_logged() {
    let log = logged("bittorrent");
    let (secret, in_clear): (Vec<_>, Vec<_>) = log.iter().partition(|row| row.is("encrypted", "true"));
    let names = ["client_port", "info_hash", "client", "server", "reserved"];
    let wanted = in_clear.iter().map(|row| row.texts(&names)).collect();
    let names = [
        "orig_p",
        "bittorrent.info_hash",
        "bittorrent.orig_peer",
        "bittorrent.resp_peer",
        "bittorrent.reserved",
    ];
    same(sessions("bittorrent").map(|row| row.texts(&names)).collect(), wanted);
    assert_services(6881, &[("-", secret.len()), ("bittorrent", in_clear.len())]);
}

#[test]
fn rdp_connections_are_those_that_xrdp_logged() {
    let log = logged("rdp");
    let wanted = log.iter().map(|row| {
        let bits: u32 = row
            .text("requested")
            .split('|')
            .map(|name| ["RDP", "SSL", "HYBRID"].iter().position(|n| *n == name).unwrap() as u32)
            .sum();
        let selected = row.text("selected");
        // Settings behind TLS are not visible.
        let seen = |name: &str| if selected == "RDP" { row.text(name).to_string() } else { String::new() };
        let keyboard = seen("keyboard");
        let keyboard = u32::from_str_radix(keyboard.trim_start_matches("0x"), 16)
            .map_or(String::new(), |n| n.to_string());
        let level = if row.is("level", "high") { "High" } else { "" };
        let mut values = vec![
            row.text("client_port").to_string(),
            if bits == 0 { String::new() } else { bits.to_string() },
            selected.to_string(),
        ];
        values.extend([seen("name"), seen("channels"), keyboard, level.to_string()]);
        values
    });
    let names = [
        "orig_p",
        "rdp.negReq.requestedProtocols",
        "rdp.security_protocol",
        "rdp.client.name",
        "rdp.client_channels",
        "rdp.keyboardLayout",
        "rdp.encryption_level",
    ];
    same(sessions("rdp").map(|row| row.texts(&names)).collect(), wanted.collect());
    let own = sessions("rdp").find(|row| row.is("rdp.security_protocol", "RDP")).unwrap();
    assert_eq!(own.text("rdp.cert_type"), "RSA", "as it is set up");
    // A client that requests a security protocol without server support disconnects before TLS.
    assert_services(3389, &[("rdp", 2), ("rdp,ssl", 1)]);
}

#[test]
fn frames_are_as_many_as_tcpdump_recorded() {
    CAPTURE.assert_frames();
}
