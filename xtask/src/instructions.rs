//! `cargo xtask instructions`: what a packet costs, in instructions, for the usual questions.
//!
//! Callgrind runs the release build, with one worker, over two captures of which one has more connections.
//! The difference belongs to the packets alone: no start, and no compilation, since both begin with packets
//! enough for the second one, which runs in the background. Times vary with the machine, these counts do not:
//! the seeds of hash tables are fixed (`bench/steady.c`), and threads take turns. `bench/instructions.txt`
//! has the counts; CI fails if one has risen by more than 2 %. `--bless` writes the table anew. `--kinds`
//! shows the costs by the kind of packet, and compares nothing; `--weir FILE` counts those of another build.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{self, Result, find, need, output, read, root, said, target, write};
use crate::traces::frame::{Ends, Trace, ethernet, ipv4, tcp, udp};

/// The questions: those of the benchmarks, and the formats that most people read.
const QUESTIONS: &[&[&str]] = &[
    &["packets", "--count", "tcp"],
    &["tls", "--format", "json"],
    &["flows", "--count"],
    &["flows", "--format", "json"],
    &["streams", "--count"],
    &["http", "--format", "json"],
];

/// Above this, a count is a regression. In percent.
const RISE_MAX: f64 = 2.0;
/// Further connections of a capture that measures a kind of packet; another one has twice as many.
const KIND_CONNECTIONS: u32 = 4_000;
/// How often a count that has risen is taken again.
const AGAIN: usize = 2;
/// Connections at the beginning of each capture: until then, parts of the program are compiled again.
const WARM_CONNECTIONS: u32 = 10_000;
/// Further connections of a larger capture.
const CONNECTIONS: u32 = 18_000;
/// Packets of a kind that each connection has, in captures that measure this kind.
const REPEATED: u32 = 8;

/// Flags of TCP (RFC 9293, section 3.1).
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const PUSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// What the packets of a capture are.
#[derive(Clone, Copy)]
enum Kind {
    /// Whole connections: an exchange of HTTP in 9 packets.
    Connections,
    /// Only the first packet of each connection; that, and its answer.
    Syn,
    SynAck,
    /// Connections that end with the handshake, followed by data in order, or by acknowledgements.
    Handshake,
    Data,
    Acknowledgements,
    /// As `Handshake`, and the first FIN.
    Fin,
    /// The first datagram of each flow; that, and further ones.
    Datagram,
    Datagrams,
}

/// All of them, in the order of their numbers.
const ALL: &[Kind] = &[
    Kind::Connections,
    Kind::Syn,
    Kind::SynAck,
    Kind::Handshake,
    Kind::Data,
    Kind::Acknowledgements,
    Kind::Fin,
    Kind::Datagram,
    Kind::Datagrams,
];

/// A kind of packet: its name, the captures with and without these packets, and how many there are in a
/// connection.
const KINDS: &[(&str, Kind, Option<Kind>, u32)] = &[
    ("SYN", Kind::Syn, None, 1),
    ("SYN-ACK", Kind::SynAck, Some(Kind::Syn), 1),
    ("data in order", Kind::Data, Some(Kind::Handshake), REPEATED),
    ("acknowledgement", Kind::Acknowledgements, Some(Kind::Handshake), REPEATED),
    ("FIN", Kind::Fin, Some(Kind::Handshake), 1),
    ("first datagram", Kind::Datagram, None, 1),
    ("further datagram", Kind::Datagrams, Some(Kind::Datagram), REPEATED),
];

/// The chore.
///
/// # Errors
/// A count has risen, or Callgrind is missing.
pub fn run(args: &[String]) -> Result {
    let (mut is_blessed, mut has_kinds, mut weir) = (false, false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--bless" => is_blessed = true,
            "--kinds" => has_kinds = true,
            "--weir" => weir = Some(PathBuf::from(args.next().ok_or("--weir needs a file")?)),
            other => return Err(format!("unknown argument {other}: --bless, --kinds or --weir FILE")),
        }
    }
    need(&[("valgrind", "valgrind"), ("cc", "gcc libc6-dev")])?;
    let weir = weir.map_or_else(|| shell::build_weir(true), Ok)?;
    let bench = Bench::new(weir)?;
    if has_kinds {
        return bench.kinds();
    }
    let counts = bench.questions()?;
    let path = root().join("bench/instructions.txt");
    if is_blessed {
        return write(&path, table(&counts));
    }
    compare(&read(&path)?, &counts, &bench)
}

