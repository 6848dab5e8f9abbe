//! Prints features of video sessions (Netflix, YouTube), from which the quality of encrypted video is
//! inferred (Bronzino et al., 2019): bytes in each direction, throughput, the client's requests after a
//! pause, and the number of simultaneous connections of a client to the service.
//!
//! `cargo run --example video -- capture.pcap [REGEX of server names]`

use std::collections::HashMap;
use weir::sessions::{Session, quic::QuicHandshake, tls::TlsHandshake};
use weir::{Connection, Engine, Track, TrackPacket, Tracked};

const SERVICES: &str = "nflxvideo[.]net$|googlevideo[.]com$";

/// The features of a connection.
#[derive(Debug, Clone, Default)]
struct Features {
    server_name: Option<String>,
    /// Bytes on the wire, up and down.
    bytes: [u64; 2],
    /// Packets of the client after more than one second of silence: it requests another segment. The first
    /// packet of the connection does not count.
    requests: u64,
    last_up_ns: Option<i64>,
}

impl Track for Features {
    const PROTOCOLS: &'static [&'static str] = &["tls", "quic"];

    fn packet(&mut self, packet: &TrackPacket<'_>) {
        self.bytes[usize::from(!packet.is_orig)] += u64::from(packet.meta.wire_bytes);
        if packet.is_orig {
            let now = packet.meta.time.0;
            self.requests += u64::from(self.last_up_ns.is_some_and(|last| now - last > 1_000_000_000));
            self.last_up_ns = Some(now);
        }
    }

    fn session(&mut self, session: &dyn Session) {
        let tls = session.as_any().downcast_ref::<TlsHandshake>().and_then(TlsHandshake::server_name);
        let quic = session.as_any().downcast_ref::<QuicHandshake>().and_then(QuicHandshake::server_name);
        self.server_name = tls.or(quic).map(String::from).or(self.server_name.take());
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let capture = args.next().ok_or("which capture?")?;
    let services = args.next().map_or(SERVICES.to_string(), |names| names.to_string_lossy().into_owned());
    let mut sessions: HashMap<std::net::IpAddr, Vec<(Connection, Features)>> = HashMap::new();
    let mut engine = Engine::new();
    let filter = format!("tls.sni matches \"{services}\" or quic.sni matches \"{services}\"");
    engine.subscribe(&filter, |connection: &Connection, features: &Tracked<Features>| {
        sessions.entry(connection.orig_h).or_default().push((connection.clone(), (**features).clone()));
    })?;
    engine.read([capture])?;
    drop(engine);
    let mut clients: Vec<_> = sessions.into_iter().collect();
    clients.sort_by_key(|(client, _)| *client);
    for (client, mut all) in clients {
        all.sort_by_key(|(connection, _)| connection.ts);
        println!("{client}: {} connections, at most {} at a time", all.len(), parallel(&all));
        for (connection, features) in &all {
            let seconds = connection.duration_ns.unwrap_or(0) as f64 / 1e9;
            let rate = if seconds > 0.0 { features.bytes[1] as f64 * 8e-6 / seconds } else { 0.0 };
            let (name, [up, down]) = (features.server_name.as_deref().unwrap_or("-"), features.bytes);
            println!("  {name} up {up} down {down} bytes, {rate:.3} Mbit/s, {} requests", features.requests);
        }
    }
    Ok(())
}

/// The maximum number of simultaneous connections.
fn parallel(all: &[(Connection, Features)]) -> usize {
    let end = |connection: &Connection| connection.ts.0 + connection.duration_ns.unwrap_or(0) as i64;
    let at = |time| all.iter().filter(|(c, _)| c.ts.0 <= time && time <= end(c)).count();
    all.iter().map(|(connection, _)| at(connection.ts.0)).max().unwrap_or(0)
}
