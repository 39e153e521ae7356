//! What is left after very many changes: whether memory and query rates are those of a store that was just filled with the same rows.

use super::memory::live_bytes;
use super::reads::{Keys, reading_one};
use crate::catalog::Run;
use crate::clock;
use crate::load::{Load, Loaded, Names, Shape, empty_store, insert, next_attempt};
use crate::measure::{Contest, Measurement};
use crate::random::Random;
use crate::report::CaseReport;
use anyhow::Context;
use rollcall_schema::{NamePool, Row};
use rollcall_store::{Batch, Order, Query, RowNumber, Snapshot, Store, Writer};
use rollcall_types::{AgentRow, JobRow, SpecRow, Task, TaskState};
use std::sync::Arc;

/// Changes before anything is compared.
const CHANGES: usize = 10_000_000;

/// The same when only seen to run.
const CHANGES_QUICK: usize = 20_000;

/// Commands in one commit.
const BATCH: usize = 256;

/// Ten million changes; then the store is compared with a fresh one of the same rows: figures are indexed reads of either, ours the churned one's.
pub(super) fn churn(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let shape = Shape::usual(run.size);
    let before = live_bytes()?;
    let mut churn = Churn::new(Load::new(shape).stored()?)?;
    let changes = churn.run(if run.effort.quick { CHANGES_QUICK } else { CHANGES });
    let (store, writer) = churn.into_store();
    let with_history = live_bytes()? - before;
    store.release_history();
    let churned = live_bytes()? - before;
    let (fresh, fresh_writer) = fresh_copy(&store)?;
    let loaded = live_bytes()? - before - churned;

    let names = Load::new(shape).names;
    let turns = |store| reading_one(store, Keys::new(&names.jobs, shape));
    let contest = Contest::new(&run.case, turns(&store))
        .floor("the same reads of the fresh store", turns(&fresh))
        .block(super::reads::FAST_BLOCK);
    let tasks = store.snapshot().table::<Task>().len() as f64;
    let mut report = contest.run(run.effort).weighing(churned as f64 / tasks, loaded as f64 / tasks);
    report.errors += changes.errors;
    drop((writer, fresh_writer));
    let share = |bytes: u64| bytes as f64 / loaded as f64;
    let cpu = changes.cpu.as_secs_f64() * 1e6 / changes.ops as f64;
    Ok(report
        .note(format!(
            "{} changes in batches of {BATCH}: {:.1} k/s, {cpu:.2} us of processor time each",
            changes.ops,
            changes.ops_per_second() / 1e3
        ))
        .note(format!("live bytes: {churned}, {:.3} of a fresh load of the same rows ({loaded})", share(churned)))
        .note(format!("with old versions and the watch ring: {with_history}, {:.3}", share(with_history))))
}

/// A store whose tasks live and die: of ten commands six move an active task on, two end one, which moves it to another partition, and two
/// delete an ended one and insert a new one in its slot. So each task is moved on three times in its life, and the counts stay as they are.
struct Churn {
    names: Names,
    store: Arc<Store>,
    writer: Writer,
    random: Random,
    /// Active tasks, by how far they have come: pending, starting, running, stopping.
    active: [Vec<RowNumber>; 4],
    ended: Vec<RowNumber>,
}

const STAGES: [TaskState; 4] = [TaskState::Pending, TaskState::Starting, TaskState::Running, TaskState::Stopping];

impl Churn {
    fn new(loaded: Loaded) -> anyhow::Result<Churn> {
        let Loaded { names, store, writer, .. } = loaded;
        let (mut active, mut ended) = (<[Vec<RowNumber>; 4]>::default(), Vec::new());
        for row in store.snapshot().table::<Task>().select(Query::all())? {
            let stage = STAGES.iter().position(|stage| *stage == row.row().state);
            stage.map_or(&mut ended, |stage| &mut active[stage]).push(row.number);
        }
        Ok(Churn { names, store, writer, random: Random::new(8), active, ended })
    }

    fn into_store(self) -> (Arc<Store>, Writer) {
        (self.store, self.writer)
    }

    fn run(&mut self, changes: usize) -> Measurement {
        let mut measurement = Measurement::new();
        measurement.section(|measurement| {
            for _ in 0..changes / BATCH {
                measurement.time(BATCH as u64, || self.commit());
            }
        });
        measurement
    }

