//! The thread that loads programs into the kernel: the only one that needs rights once the sockets are open.
//!
//! Rights belong to threads. A process that gives up its rights starts a [`Loader`] before, and keeps the
//! rights of this thread alone: no thread that sees a packet, or that others can talk to, has them.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// The name of the thread, and of those that it starts.
pub const LOADER_THREAD: &str = "weir-sieve";

enum Job {
    /// In the thread itself, before further jobs.
    Here(Box<dyn FnOnce() + Send>),
    Meanwhile(Box<dyn FnOnce() + Send>),
}

/// Loads programs on a thread of its own. Until it is [started](Self::start), each job has a thread with the
/// rights of its caller.
#[derive(Debug, Clone, Default)]
pub struct Loader(Option<Arc<Mutex<Option<Sender<Job>>>>>);

impl Loader {
    /// Starts the thread, with the rights of the caller. The thread ends with [`end`](Self::end), or with the
    /// last copy of the loader.
    ///
    /// # Errors
    /// The system makes no thread.
    pub fn start() -> io::Result<Self> {
        let (sender, jobs) = channel::<Job>();
        let named = || std::thread::Builder::new().name(LOADER_THREAD.into());
        named().spawn(move || {
            for job in jobs {
                match job {
                    Job::Here(job) => job(),
                    // The kernel may take a second for a job, and jobs of several interfaces do not wait for
                    // each other. A thread has the rights of the one that starts it.
                    Job::Meanwhile(job) => drop(named().spawn(job)),
                }
            }
        })?;
        Ok(Self(Some(Arc::new(Mutex::new(Some(sender))))))
    }

    /// Accepts no further jobs: programs stay as they are. Those that were accepted are completed.
    pub fn end(&self) {
        if let Some(jobs) = &self.0 {
            jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Calls a function in the thread, and waits for its result: one that changes the rights of the thread,
    /// or needs them. `None`: the loader was not started, or has ended.
    pub fn call_in_thread<T: Send + 'static>(&self, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, result) = channel();
        self.jobs()?.send(Job::Here(Box::new(move || drop(sender.send(call()))))).ok()?;
        result.recv().ok()
    }

    /// Does a job meanwhile.
    ///
    /// # Errors
    /// The system makes no thread; the loader has ended.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        if self.0.is_none() {
            return std::thread::Builder::new().name(LOADER_THREAD.into()).spawn(job).map(drop);
        }
        let sent = self.jobs().and_then(|jobs| jobs.send(Job::Meanwhile(Box::new(job))).ok());
        sent.ok_or_else(|| io::Error::other("the rights to load filters were given up"))
    }

    /// Whether jobs have a thread of their own.
    pub(crate) fn is_started(&self) -> bool {
        self.0.is_some()
    }

    fn jobs(&self) -> Option<Sender<Job>> {
        self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_the_thread_until_the_loader_ends() {
        let name = || std::thread::current().name().map(str::to_string);
        let (none, loader) = (Loader::default(), Loader::start().expect("a thread"));
        assert_eq!(none.call_in_thread(name), None);
        assert_eq!(loader.call_in_thread(name), Some(Some(LOADER_THREAD.to_string())));
        let (sender, done) = channel();
        for one in [&none, &loader] {
            let sender = sender.clone();
            one.run(move || sender.send(()).expect("somebody waits")).expect("a thread");
            done.recv().expect("the job is done");
        }
        loader.clone().end();
        assert!(loader.call_in_thread(name).is_none() && loader.run(|| {}).is_err());
    }
}
