//! Sends a capture to every client that connects.
//!
//! Each client has a thread and a queue of its own (an [`Outlet`]), so that it delays nobody. A client that
//! accepts nothing loses packets, which are counted; the packets that it receives are a valid capture
//! nevertheless. The capture of a client begins with the packets after its connection.

use super::{CaptureFormat, CaptureWriter};
use crate::outlet::{Job, Load, Outlet, Paced, Patience};
use crate::source::Following;
use crate::tcp::Listener;
use rustix::net::RecvFlags;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Limit of clients at the same time.
pub const CLIENTS_MAX: usize = 64;

/// Writes the same packets to the capture of each client.
pub type WriteCapture = dyn Fn(&mut CaptureWriter) -> io::Result<()> + Send + Sync;

/// A client has come or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEvent {
    /// It is connected.
    Connected(SocketAddr),
    /// It has closed its connection.
    Left(SocketAddr),
    /// It was rejected, because there are too many clients.
    Rejected(SocketAddr),
}

/// Packets that a client did not accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLoss {
    /// The client.
    pub client: SocketAddr,
    /// Number of packets.
    pub packets: u64,
}

/// The clients of a capture.
pub struct CaptureClients {
    shared: Arc<Shared>,
    /// Accepts clients, and returns the listener at its end.
    thread: Option<JoinHandle<Listener>>,
}

struct Shared {
    format: CaptureFormat,
    findings: Option<Following>,
    /// How long a client that accepts nothing is waited for.
    patience: Patience,
    report: Box<dyn Fn(ClientEvent) + Send + Sync>,
    clients: Mutex<Clients>,
    /// A client has connected.
    connected: Condvar,
    is_over: AtomicBool,
}

#[derive(Default)]
struct Clients {
    list: Vec<Client>,
    /// Losses of clients that have left.
    losses: Vec<ClientLoss>,
}

struct Client {
    address: SocketAddr,
    outlet: Outlet,
    socket: TcpStream,
    /// The capture; `None` once the client has left.
    writer: Arc<Mutex<State>>,
    packets_lost: u64,
}

/// The capture that a client receives.
enum State {
    Open(Box<CaptureWriter>),
    Left,
    /// The packets cannot be written in this format.
    Unwritable(Option<io::Error>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Writes to the capture, and keeps the error that ends it.
    fn write(&mut self, write: &WriteCapture) {
        let Self::Open(writer) = self else { return };
        match write(writer).and_then(|()| writer.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::InvalidInput => *self = Self::Unwritable(Some(error)),
            Err(_) => *self = Self::Left,
        }
    }
}

impl Client {
    fn new(stream: TcpStream, address: SocketAddr, shared: &Shared) -> io::Result<Self> {
        let outlet = Outlet::new(shared.patience.clone());
        let socket = stream.try_clone()?;
        let writer = CaptureWriter::new(shared.format, Box::new(Paced::new(stream, outlet.pulse())));
        let writer = match &shared.findings {
            Some(findings) => writer.with_findings(findings.anew()),
            None => writer,
        };
        let writer = Arc::new(Mutex::new(State::Open(Box::new(writer))));
        let client = Self { address, outlet, socket, writer, packets_lost: 0 };
        // A client sees at once that this is a capture, although no packet has come.
        let begin = client.job(Arc::new(CaptureWriter::begin));
        client.outlet.post(begin).map_err(|_| ErrorKind::OutOfMemory)?;
        Ok(client)
    }

    fn job(&self, write: Arc<WriteCapture>) -> Job {
        let writer = Arc::clone(&self.writer);
        Box::new(move || lock(&writer).write(&*write))
    }

    /// Whether the client has left. If its thread is writing at the moment, the answer is no.
    fn has_left(&self) -> bool {
        self.writer.try_lock().is_ok_and(|state| matches!(*state, State::Left))
    }

    fn take_fault(&self) -> Option<io::Error> {
        match &mut *self.writer.try_lock().ok()? {
            State::Unwritable(error) => error.take(),
            State::Open(_) | State::Left => None,
        }
    }

    /// Whether the client has closed its connection, or its half of it. The client sends nothing that
    /// matters.
    fn has_closed(&self) -> bool {
        let mut byte = [0];
        match rustix::net::recv(&self.socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, bytes)) => bytes == 0,
            Err(error) => error != rustix::io::Errno::WOULDBLOCK,
        }
    }

    fn loss(&self) -> Option<ClientLoss> {
        let loss = ClientLoss { client: self.address, packets: self.packets_lost };
        (loss.packets > 0).then_some(loss)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The thread may be blocked in a write.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Clients {
    /// Forgets clients that have left.
    fn remove_left(&mut self, shared: &Shared) {
        let (left, list): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.list).into_iter().partition(Client::has_left);
        self.list = list;
        for client in left {
            self.losses.extend(client.loss());
            (shared.report)(ClientEvent::Left(client.address));
        }
    }
}

