//! What callbacks receive, and when their deliveries end.

use super::*;

#[test]
fn callbacks_are_given_what_they_take() {
    let (mut names, mut pairs, mut lists, mut frames) = (vec![], vec![], vec![], 0);
    let flows = RefCell::new(vec![]);
    let mut engine = Engine::new();
    engine
        .subscribe("tls", |hello: &TlsHandshake| names.push(hello.server_name().map(String::from)))
        .unwrap();
    engine
        .subscribe("tls", |connection: &crate::Connection, hello: &TlsHandshake| {
            pairs.push((connection.uid.clone(), hello.server_name().map(String::from)));
        })
        .unwrap();
    engine
        .subscribe("tcp.port == 443", |flow: &Flow, all: &SessionsOf<TlsHandshake>| {
            lists.push((flow.uid.clone(), all.len()));
        })
        .unwrap();
    engine
        .subscribe("tls", |flow: &Flow, _: &TlsHandshake| flows.borrow_mut().push(flow.uid.clone()))
        .unwrap();
    engine.subscribe("udp", |_: &Frame| frames += 1).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert_eq!(names.len(), 24);
    assert_eq!(pairs.len(), 24);
    let mut sorted = [names, pairs.iter().map(|pair| pair.1.clone()).collect()];
    sorted.iter_mut().for_each(|names| names.sort());
    assert_eq!(sorted[0], sorted[1]);
    assert!(lists.iter().all(|list| list.1 <= 1) && lists.iter().filter(|list| list.1 == 1).count() == 24);
    assert_eq!(flows.borrow().len(), 24);
    assert!(frames > 10 && outcome.matched.iter().sum::<u64>() > frames);
}

#[test]
fn a_callback_ends_its_subscription_or_one_connection() {
    let (mut first, mut each) = (0, 0);
    let mut engine = Engine::new();
    engine
        .subscribe("", |_: &Frame| {
            first += 1;
            Next::End
        })
        .unwrap();
    engine
        .subscribe_every(Every::Packets(1), "tcp", |_: &Tracked<()>| {
            each += 1;
            Next::EndFlow
        })
        .unwrap();
    engine.run(&mut slow(1, || ()), 1).unwrap();
    assert_eq!(engine.subscriptions().count(), 1);
    drop(engine);
    assert_eq!(first, 1);
    let mut connections = 0;
    let mut engine = Engine::new();
    engine.subscribe("tcp", |_: &crate::Connection| connections += 1).unwrap();
    engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert_eq!(each, connections);
}

#[test]
fn a_run_ends_once_nobody_asks_anything() {
    for workers in [1, 2] {
        let mut polls = 0;
        let mut engine = Engine::new();
        engine.subscribe("", |_: &Frame| Next::End).unwrap();
        let outcome = engine.run(&mut slow(1, || polls += 1), workers).unwrap();
        assert!(
            outcome.counters.packet.packets < 600,
            "{workers} workers: {}",
            outcome.counters.packet.packets
        );
        // While a control exists, the run cannot end early, because another thread may add a subscription.
        let (mut all, mut engine) = (0, Engine::new());
        let _control = engine.control();
        engine.subscribe("", |_: &Frame| Next::End).unwrap();
        engine.run(&mut slow(1, || all += 1), workers).unwrap();
        assert!(polls < all, "{workers} workers: {polls} of {all}");
    }
}

#[test]
fn ip_bytes_of_datagrams_in_fragments_are_those_of_the_whole() {
    let (mut whole, mut in_parts) = (0, 0);
    let mut engine = Engine::new();
    engine
        .subscribe("udp or icmp", |connection: &crate::Connection| {
            let head = if connection.orig_h.is_ipv4() { 20 } else { 40 } + 8;
            for side in [0, 1] {
                let Some(bytes) = connection.bytes.filter(|_| connection.packets[side] > 0) else { continue };
                let [ip_bytes, packets] = [connection.ip_bytes[side], connection.packets[side]];
                // Fragments have an extension header.
                match ip_bytes - bytes[side] - head * packets {
                    0 => whole += 1,
                    more => assert!(more % 8 == 0 && more <= 8 * packets, "{connection:?}"),
                }
                in_parts += usize::from(ip_bytes > 1260 * packets);
            }
        })
        .unwrap();
    engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert!(whole > 50, "{whole}");
    assert!(in_parts >= 2, "{in_parts} of the capture's pings and datagrams are larger than a frame");
}

