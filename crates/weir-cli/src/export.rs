//! Outputs on other machines: their names on the command line, and the sinks behind the names.

use crate::failure::Failure;
use crate::form::Form;
use crate::quantity;
use crate::spec::QuestionSpec;
use crate::totals::QuestionCounters;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, fs, io};
use weir::io::outlet::Pulse;
use weir::io::tcp::{self, Endpoint};
use weir::io::{Format, Patience, sink};
use weir::packet::{Column, RowSink};
use weir_export::syslog::Framing;
use weir_export::{
    Carrier, Datagrams, Event, Ipfix, Link, Notify, Protocol, Queue, SPOOL_BYTES_MIN, Spool, Syslog, Terms,
    ipfix, syslog,
};

/// Why rows are lost: the words after the name of the output.
pub const REFUSED: &str = "did not accept them";

/// Bytes of a spool, by default.
const SPOOL_BYTES: u64 = 1 << 30;

/// How long a spool is waited for that another output uses: at a reload, the previous output of a question ends.
const SPOOL_WAIT: Duration = Duration::from_secs(6);
const SPOOL_INTERVAL: Duration = Duration::from_millis(50);

/// What a receiver understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Ipfix,
    Syslog,
}

/// The names of receivers.
const SCHEMES: &[(&str, Language, bool)] = &[
    ("ipfix://", Language::Ipfix, false),
    ("ipfix+tcp://", Language::Ipfix, true),
    ("syslog://", Language::Syslog, false),
    ("syslog+tcp://", Language::Syslog, true),
];

/// A receiver of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    language: Language,
    is_tcp: bool,
    host: String,
    port: u16,
}

/// The scheme of a name, with `://`.
fn scheme(name: &str) -> Option<&str> {
    let end = name.find("://")?;
    let is_scheme = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name[..end].chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c));
    is_scheme.then(|| &name[..end + "://".len()])
}

impl Target {
    /// Whether the name has the form of a receiver's, which may have mistakes.
    pub fn is_named(name: &Path) -> bool {
        !Endpoint::is_named(name) && name.to_str().is_some_and(|name| scheme(name).is_some())
    }

    /// The receiver of this name; `None` if it is the name of a file or of a capture's connection.
    ///
    /// # Errors
    /// What is wrong with the name, and the right form.
    pub fn of(name: &Path) -> Option<Result<Self, Failure>> {
        let text = name.to_str().filter(|_| Self::is_named(name))?;
        let named = scheme(text)?;
        let Some(&(_, language, is_tcp)) = SCHEMES.iter().find(|(known, ..)| *known == named) else {
            let known: Vec<String> = SCHEMES.iter().map(|(known, ..)| format!("{known}HOST:PORT")).collect();
            return Some(Err(Failure::new(format!(
                "{text}: unknown receiver `{named}`; there are {}. A file of this name is ./{text}",
                known.join(", ")
            ))));
        };
        // Host and port have the same form everywhere.
        let address = format!("tcp://{}", &text[named.len()..]);
        Some(match Endpoint::of(Path::new(&address)) {
            Some(Ok(Endpoint::Connect { host, port })) => Ok(Self { language, is_tcp, host, port }),
            _ => Err(Failure::new(format!(
                "{text}: write {named}HOST:PORT, with an IPv6 address in brackets: {named}[::1]:{}",
                if language == Language::Ipfix { 4739 } else { 514 }
            ))),
        })
    }
}

/// Options of rows that are sent.
#[derive(Debug, Clone)]
pub struct Options {
    spool: Option<PathBuf>,
    spool_max: u64,
    observation_domain: u32,
}

impl Options {
    /// The options of a question, which [`check`] has accepted.
    pub fn of(spec: &QuestionSpec) -> Self {
        let stated = spec.spool_max.as_deref().and_then(|max| quantity::bytes("--spool-max", max).ok());
        Self {
            spool: spec.spool.clone(),
            spool_max: stated.unwrap_or(SPOOL_BYTES),
            observation_domain: spec.observation_domain.unwrap_or(0),
        }
    }
}

