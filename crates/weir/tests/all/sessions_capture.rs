//! Sessions in `examples/sessions.pcap` are compared with the servers' logs of the recording: thirteen
//! protocols, row by row. For servers without a log the client's output is used.

use crate::support::{Capture, Found, Row, ask, distinct, same};
use std::cell::RefCell;
use weir::Engine;
use weir::sessions::dhcp::DhcpTransaction;
use weir::sessions::dns::DnsTransaction;
use weir::sessions::dtls::DtlsHandshake;
use weir::sessions::ftp::FtpExchange;
use weir::sessions::http::HttpExchange;
use weir::sessions::imap::ImapConnection;
use weir::sessions::ntp::NtpMessage;
use weir::sessions::pop3::Pop3Connection;
use weir::sessions::quic::QuicHandshake;
use weir::sessions::smtp::SmtpTransaction;
use weir::sessions::ssh::SshHandshake;
use weir::sessions::stun::StunTransaction;
use weir::sessions::tls::TlsHandshake;

static CAPTURE: Capture = Capture::new("sessions", ask_all);

fn ask_all<'c>(engine: &mut Engine<'c>, found: &'c RefCell<Found>) {
    ask::<DhcpTransaction>(engine, "dhcp", found);
    ask::<DnsTransaction>(engine, "dns", found);
    ask::<DtlsHandshake>(engine, "dtls", found);
    ask::<FtpExchange>(engine, "ftp", found);
    ask::<HttpExchange>(engine, "http", found);
    ask::<ImapConnection>(engine, "imap", found);
    ask::<NtpMessage>(engine, "ntp", found);
    ask::<Pop3Connection>(engine, "pop3", found);
    ask::<QuicHandshake>(engine, "quic", found);
    ask::<SmtpTransaction>(engine, "smtp", found);
    ask::<SshHandshake>(engine, "ssh", found);
    ask::<StunTransaction>(engine, "stun", found);
    ask::<TlsHandshake>(engine, "tls", found);
}

fn logged(log: &str) -> Vec<Row> {
    CAPTURE.logged(log)
}

fn of(log: &str, name: &str, value: &str) -> Vec<Row> {
    CAPTURE.of(log, name, value)
}

fn sessions(protocol: &str) -> impl Iterator<Item = &'static Row> {
    CAPTURE.sessions(protocol)
}

#[track_caller]
fn assert_services(port: u32, wanted: &[(&str, usize)]) {
    CAPTURE.assert_services(port, wanted);
}

#[test]
fn http_requests_are_those_that_nginx_logged() {
    let to_nginx = |port: &str| port == "80" || port == "8080";
    let mut wanted = vec![];
    for row in logged("http").iter().filter(|row| to_nginx(row.text("server_port"))) {
        let names = ["client", "client_port", "method", "uri", "status", "host", "user", "user_agent"];
        let mut values = row.texts(&names);
        values.push(row.text("version").replace("HTTP/", "").replace("2.0", "2"));
        values.push(row.text("content_encoding").to_string());
        values.push(row.text("transfer_encoding").to_string());
        values.push(row.text("content_length").to_string());
        // nginx includes chunk headers in the length; `http_clients` has the length without them.
        let is_chunked = row.text("transfer_encoding") == "chunked";
        values.push(if is_chunked { "chunked" } else { row.text("body_bytes") }.to_string());
        wanted.push(values);
    }
    let mut rows = vec![];
    for row in sessions("http").filter(|row| to_nginx(row.text("resp_p"))) {
        let mut values = row.texts(&[
            "orig_h",
            "orig_p",
            "http.request.method",
            "http.request.uri",
            "http.response.code",
            "http.host",
            "http.authbasic.user",
            "http.user_agent",
            "http.version",
            "http.content_encoding",
        ]);
        // The field has the codings of both sides; nginx logs only the response's.
        let of_request = row.text("http.request.line").contains("Transfer-Encoding: chunked");
        let codings = row.text("http.transfer_encoding");
        let codings = if of_request { codings.replacen("chunked", "", 1) } else { codings.to_string() };
        values.push(codings.trim().to_string());
        // A chunked request has no length; nginx logs 0.
        values.push(if of_request { "0" } else { row.text("http.request.content_length") }.to_string());
        let body_bytes: u64 = row.text("http.response.body_bytes").parse().unwrap();
        // nginx includes `HTTP/1.1 100 Continue` in the length.
        let interim_bytes = if row.text("http.info.code") == "100" { 25 } else { 0 };
        let is_chunked = codings.trim() == "chunked";
        values.push(if is_chunked { "chunked".into() } else { (body_bytes + interim_bytes).to_string() });
        rows.push(values);
    }
    same(rows, wanted);
    assert_services(80, &[("http", distinct(&of("http", "server_port", "80"), "client_port"))]);
    assert_services(8080, &[("http", distinct(&of("http", "server_port", "8080"), "client_port"))]);
}

