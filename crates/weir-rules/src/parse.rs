//! A rule's way from its text: header, options one by one, and what concerns several options.

use crate::builder::Builder;
use crate::groups::Groups;
use crate::header::{Action, Direction, Ends, header};
use crate::keywords;
use crate::model::{FlowTest, Rule, RuleProtocol};

use crate::options::{FORM, options};
use crate::sets::{AddressSet, PortSet};
use crate::text::{RULE_BYTES_MAX, RuleText, rules_of};
use crate::unsupported;
use crate::variables::Variables;
use weir_lang::diag::Diagnostic;

/// A code for protocols.
const PROTOCOL: &str = "W0203";

/// A rule of a text, or why it is refused.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// The number of its first line, from 1.
    pub line: usize,
    /// The rule.
    pub rule: Result<Rule, Box<Refusal>>,
}

/// Why a rule is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Its signature ID, if it has one that can be read.
    pub sid: Option<u32>,
    /// The option that is refused, or the protocol; `None` if the rule as a whole is wrong.
    pub keyword: Option<String>,
    /// What is wrong, and where.
    pub diagnostic: Diagnostic,
}

/// The rules of a text. `source`: its number in the sources of diagnostics.
pub fn parse(text: &str, source: u16, variables: &Variables) -> Vec<Parsed> {
    let groups = Groups::new(variables);
    rules_of(text, source).into_iter().map(|rule| parse_one(&rule, &groups, &mut |_| ())).collect()
}

/// A rule. `observe` is called with the name of each option, also of a rule that is refused for one of them.
pub(crate) fn parse_one<'t>(
    text: &RuleText<'t>,
    groups: &Groups<'_>,
    observe: &mut dyn FnMut(&'t str),
) -> Parsed {
    let refusal = |Wrong { keyword, diagnostic }| {
        Box::new(Refusal { sid: sid_of(text.text), keyword: keyword.map(str::to_string), diagnostic })
    };
    Parsed { line: text.line, rule: parse_rule(text, groups, observe).map_err(refusal) }
}

/// A mistake, and the option or protocol that has it.
struct Wrong<'t> {
    keyword: Option<&'t str>,
    diagnostic: Diagnostic,
}

impl From<Diagnostic> for Wrong<'_> {
    fn from(diagnostic: Diagnostic) -> Self {
        Self { keyword: None, diagnostic }
    }
}

/// The signature ID of a rule that cannot be read as a whole.
fn sid_of(text: &str) -> Option<u32> {
    let at = text.rfind("sid:")?;
    let rest = text[at + 4..].trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Protocols of sessions by their names in headers, with their names in options.
const SESSIONS: &[(&str, &str)] = &[
    ("http", "http"),
    ("http1", "http1"),
    ("http2", "http2"),
    ("tls", "tls"),
    ("ssl", "tls"),
    ("ssh", "ssh"),
    ("dns", "dns"),
    ("smtp", "smtp"),
    ("ftp", "ftp"),
    ("ftp-data", "ftp-data"),
    ("smb", "smb"),
    ("dcerpc", "dcerpc"),
    ("imap", "imap"),
    ("sip", "sip"),
    ("mqtt", "mqtt"),
    ("quic", "quic"),
    ("krb5", "krb5"),
    ("snmp", "snmp"),
    ("ntp", "ntp"),
    ("dhcp", "dhcp"),
    ("rdp", "rdp"),
    ("modbus", "modbus"),
    ("bittorrent-dht", "bittorrent-dht"),
    ("pgsql", "pgsql"),
    ("mysql", "mysql"),
    ("mdns", "mdns"),
    ("llmnr", "llmnr"),
    ("pop3", "pop3"),
];

fn protocol_of(name: &str) -> Option<RuleProtocol> {
    let name = name.to_ascii_lowercase();
    Some(match name.as_str() {
        "ip" | "any" => RuleProtocol::Ip,
        "ip4" | "ipv4" => RuleProtocol::Ipv4,
        "ip6" | "ipv6" => RuleProtocol::Ipv6,
        "tcp" => RuleProtocol::Tcp,
        "tcp-pkt" => RuleProtocol::TcpPacket,
        "tcp-stream" => RuleProtocol::TcpStream,
        "udp" => RuleProtocol::Udp,
        "sctp" => RuleProtocol::Sctp,
        "icmp" => RuleProtocol::Icmp,
        "icmpv4" => RuleProtocol::Icmpv4,
        "icmpv6" => RuleProtocol::Icmpv6,
        "igmp" => RuleProtocol::Igmp,
        "pkthdr" => RuleProtocol::PacketHeader,
        name => RuleProtocol::Session(SESSIONS.iter().find(|(known, _)| *known == name)?.1),
    })
}

fn parse_rule<'t>(
    text: &RuleText<'t>,
    groups: &Groups<'_>,
    observe: &mut dyn FnMut(&'t str),
) -> Result<Rule, Wrong<'t>> {
    if text.text.len() > RULE_BYTES_MAX {
        let message = format!("the rule has more than {RULE_BYTES_MAX} bytes");
        let help = "divide the rule, or put addresses into a variable";
        return Err(Diagnostic::error(FORM, message).at(text.span(0, 1)).help(help).into());
    }
    let header = header(text, groups)?;
    let unknown = |diagnostic| Wrong { keyword: Some(header.protocol), diagnostic };
    let at = text.span(header.protocol_at, header.protocol_at + header.protocol.len());
    if let Some((why, help)) = unsupported::protocol(&header.protocol.to_ascii_lowercase()) {
        return Err(unknown(unsupported::diagnostic(why, at, help)));
    }
    let protocol = protocol_of(header.protocol).ok_or_else(|| {
        let known = SESSIONS.iter().map(|(name, _)| *name).chain(["ip", "tcp", "udp", "icmp"]);
        Diagnostic::error(PROTOCOL, format!("there is no protocol `{}`", header.protocol))
            .at(at)
            .help("write for example `tcp`, `udp`, `icmp`, `ip` or `http`")
            .did_you_mean(header.protocol, known)
    });
    let protocol = protocol.map_err(unknown)?;
    let mut builder = Builder::new(
        text,
        Rule {
            action: header.action,
            protocol,
            source: header.source,
            destination: header.destination,
            direction: header.direction,
            ..Rule::empty()
        },
    );
    let options = options(text, header.options_at)?;
    options.iter().for_each(|option| observe(option.name));
    for option in &options {
        keywords::apply(&mut builder, option)
            .map_err(|diagnostic| Wrong { keyword: Some(option.name), diagnostic })?;
    }
    Ok(builder.finish()?)
}

impl Rule {
    /// A rule without options.
    fn empty() -> Self {
        let any = || Ends { addresses: AddressSet::any(), ports: PortSet::any() };
        Self {
            action: Action::Alert,
            protocol: RuleProtocol::Ip,
            source: any(),
            destination: any(),
            direction: Direction::ToDestination,
            message: String::new(),
            sid: 0,
            gid: 1,
            rev: 0,
            class: None,
            priority: None,
            references: vec![],
            metadata: vec![],
            target_is_source: None,
            flow: FlowTest::default(),
            packet: vec![],
            inspections: vec![],
            session: vec![],
            state: vec![],
            thresholds: vec![],
            app_protocols: vec![],
            events: vec![],
            tag: None,
            noalert: false,
            without_effect: vec![],
            variables: vec![],
            filter: None,
        }
    }
}