/// Checks that the rows of a question can be sent, and that its options are for a receiver.
///
/// # Errors
/// What is wrong, and the remedy.
pub fn check(spec: &QuestionSpec, form: Form, log: &str, columns: &[Column]) -> Result<(), Failure> {
    let target = spec.output.as_deref().and_then(Target::of).transpose()?;
    let wrong = |message: &str| Err(Failure::new(message));
    if spec.spool.is_some() && !target.as_ref().is_some_and(|target| target.is_tcp) {
        return wrong("--spool is for -o ipfix+tcp://HOST:PORT and -o syslog+tcp://HOST:PORT");
    }
    if let Some(max) = &spec.spool_max {
        let bytes = quantity::bytes("--spool-max", max)?;
        if spec.spool.is_none() {
            return wrong("--spool-max is for --spool: give both");
        }
        if bytes < SPOOL_BYTES_MIN {
            return wrong(&format!("--spool-max {max}: give at least {}M", SPOOL_BYTES_MIN >> 20));
        }
    }
    let is_ipfix = target.as_ref().is_some_and(|target| target.language == Language::Ipfix);
    if spec.observation_domain.is_some() && !is_ipfix {
        return wrong("--observation-domain is for -o ipfix://HOST:PORT and -o ipfix+tcp://HOST:PORT");
    }
    match (target.map(|target| target.language), form) {
        (None, _) => Ok(()),
        (Some(_), Form::Count) => wrong("a number of rows is not sent: leave --count out, or give -o FILE"),
        (Some(_), Form::Capture(_)) => wrong(
            "packets are not sent to this receiver: give -w FILE, -w tcp://HOST:PORT or -w tcp-listen:PORT",
        ),
        (Some(Language::Ipfix), _) if spec.format.is_some() => {
            wrong("IPFIX is a format of its own: leave --format out, or give -o FILE")
        }
        (Some(Language::Ipfix), _) if log != "conn" => {
            wrong("IPFIX has flow records: use `weir flows`; -o syslog://HOST:PORT sends rows of all kinds")
        }
        (Some(Language::Ipfix), _) => match ipfix::Format::of(columns) {
            Ok(_) => Ok(()),
            Err(missing) => {
                wrong(&format!("IPFIX needs the columns {}: add them to --columns", missing.join(", ")))
            }
        },
        (Some(Language::Syslog), Form::Rows(Format::Json | Format::Eve)) => Ok(()),
        (Some(Language::Syslog), _) => {
            wrong("messages of syslog are JSON: give --format json, or eve, or none")
        }
    }
}

/// Rows on their way to a receiver.
pub struct Export {
    name: String,
    options: Options,
    counters: Arc<QuestionCounters>,
    pulse: Option<Pulse>,
    lost: Arc<AtomicU64>,
}

impl Export {
    /// An export to the output of this name, whose losses are counted in `counters`.
    pub fn new(
        name: String,
        options: Options,
        counters: Arc<QuestionCounters>,
        pulse: Option<Pulse>,
    ) -> Self {
        Self { name, options, counters, pulse, lost: Arc::default() }
    }

