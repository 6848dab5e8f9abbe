//! The stream of events, in the form of server-sent events
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
//!
//! Each client has a queue of its own. Events for which there is no room are lost, and the client is told how
//! many: publishing never waits.

use crate::body::{ChannelBody, Part};
use crate::bounds::{EVENTS_MAX, LISTENERS_MAX};
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::{Sender, channel};

/// Passes events to all clients that listen. Clones are the same stream.
#[derive(Debug, Clone, Default)]
pub struct Events(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    clients: Vec<Listening>,
    /// Events that clients did not get, in all.
    lost: u64,
}

#[derive(Debug)]
struct Listening {
    queue: Sender<Part>,
    /// Events that were lost since the last one that the client got.
    lost: u64,
}

impl Events {
    /// Passes on an event of this type; `data` is one line.
    pub fn publish(&self, kind: &str, data: &str) {
        let mut state = self.lock();
        state.clients.retain(|client| !client.queue.is_closed());
        if state.clients.is_empty() {
            return;
        }
        let text = Bytes::from(event(kind, data));
        let mut lost = 0;
        for client in &mut state.clients {
            if client.lost > 0 {
                let notice = event("lost", &format!("{{\"events\":{}}}", client.lost));
                if client.queue.try_send(Part::Bytes(notice.into())).is_ok() {
                    client.lost = 0;
                }
            }
            if client.lost > 0 || client.queue.try_send(Part::Bytes(text.clone())).is_err() {
                client.lost += 1;
                lost += 1;
            }
        }
        state.lost += lost;
    }

    /// Whether a client listens.
    pub fn has_listeners(&self) -> bool {
        self.lock().clients.iter().any(|client| !client.queue.is_closed())
    }

    /// Clients that listen, and events that clients lost so far.
    pub fn counts(&self) -> (usize, u64) {
        let state = self.lock();
        (state.clients.len(), state.lost)
    }

    /// A new client. `None`: there are as many as are allowed.
    pub(crate) fn listen(&self) -> Option<ChannelBody> {
        let mut state = self.lock();
        state.clients.retain(|client| !client.queue.is_closed());
        if state.clients.len() >= LISTENERS_MAX {
            return None;
        }
        let (queue, parts) = channel(EVENTS_MAX);
        // The client knows at once that it listens.
        let _ = queue.try_send(Part::Bytes(Bytes::from_static(b"retry: 2000\n\n")));
        state.clients.push(Listening { queue, lost: 0 });
        Some(ChannelBody::new(parts, None))
    }

    /// Ends the streams of all clients.
    pub(crate) fn end(&self) {
        let clients = std::mem::take(&mut self.lock().clients);
        clients.iter().for_each(|client| drop(client.queue.try_send(Part::End)));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn event(kind: &str, data: &str) -> String {
    // A line break would end the event.
    let data: String = data.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
    format!("event: {kind}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_reads_nothing_loses_events_and_is_told_how_many() {
        let events = Events::default();
        let (queue, mut parts) = channel(2);
        events.lock().clients.push(Listening { queue, lost: 0 });
        (0..5).for_each(|number| events.publish("x", &number.to_string()));
        let mut next = || match parts.try_recv() {
            Ok(Part::Bytes(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            _ => String::new(),
        };
        assert_eq!([next(), next()], ["event: x\ndata: 0\n\n", "event: x\ndata: 1\n\n"]);
        events.publish("x", "5");
        assert_eq!([next(), next()], ["event: lost\ndata: {\"events\":3}\n\n", "event: x\ndata: 5\n\n"]);
        assert_eq!(events.counts(), (1, 3));
    }

    #[test]
    fn clients_are_bounded_and_make_room_when_they_are_gone() {
        let events = Events::default();
        let clients: Vec<_> = (0..LISTENERS_MAX).map(|_| events.listen().expect("room")).collect();
        assert!(events.listen().is_none());
        drop(clients);
        assert!(!events.has_listeners() && events.listen().is_some());
    }

    #[test]
    fn data_is_one_line() {
        assert_eq!(event("a", "b\r\n\nc"), "event: a\ndata: bc\n\n");
    }
}
