//! Measuring: how long, how much processor time, how many bytes; ours, the floor and the peers in turn.

use crate::allocation::allocated;
use crate::clock;
use crate::latency::Samples;
use crate::report::CaseReport;
use std::time::{Duration, Instant};

/// How much is done for each figure.
#[derive(Clone, Debug)]
pub struct Effort {
    /// How often ours, the floor and the peers take turns; of each the best turn is told.
    pub rounds: usize,
    /// What one turn may cost.
    pub budget: Budget,
    /// Whether the run only shows that everything works; never for judging.
    pub quick: bool,
    /// Whether floors and peers are left out, so that a profiler sees our own work alone.
    pub alone: bool,
}

/// What one turn may cost.
#[derive(Clone, Debug)]
pub struct Budget {
    /// It goes on for at least so long…
    pub time: Duration,
    /// …and until there are so many samples…
    pub samples_min: u64,
    /// …but not much longer than this, preparations included.
    pub time_max: Duration,
}

impl Effort {
    /// The effort behind figures that are told to others.
    pub fn full() -> Effort {
        let budget = Budget {
            time: Duration::from_secs(1),
            samples_min: crate::latency::P99_SAMPLES_MIN,
            time_max: Duration::from_secs(10),
        };
        Effort { rounds: 3, budget, quick: false, alone: false }
    }

    /// Just enough to see that it runs.
    pub fn quick() -> Effort {
        let short = Duration::from_millis(20);
        let budget = Budget { time: short, samples_min: 10, time_max: short * 5 };
        Effort { rounds: 1, budget, quick: true, alone: false }
    }
}

/// What one turn showed.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    pub(crate) samples: Samples,
    pub(crate) ops: u64,
    pub(crate) errors: u64,
    /// Time inside what was timed.
    pub(crate) busy: Duration,
    pub(crate) cpu: Duration,
    pub(crate) allocated: Option<u64>,
    started: Instant,
}

impl Measurement {
    pub(crate) fn new() -> Measurement {
        Measurement {
            samples: Samples::new(),
            ops: 0,
            errors: 0,
            busy: Duration::ZERO,
            cpu: Duration::ZERO,
            allocated: allocated().map(|_| 0),
            started: Instant::now(),
        }
    }

    /// Does `work`, and counts this thread's processor time and what is allocated meanwhile; time is counted only inside [`Measurement::time`].
    pub(crate) fn section<T>(&mut self, work: impl FnOnce(&mut Measurement) -> T) -> T {
        let (cpu, bytes) = (clock::thread_cpu(), allocated());
        let result = work(self);
        let more_bytes = allocated().zip(bytes).map(|(after, before)| after.total - before.total);
        self.cpu += clock::thread_cpu() - cpu;
        self.allocated = self.allocated.zip(more_bytes).map(|(sum, more)| sum + more);
        result
    }

    /// Times a block of `ops` operations as one sample; `block` says how many of them failed.
    #[inline]
    pub(crate) fn time(&mut self, ops: u64, block: impl FnOnce() -> u64) {
        let start = Instant::now();
        let errors = block();
        let time = start.elapsed();
        self.samples.record(time, ops);
        self.ops += ops;
        self.errors += errors;
        self.busy += time;
    }

    pub(crate) fn has_spent(&self, budget: &Budget) -> bool {
        let enough = self.busy >= budget.time && self.samples.count() >= budget.samples_min;
        enough || self.started.elapsed() >= budget.time_max
    }

    pub(crate) fn ops_per_second(&self) -> f64 {
        self.ops as f64 / self.busy.as_secs_f64().max(1e-9)
    }

    /// This and another measurement of the same as one.
    fn and(mut self, other: Measurement) -> Measurement {
        self.samples.add(&other.samples);
        self.ops += other.ops;
        self.errors += other.errors;
        self.busy += other.busy;
        self.cpu += other.cpu;
        self.allocated = self.allocated.zip(other.allocated).map(|(left, right)| left + right);
        self
    }
}

/// A turn that repeats one operation, timed in blocks of `block`; the operation says whether it found what it should.
pub(crate) fn repeat(block: u64, mut operation: impl FnMut() -> bool) -> impl FnMut(&Budget) -> Measurement {
    move |budget| {
        let mut measurement = Measurement::new();
        measurement.section(|measurement| {
            while !measurement.has_spent(budget) {
                measurement.time(block, || (0..block).map(|_| u64::from(!operation())).sum());
            }
        });
        measurement
    }
}

/// Something that can take a turn.
type Turn<'a> = Box<dyn FnMut(&Budget) -> Measurement + 'a>;

/// What is measured for one case: ours, and in the same run, in turns, what it is compared with.
pub(crate) struct Contest<'a> {
    case: String,
    ours: Turn<'a>,
    /// What the floor is, in words, and its turn.
    floor: Option<(&'static str, Turn<'a>)>,
    peers: Vec<(&'static str, Turn<'a>)>,
    block: u64,
    long: bool,
}

impl<'a> Contest<'a> {
    pub(crate) fn new(case: &str, ours: impl FnMut(&Budget) -> Measurement + 'a) -> Contest<'a> {
        let case = case.to_owned();
        Contest { case, ours: Box::new(ours), floor: None, peers: Vec::new(), block: 1, long: false }
    }

    /// The same without any of our work in the way.
    pub(crate) fn floor(mut self, what: &'static str, floor: impl FnMut(&Budget) -> Measurement + 'a) -> Contest<'a> {
        self.floor = Some((what, Box::new(floor)));
        self
    }

