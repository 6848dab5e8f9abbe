//! Links over loopback, with peers that come late, go, or read nothing.

use super::*;
use crate::carrier::Protocol;
use crate::spool::{SPOOL_BYTES_MIN, Spool};
use crate::stream::StreamPeer;
use std::io::Read;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Messages as lines. The context is a line, too.
struct Lines;

impl Protocol for Lines {
    fn begin(&mut self) {}

    fn announce(&mut self, context: &[u8], _: SystemTime, out: &mut Vec<u8>) {
        out.extend_from_slice(context);
        out.push(b'\n');
    }

    fn frame(&mut self, message: &Message, _: SystemTime, out: &mut Vec<u8>) {
        out.extend_from_slice(&message.bytes);
        out.push(b'\n');
    }

    fn report(&mut self, _: u64, _: SystemTime, _: &mut Vec<u8>) {}
}

/// What happened, as counters.
#[derive(Default)]
struct Seen {
    lost: AtomicU64,
    kept: AtomicU64,
    connected: AtomicU64,
    disconnected: AtomicU64,
}

fn link(address: impl ToSocketAddrs, queue: Queue, limit: Duration) -> (Link, Arc<Seen>) {
    let address = address.to_socket_addrs().unwrap().next().unwrap();
    let seen = Arc::<Seen>::default();
    let counted = Arc::clone(&seen);
    let notify = Notify::new(move |event| {
        let (counter, count) = match event {
            Event::Lost(rows) => (&counted.lost, rows),
            Event::Kept(rows) => (&counted.kept, rows),
            Event::Connected => (&counted.connected, 1),
            Event::Disconnected(_) => (&counted.disconnected, 1),
            _ => return,
        };
        counter.fetch_add(count, Ordering::Relaxed);
    });
    // Loopback acknowledges at once.
    let peer = StreamPeer::new(Box::new(move || TcpStream::connect(address)), |_| Ok(0), Box::new(Lines));
    let terms = Terms {
        is_over: Box::new(move |progress| progress.elapsed() >= limit),
        is_over_at_end: Box::new(move |progress| progress.elapsed() >= limit),
        notify,
    };
    (Link::start(queue, Box::new(peer), terms).unwrap(), seen)
}

fn memory() -> Queue {
    Queue::in_memory((*b"context").into())
}

fn disk(directory: &Path) -> Queue {
    Queue::on_disk(Spool::open(directory, SPOOL_BYTES_MIN, (*b"context").into()).unwrap())
}

fn send(link: &mut Link, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| link.send(1, number.to_string().into_bytes()));
}

/// The lines of the next connection.
fn received(listener: &TcpListener) -> Vec<String> {
    let (mut stream, _) = listener.accept().unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.lines().map(str::to_string).collect()
}

fn lines(numbers: std::ops::Range<u32>) -> Vec<String> {
    ["context".to_string()].into_iter().chain(numbers.map(|number| number.to_string())).collect()
}

fn free_address() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn messages_wait_for_a_peer_that_comes_late() {
    let address = free_address();
    let (mut link, seen) = link(address, memory(), Duration::from_secs(20));
    send(&mut link, 0..500);
    std::thread::sleep(Duration::from_millis(250));
    let listener = TcpListener::bind(address).unwrap();
    let reader = std::thread::spawn(move || received(&listener));
    send(&mut link, 500..1000);
    link.end();
    drop(link);
    assert_eq!(reader.join().unwrap(), lines(0..1000));
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((count(&seen.lost), count(&seen.connected), count(&seen.disconnected)), (0, 1, 1));
}

#[test]
fn without_a_peer_memory_is_bounded_and_what_is_lost_is_counted() {
    let (mut link, seen) = link(free_address(), memory(), Duration::ZERO);
    let message = vec![b'x'; 10_000];
    let begin = Instant::now();
    (0..1000).for_each(|_| link.send(2, message.clone()));
    link.end();
    assert!(begin.elapsed() < Duration::from_secs(5), "nobody waits: {:?}", begin.elapsed());
    assert_eq!(seen.lost.load(Ordering::Relaxed), 2000);
    // The queue has room for a part.
    const { assert!(1000 * 10_000 > 2 * crate::MEMORY_BYTES_MAX) };
}