#[test]
fn http_bodies_are_as_long_as_curl_says() {
    let names = ["client_port", "method", "url", "status", "sent_bytes", "received_bytes"];
    let wanted: Vec<_> = logged("http_clients").iter().map(|row| row.texts(&names)).collect();
    let names = [
        "orig_p",
        "http.request.method",
        "http.request.full_uri",
        "http.response.code",
        "http.request.body_bytes",
        "http.response.body_bytes",
    ];
    let by_curl =
        |row: &&Row| ["curl/", "Weir/"].iter().any(|name| row.text("http.user_agent").starts_with(name));
    // curl reports only the last of several redirected requests, and includes chunk headers in the length it
    // sent.
    let told = |row: &&Row| !["101", "301"].contains(&row.text("http.response.code"));
    let in_clear = |row: &&Row| row.text("http.request.method") != "CONNECT";
    let mut rows = vec![];
    for row in sessions("http").filter(by_curl).filter(told).filter(in_clear) {
        let mut values = row.texts(&names);
        if row.text("http.request.line").contains("Transfer-Encoding: chunked") {
            let lines_bytes = "5dc0\r\n".len() + "\r\n0\r\n\r\n".len();
            values[4] = (values[4].parse::<usize>().unwrap() + lines_bytes).to_string();
        }
        rows.push(values);
    }
    same(rows, wanted);
}

#[test]
fn requests_to_the_proxy_are_those_that_tinyproxy_logged() {
    let wanted = logged("proxy").iter().map(|row| row.texts(&["method", "uri", "version"])).collect();
    let names = ["http.request.method", "http.request.uri", "http.request.version"];
    let asked = || sessions("http").filter(|row| row.text("resp_p") == "8888");
    same(asked().map(|row| row.texts(&names)).collect(), wanted);
    let wanted: Vec<_> = logged("proxied_tls")
        .iter()
        .map(|row| vec![row.text("server_name").to_string(), row.text("version").replace('.', "")])
        .collect();
    let (behind, requests) = (wanted.len(), logged("proxy").len());
    let names = ["tls.handshake.extensions_server_name", "tls.version"];
    let handshakes = sessions("tls").filter(|row| row.text("resp_p") == "8888");
    same(handshakes.map(|row| row.texts(&names)).collect(), wanted);
    assert_services(8888, &[("http", requests - behind), ("http,ssl", behind)]);
}

/// The request is HTTP/1.1, its response the first stream of HTTP/2: one row.
#[test]
fn what_is_upgraded_to_http2_is_what_nghttpx_logged() {
    let rows = of("http", "server_port", "8081");
    let names = [
        "orig_p",
        "http.request.method",
        "http.request.uri",
        "http.response.code",
        "http.response.body_bytes",
        "http2.streamid",
        "http.info.code",
    ];
    let here = sessions("http").filter(|row| row.text("resp_p") == "8081");
    let stream = |row: &Row| {
        let logged = row.texts(&["client_port", "method", "uri", "status", "body_bytes"]);
        [logged, vec!["1".into(), "101".into()]].concat()
    };
    same(here.map(|row| row.texts(&names)).collect(), rows.iter().map(stream).collect());
}

#[test]
fn dns_queries_are_those_that_dnsmasq_logged() {
    let mut wanted = vec![];
    for row in logged("dns") {
        let answers = row.text("answers");
        let (code, answers) = match answers.split(' ').next().unwrap() {
            "NXDOMAIN" => ("NXDOMAIN", String::new()),
            "REFUSED" => ("REFUSED", String::new()),
            first if first.starts_with("NODATA") => ("NOERROR", String::new()),
            _ => ("NOERROR", answers.to_string()),
        };
        // The log omits other record types.
        let answers = answers.split(' ').filter(|word| !word.starts_with('<')).collect::<Vec<_>>().join(" ");
        let mut values = row.texts(&["client", "client_port", "type"]);
        values.extend([row.text("name").to_lowercase(), code.into(), answers]);
        wanted.push(values);
    }
    let mut rows = vec![];
    for row in sessions("dns") {
        let mut values = row.texts(&["orig_h", "orig_p", "dns.qtype_name", "dns.qry.name", "dns.rcode_name"]);
        // Answers to MX and SRV come with addresses, which the log omits, too.
        values.push(match row.text("dns.qtype_name") {
            "A" => row.text("dns.a").into(),
            "AAAA" => row.text("dns.aaaa").into(),
            "PTR" => row.text("dns.ptr.domain_name").into(),
            _ => String::new(),
        });
        rows.push(values);
    }
    same(rows, wanted);
    // As configured.
    for (kind, name, wanted) in [
        ("MX", "dns.mx.mail_exchange", "mail.example.com"),
        ("SRV", "dns.srv.target", "mail.example.com"),
        ("SRV", "dns.srv.port", "143"),
        ("TXT", "dns.txt", "v=spf1 mx -all"),
    ] {
        let row = sessions("dns").find(|row| row.text("dns.qtype_name") == kind).unwrap();
        assert_eq!(row.text(name), wanted);
    }
    let flows =
        |proto: &str| CAPTURE.connections().iter().filter(|c| c.resp_p == 53 && c.proto == proto).count();
    assert!(flows("tcp") == 3 && CAPTURE.connections().iter().any(|c| c.orig_p > 0 && c.orig_h.is_ipv6()));
    assert_services(53, &[("dns", flows("tcp") + flows("udp"))]);
}

