//! The two recorded traces: web traffic between real programs, at a speed that the recorder can follow.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lab::cable::within;
use crate::lab::{self, inside, servers, tap};
use crate::shell::{Result, output, said, sh};
use weir_testing::Random;

/// Enough for the whole trace at scale 1: no frames are lost under any load of the machine.
const RECORDER_BUFFER_MIB: u32 = 1024;
/// Server addresses 198.51.100.20 to .35, so that no connection reuses a port within a trace.
const ADDRESSES: std::ops::Range<u8> = 20..36;

const HTTPS_OBJECTS: f64 = 3068.0;
const HTTPS_OBJECTS_PER_CLIENT: u64 = 26;
const HTTPS_CLIENTS: u64 = 3;

const HTTP_CONNECTIONS: f64 = 128_000.0;
const HTTP_REQUESTS_PER_THOUSAND: u64 = 1150;
const HTTP_CLIENTS: u64 = 8;
const HTTP_SIZES: usize = 64;

/// 256 KiB objects over TLS: most on a connection of their own, some together on one HTTP/2 connection. Only
/// IPv4, because libnids supports nothing else.
pub fn https(file: &Path, scale: f64) -> Result {
    let sizes = vec![("object.bin", 262_144)];
    record(file, &sizes, || {
        let runs = (HTTPS_OBJECTS * scale / HTTPS_OBJECTS_PER_CLIENT as f64).ceil() as u64;
        let next = AtomicU64::new(0);
        clients(HTTPS_CLIENTS, |_| {
            while let run = next.fetch_add(1, Ordering::Relaxed)
                && run < runs
            {
                let version = if run % 3 == 0 { "--tls-max 1.2" } else { "--tlsv1.3" };
                let name = ["www.example.com", "static.example.com"][(run % 2) as usize];
                let how = if run % 5 == 4 { "--http2" } else { "--http1.1 -H Connection:close" };
                let session = if run % 2 == 0 { "--no-sessionid" } else { "" };
                output(&mut inside(
                    "client",
                    &format!(
                        "curl -sS -4 {version} {how} {session} --cacert /run/lab/ca.pem \
                            'https://{name}/object.bin?[1-{HTTPS_OBJECTS_PER_CLIENT}]' -o /dev/null"
                    ),
                ))?;
            }
            Ok(())
        })
    })
}

/// Objects of 1 to 8 KiB over plain HTTP, mostly one per connection.
pub fn http(file: &Path, scale: f64) -> Result {
    let names: Vec<String> = (0..HTTP_SIZES).map(|n| format!("small{n}.bin")).collect();
    let size = |n: usize| 1024 + n * 7168 / (HTTP_SIZES - 1);
    let sizes: Vec<_> = names.iter().enumerate().map(|(n, name)| (name.as_str(), size(n))).collect();
    record(file, &sizes, || {
        let connections = (HTTP_CONNECTIONS * scale).ceil() as u64;
        clients(HTTP_CLIENTS, |client| {
            within("client", || {
                let mut random = Random::new(client);
                for _ in 0..connections / HTTP_CLIENTS {
                    visit(&mut random)?;
                }
                Ok(())
            })
        })
    })
}

/// One connection: a request, sometimes another one, and an end by either side.
fn visit(random: &mut Random) -> Result {
    let host = u64::from(ADDRESSES.start) + random.below(ADDRESSES.len() as u64);
    let mut stream = TcpStream::connect((format!("198.51.100.{host}"), 80)).map_err(said("connect"))?;
    let again = random.below(1000) < HTTP_REQUESTS_PER_THOUSAND - 1000;
    let server_ends = random.below(2) == 0;
    for last in if again { &[false, true][..] } else { &[true] } {
        let connection = if *last && server_ends { "close" } else { "keep-alive" };
        let request = format!(
            "GET /small{}.bin HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: weir-bench\r\nAccept: */*\r\n\
             Connection: {connection}\r\n\r\n",
            random.below(HTTP_SIZES as u64)
        );
        stream.write_all(request.as_bytes()).map_err(said("request"))?;
        read_response(&mut stream)?;
    }
    if server_ends {
        let _ = stream.read(&mut [0u8; 1]); // waits for the peer's FIN
    } else {
        let _ = stream.shutdown(Shutdown::Write);
    }
    Ok(())
}

fn read_response(stream: &mut TcpStream) -> Result {
    let mut response = Vec::with_capacity(9 * 1024);
    let mut part = [0u8; 16 * 1024];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return Err("nginx closed in the middle of a response".into()),
            Ok(bytes) => response.extend_from_slice(&part[..bytes]),
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(format!("response: {e}")),
        }
        if let Some(head) = response.windows(4).position(|w| w == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&response[..head]);
            let length = text.lines().find_map(|l| l.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
            if response.len() >= head + 4 + length.ok_or("a response without Content-Length")? {
                return Ok(());
            }
        }
    }
}

/// Builds the lab with nginx and a resolver, and records while `play` runs.
fn record(file: &Path, objects: &[(&str, usize)], play: impl FnOnce() -> Result) -> Result {
    lab::build(ADDRESSES.end - 10)?;
    sh("ip netns exec client sysctl -qw net.ipv4.ip_local_port_range='10240 65535'
        for ns in client server; do ip netns exec $ns sysctl -qw net.core.somaxconn=8192; done")?;
    servers::keys()?;
    servers::objects(objects)?;
    let more: Vec<String> = ADDRESSES.map(|last| format!("198.51.100.{last}")).collect();
    let _nginx = servers::nginx(1000, 2, &more)?;
    let _dnsmasq = servers::dnsmasq()?;
    let recorder = tap::record(file, RECORDER_BUFFER_MIB)?;
    play()?;
    let frames = recorder.stop()?;
    eprintln!("{}: {frames} frames, none lost", file.display());
    Ok(())
}

/// Runs `work` on `count` threads; returns the first error.
fn clients(count: u64, work: impl Fn(u64) -> Result + Sync) -> Result {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|n| scope.spawn(move || work(n))).collect();
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| "a client panicked".to_string())?)
    })
}
