//! The measured cases: one table per question, one line per program that answers the question.
//!
//! To add a case, add a line. In commands, `{trace}` is the capture file, `{tmp}` a scratch folder, `{weir}`,
//! `{assembler}`, `{floor}`, `{nids}`, `{gopacket}` and `{vectorscan}` are programs built from this project,
//! `{root}` its folder.

/// A question, its traces, and the programs that answer it.
pub struct Question {
    pub title: &'static str,
    pub note: &'static str,
    pub traces: &'static [&'static str],
    pub rows: &'static [Row],
}

pub struct Row {
    pub name: &'static str,
    pub command: &'static [&'static str],
    /// The Debian package with the program, if it is not ours.
    pub package: &'static str,
    /// Traces without a run, because it would take minutes or make no sense.
    pub not_on: &'static [&'static str],
    /// The first number of its output is a result that must agree with the others'.
    pub says: bool,
}

const fn row(name: &'static str, command: &'static [&'static str]) -> Row {
    Row { name, command, package: "", not_on: &[], says: false }
}

impl Row {
    const fn of(self, package: &'static str) -> Self {
        Self { package, ..self }
    }
    const fn not_on(self, not_on: &'static [&'static str]) -> Self {
        Self { not_on, ..self }
    }
    const fn says(self) -> Self {
        Self { says: true, ..self }
    }
}

const FLOOR: Row = row("floor: read and walk", &["{floor}", "{trace}"]);
const NIDS: Row = row("libnids, all streams", &["{nids}", "{trace}"]).of("libnids-dev libpcap-dev");
const NDPI: Row = row("nDPI reader", &["ndpiReader", "-q", "-i", "{trace}"]).of("libndpi-bin");
const TCPDUMP: &str = "tcpdump";

