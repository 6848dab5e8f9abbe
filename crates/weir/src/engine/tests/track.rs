//! State of connections, and reports of connections that go on.

use super::*;

/// Packets of each side, and number of handshakes.
#[derive(Debug, Clone, Default)]
struct Sides([u64; 2], usize);

impl Track for Sides {
    const PROTOCOLS: &'static [&'static str] = &["tls"];

    fn packet(&mut self, packet: &TrackPacket<'_>) {
        self.0[usize::from(!packet.is_orig)] += 1;
    }

    fn session(&mut self, _: &dyn weir_sessions::Session) {
        self.1 += 1;
    }
}

#[test]
fn a_type_of_ones_own_is_told_of_packets_and_sessions() {
    for workers in [1, 3] {
        let (mut over, mut often) = (vec![], 0);
        let mut engine = Engine::new();
        engine
            .subscribe("tcp", |connection: &crate::Connection, sides: &Tracked<Sides>| {
                assert_eq!(connection.packets, sides.0, "{connection:?}");
                over.push(sides.1);
            })
            .unwrap();
        engine.subscribe_every(Every::Packets(10), "tls", |_: &Tracked<Sides>| often += 1).unwrap();
        engine.run(&mut slow(64, || ()), workers).unwrap();
        drop(engine);
        assert_eq!(over.iter().sum::<usize>(), 24);
        assert!(often > 24);
    }
}

/// Number, bytes and time of every packet of a connection.
#[derive(Debug, Clone, Default)]
struct Seen(Vec<(u64, u64, i64)>);

impl Track for Seen {
    fn packet(&mut self, packet: &TrackPacket<'_>) {
        self.0.push((packet.meta.number, packet.meta.wire_bytes.into(), packet.meta.time.0));
    }
}

/// The numbers of packets after which a connection is delivered, including its end.
fn due(every: Every, packets: &[(u64, u64, i64)]) -> Vec<usize> {
    let (mut at, mut begin, mut last) = (vec![], 0, packets[0].2);
    for end in 1..=packets.len() {
        let is_due = match every {
            Every::Connection | Every::Within(_) => false,
            Every::Packets(most) => (end - begin) as u64 >= most,
            Every::Bytes(most) => packets[begin..end].iter().map(|packet| packet.1).sum::<u64>() >= most,
            Every::Nanoseconds(most) => (packets[end - 1].2 - last) as u64 >= most,
        };
        if is_due {
            at.push(end);
            (begin, last) = (end, packets[end - 1].2);
        }
    }
    at.push(packets.len());
    at
}

#[test]
fn a_connection_is_given_as_often_as_was_asked() {
    use std::collections::BTreeMap;
    for every in [
        Every::Connection,
        Every::Packets(3),
        Every::Bytes(1),
        Every::Bytes(900),
        Every::Nanoseconds(1),
        Every::Nanoseconds(2_000_000),
        Every::Nanoseconds(u64::MAX),
    ] {
        // By the number of the first packet.
        let mut given: BTreeMap<u64, Vec<Vec<_>>> = BTreeMap::new();
        let mut engine = Engine::new();
        engine
            .subscribe_every(every, "tcp", |seen: &Tracked<Seen>| {
                given.entry(seen.0[0].0).or_default().push(seen.0.clone());
            })
            .unwrap();
        engine.run(&mut slow(64, || ()), 1).unwrap();
        drop(engine);
        assert!(given.len() > 20, "{every:?}");
        let mut between = 0;
        for times in given.values() {
            let all = times.last().expect("at its end");
            let lengths: Vec<usize> = times.iter().map(Vec::len).collect();
            assert_eq!(lengths, due(every, all), "{every:?}: {all:?}");
            between += times.len() - 1;
        }
        let never = matches!(every, Every::Connection | Every::Nanoseconds(u64::MAX));
        assert_eq!(between == 0, never, "{every:?}");
    }
}

