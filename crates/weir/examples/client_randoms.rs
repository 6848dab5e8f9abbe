//! Prints client randoms that several TLS handshakes share. Each random should be unique (RFC 8446 §4.1.2),
//! so a repeated one is due to a broken generator, a replay, or an implementation that it identifies.
//!
//! `cargo run --example client_randoms -- capture.pcap`

use std::collections::HashMap;
use weir::Engine;
use weir::sessions::tls::TlsHandshake;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut seen: HashMap<[u8; 32], u64> = HashMap::new();
    let mut engine = Engine::new();
    engine.subscribe("tls", |hello: &TlsHandshake| {
        if let Some(client) = &hello.client_hello {
            *seen.entry(client.random).or_default() += 1;
        }
    })?;
    engine.read(std::env::args_os().skip(1))?;
    drop(engine);
    println!("{} randoms", seen.len());
    let mut repeated: Vec<_> = seen.into_iter().filter(|(_, count)| *count > 1).collect();
    repeated.sort_by_key(|(random, count)| (u64::MAX - count, *random));
    for (random, count) in repeated {
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{count} {hex}");
    }
    Ok(())
}
