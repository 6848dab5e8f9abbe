//! Files of questions for `weir run`: questions of all kinds, each with a filter of its own that few packets
//! match.

use crate::shell::{Result, said};
use std::fmt::Write;
use std::path::Path;

/// The numbers of questions that are measured.
const COUNTS: [usize; 5] = [1, 10, 100, 256, 1000];

/// Writes a file for each of the [`COUNTS`] to `folder`, named by the number.
pub fn write(folder: &Path) -> Result {
    std::fs::create_dir_all(folder).map_err(said(folder.display()))?;
    for count in COUNTS {
        let path = folder.join(format!("{count}.toml"));
        std::fs::write(&path, file(count)).map_err(said(path.display()))?;
    }
    Ok(())
}

fn file(count: usize) -> String {
    let mut text = String::new();
    for number in 0..count {
        let (ask, filter) = if count == 1 { one() } else { question(number) };
        let _ = writeln!(
            text,
            "[[question]]\nname = \"q{number}\"\nask = \"{ask}\"\nfilter = '{filter}'\noutput = \"/dev/null\"\n"
        );
    }
    text
}

/// One question for which the same protocols must be parsed as for all others together.
fn one() -> (&'static str, String) {
    let names = ["tls.sni", "http.request.uri", "dns.qry.name"];
    ("sessions", names.map(|name| format!("{name} contains \"q0.example\"")).join(" or "))
}

/// Number `n` of the questions.
fn question(n: usize) -> (&'static str, String) {
    match n % 8 {
        0 => ("tls", format!("tls.sni contains \"q{n}.example\"")),
        1 => ("http", format!("http.request.uri contains \"/{n}x\"")),
        2 => ("flows", format!("ip.addr == 10.{}.0.0/16 and tcp.port == {}", n % 200, 1000 + n)),
        3 => ("dns", format!("dns.qry.name contains \"q{n}\"")),
        4 => ("packets", format!("tcp.flags.syn == 1 and tcp.dstport == {}", 2000 + n)),
        5 => {
            ("http", format!("http.response.code == {} and ip.src == 192.0.{}.0/24", 400 + n % 100, n % 256))
        }
        6 => ("flows", format!("conn.duration > {n} and udp.port == {}", 3000 + n)),
        _ => ("tls", format!("tls.sni matches \"^h{n}[.]\" and tcp.port == 8443")),
    }
}
