//! Spools: what comes out is what went in, also after restarts, kills and damage.

use super::*;
use std::collections::BTreeMap;

const CONTEXT: &[u8] = b"templates";

fn open(directory: &Path, bytes_max: u64) -> Spool {
    Spool::open(directory, bytes_max, CONTEXT.into()).expect("the spool opens")
}

/// A message that tells its number.
fn message(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(length.max(4), number as u8);
    bytes
}

fn push(spool: &mut Spool, numbers: std::ops::Range<u32>, length: usize) {
    for number in numbers {
        assert!(spool.push(number, &message(number, length)).expect("the disk has room"), "{number}");
    }
}

/// Reads all messages, and returns their numbers.
fn read(spool: &mut Spool) -> Vec<u32> {
    let mut numbers = vec![];
    while let Some(read) = spool.read_next().expect("the disk can be read") {
        assert_eq!(read.bytes, message(read.rows, read.bytes.len()));
        assert_eq!(*read.context, *CONTEXT);
        numbers.push(read.rows);
    }
    numbers
}

fn segments(directory: &Path) -> usize {
    fs::read_dir(directory)
        .unwrap()
        .filter(|entry| number_of(&entry.as_ref().unwrap().path()).is_some())
        .count()
}

/// A repeatable sequence of numbers (xorshift64).
fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

#[test]
fn messages_come_in_order_and_stay_until_they_are_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path(), SPOOL_BYTES_MIN);
    assert_eq!(spool.read_next().unwrap(), None);
    push(&mut spool, 1..101, 10_000);
    assert_eq!(read(&mut spool), (1..101).collect::<Vec<_>>());
    for _ in 0..40 {
        spool.acknowledge().unwrap();
    }
    assert_eq!(spool.waiting_rows(), (41..101).sum::<u64>());
    spool.rewind();
    assert_eq!(read(&mut spool), (41..101).collect::<Vec<_>>());
    // The reader goes on where it was when more comes.
    push(&mut spool, 101..103, 10);
    assert_eq!(read(&mut spool), [101, 102]);
    for _ in 0..62 {
        spool.acknowledge().unwrap();
    }
    assert_eq!((spool.waiting_rows(), segments(directory.path())), (0, 1));
    assert!(spool.size() < SPOOL_BYTES_MIN / 8, "acknowledged segments are deleted: {}", spool.size());
}

#[test]
fn a_restart_goes_on_after_the_last_acknowledged_message() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path(), SPOOL_BYTES_MIN);
    push(&mut spool, 0..100, 10_000);
    (0..50).for_each(|_| drop(spool.read_next().unwrap()));
    (0..30).for_each(|_| spool.acknowledge().unwrap());
    drop(spool);
    let mut spool = open(directory.path(), SPOOL_BYTES_MIN);
    push(&mut spool, 100..110, 10_000);
    assert_eq!(read(&mut spool), (30..110).collect::<Vec<_>>());
    (0..80).for_each(|_| spool.acknowledge().unwrap());
    drop(spool);
    let mut spool = open(directory.path(), SPOOL_BYTES_MIN);
    assert_eq!(read(&mut spool), [0; 0]);
    assert_eq!((spool.damaged_bytes(), segments(directory.path())), (0, 0));
}

#[test]
fn a_full_spool_refuses_the_newest_and_counts_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path(), 0);
    let (mut accepted, mut refused) = (0_u64, 0_u64);
    for number in 0..1000 {
        match spool.push(2, &message(number, 10_000)).unwrap() {
            true => accepted += 1,
            false => refused += 1,
        }
    }
    assert!(accepted > 400 && spool.size() <= SPOOL_BYTES_MIN, "{accepted} {}", spool.size());
    assert_eq!(spool.refused(), Refusals { messages: refused, rows: 2 * refused });
    let on_disk: u64 =
        fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert!(on_disk <= SPOOL_BYTES_MIN + POSITION_BYTES as u64, "{on_disk}");
    // Room comes back with acknowledgements.
    let all = std::iter::from_fn(|| spool.read_next().unwrap()).count();
    assert_eq!(all as u64, accepted);
    (0..100).for_each(|_| spool.acknowledge().unwrap());
    assert!(spool.push(1, &message(7, 10_000)).unwrap());
    assert!(!spool.push(1, &vec![0; RECORD_BYTES_MAX + 1]).unwrap(), "a record has a limit");
}

#[test]
fn a_spool_belongs_to_one_output() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), 0);
    let second = Spool::open(directory.path(), 0, CONTEXT.into()).expect_err("it is in use");
    assert_eq!(second.kind(), ErrorKind::WouldBlock);
    drop(first);
    open(directory.path(), 0);
}

