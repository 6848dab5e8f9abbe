//! SIP: baresip, sipsak and sipp call through kamailio, which logs requests and responses.

use super::Service;
use crate::capture::logs::{CLIENT as CLIENTS, Row, cut, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "sip",
        shows: "baresip registers with kamailio (with a password, with a wrong one); calls that are answered (and spoken), refused, given up, \
                of nobody; OPTIONS (sipsak); calls over TCP (sipp)",
        script: SCRIPT,
    },
    tools: &[
        ("kamailio", "kamailio"),
        ("baresip", "baresip-core"),
        ("sipp", "sip-tester"),
        ("sipsak", "sipsak"),
    ],
    files: &[
        ("kamailio.cfg", KAMAILIO),
        ("alice/config", "sip_listen 192.0.2.10:5060\nnet_interface net0\n"),
        (
            "alice/accounts",
            "<sip:alice@example.com;transport=udp>;auth_pass=weir;outbound=\"sip:198.51.100.10\";regint=60\n",
        ),
        ("wrong/config", "sip_listen 192.0.2.10:5061\nnet_interface net0\n"),
        (
            "wrong/accounts",
            "<sip:alice@example.com;transport=udp>;auth_pass=dry;outbound=\"sip:198.51.100.10\";regint=60\n",
        ),
        ("bob/config", "sip_listen 198.51.100.10:5070\n"),
        (
            "bob/accounts",
            "<sip:bob@example.com;transport=udp>;auth_pass=weir;outbound=\"sip:198.51.100.10\";answermode=auto\n",
        ),
        ("carol/config", "sip_listen 198.51.100.10:5072\n"),
        (
            "carol/accounts",
            "<sip:carol@example.com;transport=udp>;auth_pass=weir;outbound=\"sip:198.51.100.10\";answermode=manual\n",
        ),
    ],
    stage: "
        /usr/bin/python3 -c \"
import wave
with wave.open('tone.wav', 'wb') as tone:
    tone.setnchannels(1); tone.setsampwidth(2); tone.setframerate(8000); tone.writeframes(bytes(320000))\"
        for who in alice wrong bob carol; do
            cat >> $who/config <<END
module_path /usr/lib/baresip/modules
audio_source aufile,/run/lab/tone.wav
audio_player aufile,/run/lab/$who/heard.wav
audio_alert aufile,/run/lab/$who/rung.wav
module aufile.so
module g711.so
module_tmp uuid.so
module_tmp account.so
module_app menu.so
module_app rtcpsummary.so
END
            touch $who/contacts; printf %s 00000000-0000-4000-8000-00000000000${#who} > $who/uuid
        done",
    servers: &[
        ("server", "kamailio -f kamailio.cfg -DD -E -m 32 -Y /run/lab -w /run/lab > kamailio.log 2>&1"),
        ("server", "sh -c \"sleep 1; exec baresip -4 -f bob\" > baresip-bob.log 2>&1"),
        ("server", "sh -c \"sleep 1; exec baresip -4 -f carol\" > baresip-carol.log 2>&1"),
        ("server", "sipp -sn uas -t t1 -i 198.51.100.10 -p 5080 -nostdin > sipp-server.log 2>&1"),
    ],
    listens: &["198.51.100.10:5060", "198.51.100.10:5080"],
    ask: "sleep 1",
    logs: &[
        ("sip", "requests (kamailio)", requests),
        ("rtp", "ends of a call (baresip)", streams),
        ("sip_tcp", "calls over TCP (sipp)", calls),
    ],
};

/// The client's address of calls.
const CLIENT: &str = CLIENTS[0];

const KAMAILIO: &str = r#"#!KAMAILIO
debug=2
log_stderror=yes
fork=yes
children=2
listen=udp:198.51.100.10:5060
disable_tcp=yes
server_header="Server: weir lab"
mpath="/usr/lib/x86_64-linux-gnu/kamailio/modules/"
loadmodule "kex.so"
loadmodule "tm.so"
loadmodule "tmx.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "xlog.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
loadmodule "auth.so"
modparam("xlog", "prefix", "weir ")
alias="example.com"

request_route {
    xlog("L_NOTICE", "asked\t$si\t$sp\t$rm\t$ru\t$fu\t$tu\t$ci\t$cs\t$ua\n");
    if (is_method("REGISTER")) {
        if (!pv_www_authenticate("$td", "weir", "0")) {
            www_challenge("$td", "0");
            exit;
        }
        save("location");
        exit;
    }
    if (is_method("OPTIONS") && uri == myself && $rU == $null) {
        sl_send_reply("200", "OK");
        exit;
    }
    if (has_totag()) {
        loose_route();
        t_relay();
        exit;
    }
    if (is_method("CANCEL")) {
        if (t_check_trans()) {
            t_relay();
        }
        exit;
    }
    if ($rU == "dave") {
        sl_send_reply("603", "Decline");
        exit;
    }
    if (!lookup("location")) {
        sl_send_reply("404", "Not Found");
        exit;
    }
    if (is_method("INVITE")) {
        record_route();
    }
    t_relay();
}