    /// Rows that are lost so far.
    pub fn lost_rows(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The sink for a receiver. Nothing is connected yet: a receiver over TCP may come later.
    ///
    /// # Errors
    /// The host is unknown, the spool cannot be used, or a socket or thread cannot be created.
    pub fn open(
        &self,
        target: &Target,
        columns: &[Column],
        patience: &Patience,
        format: Format,
        options: &sink::Options,
    ) -> Result<Box<dyn RowSink + Send>, Failure> {
        match target.language {
            Language::Ipfix => {
                let form = ipfix::Format::of(columns)
                    .map_err(|missing| self.failure(&format!("no columns {}", missing.join(", "))))?;
                let stream = ipfix::stream(self.options.observation_domain);
                let carrier = self.carrier(target, stream, form.context(), patience)?;
                let name = self.name.clone();
                let tell = move |rows| note!("weir: {name}: {rows} rows are no IP flows, and were not sent");
                Ok(Box::new(Ipfix::new(form, carrier, Box::new(tell))))
            }
            Language::Syslog => {
                // The context only tells messages of different protocols apart.
                let carrier = self.carrier(target, syslog::stream(), (*b"syslog").into(), patience)?;
                let framing = if target.is_tcp { Framing::OctetCounting } else { Framing::Datagram };
                let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                let writer = Syslog::new(carrier, framing, &host, options.path);
                Ok(sink::create(format, Box::new(writer), options))
            }
        }
    }

    fn carrier(
        &self,
        target: &Target,
        protocol: Box<dyn Protocol>,
        context: Arc<[u8]>,
        patience: &Patience,
    ) -> Result<Box<dyn Carrier>, Failure> {
        let Target { host, port, .. } = target.clone();
        if !target.is_tcp {
            let socket = socket_to(&host, port).map_err(|error| self.failure(&error))?;
            return Ok(Box::new(Datagrams::new(socket, protocol, context, self.notify())));
        }
        let queue = match &self.options.spool {
            None => Queue::in_memory(context),
            Some(directory) => {
                let spool = open_spool(directory, self.options.spool_max, &context);
                let failed = |error| self.failure(&format!("the spool {}: {error}", directory.display()));
                Queue::on_disk(spool.map_err(failed)?)
            }
        };
        let (at_queue, at_end) = (patience.clone(), patience.clone());
        let terms = Terms {
            connect: Box::new(move || tcp::connect_to(&host, port)),
            unacknowledged: |stream: &TcpStream| weir::link::unacknowledged_bytes(stream.as_fd()),
            is_over: Box::new(move |progress| at_queue.is_over(progress)),
            is_over_at_end: Box::new(move |progress| at_end.is_over_for_completion(progress)),
            notify: self.notify(),
        };
        let link = Link::start(queue, protocol, terms);
        link.map(|link| Box::new(link) as Box<dyn Carrier>).map_err(|error| self.failure(&error))
    }

    fn failure(&self, what: &dyn fmt::Display) -> Failure {
        Failure::new(format!("{}: {what}", self.name))
    }

    /// Counts losses, and reports what a person should know.
    fn notify(&self) -> Notify {
        let name = self.name.clone();
        let (counters, lost) = (Arc::clone(&self.counters), Arc::clone(&self.lost));
        let (pulse, was_interrupted) = (self.pulse.clone(), AtomicBool::new(false));
        let place = self.options.spool.as_ref().map(|spool| spool.display().to_string());
        Notify::new(move |event| match event {
            Event::Lost(rows) => {
                counters.add_lost(rows);
                lost.fetch_add(rows, Ordering::Relaxed);
            }
            Event::Connected => {
                if was_interrupted.swap(false, Ordering::Relaxed) {
                    note!("weir: {name}: connected again");
                }
            }
            Event::Disconnected(error) => {
                was_interrupted.store(true, Ordering::Relaxed);
                let place = place.as_deref().unwrap_or("memory");
                note!("weir: {name}: no connection ({error}): rows wait in {place}, and Weir tries again");
            }
            Event::Refused => {
                note!(
                    "weir: {name}: nothing receives there: rows are lost; start the receiver, or check the port"
                );
            }
            Event::Disk(error) => {
                say!("weir: {name}: the spool fails: {error}; make room, or check the disk")
            }
            Event::Damaged(bytes) => {
                say!("weir: {name}: {bytes} bytes of the spool are damaged, and are left out")
            }
            Event::Kept(rows) => {
                let place = place.as_deref().unwrap_or_default();
                note!(
                    "weir: {name}: {rows} rows stay in the spool {place}: the next run with this spool sends them"
                );
            }
            Event::Progress => pulse.iter().for_each(Pulse::beat),
        })
    }
}

/// A socket that sends datagrams to the first address of a host.
fn socket_to(host: &str, port: u16) -> io::Result<UdpSocket> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("the host `{host}` has no address"));
    for address in tcp::addresses_of(host, port)? {
        let any = if address.is_ipv4() { [0; 4].into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0));
        match socket.and_then(|socket| socket.connect(address).map(|()| socket)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Opens a spool; waits a moment for another output that uses the spool.
fn open_spool(directory: &Path, bytes_max: u64, context: &Arc<[u8]>) -> io::Result<Spool> {
    let begin = Instant::now();
    loop {
        match Spool::open(directory, bytes_max, Arc::clone(context)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && begin.elapsed() < SPOOL_WAIT => {
                std::thread::sleep(SPOOL_INTERVAL);
            }
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<Result<Target, String>> {
        Target::of(Path::new(name)).map(|target| target.map_err(|wrong| wrong.to_string()))
    }

    #[test]
    fn names_of_receivers_are_read() {
        let target = |name: &str| of(name).expect("it is a receiver").expect("it is right");
        let ipfix = target("ipfix://192.0.2.1:4739");
        assert_eq!(
            (ipfix.language, ipfix.is_tcp, &*ipfix.host, ipfix.port),
            (Language::Ipfix, false, "192.0.2.1", 4739)
        );
        let syslog = target("syslog+tcp://[::1]:514");
        assert_eq!(
            (syslog.language, syslog.is_tcp, &*syslog.host, syslog.port),
            (Language::Syslog, true, "::1", 514)
        );
        for file in ["ipfix", "ipfix:/x", "./ipfix://x", "x y://z", "tcp://host:9000", "tcp-listen:9000", "-"]
        {
            assert!(of(file).is_none(), "{file}");
        }
    }

    #[test]
    fn wrong_names_get_the_right_form() {
        for (name, wanted) in [
            ("ipfix://host", "write ipfix://HOST:PORT"),
            ("ipfix+tcp://::1:4739", "ipfix+tcp://[::1]:4739"),
            ("syslog://host:0", "write syslog://HOST:PORT"),
            ("kafka://host:9092", "there are ipfix://HOST:PORT, ipfix+tcp://HOST:PORT, syslog://HOST:PORT"),
        ] {
            let said = of(name).expect("it is a receiver").expect_err(name);
            assert!(said.contains(wanted), "{name}: {said}");
        }
    }
}
