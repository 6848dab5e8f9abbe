//! Scripts in Lua: packets per second and memory of flows next to FlowScope's, and next to an aggregate.

use super::child::{Run, measure};
use super::{Options, Programs, progress, warm};
use crate::shell::{Result, build_weir, root, said};
use crate::traces::udp64;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub const TITLE: &str = "Scripts";

/// Flows, frames, and FlowScope's million packets per second and thread for as many flows (Figure 3 of its
/// paper, 4 threads).
const CASES: &[(u64, u64, &str)] = &[
    (50_000, 10_000_000, ""),
    (100_000, 10_000_000, "3.5"),
    (1_000_000, 10_000_000, "2.4"),
    (10_000_000, 20_000_000, ""),
];
/// FlowScope's bytes for each flow.
const FLOWSCOPE_BYTES: u64 = 40;
/// Bytes of a record and of a frame in a trace.
const RECORD_BYTES: u64 = 16 + 64;

/// The same question for a script and for an aggregate.
const ACCOUNTING: &str = r#"return {
    key = "5tuple", stateType = "struct { uint64_t packets, bytes; }",
    handlePacket = function(flowKey, state, packet)
        state.packets, state.bytes = state.packets + 1, state.bytes + packet.wire
    end,
}
"#;
const AGGREGATE: &str = "count(), sum(frame.len) by 5tuple";

/// The no-op module over several numbers of flows, and accounting by a script and by an aggregate.
pub fn table(options: &Options, programs: &Programs) -> Result<String> {
    let weir = match &options.weir {
        Some(weir) => weir.clone(),
        None => build_weir(true)?,
    };
    let noop = root().join("examples/scripts/noop.lua").display().to_string();
    let accounting = programs.scratch.join("accounting.lua");
    std::fs::write(&accounting, ACCOUNTING).map_err(said(accounting.display()))?;
    let accounting = accounting.display().to_string();
    let mut text = format!(
        "\n### {TITLE}\n\nFrames of 64 bytes, of random flows, from the page cache; one worker. M/s: million packets for each second of \
         processor time, with reading and all of Weir's own work; medians. `noop.lua` finds the flow of both directions. FlowScope: its paper's \
         Figure 3, for each of four threads, with DPDK, on an Xeon E5-2620 v3; it reports {FLOWSCOPE_BYTES} bytes a flow. Bytes: the largest \
         memory of the process, less that with one flow, for each flow. The index doubles, so bytes vary with the number of flows. The \
         aggregate has at most 65 536 groups, and adds further flows to one group; scripts keep all of them.\n\n\
         | flows | `noop.lua --trust`, M/s | FlowScope, M/s | bytes a flow | `noop.lua`, M/s | accounting `--trust`, M/s | `weir \
         aggregate`, M/s |\n|--:|--:|--:|--:|--:|--:|--:|\n"
    );
    let alone = trace(programs, 1, 1_000)?;
    let base = median(&[measure(&script(&weir, &noop, &alone, true), &programs.scratch, false)?])?.peak_bytes;
    for &(flows, frames, flowscope) in CASES {
        let file = trace(programs, flows, frames)?;
        warm(&file)?;
        let commands = [
            script(&weir, &noop, &file, true),
            script(&weir, &noop, &file, false),
            script(&weir, &accounting, &file, true),
            words(&[
                &weir.display().to_string(),
                "aggregate",
                "-j",
                "1",
                AGGREGATE,
                "-r",
                &file.display().to_string(),
            ]),
        ];
        let mut runs: [Vec<Run>; 4] = Default::default();
        for round in 0..options.runs {
            for (command, runs) in commands.iter().zip(&mut runs) {
                progress(&format!("{TITLE} · {flows} flows · {}", round + 1));
                runs.push(measure(command, &programs.scratch, false)?);
            }
        }
        progress("");
        let of = runs.iter().map(|runs| median(runs)).collect::<Result<Vec<Run>>>()?;
        let rate = |run: &Run| frames as f64 / run.busy_s / 1e6;
        let distinct = flows as f64 * (1.0 - (-(frames as f64) / flows as f64).exp());
        let bytes = of[0].peak_bytes.saturating_sub(base) as f64 / distinct;
        let rates: Vec<String> = of.iter().map(|run| format!("{:.2}", rate(run))).collect();
        let _ = writeln!(
            text,
            "| {flows} | {} | {flowscope} | {bytes:.0} | {} | {} | {} |",
            rates[0], rates[1], rates[2], rates[3]
        );
        std::fs::remove_file(&file).map_err(said(file.display()))?;
    }
    Ok(text)
}

/// A trace of frames of random flows.
fn trace(programs: &Programs, flows: u64, frames: u64) -> Result<PathBuf> {
    let file = programs.scratch.join(format!("flows-{flows}.pcap"));
    udp64::write(&file, frames, flows)?;
    let bytes = std::fs::metadata(&file).map_err(said(file.display()))?.len();
    if bytes == 24 + frames * RECORD_BYTES {
        Ok(file)
    } else {
        Err(format!("{}: {bytes} bytes", file.display()))
    }
}

fn script(weir: &Path, script: &str, file: &Path, is_trusted: bool) -> Vec<String> {
    let (weir, file) = (weir.display().to_string(), file.display().to_string());
    let mut command = words(&[&weir, "script", script, "-j", "1", "-r", &file]);
    if is_trusted {
        command.push("--trust".into());
    }
    command
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_string()).collect()
}

/// The run of the median processor time.
fn median(runs: &[Run]) -> Result<Run> {
    if runs.iter().any(|run| !run.succeeded) {
        return Err("a script failed".into());
    }
    let mut runs = runs.to_vec();
    runs.sort_by(|one, other| one.busy_s.total_cmp(&other.busy_s));
    runs.get(runs.len() / 2).cloned().ok_or_else(|| "no runs".into())
}
