//! The names of Weir's columns in Suricata's EVE, one line each. Columns without a line are stored in the
//! event's own object under Weir's name; a log without a Suricata event keeps its own name.
//!
//! The names are those of Suricata 8
//! (<https://docs.suricata.io/en/suricata-8.0.3/output/eve/eve-json-format.html>), for DNS version 3 of its
//! layout: queries and answers are lists. A trailing comment marks names with a slightly different meaning.

/// A log of Weir, and Suricata's event for it.
pub(super) struct Event {
    /// Name of the log.
    pub log: &'static str,
    /// `event_type`, and the name of its object.
    pub event_type: &'static str,
    pub fields: &'static [Field],
}

/// A column, its place in an event (`a.b`: in the object `a`; `a[].b`: in the only element of the list `a`),
/// and its conversion. Columns that are combined at one place are adjacent.
pub(super) struct Field {
    pub column: &'static str,
    pub place: &'static str,
    pub how: How,
}

/// The conversion of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Unchanged.
    Plain,
    /// As an element of a list.
    Listed,
    /// As text in a list.
    ListedText,
    /// Whole seconds.
    Seconds,
    /// A number that counts from 1, counted from 0.
    FromZero,
    /// A duration as its end time, starting at the row's time.
    End,
    /// `SF` as `closed`.
    State,
    /// `smtp,ssl` as `tls`.
    App,
    /// `smtp,ssl` as `smtp`; omitted if there is only one.
    AppBefore,
    /// `CN=a\, b,C=DE` as `C=DE, CN=a, b`.
    Subject,
    /// `TLSv12` as `TLS 1.2`.
    TlsVersion,
    /// `/a b` as `/a%20b`: Zeek's targets have their escapes undone.
    Url,
    /// `a.example:8080` as `a.example`.
    Host,
    /// `FTP_DATA` as `ftp-data`.
    Carrier,
    /// Whether the number is greater than 0.
    IsSome,
    /// Seen, total and missing bytes: `CLOSED`, or `TRUNCATED`.
    FileState,
    /// `1.1` as `HTTP/1.1`.
    HttpVersion,
    /// `SSH-2.0-OpenSSH_9.6` as `2.0`.
    SshVersion,
    /// `SSH-2.0-OpenSSH_9.6` as `OpenSSH_9.6`.
    SshSoftware,
    /// Texts `key value` as an object of lists.
    KeyLists,
    /// True as `passive`.
    FtpMode,
    /// `[DISCOVER, OFFER]` as `offer`.
    LastInLowerCase,
    /// Whether there is a response: `response` or `request`.
    DnsType,
    /// `yes`, if a value is present.
    Yes,
    /// Answers with their TTLs, as a list of objects.
    DnsAnswers,
    /// This text, for any value.
    Always(&'static str),
}

macro_rules! events {
    ($($log:literal => $event:literal { $($column:literal $place:literal $how:expr;)* })*) => {
        /// Every event.
        pub(super) const EVENTS: &[Event] = &[$(Event {
            log: $log,
            event_type: $event,
            fields: {
                #[allow(unused_imports)]
                use How::*;
                &[$(Field { column: $column, place: $place, how: $how }),*]
            },
        }),*];
    };
}

