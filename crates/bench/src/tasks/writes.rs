//! Changes through the writer. No disk: a commit is prepared in full, its record for the log included, and published.

use crate::catalog::Run;
use crate::clock;
use crate::load::{Load, Loaded, Shape, empty_store, insert};
use crate::measure::{Budget, Contest, Effort, Measurement};
use crate::random::Random;
use crate::report::CaseReport;
use rollcall_store::{ChangeError, Query, RowNumber, Store, Stored, Transaction, Version, Writer};
use rollcall_types::{Task, TaskState, Uid};
use std::hint::black_box;
use std::sync::Arc;
use thiserror::Error;

/// Changes in one commit of `update_batch`.
const BATCH: usize = 256;

/// Changes made before anything is measured, so that the watch ring and the old versions hold all that they may.
const WARM_CHANGES: usize = 100_000;

/// Why a status change failed.
#[derive(Debug, Error)]
enum MoveError {
    #[error("there is no task {0}")]
    NoSuchTask(Uid),
    #[error("task {0} may not become {1}")]
    Illegal(Uid, TaskState),
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// A status change is a commit of its own.
pub(super) fn update_one(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    update(run, 1)
}

/// Status changes are committed 256 at a time; figures are per change.
pub(super) fn update_batch(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    update(run, BATCH)
}

fn update(run: &Run<'_>, batch: usize) -> anyhow::Result<CaseReport> {
    let mut changes = StatusChanges::new(Loaded::usual(run.size)?)?;
    changes.fill_history(run.effort, batch)?;
    let mut plain = PlainChanges::new(&changes.tasks);
    let (store, tasks) = (changes.store().clone(), changes.tasks.len());
    let ours = |budget: &Budget| changes.turn(budget, batch, |changing| changing.change());
    let contest = Contest::new(&run.case, ours)
        .floor("the checked new record put into a plain vector", |budget| plain.turn(budget, batch))
        .block(batch as u64);
    let report = contest.run(run.effort);
    let (bytes, versions) = store.retained();
    Ok(report.note(format!("{tasks} active tasks changed; {versions} old versions held, {bytes} bytes")))
}

/// Status changes of random active tasks: starting, running, stopping; then, untimed, back to the start.
pub(super) struct StatusChanges {
    loaded: Loaded,
    /// The active tasks, as they are when starting.
    pub(super) tasks: Vec<(RowNumber, Task)>,
    /// Their identities, in the order in which they are changed.
    order: Vec<Uid>,
    random: Random,
}

/// The states that tasks are moved to, one after the other, after [`TaskState::Starting`].
pub(super) const MOVES: [TaskState; 2] = [TaskState::Running, TaskState::Stopping];

/// The next commit of status changes.
pub(super) struct Changing<'a> {
    writer: &'a mut Writer,
    measurement: &'a mut Measurement,
    tasks: &'a [Uid],
    state: TaskState,
}

impl StatusChanges {
    pub(super) fn new(loaded: Loaded) -> anyhow::Result<StatusChanges> {
        let mut random = Random::new(4);
        let snapshot = loaded.store.snapshot();
        let rows = snapshot.table::<Task>().select(Query::all())?.filter(|row| row.row().is_active());
        let tasks: Vec<_> = rows
            .map(|row| {
                let agent = row.row().agent.clone().unwrap_or_else(|| loaded.names.any_agent(&mut random));
                let (state, agent) = (TaskState::Starting, Some(agent));
                (row.number, Task { agent, state, started: None, pid: None, ..row.row().clone() })
            })
            .collect();
        let order = tasks.iter().map(|(_, task)| task.uid).collect();
        let mut changes = StatusChanges { loaded, tasks, order, random };
        changes.set_back(BATCH)?;
        Ok(changes)
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.loaded.store
    }

    /// Makes all tasks starting again, whatever is legal. In commits as large as the measured ones, so that the old versions held are of one kind:
    /// a few large ones among them would be let go by some small change, and seen as its time.
    fn set_back(&mut self, batch: usize) -> Result<(), ChangeError> {
        let writer = &mut self.loaded.writer;
        for tasks in self.tasks.chunks(batch) {
            let mut batch = writer.begin(clock::now());
            batch.attempt(|change| tasks.iter().try_for_each(|(number, task)| change.update(*number, task.clone())))?;
            if let Some(prepared) = batch.prepare() {
                writer.publish(prepared);
            }
        }
        Ok(())
    }

    /// Makes so many changes that the watch ring and the old versions hold all that they may.
    pub(super) fn fill_history(&mut self, effort: &Effort, batch: usize) -> Result<(), ChangeError> {
        let wanted = if effort.quick { 0 } else { WARM_CHANGES };
        let mut done = 0;
        while done < wanted {
            let mut unread = Measurement::new();
            self.pass(&mut unread, batch, &mut |changing| changing.change());
            done += unread.ops as usize;
            self.set_back(batch)?;
        }
        Ok(())
    }

