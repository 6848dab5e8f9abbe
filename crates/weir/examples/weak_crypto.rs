//! Prints handshakes with weak parameters. TLS: versions below 1.2 (RFC 8996), cipher suites without forward
//! secrecy, without authentication, or with RC4, 3DES, NULL or export keys (RFC 9325 §4), short keys in
//! certificates. SSH: version 1, key exchange with SHA-1 (RFC 9142), CBC or RC4 ciphers, MD5.
//!
//! `cargo run --example weak_crypto -- capture.pcap`

use weir::sessions::{ssh::SshHandshake, tls::TlsHandshake};
use weir::{Engine, Flow};

#[weir::subscribe("tls.version")]
fn tls(flow: &Flow, hello: &TlsHandshake) {
    let mut weak = vec![];
    if hello.version().is_some_and(|version| version < 0x0303) {
        weak.extend(hello.version_name().map(String::from));
    }
    if let Some(cipher) = hello.cipher_name() {
        // These prefixes do not match `TLS_DHE_` and `TLS_ECDHE_`. `TLS_DH_ANON` and `TLS_ECDH_ANON` are
        // ephemeral, but without authentication.
        let fixed_key = ["TLS_RSA_", "TLS_DH_", "TLS_ECDH_", "TLS_PSK_WITH_", "TLS_KRB5_", "SSL_"];
        let is_weak =
            ["_RC4_", "_3DES_", "_DES_", "_NULL_", "_EXPORT"].iter().any(|bad| cipher.contains(bad))
                || fixed_key.iter().any(|bad| cipher.starts_with(bad));
        weak.extend(is_weak.then(|| cipher.to_string()));
    }
    if let Some(certificate) = hello.server_certificate() {
        let is_short = certificate.key_type == "rsa" && certificate.key_bits < 2048;
        weak.extend(is_short.then(|| format!("rsa key of {} bits", certificate.key_bits)));
        let is_sha1 = certificate.signature_algorithm.to_ascii_lowercase().contains("sha1");
        weak.extend(is_sha1.then(|| certificate.signature_algorithm.clone()));
    }
    report("tls", flow, hello.server_name().unwrap_or_default(), &weak);
}

#[weir::subscribe("ssh")]
fn ssh(flow: &Flow, hello: &SshHandshake) {
    let mut weak = vec![];
    weak.extend(hello.version().filter(|version| *version == 1).map(|_| "version 1".to_string()));
    // SHA-1 is weak in signatures, but not in a MAC.
    weak.extend(hello.kex_algorithm().filter(|name| name.contains("-sha1")));
    let agreed = [hello.cipher(), hello.mac(), hello.host_key_algorithm()];
    let bad = ["-cbc", "arcfour", "hmac-md5", "ssh-dss", "none"];
    weak.extend(agreed.into_iter().flatten().filter(|name| bad.iter().any(|bad| name.contains(bad))));
    report("ssh", flow, "", &weak);
}

fn report(protocol: &str, flow: &Flow, name: &str, weak: &[String]) {
    if !weak.is_empty() {
        println!("{protocol} {} -> {} {name}: {}", flow.orig.0, flow.resp.0, weak.join(", "));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut engine = Engine::new();
    engine.add_checked(tls)?;
    engine.add_checked(ssh)?;
    engine.read(std::env::args_os().skip(1))
}
