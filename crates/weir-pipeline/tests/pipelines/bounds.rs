//! What bounds cut off is counted, and nothing else is lost.

use std::collections::BTreeMap;
use weir_pipeline::{
    Either, Group, Join, Operator, Pipeline, Print, Reduce, Signal, Tumbling, WAITING_MAX, Window,
};

#[test]
fn keys_beyond_the_bound_share_a_state() {
    let mut reduce =
        Reduce::new(|key: &u32| *key, || 0_u64, |count: &mut u64, _: u32| *count += 1).keys_max(3);
    let mut out = vec![];
    (0..10).for_each(|key| reduce.take(key, &mut out));
    reduce.signal(Signal::End, &mut out);
    let states: Vec<_> = out.iter().map(|reduced| (reduced.key, reduced.state)).collect();
    assert_eq!(states, [(Some(0), 1), (Some(1), 1), (Some(2), 1), (None, 7)]);
    assert_eq!(reduce.in_other(), 7);
}

#[test]
fn joins_keep_a_bounded_number_of_items() {
    let mut join = Join::new(|left: &u8| *left, |right: &(u8, char)| right.0).items_max(2);
    let mut out = vec![];
    join.take(Either::Left(1), &mut out);
    join.take(Either::Right((2, 'a')), &mut out);
    join.take(Either::Right((1, 'b')), &mut out);
    join.take(Either::Left(3), &mut out);
    join.take(Either::Right((3, 'c')), &mut out);
    assert_eq!((&out[..], join.unkept()), (&[(1, (1, 'b'))][..], 3));
    join.signal(Signal::Flush, &mut out);
    join.take(Either::Right((1, 'd')), &mut out);
    assert_eq!(out.len(), 1, "after a flush, nothing is kept");
}

#[test]
fn windows_that_wait_for_too_many_items_close_early() {
    let windows = Tumbling::every(std::time::Duration::from_nanos(1)).expect("a length");
    let windows = windows.delayed(std::time::Duration::from_secs(1));
    let mut window = Window::new(windows, |time: &i64| *time);
    let mut out = vec![];
    let items = WAITING_MAX as i64 * 3;
    (0..items).for_each(|time| window.take(time, &mut out));
    assert!(out.len() as i64 > items - WAITING_MAX as i64 - 2);
    window.signal(Signal::End, &mut out);
    assert_eq!(out, (0..items).collect::<Vec<_>>());
    window.take(5, &mut out);
    window.take(9, &mut out);
    assert_eq!(window.late(), 0);
}

#[test]
fn groups_have_all_items_in_order() {
    let items: Vec<(u8, u32)> = (0..1_000).map(|number| ((number % 7) as u8, number)).collect();
    for items_max in [0, 1, 3, 64, 10_000] {
        let mut by_key: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        Pipeline::new().then(Group::new(items_max, |item: &(u8, u32)| item.0)).for_each(
            items.iter().copied(),
            |group| {
                assert!(!group.items.is_empty() && group.items.len() <= items_max.max(1));
                by_key.entry(group.key).or_default().extend(group.items.iter().map(|item| item.1));
            },
        );
        for (key, numbers) in by_key {
            let expected: Vec<u32> = (0..1_000).filter(|number| number % 7 == u32::from(key)).collect();
            assert_eq!(numbers, expected);
        }
    }
}

#[test]
fn an_output_that_fails_ends_the_lines_only() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut print = Print::to(Full);
    let mut out = vec![];
    print.take(1, &mut out);
    print.take(2, &mut out);
    assert_eq!(out, [1, 2]);
    assert_eq!(print.error().map(std::io::Error::kind), Some(std::io::ErrorKind::StorageFull));
    let mut text = vec![];
    let made = Pipeline::new().map(|n: u8| n * 2).filter(|n| *n > 2).print_to(&mut text).collect([1, 2, 3]);
    assert_eq!((made, text), (vec![4, 6], b"4\n6\n".to_vec()));
}
