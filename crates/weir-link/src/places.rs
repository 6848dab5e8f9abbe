//! Selects the workers of places ([`fanout_program`](crate::fanout_program)), by how full the workers' rings
//! are.
//!
//! Only new pairs of hosts follow a place, so the load changes slowly. Places therefore leave a worker in
//! parts, as long as a ring of the worker is more than half full, with time between two parts. They return
//! one by one, once all rings have been nearly empty for a while. A worker that can do a part of its home's
//! load ends up with this part.

use crate::fanout_program::PLACES;

/// A worker falls behind if one of its rings is fuller than this …
const BEHIND_PERCENT: u32 = 50;
/// … and takes places of others if all of its rings are at most this full.
const CALM_PERCENT: u32 = 25;
/// Of a worker's places, this part moves at once …
const MOVED_PART: usize = 4;
/// … and the next part this many looks later.
const LOOKS_BETWEEN: u32 = 5;
/// Places return, one at each look, once all workers have been calm for this many looks in a row.
const CALM_LOOKS: u32 = 50;

/// The worker of each place.
#[derive(Debug)]
pub(crate) struct Places {
    workers: Vec<usize>,
    /// How many workers there are.
    count: usize,
    /// Looks in a row at which all workers were calm.
    calm_looks: u32,
    /// Looks until places may leave a worker again.
    looks_to_wait: u32,
}

impl Places {
    /// All places are at home.
    pub fn new(count: usize) -> Self {
        Self {
            workers: (0..PLACES).map(|place| place % count).collect(),
            count,
            calm_looks: 0,
            looks_to_wait: 0,
        }
    }

    /// Looks at how full the rings of the workers are, in percent. Returns the places that move, with their
    /// new workers.
    pub fn look(&mut self, fills: &[u32]) -> Vec<(usize, usize)> {
        let is_calm = fills.iter().all(|&fill| fill <= CALM_PERCENT);
        self.calm_looks = if is_calm { self.calm_looks.saturating_add(1) } else { 0 };
        self.looks_to_wait = self.looks_to_wait.saturating_sub(1);
        let moves = match self.calm_looks {
            0 if self.looks_to_wait == 0 => self.move_away(fills),
            CALM_LOOKS.. => self.move_home(),
            _ => vec![],
        };
        if self.calm_looks == 0 && !moves.is_empty() {
            self.looks_to_wait = LOOKS_BETWEEN;
        }
        for &(place, worker) in &moves {
            self.workers[place] = worker;
        }
        moves
    }

    /// Gives places of workers that fall behind to calm ones, the calmest first.
    fn move_away(&self, fills: &[u32]) -> Vec<(usize, usize)> {
        let mut calm: Vec<usize> = (0..self.count).filter(|&worker| fills[worker] <= CALM_PERCENT).collect();
        calm.sort_by_key(|&worker| fills[worker]);
        let behind = (0..self.count).filter(|&worker| fills[worker] > BEHIND_PERCENT);
        let moving = behind.flat_map(|worker| {
            let own: Vec<usize> = (0..PLACES).filter(|&place| self.workers[place] == worker).collect();
            let part = own.len().div_ceil(MOVED_PART);
            own.into_iter().take(part)
        });
        // Without a calm worker nothing moves.
        moving.zip(calm.iter().copied().cycle()).collect()
    }

    fn move_home(&self) -> Vec<(usize, usize)> {
        let away = (0..PLACES).find(|&place| self.workers[place] != place % self.count);
        away.map(|place| (place, place % self.count)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of places of each worker.
    fn shares(places: &Places) -> Vec<usize> {
        (0..places.count).map(|worker| places.workers.iter().filter(|&&of| of == worker).count()).collect()
    }

    #[test]
    fn places_leave_a_worker_that_falls_behind_and_return_once_all_are_calm() {
        let mut places = Places::new(4);
        assert_eq!(shares(&places), [256; 4]);
        assert_eq!(places.look(&[90, 0, 30, 10]).len(), 64, "a quarter");
        // The worker in between gets none, and keeps its own.
        assert_eq!(shares(&places), [192, 288, 256, 288]);
        assert!((1..LOOKS_BETWEEN).all(|_| places.look(&[90, 0, 30, 10]).is_empty()));
        assert_eq!(places.look(&[90, 0, 30, 10]).len(), 48, "a quarter of the rest");
        (0..400).for_each(|_| drop(places.look(&[90, 0, 30, 10])));
        assert_eq!((shares(&places)[0], shares(&places)[2]), (0, 256));
        // Between the two bounds nothing moves, in either direction.
        assert!((0..1000).all(|_| places.look(&[40, 0, 30, 10]).is_empty()));
        assert!((1..CALM_LOOKS).all(|_| places.look(&[20, 0, 25, 10]).is_empty()));
        // The time of calm begins anew.
        assert!(places.look(&[20, 0, 26, 10]).is_empty());
        assert!((1..CALM_LOOKS).all(|_| places.look(&[20, 0, 25, 10]).is_empty()));
        assert_eq!(places.look(&[20, 0, 25, 10]).len(), 1);
        (0..256).for_each(|_| drop(places.look(&[0; 4])));
        assert_eq!(shares(&places), [256; 4]);
        assert!(places.look(&[0; 4]).is_empty());
    }

    #[test]
    fn places_stay_if_all_workers_fall_behind() {
        let mut places = Places::new(3);
        assert!((0..100).all(|_| places.look(&[90, 51, 30]).is_empty()));
    }

    /// New pairs come at a steady rate and stay for a while. One worker can do a part of its half of them;
    /// the other one can do more than its half. The slow worker gets as many as it can do, and its ring is
    /// rarely full.
    #[test]
    fn places_settle_beside_a_slow_worker() {
        let (mut places, speeds) = (Places::new(2), [6.0, 30.0]);
        // Pairs of each worker, and packets in its ring.
        let (mut pairs, mut waiting) = ([0.0f64; 2], [0.0f64; 2]);
        let mut seen = vec![];
        for _ in 0..6000 {
            let shares = shares(&places);
            let mut fills = [0; 2];
            for worker in 0..2 {
                // A pair sends a packet a look, and lives for 20 looks.
                pairs[worker] += shares[worker] as f64 / PLACES as f64 - pairs[worker] / 20.0;
                waiting[worker] = (waiting[worker] + pairs[worker] - speeds[worker]).clamp(0.0, 100.0);
                fills[worker] = waiting[worker] as u32;
            }
            places.look(&fills);
            seen.push((shares[0], fills[0]));
        }
        let lately = &seen[3000..];
        let average = lately.iter().map(|(share, _)| share).sum::<usize>() / lately.len();
        let least = lately.iter().map(|(share, _)| share).min();
        // It can do 6 of 20 packets.
        let can = PLACES * 6 / 20;
        assert!((can * 6 / 10..=can).contains(&average), "{average} of {can}");
        assert!(least > Some(&(can / 4)), "{least:?}: it is never without places");
        let full = lately.iter().filter(|(_, fill)| *fill > 90).count();
        assert!(full * 50 < lately.len(), "{full} of {}", lately.len());
    }
}
