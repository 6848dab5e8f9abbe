//! Tests of the whole table: a ladder, and a comparison with `HashMap`.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn add(table: &mut FlowTable, key: [u64; 5], packet: u64) -> Result<FlowId, Full> {
    let hash = table.hash(&key);
    table.insert(&key, hash, Birth { time: packet as i64 * 10, packet, swap: packet % 2 == 1 })
}

fn find(table: &FlowTable, key: [u64; 5]) -> Option<FlowId> {
    let hash = table.hash(&key);
    let found = table.find(&key, hash, None);
    // Any earlier prediction must work.
    for likely in
        (0..table.ids()).step_by(table.ids() as usize / 3 + 1).map(FlowId).chain(table.prefetch_entry(hash))
    {
        assert_eq!(table.find(&key, hash, Some(likely)), found);
    }
    found
}

#[test]
fn an_empty_table_finds_nothing() {
    let table = FlowTable::new(5, 0, 10, 1);
    assert_eq!(find(&table, [0; 5]), None);
    assert!(table.is_empty() && table.in_order().is_empty());
}

#[test]
fn a_flow_is_found_by_its_key_alone() {
    let mut table = FlowTable::new(5, 16, 10, 1);
    let id = add(&mut table, [1, 2, 3, 4, 5], 7).unwrap();
    assert_eq!(find(&table, [1, 2, 3, 4, 5]), Some(id));
    assert_eq!(find(&table, [1, 2, 3, 4, 6]), None);
    let (header, data) = table.entry(id);
    assert_eq!((header.first_packet, header.first_time, header.last_time, header.swap), (7, 70, 70, true));
    assert_eq!(data, [0; 16]);
}

#[test]
fn variables_of_a_new_flow_are_zero_though_its_id_was_used_before() {
    let mut table = FlowTable::new(5, 100, 10, 1);
    let id = add(&mut table, [1; 5], 1).unwrap();
    table.entry_mut(id).1.fill(0xff);
    table.entry_mut(id).0.armed_ms = 3;
    table.remove(id);
    assert!(!table.is_live(id));
    assert_eq!(find(&table, [1; 5]), None);
    let again = add(&mut table, [2; 5], 2).unwrap();
    assert_eq!(again, id);
    assert_eq!(table.entry(again).1, [0; 100]);
    assert_eq!(table.entry(again).0.armed_ms, 0);
}

#[test]
fn a_full_table_says_so_and_takes_flows_again_when_one_has_ended() {
    let mut table = FlowTable::new(5, 0, 2, 1);
    let first = add(&mut table, [1; 5], 1).unwrap();
    add(&mut table, [2; 5], 2).unwrap();
    assert_eq!(add(&mut table, [3; 5], 3), Err(Full));
    table.remove(first);
    assert!(add(&mut table, [3; 5], 4).is_ok());
    assert_eq!((table.len(), table.live_peak()), (2, 2));
}

#[test]
#[should_panic(expected = "has ended before")]
fn a_flow_does_not_end_twice() {
    let mut table = FlowTable::new(5, 0, 2, 1);
    let id = add(&mut table, [1; 5], 1).unwrap();
    table.remove(id);
    table.remove(id);
}

#[test]
fn flows_come_in_the_order_in_which_they_were_made() {
    let mut table = FlowTable::new(5, 0, 100, 1);
    let first = add(&mut table, [1; 5], 1).unwrap();
    let second = add(&mut table, [2; 5], 5).unwrap();
    table.remove(first);
    let third = add(&mut table, [3; 5], 5).unwrap();
    assert!(third < second, "the id was used again");
    assert_eq!(table.in_order(), [second, third]);
}

#[test]
fn two_hundred_thousand_flows_are_all_found_after_growth() {
    let mut table = FlowTable::new(5, 24, 1 << 20, 9);
    let key = |n: u64| [n, n * 7, 0, n >> 3, 17];
    let flows = if cfg!(miri) { 2_000 } else { 200_000 };
    for n in 0..flows {
        let id = add(&mut table, key(n), n + 1).unwrap();
        table.entry_mut(id).1[..8].copy_from_slice(&n.to_ne_bytes());
    }
    for n in 0..flows {
        let id = find(&table, key(n)).unwrap();
        assert_eq!(table.entry(id).1[..8], n.to_ne_bytes());
    }
    assert_eq!(find(&table, key(flows)), None);
}

#[test]
fn a_table_that_comes_and_goes_does_not_slow_down() {
    // Tombstones would fill the index: a thousand live flows, after a million that were added and removed.
    let mut table = FlowTable::new(5, 0, 2_000, 9);
    let flows = if cfg!(miri) { 5_000 } else { 1_000_000u64 };
    for n in 0..flows {
        add(&mut table, [n; 5], n).unwrap();
        if n >= 1_000 {
            table.remove(find(&table, [n - 1_000; 5]).unwrap());
        }
    }
    assert_eq!(table.len(), 1_000);
    assert!(table.buckets.bytes() <= 256 * 64, "the index did not grow");
}

#[test]
fn a_new_layout_keeps_every_flow() {
    // More than a chunk.
    let flows = if cfg!(miri) { 300 } else { 70_000 };
    let mut table = FlowTable::new(5, 4, 100_000, 9);
    for n in 0..flows {
        let id = add(&mut table, [n; 5], n).expect("there is room");
        table.entry_mut(id).1.copy_from_slice(&(n as u32).to_le_bytes());
    }
    table.remove(find(&table, [7; 5]).expect("it is there"));
    table.lay_out_anew(90, false, |_, from, to| to[50..54].copy_from_slice(from));
    for n in 0..flows {
        let found = find(&table, [n; 5]);
        assert_eq!(found.is_some(), n != 7);
        if let Some(id) = found {
            let (header, data) = table.entry(id);
            assert_eq!((header.first_packet, &data[50..54]), (n, &(n as u32).to_le_bytes()[..]));
            assert_eq!(
                data.iter().map(|&byte| u32::from(byte)).sum::<u32>(),
                data[50..54].iter().map(|&b| u32::from(b)).sum()
            );
        }
    }
    assert_eq!(table.len() as u64, flows - 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    /// Any sequence of insert, find and remove gives the same results as a `HashMap`.
    #[test]
    fn agrees_with_a_map(
        steps in prop::collection::vec((0u8..4, 0u64..300), 1..if cfg!(miri) { 300 } else { 3_000 }),
        seed: u64,
    ) {
        let mut table = FlowTable::new(5, 8, 250, seed);
        let mut map: HashMap<[u64; 5], FlowId> = HashMap::new();
        for (n, (step, k)) in steps.into_iter().enumerate() {
            let key = [k, 0, k % 3, 0, 0];
            prop_assert_eq!(find(&table, key), map.get(&key).copied());
            match (map.get(&key).copied(), step) {
                (None, 0..3) => match add(&mut table, key, n as u64) {
                    Ok(id) => { map.insert(key, id); }
                    Err(Full) => prop_assert_eq!(map.len(), 250),
                },
                (Some(id), 2..) => {
                    table.remove(id);
                    map.remove(&key);
                }
                _ => {}
            }
            prop_assert_eq!(table.len(), map.len());
        }
        let packets: Vec<u64> = table.in_order().iter().map(|&id| table.entry(id).0.first_packet).collect();
        prop_assert!(packets.is_sorted());
        prop_assert_eq!(packets.len(), map.len());
    }
}