    /// One batch of commands; gives how many failed.
    fn commit(&mut self) -> u64 {
        let Churn { names, writer, random, active, ended, .. } = self;
        let mut batch = writer.begin(clock::now());
        let mut failed = 0;
        for _ in 0..BATCH {
            let result = match random.below(10) {
                0..6 => move_on(&mut batch, names, random, active),
                6..8 => end(&mut batch, random, active, ended),
                _ => replace(&mut batch, random, &mut active[0], ended),
            };
            failed += u64::from(result.is_err());
        }
        if let Some(prepared) = batch.prepare() {
            writer.publish(prepared);
        }
        failed
    }
}

/// Takes a random item out of a list.
fn take_any<T>(random: &mut Random, list: &mut Vec<T>) -> Option<T> {
    (!list.is_empty()).then(|| list.swap_remove(random.below(list.len())))
}

/// An active task goes on to its next state.
fn move_on(
    batch: &mut Batch<'_>,
    names: &Names,
    random: &mut Random,
    active: &mut [Vec<RowNumber>; 4],
) -> anyhow::Result<()> {
    let movable = active[..3].iter().map(Vec::len).sum::<usize>();
    let mut at = random.below(movable.max(1));
    let mut stage = 0;
    while stage < 2 && at >= active[stage].len() {
        at -= active[stage].len();
        stage += 1;
    }
    let number = take_any(random, &mut active[stage]).context("no task can be moved on")?;
    let agent = names.any_agent(random);
    change(batch, number, STAGES[stage + 1], |task| {
        task.agent.get_or_insert(agent);
    })?;
    active[stage + 1].push(number);
    Ok(())
}

/// An active task ends, and so moves to another partition.
fn end(
    batch: &mut Batch<'_>,
    random: &mut Random,
    active: &mut [Vec<RowNumber>; 4],
    ended: &mut Vec<RowNumber>,
) -> anyhow::Result<()> {
    let stage = (0..4).rev().find(|stage| !active[*stage].is_empty()).context("no task is active")?;
    let number = take_any(random, &mut active[stage]).context("no task is active")?;
    change(batch, number, TaskState::Stopped, |_| {})?;
    ended.push(number);
    Ok(())
}

fn change(
    batch: &mut Batch<'_>,
    number: RowNumber,
    state: TaskState,
    also: impl FnOnce(&mut Task),
) -> anyhow::Result<()> {
    batch.attempt(|change| {
        let row = change.table::<Task>().get(number).context("the task is gone")?;
        let mut task = row.row().moved(state, change.now(), None, 0).context("the move is not legal")?;
        also(&mut task);
        Ok(change.update(number, task)?)
    })
}

/// An ended task is deleted, and a new one inserted in its slot.
fn replace(
    batch: &mut Batch<'_>,
    random: &mut Random,
    pending: &mut Vec<RowNumber>,
    ended: &mut Vec<RowNumber>,
) -> anyhow::Result<()> {
    let number = take_any(random, ended).context("no task has ended")?;
    let inserted = batch.attempt(|change| {
        let row = change.table::<Task>().get(number).context("the task is gone")?;
        let task = next_attempt(row.row(), change.now(), random);
        change.delete::<Task>(number)?;
        Ok::<_, anyhow::Error>(change.insert(task)?)
    })?;
    pending.push(inserted);
    Ok(())
}

/// Another store of the same rows, in the order of their arrival. Nothing is shared with the first one, names and texts neither.
fn fresh_copy(store: &Store) -> anyhow::Result<(Arc<Store>, Writer)> {
    let (fresh, mut writer) = empty_store();
    let (snapshot, mut names) = (store.snapshot(), NamePool::default());
    copy_rows::<AgentRow>(&snapshot, &mut writer, &mut names)?;
    copy_rows::<SpecRow>(&snapshot, &mut writer, &mut names)?;
    copy_rows::<JobRow>(&snapshot, &mut writer, &mut names)?;
    copy_rows::<Task>(&snapshot, &mut writer, &mut names)?;
    fresh.release_history();
    Ok((fresh, writer))
}

fn copy_rows<R: Row>(snapshot: &Snapshot, writer: &mut Writer, names: &mut NamePool) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    let copies: Result<Vec<R>, _> = snapshot
        .table::<R>()
        .select(Query::all().order(Order::Number))?
        .map(|row| {
            bytes.clear();
            row.row().encode(&mut bytes);
            R::decode(&bytes, names)
        })
        .collect();
    Ok(insert(writer, copies?)?)
}
