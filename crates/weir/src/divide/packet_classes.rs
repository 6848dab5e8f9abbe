//! Classes of packets: the first of several filters that a packet matches, at once, before any other packet
//! is seen.

use super::ticked_worker::TickedWorker;
use crate::ask::compile::{Ask, Compiler, Options};
use std::sync::Arc;
use weir_compile::Need;
use weir_engine::plan::{Plan, Want};
use weir_engine::stream::StreamSubscriber;
use weir_engine::subscriber::{Order, SeenPacket, Subscriber};
use weir_engine::worker::Worker;
use weir_lang::diag::Diagnostics;
use weir_packet::Burst;

/// Filters that divide packets into classes.
#[derive(Clone)]
pub struct PacketClasses {
    plan: Arc<Plan>,
    count: u8,
}

impl std::fmt::Debug for PacketClasses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketClasses").field("count", &self.count).finish_non_exhaustive()
    }
}

impl PacketClasses {
    /// The most filters.
    pub const FILTERS_MAX: usize = 15;

    /// The classes of these filters, which are about packets: class 1 is that of the first filter, class 0
    /// that of packets that match none. `bpf`: filters are in the syntax of pcap-filter(7). A fragment that
    /// comes before its datagram is complete matches filters about IP and below.
    ///
    /// # Errors
    /// The mistakes of the filters; a filter about connections or sessions.
    ///
    /// # Panics
    /// With more than [`FILTERS_MAX`](Self::FILTERS_MAX) filters.
    pub fn new(compiler: &Compiler, filters: &[String], bpf: bool) -> Result<Self, Diagnostics> {
        assert!(filters.len() <= Self::FILTERS_MAX, "too many classes");
        let need = Need { packets: true, at_once: true, ..Need::default() };
        let ask = |filter: &String| Ask { filter: filter.clone(), need, want: Want::Packets };
        let asks: Vec<Ask> = filters.iter().map(ask).collect();
        let compiled = compiler.compile(&asks, &Options { bpf, ..Options::default() })?;
        Ok(Self { plan: compiled.plan, count: filters.len() as u8 })
    }

    /// Number of filters.
    pub fn count(&self) -> u8 {
        self.count
    }

    /// Something that finds the classes of packets, in the order of capture.
    pub fn classifier(&self) -> PacketClassifier {
        let worker = Worker::new(Arc::clone(&self.plan), Matched::default());
        PacketClassifier(TickedWorker::new(worker))
    }
}

/// Finds the classes of packets.
pub struct PacketClassifier(TickedWorker<Matched>);

impl std::fmt::Debug for PacketClassifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketClassifier").field("clock", &self.0.clock).finish_non_exhaustive()
    }
}

impl PacketClassifier {
    /// The class of each packet of a burst.
    pub fn classes(&mut self, burst: &Burst) -> &[u8] {
        let matched = self.0.worker.subscriber();
        matched.classes.clear();
        matched.classes.resize(burst.packets.len(), u8::MAX);
        matched.first = burst.packets.as_ptr().addr();
        self.0.take(burst);
        let classes = &mut self.0.worker.subscriber().classes;
        classes.iter_mut().for_each(|class| *class = class.wrapping_add(1));
        classes
    }
}

/// For each packet of a burst, the first filter that it matches; [`u8::MAX`]: none.
#[derive(Default)]
struct Matched {
    classes: Vec<u8>,
    /// The address of the first packet of the burst.
    first: usize,
}

impl Subscriber for Matched {
    fn packet(&mut self, _: Order, question: usize, packet: &SeenPacket<'_>) {
        let at = std::ptr::from_ref(packet.meta).addr().wrapping_sub(self.first) / size_of_val(packet.meta);
        let (question, class) = (u8::try_from(question).unwrap_or(u8::MAX), self.classes.get_mut(at));
        if let Some(class) = class {
            *class = (*class).min(question);
        }
    }
}

impl StreamSubscriber for Matched {}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{Poll, Source};

    #[test]
    fn classes_are_those_of_the_first_filter_that_matches() {
        let compiler = Compiler::default();
        let filters = ["udp.port == 53", "udp", "tcp.flags.syn == 1"].map(String::from);
        let classes = PacketClasses::new(&compiler, &filters, false).expect("filters about packets");
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first-light.pcap");
        let of_filter = |filter: &str| {
            let mut engine = crate::Engine::new();
            let numbers = Arc::new(std::sync::Mutex::new(vec![]));
            let found = Arc::clone(&numbers);
            let take = move |packet: &crate::Frame| found.lock().expect("a list").push(packet.meta.number);
            engine.subscribe(filter, take).expect("a filter");
            engine.read([example]).expect("the example");
            drop(engine);
            Arc::into_inner(numbers).expect("alone").into_inner().expect("a list")
        };
        // Fragments wait for their datagram elsewhere, and are of no class here.
        let fragments = of_filter("ip.flags.mf == 1 or ip.fragment_offset > 0 or ipv6.fraghdr");
        assert!(!fragments.is_empty());
        let by_filter: Vec<Vec<u64>> = filters.iter().map(|filter| of_filter(filter)).collect();
        let (mut classifier, mut burst, mut counts) = (classes.classifier(), Burst::default(), [0; 4]);
        let mut reader = weir_io::CaptureReader::open(&[std::path::PathBuf::from(example)]);
        while !matches!(reader.poll(&mut burst).expect("packets"), Poll::End) {
            let classes = classifier.classes(&burst).to_vec();
            for (packet, class) in burst.packets.iter().zip(classes) {
                if fragments.contains(&packet.number) {
                    continue;
                }
                let first = by_filter.iter().position(|numbers| numbers.contains(&packet.number));
                assert_eq!(
                    usize::from(class),
                    first.map_or(0, |first| first + 1),
                    "packet {}",
                    packet.number
                );
                counts[usize::from(class)] += 1;
            }
        }
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }

    #[test]
    fn filters_about_connections_are_refused() {
        let wrong = PacketClasses::new(&Compiler::default(), &["tls.sni == 'a'".to_string()], false);
        assert_eq!(wrong.expect_err("known too late").list[0].code, "W0193");
    }
}
