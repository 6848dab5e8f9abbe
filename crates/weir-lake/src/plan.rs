//! Divides captures among tasks, so that each pair of hosts is seen whole by one task at a time.
//!
//! The sequence of all packets is cut into [units](crate::cuts), and each task has consecutive units. A pair
//! is *open* behind a unit if the engine may have state of the pair there. From the unit where a pair appears
//! to the next cut where the pair is closed, all its packets belong to the task that has the first of these
//! units: that task follows the pair into units of other tasks, which leave the pair out. No state is passed
//! on, and the rows do not depend on the number of tasks.
//!
//! Whether a pair is open is known from the index of the capture, as long as only packets of one capture
//! matter. Of pairs that were open at the end of a capture, or have packets in several captures, only times
//! are known: such a pair is open until no flow can be left.

use crate::cuts::{Unit, consecutive, units};
use crate::index::{Chunk, Index, Pair};
use crate::runs::{From, Run, Runs, aliases};
use crate::task::{Part, Select, Step, Task};
use foldhash::{HashMap, HashMapExt as _};
use std::time::Duration;
use weir::ClockState;

/// A capture of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Capture<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its index.
    pub index: &'a Index,
}

/// How the work is divided.
#[derive(Debug, Clone, Copy)]
pub struct Division {
    /// Tasks at most. Fewer if there are fewer units.
    pub tasks: usize,
    /// The longest idle time-out of any flow; `None`: some flows have none.
    pub longest: Option<Duration>,
    /// For a part of an endless sequence.
    pub window: Option<Window>,
}

/// The part of an endless sequence of captures that is read now: one capture after the other, in the given
/// order. A pair that is open at the end of the part is read with the part in which it is closed, from its
/// first packet on. A connection that leaves its tunnel, or enters another one, is divided.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Captures, in the given order, that were read before. They are read again for pairs that were open at
    /// their end.
    pub history: usize,
    /// At the multiples of this time, pairs are closed, whether they are or not: what is read again is
    /// younger.
    pub cut: Duration,
}

/// The tasks that read `captures`, at least one.
pub fn plan(captures: &[Capture<'_>], division: &Division) -> Vec<Task> {
    Planner::new(captures, division).tasks()
}

struct Planner<'a> {
    captures: &'a [Capture<'a>],
    division: &'a Division,
    units: Vec<Unit>,
    /// The earliest time of each unit.
    earliest: Vec<i64>,
    /// The earliest time behind each unit; behind the last one, the end of time. In a window, what comes is
    /// not known: the earliest time of the next unit, and behind the last one the beginning of time.
    next: Vec<i64>,
    aliases: HashMap<Pair, Pair>,
    /// Packets and interfaces of the run before each capture.
    interfaces_before: Vec<u64>,
    packets_before: Vec<u64>,
}

