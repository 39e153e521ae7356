//! The ancestor's cases, with its counts, its queries and its cardinality: one job, all tasks of it pending, one spec, no agents. What was role,
//! environment and job is a namespace and a job name; the rest of a task's configuration is one opaque spec of equal size.

use super::reads::{FAST_BLOCK, LOOK_UP, fetch_all_of, is_wanted, plain_map};
use crate::catalog::Run;
use crate::load::{Names, empty_store, insert, new_task, plain_list, spec_text};
use crate::measure::{Contest, repeat};
use crate::random::Random;
use crate::report::CaseReport;
use rollcall_schema::{Time, Unknown};
use rollcall_store::{ChangeError, Condition, Query, Store};
use rollcall_types::{Event, JobName, Namespace, SpecHash, SpecRow, Task, TaskState, UserName};
use std::sync::Arc;

fn names() -> Names {
    Names {
        namespaces: vec![Namespace::from("jmh/dev")],
        users: vec![UserName::from("jmh-user")],
        jobs: vec![JobName::from("benchmark")],
        agents: Vec::new(),
        specs: vec![SpecHash(0x6a6d_6800)],
    }
}

fn stored(names: &Names, tasks: usize) -> Result<Arc<Store>, ChangeError> {
    let (store, mut writer) = empty_store();
    let mut random = Random::new(7);
    let spec = SpecRow {
        spec: names.specs[0],
        namespace: names.namespaces[0].clone(),
        text: spec_text(names.specs[0]),
        created: Time::from_micros(0),
        unknown: Unknown::default(),
    };
    insert(&mut writer, [spec])?;
    let second = Event { at: Time::from_micros(1), detail: 0, repeats: 0, state: TaskState::Pending, cause: None };
    let task = |instance| {
        let task = new_task(names, 0, instance, &mut random);
        Task { events: task.events.with(second), ..task }
    };
    insert(&mut writer, (0..tasks as u32).map(task))?;
    store.release_history();
    Ok(store)
}

/// Everything is fetched and its size read.
pub(super) fn fetch_all(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    Ok(fetch_all_of(run, &*stored(&names(), run.size)?))
}

/// The tasks of one job whose instance is in a set of one are fetched, and their number read.
pub(super) fn indexed(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let names = names();
    let store = stored(&names, run.size)?;
    let (namespace, job) = (&names.namespaces[0], &names.jobs[0]);
    let ours = || {
        let snapshot = store.snapshot();
        let first = Condition::In { column: Task::INSTANCE.position(), values: vec![0u32.into()] };
        let query = Query::all().equal(Task::NAMESPACE, namespace).equal(Task::JOB, job).filter(first);
        let rows = snapshot.table::<Task>().select(query);
        rows.map_or(0, |rows| rows.filter(|row| is_wanted(row.row(), job, 0)).count()) == 1
    };
    let list = plain_list(&store.snapshot());
    let map = plain_map(&list);
    let floor = || map.get(&(&**job, 0)).is_some_and(|stored| is_wanted(&stored.row, job, 0));
    let contest =
        Contest::new(&run.case, repeat(FAST_BLOCK, ours)).floor(LOOK_UP, repeat(FAST_BLOCK, floor)).block(FAST_BLOCK);
    Ok(contest.run(run.effort))
}
