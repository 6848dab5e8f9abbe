//! Who receives the messages of a run.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use weir::packet::printable;

/// The name of the program, which lines of a command begin with.
const PROGRAM: &str = "weir: ";

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something went wrong.
    Error,
    /// The answers may lack something, or a question is probably not meant as it is stated.
    Warning,
    /// How the run proceeds.
    Progress,
    /// Something that was asked for: counters, an address, the lines of a script.
    Answer,
}

/// A message of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    text: String,
    /// The same text with colours.
    colored: Option<String>,
    level: Level,
}

impl Message {
    /// A message in plain text, in which characters that control a terminal are replaced: it may name files,
    /// or repeat text of others.
    pub fn of(text: &str, level: Level) -> Self {
        Self { text: printable(text, &['\n', '\t']).into_owned(), colored: None, level }
    }

    /// A message that `render` makes with colours or without.
    pub fn rendered(render: impl Fn(bool) -> String, level: Level) -> Self {
        Self { text: render(false), colored: Some(render(true)), level }
    }

    /// The message as a line of a command: it may begin with the name of the program.
    pub fn line(&self, is_colored: bool) -> &str {
        self.colored.as_deref().filter(|_| is_colored).unwrap_or(&self.text)
    }

    /// One line, or a text that shows marked places; without colours and without the name of the program.
    pub fn text(&self) -> &str {
        self.text.strip_prefix(PROGRAM).unwrap_or(&self.text)
    }

    /// What the message is about.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Gives the message to the listener of this thread, or else to that of the process. Without either,
    /// nobody hears.
    pub fn tell(self) {
        if let Some(listener) = Listener::current().as_ref().or(USUAL.get()) {
            (listener.0)(self);
        }
    }
}

/// Receives messages, on any thread of a run.
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(Message) + Send + Sync>);

/// The listener of the process.
static USUAL: OnceLock<Listener> = OnceLock::new();

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

    /// Receives all messages of the process that no listener of a thread receives. The first call counts.
    pub fn of_process(self) {
        let _ = USUAL.set(self);
    }

    /// Does work. This listener receives the messages of the work on this thread. With `None`, the listener
    /// of the process receives them.
    pub fn within<T>(listener: Option<Self>, work: impl FnOnce() -> T) -> T {
        let _before = Before(LISTENER.replace(listener));
        work()
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
        let heard: Vec<_> =
            heard.iter().map(|message| (message.text().to_string(), message.level())).collect();
        let expected = [
            ("3 names were not kept", Level::Warning),
            ("eth0: AF_XDP", Level::Progress),
            ("eth0 is down", Level::Error),
        ];
        assert_eq!(heard, expected.map(|(text, level)| (text.to_string(), level)));
    }
}
