//! SNMP: net-snmp's tools query its agent and send traps to its daemon.

use super::Service;
use crate::capture::logs::{Row, between, cut, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "snmp",
        shows: "net-snmp: versions 1, 2c and 3 (with and without a password, encrypted); get, getnext, walk, bulk walk, set; a \
                name that is not there, a set that is not allowed, a wrong community, a wrong password; IPv6; trap and inform",
        script: SCRIPT,
    },
    tools: &[("snmpd", "snmpd"), ("snmpget", "snmp"), ("snmptrapd", "snmptrapd")],
    files: &[
        ("snmpd.conf", AGENT),
        ("snmptrapd.conf", "authCommunity log,execute,net public\ndisableAuthorization yes\n"),
    ],
    stage: "mkdir -p snmp-agent snmp-traps snmp-client",
    servers: &[
        (
            "server",
            "env SNMP_PERSISTENT_DIR=/run/lab/snmp-agent MIBS= snmpd -f -Lf /run/lab/snmpd.log -a -C -c /run/lab/snmpd.conf -p /run/lab/snmpd.pid",
        ),
        (
            "server",
            "env SNMP_PERSISTENT_DIR=/run/lab/snmp-traps MIBS= snmptrapd -f -Lf /run/lab/snmptrapd.log -On -C -c /run/lab/snmptrapd.conf \
             -F \"TRAP %b|%V|%v\\n\" -p /run/lab/snmptrapd.pid udp:198.51.100.10:162",
        ),
    ],
    listens: &["198.51.100.10:161", "198.51.100.10:162"],
    ask: "
        ip netns exec server env MIBS= SNMP_PERSISTENT_DIR=/run/lab/snmp-client snmpget -On -v 2c -c public 198.51.100.10 \
            1.3.6.1.2.1.11.1.0 1.3.6.1.2.1.11.4.0 > snmp-counters.log
        kill $(cat snmpd.pid snmptrapd.pid); sleep 1",
    logs: &[
        ("snmp", "packets (snmpd)", packets),
        ("snmp_values", "values (net-snmp)", values),
        ("snmp_counters", "counters of snmpd: packets, bad communities", counters),
        ("snmp_traps", "traps (snmptrapd)", traps),
    ],
};

const AGENT: &str = "
agentAddress udp:198.51.100.10:161,udp6:[2001:db8:2::10]:161
rocommunity public
rocommunity6 public
rwcommunity private
createUser alice SHA weirweirweir AES weirweirweir
createUser bob MD5 weirweirweir
createUser carol
rouser alice authPriv
rouser bob authNoPriv
rouser carol noauth
sysDescr A low dam that measures water
sysName gauge
sysLocation Where the mill was
master no
";

const SCRIPT: &str = "
export SNMP_PERSISTENT_DIR=/run/lab/snmp-client MIBS=
A=198.51.100.10; S=1.3.6.1.2.1.1
say() { \"$@\" >> snmp.out 2>> snmp-error.out; }
q='-On -r 0 -t 2'
say snmpget $q -v 1 -c public $A $S.1.0 $S.3.0; say snmpget $q -v 2c -c public $A $S.1.0 $S.5.0 $S.99.0
say snmpgetnext $q -v 1 -c public $A $S; say snmpwalk $q -v 2c -c public $A $S; say snmpbulkwalk $q -v 2c -c public -Cr20 $A 1.3.6.1.2.1.2
say snmpbulkget $q -v 2c -c public -Cn1 -Cr3 $A $S.3 $S.9
say snmpset $q -v 2c -c private $A $S.4.0 s 'alice@example.com'; fails 2 say snmpset $q -v 1 -c public $A $S.4.0 s 'nobody'
fails 2 say snmpget $q -v 1 -c public $A $S.99.0; fails 1 say snmpget $q -v 2c -c guess $A $S.1.0
say snmpget $q -v 2c -c public udp6:[2001:db8:2::10]:161 $S.1.0
say snmpget $q -v 3 -u carol -l noAuthNoPriv $A $S.1.0; say snmpget $q -v 3 -u bob -l authNoPriv -a MD5 -A weirweirweir $A $S.1.0 $S.5.0
say snmpget $q -v 3 -u alice -l authPriv -a SHA -A weirweirweir -x AES -X weirweirweir $A $S.6.0
fails 1 say snmpget $q -v 3 -u bob -l authNoPriv -a MD5 -A drydrydrydry $A $S.1.0; fails 1 say snmpget $q -v 3 -u mallory -l noAuthNoPriv $A $S.1.0
snmptrap -v 1 -c public $A 1.3.6.1.4.1.8072.9999 192.0.2.10 6 17 55 $S.5.0 s gauge
snmptrap -v 2c -c public $A 55 1.3.6.1.6.3.1.1.5.3 1.3.6.1.2.1.2.2.1.1.3 i 3
snmpinform -r 0 -v 2c -c public $A 56 1.3.6.1.6.3.1.1.5.4 1.3.6.1.2.1.2.2.1.1.3 i 3
";

/// `Connection from UDP: [192.0.2.10]:40000->[198.51.100.10]:161`
fn packets() -> Result<Vec<Row>> {
    let log = read("snmpd.log")?;
    let from = log.lines().filter_map(|line| line.split_once("Connection from UDP")).map(|(_, rest)| rest);
    let row = |rest: &str| {
        let sides = between(rest, ": [", "->");
        let (address, port) =
            sides.rsplit_once("]:").unwrap_or_else(|| sides.rsplit_once(':').unwrap_or_default());
        vec![("client", address.trim_matches(['[', ']']).to_string()), ("client_port", port.to_string())]
    };
    Ok(from.map(row).filter(|row| row[0].1 == "192.0.2.10" || row[0].1.starts_with("2001")).collect())
}

/// `.1.3.6.1.2.1.1.5.0 = STRING: "gauge"`
fn values() -> Result<Vec<Row>> {
    let log = read("snmp.out")?;
    let row = |line: &str| {
        let (name, value) = line.split_once(" = ")?;
        Some(vec![("name", name.trim_start_matches('.').to_string()), ("value", value.to_string())])
    };
    Ok(log.lines().filter(|line| line.starts_with('.')).filter_map(row).collect())
}

/// `.1.3.6.1.2.1.11.1.0 = Counter32: 55`: snmpInPkts, including this query, and snmpInBadCommunityNames.
fn counters() -> Result<Vec<Row>> {
    let log = read("snmp-counters.log")?;
    let row = |line: &str| vec![("counter", cut(line, ".11.", ".0 ")), ("value", cut(line, ": ", "\n"))];
    Ok(log.lines().map(row).collect())
}

/// `TRAP UDP: [192.0.2.10]:40000->[198.51.100.10]:162|, |.1.3.6.1.2.1.1.3.0 = Timeticks: …, .1.3…`
fn traps() -> Result<Vec<Row>> {
    let log = read("snmptrapd.log")?;
    let row = |line: &str| {
        let names = line
            .split(" = ")
            .filter_map(|part| part.rsplit('.').next().map(|_| part.rsplit([' ', '|']).next().unwrap_or("")));
        let names: Vec<&str> = names.filter(|name| name.starts_with('.')).map(|name| &name[1..]).collect();
        vec![("client_port", cut(line, "192.0.2.10]:", "->")), ("names", names.join(" "))]
    };
    Ok(log.lines().filter(|line| line.starts_with("TRAP ")).map(row).collect())
}