impl CaptureClients {
    /// Accepts clients from now on, on a thread. They receive captures of this format, with the reader's
    /// findings if the format supports them. A client that accepts nothing is waited for as `patience` says.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn start(
        listener: Listener,
        format: CaptureFormat,
        findings: Option<Following>,
        patience: Patience,
        report: impl Fn(ClientEvent) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            format,
            findings,
            patience,
            report: Box::new(report),
            clients: Mutex::default(),
            connected: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("weir-accept".into());
        let thread = Some(thread.spawn(move || {
            accepting.accept(&listener);
            listener
        })?);
        Ok(Self { shared, thread })
    }

    /// Waits until a client is connected.
    pub fn wait_for_one(&self) {
        let clients = lock(&self.shared.clients);
        let is_alone = |clients: &mut Clients| clients.list.is_empty();
        drop(self.shared.connected.wait_while(clients, is_alone).unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends packets of this size to all clients.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if earlier packets cannot be written in the format. No error of a client
    /// is an error here.
    pub fn send(&self, load: Load, write: Arc<WriteCapture>) -> io::Result<()> {
        let mut clients = lock(&self.shared.clients);
        clients.remove_left(&self.shared);
        for client in &mut clients.list {
            if let Some(fault) = client.take_fault() {
                return Err(fault);
            }
            let job = client.job(Arc::clone(&write));
            if client.outlet.send(load, job).is_err() {
                client.packets_lost += load.rows;
            }
        }
        Ok(())
    }

    /// The format of the captures.
    pub fn format(&self) -> CaptureFormat {
        self.shared.format
    }

    /// Ends the captures of all clients: waits until they have received everything, or accept nothing.
    /// Returns what they lost.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn finish(mut self) -> io::Result<Vec<ClientLoss>> {
        drop(self.stop());
        self.end_captures()
    }

    /// As [`finish`](Self::finish), but keeps the port open: further clients wait until the listener is used
    /// again. `None` if the thread that accepts clients has panicked.
    ///
    /// # Errors
    /// As for [`send`](Self::send). The listener is returned nevertheless.
    pub fn end(mut self) -> (Option<Listener>, io::Result<Vec<ClientLoss>>) {
        (self.stop(), self.end_captures())
    }

    fn end_captures(&self) -> io::Result<Vec<ClientLoss>> {
        let mut clients = std::mem::take(&mut *lock(&self.shared.clients));
        let mut fault = None;
        for client in &mut clients.list {
            let (writer, socket) = (Arc::clone(&client.writer), client.socket.try_clone());
            let end = move || {
                let mut state = lock(&writer);
                if let State::Open(capture) = std::mem::replace(&mut *state, State::Left) {
                    let finished = capture.finish();
                    fault_of(finished).into_iter().for_each(|fault| *state = State::Unwritable(Some(fault)));
                }
                // The client reads to the end of what was sent.
                let _ = socket.map(|socket| socket.shutdown(Shutdown::Write));
            };
            if client.outlet.post(Box::new(end)).is_err() {
                client.packets_lost += client.outlet.waiting().rows;
            }
        }
        for client in &mut clients.list {
            if let Err(load) = client.outlet.wait(&self.shared.patience) {
                client.packets_lost += load.rows;
            }
            fault = fault.or_else(|| client.take_fault());
            clients.losses.extend(client.loss());
        }
        fault.map_or(Ok(clients.losses), Err)
    }

    fn stop(&mut self) -> Option<Listener> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

/// An error of the packets, not of the client.
fn fault_of(written: io::Result<()>) -> Option<io::Error> {
    written.err().filter(|error| error.kind() == ErrorKind::InvalidInput)
}

impl Drop for CaptureClients {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn accept(&self, listener: &Listener) {
        let is_over = || self.is_over.load(Ordering::Relaxed);
        while let Some((stream, address)) = listener.accept_admitted(is_over) {
            let mut clients = lock(&self.clients);
            clients.remove_left(self);
            if clients.list.len() >= CLIENTS_MAX {
                // Without packets, nobody notices that a client has left.
                let (gone, list): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut clients.list).into_iter().partition(Client::has_closed);
                clients.list = list;
                clients.losses.extend(gone.iter().filter_map(Client::loss));
            }
            if clients.list.len() >= CLIENTS_MAX {
                (self.report)(ClientEvent::Rejected(address));
                continue;
            }
            // Only this client is affected if it cannot be served.
            if let Ok(client) = Client::new(stream, address, self) {
                clients.list.push(client);
                (self.report)(ClientEvent::Connected(address));
                self.connected.notify_all();
            }
        }
    }
}
