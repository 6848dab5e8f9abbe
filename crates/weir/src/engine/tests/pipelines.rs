//! Pipelines over packets.

use super::*;
use crate::pipeline::{Inspect, Map, Port, Reduced, Signal, Tumbling};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

type Sums = BTreeMap<(i64, u16), (u64, u64)>;

fn minute() -> Tumbling {
    Tumbling::every(Duration::from_secs(60)).expect("a length")
}

/// Packets and bytes by minute and port of the receiver, by a pipeline.
fn sums(workers: usize) -> (Sums, Vec<i64>) {
    let (mut sums, mut times) = (Sums::new(), vec![]);
    let make = || {
        Pipeline::<Packet<(u16, Option<u8>)>, _>::new().window(minute(), |packet| packet.time).reduce(
            |packet| packet.fields.0,
            || (0, 0),
            |(packets, bytes): &mut (u64, u64), packet| {
                assert!(packet.fields.1.is_none_or(|ttl| ttl > 0));
                *packets += 1;
                *bytes += u64::from(packet.wire_bytes);
            },
        )
    };
    struct Times<'a>(&'a mut Vec<i64>, &'a mut Sums);
    impl Operator<Reduced<u16, (u64, u64)>> for Times<'_> {
        type Out = ();
        fn take(&mut self, sum: Reduced<u16, (u64, u64)>, _: &mut impl Port<()>) {
            let start = sum.window.map_or(-1, |(start, _)| start);
            let all = self.1.entry((start, sum.key.expect("few keys"))).or_default();
            (all.0, all.1) = (all.0 + sum.state.0, all.1 + sum.state.1);
        }
        fn signal(&mut self, signal: Signal, _: &mut impl Port<()>) {
            match signal {
                Signal::Time(i64::MIN) => {}
                Signal::Time(time) => self.0.push(time),
                signal => assert_eq!(signal, Signal::End),
            }
        }
    }
    let mut engine = Engine::new();
    let receiver = Times(&mut times, &mut sums);
    engine.subscribe_pipeline("tcp", &["tcp.dstport", "ip.ttl"], make, receiver).expect("right fields");
    let outcome = engine.run(&mut slow(64, || ()), workers).expect("a right filter");
    assert!(outcome.errors.is_empty() && outcome.callback_panics.is_empty(), "{outcome:?}");
    drop(engine);
    (sums, times)
}

#[test]
fn a_pipeline_has_the_packets_that_callbacks_have() {
    let mut expected = Sums::new();
    let mut engine = Engine::new();
    // Another path to the same numbers: rows of an aggregate.
    let text = "count(), sum(frame.len) by tcp.dstport every 60s";
    let of = crate::aggregate::RecordSource::Packets;
    let made =
        crate::aggregate::Aggregation::of(engine.compiler(), text, of, usize::MAX).expect("an aggregate");
    let rows = crate::aggregate::AggregateRows::new(&made, engine.compiler().stack(), None);
    let question = made.question("tcp").expect("few fields");
    struct Take<'a>(crate::aggregate::AggregateRows, &'a mut Sums);
    fn add(sums: &mut Sums, batch: &weir_packet::Batch) {
        use weir_packet::Cell::{Time, Unsigned};
        for row in batch.iter() {
            let (Time(start), Unsigned(packets), Unsigned(bytes)) = (row.cell(0), row.cell(3), row.cell(4))
            else {
                panic!("{row:?}")
            };
            if let Unsigned(port) = row.cell(2) {
                sums.insert((start.0, port as u16), (packets, bytes));
            }
        }
    }
    impl TakeItems for Take<'_> {
        fn take(&mut self, _: usize, item: Item<'_>) -> Next {
            if let Item::Pipeline(part) = item {
                self.0.take_part(&part, &mut |batch| add(self.1, batch));
            }
            Next::Go
        }
        fn finish(&mut self, _: Option<RunEnd<'_>>) {
            self.0.finish(&mut |batch| add(self.1, batch));
        }
    }
    engine.subscribe_questions(vec![question], Take(rows, &mut expected)).expect("a right filter");
    engine.run(&mut slow(64, || ()), 1).expect("a right filter");
    drop(engine);
    assert!(expected.len() > 20, "{expected:?}");
    for workers in [1, 2, 3] {
        let (sums, times) = sums(workers);
        assert_eq!(sums, expected, "{workers} workers");
        assert!(times.is_sorted() && times.len() > 10, "{times:?}");
    }
}

