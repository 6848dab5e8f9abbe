//! Aggregates as operators of a pipeline: an [`Aggregator`] for each worker, then one [`Merger`].

use crate::aggregator::{Aggregator, Partial};
use crate::finish::Window;
use crate::merge::Merger;
use crate::record::Record;
use weir_pipeline::{Operator, Port, Signal};

/// Passes on closed panes.
impl Operator<Record<'_>> for Aggregator {
    type Out = Partial;

    #[inline]
    fn take(&mut self, record: Record<'_>, _: &mut impl Port<Partial>) {
        self.record(&record);
    }

    fn signal(&mut self, signal: Signal, out: &mut impl Port<Partial>) {
        let partials = match signal {
            Signal::Time(time) => self.advance(time),
            Signal::Restart(time) => self.restart(time),
            Signal::End => self.finish(),
            // Windows are those of the plan.
            Signal::Window { .. } | Signal::Flush => vec![],
        };
        partials.into_iter().for_each(|partial| out.put(partial));
        out.signal(signal);
    }
}

/// Takes the closed panes of all workers, and passes on closed windows. The time is the earliest of all
/// workers.
impl Operator<Partial> for Merger {
    type Out = Window;

    fn take(&mut self, partial: Partial, _: &mut impl Port<Window>) {
        self.add(partial);
    }

    fn signal(&mut self, signal: Signal, out: &mut impl Port<Window>) {
        let mut put = |window| out.put(window);
        match signal {
            Signal::Time(time) => self.advance(time, &mut put),
            Signal::Restart(time) => self.restart(time, &mut put),
            Signal::End => self.finish(&mut put),
            // Windows are those of the plan.
            Signal::Window { .. } | Signal::Flush => {}
        }
        out.signal(signal);
    }
}
