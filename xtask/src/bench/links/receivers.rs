//! Programs that receive packets on an interface, and how many each says that it has received.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::pair::RECEIVING;
use crate::bench::child::run_time_ns;
use crate::shell::{Result, find, read, said, sh, write};

/// A program's buffer, megabytes: that of Weir's rings.
const BUFFER_MB: usize = 64;

/// A program, and its command.
#[derive(Debug, Clone)]
pub struct Receiver {
    pub name: String,
    command: Vec<String>,
    kind: Kind,
    /// What it prints when it captures.
    ready: &'static str,
}

/// How a program says that it has begun, and what it has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Weir,
    Tcpdump,
    Suricata,
}

/// What a program says about a run.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Packets that the program, or the kernel for it, has seen and not lost.
    pub received: u64,
    /// Packets that the program itself has processed.
    pub processed: u64,
    /// All that it printed.
    pub text: String,
}

impl Receiver {
    /// `weir` with these arguments, on an interface.
    pub fn weir(weir: &Path, args: &str, interface: &str, method: &str) -> Self {
        let mut words = vec![weir.display().to_string()];
        words.extend(args.split_whitespace().map(str::to_string));
        words.extend(["-i", interface, "--stats", "--method"].map(str::to_string));
        words.extend(method.split(' ').map(str::to_string));
        let shown = args.replace(" -o /dev/null", "");
        Self {
            name: format!("weir {shown}, {method}"),
            command: words,
            kind: Kind::Weir,
            ready: "capturing on",
        }
    }

    /// tcpdump, which writes what matches a filter.
    pub fn tcpdump(interface: &str, filter: &str) -> Self {
        let line = format!("tcpdump -i {interface} -n -s 0 -B {} -Z root -w /dev/null", BUFFER_MB * 1024);
        let mut words: Vec<String> = line.split(' ').map(str::to_string).collect();
        words.extend((!filter.is_empty()).then(|| filter.to_string()));
        Self {
            name: "tcpdump -w /dev/null".into(),
            command: words,
            kind: Kind::Tcpdump,
            ready: "listening on",
        }
    }

    /// Suricata without rules, with records of a kind (`flow`, `tls`). `None` if it is not installed.
    ///
    /// # Errors
    /// If the configuration cannot be written.
    pub fn suricata(interface: &str, records: &str, scratch: &Path) -> Result<Option<Self>> {
        let Some(program) = find("suricata") else { return Ok(None) };
        let folder = scratch.join(format!("suricata-{records}"));
        let file = folder.join("suricata.yaml");
        write(&file, configuration(interface, records))?;
        let line = format!(
            "{} -c {} -S /dev/null -l {} --af-packet={interface} --runmode workers",
            program.display(),
            file.display(),
            folder.display()
        );
        let command = line.split(' ').map(str::to_string).collect();
        Ok(Some(Self {
            name: format!("Suricata, {records} records, af_packet"),
            command,
            kind: Kind::Suricata,
            ready: "Engine started",
        }))
    }

    /// The program, which has begun once it prints this.
    pub fn until(self, ready: &'static str) -> Self {
        Self { ready, ..self }
    }

    /// The program in a network namespace of the lab.
    pub fn within(mut self, namespace: &str) -> Self {
        self.command.splice(0..0, ["ip", "netns", "exec", namespace].map(str::to_string));
        self
    }

    /// The program without the right to load programs into the kernel.
    pub fn without_filters(mut self) -> Self {
        let words = ["setpriv", "--bounding-set", "-bpf,-perfmon,-sys_admin"];
        self.command.splice(0..0, words.map(str::to_string));
        self
    }

