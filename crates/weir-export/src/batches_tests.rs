use super::*;

/// A message, with the number of its rows.
type Sent = (u32, Vec<u8>);

/// Keeps what it carries.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Sent>>>);

impl Carrier for Kept {
    fn send(&mut self, rows: u32, bytes: Vec<u8>) {
        self.0.lock().unwrap().push((rows, bytes));
    }

    fn end(&mut self) {
        self.0.lock().unwrap().push((0, b"end".to_vec()));
    }
}

fn labels() -> Labels {
    let columns = ["ts".to_string(), "id.orig_h".to_string()].into();
    Labels { sensor: "eins".to_string(), log: String::new(), run: "07".to_string(), columns }
}

#[test]
fn labels_are_read_as_they_were_written() {
    let all = labels();
    assert_eq!(Labels::of(&all.context()), Some(all.clone()));
    let without = Labels { columns: vec![], ..all };
    assert_eq!(Labels::of(&without.context()), Some(without));
    for other in
        [&b"syslog"[..], b"", b"\xff", b"weir-batches 1", b"weir-batches 1\na\nb", b"weir-batches 2\na\nb\nc"]
    {
        assert_eq!(Labels::of(other), None, "{other:?}");
    }
}

#[test]
fn batches_are_numbered_and_a_lost_one_leaves_a_gap() {
    let (kept, lost) = (Kept::default(), Arc::<Mutex<Vec<u64>>>::default());
    let counted = Arc::clone(&lost);
    let notify = Notify::new(move |event| match event {
        Event::Lost(rows) => counted.lock().unwrap().push(rows),
        other => panic!("{other:?}"),
    });
    let mut batches = Batches::new(Box::new(kept.clone()), notify);
    batches.send(3, b"one".to_vec());
    batches.send(5, vec![0; MESSAGE_BYTES_MAX + 1]);
    batches.send(1, b"two".to_vec());
    drop(batches);
    assert_eq!(*lost.lock().unwrap(), [5]);
    let kept = kept.0.lock().unwrap();
    assert_eq!(kept.last(), Some(&(0, b"end".to_vec())));
    let found: Vec<_> = kept[..kept.len() - 1]
        .iter()
        .map(|(rows, bytes)| {
            let message = Message { rows: *rows, bytes: bytes.clone(), context: labels().context() };
            let batch = Batch::of(&message).expect("it is a batch");
            assert_eq!(batch.labels, labels());
            (batch.number, batch.rows, batch.arrow.to_vec())
        })
        .collect();
    assert_eq!(found, [(0, 3, b"one".to_vec()), (2, 1, b"two".to_vec())]);
}

#[test]
fn other_messages_are_no_batches() {
    let other = Message { rows: 1, bytes: b"1234567".to_vec(), context: labels().context() };
    assert!(Batch::of(&other).is_none(), "too short");
    let other = Message { rows: 1, bytes: b"12345678".to_vec(), context: (*b"syslog").into() };
    assert!(Batch::of(&other).is_none(), "another context");
}

/// Counts the calls, as `(flushes, ends)`.
struct Counting(Arc<Mutex<(u32, u32)>>, Option<io::ErrorKind>);

impl RowSink for Counting {
    fn begin(&mut self, _: &[Column]) -> io::Result<()> {
        Ok(())
    }

    fn rows(&mut self, _: &weir_packet::Batch, _: Range<usize>) -> io::Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().0 += 1;
        self.1.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn end(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().1 += 1;
        Ok(())
    }
}

#[test]
fn flushes_come_together_and_late() {
    let counts = Arc::<Mutex<(u32, u32)>>::default();
    let mut sink = Lingering::start(Box::new(Counting(Arc::clone(&counts), None))).unwrap();
    sink.begin(&[]).unwrap();
    let begin = Instant::now();
    for _ in 0..100 {
        sink.flush().unwrap();
    }
    if begin.elapsed() < LINGER / 2 {
        assert_eq!(counts.lock().unwrap().0, 0, "not yet");
    }
    std::thread::sleep(LINGER * 2);
    assert_eq!(counts.lock().unwrap().0, 1);
    sink.end().unwrap();
    drop(sink);
    assert_eq!(*counts.lock().unwrap(), (1, 1));
}

#[test]
fn a_late_failure_is_reported_by_the_next_call() {
    let counting = Counting(Arc::default(), Some(io::ErrorKind::StorageFull));
    let mut sink = Lingering::start(Box::new(counting)).unwrap();
    sink.flush().unwrap();
    std::thread::sleep(LINGER * 2);
    let failed = sink.batch(&weir_packet::Batch::default()).map_err(|error| error.kind());
    assert_eq!(failed, Err(io::ErrorKind::StorageFull));
    assert!(sink.batch(&weir_packet::Batch::default()).is_ok(), "reported once");
}
