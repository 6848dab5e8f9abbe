//! Handlers that run on workers.

use super::*;

#[test]
fn handlers_run_on_the_workers_and_are_there_at_the_end() {
    let mut engine = Engine::new();
    let tcp = engine.subscribe_handler("tcp", Count::default).unwrap();
    let udp = engine.subscribe_handler("udp", Count::default).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 2).unwrap();
    let sum = |of| outcome.handlers.of::<Count>(of).iter().map(|count| count.0).sum::<u64>();
    assert_eq!(outcome.handlers.of::<Count>(tcp).len(), 2);
    assert_eq!([sum(tcp), sum(udp)], [outcome.matched[0], outcome.matched[1]]);
    assert!(sum(tcp) > 1000);
}

/// Number of packets and of connections, in one handler.
#[derive(Debug, Default)]
struct Both(u64, u64);

impl Handler for Both {
    fn needs(needs: &mut Needs) {
        needs.packets();
        needs.connections();
    }

    fn packet(&mut self, _: &PacketMeta, _: &[u8]) {
        self.0 += 1;
    }

    fn connection(&mut self, connection: &crate::Connection) {
        self.1 += connection.packets.iter().sum::<u64>();
    }
}

#[test]
fn a_handler_of_several_things_is_one() {
    let mut engine = Engine::new();
    let both = engine.subscribe_handler("tcp and not icmp", Both::default).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    let handlers = outcome.handlers.of::<Both>(both);
    assert_eq!(handlers.len(), 1);
    assert!(handlers[0].0 > 1000 && handlers[0].0 == handlers[0].1, "{handlers:?}");
}