    /// Starts the program on the receiving processor, with more priority than other programs of the machine,
    /// and waits until it captures.
    ///
    /// # Errors
    /// If it does not capture within 30 seconds, with what it printed.
    pub fn start(&self) -> Result<Running> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "taskset", "-c", &RECEIVING.to_string(), "chrt", "-r", "1"]);
        command.args(&self.command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(said(&self.name))?;
        let printed = Arc::new(Mutex::new(String::new()));
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let readers = [out.map(|out| collect(out, &printed)), err.map(|err| collect(err, &printed))];
        let readers = readers.into_iter().flatten().collect();
        let log = self.command.iter().skip_while(|word| *word != "-l").nth(1).map(PathBuf::from);
        let mut running = Running { child, printed, readers, kind: self.kind, log };
        let began = Instant::now();
        while !running.text().contains(self.ready) {
            if began.elapsed() > Duration::from_secs(30) {
                let _ = running.child.kill();
                return Err(format!("{} does not capture: {}", self.name, running.text()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }
}

/// Adds what a program prints to a text.
fn collect(mut from: impl Read + Send + 'static, to: &Arc<Mutex<String>>) -> JoinHandle<()> {
    let to = Arc::clone(to);
    std::thread::spawn(move || {
        let mut some = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut some) {
            let text = String::from_utf8_lossy(&some[..count]);
            to.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
        }
    })
}

/// A program that captures.
pub struct Running {
    child: Child,
    printed: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    kind: Kind,
    /// The folder of its log.
    log: Option<PathBuf>,
}

impl Running {
    pub fn text(&self) -> String {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The process that receives packets: of Weir, a child of the process that was started, which keeps the
    /// rights.
    pub fn process(&self) -> u32 {
        let own = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let first = children.ok().and_then(|all| all.split_whitespace().next()?.parse().ok());
        first.unwrap_or(own)
    }

    /// Processor time of the process that receives packets, nanoseconds.
    pub fn run_time_ns(&self) -> Result<u64> {
        run_time_ns(self.process())
    }

    /// Ends the program as Ctrl-C does.
    ///
    /// # Errors
    /// If it fails, or does not say how many packets it has received.
    pub fn end(mut self) -> Result<Account> {
        sh(&format!("kill -INT {}", self.child.id()))?;
        let status = self.child.wait().map_err(said("the receiver"))?;
        self.readers.drain(..).for_each(|reader| drop(reader.join()));
        let text = self.text();
        if !status.success() {
            return Err(format!("the receiver fails: {text}"));
        }
        let unclear = || format!("the receiver does not say how many packets it has received: {text}");
        let (received, processed) = match self.kind {
            Kind::Weir => {
                let lost: u64 = ["ring_full", "no_buffer", "refused", "invalid"]
                    .iter()
                    .filter_map(|why| counter(&text, &format!("source_{why}")))
                    .sum();
                let received = counter(&text, "source_received").ok_or_else(unclear)?;
                (received - lost, counter(&text, "packets").ok_or_else(unclear)?)
            }
            Kind::Tcpdump => {
                let count = |words: &str| -> Result<u64> {
                    let line = text.lines().find(|line| line.ends_with(words));
                    line.and_then(|line| line.split(' ').next()?.parse().ok()).ok_or_else(unclear)
                };
                // Packets of its last block are received, and not yet captured.
                (count("received by filter")? - count("dropped by kernel")?, count("captured")?)
            }
            Kind::Suricata => {
                let log = self.log.as_ref().ok_or_else(unclear)?.join("stats.log");
                let all = read(&log)?;
                let last = all.lines().rev().find(|line| line.starts_with("decoder.pkts "));
                let count = last.and_then(|line| line.rsplit('|').next()?.trim().parse().ok());
                let count = count.ok_or_else(unclear)?;
                (count, count)
            }
        };
        Ok(Account { received, processed, text })
    }
}

/// The value of a counter of `weir --stats`.
pub fn counter(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn configuration(interface: &str, records: &str) -> String {
    let has_tls = if records == "tls" { "yes" } else { "no" };
    format!(
        "%YAML 1.1
---
capture: {{disable-offloading: false}}
stats: {{enabled: yes, interval: 3600}}
outputs:
  - eve-log: {{enabled: yes, filetype: regular, filename: /dev/null, types: [{records}]}}
  - stats: {{enabled: yes, filename: stats.log, append: no, totals: yes, threads: no}}
app-layer: {{protocols: {{tls: {{enabled: {has_tls}, detection-ports: {{dp: 443}}}}}}}}
stream: {{checksum-validation: no, memcap: 1gb, reassembly: {{memcap: 1gb}}}}
flow: {{memcap: 1gb}}
af-packet:
  - interface: {interface}
    threads: 1
    cluster-id: 99
    cluster-type: cluster_flow
    tpacket-v3: yes
    block-size: 1048576
    ring-size: {}
    checksum-checks: no
",
        // A block has a place for every 2048 bytes.
        BUFFER_MB * 512
    )
}
