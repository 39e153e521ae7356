//! Reads among writes: of twenty operations one is a status change, nineteen are reads by job and instance.

use super::reads::{Keys, Shared, is_wanted, read_one};
use super::writes::{MOVES, StatusChanges, change_plainly};
use crate::catalog::Run;
use crate::load::{Loaded, plain_list};
use crate::measure::{Budget, Contest, Measurement};
use crate::random::Random;
use crate::report::CaseReport;
use std::collections::BTreeMap;

/// Reads after each change.
const READS_PER_CHANGE: usize = 19;

/// Each operation is timed by itself; each read takes a snapshot of its own.
pub(super) fn mixed(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let loaded = Loaded::usual(run.size)?;
    let (names, shape) = (loaded.names.clone(), loaded.shape);
    let mut changes = StatusChanges::new(loaded)?;
    changes.fill_history(run.effort, 1)?;
    let store = changes.store().clone();
    let list = plain_list(&store.snapshot());
    let mut plain = PlainMap::new(&list, Keys::new(&names.jobs, shape));
    let mut keys = Keys::new(&names.jobs, shape);
    let ours = |budget: &Budget| {
        changes.turn(budget, 1, |changing| {
            changing.change();
            for _ in 0..READS_PER_CHANGE {
                let (job, instance) = keys.any();
                changing.time(1, || u64::from(!read_one(&store, job, instance)));
            }
        })
    };
    let contest = Contest::new(&run.case, ours);
    let contest = contest.floor("a BTreeMap read and changed in place", |budget| plain.turn(budget));
    Ok(contest.run(run.effort).note("each operation is timed by itself, the clock's own time included".into()))
}

/// The floor: the same records in a map that only one thread may use.
struct PlainMap<'a> {
    keys: Keys<'a>,
    map: BTreeMap<(&'a str, u32), Shared>,
    /// The active tasks, as they are when starting.
    starting: Vec<((&'a str, u32), Shared)>,
    random: Random,
}

impl<'a> PlainMap<'a> {
    fn new(list: &'a [Shared], keys: Keys<'a>) -> PlainMap<'a> {
        let entry = |stored: &'a Shared| ((&*stored.row.job, stored.row.instance), stored.clone());
        let starting = list.iter().filter(|stored| stored.row.state.may_become(MOVES[0])).map(entry).collect();
        PlainMap { keys, map: list.iter().map(entry).collect(), starting, random: Random::new(4) }
    }

    fn turn(&mut self, budget: &Budget) -> Measurement {
        let mut measurement = Measurement::new();
        while !measurement.has_spent(budget) {
            for state in MOVES {
                self.random.shuffle(&mut self.starting);
                let PlainMap { keys, map, starting, .. } = self;
                measurement.section(|measurement| {
                    for (key, _) in starting.iter() {
                        measurement.time(1, || map.get_mut(key).map_or(1, |stored| change_plainly(stored, state)));
                        for _ in 0..READS_PER_CHANGE {
                            let (job, instance) = keys.any();
                            let found = || map.get(&(&**job, instance));
                            measurement.time(1, || {
                                u64::from(!found().is_some_and(|stored| is_wanted(&stored.row, job, instance)))
                            });
                        }
                    }
                });
            }
            self.map.extend(self.starting.iter().cloned());
        }
        measurement
    }
}