    /// One turn: `step` is called for each commit of `batch` changes.
    pub(super) fn turn(
        &mut self,
        budget: &Budget,
        batch: usize,
        mut step: impl FnMut(&mut Changing<'_>),
    ) -> Measurement {
        let mut measurement = Measurement::new();
        while !measurement.has_spent(budget) {
            self.pass(&mut measurement, batch, &mut step);
            measurement.errors += u64::from(self.set_back(batch).is_err());
        }
        measurement
    }

    /// Each task is moved twice, in random order.
    fn pass(&mut self, measurement: &mut Measurement, batch: usize, step: &mut impl FnMut(&mut Changing<'_>)) {
        for state in MOVES {
            self.random.shuffle(&mut self.order);
            let (writer, order) = (&mut self.loaded.writer, &self.order);
            measurement.section(|measurement| {
                for tasks in order.chunks(batch) {
                    step(&mut Changing { writer, measurement, tasks, state });
                }
            });
        }
    }
}

impl Changing<'_> {
    /// Makes the commit, and times it.
    #[inline]
    pub(super) fn change(&mut self) {
        let Changing { writer, tasks, state, .. } = self;
        self.measurement.time(tasks.len() as u64, || change_states(writer, tasks, *state));
    }

    /// Times something else.
    #[inline]
    pub(super) fn time(&mut self, ops: u64, block: impl FnOnce() -> u64) {
        self.measurement.time(ops, block);
    }
}

/// Moves tasks to a state in one commit, each by a command of its own that finds the task by its identity, as an agent's report names it; gives
/// how many failed.
fn change_states(writer: &mut Writer, tasks: &[Uid], state: TaskState) -> u64 {
    let mut failed = 0;
    let mut batch = writer.begin(clock::now());
    for uid in tasks {
        failed += u64::from(batch.attempt(|change| change_state(change, *uid, state)).is_err());
    }
    if let Some(prepared) = batch.prepare() {
        black_box(prepared.record());
        writer.publish(prepared);
    }
    failed
}

fn change_state(change: &mut Transaction<'_>, uid: Uid, state: TaskState) -> Result<(), MoveError> {
    let query = Query::all().equal(Task::UID, uid);
    let found = change.table::<Task>().select(query).ok().and_then(|mut rows| rows.next());
    let row = found.ok_or(MoveError::NoSuchTask(uid))?;
    let (number, moved) = (row.number, row.row().moved(state, change.now(), None, 0));
    Ok(change.update(number, moved.ok_or(MoveError::Illegal(uid, state))?)?)
}

/// The floor of a status change: the same check and the same new record, put where the old one was.
struct PlainChanges {
    starting: Vec<Arc<Stored<Task>>>,
    list: Vec<Arc<Stored<Task>>>,
    order: Vec<usize>,
    random: Random,
}

impl PlainChanges {
    fn new(tasks: &[(RowNumber, Task)]) -> PlainChanges {
        let stored = |(_, task): &(RowNumber, Task)| Arc::new(Stored { changed: Version::NOTHING, row: task.clone() });
        let list: Vec<_> = tasks.iter().map(stored).collect();
        PlainChanges { starting: list.clone(), order: (0..list.len()).collect(), list, random: Random::new(4) }
    }

    fn turn(&mut self, budget: &Budget, batch: usize) -> Measurement {
        let mut measurement = Measurement::new();
        while !measurement.has_spent(budget) {
            for state in MOVES {
                self.random.shuffle(&mut self.order);
                measurement.section(|measurement| {
                    for places in self.order.chunks(batch) {
                        let change = |place: &usize| change_plainly(&mut self.list[*place], state);
                        measurement.time(places.len() as u64, || places.iter().map(change).sum());
                    }
                });
            }
            self.list.clone_from_slice(&self.starting);
        }
        measurement
    }
}

pub(super) fn change_plainly(stored: &mut Arc<Stored<Task>>, state: TaskState) -> u64 {
    let Some(row) = stored.row.moved(state, clock::now(), None, 0) else { return 1 };
    *stored = Arc::new(Stored { changed: Version::NOTHING, row });
    0
}

/// A store is filled with tasks through the writer.
pub(super) fn bulk_load(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let load = Load::new(Shape::usual(run.size));
    let ours = |_: &Budget| {
        let (_store, mut writer) = empty_store();
        let mut measurement = Measurement::new();
        measurement.errors += u64::from(load.insert_all_but_tasks(&mut writer).is_err());
        let tasks: Vec<Task> = load.tasks().collect();
        measurement.section(|measurement| measurement.time(1, || u64::from(insert(&mut writer, tasks).is_err())));
        measurement
    };
    let floor = |_: &Budget| {
        let mut measurement = Measurement::new();
        let tasks: Vec<Task> = load.tasks().collect();
        let mut list: Vec<Arc<Task>> = Vec::new();
        measurement.section(|measurement| {
            measurement.time(1, || {
                list.extend(tasks.into_iter().map(Arc::new));
                u64::from(list.len() != load.shape.tasks())
            });
        });
        measurement
    };
    let report = Contest::new(&run.case, ours)
        .floor("the same records put into a vector, each behind a pointer", floor)
        .long()
        .run(run.effort);
    let best = report.latency_us.map_or(0.0, |latency| latency.min);
    let per_task = best / load.shape.tasks() as f64;
    Ok(report.note(format!("an operation is a load; the best took {:.3} s, {per_task:.2} us per task", best / 1e6)))
}
