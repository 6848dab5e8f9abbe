//! What it takes to compile a question: medians of what `--stats` says, over many runs.

use crate::shell::{Result, output, root, said};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Runs of each question.
const RUNS: usize = 21;

/// Retina's filter for Netflix's prefixes and names (Retina, note 3): 32 predicates once a prefix is asked of
/// source and destination.
const NETFLIX: &str = "ip.addr in 23.246.0.0/18 or ip.addr in 37.77.184.0/21 or ip.addr in 45.57.0.0/17 \
    or ip.addr in 64.120.128.0/17 or ip.addr in 66.197.128.0/17 or ip.addr in 108.175.32.0/20 \
    or ip.addr in 185.2.220.0/22 or ip.addr in 185.9.188.0/22 or ip.addr in 192.173.64.0/18 \
    or ip.addr in 198.38.96.0/19 or ip.addr in 198.45.48.0/20 or ip.addr in 208.75.79.0/24 \
    or ipv6.addr in 2620:10c:7000::/44 or ipv6.addr in 2a00:86c0::/32 \
    or tls.sni ~ \"netflix.com\" or tls.sni ~ \"nflxvideo.net\" or tls.sni ~ \"nflximg.net\" \
    or tls.sni ~ \"nflxext.com\" or tls.sni ~ \"nflx.com\" or tls.sni ~ \"nflxso.net\"";

/// What the usual way takes: most of what is on most links.
const USUAL: &str = "tcp.port == 443 and ip and not vlan and not icmp and not tcp.flags.reset == 1";

/// Name, command, filter.
const QUESTIONS: &[(&str, &str, &str)] = &[
    ("packets, `tcp.port == 443`", "packets", "tcp.port == 443"),
    (
        "packets, four terms",
        "packets",
        "tcp.flags.syn == 1 and tcp.port == 443 or udp.port in {53, 443} or icmp",
    ),
    ("flows, everything", "flows", ""),
    ("tls, everything", "tls", ""),
    ("tls, Retina's filter for Netflix", "tls", NETFLIX),
    ("packets, Retina's filter for Netflix", "packets", NETFLIX),
];

/// The steps that `--stats` names.
const STEPS: [&str; 4] = ["parse", "lower", "passes", "code"];

/// The table.
pub fn table(weir: &Path, scratch: &Path) -> Result<String> {
    let whole = root().join("examples/first-light.pcap");
    let usual = scratch.join("usual.pcap");
    let mut cut = Command::new(weir);
    cut.args(["packets", USUAL, "-r"]).arg(&whole).arg("-w").arg(&usual);
    output(&mut cut)?;
    let mut text = String::from(
        "\n### Compiling a question\n\nMilliseconds, medians of whole runs. Code is compiled when a packet first needs it: \
         here for HTTPS over Ethernet and IPv4, and, last, for the whole shipped capture, which has something of \
         all layers.\n\n\
         | | parse | lower | passes | code | all four | code, all layers |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for (name, command, filter) in QUESTIONS {
        let mut runs: Vec<[f64; 5]> = vec![];
        for _ in 0..RUNS {
            let [parse, lower, passes, code] = steps(weir, command, filter, &usual)?;
            runs.push([parse, lower, passes, code, steps(weir, command, filter, &whole)?[3]]);
        }
        let median = |of: &dyn Fn(&[f64; 5]) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[RUNS / 2] / 1000.0
        };
        let _ = write!(text, "| {name} |");
        for step in 0..STEPS.len() {
            let _ = write!(text, " {:.2} |", median(&|run| run[step]));
        }
        let (all, whole) = (median(&|run| run[..4].iter().sum()), median(&|run| run[4]));
        let _ = writeln!(text, " {all:.2} | {whole:.2} |");
    }
    Ok(text)
}

/// Microseconds of each step in one run.
fn steps(weir: &Path, command: &str, filter: &str, capture: &Path) -> Result<[f64; 4]> {
    let mut run = Command::new(weir);
    run.args([command, "--count", "--stats", "-r"]).arg(capture).arg(filter);
    let ran = run.output().map_err(said(weir.display()))?;
    let report = String::from_utf8_lossy(&ran.stderr);
    let words: Vec<&str> = report.split_whitespace().collect();
    let of = |step: &str| {
        let at = words.iter().position(|word| *word == step)?;
        words.get(at + 1)?.parse().ok()
    };
    let mut steps = [0.0; 4];
    for (time, step) in steps.iter_mut().zip(STEPS) {
        *time = of(step).ok_or(format!("{command} {filter}: --stats does not say `{step}`"))?;
    }
    Ok(steps)
}