pub const QUESTIONS: &[Question] = &[
    Question {
        title: "Connection records",
        note: "Every connection of the trace as a row.",
        traces: &["https", "http", "hostile"],
        rows: &[
            FLOOR,
            row("weir flows", &["{weir}", "flows", "-r", "{trace}", "--format", "json"]),
            row("weir flows --format csv", &["{weir}", "flows", "-r", "{trace}", "--format", "csv"]),
            row(
                "softflowd",
                &["softflowd", "-d", "-m", "2000000", "-p", "{tmp}/pid", "-c", "{tmp}/ctl", "-r", "{trace}"],
            )
            .of("softflowd"),
            row("nfpcapd", &["nfpcapd", "-l", "{tmp}", "-r", "{trace}"]).of("nfdump"),
            NIDS,
            NDPI,
        ],
    },
    Question {
        title: "Accounting by 5-tuple",
        note: "Packets and bytes of each 5-tuple; `weir records` also lists the length, the time and the direction of each packet.",
        traces: &["https", "http", "udp64"],
        rows: &[
            FLOOR,
            row("weir aggregate", &["{weir}", "aggregate", "-j", "1", "--format", "json", "count(), sum(frame.len) by 5tuple", "-r", "{trace}"]),
            row("weir aggregate -j 2", &["{weir}", "aggregate", "-j", "2", "--format", "json", "count(), sum(frame.len) by 5tuple", "-r", "{trace}"]),
            row("weir records", &["{weir}", "records", "-j", "1", "--format", "packed", "-r", "{trace}"]),
            row(
                "softflowd",
                &["softflowd", "-d", "-m", "2000000", "-p", "{tmp}/pid", "-c", "{tmp}/ctl", "-r", "{trace}"],
            )
            .of("softflowd"),
            row("nfpcapd", &["nfpcapd", "-l", "{tmp}", "-r", "{trace}"]).of("nfdump"),
            row("tshark -z conv", &["tshark", "-q", "-z", "conv,tcp", "-z", "conv,udp", "-r", "{trace}"])
                .of("tshark")
                .not_on(&["udp64"]),
        ],
    },
    Question {
        title: "Applications",
        note: "The lines of `docs/applications.md`, on one worker. In brackets: million packets per second and core in Jetstream's \
             paper (TNSM'21, table III, two cores each), there of records from memory that a switch has parsed and grouped.",
        traces: &["https", "http", "udp64"],
        rows: &[
            FLOOR,
            row("weir packets -w: pass-through (15.9)", &["{weir}", "packets", "-r", "{trace}", "-w", "/dev/null"]),
            row("weir aggregate: traffic count (7.0)", &["{weir}", "aggregate", "-j", "1", "--format", "json", "count(), sum(frame.len) every 1m", "-r", "{trace}"]),
            row("weir aggregate: accounting", &["{weir}", "aggregate", "-j", "1", "--format", "json", "count() as packets, sum(frame.len) as bytes by src, dst every 1m", "-r", "{trace}"]),
            row("weir aggregate: heavy hitters (8.1)", &["{weir}", "aggregate", "-j", "1", "--format", "json", "sum(frame.len) as bytes, count() by 5tuple every 10s having bytes > 100000 top 10", "-r", "{trace}"]),
            row("weir aggregate: out-of-order TCP (7.5)", &["{weir}", "aggregate", "-j", "1", "--format", "json", "count(), sum(orig_out_of_order) as late_in, sum(resp_out_of_order) as late_out, sum(resp_retrans) as again by id.resp_h having late_in > 0 or late_out > 0", "--of", "flows", "-r", "{trace}", "tcp"]),
            row("weir aggregate: Slowloris (7.4)", &["{weir}", "aggregate", "-j", "1", "--format", "json", "count() as slow, sum(orig_bytes) by id.orig_h, id.resp_h, id.resp_p having slow > 10", "--of", "flows", "-r", "{trace}", "tcp and conn.duration > 20s and conn.orig_bytes < 1000"]),
            row("weir aggregate: load balancer (15.8)", &["{weir}", "aggregate", "-j", "1", "--format", "json", "count() as connections, sum(resp_bytes) as bytes, quantile(duration, 0.95), mean(duration) by id.resp_h, id.resp_p", "--of", "flows", "-r", "{trace}", "tcp"]),
            row("weir aggregate: SSH brute force (5.4)", &["{weir}", "aggregate", "-j", "1", "--format", "json", "count() as connections, median(duration) by id.orig_h, id.resp_h every 1m having connections > 10", "--of", "flows", "-r", "{trace}", "tcp.port == 22"]),
            row("weir aggregate: SYN flood (10.6)", &["{weir}", "aggregate", "-j", "1", "--format", "json", "count() as syns, distinct(src) as sources by dst, dport every 1s having syns > 100", "-r", "{trace}", "tcp.flags.syn == 1 and tcp.flags.ack == 0"]),
            row("weir aggregate: forged resets", &["{weir}", "aggregate", "-j", "1", "--format", "json", "count() as resets, distinct(ip.ttl) by src, dst every 10s having resets > 2", "-r", "{trace}", "tcp.stray and tcp.flags.reset == 1"]),
            row("weir aggregate: port scan", &["{weir}", "aggregate", "-j", "1", "--format", "json", "distinct(dport) as ports, count() as syns by src, dst every 10s having ports > 50", "-r", "{trace}", "tcp.flags.syn == 1 and tcp.flags.ack == 0"]),
            row("weir aggregate: changes of TTL", &["{weir}", "aggregate", "-j", "1", "--format", "json", "distinct(ip.ttl) as ttls, min(ip.ttl), max(ip.ttl) by ip.src having ttls > 2", "-r", "{trace}"]),
        ],
    },
    Question {
        title: "All streams",
        note: "All bytes of all streams in order, both directions, counted.",
        traces: &["https", "http", "hostile"],
        rows: &[
            FLOOR,
            row("the library, bytes by reference (example `assembler`)", &["{assembler}", "{trace}"]),
            row("weir streams", &["{weir}", "streams", "-r", "{trace}", "--count"]),
            row(
                "weir streams, chunks of 16 KB",
                &["{weir}", "streams", "-r", "{trace}", "--count", "--chunk", "16k"],
            ),
            NIDS,
            row("gopacket, reassembly", &["{gopacket}", "{trace}"]).of("golang-go").not_on(&["hostile"]),
        ],
    },
    Question {
        title: "All streams on 1 and 2 workers",
        note: "With two, there are two threads; one of them also reads the file and dispatches the packets. \
             The machine that measures has two cores.",
        traces: &["https", "http"],
        rows: &[
            FLOOR,
            row("weir streams -j 1", &["{weir}", "streams", "-r", "{trace}", "--count", "-j", "1"]).says(),
            row("weir streams -j 2", &["{weir}", "streams", "-r", "{trace}", "--count", "-j", "2"]).says(),
        ],
    },
    Question {
        title: "All streams, fast and strict",
        note: "Strict reassembly accepts what a receiver accepts: it checks checksums, acknowledgements, \
             windows and timestamps of every segment.",
        traces: &["https", "http"],
        rows: &[
            FLOOR,
            row("weir streams", &["{weir}", "streams", "-r", "{trace}", "--count"]).says(),
            row(
                "weir streams --mode strict",
                &["{weir}", "streams", "-r", "{trace}", "--count", "--mode", "strict"],
            )
            .says(),
        ],
    },
    Question {
        title: "Streams into files",
        note: "A file per direction and connection.",
        traces: &["https"],
        rows: &[
            row("weir streams -o", &["{weir}", "streams", "-r", "{trace}", "--count", "-o", "{tmp}/weir"]),
            row("tcpflow", &["tcpflow", "-S", "enable_report=NO", "-o", "{tmp}/tcpflow", "-r", "{trace}"])
                .of("tcpflow"),
        ],
    },
    Question {
        title: "The first 10 KB of each stream",
        note: "Compared with walking the packets, which only parses their layers.",
        traces: &["https", "http"],
        rows: &[
            row("weir packets --count", &["{weir}", "packets", "-r", "{trace}", "--count", "tcp"]),
            row("the library, cutoff of 10 KB", &["{assembler}", "{trace}", "--cutoff", "10240"]),
            row(
                "weir streams --cutoff 10k",
                &["{weir}", "streams", "-r", "{trace}", "--count", "--cutoff", "10k"],
            ),
            row("weir streams", &["{weir}", "streams", "-r", "{trace}", "--count"]),
        ],
    },
    Question {
        title: "50 regular expressions",
        note: "The patterns of `bench/patterns.txt`, searched in all streams, both directions. The peer \
             is vectorscan in streaming mode with libnids.",
        traces: &["https", "http"],
        rows: &[
            FLOOR,
            row("weir match", &["{weir}", "match", "-r", "{trace}", "--count", "-f", "{root}/bench/patterns.txt", "tcp"]),
            row(
                "weir match --matcher vectorscan",
                &[
                    "{weir}",
                    "match",
                    "-r",
                    "{trace}",
                    "--count",
                    "-f",
                    "{root}/bench/patterns.txt",
                    "tcp",
                    "--matcher",
                    "vectorscan",
                ],
            )
            .of("libhyperscan5"),
            row("vectorscan over libnids", &["{vectorscan}", "{root}/bench/patterns.txt", "{trace}"])
                .of("libvectorscan-dev libnids-dev libpcap-dev"),
        ],
    },
    Question {
        title: "TLS names",
        note: "Every TLS handshake's server name.",
        traces: &["https", "http", "hostile"],
        rows: &[
            FLOOR,
            row("weir tls", &["{weir}", "tls", "-r", "{trace}", "--format", "json"]),
            NIDS,
            NDPI,
            row(
                "tshark",
                &[
                    "tshark",
                    "-n",
                    "-r",
                    "{trace}",
                    "-Y",
                    "tls.handshake.type == 1",
                    "-T",
                    "fields",
                    "-e",
                    "tls.handshake.extensions_server_name",
                ],
            )
            .of("tshark")
            .not_on(&["http", "hostile"]),
        ],
    },
    Question {
        title: "HTTP exchanges",
        note: "Every request with its response: method, host, URI, status, sizes. tshark takes minutes, and Suricata loses \
               events here (BASELINES), so neither is run.",
        traces: &["http"],
        rows: &[
            FLOOR,
            row("weir http", &["{weir}", "http", "-r", "{trace}", "--format", "json"]),
            row("weir http --count", &["{weir}", "http", "-r", "{trace}", "--count"]),
            NIDS,
            NDPI,
        ],
    },
    Question {
        title: "DNS transactions",
        note: "Every query with its answer: a million, each in a flow of its own.",
        traces: &["dns"],
        rows: &[
            FLOOR,
            row("weir dns", &["{weir}", "dns", "-r", "{trace}", "--format", "json"]),
            row("weir dns --count", &["{weir}", "dns", "-r", "{trace}", "--count"]),
            NDPI,
            row(
                "tshark",
                &[
                    "tshark", "-n", "-r", "{trace}", "-Y", "dns.flags.response == 1", "-T", "fields", "-e", "dns.qry.name",
                ],
            )
            .of("tshark"),
        ],
    },
    Question {
        title: "1, 10, 100, 256, 1 000 questions at once",
        note: "Questions about packets, connections, TLS, HTTP and DNS in turn, each with a filter that \
             few packets match and an output of its own (`xtask/src/bench/questions.rs`); one pass, one \
             program. The single question asks for the sessions of all three protocols.",
        traces: &["https", "http"],
        rows: &[
            FLOOR,
            row("1 question", &["{weir}", "run", "{tmp}/questions/1.toml", "-r", "{trace}"]),
            row("10 questions", &["{weir}", "run", "{tmp}/questions/10.toml", "-r", "{trace}"]),
            row("100 questions", &["{weir}", "run", "{tmp}/questions/100.toml", "-r", "{trace}"]),
            row("256 questions", &["{weir}", "run", "{tmp}/questions/256.toml", "-r", "{trace}"]),
            row("1 000 questions", &["{weir}", "run", "{tmp}/questions/1000.toml", "-r", "{trace}"]),
        ],
    },
    Question {
        title: "Half-open connections",
        note: "5 M SYNs of as many connections, 100 000 per second: with the time-out of 5 s for \
             unanswered ones, and without. The table is about memory.",
        traces: &["syn"],
        rows: &[
            FLOOR,
            row("weir flows, time-out of 5 s", &["{weir}", "flows", "-r", "{trace}", "--count"]),
            row("weir flows, no time-out", &["{weir}", "flows", "-r", "{trace}", "--count", "--idle-timeout", "0"]),
            row("weir tls, time-out of 5 s", &["{weir}", "sessions", "-r", "{trace}", "tls", "--format", "json"]),
        ],
    },
    Question {
        title: "Packets counted by a filter of four terms",
        note: "Host, port, SYN and time to live. 17 % of `hostile` are fragments. Weir reassembles them \
             before it compares ports; tcpdump does not, nor does Weir over `bench/flat.weir`.",
        traces: &["https", "http", "hostile", "udp64"],
        rows: &[
            FLOOR,
            row(
                "weir packets --count",
                &[
                    "{weir}",
                    "packets",
                    "-r",
                    "{trace}",
                    "--count",
                    "ip.src == 192.0.2.10 and tcp.dstport == 443 and tcp.flags.syn == 1 and ip.ttl > 32",
                ],
            )
            .says(),
            row(
                "weir packets --count, of fragments the first alone",
                &[
                    "{weir}",
                    "packets",
                    "--stack",
                    "{root}/bench/flat.weir",
                    "-r",
                    "{trace}",
                    "--count",
                    "datagram.src == 192.0.2.10 and segment.dport == 443 and segment.syn == 1 and datagram.ttl > 32",
                ],
            )
            .not_on(&["https", "http", "udp64"])
            .says(),
            row(
                "tcpdump --count",
                &[
                    TCPDUMP,
                    "-n",
                    "--count",
                    "-r",
                    "{trace}",
                    "src host 192.0.2.10 and tcp dst port 443 and tcp[tcpflags] & tcp-syn != 0 and ip[8] > 32",
                ],
            )
            .of(TCPDUMP)
            .says(),
        ],
    },
    Question {
        title: "Packets counted by one protocol",
        note: "The filter is `tcp`.",
        traces: &["https", "http", "udp64"],
        rows: &[
            FLOOR,
            row("weir packets --count", &["{weir}", "packets", "-r", "{trace}", "--count", "tcp"]).says(),
            row("tcpdump --count", &[TCPDUMP, "-n", "--count", "-r", "{trace}", "tcp"]).of(TCPDUMP).says(),
        ],
    },
    Question {
        title: "A million flows of 64-byte packets",
        note: "10 M packets over 1 M random flows; bytes per flow are the growth of the program's memory \
             over `weir packets --count udp`.",
        traces: &["udp64"],
        rows: &[
            FLOOR,
            row(BASE, &["{weir}", "packets", "-r", "{trace}", "--count", "udp"]),
            row("weir flows", &["{weir}", "flows", "-r", "{trace}", "--format", "json"]),
            row("weir flows, none wanted", &["{weir}", "flows", "-r", "{trace}", "conn.orig_pkts > 4000000000"]),
            row("weir flows, of a host", &["{weir}", "flows", "-r", "{trace}", "ip.addr == 10.216.78.220"]),
            NIDS,
            row("nfpcapd", &["nfpcapd", "-l", "{tmp}", "-r", "{trace}"]).of("nfdump"),
        ],
    },
];

/// The row whose memory is the baseline of a program without flows.
pub const BASE: &str = "weir packets --count udp";
/// The trace for counting flows, and its number of flows at scale 1.
pub const FLOW_TRACE: (&str, f64) = ("udp64", 1_000_000.0);