#[test]
fn a_peer_that_reads_nothing_loses_messages_and_stops_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut link, seen) = link(listener.local_addr().unwrap(), memory(), Duration::from_millis(50));
    let (_silent, _) = listener.accept().unwrap();
    let message = vec![b'x'; 100_000];
    let begin = Instant::now();
    (0..500).for_each(|_| link.send(1, message.clone()));
    link.end();
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert!(seen.lost.load(Ordering::Relaxed) > 0);
}

#[test]
fn the_spool_keeps_messages_for_the_next_run() {
    let directory = tempfile::tempdir().unwrap();
    let address = free_address();
    let (mut first, seen) = link(address, disk(directory.path()), Duration::from_secs(20));
    send(&mut first, 0..100);
    // The first attempt fails before the end.
    std::thread::sleep(Duration::from_millis(300));
    first.end();
    drop(first);
    assert_eq!((seen.lost.load(Ordering::Relaxed), seen.kept.load(Ordering::Relaxed)), (0, 100));
    let listener = TcpListener::bind(address).unwrap();
    let reader = std::thread::spawn(move || received(&listener));
    let (mut second, seen) = link(address, disk(directory.path()), Duration::from_secs(20));
    send(&mut second, 100..200);
    second.end();
    drop(second);
    assert_eq!(reader.join().unwrap(), lines(0..200));
    assert_eq!((seen.lost.load(Ordering::Relaxed), seen.kept.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn messages_with_another_context_get_a_connection_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let mut old = Spool::open(directory.path(), 0, (*b"old").into()).unwrap();
    old.push(1, b"a").unwrap();
    drop(old);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut link, _) = link(listener.local_addr().unwrap(), disk(directory.path()), Duration::from_secs(20));
    send(&mut link, 7..8);
    let reader = std::thread::spawn(move || (received(&listener), received(&listener)));
    link.end();
    let (first, second) = reader.join().unwrap();
    assert_eq!((first.join(" "), second.join(" ")), ("old a".to_string(), "context 7".to_string()));
}

/// The peer acknowledges a part, and is gone: the rest is sent again, and nothing twice.
#[test]
fn unacknowledged_messages_are_sent_again() {
    static WAITING: AtomicU64 = AtomicU64::new(u64::MAX);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, mut first_bytes) = (Arc::<Seen>::default(), vec![0; "context\n0\n1\n".len()]);
    let disconnected = Arc::clone(&seen);
    let peer = StreamPeer::new(
        Box::new(move || TcpStream::connect(address)),
        |_| Ok(WAITING.load(Ordering::Relaxed) as usize),
        Box::new(Lines),
    );
    let terms = Terms {
        is_over: Box::new(|_| false),
        is_over_at_end: Box::new(|progress| progress.elapsed() > Duration::from_secs(20)),
        notify: Notify::new(move |event| {
            if let Event::Disconnected(_) = event {
                disconnected.disconnected.fetch_add(1, Ordering::Relaxed);
                // The next connection acknowledges everything.
                WAITING.store(0, Ordering::Relaxed);
            }
        }),
    };
    let mut link = Link::start(memory(), Box::new(peer), terms).unwrap();
    send(&mut link, 0..3);
    let (mut stream, _) = listener.accept().unwrap();
    stream.read_exact(&mut first_bytes).unwrap();
    // Of "context 0 1 2", the last line is not acknowledged.
    WAITING.store(2, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(200));
    // Bytes that were not read make this a reset.
    drop(stream);
    let reader = std::thread::spawn(move || received(&listener));
    send(&mut link, 3..5);
    link.end();
    drop(link);
    assert_eq!(reader.join().unwrap(), lines(2..5));
    assert_eq!(seen.disconnected.load(Ordering::Relaxed), 1);
}
