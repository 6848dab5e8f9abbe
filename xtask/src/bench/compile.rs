//! What it takes to compile a question: medians of what `--stats` says, over many runs.

use crate::shell::{Result, root, said};
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
pub fn table(weir: &Path) -> Result<String> {
    let mut text = String::from(
        "\n### Compiling a question\n\nMilliseconds, medians of whole runs over the shipped capture, which has something \
         of all layers: so code is that of all parts that it needs, most of which other captures don't.\n\n\
         | | parse | lower | passes | code | all |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for (name, command, filter) in QUESTIONS {
        let mut runs: Vec<[f64; 4]> = vec![];
        for _ in 0..RUNS {
            runs.push(steps(weir, command, filter)?);
        }
        let median = |of: &dyn Fn(&[f64; 4]) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[RUNS / 2] / 1000.0
        };
        let _ = write!(text, "| {name} |");
        for step in 0..STEPS.len() {
            let _ = write!(text, " {:.2} |", median(&|run| run[step]));
        }
        let _ = writeln!(text, " {:.2} |", median(&|run| run.iter().sum()));
    }
    Ok(text)
}

/// Microseconds of each step in one run.
fn steps(weir: &Path, command: &str, filter: &str) -> Result<[f64; 4]> {
    let capture = root().join("examples/first-light.pcap");
    let mut run = Command::new(weir);
    run.args([command, "--count", "--stats", "-r"]).arg(capture).arg(filter);
    let output = run.output().map_err(said(weir.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let words: Vec<&str> = said.split_whitespace().collect();
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
