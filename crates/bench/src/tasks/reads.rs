//! Reads of a store that nobody changes meanwhile.

use crate::catalog::Run;
use crate::load::{Load, Loaded, Shape, plain_list};
use crate::measure::{Budget, Contest, Measurement, repeat};
#[cfg(feature = "peers")]
use crate::peers::Sqlite;
use crate::random::Random;
use crate::report::CaseReport;
use rollcall_store::{Query, Store, Stored};
use rollcall_types::{JobName, Task};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

/// Operations in a sample of a read that takes well below a microsecond.
pub(super) const FAST_BLOCK: u64 = 64;

/// Operations in a sample of handing out a snapshot.
const FASTEST_BLOCK: u64 = 256;

const COPY: &str = "a copy of a vector of all records";
pub(super) const LOOK_UP: &str = "look-up in a BTreeMap of the same keys and records";

/// A record as the store shares it.
pub(super) type Shared = Arc<Stored<Task>>;

/// A snapshot is taken and asked for everything. What is handed out is the snapshot itself: all records, immutable, for as long as the caller keeps it.
pub(super) fn fetch_all_shared(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let Loaded { store, .. } = Loaded::usual(run.size)?;
    Ok(fetch_all_of(run, &store))
}

/// The same of any store.
pub(super) fn fetch_all_of(run: &Run<'_>, store: &Store) -> CaseReport {
    let list = plain_list(&store.snapshot());
    let ours = || {
        let snapshot = store.snapshot();
        let found = snapshot.table::<Task>().select(Query::all()).map_or(0, |rows| rows.size_hint().0);
        black_box(&snapshot);
        found == list.len()
    };
    let contest = Contest::new(&run.case, repeat(FASTEST_BLOCK, ours)).floor(COPY, copying(&list)).block(FASTEST_BLOCK);
    contest.run(run.effort)
}

fn copying(list: &[Shared]) -> impl FnMut(&Budget) -> Measurement {
    repeat(1, || black_box(list.to_vec()).len() == list.len())
}

/// Two fields of every record are read through the snapshot.
pub(super) fn fetch_all_touch(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let Loaded { store, .. } = Loaded::usual(run.size)?;
    let list = plain_list(&store.snapshot());
    let expected = list.iter().fold(0, |sum, stored| touch(sum, &stored.row));
    let ours = || {
        let snapshot = store.snapshot();
        let rows = snapshot.table::<Task>().select(Query::all());
        rows.map_or(0, |rows| rows.fold(0, |sum, row| touch(sum, row.row()))) == expected
    };
    let floor = || black_box(&list).iter().fold(0, |sum, stored| touch(sum, &stored.row)) == expected;
    let contest = Contest::new(&run.case, repeat(1, ours))
        .floor("the same loop over a vector of the same records", repeat(1, floor));
    Ok(contest.run(run.effort))
}

/// Reads two fields of a record.
#[inline]
fn touch(sum: u64, task: &Task) -> u64 {
    sum.wrapping_add(u64::from(task.instance) ^ task.state as u64)
}

/// All records are collected as a vector of references.
pub(super) fn fetch_all_refs(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let Loaded { store, .. } = Loaded::usual(run.size)?;
    let list = plain_list(&store.snapshot());
    let ours = || {
        let snapshot = store.snapshot();
        let rows = snapshot.table::<Task>().select(Query::all());
        let references: Vec<&Task> = rows.map_or_else(|_| Vec::new(), |rows| rows.references());
        black_box(&references).len() == list.len()
    };
    let contest = Contest::new(&run.case, repeat(1, ours)).floor(COPY, copying(&list));
    Ok(contest.run(run.effort))
}

/// One record is found by job and instance, by a query built for it.
pub(super) fn indexed(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let Loaded { store, names, shape, .. } = Loaded::usual(run.size)?;
    let list = plain_list(&store.snapshot());
    let map = plain_map(&list);
    let mut floor_keys = Keys::new(&names.jobs, shape);
    let floor = || {
        let (job, instance) = floor_keys.any();
        map.get(&(&**job, instance)).is_some_and(|stored| is_wanted(&stored.row, job, instance))
    };
    let contest = Contest::new(&run.case, reading_one(&store, Keys::new(&names.jobs, shape)));
    let contest = contest.floor(LOOK_UP, repeat(FAST_BLOCK, floor)).block(FAST_BLOCK);
    #[cfg(feature = "peers")]
    let sqlite = Sqlite::of(&list)?;
    #[cfg(feature = "peers")]
    let mut select = sqlite.select("job = ?1 and instance = ?2")?;
    #[cfg(feature = "peers")]
    let mut keys = Keys::new(&names.jobs, shape);
    #[cfg(feature = "peers")]
    let contest = contest.peer(
        "sqlite",
        repeat(FAST_BLOCK, || {
            let (job, instance) = keys.any();
            select.read_all((job.as_str(), instance)) == Some(1)
        }),
    );
    Ok(contest.run(run.effort))
}

/// The turns of `indexed`, for any store.
pub(super) fn reading_one(store: &Store, mut keys: Keys<'_>) -> impl FnMut(&Budget) -> Measurement {
    repeat(FAST_BLOCK, move || {
        let (job, instance) = keys.any();
        read_one(store, job, instance)
    })
}