/// If the negotiated cipher authenticates itself, ssh prints `<implicit>` for the MAC.
#[test]
fn ssh_is_what_the_client_says_of_it() {
    let names =
        ["client_port", "client", "server", "kex", "host_key_alg", "cipher", "compression", "host_key"];
    let wanted: Vec<_> = logged("ssh").iter().map(|row| row.texts(&names)).collect();
    assert_services(22, &[("ssh", wanted.len())]);
    let names = [
        "orig_p",
        "ssh.client",
        "ssh.server",
        "ssh.kex_alg",
        "ssh.host_key_alg",
        "ssh.cipher_alg",
        "ssh.compression_alg",
        "ssh.host_key.fingerprint",
    ];
    same(sessions("ssh").map(|row| row.texts(&names)).collect(), wanted);
    for row in logged("ssh").iter().filter(|row| row.text("mac") != "<implicit>") {
        let here = sessions("ssh").find(|found| found.text("orig_p") == row.text("client_port")).unwrap();
        assert_eq!(here.text("ssh.mac_alg"), row.text("mac"));
    }
}

#[test]
fn mails_are_those_that_exim_took() {
    let mails = logged("smtp");
    let (secret, open): (Vec<Row>, Vec<Row>) = mails.into_iter().partition(|row| !row.text("tls").is_empty());
    let names = ["client_port", "helo", "from", "to", "subject", "user"];
    let id = |row: &Row, name: &str| row.text(name).trim_matches(['<', '>']).to_string();
    let with_id = |row: &Row| [row.texts(&names), vec![id(row, "message_id")]].concat();
    let wanted: Vec<_> = open.iter().map(with_id).collect();
    let names =
        ["orig_p", "smtp.helo", "smtp.mail_from", "smtp.rcpt_to", "imf.subject", "smtp.auth.username"];
    let whole = sessions("smtp").filter(|row| !row.text("imf.message_id").is_empty());
    let with_id = |row: &Row| [row.texts(&names), vec![id(row, "imf.message_id")]].concat();
    same(whole.map(with_id).collect(), wanted);

    let refused = logged("smtp_refused");
    let wanted = refused.iter().map(|row| row.texts(&["client_port", "from", "to"])).collect();
    let names = ["orig_p", "smtp.mail_from", "smtp.rcpt_to"];
    let without = sessions("smtp").filter(|row| row.text("imf.message_id").is_empty());
    let without = without.filter(|row| row.text("smtp.tls") == "false");
    same(without.map(|row| row.texts(&names)).collect(), wanted);

    let wanted = secret.iter().map(|row| row.texts(&["client_port", "helo"])).collect();
    let gone_over = sessions("smtp").filter(|row| row.text("smtp.tls") == "true");
    same(gone_over.map(|row| row.texts(&["orig_p", "smtp.helo"])).collect(), wanted);
    let tls = |row: &Row| {
        vec![row.text("client_port").into(), row.text("server_name").into(), row.text("tls").replace('.', "")]
    };
    let names = ["orig_p", "tls.handshake.extensions_server_name", "tls.version"];
    let found = sessions("tls").filter(|row| row.text("resp_p") == "25").map(|row| row.texts(&names));
    same(
        found.map(|row| vec![row[0].clone(), row[1].clone(), row[2].replace('v', "")]).collect(),
        secret.iter().map(tls).collect(),
    );
    let open = distinct(&open, "client_port") + refused.len();
    assert_services(25, &[("smtp", open), ("smtp,ssl", secret.len())]);
}

