//! A socket that accepts requests of its owner, one line each, and answers them with one line each.
//!
//! Only the owner and root may connect. The number of connections is bounded, and a connection that sends no
//! request is closed.

use crate::messages::failure::Failure;
use rustix::net::sockopt::socket_peercred;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weir_guard::{owner, sockets};

/// Bounds of a socket.
#[derive(Debug, Clone, Copy)]
pub struct SocketLimits {
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Maximum size of a request in bytes.
    pub request_bytes_max: usize,
    /// A connection without a request for this time is closed.
    pub idle_max: Duration,
    /// A request must be complete this long after its first byte, and an answer must be read in this time.
    pub transfer_max: Duration,
}

/// The bounds of the sockets of `weir run`.
pub const LIMITS: SocketLimits = SocketLimits {
    connections_max: 16,
    request_bytes_max: 1 << 20,
    idle_max: Duration::from_secs(60),
    transfer_max: Duration::from_secs(10),
};

/// The socket file, which is removed at the end of the run.
pub struct Listening(PathBuf);

impl Drop for Listening {
    fn drop(&mut self) {
        // The file may have been removed already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Answers a request, or refuses it: `Err` has the reason.
pub trait Serve: Send + Sync + 'static {
    /// The answer to a request, without its line end.
    fn answer(&self, request: &str) -> String;

    /// The answer to a connection that is refused.
    fn refuse(&self, reason: &str) -> String;
}

/// A socket file, before its connections are accepted.
#[derive(Debug)]
pub struct Bound {
    listener: UnixListener,
    path: PathBuf,
}

/// Accepts the connections of a socket. Each connection is served by a thread of its own.
pub fn listen(bound: Bound, limits: SocketLimits, service: impl Serve) -> Result<Listening, Failure> {
    let Bound { listener, path } = bound;
    let (service, connections) = (Arc::new(service), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // Most likely no file descriptors are left; try again later.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if let Err(reason) = admit(&stream, limits, &connections) {
                // The client may already be gone.
                let _ = send(&stream, &service.refuse(&reason));
                continue;
            }
            let connection = Connection(Arc::clone(&connections));
            let service = Arc::clone(&service);
            // If no thread can be created, the connection is closed.
            let _ = std::thread::Builder::new().spawn(move || {
                let _connection = connection;
                serve(&stream, limits, &*service);
            });
        }
    });
    Ok(Listening(path))
}

/// A connection that counts.
struct Connection(Arc<AtomicUsize>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Binds the socket file. Questions create files, so no other user may connect to it at any time. A file of
/// an earlier run is replaced.
pub fn bind(path: &Path) -> Result<Bound, Failure> {
    let listener = sockets::listen(path).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => Failure::new(format!("{}: another run uses this socket", path.display())),
        ErrorKind::AlreadyExists => Failure::new(format!("{} is a file, not a socket", path.display())),
        _ => Failure::writing(path.display(), &error),
    })?;
    Ok(Bound { listener, path: path.to_path_buf() })
}

/// Admits a connection, which counts from now on, or returns why it is refused.
fn admit(stream: &UnixStream, limits: SocketLimits, connections: &AtomicUsize) -> Result<(), String> {
    let peer = socket_peercred(stream).map_err(|e| e.to_string())?;
    if ![0, owner::number()].contains(&peer.uid.as_raw()) {
        return Err(format!("user {} may not use this socket", peer.uid.as_raw()));
    }
    let timed = stream
        .set_read_timeout(Some(limits.idle_max))
        .and_then(|()| stream.set_write_timeout(Some(limits.transfer_max)));
    timed.map_err(|e| e.to_string())?;
    if connections.fetch_add(1, Ordering::SeqCst) >= limits.connections_max {
        connections.fetch_sub(1, Ordering::SeqCst);
        return Err(format!("{} connections are open, as many as are allowed", limits.connections_max));
    }
    Ok(())
}

/// Serves one connection until the client closes it, is idle, or sends an invalid request.
fn serve(stream: &UnixStream, limits: SocketLimits, service: &impl Serve) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_line(&mut reader, limits) {
        if send(stream, &service.answer(&request)).is_err() {
            return;
        }
    }
}

