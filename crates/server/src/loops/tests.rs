//! The loops on a real writer and a real disk.

use super::{Loop, keep_house, place};
use crate::{WriterHandle, WriterSettings};
use rollcall_commands::{HistoryBounds, RegisterAgent, StopJob, SubmitJob};
use rollcall_log::{Epoch, Options, RealDisk};
use rollcall_store::{Query, Snapshot, StoreLimits};
use rollcall_types::{CauseCode, JobKind, SpecHash, Task, TaskState};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;

/// Long enough for anything that works; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

fn start() -> (TempDir, Loop) {
    let folder = TempDir::new().expect("a temporary folder");
    let disk = RealDisk::new(folder.path()).expect("is made");
    let (newest, changes) = watch::channel(Default::default());
    let tables = crate::builder(StoreLimits::default()).on_publish(Box::new(move |version| {
        newest.send_replace(version);
    }));
    let opened = crate::open(disk, Options::new(Epoch(1), 1, "0"), tables).expect("is empty");
    // The threads end with the last handle.
    let (writer, _) = WriterHandle::start(opened.writer, opened.log, WriterSettings::new()).expect("starts");
    (folder, Loop { writer, changes })
}

fn submit(job: &str, random: u128) -> SubmitJob {
    SubmitJob {
        namespace: "default".into(),
        job: job.into(),
        kind: JobKind::Service,
        user: "nobody".into(),
        instances: 3,
        spec: SpecHash(1),
        spec_text: "{}".into(),
        cpus_thousandths: 1000,
        memory_bytes: 1,
        disk_bytes: 0,
        random: random << 64,
    }
}

/// Waits until a snapshot is as it should be.
async fn until(on: &mut Loop, done: impl Fn(&Snapshot) -> bool) {
    let waiting = async {
        loop {
            on.changes.borrow_and_update();
            if done(&on.writer.store().snapshot()) {
                return;
            }
            on.changes.changed().await.expect("the store lives");
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("comes to pass");
}

fn count(snapshot: &Snapshot, state: TaskState, cause: Option<CauseCode>) -> usize {
    let tasks = snapshot.table::<Task>().select(Query::all().equal(Task::STATE, state)).expect("fits");
    tasks.filter(|task| task.row().cause == cause).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_tasks_are_placed_or_explained_as_soon_as_something_changes() {
    let (_folder, mut on) = start();
    let placing = tokio::spawn(place(on.clone()));
    on.writer.run(submit("web", 1)).await.expect("is new");
    until(&mut on, |snapshot| count(snapshot, TaskState::Pending, Some(CauseCode::NoAgents)) == 3).await;
    let agent = RegisterAgent { agent: "n1".into(), cpus_thousandths: 2000, memory_bytes: 1 << 30, disk_bytes: 0 };
    on.writer.run(agent).await.expect("registers");
    until(&mut on, |snapshot| {
        count(snapshot, TaskState::Starting, None) == 2
            && count(snapshot, TaskState::Pending, Some(CauseCode::NoFit)) == 1
    })
    .await;
    placing.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_kept_within_its_bounds() {
    let (_folder, mut on) = start();
    let bounds = HistoryBounds { tasks_max: 4, bytes_max: u64::MAX };
    let keeping = tokio::spawn(keep_house(on.clone(), bounds));
    for round in 1..=5 {
        on.writer.run(submit("web", round)).await.expect("is new");
        let stop = StopJob { namespace: "default".into(), job: "web".into(), instance: None };
        on.writer.run(stop).await.expect("is there");
    }
    until(&mut on, |snapshot| snapshot.table::<Task>().len() == 4).await;
    let snapshot = on.writer.store().snapshot();
    let oldest = snapshot.table::<Task>().select(Query::all()).expect("fits").map(|task| task.row().attempt).min();
    assert_eq!(oldest, Some(4), "the newest stay");
    keeping.abort();
}
