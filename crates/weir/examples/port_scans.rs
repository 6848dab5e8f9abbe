//! Finds hosts that open connections to many ports or hosts within a time: a pipeline with a state for each
//! sender.
//!
//! `cargo run --example port_scans -- capture.pcap [TARGETS]`

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;
use weir::Engine;
use weir::pipeline::{FlowEnd, FlowHandler, Keep, Packet, Pipeline, Port};

/// A SYN: its sender, its receiver, and the receiver's port.
type Syn = Packet<(IpAddr, IpAddr, u16)>;

/// A sender with at least this many targets is a scanner.
struct Scans(usize);

impl FlowHandler<Syn> for Scans {
    type Key = IpAddr;
    type State = BTreeSet<(IpAddr, u16)>;
    type Out = (IpAddr, usize);

    fn key(&mut self, syn: &Syn) -> Option<IpAddr> {
        Some(syn.fields.0)
    }

    fn time(&mut self, syn: &Syn) -> i64 {
        syn.time
    }

    fn begin(&mut self, _: &IpAddr, _: &Syn) -> Self::State {
        BTreeSet::new()
    }

    fn item(
        &mut self,
        from: &IpAddr,
        targets: &mut Self::State,
        syn: Syn,
        out: &mut impl Port<Self::Out>,
    ) -> Keep {
        let (_, host, port) = syn.fields;
        if targets.len() < self.0 && targets.insert((host, port)) && targets.len() == self.0 {
            // Reported once, until the sender was idle.
            out.put((*from, self.0));
        }
        Keep::Going
    }

    fn end(&mut self, _: IpAddr, _: Self::State, _: FlowEnd, _: &mut impl Port<Self::Out>) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let capture = args.next().ok_or("give a capture file")?;
    let targets = args.next().map_or(Ok(20), |text| text.parse())?;
    // Workers see different connections of a sender: the states are kept behind all workers.
    let scans = Pipeline::new()
        .flows(Duration::from_secs(60), Scans(targets))
        .map(|(host, targets)| format!("{host} opens connections to at least {targets} ports"))
        .print();
    let mut engine = Engine::new();
    let fields = ["src", "dst", "dport"];
    engine.subscribe_pipeline("tcp.flags.syn and not tcp.flags.ack", &fields, Pipeline::new, scans)?;
    engine.read([capture])?;
    Ok(())
}