#[rustfmt::skip]
events! {
    "conn" => "flow" {
        "service"        "app_proto"           App;
        "service"        "app_proto_orig"      AppBefore;
        "vlan"           "vlan"                Listed;
        "inner_vlan"     "vlan"                Listed;
        "other_vlan"     "other_vlan"          Plain;
        "community_id"   "community_id"        Plain;
        "orig_pkts"      "flow.pkts_toserver"  Plain;
        "resp_pkts"      "flow.pkts_toclient"  Plain;
        "orig_ip_bytes"  "flow.bytes_toserver" Plain;       // bytes from the IP header on; Suricata's include the link header
        "resp_ip_bytes"  "flow.bytes_toclient" Plain;
        "ts"             "flow.start"          Plain;
        "ts"             "flow.alerted"        Always("false");
        "duration"       "flow.end"            End;
        "duration"       "flow.age"            Seconds;
        "conn_state"     "flow.state"          State;
        "conn_state"     "flow.conn_state"     Plain;
        "duration"       "flow.duration"       Plain;
    }
    "alerts" => "alert" {
        "packet"       "pcap_cnt"            Plain;
        "start"        "flow.start"          Plain;
        "community_id" "community_id"        Plain;
        "service"      "app_proto"           Plain;
        "direction"    "direction"           Plain;
        "action"       "alert.action"        Always("\"allowed\"");
        "gid"          "alert.gid"           Plain;
        "sid"          "alert.signature_id"  Plain;
        "rev"          "alert.rev"           Plain;
        "msg"          "alert.signature"     Plain;
        "class"        "alert.category"      Plain;
        "severity"     "alert.severity"      Plain;
        "action"       "alert.rule_action"   Plain;         // Suricata's action is what it did; this is the rule's
        "references"   "alert.references"    Plain;
        "metadata"     "alert.metadata"      KeyLists;
    }
    "ssl" => "tls" {
        "subject"        "tls.subject"         Subject;
        "issuer"         "tls.issuerdn"        Subject;
        "resumed"        "tls.session_resumed" Plain;
        "server_name"    "tls.sni"             Plain;
        "version"        "tls.version"         TlsVersion;
        "ja3"            "tls.ja3.hash"        Plain;
        "ja3s"           "tls.ja3s.hash"       Plain;
        "ja4"            "tls.ja4"             Plain;
        "next_protocol"  "tls.server_alpns"    Listed;
        "client_subject" "tls.client.subject"  Subject;
        "client_issuer"  "tls.client.issuerdn" Subject;
    }
    "http" => "http" {
        "trans_depth"       "tx_id"                  FromZero;
        "host"              "http.hostname"          Host;
        "uri"               "http.url"               Url;
        "user_agent"        "http.http_user_agent"   Plain;
        "referrer"          "http.http_refer"        Plain;
        "method"            "http.http_method"       Plain;
        "version"           "http.protocol"          HttpVersion;
        "status_code"       "http.status"            Plain;
        "response_body_len" "http.length"            Plain;
    }
    "dns" => "dns" {
        "query"       "dns.version"           Always("3");
        "rcode_name"  "dns.type"              DnsType;
        "trans_id"    "dns.id"                Plain;
        "AA"          "dns.aa"                Plain;
        "TC"          "dns.tc"                Plain;
        "RD"          "dns.rd"                Plain;
        "RA"          "dns.ra"                Plain;
        "opcode"      "dns.opcode"            Plain;
        "rcode_name"  "dns.rcode"             Plain;
        "rcode"       "dns.rcode_number"      Plain;        // Weir's name, because Suricata's is taken
        "query"       "dns.queries[].rrname"  Plain;
        "qtype_name"  "dns.queries[].rrtype"  Plain;
        "answers"     "dns.answers"           DnsAnswers;   // only rdata and ttl: Zeek's log has no more
        "TTLs"        "dns.answers"           DnsAnswers;
    }
    "ssh" => "ssh" {
        "client"        "ssh.client.proto_version"    SshVersion;
        "client"        "ssh.client.software_version" SshSoftware;
        "hassh"         "ssh.client.hassh.hash"       Plain;
        "server"        "ssh.server.proto_version"    SshVersion;
        "server"        "ssh.server.software_version" SshSoftware;
        "hasshServer"   "ssh.server.hassh.hash"       Plain;
        "hassh_server"  "ssh.server.hassh.hash"       Plain;
    }
    "smtp" => "smtp" {
        "trans_depth"      "tx_id"                  FromZero;
        "helo"             "smtp.helo"              Plain;
        "mailfrom"         "smtp.mail_from"         Plain;
        "rcptto"           "smtp.rcpt_to"           Plain;
        "from"             "email.from"             Plain;
        "to"               "email.to"               Plain;
        "cc"               "email.cc"               Plain;
        "subject"          "email.subject"          Plain;
        "date"             "email.date"             Plain;
        "msg_id"           "email.message_id"       Plain;
        "in_reply_to"      "email.in_reply_to"      Plain;
        "reply_to"         "email.reply_to"         Plain;
        "user_agent"       "email.user_agent"       Plain;
        "x_originating_ip" "email.x_originating_ip" Plain;
    }
    "files" => "fileinfo" {
        "source"        "app_proto"          Carrier;
        "filename"      "fileinfo.filename"  Plain;
        "missing_bytes" "fileinfo.gaps"      IsSome;
        "seen_bytes"    "fileinfo.state"     FileState;
        "total_bytes"   "fileinfo.state"     FileState;
        "missing_bytes" "fileinfo.state"     FileState;
        "ts"            "fileinfo.stored"    Always("false");
        "seen_bytes"    "fileinfo.size"      Plain;
        "mime_type"     "fileinfo.magic"     Plain;         // a media type; Suricata has libmagic's text
    }
    "quic" => "quic" {
        "version"      "quic.version"  Plain;
        "server_name"  "quic.sni"      Plain;
        "ja3"          "quic.ja3.hash" Plain;
        "ja4"          "quic.ja4"      Plain;
    }
    "ftp" => "ftp" {
        "command"              "ftp.command"         Plain;
        "arg"                  "ftp.command_data"    Plain;
        "reply_msg"            "ftp.reply"           Listed;
        "reply_code"           "ftp.completion_code" ListedText;
        "reply_code"           "ftp.reply_received"  Yes;
        "data_channel.passive" "ftp.mode"            FtpMode;
        "data_channel.resp_p"  "ftp.dynamic_port"    Plain;
    }
    "mqtt_connect" => "mqtt" {}
    "kerberos" => "krb5" {}
    "postgresql" => "pgsql" {}
    "dhcp" => "dhcp" {
        "mac"            "dhcp.client_mac"   Plain;
        "assigned_addr"  "dhcp.assigned_ip"  Plain;
        "client_addr"    "dhcp.client_ip"    Plain;
        "requested_addr" "dhcp.requested_ip" Plain;
        "host_name"      "dhcp.hostname"     Plain;
        "lease_time"     "dhcp.lease_time"   Seconds;
        "msg_types"      "dhcp.dhcp_type"    LastInLowerCase; // of the whole transaction; Suricata has one event per message
        "msg_types"      "dhcp.msg_types"    Plain;
    }
}
