//! Binds the threads of a run to processors, so that the memory of a worker stays near its processor.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors for the threads of a run: thread `n` runs on the `n`-th of them, from the first one again
/// if there are fewer. Empty: the system selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Processors(Vec<usize>);

impl Processors {
    /// Binds threads to these processors, by the system's numbers.
    ///
    /// # Errors
    /// If the process may not use one of them. The message lists those that it may use.
    pub fn new(numbers: Vec<usize>) -> Result<Self, String> {
        let Ok(allowed) = sched_getaffinity(None) else { return Ok(Self(numbers)) };
        let is_allowed = |number: usize| number < CpuSet::MAX_CPU && allowed.is_set(number);
        match numbers.iter().find(|number| !is_allowed(**number)) {
            None => Ok(Self(numbers)),
            Some(wrong) => {
                let all = (0..CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number));
                let all: Vec<String> = all.map(|number| number.to_string()).collect();
                Err(format!("there is no processor {wrong} for this process; there are: {}", all.join(", ")))
            }
        }
    }

    /// Binds this thread, as number `thread` of the run, until the result is dropped.
    pub(crate) fn bind(&self, thread: usize) -> Bound {
        if self.0.is_empty() {
            return Bound(None);
        }
        let before = sched_getaffinity(None).ok();
        let mut own = CpuSet::new();
        own.set(self.0[thread % self.0.len()]);
        // The processors were checked; if one has gone since, the thread runs on any other.
        let is_bound = sched_setaffinity(None, &own).is_ok();
        Bound(before.filter(|_| is_bound))
    }
}

/// A thread that is bound to a processor, with the processors that it may use otherwise.
pub(crate) struct Bound(Option<CpuSet>);

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processors() -> Vec<usize> {
        let allowed = sched_getaffinity(None).expect("the kernel says");
        (0..CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number)).collect()
    }

    #[test]
    fn a_thread_is_bound_as_long_as_it_works() {
        let all = processors();
        let last = *all.last().expect("this test runs somewhere");
        let bound = Processors::new(vec![all[0], last]).expect("both are there");
        {
            let _bound = bound.bind(3);
            assert_eq!(processors(), [last]);
        }
        assert_eq!(processors(), all);
        let wrong = Processors::new(vec![CpuSet::MAX_CPU]).expect_err("no machine has so many");
        assert!(wrong.contains("there are: "), "{wrong}");
    }
}
