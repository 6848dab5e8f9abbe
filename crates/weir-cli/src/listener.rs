//! Messages of a run for another program, in place of standard error.

use std::cell::RefCell;
use std::sync::Arc;

/// A message of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// One line, or a text that shows marked places.
    pub text: String,
    /// The answers may lack something, or a question is probably not meant as it is stated. Otherwise, the
    /// message says how the run proceeds.
    pub is_warning: bool,
}

/// Receives messages, on any thread of a run.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(Message) + Send + Sync>);

thread_local! {
    static LISTENER: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

impl Listener {
    /// Passes messages to this function.
    pub fn new(hear: impl Fn(Message) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    /// The listener of this thread, for a thread that works for the same run.
    pub fn current() -> Option<Self> {
        LISTENER.with_borrow(Clone::clone)
    }

    /// Does work whose messages on this thread are for this listener; `None`: for standard error.
    pub fn within<T>(listener: Option<Self>, work: impl FnOnce() -> T) -> T {
        let _before = Before(LISTENER.replace(listener));
        work()
    }

    /// Passes on a message.
    pub fn hear(&self, text: &str, is_warning: bool) {
        let text = text.strip_prefix("weir: ").unwrap_or(text).to_string();
        (self.0)(Message { text, is_warning });
    }
}

/// The listener before, which returns even if the work panics.
struct Before(Option<Listener>);

impl Drop for Before {
    fn drop(&mut self) {
        LISTENER.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn messages_reach_the_listener_of_their_thread_and_no_other() {
        let (sent, heard) = mpsc::channel();
        let listener = Listener::new(move |message| sent.send(message).unwrap_or_default());
        let of_thread = Listener::within(Some(listener), || {
            note!("weir: {} names were not kept", 3);
            inform!("weir: eth0: AF_XDP");
            Listener::current()
        });
        assert!(Listener::current().is_none(), "the listener is gone after the work");
        let other = std::thread::spawn(|| Listener::within(of_thread, || say!("weir: eth0 is down")));
        other.join().unwrap();
        let heard: Vec<_> = heard.iter().map(|message| (message.text, message.is_warning)).collect();
        let expected = [("3 names were not kept", true), ("eth0: AF_XDP", false), ("eth0 is down", true)];
        assert_eq!(heard, expected.map(|(text, is_warning)| (text.to_string(), is_warning)));
    }
}