fn send(mut stream: &UnixStream, line: &str) -> io::Result<()> {
    stream.write_all(format!("{line}\n").as_bytes())
}

/// The next line. The last one may lack its line end. `None`: there is none, or it exceeds a bound.
fn read_line(reader: &mut impl BufRead, limits: SocketLimits) -> Option<String> {
    let (mut line, mut began) = (vec![], None);
    loop {
        let bytes = match reader.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read.ok()?,
        };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let is_last = end.is_some() || bytes.is_empty();
        line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        let used = end.map_or(bytes.len(), |end| end + 1);
        reader.consume(used);
        if line.len() > limits.request_bytes_max {
            return None;
        }
        if is_last {
            let is_end = end.is_none() && line.is_empty();
            return String::from_utf8(line).ok().filter(|_| !is_end);
        }
        if began.get_or_insert_with(Instant::now).elapsed() > limits.transfer_max {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    struct Echo;

    impl Serve for Echo {
        fn answer(&self, request: &str) -> String {
            format!("said {request}")
        }

        fn refuse(&self, reason: &str) -> String {
            format!("refused: {reason}")
        }
    }

    const FEW: SocketLimits = SocketLimits {
        connections_max: 3,
        request_bytes_max: 1000,
        idle_max: Duration::from_millis(300),
        transfer_max: Duration::from_millis(300),
    };

    fn socket(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weir-socket-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    fn line(stream: &UnixStream) -> String {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("an answer");
        line.trim_end().to_string()
    }

    /// Whether the other side closes the connection within a time.
    fn is_closed_within(mut stream: &UnixStream, limit: Duration) -> bool {
        stream.set_read_timeout(Some(limit)).unwrap();
        matches!(stream.read(&mut [0; 16]), Ok(0))
    }

    #[test]
    fn requests_are_lines() {
        let path = socket("lines");
        let listening =
            bind(&path).and_then(|bound| listen(bound, FEW, Echo)).unwrap_or_else(|_| panic!("it listens"));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"a\nb").unwrap();
        assert_eq!(line(&stream), "said a");
        stream.write_all(b"c\n").unwrap();
        assert_eq!(line(&stream), "said bc");
        stream.write_all(b"last").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(line(&stream), "said last");
        assert!(is_closed_within(&stream, Duration::from_secs(20)));
        drop(listening);
        assert!(!path.exists());
    }

    #[test]
    fn connections_are_bounded_and_idle_ones_are_closed() {
        let path = socket("bounded");
        let limits = SocketLimits { idle_max: Duration::from_secs(2), ..FEW };
        let _listening = bind(&path)
            .and_then(|bound| listen(bound, limits, Echo))
            .unwrap_or_else(|_| panic!("it listens"));
        let began = Instant::now();
        let open: Vec<_> = (0..3).map(|_| UnixStream::connect(&path).unwrap()).collect();
        for mut stream in &open {
            stream.write_all(b"x\n").unwrap();
            assert_eq!(line(stream), "said x");
        }
        let refused = UnixStream::connect(&path).unwrap();
        assert_eq!(line(&refused), "refused: 3 connections are open, as many as are allowed");
        assert!(is_closed_within(&open[0], Duration::from_secs(20)));
        assert!(began.elapsed() >= limits.idle_max, "not before");
        assert!(is_closed_within(&open[2], Duration::from_secs(20)));
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"again\n").unwrap();
        assert_eq!(line(&stream), "said again");
    }

    #[test]
    fn a_request_is_bounded_in_size_and_time() {
        let path = socket("slow");
        let _listening =
            bind(&path).and_then(|bound| listen(bound, FEW, Echo)).unwrap_or_else(|_| panic!("it listens"));
        let mut long = UnixStream::connect(&path).unwrap();
        long.write_all(&[b'x'; 2000]).unwrap();
        // The unread rest of the request may reset the connection.
        assert!(is_closed_within(&long, Duration::from_secs(20)) || long.take_error().is_ok());
        let mut slow = UnixStream::connect(&path).unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) && slow.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(began.elapsed() < Duration::from_secs(10), "it is closed although bytes come");
    }
}