/// The user is not visible on connections that switch to TLS.
fn mailboxes(protocol: &str, names: [&str; 4]) {
    let all = of("mailboxes", "protocol", protocol);
    let wanted = |row: &Row| {
        let seen = |name: &str| if row.text("tls") == "true" { "" } else { row.text(name) }.to_string();
        let logged_in = if seen("let_in").is_empty() { "false".into() } else { seen("let_in") };
        vec![row.text("client_port").into(), seen("user"), logged_in, row.text("tls").into()]
    };
    let mut rows = vec![];
    for row in sessions(protocol) {
        let [user, logged_in, tls, mechanism] = names.map(|name| row.text(name).to_string());
        // The methods are USER with poplib and LOGIN with imaplib; dovecot logs the former as PLAIN.
        let log = all.iter().find(|logged| logged.text("client_port") == row.text("orig_p")).unwrap();
        if tls == "false" && !["USER", "LOGIN"].contains(&mechanism.as_str()) {
            assert_eq!(mechanism, log.text("method"));
        }
        let logged_in = if logged_in.is_empty() { "false".into() } else { logged_in };
        rows.push(vec![row.text("orig_p").into(), user, logged_in, tls]);
    }
    same(rows, all.iter().map(wanted).collect());
    let secret = all.iter().filter(|row| row.text("tls") == "true").count();
    let handover = format!("{protocol},ssl");
    let port = if protocol == "pop3" { 110 } else { 143 };
    assert_services(port, &[(protocol, all.len() - secret), (&handover, secret)]);
}

#[test]
fn mailboxes_are_opened_by_whom_dovecot_logged() {
    mailboxes("pop3", ["pop3.user", "pop3.logged_in", "pop3.tls", "pop3.auth.mechanism"]);
    mailboxes("imap", ["imap.request.username", "imap.logged_in", "imap.tls", "imap.auth.mechanism"]);
    let in_clear = |row: &&Row| row.text("tls") == "false" && row.text("let_in") == "true";
    let all = of("mailboxes", "protocol", "pop3");
    let wanted = all.iter().filter(in_clear).map(|row| row.texts(&["client_port", "fetched", "deleted"]));
    let names = ["orig_p", "pop3.fetched", "pop3.deleted"];
    let found = sessions("pop3").filter(|row| row.text("pop3.logged_in") == "true");
    same(found.map(|row| row.texts(&names)).collect(), wanted.collect());
}

#[test]
fn ftp_commands_are_those_that_vsftpd_logged() {
    let plain = |row: &&Row| row.text("encrypted") == "false";
    let log = logged("ftp");
    let wanted = log.iter().filter(plain).map(|row| {
        let argument = row.text("argument").replace("<password>", "<hidden>");
        let mut values = row.texts(&["command", "code", "text"]);
        values.push(argument);
        values
    });
    let names = ["ftp.request.command", "ftp.response.code", "ftp.response.arg", "ftp.request.arg"];
    same(sessions("ftp").map(|row| row.texts(&names)).collect(), wanted.collect());

    // vsftpd does not log a connection's port.
    let secret = log.iter().filter(|row| row.text("command") == "AUTH").count();
    let connections = distinct(&log, "connection");
    assert_services(21, &[("ftp", connections - secret), ("ftp,ssl", secret)]);

    let file = |path: &str| path.rsplit('/').next().unwrap().to_string();
    let wanted = logged("ftp_files").into_iter().map(|row| {
        let command = if row.text("direction") == "i" { "STOR" } else { "RETR" };
        vec![command.to_string(), file(row.text("file"))]
    });
    let names = ["ftp.request.command", "ftp.request.arg", "ftp.response.code"];
    let moved = sessions("ftp").map(|row| row.texts(&names));
    let moved = moved.filter(|row| ["STOR", "RETR"].contains(&row[0].as_str()) && row[2] == "226");
    let mut moved: Vec<_> = moved.map(|row| row[..2].to_vec()).collect();
    // The last transfer follows AUTH TLS.
    moved.push(vec!["RETR".into(), "numbers.txt".into()]);
    same(moved, wanted.collect());
}

