//! Pairing of requests and responses, for all parsers: [`Waiting`] in order, [`Pairing`] by key.
//!
//! Contract:
//! * **Order.** The oldest request comes first. Answers, evictions and the end of a connection take requests
//!   in this order.
//! * **Key.** The parser compares messages: predicates say whether two messages are a pair, and whether a
//!   request is a retransmission. A parser without keys takes the oldest request.
//! * **Bounds.** A queue holds at most `MAX` requests of at most `BYTES_MAX` bytes. A parser that also bounds
//!   the waiting time calls [`Waiting::take_oldest_if`] when a message arrives.
//! * **Overflow.** [`Waiting::push`] hands the oldest requests to the parser, which yields them without their
//!   response.
//! * **Counter.** [`Waiting::evicted`] counts these requests. Before the first answer none is counted: then
//!   the capture has one direction only, and no response is lost. Parsers report the number in their
//!   [`CutOff`].
//!
//! HTTP/1 orders its queue itself (`http/open_exchanges.rs`): both messages of an exchange may be incomplete
//! at once.

use crate::{CutOff, Direction};
use std::collections::VecDeque;
use weir_packet::Timestamp;

/// A value whose memory is accounted for.
pub(crate) trait Held {
    /// Bytes held, including the value itself if it is not part of the parser.
    fn held_bytes(&self) -> usize;
}

impl<T: Held> Held for Box<T> {
    fn held_bytes(&self) -> usize {
        (**self).held_bytes()
    }
}

/// Requests that wait for their responses, oldest first; at most `MAX` of at most `BYTES_MAX` bytes together.
#[derive(Debug)]
pub(crate) struct Waiting<T, const MAX: usize, const BYTES_MAX: usize = { usize::MAX }> {
    requests: VecDeque<T>,
    has_answers: bool,
    evicted: u64,
}

impl<T, const MAX: usize, const BYTES_MAX: usize> Default for Waiting<T, MAX, BYTES_MAX> {
    fn default() -> Self {
        Self { requests: VecDeque::new(), has_answers: false, evicted: 0 }
    }
}

impl<T: Held, const MAX: usize, const BYTES_MAX: usize> Waiting<T, MAX, BYTES_MAX> {
    /// Appends a request. Hands requests to `evict`, oldest first, until the bounds hold; a request that is
    /// larger than all bytes is handed back itself.
    pub(crate) fn push(&mut self, request: T, mut evict: impl FnMut(T)) {
        self.requests.push_back(request);
        while self.requests.len() > MAX || (BYTES_MAX < usize::MAX && self.held_bytes() > BYTES_MAX) {
            let Some(oldest) = self.requests.pop_front() else { return };
            self.evicted += u64::from(self.has_answers);
            evict(oldest);
        }
    }

    /// Bytes held by the requests.
    pub(crate) fn held_bytes(&self) -> usize {
        self.requests.iter().map(Held::held_bytes).sum()
    }
}

impl<T, const MAX: usize, const BYTES_MAX: usize> Waiting<T, MAX, BYTES_MAX> {
    /// Removes and returns the oldest request that satisfies `is_answered`.
    pub(crate) fn take(&mut self, is_answered: impl FnMut(&T) -> bool) -> Option<T> {
        let at = self.requests.iter().position(is_answered)?;
        self.has_answers = true;
        self.requests.remove(at)
    }

    /// Removes and returns the oldest request, which is answered.
    pub(crate) fn take_oldest(&mut self) -> Option<T> {
        self.take(|_| true)
    }

    /// Removes and returns the oldest request if it satisfies `is_given_up`: no response is expected.
    pub(crate) fn take_oldest_if(&mut self, is_given_up: impl FnOnce(&mut T) -> bool) -> Option<T> {
        self.requests.pop_front_if(is_given_up)
    }

    /// Removes all requests, oldest first: no response is expected.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T, MAX, BYTES_MAX> {
        std::mem::take(&mut self.requests).into_iter()
    }

    /// The oldest request that satisfies `is_wanted`.
    pub(crate) fn find(&mut self, mut is_wanted: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.requests.iter_mut().find(|request| is_wanted(request))
    }

    /// Finds the oldest request that satisfies `first`, and removes the later ones that do not satisfy
    /// `is_kept`.
    pub(crate) fn retain_behind(
        &mut self,
        first: impl FnMut(&T) -> bool,
        mut is_kept: impl FnMut(&T) -> bool,
    ) {
        let Some(at) = self.requests.iter().position(first) else { return };
        let mut place = 0;
        self.requests.retain(|request| {
            place += 1;
            place <= at + 1 || is_kept(request)
        });
    }

    /// The oldest request.
    pub(crate) fn oldest(&self) -> Option<&T> {
        self.requests.front()
    }

    /// The oldest request, to be changed.
    pub(crate) fn oldest_mut(&mut self) -> Option<&mut T> {
        self.requests.front_mut()
    }

    /// The newest request.
    pub(crate) fn newest(&self) -> Option<&T> {
        self.requests.back()
    }

    /// All requests, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.requests.iter()
    }

    /// Whether no request waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Frees the memory of an empty queue, for flows that seldom have a further request.
    pub(crate) fn shrink_if_empty(&mut self) {
        if self.requests.is_empty() {
            self.requests = VecDeque::new();
        }
    }

    /// Requests that the bounds removed after the first answer.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }
}

