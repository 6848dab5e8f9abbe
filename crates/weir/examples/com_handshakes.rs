//! Logs the TLS handshakes with servers under .com: who, with whom, which version. The filter is checked when
//! this is compiled.
//!
//! `cargo run --example com_handshakes -- capture.pcap`

use weir::sessions::tls::TlsHandshake;
use weir::{Engine, Flow};

#[weir::subscribe("tls.sni matches \"[.]com$\"")]
fn log(flow: &Flow, hello: &TlsHandshake) {
    let version = hello.version_name().unwrap_or("unanswered".into());
    println!("{} {} {version}", flow.orig.0, hello.server_name().unwrap_or_default());
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut engine = Engine::new();
    engine.add_checked(log)?;
    engine.read(std::env::args_os().skip(1))
}
