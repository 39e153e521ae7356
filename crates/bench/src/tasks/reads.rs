//! Reads of a store that nobody changes meanwhile.

use crate::catalog::Run;
use crate::load::{Loaded, Shape, plain_list};
use crate::measure::{Contest, repeat};
use crate::random::Random;
use crate::report::CaseReport;
use rollcall_store::{Query, Stored};
use rollcall_types::{JobName, Task};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

/// Operations in a sample of a read that takes well below a microsecond.
const FAST_BLOCK: u64 = 64;

/// Operations in a sample of handing out a snapshot.
const FASTEST_BLOCK: u64 = 256;

/// A snapshot is taken and asked for everything. What is handed out is the snapshot itself: all records, immutable, for as long as the caller keeps it.
pub(super) fn fetch_all_shared(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let Loaded { store, .. } = Loaded::usual(run.size)?;
    let list = plain_list(&store.snapshot());
    let ours = || {
        let snapshot = store.snapshot();
        let found = snapshot.table::<Task>().select(Query::all()).map_or(0, |rows| rows.size_hint().0);
        black_box(&snapshot);
        found == list.len()
    };
    let floor = || black_box(list.clone()).len() == list.len();
    let contest = Contest::new(&run.case, repeat(FASTEST_BLOCK, ours)).floor(repeat(1, floor)).block(FASTEST_BLOCK);
    Ok(contest.run(run.effort).note("floor: a copy of a vector of all records".into()))
}

/// Two fields of every record are read through the snapshot.
pub(super) fn fetch_all_touch(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let Loaded { store, .. } = Loaded::usual(run.size)?;
    let list = plain_list(&store.snapshot());
    let touch = |sum: u64, task: &Task| sum.wrapping_add(u64::from(task.instance) ^ task.state as u64);
    let expected = list.iter().fold(0, |sum, stored| touch(sum, &stored.row));
    let ours = || {
        let snapshot = store.snapshot();
        let rows = snapshot.table::<Task>().select(Query::all());
        rows.map_or(0, |rows| rows.fold(0, |sum, row| touch(sum, row.row()))) == expected
    };
    let floor = || black_box(&list).iter().fold(0, |sum, stored| touch(sum, &stored.row)) == expected;
    let contest = Contest::new(&run.case, repeat(1, ours)).floor(repeat(1, floor));
    Ok(contest.run(run.effort).note("floor: the same loop over a vector of the same records".into()))
}

/// All records are collected as a vector of references.
pub(super) fn fetch_all_refs(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let Loaded { store, .. } = Loaded::usual(run.size)?;
    let list = plain_list(&store.snapshot());
    let ours = || {
        let snapshot = store.snapshot();
        let rows = snapshot.table::<Task>().select(Query::all());
        let references: Vec<&Task> = rows.map_or_else(|_| Vec::new(), |rows| rows.map(|row| row.row()).collect());
        black_box(&references).len() == list.len()
    };
    let floor = || black_box(list.clone()).len() == list.len();
    let contest = Contest::new(&run.case, repeat(1, ours)).floor(repeat(1, floor));
    Ok(contest.run(run.effort).note("floor: a copy of a vector of all records".into()))
}

/// One record is found by job and instance, by a query built for it.
pub(super) fn indexed(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let Loaded { store, names, shape, .. } = Loaded::usual(run.size)?;
    let list = plain_list(&store.snapshot());
    let (mut keys, mut floor_keys) = (Keys::new(&names.jobs, shape), Keys::new(&names.jobs, shape));
    let ours = || {
        let (job, instance) = keys.any();
        let snapshot = store.snapshot();
        let query = Query::all().equal(Task::JOB, job).equal(Task::INSTANCE, instance);
        let found = snapshot.table::<Task>().select(query).ok().and_then(|mut rows| rows.next());
        found.is_some_and(|row| is_wanted(row.row(), job, instance))
    };
    let map: BTreeMap<(&str, u32), &Arc<Stored<Task>>> =
        list.iter().map(|stored| ((&*stored.row.job, stored.row.instance), stored)).collect();
    let floor = || {
        let (job, instance) = floor_keys.any();
        map.get(&(&**job, instance)).is_some_and(|stored| is_wanted(&stored.row, job, instance))
    };
    let contest = Contest::new(&run.case, repeat(FAST_BLOCK, ours)).floor(repeat(FAST_BLOCK, floor)).block(FAST_BLOCK);
    Ok(contest.run(run.effort).note("floor: look-up in a BTreeMap of the same keys and records".into()))
}

/// Reads the row, as a caller would: what was asked for, and two fields more.
#[inline]
fn is_wanted(task: &Task, job: &JobName, instance: u32) -> bool {
    black_box((task.state, task.uid));
    task.instance == instance && task.job == *job
}

/// Random pairs of job and instance.
pub(super) struct Keys<'a> {
    jobs: &'a [JobName],
    instances: usize,
    random: Random,
}

impl<'a> Keys<'a> {
    pub(super) fn new(jobs: &'a [JobName], shape: Shape) -> Keys<'a> {
        Keys { jobs, instances: shape.instances, random: Random::new(3) }
    }

    #[inline]
    pub(super) fn any(&mut self) -> (&'a JobName, u32) {
        (&self.jobs[self.random.below(self.jobs.len())], self.random.below(self.instances) as u32)
    }
}
