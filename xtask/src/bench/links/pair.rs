//! A pair of virtual Ethernet: frames that are sent on `out0` are received on `in0`.
//!
//! One processor receives, as a network card's interrupts would have it: the kernel's part runs in a thread
//! (threaded NAPI, Documentation/networking/napi.rst) with more priority than the program that receives, and
//! is accounted for by itself. A program of lowest priority keeps the processor awake, because a virtual
//! machine wakes up slowly. The other processor sends.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir_link::live_frames::LiveFrames;

use crate::bench::child::{claim_processor, run_time_ns};
use crate::shell::{Result, said, sh};

pub const RECEIVING: usize = 0;
const SENDING: usize = 1;

/// The pair. It ends with the namespace.
pub struct Pair {
    sender: LiveFrames,
    /// The thread of the kernel that receives.
    kernel: u32,
    spinner: Child,
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = self.spinner.kill(); // the end of the bench ends it, too
        let _ = self.spinner.wait();
    }
}

impl Pair {
    /// Makes the pair, and a sender of these frames.
    pub fn new(frames: &[Vec<u8>]) -> Result<Self> {
        // Without GRO the interface has no NAPI. The names of the kernel's threads are cut.
        sh("
mount -t sysfs none /sys 2>/dev/null || true
for name in all default; do echo 1 > /proc/sys/net/ipv6/conf/$name/disable_ipv6; done
ip link set lo up
ip link del in0 2>/dev/null || true
ip link add out0 type veth peer name in0
ethtool -K in0 gro on
ip link set out0 up
ip link set in0 up
echo 1 > /sys/class/net/in0/threaded")?;
        let thread =
            sh("cat /proc/[0-9]*/stat 2>/dev/null | awk '$2 ~ /^\\(napi.in0/ { print $1 }' | tail -1")?;
        let kernel = thread.trim().parse().map_err(said("the thread of the kernel that receives"))?;
        sh(&format!("taskset -pc {RECEIVING} {kernel}; chrt -f -p 2 {kernel}"))?;
        let spinner = format!("chrt -i 0 taskset -c {RECEIVING} setpriv --pdeathsig KILL sh -c");
        let mut words = spinner.split(' ');
        let spinner = Command::new(words.next().unwrap_or_default())
            .args(words)
            .arg("while :; do :; done")
            .stdin(Stdio::null())
            .spawn()
            .map_err(said("chrt"))?;
        let sender = LiveFrames::new("out0", frames).map_err(said("the sender on out0"))?;
        Ok(Self { sender, kernel, spinner })
    }

    /// Sends for a time from the other processor. Returns the packets that arrived, without those that the
    /// queue of the interface had no room for, and the time.
    pub fn send(&self, rate: Option<f64>, time: Duration) -> Result<(u64, Duration)> {
        let before = refused()?;
        let (sent, time) = std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                claim_processor(SENDING)?;
                self.sender.send(rate, time).map_err(said("the sender on out0"))
            });
            sending.join().map_err(|_| "the sender panicked".to_string())?
        })?;
        Ok((sent - (refused()? - before), time))
    }

    /// Processor time of the kernel's part, nanoseconds.
    pub fn kernel_ns(&self) -> Result<u64> {
        run_time_ns(self.kernel)
    }
}

/// Packets that the queue of `in0` had no room for: it has 256 places, and the kernel's thread does not
/// always run in time.
fn refused() -> Result<u64> {
    let text = sh("ethtool -S out0")?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("tx_queue_0_xdp_xmit_errors: "));
    line.ok_or("ethtool -S out0 has no tx_queue_0_xdp_xmit_errors")?.parse().map_err(said("ethtool"))
}