impl<'a> Planner<'a> {
    fn new(captures: &'a [Capture<'a>], division: &'a Division) -> Self {
        let indices: Vec<&Index> = captures.iter().map(|capture| capture.index).collect();
        let units = match division.window {
            Some(_) => consecutive(&indices),
            None => units(&indices),
        };
        let earliest = units.iter().map(|unit| {
            let chunks = unit.iter().flat_map(|(place, chunks)| &indices[*place].chunks[chunks.clone()]);
            chunks.map(|chunk| chunk.times.0).min().unwrap_or(i64::MAX)
        });
        let earliest: Vec<i64> = earliest.collect();
        // The reader opens captures without packets first, then in the order of their first packets.
        let mut order: Vec<usize> = (0..captures.len()).collect();
        order.sort_by_key(|&place| captures[place].index.first_time().unwrap_or(i64::MIN));
        let mut interfaces_before = vec![0; captures.len()];
        let mut interfaces = 0;
        for place in order {
            interfaces_before[place] = interfaces;
            interfaces += u64::from(captures[place].index.interfaces);
        }
        let mut packets_before = vec![];
        let mut packets = 0;
        for unit in &units {
            packets_before.push(packets);
            let chunks =
                unit.iter().flat_map(|(place, chunks)| &captures[*place].index.chunks[chunks.clone()]);
            packets += chunks.map(|chunk| chunk.packets).sum::<u64>();
        }
        let mut next: Vec<i64> = match division.window {
            Some(_) => earliest.iter().skip(1).copied().chain([i64::MIN]).collect(),
            None => {
                let behind = earliest
                    .iter()
                    .rev()
                    .scan(i64::MAX, |least, &time| Some(std::mem::replace(least, time.min(*least))));
                let mut next: Vec<i64> = behind.collect();
                next.reverse();
                next
            }
        };
        next.truncate(units.len());
        // What is found in later captures must not change what was read before.
        let joined = indices.iter().filter(|_| division.window.is_none()).flat_map(|index| &index.joined);
        let aliases = aliases(joined);
        Self { captures, division, units, earliest, next, aliases, interfaces_before, packets_before }
    }

    fn canonical(&self, pair: Pair) -> Pair {
        self.aliases.get(&pair).copied().unwrap_or(pair)
    }

    fn chunks_of<'b>(&'b self, unit: &'b Unit) -> impl Iterator<Item = (usize, &'a Chunk)> {
        let captures = self.captures;
        unit.iter().flat_map(move |(place, chunks)| {
            captures[*place].index.chunks[chunks.clone()].iter().map(move |chunk| (*place, chunk))
        })
    }

    /// The unit of the first packet of the window.
    fn first_unit(&self) -> usize {
        let history = self.division.window.map_or(0, |window| window.history);
        let is_new = |unit: &Unit| unit.iter().any(|(place, _)| *place >= history);
        self.units.iter().position(is_new).unwrap_or(self.units.len())
    }

    /// Processes the packets of a unit: `runs` are the pairs that are open, as far as is known without what
    /// comes next.
    fn pass_packets(&self, number: usize, runs: &mut Runs) {
        let unit = &self.units[number];
        for (place, chunk) in self.chunks_of(unit) {
            let until = self.longest().map_or(i64::MAX, |longest| chunk.times.1.saturating_add(longest));
            for &pair in &chunk.pairs {
                let pair = self.canonical(pair);
                let run = runs.all.entry(pair).or_insert(Run { first: number, from: From::Capture(place) });
                match run.from {
                    From::Capture(known) if known == place => {}
                    From::Capture(known) => {
                        run.from = From::Until(until);
                        runs.of_captures[known].remove(&pair);
                        runs.timed.insert(pair);
                    }
                    From::Until(before) => run.from = From::Until(before.max(until)),
                }
            }
        }
        for &(place, ref chunks) in unit {
            self.close_by_index(place, chunks, runs);
        }
        let now = unit.iter().map(|(place, chunks)| self.clock_behind(*place, chunks.end).now).max();
        runs.close_before(now.unwrap_or(i64::MIN).saturating_sub(CLOCK_SLACK_NS));
    }

    /// Closes the pairs that are known to be closed behind a unit by what comes next.
    fn pass_border(&self, number: usize, runs: &mut Runs) {
        match self.is_forced_cut(number) {
            true => runs.clear(),
            false => runs.close_before(self.next[number]),
        }
    }

    /// Closes the pairs of a capture that are not open behind its chunks.
    fn close_by_index(&self, place: usize, chunks: &std::ops::Range<usize>, runs: &mut Runs) {
        let index = self.captures[place].index;
        let last = &index.chunks[chunks.end - 1];
        let is_end = chunks.end == index.chunks.len();
        let mut open: HashMap<Pair, i64> = HashMap::with_capacity(last.open.len());
        for (number, &pair) in last.open.iter().enumerate() {
            let deadline = if is_end { index.deadlines[number] } else { 0 };
            let latest = open.entry(self.canonical(pair)).or_insert(deadline);
            *latest = deadline.max(*latest);
        }
        let of_unit = index.chunks[chunks.clone()].iter().flat_map(|chunk| &chunk.pairs);
        let own = &mut runs.of_captures[place];
        let mut candidates = std::mem::take(own);
        candidates.extend(of_unit.map(|&pair| self.canonical(pair)));
        for pair in candidates {
            let Some(run) = runs.all.get_mut(&pair).filter(|run| run.from == From::Capture(place)) else {
                continue;
            };
            match open.get(&pair) {
                None => _ = runs.all.remove(&pair),
                Some(&deadline) if is_end => {
                    run.from = From::Until(deadline);
                    runs.timed.insert(pair);
                }
                Some(_) => _ = own.insert(pair),
            }
        }
    }

    fn longest(&self) -> Option<i64> {
        self.division.longest.map(|longest| i64::try_from(longest.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Whether pairs are closed behind a unit whether they are or not.
    fn is_forced_cut(&self, number: usize) -> bool {
        let Some(window) = self.division.window else { return false };
        let cut = i64::try_from(window.cut.as_nanos()).unwrap_or(i64::MAX).max(1);
        let next = self.earliest.get(number + 1);
        next.is_some_and(|next| self.earliest[number].div_euclid(cut) != next.div_euclid(cut))
    }

    /// The clock behind so many chunks of a capture.
    fn clock_behind(&self, place: usize, chunks: usize) -> ClockState {
        let index = self.captures[place].index;
        index.chunks.get(chunks).map_or(index.clock, |chunk| chunk.clock)
    }

    /// The state of the run's clock before the chunks of a unit, and the latest time that the clock shows in
    /// these chunks.
    fn clocks(&self, number: usize) -> (ClockState, i64) {
        let own = |unit: &Unit| {
            let first =
                unit.iter().map(|(place, chunks)| self.captures[*place].index.chunks[chunks.start].clock);
            first.max_by_key(|clock| clock.now)
        };
        let mut clock = own(&self.units[number]).unwrap_or(NO_TIME);
        // A capture that begins knows no time; the run does.
        if clock.now == i64::MIN
            && let Some(before) = number.checked_sub(1)
        {
            let ends = self.units[before].iter().map(|(place, chunks)| self.clock_behind(*place, chunks.end));
            clock = ends.max_by_key(|clock| clock.now).unwrap_or(NO_TIME);
        }
        let latest = self.chunks_of(&self.units[number]).map(|(_, chunk)| chunk.clock_max).max();
        (clock, latest.unwrap_or(i64::MIN))
    }

    /// The task of each unit of the window: consecutive units with about the same number of bytes.
    fn owners(&self, first: usize) -> (Vec<usize>, usize) {
        let bytes =
            |unit: &Unit| self.chunks_of(unit).map(|(_, chunk)| chunk.stored_bytes.max(1)).sum::<u64>();
        let weights: Vec<u64> = self.units[first..].iter().map(bytes).collect();
        let whole = weights.iter().sum::<u64>().max(1);
        let tasks = self.division.tasks.clamp(1, weights.len().max(1));
        let (mut owners, mut done, mut task) = (vec![0; first], 0u128, 0);
        for (number, weight) in weights.iter().enumerate() {
            // A task has at least one unit, and leaves one for each of the others.
            let left = weights.len() - number;
            let is_due = done * tasks as u128 >= u128::from(whole) * (task as u128 + 1);
            let divides = task + 1 < tasks && (is_due || left == tasks - task - 1);
            // The engine of a task does not know that a pair was closed although its connections go on.
            if number > 0 && (divides || self.is_forced_cut(first + number - 1)) {
                task += 1;
            }
            owners.push(task);
            done += u128::from(*weight);
        }
        (owners, task + 1)
    }

    fn tasks(&self) -> Vec<Task> {
        let first = self.first_unit();
        let (owners, count) = self.owners(first);
        // Pairs that go on behind the end are left out from their first packet on, in a window.
        let (mut resumed, mut deferred) = (HashMap::default(), HashMap::default());
        if self.division.window.is_some() {
            let mut runs = Runs::new(self.captures.len());
            for number in 0..self.units.len() {
                self.pass_packets(number, &mut runs);
                // What was open when what comes next was not known.
                if number + 1 == first {
                    resumed = runs.firsts();
                }
                self.pass_border(number, &mut runs);
            }
            deferred = runs.firsts();
        }
        let first_time = self.captures.iter().filter_map(|capture| capture.index.first_time()).min();
        let mut tasks = vec![TaskUnderWay::new(first_time, &self.aliases); count];
        let mut runs = Runs::new(self.captures.len());
        for number in 0..self.units.len() {
            self.assign(number, first, &owners, (&resumed, &deferred), &mut runs, &mut tasks);
            self.pass_packets(number, &mut runs);
            self.pass_border(number, &mut runs);
            let (_, latest) = self.clocks(number);
            tasks.iter_mut().for_each(|task| task.clock_max = task.clock_max.max(latest));
        }
        let history = self.division.window.map_or(0, |window| window.history);
        let unread = self.captures.iter().skip(history).filter(|capture| capture.index.chunks.is_empty());
        tasks[0].task.errors = unread.filter_map(|capture| capture.index.error.clone()).collect();
        tasks.into_iter().map(|task| task.task).collect()
    }

    /// Gives the packets of a unit to tasks.
    fn assign(
        &self,
        number: usize,
        first: usize,
        owners: &[usize],
        (resumed, deferred): (&HashMap<Pair, usize>, &HashMap<Pair, usize>),
        runs: &mut Runs,
        tasks: &mut [TaskUnderWay],
    ) {
        let unit = &self.units[number];
        let mut pairs: Vec<Pair> =
            self.chunks_of(unit).flat_map(|(_, chunk)| &chunk.pairs).copied().collect();
        pairs.iter_mut().for_each(|pair| *pair = self.canonical(*pair));
        pairs.sort_unstable();
        pairs.dedup();
        let is_in =
            |all: &HashMap<Pair, usize>, pair: &Pair| all.get(pair).is_some_and(|first| *first <= number);
        let own = (number >= first).then(|| owners[number]);
        let mut left_out = vec![];
        let mut followed: HashMap<usize, Vec<Pair>> = HashMap::default();
        for pair in pairs {
            let begin = runs.all.get(&pair).map_or(number, |run| run.first);
            // Pairs that began in the history belong to the first task.
            let owner = owners[begin];
            if is_in(deferred, &pair) {
                left_out.push(pair);
            } else if own.is_some_and(|own| own != owner) {
                left_out.push(pair);
                followed.entry(owner).or_default().push(pair);
            } else if own.is_none() && is_in(resumed, &pair) {
                followed.entry(owner).or_default().push(pair);
            }
        }
        for (task, pairs) in followed {
            self.add_step(number, &mut tasks[task], Select::Only(pairs));
        }
        if let Some(own) = own {
            self.add_step(number, &mut tasks[own], Select::Except(left_out));
        }
    }

    fn add_step(&self, number: usize, under_way: &mut TaskUnderWay, select: Select) {
        let (clock, _) = self.clocks(number);
        let clock_max = std::mem::replace(&mut under_way.clock_max, i64::MIN);
        let TaskUnderWay { task, places, .. } = under_way;
        let part = |(place, chunks): &(usize, std::ops::Range<usize>)| {
            let Capture { name, index } = self.captures[*place];
            let file = *places.entry(*place).or_insert_with(|| {
                task.files.push(name.to_string());
                task.files.len() - 1
            });
            let all = &index.chunks[chunks.clone()];
            let begin = &all[0];
            let length_bytes = all.iter().map(|chunk| chunk.length_bytes).sum::<Option<u64>>();
            let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            Part {
                file: narrow(file as u64),
                place: narrow(*place as u64),
                first_time: begin.first_time,
                first_interface: narrow(self.interfaces_before[*place] + u64::from(begin.first_interface)),
                packets_before: begin.first_packet,
                start: begin.start,
                is_zstd: index.is_zstd,
                stored_bytes: length_bytes.filter(|_| !index.is_zstd),
                skip: begin.skip,
                offset_bytes: begin.offset_bytes,
                length_bytes,
                head: index.heads[begin.head as usize].clone(),
            }
        };
        let parts = self.units[number].iter().map(part).collect();
        task.steps.push(Step {
            packets_before: self.packets_before[number],
            clock,
            clock_max,
            select,
            parts,
        });
    }
}

const NO_TIME: ClockState = ClockState { now: i64::MIN, last: i64::MIN, behind: 0 };

/// Flows end up to a tick after their time-out.
const CLOCK_SLACK_NS: i64 = 1 << 27;

#[derive(Clone)]
struct TaskUnderWay {
    task: Task,
    /// The places of captures among the task's names.
    places: HashMap<usize, usize>,
    /// The latest time of the clock since the last step.
    clock_max: i64,
}

impl TaskUnderWay {
    fn new(first_time: Option<i64>, aliases: &HashMap<Pair, Pair>) -> Self {
        let mut aliases: Vec<_> = aliases.iter().map(|(pair, with)| (*pair, *with)).collect();
        aliases.sort_unstable();
        let task = Task { first_time, aliases, ..Task::default() };
        Self { task, places: HashMap::default(), clock_max: i64::MIN }
    }
}