/// The chore as a step of CI, unless Callgrind is missing.
///
/// # Errors
/// A count has risen.
pub fn run_if_possible(args: &[String]) -> Result {
    match need(&[("valgrind", "valgrind")]) {
        Ok(()) => run(args),
        Err(why) => {
            crate::skips::note(&format!("instructions: {why}"));
            Ok(())
        }
    }
}

/// The counts of all questions, as lines.
fn table(counts: &[(String, u64)]) -> String {
    let mut text = String::from("# Instructions for a packet: cargo xtask instructions --bless\n");
    for (question, count) in counts {
        let _ = writeln!(text, "{count:>6} {question}");
    }
    text
}

/// Compares the counts with the table. A count above the limit is measured again, because a count varies:
/// parts of the program are compiled a second time in the background, and the new code replaces the old one
/// some packets earlier or later.
fn compare(table: &str, counts: &[(String, u64)], bench: &Bench) -> Result {
    let known = |question: &str| {
        let line =
            table.lines().find(|line| line.trim_start().split_once(' ').is_some_and(|l| l.1 == question));
        line?.split_whitespace().next()?.parse::<u64>().ok()
    };
    let mut wrong = vec![];
    for (question, count) in counts {
        let Some(before) = known(question) else {
            wrong.push(format!("`{question}` is not in the table"));
            continue;
        };
        let rise = |count: u64| (count as f64 / before as f64 - 1.0) * 100.0;
        let mut count = *count;
        for _ in 0..AGAIN {
            if rise(count) > RISE_MAX {
                count = count.min(bench.question(&question.split(' ').collect::<Vec<_>>())?);
            }
        }
        println!("{count:>6} {:>+6.1} %  {question}", rise(count));
        if rise(count) > RISE_MAX {
            wrong.push(format!("`{question}`: {count} instructions for a packet, {before} before"));
        } else if rise(count) < -RISE_MAX {
            println!("        less than before: note it with --bless");
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{}\n  find the reason, or write the table anew: cargo xtask instructions --bless",
            wrong.join("\n")
        )),
    }
}

/// A build, and where its captures are.
struct Bench {
    weir: PathBuf,
    folder: PathBuf,
    steady: PathBuf,
}