onreply_route {
    xlog("L_NOTICE", "answered\t$rs\t$rr\t$ci\t$cs\t$rm\n");
}

event_route[sl:local-response] {
    xlog("L_NOTICE", "answered\t$rs\t$rr\t$ci\t$cs\t$rm\n");
}

event_route[tm:local-response] {
    xlog("L_NOTICE", "answered\t$rs\t$rr\t$ci\t$cs\t$rm\n");
}
"#;

const SCRIPT: &str = "
call() { timeout 12 baresip -4 -f alice -t $1 -e \"/dial sip:$2@example.com\" >> baresip.out 2>&1 || true; }
timeout 9 baresip -4 -f wrong -t 2 >> baresip.out 2>&1 || true
call 7 bob; call 2 carol; call 1 dave; call 1 nobody
sipsak -s sip:198.51.100.10 >> sipsak.out 2>&1
sipp -sn uac -t t1 -i 192.0.2.10 -m 3 -r 10 -d 100 -nostdin -trace_shortmsg -shortmessage_file sipp-messages.out 198.51.100.10:5080 > sipp.out 2>&1
";

/// `… weir asked⇥ADDRESS⇥PORT⇥METHOD⇥URI⇥FROM⇥TO⇥CALL-ID⇥CSEQ⇥AGENT`, `weir
/// answered⇥CODE⇥REASON⇥CALL-ID⇥CSEQ⇥METHOD`: the last response counts.
fn requests() -> Result<Vec<Row>> {
    let log = read("kamailio.log")?;
    let said = log.lines().filter_map(|line| line.split_once("weir ")).map(|(_, said)| said.split('\t'));
    let lines: Vec<Vec<&str>> = said.map(Iterator::collect).collect();
    let mut rows: Vec<Row> = vec![];
    for line in &lines {
        let ["asked", CLIENT, port, method, uri, from, to, call, sequence, agent] = line[..] else {
            continue;
        };
        let mut answers = lines.iter().filter_map(|line| match line[..] {
            ["answered", code, reason, of, number, what] => {
                (of == call && number == sequence && what == method).then_some((code, reason))
            }
            _ => None,
        });
        let (code, reason) = answers.next_back().unwrap_or_default();
        let row = vec![
            ("client_port", port.to_string()),
            ("method", method.to_string()),
            ("uri", uri.to_string()),
            ("from", from.to_string()),
            ("to", to.to_string()),
            ("call_id", call.to_string()),
            ("sequence", sequence.to_string()),
            ("agent", agent.replace("<null>", "")),
            ("code", code.to_string()),
            ("reason", reason.to_string()),
        ];
        rows.push(row);
    }
    Ok(rows)
}

/// sipp's short messages: `DATE⇥TIME⇥SECONDS⇥S⇥CALL-ID⇥CSeq:1 INVITE⇥INVITE sip:… SIP/2.0`; of received ones
/// (`R`) the last counts: `SIP/2.0 200 OK`.
fn calls() -> Result<Vec<Row>> {
    let log = read("sipp-messages.out")?;
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split('\t').collect()).collect();
    let mut rows = vec![];
    for line in &lines {
        let [.., "S", call, sequence, said] = line[..] else { continue };
        let mut answers = lines.iter().filter_map(|line| match line[..] {
            [.., "R", of, number, said] => (of == call && number == sequence).then_some(said),
            _ => None,
        });
        rows.push(vec![
            ("method", said.split(' ').next().unwrap_or("").to_string()),
            ("uri", cut(said, " ", " ")),
            ("call_id", call.to_string()),
            ("sequence", sequence.replace("CSeq:", "")),
            ("code", cut(answers.next_back().unwrap_or(""), "SIP/2.0 ", " ")),
        ]);
    }
    Ok(rows)
}

/// `EX=BareSip;CS=0;CD=5;PR=250;PS=251;PL=0,0;PD=0,0;JI=0.8,1.0;DL=0.0;IP=0.0.0.0:1118,192.0.2.10:18076;`:
/// the last report of each end: packets received and sent, losses of both directions, its own port.
fn streams() -> Result<Vec<Row>> {
    let mut rows = vec![];
    for name in ["baresip.out", "baresip-bob.log"] {
        for line in read(name)?.lines().filter(|line| line.contains("EX=BareSip;CS=")) {
            let said = |what: &str| cut(line, &format!(";{what}="), ";");
            rows.push(vec![
                ("port", cut(&said("IP"), ":", ",")),
                ("sent", said("PS")),
                ("received", said("PR")),
                ("lost", said("PL")),
            ]);
        }
    }
    Ok(rows)
}