/// A connection is reported within the time after each packet, though no packet of it follows; and for any
/// number of workers the same.
#[test]
fn a_connection_that_goes_on_is_reported_in_time() {
    const LATE_NS: i64 = 140_000_000;
    let reports = |within_ms: u64, workers: usize| {
        let mut reports = vec![];
        let mut engine = Engine::new();
        engine
            .subscribe_every(
                Every::Within(within_ms * 1_000_000),
                "tcp",
                |connection: &crate::Connection, seen: &Tracked<Seen>| {
                    reports.push((connection.uid.clone(), seen.0.clone(), connection.clone()));
                },
            )
            .unwrap();
        engine.run(&mut slow(64, || ()), workers).unwrap();
        drop(engine);
        reports
    };
    for within_ms in [1, 50, 1000] {
        let all = reports(within_ms, 1);
        assert!(all == reports(within_ms, 3), "{within_ms} ms");
        let last: HashMap<&str, &Vec<_>> = all.iter().map(|(uid, seen, _)| (uid.as_str(), seen)).collect();
        let end = all.iter().flat_map(|(_, seen, _)| seen).map(|packet| packet.2).max().expect("packets");
        for (uid, packets) in last {
            let of_this = || all.iter().filter(|(other, ..)| other == uid);
            for (position, packet) in packets.iter().enumerate() {
                let known = of_this().find(|(_, seen, _)| seen.len() > position).expect("it is reported");
                let until = packet.2 + within_ms as i64 * 1_000_000 + LATE_NS;
                // The clock shows a time once two packets agree on it.
                let after = known.1.iter().filter(|packet| packet.2 > until).count();
                assert!(until >= end || after <= 1, "{uid}, packet {position}, {within_ms} ms: {after}");
            }
        }
    }
    assert!(reports(1, 1).len() > reports(1000, 1).len());
    assert!(
        reports(1000, 1).iter().all(|(_, seen, record)| seen.len() as u64 == record.packets.iter().sum())
    );
}

/// Whoever watches a run also sees packets that waited for their connection, and at the end exact accounts.
#[test]
fn a_watch_sees_packets_that_waited() {
    for workers in [1, 2] {
        let watch = crate::Watch::default();
        let options = Options { watch: Some(watch.clone()), ..Options::default() };
        let (mut polls, mut seen) = (0, 0);
        let mut engine = Engine::with(Compiler::default(), options);
        engine.subscribe("tls", |_: &Frame| ()).unwrap();
        let before = || {
            polls += 1;
            if polls % 4 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(60));
            }
            seen = watch.glance().counters.packet.delivered;
        };
        let outcome = engine.run(&mut slow(32, before), workers).unwrap();
        drop(engine);
        assert!(seen > 0, "{workers} workers");
        assert_eq!(watch.glance().counters, outcome.counters);
        assert_eq!(watch.glance().counters.adds_up(0), Ok(()));
    }
}

/// Reports of several questions come in one order, whatever the number of workers is.
#[test]
fn reports_have_one_order() {
    const SESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sessions.pcap");
    let reports = |workers: usize| {
        let mut all = vec![];
        let mut engine = Engine::new();
        let questions = [("", 200), ("tcp", 1), ("udp", 30_000)];
        let questions =
            questions.map(|(filter, ms)| Question::of_records(filter, Every::Within(ms * 1_000_000)));
        engine.subscribe_questions(questions.to_vec(), Reports(&mut all)).unwrap();
        engine.run(&mut CaptureReader::open(&[SESSIONS]), workers).unwrap();
        drop(engine);
        all
    };
    let one = reports(1);
    assert!(one.iter().filter(|(_, _, is_over)| !is_over).count() > 100);
    for workers in 2..5 {
        assert!(reports(workers) == one, "{workers} workers");
    }
}

/// Takes reports: identifier, service, and whether the connection is over.
struct Reports<'a>(&'a mut Vec<(String, Option<String>, bool)>);

impl TakeItems for Reports<'_> {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        if let Item::Tracked { connection, is_over, .. } = item {
            self.0.push((connection.uid.clone(), connection.service.map(|name| name.to_string()), is_over));
        }
        Next::Go
    }
}

#[test]
fn reports_name_the_protocol_and_match_the_whole_filter() {
    let reports = |filter: &str| {
        let mut all = vec![];
        let mut engine = Engine::new();
        let question = Question::of_records(filter, Every::Within(1));
        engine.subscribe_questions(vec![question], Reports(&mut all)).unwrap();
        engine.run(&mut slow(64, || ()), 1).unwrap();
        drop(engine);
        all
    };
    let of_tls = |reports: &[(String, Option<String>, bool)], is_over: bool| {
        let is_tls = |service: &Option<String>| service.as_deref() == Some("ssl");
        let all = reports.iter().filter(|(_, service, over)| *over == is_over && is_tls(service));
        all.map(|(uid, ..)| uid.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    let all = reports("");
    let ended = of_tls(&all, true);
    assert!(!ended.is_empty() && of_tls(&all, false).is_subset(&ended));
    assert!(!of_tls(&all, false).is_empty(), "known before the end");
    let tls = reports("tls");
    assert_eq!(of_tls(&tls, true), ended);
    assert!(tls.iter().all(|(uid, ..)| ended.contains(uid)), "others are never reported");
    assert!(tls.iter().any(|(_, _, is_over)| !is_over));
}