/// A packet has several messages; callbacks receive the messages that match their filter.
#[test]
fn events_are_chosen_by_their_own_columns() {
    let records = "
        //! TLS record
        protocol record {
            header { type: u8 where <= 24  version: u16 where <= 0x0304  length: u16 where <= 16640 }
            payload = rest[.. length]
            event seen on packet { type, length }
        }
        //! TLS's records
        stack records extends internet { tcp -> messages record when port == 443 }";
    let mut compiler = crate::Compiler::default();
    compiler.add("records.weir", records).unwrap();
    let columns = crate::EventRows::of_set(compiler.stack(), crate::EventSet::FULL).columns;
    let at = |name: &str| columns.iter().position(|column| column.name == name).unwrap();
    let (name, kind) = (at("event"), at("type"));
    let is_record = |row: &EventRow| row.values[name] == Value::Text("record.seen".into());
    let is_alert = |row: &EventRow| is_record(row) && row.values[kind] == Value::Unsigned(21);
    let (mut all, mut alerts, mut own, mut others, mut beside) = (0, 0, 0, 0, 0);
    let mut engine = Engine::with(compiler, Options::default());
    engine
        .subscribe("", |row: &EventRow| {
            all += usize::from(is_record(row));
            alerts += usize::from(is_alert(row));
        })
        .unwrap();
    engine
        .subscribe("record.seen.type == 21", |row: &EventRow| {
            assert!(is_alert(row), "{row:?}");
            own += 1;
        })
        .unwrap();
    engine
        .subscribe("record.seen.type != 21", |row: &EventRow| {
            assert!(is_record(row) && !is_alert(row), "{row:?}");
            others += 1;
        })
        .unwrap();
    engine.subscribe("record.type == 21", |row: &EventRow| beside += usize::from(is_record(row))).unwrap();
    engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert!(own > 0 && others > 0, "some of each");
    assert_eq!((own, own + others), (alerts, all));
    assert!(beside >= own, "fields of layers are the packet's: {beside}");
}

#[test]
fn what_a_slow_callback_has_no_room_for_is_counted() {
    let seen = Arc::new(Mutex::new(0));
    let told = Arc::clone(&seen);
    let mut engine = Engine::new();
    let slow_one = move |_: &Frame| {
        std::thread::sleep(std::time::Duration::from_micros(50));
        *told.lock().unwrap() += 1;
    };
    engine.subscribe_on((2, 4), "", slow_one).unwrap();
    let outcome = engine.run(&mut slow(64, || ()), 1).unwrap();
    assert_eq!(*seen.lock().unwrap() + outcome.lost, outcome.matched[0]);
}

#[test]
fn bytes_in_order_come_as_segments_and_as_chunks() {
    let (mut segments, mut chunks) = (vec![], vec![]);
    let mut engine = Engine::new();
    let filter = "tcp.port == 80 and ip";
    engine
        .subscribe(filter, |flow: &Flow, segment: &Segment| {
            segments.push((flow.uid.clone(), segment.is_orig, segment.offset, segment.bytes.clone()));
        })
        .unwrap();
    engine
        .subscribe(filter, |flow: &Flow, chunk: &StreamBytes<1000>| {
            assert!(chunk.bytes.len() <= 1000);
            chunks.push((flow.uid.clone(), chunk.is_orig, chunk.offset, chunk.bytes.clone()));
        })
        .unwrap();
    engine.run(&mut slow(64, || ()), 1).unwrap();
    drop(engine);
    assert!(chunks.len() > 100);
    let joined = |mut list: Vec<(String, bool, u64, Vec<u8>)>| {
        list.sort_by(|a, b| (&a.0, a.1, a.2).cmp(&(&b.0, b.1, b.2)));
        let mut streams: std::collections::BTreeMap<(String, bool), Vec<u8>> = Default::default();
        for (uid, is_orig, _, bytes) in list {
            streams.entry((uid, is_orig)).or_default().extend(bytes);
        }
        streams
    };
    let (segments, chunks) = (joined(segments), joined(chunks));
    assert!(segments.values().map(Vec::len).sum::<usize>() > 100_000);
    assert!(segments == chunks, "the same bytes");
}

#[test]
fn what_can_never_be_given_together_is_refused() {
    let mut engine = Engine::new();
    let wrong = |added: Result<Subscription, Diagnostics>| added.unwrap_err().list[0].code.to_string();
    assert_eq!(wrong(engine.subscribe("", |_: &Frame, _: &Flow| ())), "W0197");
    assert_eq!(wrong(engine.subscribe("", |_: &Frame, _: &TlsHandshake| ())), "W0197");
    assert_eq!(wrong(engine.subscribe("", |_: &Segment, _: &StreamChunk| ())), "W0197");
    assert_eq!(wrong(engine.subscribe_every(Every::Packets(1), "", |_: &Frame| ())), "W0197");
    assert_eq!(wrong(engine.subscribe_handler("tls.sni contains \"x\"", Count::default)), "W0193");
}
