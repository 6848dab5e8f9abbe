//! Outputs on other machines: their names on the command line (`target.rs`), their options, and the sinks
//! behind the names.

mod target;

use crate::names::host_name;
pub use target::Target;

use crate::form::Form;
use crate::messages::failure::Failure;
use crate::metrics::totals::QuestionCounters;
use crate::quantity;
use crate::spec::QuestionSpec;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fmt, io};
use target::Address;
use weir::io::outlet::Pulse;
use weir::io::tcp;
use weir::io::{Format, Patience, sink};
use weir::packet::{Column, RowSink};
use weir_export::clickhouse::User;
use weir_export::syslog::Framing;
use weir_export::{
    Batches, Carrier, ClickHouse, Datagrams, Event, Ipfix, Labels, Lingering, Link, MESSAGE_BYTES_MAX,
    Notify, Peer, Protocol, Queue, SPOOL_BYTES_MIN, Spool, StreamPeer, Syslog, Terms, ipfix, syslog,
};

/// Why rows are lost: the words after the name of the output.
pub const REFUSED: &str = "did not accept them";

/// Bytes of a spool, by default.
const SPOOL_BYTES: u64 = 1 << 30;

/// The column with the name of the machine that captures.
const SENSOR: &str = "sensor";
/// Limit of this name, in bytes.
const SENSOR_BYTES_MAX: usize = 255;

/// How long a spool is waited for that another output uses: at a reload, the previous output of a question
/// ends.
const SPOOL_WAIT: Duration = Duration::from_secs(6);
const SPOOL_INTERVAL: Duration = Duration::from_millis(50);

/// Options of rows that are sent.
#[derive(Debug, Clone)]
pub struct Options {
    spool: Option<PathBuf>,
    spool_max: u64,
    observation_domain: u32,
    /// The name of this machine in batches.
    sensor: String,
    /// A table that does not exist is created.
    creates: bool,
}

