//! A filter that few packets match: the packets that reach the program, and the processor time for each
//! packet of the interface.

use std::fmt::Write;
use std::path::Path;

use super::pair::Pair;
use super::rates::{FIXED_PER_S, SETTLE, Trial, datagrams};
use super::receivers::Receiver;
use crate::bench::{Options, progress};
use crate::shell::Result;

pub const TITLE: &str = "A narrow filter on links";

/// The address that is asked for. One of [`ONE_OF`] frames has it as its source.
const ADDRESS: [u8; 4] = [192, 0, 2, 1];
const ONE_OF: usize = 256;
/// The place of the source in a frame of Ethernet and IPv4.
const SOURCE_AT: usize = 26;

/// The table.
pub fn table(weir: &Path, _: &Path, options: &Options) -> Result<String> {
    let mut frames = datagrams();
    frames
        .iter_mut()
        .step_by(ONE_OF)
        .for_each(|frame| frame[SOURCE_AT..SOURCE_AT + 4].copy_from_slice(&ADDRESS));
    let pair = Pair::new(&frames)?;
    let address = ADDRESS.map(|byte| byte.to_string()).join(".");
    let question = format!("packets --count -v ip.addr=={address}");
    let weir = |method: &str| Receiver::weir(weir, &question, "in0", method);
    let narrowed = |method: &str| weir(method).until("the kernel discards");
    let all = [
        ("weir, af_packet", narrowed("af_packet")),
        ("weir, af_xdp", narrowed("af_xdp")),
        ("weir, af_xdp --mirror", narrowed("af_xdp --mirror")),
        ("weir, af_packet, without the right to filters in the kernel", weir("af_packet").without_filters()),
        ("tcpdump -w /dev/null", Receiver::tcpdump("in0", &format!("host {address}"))),
    ];
    let mut text = format!(
        "\n### {TITLE}\n\n`ip.addr == {address}`, which one of {ONE_OF} packets matches, at {:.2} Mpps of UDP of 64 bytes: packets that \
         reach the program, and the processor time for each packet of the interface.\n\n| | packets | reach the program | % | kernel, \
         ns | program, ns |\n|---|--:|--:|--:|--:|--:|\n",
        FIXED_PER_S / 1e6
    );
    for (name, receiver) in all {
        if options.only.as_ref().is_some_and(|words| !name.contains(words)) {
            continue;
        }
        progress(&format!("{TITLE} · {name}"));
        let trial = Trial::run(&pair, &receiver, FIXED_PER_S, SETTLE)?;
        let (arrived, processed) = (trial.arrived, trial.account.processed);
        let _ = writeln!(
            text,
            "| {name} | {arrived} | {processed} | {:.2} | {:.0} | {:.0} |",
            100.0 * processed as f64 / arrived as f64,
            trial.kernel_ns,
            trial.program_ns
        );
        progress("");
    }
    Ok(text)
}