#[test]
fn quic_connections_are_those_that_both_sides_say() {
    let (asked, answered) = (logged("quic"), logged("quic_server"));
    assert_eq!(asked.len(), answered.len());
    let mut wanted = vec![];
    for (client, server) in asked.iter().zip(&answered) {
        assert_eq!(client.text("server_port"), server.text("server_port"));
        let version = server.text("version").to_string();
        wanted.push(
            [client.texts(&["server", "server_port", "server_name", "client_alpn"]), vec![version]].concat(),
        );
    }
    let names = ["resp_h", "resp_p", "quic.sni", "quic.client_protocol", "quic.version"];
    same(sessions("quic").map(|row| row.texts(&names)).collect(), wanted);
    let named = |row: &&Row| !row.text("quic.supported_version").is_empty();
    assert_eq!(sessions("quic").filter(named).count(), 1, "the version that the server has not");
    let retried = sessions("quic").filter(|row| row.text("quic.retried") == "true");
    assert_eq!(retried.map(|row| row.text("resp_p")).collect::<Vec<_>>(), ["9443"]);
    for port in [443, 8443, 9443] {
        assert_services(port, &[("quic,ssl", of("quic", "server_port", &port.to_string()).len())]);
    }
}

#[test]
fn dtls_handshakes_are_those_that_openssl_made() {
    let wanted = logged("dtls").into_iter().map(|row| {
        // OpenSSL's names of cipher suites differ from those of the RFC.
        let cipher = format!("TLS_{}", row.text("cipher").replace('-', "_"));
        let cipher = cipher.replace("ECDSA_AES256", "ECDSA_WITH_AES_256");
        let version = row.text("version").replace('.', "");
        vec![row.text("server_port").into(), row.text("server_name").into(), version, cipher]
    });
    let names = ["resp_p", "dtls.handshake.extensions_server_name", "dtls.version", "dtls.cipher"];
    same(sessions("dtls").map(|row| row.texts(&names)).collect(), wanted.collect());
    for row in sessions("dtls") {
        assert_eq!(row.text("dtls.established"), "true");
        assert!(row.text("dtls.cert.subject").contains("www.example.com"));
        assert_services(row.text("resp_p").parse().unwrap(), &[("ssl", 1)]);
    }
}

/// Without a lease, client and server send to different addresses: two flows, one per direction.
#[test]
fn leases_are_those_that_dnsmasq_gave() {
    let messages = |row: &Row| {
        let (id, mac) = (row.text("dhcp.id").to_string(), row.text("dhcp.hw.mac_addr").to_string());
        let types = row.text("dhcp.msg_types").split(' ').map(String::from);
        types.map(|kind| vec![id.clone(), kind, mac.clone()]).collect::<Vec<_>>()
    };
    let log = logged("dhcp");
    let wanted = log.iter().map(|row| row.texts(&["id", "type", "mac"])).collect();
    same(sessions("dhcp").flat_map(messages).collect(), wanted);
    let given = log.iter().find(|row| row.text("type") == "ACK").unwrap();
    let given_to: Vec<_> =
        sessions("dhcp").filter(|row| row.text("dhcp.msg_types").contains("ACK")).collect();
    assert!(!given_to.is_empty());
    for row in given_to {
        assert_eq!(row.text("dhcp.ip.your"), given.text("address"));
    }
    assert!(sessions("dhcp").any(|row| row.text("dhcp.option.hostname") == given.text("host")));
}

#[test]
fn ntp_messages_are_as_many_as_chrony_counted() {
    let count = |mode: &str| sessions("ntp").filter(|row| row.text("ntp.flags.mode") == mode).count();
    assert_eq!([count("3"), count("4")], [logged("ntp").len(); 2]);
    let servers = sessions("ntp").filter(|row| row.text("ntp.flags.mode") == "4");
    for row in servers {
        assert_eq!(row.texts(&["ntp.flags.vn", "ntp.stratum"]), ["4", "8"], "as it is set up");
    }
    assert_services(123, &[("ntp", logged("ntp").len())]);
}

#[test]
fn stun_requests_are_those_that_coturn_logged() {
    // The server does not log the method of refused requests.
    let wanted = logged("stun").into_iter().map(|row| {
        let method = row.text("method").replace('_', "").replace("message", "ALLOCATE");
        let result = row.text("result").split(' ').next().unwrap_or("").to_string();
        vec![method, result, row.0.get("user").cloned().unwrap_or_default()]
    });
    let found = sessions("stun").map(|row| {
        let [method, result, user] =
            ["stun.method", "stun.result", "stun.att.username"].map(|name| row.text(name));
        vec![method.to_uppercase(), result.to_string(), user.to_string()]
    });
    same(found.collect(), wanted.collect());
    let seen = of("stun", "method", "BINDING")[0].text("address").to_string();
    let binding = sessions("stun").find(|row| row.text("stun.method") == "Binding").unwrap();
    assert_eq!(binding.texts(&["stun.mapped_addr", "stun.mapped_port"]).join(":"), seen);
    assert_services(3478, &[("stun", 3)]);
}

#[test]
fn frames_are_as_many_as_tcpdump_recorded() {
    CAPTURE.assert_frames();
}
