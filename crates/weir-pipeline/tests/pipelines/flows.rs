//! Flow tables against a model.

use crate::Record;
use proptest::prelude::*;
use std::time::Duration;
use weir_pipeline::{FlowEnd, FlowHandler, FlowTable, Keep, Operator, Port, Signal};

/// Counts the items of each flow; the number 0 ends a flow.
struct Count;

type Ended = (u8, u64, FlowEnd);

impl FlowHandler<Record> for Count {
    type Key = u8;
    type State = u64;
    type Out = Ended;

    fn key(&mut self, item: &Record) -> Option<u8> {
        (item.1 < 9).then_some(item.1)
    }

    fn time(&mut self, item: &Record) -> i64 {
        item.0
    }

    fn begin(&mut self, _: &u8, _: &Record) -> u64 {
        0
    }

    fn item(&mut self, _: &u8, count: &mut u64, item: Record, _: &mut impl Port<Ended>) -> Keep {
        *count += 1;
        if item.2 == 0 { Keep::Ended } else { Keep::Going }
    }

    fn end(&mut self, key: u8, count: u64, why: FlowEnd, out: &mut impl Port<Ended>) {
        out.put((key, count, why));
    }
}

/// Flows as a list, the one with the oldest last item first.
#[derive(Default)]
struct Model {
    flows: Vec<(u8, u64, i64)>,
    now: Option<i64>,
    ended: Vec<Ended>,
}

impl Model {
    fn end(&mut self, at: usize, why: FlowEnd) {
        let (key, count, _) = self.flows.remove(at);
        self.ended.push((key, count, why));
    }

    fn pass(&mut self, time: i64, idle: i64) -> i64 {
        let now = self.now.map_or(time, |now| now.max(time));
        self.now = Some(now);
        while self.flows.first().is_some_and(|flow| flow.2 < now - idle) {
            self.end(0, FlowEnd::Idle);
        }
        now
    }

    fn take(&mut self, (time, key, number): Record, idle: i64, flows_max: usize) {
        if key >= 9 {
            return;
        }
        let now = self.pass(time, idle);
        let count = match self.flows.iter().position(|flow| flow.0 == key) {
            Some(at) => self.flows.remove(at).1,
            None => {
                if self.flows.len() >= flows_max {
                    self.end(0, FlowEnd::Room);
                }
                0
            }
        };
        self.flows.push((key, count + 1, now));
        if number == 0 {
            self.end(self.flows.len() - 1, FlowEnd::Handler);
        }
    }
}

proptest! {
    #[test]
    fn flows_end_as_a_list_of_them_says(
        records in prop::collection::vec((0_i64..300, 0_u8..12, 0_u64..6), 0..150),
        idle in 0_i64..100,
        flows_max in 1_usize..8,
        is_sorted: bool,
    ) {
        let mut records = records;
        if is_sorted {
            records.sort_by_key(|record| record.0);
        }
        let mut table = FlowTable::new(Duration::from_nanos(idle as u64), Count).flows_max(flows_max);
        let (mut model, mut ended) = (Model::default(), vec![]);
        for record in records {
            table.take(record, &mut ended);
            model.take(record, idle, flows_max);
            prop_assert_eq!(table.len(), model.flows.len());
        }
        table.signal(Signal::Time(350), &mut ended);
        model.pass(350, idle);
        table.signal(Signal::End, &mut ended);
        while !model.flows.is_empty() {
            model.end(0, FlowEnd::End);
        }
        let for_room = ended.iter().filter(|(.., why)| *why == FlowEnd::Room).count() as u64;
        prop_assert_eq!(table.ended_for_room(), for_room);
        prop_assert_eq!(ended, model.ended);
    }
}

#[test]
fn a_clock_that_is_set_ends_no_flow() {
    let mut table = FlowTable::new(Duration::from_nanos(10), Count);
    let mut ended = vec![];
    table.take((1_000, 1, 1), &mut ended);
    table.signal(Signal::Restart(5), &mut ended);
    table.take((14, 2, 1), &mut ended);
    assert_eq!((ended.len(), table.len()), (0, 2));
    table.signal(Signal::Time(16), &mut ended);
    assert_eq!(ended, [(1, 1, FlowEnd::Idle)]);
}
