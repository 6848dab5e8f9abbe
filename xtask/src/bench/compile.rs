//! The compile times of questions: medians of the times in `--stats`, over many runs.

use super::table::median;
use crate::shell::{Result, output, root, said, write};
use crate::traces::frame::ETHERNET_BYTES;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of runs of each question.
const RUNS: usize = 21;

/// Retina's filter for Netflix's prefixes and names (Retina, note 3): 32 predicates, because each prefix is
/// compared with source and destination.
const NETFLIX: &str = "ip.addr in 23.246.0.0/18 or ip.addr in 37.77.184.0/21 or ip.addr in 45.57.0.0/17 \
    or ip.addr in 64.120.128.0/17 or ip.addr in 66.197.128.0/17 or ip.addr in 108.175.32.0/20 \
    or ip.addr in 185.2.220.0/22 or ip.addr in 185.9.188.0/22 or ip.addr in 192.173.64.0/18 \
    or ip.addr in 198.38.96.0/19 or ip.addr in 198.45.48.0/20 or ip.addr in 208.75.79.0/24 \
    or ipv6.addr in 2620:10c:7000::/44 or ipv6.addr in 2a00:86c0::/32 \
    or tls.sni ~ \"netflix.com\" or tls.sni ~ \"nflxvideo.net\" or tls.sni ~ \"nflximg.net\" \
    or tls.sni ~ \"nflxext.com\" or tls.sni ~ \"nflx.com\" or tls.sni ~ \"nflxso.net\"";

/// Traffic on the usual path: most traffic of most links.
const USUAL: &str = "tcp.port == 443 and ip and not vlan and not icmp and not tcp.flags.reset == 1";

/// Only Ethernet, IP, TCP and UDP, the protocols that Retina parses.
const SMALL: &[&str] = &["--stack", "tcpip"];

/// Name, command, further arguments, filter.
const QUESTIONS: &[(&str, &str, &[&str], &str)] = &[
    ("packets, `tcp.port == 443`", "packets", &[], "tcp.port == 443"),
    (
        "packets, four terms",
        "packets",
        &[],
        "tcp.flags.syn == 1 and tcp.port == 443 or udp.port in {53, 443} or icmp",
    ),
    ("flows, everything", "flows", &[], ""),
    ("tls, everything", "tls", &[], ""),
    ("tls, Retina's filter for Netflix", "tls", &[], NETFLIX),
    ("packets, Retina's filter for Netflix", "packets", &[], NETFLIX),
    ("packets, `tcp.port == 443`, over `tcpip`", "packets", SMALL, "tcp.port == 443"),
    ("flows, everything, over `tcpip`", "flows", SMALL, ""),
    ("tls, Retina's filter for Netflix, over `tcpip`", "tls", SMALL, NETFLIX),
    ("packets, Retina's filter for Netflix, over `tcpip`", "packets", SMALL, NETFLIX),
];

/// The stack whose packets begin with IP: its input is the same packets without Ethernet.
const BARE: &str = "raw";

/// The compilation steps in `--stats`.
pub const STEPS: [&str; 4] = ["parse", "lower", "passes", "code"];

pub const TITLE: &str = "Compiling a question";
/// A question that needs all bytes in order, and nothing else.
pub const QUESTION: [&str; 3] = ["match", "-e", "what is nowhere"];
pub const STACKS_TITLE: &str = "Compiling each stack";

/// The included capture, which covers all layers and every flow table of `internet`.
fn whole() -> PathBuf {
    root().join("examples/first-light.pcap")
}

/// Its packets on the usual path.
fn usual(weir: &Path, scratch: &Path) -> Result<PathBuf> {
    let usual = scratch.join("usual.pcap");
    let mut cut = Command::new(weir);
    cut.args(["packets", USUAL, "-r"]).arg(whole()).arg("-w").arg(&usual);
    output(&mut cut)?;
    Ok(usual)
}

/// Questions over the default stack.
pub fn table(weir: &Path, scratch: &Path) -> Result<String> {
    let (whole, usual) = (whole(), usual(weir, scratch)?);
    let mut text = format!(
        "\n### {TITLE}\n\nMilliseconds, medians of whole runs. Code is compiled on demand: here for HTTPS \
         over Ethernet and IPv4; the last column is for the included capture, which covers all \
         layers.\n\n| | parse | lower | passes | code | all four | code, all layers \
         |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for (name, command, more, filter) in QUESTIONS {
        let question = [&[*command], *more].concat();
        let mut runs: Vec<[f64; 5]> = vec![];
        for _ in 0..RUNS {
            let [parse, lower, passes, code] = steps(weir, &question, filter, &[&usual])?;
            runs.push([parse, lower, passes, code, steps(weir, &question, filter, &[&whole])?[3]]);
        }
        let median = |of: &dyn Fn(&[f64; 5]) -> f64| median(runs.iter().map(of)) / 1000.0;
        let _ = write!(text, "| {name} |");
        for step in 0..STEPS.len() {
            let _ = write!(text, " {:.2} |", median(&|run| run[step]));
        }
        let (all, whole) = (median(&|run| run[..4].iter().sum()), median(&|run| run[4]));
        let _ = writeln!(text, " {all:.2} | {whole:.2} |");
    }
    Ok(text)
}