impl Options {
    /// The options of a question, which [`check`] has accepted.
    pub fn of(spec: &QuestionSpec) -> Self {
        let stated = spec.spool_max.as_deref().and_then(|max| quantity::bytes("--spool-max", max).ok());
        Self {
            spool: spec.spool.clone(),
            spool_max: stated.unwrap_or(SPOOL_BYTES),
            observation_domain: spec.observation_domain.unwrap_or(0),
            sensor: spec.sensor.clone().unwrap_or_else(host_name),
            creates: spec.create,
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
    if spec.spool.is_some() && !target.as_ref().is_some_and(Target::has_queue) {
        return wrong(
            "--spool is for receivers with a connection: -o ipfix+tcp://…, syslog+tcp://…, kafka://… and clickhouse://…",
        );
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
    if spec.observation_domain.is_some() && !matches!(target, Some(Target::Ipfix(_))) {
        return wrong("--observation-domain is for -o ipfix://HOST:PORT and -o ipfix+tcp://HOST:PORT");
    }
    if let Some(sensor) = &spec.sensor {
        if !target.as_ref().is_some_and(Target::has_batches) {
            return wrong("--sensor is for -o kafka://… and -o clickhouse://…");
        }
        if !(1..=SENSOR_BYTES_MAX).contains(&sensor.len()) || sensor.contains(char::is_control) {
            return wrong(&format!(
                "--sensor: give a name of 1 to {SENSOR_BYTES_MAX} bytes without control characters"
            ));
        }
    }
    if spec.create && !matches!(target, Some(Target::ClickHouse(_))) {
        return wrong("--create is for -o clickhouse://HOST/TABLE");
    }
    let Some(target) = target else { return Ok(()) };
    match (&target, form) {
        (_, Form::Count) => wrong("a number of rows is not sent: leave --count out, or give -o FILE"),
        (_, Form::Capture(_)) => wrong(
            "packets are not sent to this receiver: give -w FILE, -w tcp://HOST:PORT or -w tcp-listen:PORT",
        ),
        (Target::Ipfix(_), _) if spec.format.is_some() => {
            wrong("IPFIX is a format of its own: leave --format out, or give -o FILE")
        }
        (Target::Ipfix(_), _) if log != "conn" => {
            wrong("IPFIX has flow records: use `weir flows`; -o syslog://HOST:PORT sends rows of all kinds")
        }
        (Target::Ipfix(_), _) => match ipfix::Format::of(columns) {
            Ok(_) => Ok(()),
            Err(missing) => {
                wrong(&format!("IPFIX needs the columns {}: add them to --columns", missing.join(", ")))
            }
        },
        (Target::Syslog(_), Form::Rows(Format::Json | Format::Eve)) => Ok(()),
        (Target::Syslog(_), _) => wrong("messages of syslog are JSON: give --format json, or eve, or none"),
        (Target::Kafka { .. } | Target::ClickHouse(_), Form::Lines { .. }) => {
            wrong("lines are not sent to this receiver: give --format arrow, which sends columns")
        }
        _ if spec.format.as_deref().is_some_and(|format| format != "arrow") => {
            wrong("rows are sent to this receiver as Arrow: leave --format out, or give -o FILE")
        }
        (Target::Kafka { brokers, topic }, _) => kafka(brokers, topic).map(drop),
        (Target::ClickHouse(_), _) => Ok(()),
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
        match target {
            Target::Ipfix(address) => {
                let form = ipfix::Format::of(columns)
                    .map_err(|missing| self.failure(&format!("no columns {}", missing.join(", "))))?;
                let stream = ipfix::stream(self.options.observation_domain);
                let carrier = self.messages(address, stream, form.context(), patience)?;
                let name = self.name.clone();
                let tell = move |rows| note!("weir: {name}: {rows} rows are no IP flows, and were not sent");
                Ok(Box::new(Ipfix::new(form, carrier, Box::new(tell))))
            }
            Target::Syslog(address) => {
                // The context only tells messages of different protocols apart.
                let carrier = self.messages(address, syslog::stream(), (*b"syslog").into(), patience)?;
                let framing = if address.is_tcp { Framing::OctetCounting } else { Framing::Datagram };
                let writer = Syslog::new(carrier, framing, &host_name(), options.path);
                Ok(sink::create(format, Box::new(writer), options))
            }
            Target::Kafka { brokers, topic } => {
                self.batches(kafka(brokers, topic)?, columns, patience, options.path)
            }
            Target::ClickHouse(table) => {
                let created = self.options.creates.then_some(columns);
                let peer = ClickHouse::new(table.clone(), clickhouse_user(), created);
                self.batches(Box::new(peer), columns, patience, options.path)
            }
        }
    }

    /// A sink whose batches go to a peer.
    fn batches(
        &self,
        peer: Box<dyn Peer>,
        columns: &[Column],
        patience: &Patience,
        log: &str,
    ) -> Result<Box<dyn RowSink + Send>, Failure> {
        let names = columns.iter().map(|column| column.name.to_string());
        let labels = Labels {
            sensor: self.options.sensor.clone(),
            log: log.to_string(),
            // A reader of several runs, and of several outputs, tells their batches apart.
            run: format!("{:016x}", RandomState::new().build_hasher().finish()),
            columns: std::iter::once(SENSOR.to_string()).chain(names).collect(),
        };
        let link = self.link(peer, labels.context(), patience)?;
        let mut batches = Batches::new(link, self.notify());
        let send = Box::new(move |rows, arrow| batches.send(rows, arrow));
        let first = (SENSOR, labels.sensor.as_str());
        let sink = sink::arrow_messages(log, first, MESSAGE_BYTES_MAX, send);
        let sink = Lingering::start(sink).map_err(|error| self.failure(&error))?;
        Ok(Box::new(sink))
    }

    /// A carrier of messages over UDP or TCP.
    fn messages(
        &self,
        Address { is_tcp, host, port }: &Address,
        protocol: Box<dyn Protocol>,
        context: Arc<[u8]>,
        patience: &Patience,
    ) -> Result<Box<dyn Carrier>, Failure> {
        let (host, port) = (host.clone(), *port);
        if !is_tcp {
            let socket = socket_to(&host, port).map_err(|error| self.failure(&error))?;
            return Ok(Box::new(Datagrams::new(socket, protocol, context, self.notify())));
        }
        let peer = StreamPeer::new(
            Box::new(move || tcp::connect_to(&host, port)),
            |stream: &TcpStream| weir::link::unacknowledged_bytes(stream.as_fd()),
            protocol,
        );
        self.link(Box::new(peer), context, patience)
    }

    /// A queue in memory or on disk, and the link to a peer.
    fn link(
        &self,
        peer: Box<dyn Peer>,
        context: Arc<[u8]>,
        patience: &Patience,
    ) -> Result<Box<dyn Carrier>, Failure> {
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
            is_over: Box::new(move |progress| at_queue.is_over(progress)),
            is_over_at_end: Box::new(move |progress| at_end.is_over_for_completion(progress)),
            notify: self.notify(),
        };
        let link = Link::start(queue, peer, terms);
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
            Event::Rejected(why) => {
                was_interrupted.store(true, Ordering::Relaxed);
                let place = place.as_deref().unwrap_or("memory");
                note!("weir: {name}: refused ({why}): rows wait in {place}, and Weir tries again");
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

/// The user of ClickHouse, from the environment, which other users of the machine cannot read.
fn clickhouse_user() -> Option<User> {
    let of = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let (name, password) = (of("CLICKHOUSE_USER"), of("CLICKHOUSE_PASSWORD"));
    (name.is_some() || password.is_some()).then(|| User {
        name: name.unwrap_or_else(|| "default".to_string()),
        password: password.unwrap_or_default(),
    })
}

/// A topic of Kafka.
#[cfg(feature = "kafka")]
fn kafka(brokers: &str, topic: &str) -> Result<Box<dyn Peer>, Failure> {
    let (brokers, name) = (brokers.to_string(), topic.to_string());
    Ok(Box::new(weir_export::Kafka::new(weir_export::kafka::Topic { brokers, name })))
}

/// No topic: the client of Kafka is not compiled in.
#[cfg(not(feature = "kafka"))]
fn kafka(_: &str, _: &str) -> Result<Box<dyn Peer>, Failure> {
    Err(Failure::new(
        "this weir is built without Kafka: build it with `cargo install --path crates/weir-cli --features kafka`",
    ))
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
