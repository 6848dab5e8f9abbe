//! Moves new pairs of hosts away from workers that fall behind, during a capture. There is no thread for
//! this: the share that looks next does it.

use crate::placement::{Pair, Placement};
use crate::places::Places;
use crate::ring::Ring;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};
use weir_packet::SourceStats;

/// Time between two looks at the rings.
const LOOK: Duration = Duration::from_millis(100);
/// Flows may end this much later than their time-out: the engine's clock follows that of the packets.
const SLACK: Duration = Duration::from_secs(2);

/// The balance between the workers of a capture.
#[derive(Debug)]
pub(crate) struct Balance {
    placement: Placement,
    /// The rings of each worker; those of interfaces that were removed are gone.
    rings: Vec<Vec<Weak<Ring>>>,
    /// The time for which a pair without packets is known, at least; `None`: for the whole capture.
    period: Option<Duration>,
    state: Mutex<State>,
    places_moved: AtomicU64,
}

#[derive(Debug)]
struct State {
    places: Places,
    looked: Instant,
    /// When the period began.
    began: Instant,
    /// The removal of old pairs goes on, from this pair or from the start.
    forgets: Option<Option<Pair>>,
}

impl Balance {
    /// A balance of workers with these rings. No flow of a pair lives longer than `idle_max` without packets;
    /// `None`: some flows do.
    pub fn new(placement: Placement, rings: Vec<Vec<Weak<Ring>>>, idle_max: Option<Duration>) -> Self {
        let now = Instant::now();
        let places = Places::new(placement.workers());
        Self {
            placement,
            rings,
            period: idle_max.map(|idle| idle.saturating_add(SLACK)),
            state: Mutex::new(State { places, looked: now, began: now, forgets: None }),
            places_moved: AtomicU64::new(0),
        }
    }

    /// Looks at the rings, if it is time to, and no other share does.
    pub fn look(&self, now: Instant) {
        let Ok(mut state) = self.state.try_lock() else { return };
        if now.saturating_duration_since(state.looked) < LOOK {
            return;
        }
        state.looked = now;
        let fill = |rings: &Vec<Weak<Ring>>| {
            let fills = rings.iter().filter_map(|ring| Some(ring.upgrade()?.fill_percent()));
            fills.max().unwrap_or(0)
        };
        let fills: Vec<u32> = self.rings.iter().map(fill).collect();
        for (place, worker) in state.places.look(&fills) {
            self.placement.assign(place, worker);
            self.places_moved.fetch_add(1, Ordering::Relaxed);
        }
        let Some(period) = self.period else { return };
        if now.saturating_duration_since(state.began) > period {
            state.began = now;
            self.placement.pass_period();
            state.forgets = Some(None);
        }
        if let Some(from) = state.forgets {
            state.forgets = self.placement.forget(from).map(Some);
        }
    }

    /// The places and the pairs that were moved.
    pub fn stats(&self) -> SourceStats {
        SourceStats { places_moved: self.places_moved.load(Ordering::Relaxed), ..self.placement.stats() }
    }
}
