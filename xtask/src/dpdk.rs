//! `cargo xtask dpdk [--release]`: Weir's plug-in for DPDK, compiled for the DPDK of this machine. It is put
//! beside the executable, where Weir looks for it.

use crate::shell::{Result, need, output, root, target};
use std::process::Command;

/// Of gcc and clang.
const FLAGS: [&str; 8] =
    ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-shared"];

/// Builds the plug-in.
pub fn run(args: &[String]) -> Result {
    let profile = match args {
        [] => "debug",
        [one] if one == "--release" => "release",
        _ => return Err("the only argument is --release".to_string()),
    };
    need(&[("cc", "gcc"), ("pkg-config", "pkg-config")])?;
    let flags = output(Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk >= 22.11"]));
    let flags =
        flags.map_err(|why| format!("{why}\n  apt-get install --no-install-recommends libdpdk-dev"))?;
    let folder = target()?.join(profile);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // A process may have loaded the old file: the new one takes its name at once.
    let (built, part) = (folder.join("libweir_dpdk.so"), folder.join("libweir_dpdk.so.part"));
    let mut cc = Command::new("cc");
    let plugin = root().join("crates/weir-dpdk/plugin");
    cc.args(FLAGS).arg("-o").arg(&part).args(["weir_dpdk.c", "rules.c"].map(|file| plugin.join(file)));
    output(cc.args(flags.split_whitespace()))?;
    std::fs::rename(&part, &built).map_err(|error| format!("{}: {error}", built.display()))?;
    eprintln!("{}", built.display());
    Ok(())
}