/// Finds one record through the planner and reads it; says whether it was the wanted one.
#[inline]
pub(super) fn read_one(store: &Store, job: &JobName, instance: u32) -> bool {
    let snapshot = store.snapshot();
    let query = Query::all().equal(Task::JOB, job).equal(Task::INSTANCE, instance);
    let found = snapshot.table::<Task>().select(query).ok().and_then(|mut rows| rows.next());
    found.is_some_and(|row| is_wanted(row.row(), job, instance))
}

/// Reads the row, as a caller would: what was asked for, and two fields more.
#[inline]
pub(super) fn is_wanted(task: &Task, job: &JobName, instance: u32) -> bool {
    black_box((task.state, task.uid));
    task.instance == instance && task.job == *job
}

/// The records by job and instance.
pub(super) fn plain_map(list: &[Shared]) -> BTreeMap<(&str, u32), &Shared> {
    list.iter().map(|stored| ((&*stored.row.job, stored.row.instance), stored)).collect()
}

/// The hundred records of one job are found and read.
pub(super) fn indexed100(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let loaded = Load::new(Shape::of_hundreds(run.size)).stored()?;
    let group = Group {
        names: loaded.names.jobs.iter().map(JobName::as_str).collect(),
        key: |task| Some(task.job.as_str()),
        query: |job| Query::all().equal(Task::JOB, job),
        sql: "job = ?1",
    };
    group.measure(run, &loaded.store)
}

/// The active records of one namespace are found and read, job by job.
pub(super) fn jobs_by_namespace_active(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let loaded = Loaded::usual(run.size)?;
    let group = Group {
        names: loaded.names.namespaces.iter().map(|namespace| namespace.as_str()).collect(),
        key: |task| task.is_active().then(|| task.namespace.as_str()),
        query: |namespace| Query::all().equal(Task::NAMESPACE, namespace).equal(Task::ACTIVE, true),
        sql: "namespace = ?1 and active",
    };
    group.measure(run, &loaded.store)
}

/// The active records of one agent are found and read.
pub(super) fn by_agent_active(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let loaded = Loaded::usual(run.size)?;
    let group = Group {
        names: loaded.names.agents.iter().map(|agent| agent.as_str()).collect(),
        key: |task| task.agent.as_deref().filter(|_| task.is_active()),
        query: |agent| Query::all().equal(Task::AGENT, agent).equal(Task::ACTIVE, true),
        sql: "agent = ?1 and active",
    };
    group.measure(run, &loaded.store)
}

/// Records that are asked for by one name that they share.
struct Group<'a> {
    /// The names that are asked for.
    names: Vec<&'a str>,
    /// The name of a record; `None` if it is not asked for.
    key: fn(&Task) -> Option<&str>,
    query: for<'q> fn(&'q str) -> Query<'q>,
    /// The same question in SQL.
    #[cfg_attr(not(feature = "peers"), allow(dead_code))]
    sql: &'static str,
}

impl Group<'_> {
    fn measure(&self, run: &Run<'_>, store: &Store) -> anyhow::Result<CaseReport> {
        let list = plain_list(&store.snapshot());
        let mut grouped: BTreeMap<&str, Vec<&Shared>> = self.names.iter().map(|name| (*name, Vec::new())).collect();
        for (name, stored) in list.iter().filter_map(|stored| Some(((self.key)(&stored.row)?, stored))) {
            grouped.entry(name).or_default().push(stored);
        }
        let counts: Vec<usize> = self.names.iter().map(|name| grouped[name].len()).collect();
        let mut random = Random::new(6);
        let ours = || {
            let wanted = random.below(self.names.len());
            let snapshot = store.snapshot();
            let rows = snapshot.table::<Task>().select((self.query)(self.names[wanted]));
            let (count, sum) = rows.map_or((0, 0), |rows| rows.fold((0, 0), |found, row| add(found, row.row())));
            black_box(sum);
            count == counts[wanted]
        };
        let mut floor_random = Random::new(6);
        let floor = || {
            let wanted = floor_random.below(self.names.len());
            let rows = grouped.get(self.names[wanted]).map_or(&[][..], |rows| rows);
            let (count, sum) = rows.iter().fold((0, 0), |found, stored| add(found, &stored.row));
            black_box(sum);
            count == counts[wanted]
        };
        let contest = Contest::new(&run.case, repeat(1, ours))
            .floor("records grouped beforehand, in a map of vectors", repeat(1, floor));
        #[cfg(feature = "peers")]
        let (sqlite, mut random) = (Sqlite::of(&list)?, Random::new(6));
        #[cfg(feature = "peers")]
        let mut select = sqlite.select(self.sql)?;
        #[cfg(feature = "peers")]
        let contest = contest.peer(
            "sqlite",
            repeat(1, || {
                let wanted = random.below(self.names.len());
                select.read_all([self.names[wanted]]) == Some(counts[wanted])
            }),
        );
        let rows = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
        let report = contest.run(run.effort);
        Ok(report.note(format!("{rows:.1} rows per question")))
    }
}

/// Counts a record and reads two fields of it.
#[inline]
fn add((count, sum): (usize, u64), task: &Task) -> (usize, u64) {
    (count + 1, touch(sum, task))
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