#[test]
fn after_a_kill_at_any_byte_only_the_incomplete_record_is_missing() {
    let whole = tempfile::tempdir().unwrap();
    let mut spool = open(whole.path(), 0);
    push(&mut spool, 0..4, 20);
    drop(spool);
    let bytes = fs::read(whole.path().join("00000000000000000001.segment")).unwrap();
    let header = bytes.len() - 4 * segment::record_size(20) as usize;
    for length in 0..=bytes.len() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("00000000000000000001.segment"), &bytes[..length]).unwrap();
        let mut spool = open(directory.path(), 0);
        push(&mut spool, 9..10, 20);
        let complete = length.saturating_sub(header) / segment::record_size(20) as usize;
        let expected: Vec<u32> = (0..complete as u32).chain([9]).collect();
        assert_eq!(read(&mut spool), expected, "{length} bytes");
        let cut =
            if length < header { length } else { (length - header) % segment::record_size(20) as usize };
        assert_eq!(spool.damaged_bytes(), cut as u64, "{length} bytes");
    }
}

#[test]
fn messages_of_another_context_keep_theirs() {
    let directory = tempfile::tempdir().unwrap();
    let mut old = Spool::open(directory.path(), 0, (*b"old").into()).unwrap();
    old.push(1, b"a").unwrap();
    drop(old);
    let mut new = Spool::open(directory.path(), 0, (*b"new").into()).unwrap();
    new.push(1, b"b").unwrap();
    let contexts = std::iter::from_fn(|| new.read_next().unwrap()).map(|m| (m.context.to_vec(), m.bytes));
    let contexts: Vec<_> = contexts.collect();
    assert_eq!(contexts, [(b"old".to_vec(), b"a".to_vec()), (b"new".to_vec(), b"b".to_vec())]);
}

/// Whatever the files hold: opening and reading end, without a panic, and what comes out is a record with a
/// right CRC.
#[test]
fn any_bytes_in_the_files_are_read_without_a_panic() {
    let template = tempfile::tempdir().unwrap();
    let mut spool = open(template.path(), 0);
    push(&mut spool, 0..20, 50);
    (0..7).for_each(|_| drop(spool.read_next().unwrap()));
    (0..5).for_each(|_| spool.acknowledge().unwrap());
    drop(spool);
    let valid = fs::read(template.path().join("00000000000000000001.segment")).unwrap();
    let position = fs::read(template.path().join("position")).unwrap();
    let mut whole_runs = 0;
    for seed in 1..=600_u64 {
        let mut next = numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let directory = tempfile::tempdir().unwrap();
        let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for _ in 0..1 + next() % 3 {
            let number = [next() % 5, next(), u64::MAX, u64::MAX / 2 - 1][next() as usize % 4];
            files.insert(format!("{number:020}.segment"), damaged(&valid, &mut next));
        }
        files.insert("position".to_string(), damaged(&position, &mut next));
        for (name, bytes) in &files {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        let mut spool = open(directory.path(), 0);
        let read: Vec<Message> = std::iter::from_fn(|| spool.read_next().unwrap()).collect();
        assert!(
            read.iter().all(|m| m.bytes == message(m.rows, 50)),
            "seed {seed}: a damaged record came out"
        );
        whole_runs += usize::from(!read.is_empty());
        spool.rewind();
        let again = std::iter::from_fn(|| spool.read_next().unwrap()).count();
        assert_eq!(again, read.len(), "seed {seed}");
        read.iter().for_each(|_| spool.acknowledge().unwrap());
        assert_eq!(spool.waiting_rows(), 0, "seed {seed}");
        // The spool still works.
        spool.push(3, &message(3, 50)).unwrap();
        assert_eq!(spool.read_next().unwrap().map(|m| m.rows), Some(3), "seed {seed}");
    }
    assert!(whole_runs > 50, "damage leaves some records whole: {whole_runs}");
}

/// The bytes with damage of some kind, or none.
fn damaged(bytes: &[u8], next: &mut impl FnMut() -> u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = next() as usize % bytes.len();
    match next() % 6 {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << (next() % 8),
        2 => bytes[at..].iter_mut().for_each(|byte| *byte = next() as u8),
        3 => bytes = (0..next() % 300).map(|_| next() as u8).collect(),
        4 => drop(bytes.drain(at..(at + 1 + next() as usize % 9).min(bytes.len()))),
        _ => {}
    }
    bytes
}