impl Bench {
    fn new(weir: PathBuf) -> Result<Self> {
        let folder = target()?.join("instructions");
        std::fs::create_dir_all(&folder).map_err(said(folder.display()))?;
        let steady = folder.join("steady.so");
        let source = root().join("bench/steady.c");
        output(Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&steady).arg(source))?;
        Ok(Self { weir, folder, steady })
    }

    /// The capture of this kind with so many connections.
    fn capture(&self, kind: Kind, connections: u32) -> Result<PathBuf> {
        let file = self.folder.join(format!("{}-{connections}.pcap", kind as u8));
        make(&file, kind, connections)?;
        Ok(file)
    }

    /// Instructions of a whole run.
    fn count(&self, question: &[&str], capture: &Path) -> Result<u64> {
        let mut command = Command::new(find("valgrind").ok_or("valgrind is gone")?);
        command
            .args(["--fair-sched=yes", "--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&self.weir);
        command.args(question).arg(capture).args(["--engine", "native", "-j", "1", "--no-sandbox"]);
        // Few variables, and always the same: they are on the stack.
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LD_PRELOAD", &self.steady);
        let out = command.output().map_err(said("valgrind"))?;
        let text = String::from_utf8_lossy(&out.stderr);
        let count = text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
        count.ok_or_else(|| format!("{question:?}: callgrind counts nothing:\n{text}"))
    }

    /// Instructions for a packet.
    fn question(&self, question: &[&str]) -> Result<u64> {
        let counts = [0, CONNECTIONS].map(|further| {
            let capture = self.folder.join(format!("{}-{further}.pcap", Kind::Connections as u8));
            self.count(question, &capture)
        });
        let [small, large] = counts;
        let packets = u64::from(CONNECTIONS) * 9;
        Ok((large?.saturating_sub(small?) + packets / 2) / packets)
    }

    /// Instructions for a packet, by question. Two questions at a time.
    fn questions(&self) -> Result<Vec<(String, u64)>> {
        for further in [0, CONNECTIONS] {
            self.capture(Kind::Connections, further)?;
        }
        let mut counts = vec![];
        for pair in QUESTIONS.chunks(2) {
            let both: Result<Vec<u64>> = std::thread::scope(|scope| {
                let threads: Vec<_> =
                    pair.iter().map(|question| scope.spawn(|| self.question(question))).collect();
                let ended = threads.into_iter().map(|thread| thread.join());
                ended.map(|count| count.unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
            });
            counts.extend(pair.iter().map(|question| question.join(" ")).zip(both?));
        }
        Ok(counts)
    }

    /// Prints the instructions of each kind of packet.
    fn kinds(&self) -> Result {
        let names: String = KINDS.iter().map(|(name, ..)| format!(" {name:>16}")).collect();
        println!("{:24}{names}", "");
        for question in QUESTIONS {
            let of = |kind: &Kind| -> Result<u64> {
                let [few, many] = [KIND_CONNECTIONS, 2 * KIND_CONNECTIONS].map(|further| {
                    let capture = self.capture(*kind, further)?;
                    self.count(question, &capture)
                });
                Ok(many?.saturating_sub(few?))
            };
            let costs = ALL.iter().map(of).collect::<Result<Vec<u64>>>()?;
            let mut line = format!("{:24}", question.join(" "));
            for &(_, with, without, packets) in KINDS {
                let without = without.map_or(0, |kind| costs[kind as usize]);
                let more = costs[with as usize].saturating_sub(without);
                let _ = write!(line, " {:>16}", more / u64::from(KIND_CONNECTIONS * packets));
            }
            println!("{line}");
        }
        Ok(())
    }
}

/// Writes a capture of connections to a server, one after the other.
fn make(file: &Path, kind: Kind, connections: u32) -> Result {
    let mut trace = Trace::create(file, 50)?;
    for number in 0..WARM_CONNECTIONS + connections {
        let kind = if number < WARM_CONNECTIONS { Kind::Connections } else { kind };
        let ends = Ends {
            src: 0x0a00_0000 | number,
            dst: 0xc633_6407,
            src_port: 1024 + (number % 60_000) as u16,
            dst_port: 80,
        };
        Connection { trace: &mut trace, ends, sent: [1000, 5000] }.all(kind, number)?;
    }
    trace.finish()
}

/// A connection whose packets are written.
struct Connection<'a> {
    trace: &'a mut Trace,
    ends: Ends,
    /// The next sequence number of the client, and of the server.
    sent: [u32; 2],
}

impl Connection<'_> {
    fn put(&mut self, is_server: bool, flags: u8, payload: &[u8]) -> Result {
        let ends = if is_server { self.ends.reversed() } else { self.ends };
        let (own, other) = (usize::from(is_server), usize::from(!is_server));
        let ack = if flags & ACK == 0 { 0 } else { self.sent[other] };
        let segment = tcp(ends, self.sent[own], ack, flags, payload);
        self.sent[own] += payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.trace.put(&ethernet(0x0800, &ipv4(ends, 6, 0, 0, &segment)))
    }

    fn datagram(&mut self) -> Result {
        self.trace.put(&ethernet(0x0800, &ipv4(self.ends, 17, 0, 0, &udp(self.ends, &[0; 64]))))
    }

    fn all(&mut self, kind: Kind, number: u32) -> Result {
        let (client, server) = (false, true);
        if let Kind::Datagram | Kind::Datagrams = kind {
            self.ends.dst_port = 7007;
            let further = if matches!(kind, Kind::Datagrams) { REPEATED } else { 0 };
            return (0..=further).try_for_each(|_| self.datagram());
        }
        self.put(client, SYN, &[])?;
        if let Kind::Syn = kind {
            return Ok(());
        }
        self.put(server, SYN | ACK, &[])?;
        if let Kind::SynAck = kind {
            return Ok(());
        }
        self.put(client, ACK, &[])?;
        match kind {
            Kind::Data => return (0..REPEATED).try_for_each(|_| self.put(client, PUSH | ACK, &[b'.'; 512])),
            Kind::Acknowledgements => return (0..REPEATED).try_for_each(|_| self.put(client, ACK, &[])),
            Kind::Fin => return self.put(client, FIN | ACK, &[]),
            Kind::Connections => {}
            _ => return Ok(()),
        }
        let body = [b'.'; 2700];
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let request = format!("GET /{number} HTTP/1.1\r\nHost: a.example\r\nUser-Agent: x\r\n\r\n");
        let (first, rest) = body.split_at(1400 - head.len());
        self.put(client, PUSH | ACK, request.as_bytes())?;
        self.put(server, PUSH | ACK, &[head.as_bytes(), first].concat())?;
        self.put(server, PUSH | ACK, rest)?;
        self.put(client, FIN | ACK, &[])?;
        self.put(server, FIN | ACK, &[])?;
        self.put(client, ACK, &[])
    }
}