/// The data assembler over each stack, with all of its code compiled.
pub fn stacks_table(weir: &Path, scratch: &Path) -> Result<String> {
    let (whole, usual) = (whole(), usual(weir, scratch)?);
    let bare = [&whole, &usual].map(|capture| -> Result<PathBuf> {
        let bare = scratch.join(format!("bare-{}", capture.file_name().unwrap_or_default().display()));
        without_ethernet(capture, &bare)?;
        Ok(bare)
    });
    let [bare_whole, bare_usual] = [bare[0].clone()?, bare[1].clone()?];
    let stacks = stacks(weir)?;
    let mut runs: Vec<Vec<[f64; 5]>> = vec![vec![]; stacks.len()];
    for _ in 0..RUNS {
        for (stack, runs) in stacks.iter().zip(&mut runs) {
            let is_bare = stack == BARE;
            let args = [&QUESTION, &["--stack", stack][..]].concat();
            let own = root().join(format!("protocols/{stack}.pcap"));
            let (usual, whole) = if is_bare { (&bare_usual, &bare_whole) } else { (&usual, &whole) };
            let captures = [whole.as_path(), &own];
            let captures = if own.is_file() && !is_bare { &captures[..] } else { &captures[..1] };
            let [parse, lower, passes, code] = steps(weir, &args, "", captures)?;
            runs.push([parse, lower, passes, code, steps(weir, &args, "", &[usual])?[3]]);
        }
    }
    let mut text = format!(
        "\n### {STACKS_TITLE}\n\nMilliseconds, medians of whole runs of `weir match`, which needs all \
         bytes in order and nothing else. `code` is for all code: the included capture and the stack's \
         own one have a packet for every part. The last columns are for a link with HTTPS over Ethernet \
         (for `raw`: over nothing) and IPv4.\n\n| stack | parse | lower | passes | code | all four | \
         code, usual | all four, usual |\n|---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (stack, runs) in stacks.iter().zip(&runs) {
        let median = |of: &dyn Fn(&[f64; 5]) -> f64| median(runs.iter().map(of)) / 1000.0;
        let _ = write!(text, "| `{stack}` |");
        for step in 0..STEPS.len() {
            let _ = write!(text, " {:.2} |", median(&|run| run[step]));
        }
        let (all, usual) = (median(&|run| run[..4].iter().sum()), median(&|run| run[4]));
        let all_usual = median(&|run| run[..3].iter().sum::<f64>() + run[4]);
        let _ = writeln!(text, " {all:.2} | {usual:.2} | {all_usual:.2} |");
    }
    Ok(text)
}

/// The names of the included stacks.
fn stacks(weir: &Path) -> Result<Vec<String>> {
    let rows = output(Command::new(weir).args(["stacks", "--format", "json"]))?;
    let name = |row: &str| row.split_once("\"stack\":\"")?.1.split('"').next().map(str::to_string);
    let names: Option<Vec<String>> = rows.lines().map(name).collect();
    names.filter(|names| !names.is_empty()).ok_or("weir stacks: rows without the name of a stack".into())
}

/// Copies the packets with IP directly over Ethernet, without their Ethernet header.
fn without_ethernet(from: &Path, to: &Path) -> Result {
    let bytes = std::fs::read(from).map_err(said(from.display()))?;
    let (head, mut records) = bytes.split_at_checked(24).ok_or(format!("{} is no pcap", from.display()))?;
    let mut bare = head.to_vec();
    while let Some((head, rest)) = records.split_at_checked(16) {
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (captured, sent) = (word(8), word(12));
        let Some((frame, rest)) = rest.split_at_checked(captured as usize) else { break };
        records = rest;
        if frame.len() > ETHERNET_BYTES && matches!(frame[12..14], [0x08, 0x00] | [0x86, 0xdd]) {
            bare.extend(&head[..8]);
            bare.extend(
                [captured, sent].map(|bytes| bytes - ETHERNET_BYTES as u32).map(u32::to_le_bytes).concat(),
            );
            bare.extend(&frame[ETHERNET_BYTES..]);
        }
    }
    write(to, bare)
}

/// Microseconds of each compilation step in one run.
pub fn steps(weir: &Path, args: &[&str], filter: &str, captures: &[&Path]) -> Result<[f64; STEPS.len()]> {
    let mut run = Command::new(weir);
    run.args(args).args(["--count", "--stats", "-r"]).args(captures).args(["--", filter]);
    let ran = run.output().map_err(said(weir.display()))?;
    let report = String::from_utf8_lossy(&ran.stderr);
    let words: Vec<&str> = report.split_whitespace().collect();
    let of = |step: &str| {
        let at = words.iter().position(|word| *word == step)?;
        words.get(at + 1)?.parse().ok()
    };
    let mut steps = [0.0; STEPS.len()];
    for (time, step) in steps.iter_mut().zip(STEPS) {
        *time = of(step).ok_or(format!("{} {filter}: --stats does not say `{step}`", args.join(" ")))?;
    }
    Ok(steps)
}