    /// Another product that does the same.
    #[cfg_attr(not(feature = "peers"), allow(dead_code))]
    pub(crate) fn peer(mut self, name: &'static str, peer: impl FnMut(&Budget) -> Measurement + 'a) -> Contest<'a> {
        self.peers.push((name, Box::new(peer)));
        self
    }

    /// How many operations make one sample; for the table only.
    pub(crate) fn block(mut self, block: u64) -> Contest<'a> {
        self.block = block;
        self
    }

    /// One turn is one long operation: nothing is warmed up, and all turns are told, not the best one.
    pub(crate) fn long(mut self) -> Contest<'a> {
        self.long = true;
        self
    }

    /// Runs all rounds.
    pub(crate) fn run(mut self, effort: &Effort) -> CaseReport {
        if effort.alone {
            self.floor = None;
            self.peers.clear();
        }
        let mut turns: Vec<&mut Turn<'a>> = vec![&mut self.ours];
        turns.extend(self.floor.as_mut().map(|(_, turn)| turn));
        turns.extend(self.peers.iter_mut().map(|(_, turn)| turn));
        if !self.long {
            let Budget { time, time_max, .. } = effort.budget;
            let warming = Budget { time: time / 5, samples_min: 1, time_max };
            turns.iter_mut().for_each(|turn| drop(turn(&warming)));
        }
        let mut told: Vec<Option<Measurement>> = vec![None; turns.len()];
        for _ in 0..effort.rounds {
            for (turn, told) in turns.iter_mut().zip(&mut told) {
                let new = turn(&effort.budget);
                *told = Some(match told.take() {
                    None => new,
                    Some(before) if self.long => before.and(new),
                    Some(before) if before.ops_per_second() >= new.ops_per_second() => before,
                    Some(_) => new,
                });
            }
        }
        let mut told = told.into_iter().flatten();
        let ours = told.next().unwrap_or_else(Measurement::new);
        let floor = self.floor.as_ref().and_then(|_| told.next());
        let peers: Vec<_> = self.peers.iter().map(|(name, _)| *name).zip(told).collect();
        let report = CaseReport::of(self.case, self.block, &ours, floor.as_ref(), &peers);
        match self.floor {
            Some((what, _)) => report.note(format!("floor: {what}")),
            None => report,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Contest, Effort, Measurement, repeat};
    use crate::latency::Latency;
    use std::time::Duration;

    fn fixed(micros: &'static [u64]) -> impl FnMut(&Budget) -> Measurement {
        let mut turns = micros.iter();
        move |_| {
            let mut measurement = Measurement::new();
            let time = Duration::from_micros(*turns.next().expect("no more turns than rounds"));
            measurement.samples.record(time, 1);
            measurement.ops = 1;
            measurement.busy = time;
            measurement
        }
    }

    /// Within what a histogram of three digits tells apart.
    fn near(told: Option<f64>, exact: f64) -> bool {
        told.is_some_and(|told| (told / exact - 1.0).abs() < 0.001)
    }

    fn three_rounds() -> Effort {
        Effort { rounds: 3, ..Effort::quick() }
    }

    #[test]
    fn the_best_turn_of_each_is_told_and_compared() {
        // The first turn of each is the warming.
        let report =
            Contest::new("case", fixed(&[9, 300, 100, 200])).floor("", fixed(&[9, 90, 70, 50])).run(&three_rounds());
        assert!(near(report.latency_us.map(|latency| latency.p50), 100.0));
        assert!(near(report.floor.map(|floor| floor.ops_per_s), 20_000.0));
        assert!(near(report.ratio.map(|ratio| ratio.ops_per_s), 0.5));
        assert!(near(report.ratio.and_then(|ratio| ratio.p50), 2.0));
    }

    #[test]
    fn of_a_long_operation_all_turns_are_told() {
        let report = Contest::new("case", fixed(&[300, 100, 200])).long().run(&three_rounds());
        assert_eq!(report.ops, 3);
        let figure = |of: fn(Latency) -> f64| report.latency_us.map(of);
        assert!(near(figure(|latency| latency.min), 100.0));
        assert!(near(figure(|latency| latency.p50), 200.0));
        assert!(near(figure(|latency| latency.max), 300.0));
    }

    #[test]
    fn nothing_is_compared_when_ours_is_to_run_alone() {
        let alone = Effort { alone: true, ..three_rounds() };
        let report =
            Contest::new("case", fixed(&[9, 3, 1, 2])).floor("", fixed(&[])).peer("peer", fixed(&[])).run(&alone);
        assert!(report.floor.is_none() && report.ratio.is_none() && report.peer.is_none() && report.ops == 1);
    }

    #[test]
    fn failures_and_bytes_are_counted_exactly() {
        crate::count_allocations();
        let mut calls = 0u64;
        let measurement = repeat(10, || {
            calls += 1;
            std::hint::black_box(Vec::<u8>::with_capacity(100));
            !calls.is_multiple_of(5)
        })(&Effort::quick().budget);
        assert_eq!(measurement.errors * 5, measurement.ops);
        // Other tests of this process may allocate meanwhile.
        assert!(measurement.allocated.is_some_and(|bytes| bytes >= measurement.ops * 100));
        assert!(measurement.samples.count() * 10 == measurement.ops);
    }
}
