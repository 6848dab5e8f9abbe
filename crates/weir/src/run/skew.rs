//! Bounds how far workers that share tables are apart in time.
//!
//! A worker that is ahead may find a flow idle of which another worker still has packets. All packets in
//! flight therefore lie within half of the shortest time-out of the shared tables: rows differ from those of
//! one worker only where a flow was idle for more than half of its time-out.

use weir_compile::dispatch::is_shared;
use weir_ir::abi::TIMEOUT_MS;
use weir_lang::model::{LayerId, Stack};
use weir_packet::Burst;

/// The packets in flight.
pub(crate) struct Skew {
    max_ns: u64,
    /// The time of the first packet in flight, nanoseconds since 1970.
    first: Option<i64>,
    /// Packets that wait until no others are in flight.
    rest: Option<Burst>,
}

impl Skew {
    /// The bound for a stack; `None` if workers share no table.
    pub fn of(stack: &Stack) -> Option<Self> {
        let shared = (0..stack.layers.len() as u16).map(LayerId).filter(|&id| is_shared(stack, id));
        let shortest_ms = shared.map(|id| {
            let protocol = &stack.layers[usize::from(id.0)].protocol;
            let of_transitions = protocol.transitions.iter().filter_map(|transition| transition.timeout);
            let declared = protocol.timeouts.iter().map(|timeout| timeout.after).chain(of_transitions);
            // A time-out of 0 ends an instance at once.
            let millis = declared.map(|after| after.as_millis() as u64).filter(|&millis| millis > 0);
            millis.min().unwrap_or(u64::from(TIMEOUT_MS))
        });
        let max_ns = shortest_ms.min()?.saturating_mul(1_000_000) / 2;
        Some(Self { max_ns, first: None, rest: None })
    }

    /// Packets that waited.
    pub fn take_rest(&mut self) -> Option<Burst> {
        self.rest.take()
    }

    /// Keeps packets of a burst back that are too far from the first packet in flight. Returns whether there
    /// are such packets. The memory of the burst may be held.
    pub fn cut(&mut self, burst: &mut Burst) -> bool {
        let Some(begin) = burst.packets.first().map(|packet| packet.time.0) else { return false };
        let first = *self.first.get_or_insert(begin);
        let is_far = |time: i64| time.abs_diff(first) > self.max_ns;
        let Some(at) = burst.packets.iter().position(|packet| is_far(packet.time.0)) else { return false };
        let part = |range| {
            let mut part = Burst { block: burst.block.clone(), ..Burst::default() };
            part.extend_from(burst, range);
            part
        };
        let (near, far) = (part(0..at), part(at..burst.packets.len()));
        (*burst, self.rest, self.first) = (near, Some(far), None);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::{PacketMeta, Timestamp};

    fn burst(times: &[i64]) -> Burst {
        let packet = |&time| PacketMeta { time: Timestamp(time), ..PacketMeta::default() };
        Burst { packets: times.iter().map(packet).collect(), ..Burst::default() }
    }

    fn times(burst: &Burst) -> Vec<i64> {
        burst.packets.iter().map(|packet| packet.time.0).collect()
    }

    #[test]
    fn packets_in_flight_are_near_each_other() {
        let mut skew = Skew { max_ns: 10, first: None, rest: None };
        let mut first = burst(&[100, 105]);
        assert!(!skew.cut(&mut first));
        let mut second = burst(&[110, 111, 99]);
        assert!(skew.cut(&mut second));
        assert_eq!(times(&second), [110]);
        let mut rest = skew.take_rest().expect("two packets wait");
        assert_eq!(times(&rest), [111, 99]);
        assert!(skew.cut(&mut rest), "time goes back");
        assert_eq!((times(&rest), skew.take_rest().map(|rest| times(&rest))), (vec![111], Some(vec![99])));
    }
}
