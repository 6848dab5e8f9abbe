//! `cargo xtask traces [NAME…] [--scale F]`: generates the benchmark traces in `bench/data`.
//!
//! | name    | made by                                | at scale 1                                            |
//! |---------|----------------------------------------|-------------------------------------------------------|
//! | https   | nginx and curl in the lab (root)       | 870 MB, 3 068 objects of 256 KiB, TLS 1.2 and 1.3     |
//! | http    | nginx and a client in the lab (root)   | 870 MB, 147 k objects of 1 to 8 KiB, 128 k connections |
//! | udp64   | seeded generator                       | 10 M frames of 64 bytes over 1 M random flows         |
//! | hostile | seeded generator                       | 2.3 M frames nobody should send                       |
//! | dns     | seeded generator                       | 1 M queries with their answers                        |
//! | syn     | seeded generator                       | 5 M SYNs of as many connections, 100 k a second       |
//! | gtp     | seeded generator                       | 250 MB of TCP in a mobile network's tunnels           |
//! | pptp    | seeded generator                       | 250 MB of TCP in PPP in GRE                           |
//! | sctp    | seeded generator                       | 250 MB of SCTP associations                           |
//! | quic    | seeded generator                       | 250 MB of QUIC connections                            |
//!
//! Generated traces have the same bytes on every machine; recorded ones have the same connections.

mod dns;
pub mod frame;
mod hostile;
mod stacks;
pub mod sums;
mod syn;
pub mod udp64;
mod web;

use std::path::{Path, PathBuf};

use crate::lab;
use crate::shell::{Result, root, said};

/// Every trace: its name, whether it needs the lab, and its generator.
const TRACES: &[(&str, bool, Maker)] = &[
    ("https", true, web::https),
    ("http", true, web::http),
    ("udp64", false, udp64::make),
    ("hostile", false, hostile::make),
    ("dns", false, dns::make),
    ("syn", false, syn::make),
    ("gtp", false, stacks::tunnelled::gtp),
    ("pptp", false, stacks::tunnelled::pptp),
    ("sctp", false, stacks::sctp::make),
    ("quic", false, stacks::quic::make),
];

/// Writes a trace to a file, at a scale.
type Maker = fn(&Path, f64) -> Result;

/// The folder of the traces, ignored by git.
pub fn folder() -> PathBuf {
    root().join("bench/data")
}

pub fn run(args: &[String]) -> Result {
    let (scale, names) = parse(args)?;
    let inside = std::env::var_os("XTASK_IN_LAB").is_some();
    std::fs::create_dir_all(folder()).map_err(said("bench/data"))?;
    for (name, needs_lab, make) in TRACES {
        if !names.is_empty() && !names.contains(name) || inside && !needs_lab {
            continue;
        }
        if *needs_lab && !inside {
            lab::enter("traces", &[(*name).into(), "--scale".into(), scale.to_string()])?;
            continue;
        }
        let begun = std::time::Instant::now();
        let part = folder().join(format!("{name}.pcap.tmp"));
        make(&part, scale)?;
        let file = folder().join(format!("{name}.pcap"));
        std::fs::rename(&part, &file).map_err(said(file.display()))?;
        let bytes = std::fs::metadata(&file).map_or(0, |m| m.len());
        eprintln!(
            "bench/data/{name}.pcap: {} MB in {:.0} s",
            bytes / 1_000_000,
            begun.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn parse(args: &[String]) -> Result<(f64, Vec<&str>)> {
    let (mut scale, mut names) = (1.0, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--scale" {
            let text = args.next().ok_or("--scale wants a number, such as 0.1")?;
            scale = text.parse().map_err(said(text))?;
        } else if TRACES.iter().any(|t| t.0 == arg) {
            names.push(arg.as_str());
        } else {
            let known: Vec<_> = TRACES.iter().map(|t| t.0).collect();
            return Err(format!("no trace is called {arg:?}; there are {}", known.join(", ")));
        }
    }
    if !(scale > 0.0 && scale <= 4.0) {
        return Err(format!("--scale {scale}: wanted above 0 and at most 4"));
    }
    Ok((scale, names))
}