#[test]
fn wrong_fields_are_refused_with_the_remedy() {
    let mut engine = Engine::new();
    let mut refused = |filter: &str, fields: &[&str]| {
        let make = Pipeline::<Packet<(IpAddr, u16)>, _>::new;
        let error = engine.subscribe_pipeline(filter, fields, make, Map(|_| ()));
        error.expect_err("a wrong pipeline").render(false)
    };
    let text = refused("tcp", &["ip.src", "tcp.dstpotr"]);
    assert!(text.contains("there is no field `tcp.dstpotr`: is `tcp.dst_port` meant?"), "{text}");
    let text = refused("tcp", &["ip.src", "tcp.seq"]);
    assert!(text.contains("the field `tcp.seq` has another type: take it as `u32`"), "{text}");
    let text = refused("tcp", &["ip.src"]);
    assert!(text.contains("the pipeline takes 2 fields, and 1 are named"), "{text}");
    assert!(refused("tls", &["ip.src", "tcp.dstport"]).contains("W0193"), "a filter on sessions");
}

/// The 500th packet has a wrong time.
#[test]
fn a_packet_with_a_wrong_time_takes_no_others_away() {
    struct Wrong(Slow<fn()>);
    impl Source for Wrong {
        fn poll(&mut self, burst: &mut Burst) -> Result<Poll, SourceError> {
            let polled = self.0.poll(burst)?;
            burst
                .packets
                .iter_mut()
                .filter(|meta| meta.number == 500)
                .for_each(|meta| meta.time.0 = i64::MAX / 2);
            Ok(polled)
        }
    }
    for workers in [1, 2] {
        let mut counted = 0;
        let make = || Pipeline::<Packet<()>, _>::new().window(minute(), |packet| packet.time);
        let mut engine = Engine::new();
        let pipeline = engine
            .subscribe_pipeline("", &[], make, Map(|_: Packet<()>| counted += 1))
            .expect("a right filter");
        let outcome = engine.run(&mut Wrong(slow(64, || ())), workers).expect("a right filter");
        assert_eq!(engine.pipeline_counts(pipeline)["late"], 0);
        drop(engine);
        assert_eq!(counted, outcome.matched[0], "{workers} workers");
    }
}

#[test]
fn panics_of_operators_are_isolated() {
    let mut engine = Engine::new();
    let mut taken = 0;
    let make = || {
        Pipeline::<Packet<(Ipv4Addr,)>, _>::new()
            .then(Inspect(|packet: &Packet<_>| assert!(packet.number % 50 != 0, "a broken operator")))
    };
    let count = Map(|packet: Packet<_>| {
        taken += 1;
        assert!(packet.number != 7, "a broken receiver");
    });
    engine.subscribe_pipeline("ip", &["ip.src"], make, count).expect("right fields");
    let outcome = engine.run(&mut slow(64, || ()), 2).expect("a right filter");
    drop(engine);
    let [panics] = &outcome.callback_panics[..] else { panic!("{:?}", outcome.callback_panics) };
    assert!(panics.first == "a broken receiver" || panics.first == "a broken operator", "{panics}");
    assert!(taken > 100 && panics.count > 5 && !panics.is_off, "{taken} {panics}");
}

#[test]
fn pipelines_come_and_go_during_a_run() {
    let numbers = RefCell::new(vec![]);
    let has_ended = RefCell::new(0);
    struct Take<'a>(&'a RefCell<Vec<u64>>, &'a RefCell<u64>);
    impl Operator<Packet<()>> for Take<'_> {
        type Out = ();
        fn take(&mut self, packet: Packet<()>, _: &mut impl Port<()>) {
            self.0.borrow_mut().push(packet.number);
        }
        fn signal(&mut self, signal: Signal, _: &mut impl Port<()>) {
            *self.1.borrow_mut() += u64::from(signal == Signal::End);
        }
    }
    let mut engine = Engine::new();
    let make = Pipeline::<Packet<()>, _>::new;
    let pipeline =
        engine.subscribe_pipeline("udp", &[], make, Take(&numbers, &has_ended)).expect("a pipeline");
    engine.run(&mut slow(64, || ()), 1).expect("a right filter");
    let packets = numbers.take();
    assert!(packets.len() > 10 && packets.is_sorted());
    assert!(engine.unsubscribe(pipeline));
    engine.run(&mut slow(64, || ()), 1).expect("a right filter");
    assert_eq!((numbers.take(), has_ended.take()), (vec![], 1));
}
