//! [`Pairing`]: requests and responses of one flow, put together to an [`Exchange`] each.
//!
//! A response belongs to the oldest request of the other side that it fits. A response without a request is an exchange of its
//! own, as is a request that no response came for. What a protocol tells its messages apart by, it says by two predicates: whether a
//! request is one that waits, sent again, and whether a response answers a request. Protocols whose responses come in the order of
//! their requests, or in several parts, keep what waits in [`Waiting`](crate::waiting::Waiting) themselves.

use crate::Direction;
use crate::waiting::Waiting;
use weir_packet::Timestamp;

/// A request with its response, or the one of them that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange<M> {
    /// When the first of its messages came.
    pub time: Timestamp,
    /// Who sent the request.
    pub client: Direction,
    /// The request.
    pub request: Option<M>,
    /// The response.
    pub response: Option<M>,
    /// Time from the request to the response, nanoseconds.
    pub rtt_ns: Option<u64>,
}

impl<M> Exchange<M> {
    /// A request of `client`, whose response is still to come.
    pub(crate) fn asked(client: Direction, time: Timestamp, request: M) -> Self {
        Self { time, client, request: Some(request), response: None, rtt_ns: None }
    }

    /// The messages that were seen, the request first.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &M> {
        self.request.iter().chain(&self.response)
    }
}

/// Requests of one flow that wait for their responses, `MAX` at most.
#[derive(Debug)]
pub(crate) struct Pairing<M, const MAX: usize>(Waiting<Box<Exchange<M>>, MAX>);

impl<M, const MAX: usize> Default for Pairing<M, MAX> {
    fn default() -> Self {
        Self(Waiting::default())
    }
}

impl<M, const MAX: usize> Pairing<M, MAX> {
    /// Takes a request that `from` sent. One for which `is_again(waiting, request)` holds is a retransmission and says nothing
    /// new. Returns the oldest exchange, without a response, where too many wait.
    pub(crate) fn ask(
        &mut self,
        from: Direction,
        time: Timestamp,
        request: M,
        is_again: impl Fn(&M, &M) -> bool,
    ) -> Option<Box<Exchange<M>>> {
        let is_waiting = |waiting: &Exchange<M>| {
            waiting.client == from
                && waiting.request.as_ref().is_some_and(|waiting| is_again(waiting, &request))
        };
        if self.0.find(|waiting| is_waiting(waiting)).is_some() {
            return None;
        }
        self.0.push(Box::new(Exchange::asked(from, time, request)))
    }

    /// Takes a response that `from` sent: the exchange of the oldest request for which `is_asked(request, response)` holds, or one of
    /// the response alone.
    pub(crate) fn answer(
        &mut self,
        from: Direction,
        time: Timestamp,
        response: M,
        is_asked: impl Fn(&M, &M) -> bool,
    ) -> Box<Exchange<M>> {
        let is_it = |waiting: &Exchange<M>| {
            waiting.client != from
                && waiting.request.as_ref().is_some_and(|request| is_asked(request, &response))
        };
        let mut exchange = match self.0.take(|waiting| is_it(waiting)) {
            Some(mut asked) => {
                asked.rtt_ns = Some(time.since_ns(asked.time));
                asked
            }
            None => {
                Box::new(Exchange { time, client: from.other(), request: None, response: None, rtt_ns: None })
            }
        };
        exchange.response = Some(response);
        exchange
    }

    /// Takes all that wait, the oldest first: no response will come.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Box<Exchange<M>>> {
        self.0.take_all()
    }

    /// Bytes held; `of_message`: those of a message besides itself.
    pub(crate) fn held_bytes(&self, of_message: impl Fn(&M) -> usize) -> usize {
        let held = |waiting: &Exchange<M>| {
            size_of::<Exchange<M>>() + waiting.messages().map(&of_message).sum::<usize>()
        };
        self.0.iter().map(|waiting| held(waiting)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Direction = Direction::Originator;
    const SERVER: Direction = Direction::Responder;

    fn same(one: &u8, other: &u8) -> bool {
        one == other
    }

    #[test]
    fn a_response_belongs_to_the_oldest_request_that_it_fits() {
        let mut pairing = Pairing::<u8, 4>::default();
        assert_eq!(pairing.ask(CLIENT, Timestamp(10), 1, same), None);
        assert_eq!(pairing.ask(CLIENT, Timestamp(20), 2, same), None);
        let answered = pairing.answer(SERVER, Timestamp(50), 2, same);
        assert_eq!((answered.time, answered.request, answered.response), (Timestamp(20), Some(2), Some(2)));
        assert_eq!(answered.rtt_ns, Some(30));
        // The client's own message answers nothing.
        let alone = pairing.answer(CLIENT, Timestamp(60), 1, same);
        assert_eq!((alone.client, alone.request, alone.rtt_ns), (SERVER, None, None));
        assert_eq!(pairing.take_all().map(|left| left.request).collect::<Vec<_>>(), [Some(1)]);
    }

    #[test]
    fn a_request_that_is_sent_again_waits_once() {
        let mut pairing = Pairing::<u8, 2>::default();
        for _ in 0..3 {
            assert_eq!(pairing.ask(CLIENT, Timestamp(1), 7, same), None);
        }
        assert_eq!(pairing.held_bytes(|_| 100), size_of::<Exchange<u8>>() + 100);
    }

    #[test]
    fn the_oldest_request_goes_where_too_many_wait() {
        let mut pairing = Pairing::<u8, 2>::default();
        let oldest = (1..=3).filter_map(|request| pairing.ask(CLIENT, Timestamp(0), request, same));
        assert_eq!(oldest.map(|oldest| oldest.request).collect::<Vec<_>>(), [Some(1)]);
    }
}
