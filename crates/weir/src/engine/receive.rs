//! The part of a pipeline that takes what all workers pass on.

use super::callback::{Next, RunEnd, TakeItems};
use crate::handlers::isolation::Isolation;
use crate::items::item::Item;
use crate::pipeline::Gather;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use weir_pipeline::{Counts, Fused, Nowhere, Operator, Signal};

/// Operators that take items of the type `T`.
pub(crate) struct Receive<T, R> {
    gather: Gather,
    operator: R,
    isolation: Isolation,
    /// Of operators of workers that have ended.
    of_workers: Counts,
    /// Those with the counters of the receiver.
    published: Arc<Mutex<Counts>>,
    /// Parts came since the last end.
    is_open: bool,
    item: PhantomData<fn(T)>,
}

impl<T, R> Receive<T, R> {
    /// `published`: where the counters of all operators go.
    pub fn new(operator: R, isolation: Isolation, published: Arc<Mutex<Counts>>) -> Self {
        let (gather, of_workers) = (Gather::default(), Counts::new());
        Self { gather, operator, isolation, of_workers, published, is_open: false, item: PhantomData }
    }
}

impl<T: 'static, R: Operator<T>> TakeItems for Receive<T, R> {
    fn take(&mut self, _: usize, item: Item<'_>) -> Next {
        let Item::Pipeline(part) = item else { return Next::Go };
        self.is_open = true;
        add(&mut self.of_workers, &part.counts);
        let Self { gather, operator, isolation, .. } = self;
        isolation.call(|| gather.take::<T>(&part, &mut Fused::new(operator, &mut Nowhere)));
        if isolation.is_off() { Next::End } else { Next::Go }
    }

    fn finish(&mut self, _: Option<RunEnd<'_>>) {
        if std::mem::take(&mut self.is_open) {
            self.gather = Gather::default();
            self.isolation.call(|| self.operator.signal(Signal::End, &mut Nowhere));
            let mut counts = self.of_workers.clone();
            self.operator.counters(&mut |name, count| *counts.entry(name).or_default() += count);
            *self.published.lock().unwrap_or_else(PoisonError::into_inner) = counts;
        }
    }
}

fn add(to: &mut Counts, more: &Counts) {
    more.iter().for_each(|(name, count)| *to.entry(name).or_default() += count);
}
