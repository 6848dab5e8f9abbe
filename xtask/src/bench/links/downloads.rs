//! Large downloads over TLS, watched in the middle: the share of the packets that reaches the program, and
//! whether the bytes of its records are those of the interface.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use super::rates::SETTLE;
use super::receivers::{Receiver, counter};
use super::watched;
use crate::bench::{Options, progress};
use crate::lab::{self, inside, servers};
use crate::shell::{Result, output, read, said};

pub const TITLE: &str = "Downloads over TLS";

const DOWNLOADS: usize = 3;
const OBJECT_BYTES: usize = 100_000_000;
/// Until the last packets have arrived, and the blocks of rings that are not full are passed.
const REST: Duration = Duration::from_millis(500);

/// The table.
pub fn table(weir: &Path, scratch: &Path, options: &Options) -> Result<String> {
    lab::build(4)?;
    servers::keys()?;
    servers::objects(&[("object.bin", OBJECT_BYTES)])?;
    let _nginx = servers::nginx(100, 1, &[])?;
    watched::mirror()?;
    watched::silence()?;
    let mut text = format!(
        "\n### {TITLE}\n\n{DOWNLOADS} downloads of {} MB from nginx by curl, one after the other, in a single run for each line, watched on a router between them. \
         AF_XDP takes copies of the packets (`tc … mirred`). `to Weir`: packets of the interface that reach the program; `in the kernel`: all other \
         packets, by the counters of `--stats`; `records`: bytes of IP in the rows of the connections, of the bytes of IP that the \
         interface has counted.\n\n| | packets | to Weir | % | in the kernel | Weir, ns for each packet | records |\n\
         |---|--:|--:|--:|---|--:|--:|\n",
        OBJECT_BYTES / 1_000_000
    );
    let rows = scratch.join("rows.json");
    for question in ["flows", "tls"] {
        for (interface, method) in watched::METHODS {
            let args = format!("{question} --format json -o {}", rows.display());
            let mut receiver =
                Receiver::weir(weir, &args, interface, method).within("router").until("the kernel discards");
            receiver.name = format!("weir {question}, {}", method.split(' ').next().unwrap_or_default());
            if options.only.as_ref().is_some_and(|words| !receiver.name.contains(words)) {
                continue;
            }
            progress(&format!("{TITLE} · {}", receiver.name));
            let running = receiver.start()?;
            std::thread::sleep(SETTLE);
            let before = (watched::interface(interface)?, running.run_time_ns()?);
            for _ in 0..DOWNLOADS {
                download()?;
            }
            std::thread::sleep(REST);
            let after = (watched::interface(interface)?, running.run_time_ns()?);
            let account = running.end()?;
            let [packets, bytes] = [after.0[0] - before.0[0], after.0[1] - before.0[1]];
            let _ = writeln!(
                text,
                "| {} | {packets} | {} | {:.2} | {} | {:.0} | {} |",
                receiver.name,
                account.processed,
                100.0 * account.processed as f64 / packets as f64,
                in_kernel(&account.text),
                (after.1 - before.1) as f64 / packets as f64,
                share(&read(&rows)?, question, bytes - header_bytes(interface) * packets)?,
            );
            progress("");
        }
    }
    Ok(text)
}

/// Bytes of Ethernet that an interface counts for each packet: virtual Ethernet with a program of XDP counts
/// none.
fn header_bytes(interface: &str) -> u64 {
    if interface == "net0" { 14 } else { 0 }
}

fn download() -> Result {
    let url = "https://www.example.com/object.bin";
    let resolve = format!("--resolve www.example.com:443:{}", lab::SERVER_V4);
    let line =
        format!("curl -sS --tlsv1.3 --http1.1 {resolve} --cacert {}/ca.pem {url} -o /dev/null", lab::SCRATCH);
    output(&mut inside("client", &line)).map(drop)
}

/// What the kernel has done with packets instead of passing them, by the counters of the source.
fn in_kernel(text: &str) -> String {
    let is_other = |line: &&str| line.starts_with("source_") && !line.starts_with("source_received");
    let counts = text.lines().filter(is_other).filter(|line| !line.contains("_bytes")).map(|line| {
        let mut words = line.split_whitespace();
        let (name, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        format!("{} {value}", name.trim_start_matches("source_"))
    });
    let counts: Vec<String> = counts.collect();
    let lost = counter(text, "source_received").is_none();
    if counts.is_empty() && !lost { "–".into() } else { counts.join(", ") }
}

/// The bytes of IP in rows of connections, of all bytes.
fn share(rows: &str, question: &str, all: u64) -> Result<String> {
    if question != "flows" {
        return Ok(format!("{} sessions", rows.lines().count()));
    }
    let of = |row: &str, name: &str| -> Option<u64> {
        let (_, rest) = row.split_once(&format!("\"{name}\":"))?;
        rest.split([',', '}']).next()?.parse().ok()
    };
    let bytes = |row: &str| Some(of(row, "orig_ip_bytes")? + of(row, "resp_ip_bytes")?);
    let sum: Option<u64> = rows.lines().map(bytes).sum();
    let sum = sum.ok_or("a row without bytes").map_err(said("flows"))?;
    Ok(format!("{sum} of {all}"))
}
