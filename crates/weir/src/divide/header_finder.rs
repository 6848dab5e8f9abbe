//! Finds the headers of IP, TCP and UDP in packets, behind tags and in tunnels, too: for an index of packets.

use crate::ask::compile::{Ask, Compiler, Options};
use crate::run::units::PacketKeys;
use std::sync::Arc;
use weir_compile::{DISPATCH_SLOTS, HEADER_SLOTS, HeaderKind, Need, header_in};
use weir_engine::plan::{Plan, Want};
use weir_ir::abi::Continuation;
use weir_lang::diag::Diagnostics;
use weir_packet::{Burst, HeaderPair, IpVersion, PacketHeaders, PacketMeta, Transport};

/// Finds headers, by the program of a stack, which all clones share.
#[derive(Clone)]
pub struct HeaderFinder {
    plan: Arc<Plan>,
    k: Continuation,
}

impl std::fmt::Debug for HeaderFinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HeaderFinder")
    }
}

impl HeaderFinder {
    /// Headers as the stack of `compiler` finds them.
    ///
    /// # Errors
    /// There is no program for the stack.
    pub fn new(compiler: &Compiler) -> Result<Self, Diagnostics> {
        let need = Need { dispatch: true, headers: true, ..Need::default() };
        let ask = Ask { filter: String::new(), need, want: Want::Packets };
        let compiled = compiler.compile(&[ask], &Options::default())?;
        Ok(Self { plan: compiled.plan, k: Continuation::default() })
    }

    /// Adds the headers of each packet of a burst to `found`, in the order of the packets. `None`: an index
    /// has no key for the packet, for example for a fragment.
    pub fn find(&mut self, burst: &Burst, found: &mut Vec<Option<PacketHeaders>>) {
        // A program that many packets ran through is compiled anew, with more optimisation.
        Arc::clone(&self.plan.program).note_packets(burst.packets.len());
        found.extend(burst.packets.iter().zip(0..).map(|(packet, index)| self.of(packet, burst.data(index))));
    }

    fn of(&mut self, packet: &PacketMeta, frame: &[u8]) -> Option<PacketHeaders> {
        const FIRST: usize = DISPATCH_SLOTS.len();
        self.k.outs[..FIRST + HEADER_SLOTS.len()].fill(0);
        self.plan.program.head(packet, frame, &mut self.k);
        let slots = &self.k.outs[FIRST..];
        let [ip, transport, last_ip, last_transport, count] = std::array::from_fn(|slot| slots[slot]);
        // Datagrams that are put together have further headers.
        let is_fragment = PacketKeys::of(&self.k.outs).datagram != 0;
        let has_transport = transport != 0 || last_transport != 0;
        if is_fragment || !has_transport || !(1..=2).contains(&count) {
            return None;
        }
        let inner = if count == 2 { Some(pair(last_ip, last_transport)?) } else { None };
        Some(PacketHeaders { outer: pair(ip, transport)?, inner })
    }
}

/// The headers in two slots.
fn pair(ip: u64, transport: u64) -> Option<HeaderPair> {
    let (version, ip_at) = match header_in(ip)? {
        (HeaderKind::Ipv4, at) => (IpVersion::V4, at),
        (HeaderKind::Ipv6, at) => (IpVersion::V6, at),
        _ => return None,
    };
    let transport = match header_in(transport) {
        Some((HeaderKind::Tcp, at)) => Some((Transport::Tcp, at)),
        Some((HeaderKind::Udp, at)) => Some((Transport::Udp, at)),
        _ => None,
    };
    Some(HeaderPair { version, ip_at, transport })
}