/// A request with its response, or one of them if the other was not captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange<M> {
    /// Time of the first of its messages.
    pub time: Timestamp,
    /// The direction of the request.
    pub client: Direction,
    /// The request.
    pub request: Option<M>,
    /// The response.
    pub response: Option<M>,
    /// Time from the request to the response, nanoseconds.
    pub rtt_ns: Option<u64>,
}

impl<M> Exchange<M> {
    /// A request of `client` that waits for its response.
    pub(crate) fn asked(client: Direction, time: Timestamp, request: M) -> Self {
        Self { time, client, request: Some(request), response: None, rtt_ns: None }
    }

    /// The captured messages, the request first.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &M> {
        self.request.iter().chain(&self.response)
    }
}

impl<M: Held> Held for Exchange<M> {
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.messages().map(Held::held_bytes).sum::<usize>()
    }
}

/// Requests of one flow that wait for responses with the same key; at most `MAX`. An [`Exchange`] is either a
/// pair, a response without a request, or a request without a response.
#[derive(Debug)]
pub(crate) struct Pairing<M, const MAX: usize>(Waiting<Box<Exchange<M>>, MAX>);

impl<M, const MAX: usize> Default for Pairing<M, MAX> {
    fn default() -> Self {
        Self(Waiting::default())
    }
}

impl<M: Held, const MAX: usize> Pairing<M, MAX> {
    /// Takes a request of `from`. A request for which `is_again(waiting, request)` holds is a retransmission
    /// and is ignored. Returns the oldest exchange, without a response, if too many wait.
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
        if self.0.iter().any(|waiting| is_waiting(waiting)) {
            return None;
        }
        let mut evicted = None;
        self.0.push(Box::new(Exchange::asked(from, time, request)), |oldest| evicted = Some(oldest));
        evicted
    }

    /// Takes a response of `from`: returns the exchange of the oldest request for which
    /// `is_asked(request, response)` holds, or an exchange with the response alone.
    pub(crate) fn answer(
        &mut self,
        from: Direction,
        time: Timestamp,
        response: M,
        is_asked: impl Fn(&M, &M) -> bool,
    ) -> Box<Exchange<M>> {
        let is_pair = |waiting: &Exchange<M>| {
            waiting.client != from
                && waiting.request.as_ref().is_some_and(|request| is_asked(request, &response))
        };
        let mut exchange = match self.0.take(|waiting| is_pair(waiting)) {
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

    /// Removes all requests, oldest first: no response is expected.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Box<Exchange<M>>> + use<M, MAX> {
        self.0.take_all()
    }

    /// What the bound has cut off.
    pub(crate) fn cut_off(&self) -> CutOff {
        CutOff { sessions: self.0.evicted(), ..CutOff::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Held for u8 {
        fn held_bytes(&self) -> usize {
            100
        }
    }

    fn push<const MAX: usize, const BYTES_MAX: usize>(
        waiting: &mut Waiting<u8, MAX, BYTES_MAX>,
        item: u8,
    ) -> Vec<u8> {
        let mut evicted = Vec::new();
        waiting.push(item, |oldest| evicted.push(oldest));
        evicted
    }

    #[test]
    fn the_oldest_goes_first() {
        let mut waiting = Waiting::<u8, 2>::default();
        assert_eq!([1, 2, 3].map(|item| push(&mut waiting, item)), [vec![], vec![], vec![1]]);
        assert_eq!(waiting.evicted(), 0, "no answer was seen, and none is lost");
        assert_eq!(waiting.take(|item| *item > 1), Some(2));
        assert_eq!([4, 5].map(|item| push(&mut waiting, item)), [vec![], vec![3]]);
        assert_eq!(waiting.evicted(), 1);
        assert_eq!(waiting.take_oldest_if(|item| *item > 4), None);
        assert_eq!(waiting.take_oldest_if(|item| *item == 4), Some(4));
        assert_eq!(waiting.find(|item| *item == 5), Some(&mut 5));
        assert_eq!(waiting.iter().count(), 1);
        assert_eq!(waiting.take_all().collect::<Vec<_>>(), [5]);
        waiting.shrink_if_empty();
        assert!(waiting.is_empty());
    }

    #[test]
    fn what_came_before_is_kept() {
        let mut waiting = Waiting::<u8, 9>::default();
        for item in [2, 1, 7, 1, 2, 2, 3] {
            assert!(push(&mut waiting, item).is_empty());
        }
        waiting.retain_behind(|item| *item == 7, |item| *item != 2);
        assert_eq!(waiting.iter().copied().collect::<Vec<_>>(), [2, 1, 7, 1, 3]);
        waiting.retain_behind(|item| *item == 9, |_| false);
        assert_eq!(waiting.iter().count(), 5);
    }

    #[test]
    fn no_more_bytes_wait_than_are_allowed() {
        let mut waiting = Waiting::<u8, 9, 250>::default();
        assert_eq!([1, 2, 3].map(|item| push(&mut waiting, item)), [vec![], vec![], vec![1]]);
        assert_eq!(waiting.held_bytes(), 200);
        assert_eq!(push(&mut Waiting::<u8, 9, 99>::default(), 1), [1]);
    }

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
        assert_eq!(pairing.take_all().count(), 1);
    }

    #[test]
    fn the_oldest_request_goes_where_too_many_wait() {
        let mut pairing = Pairing::<u8, 2>::default();
        let oldest = (1..=3).filter_map(|request| pairing.ask(CLIENT, Timestamp(0), request, same));
        assert_eq!(oldest.map(|oldest| oldest.request).collect::<Vec<_>>(), [Some(1)]);
    }
}
