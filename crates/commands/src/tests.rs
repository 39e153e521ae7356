//! Commands on a real store.

use crate::{
    Command, CommandError, HistoryBounds, JobChange, LoseTasks, PlaceTask, RegisterAgent, Report, ReportTask, StopJob,
    SubmitJob, TrimHistory,
};
use rollcall_schema::Time;
use rollcall_store::{Order, Query, Store, StoreLimits, Version, Writer};
use rollcall_types::{AgentRow, CauseCode, JobKind, JobRow, SpecHash, SpecRow, Task, TaskState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// In place of a random number: no two submissions draw the same.
static DRAWN: AtomicU64 = AtomicU64::new(1);

struct World {
    store: Arc<Store>,
    writer: Writer,
    now: i64,
}

impl World {
    fn new() -> World {
        let builder = Store::builder(StoreLimits::default());
        let (store, writer) = builder.table::<Task>().table::<JobRow>().table::<SpecRow>().table::<AgentRow>().build();
        World { store, writer, now: 0 }
    }

    fn run<C: Command>(&mut self, command: C) -> Result<C::Answer, CommandError> {
        self.now += 1;
        let mut batch = self.writer.begin(Time::from_micros(self.now));
        let answer = batch.attempt(|change| command.apply(change));
        if let Some(prepared) = batch.prepare() {
            self.writer.publish(prepared);
        }
        answer
    }

    fn tasks(&self) -> Vec<Task> {
        let snapshot = self.store.snapshot();
        let rows = snapshot.table::<Task>().select(Query::all().order(Order::Number)).unwrap();
        rows.map(|task| task.row().clone()).collect()
    }

    fn states(&self) -> Vec<(String, TaskState)> {
        self.tasks().into_iter().map(|task| (task.name(), task.state)).collect()
    }

    fn place_all(&mut self) {
        let snapshot = self.store.snapshot();
        let pending = snapshot.table::<Task>().select(Query::all().equal(Task::STATE, TaskState::Pending)).unwrap();
        for task in pending {
            self.run(PlaceTask { task: task.number, read_at: snapshot.version(), agent: "n1".into() }).unwrap();
        }
    }

    fn report(&mut self, task: &Task, state: TaskState) -> Result<(), CommandError> {
        let cause = (state == TaskState::Failed).then_some(CauseCode::ExitNonzero);
        let report = Report { state, cause, detail: 7, text: None, pid: Some(99), at: None };
        self.run(ReportTask { task: task.uid, agent: "n1".into(), report })
    }
}

fn submit(job: &str, instances: u32, spec: u128) -> SubmitJob {
    SubmitJob {
        namespace: "default".into(),
        job: job.into(),
        kind: JobKind::Service,
        user: "nobody".into(),
        instances,
        spec: SpecHash(spec),
        spec_text: format!("spec {spec}").into(),
        cpus_thousandths: 250,
        memory_bytes: 64 << 20,
        disk_bytes: 0,
        random: u128::from(DRAWN.fetch_add(1, Ordering::Relaxed)) << 64,
    }
}

fn agent() -> RegisterAgent {
    RegisterAgent { agent: "n1".into(), cpus_thousandths: 2000, memory_bytes: 1 << 30, disk_bytes: 1 << 30 }
}

#[test]
fn a_job_lives_through_submission_change_and_stop() {
    let mut world = World::new();
    world.run(agent()).unwrap();
    let first = world.run(submit("web", 2, 1)).unwrap();
    assert_eq!((first.change, first.tasks.len()), (JobChange::New, 2));
    assert_eq!(world.run(submit("web", 2, 1)).unwrap().change, JobChange::Unchanged);
    world.place_all();
    for task in world.tasks() {
        world.report(&task, TaskState::Running).unwrap();
        world.report(&task, TaskState::Running).unwrap();
    }
    let used = world.store.snapshot().table::<Task>().totals("by_agent", &["n1".into()], None).unwrap();
    assert_eq!((used.count, used.sums), (2, vec![500, 128 << 20, 0]));

    let second = world.run(submit("web", 1, 2)).unwrap();
    assert_eq!((second.change, second.spec_number), (JobChange::Changed, 2));
    for task in world.tasks().iter().filter(|task| task.state == TaskState::Stopping) {
        assert_eq!(task.cause, Some(CauseCode::Superseded));
        // It was told to stop, so its failure is no failure.
        world.report(task, TaskState::Failed).unwrap();
    }
    let expected = [("web.0.1", TaskState::Stopped), ("web.1.1", TaskState::Stopped), ("web.0.2", TaskState::Pending)];
    assert_eq!(world.states(), expected.map(|(name, state)| (name.to_owned(), state)));
    assert_eq!(world.tasks()[0].events.iter().count(), 5);

    let stop = |instance| StopJob { namespace: "default".into(), job: "web".into(), instance };
    assert!(matches!(world.run(stop(Some(1))), Err(CommandError::NoSuchInstance { .. })));
    assert_eq!(world.run(stop(None)).unwrap().tasks.len(), 1);
    assert_eq!(world.tasks()[2].state, TaskState::Stopped);
    assert_eq!(world.run(submit("web", 1, 2)).unwrap().change, JobChange::New);
    assert_eq!(world.tasks()[3].name(), "web.0.3");
}

#[test]
fn what_was_decided_on_an_old_snapshot_is_checked_again() {
    let mut world = World::new();
    world.run(submit("web", 1, 1)).unwrap();
    let snapshot = world.store.snapshot();
    let number = snapshot.table::<Task>().select(Query::all()).unwrap().next().unwrap().number;
    let place = |read_at| PlaceTask { task: number, read_at, agent: "n1".into() };
    assert_eq!(world.run(place(snapshot.version())), Err(CommandError::NoSuchAgent("n1".into())));
    world.run(agent()).unwrap();
    assert!(matches!(world.run(place(Version(0))), Err(CommandError::Change(_))));
    world.run(place(snapshot.version())).unwrap();
    assert!(matches!(world.run(place(snapshot.version())), Err(CommandError::Change(_))));
    let task = world.tasks().remove(0);
    let report = Report { state: TaskState::Running, cause: None, detail: 0, text: None, pid: None, at: None };
    let stranger = ReportTask { task: task.uid, agent: "n2".into(), report };
    assert!(matches!(world.run(stranger), Err(CommandError::NotGiven { .. })));
    world.report(&task, TaskState::Finished).unwrap();
    assert!(matches!(world.report(&task, TaskState::Running), Err(CommandError::IllegalMove { .. })));
}

#[test]
fn an_agent_that_starts_anew_ends_what_it_had() {
    let mut world = World::new();
    world.run(agent()).unwrap();
    world.run(submit("web", 3, 1)).unwrap();
    world.place_all();
    let lose = || LoseTasks { agent: "n1".into(), tasks_max: 2 };
    assert_eq!([world.run(lose()), world.run(lose()), world.run(lose())], [Ok(2), Ok(1), Ok(0)]);
    assert!(
        world.tasks().iter().all(|task| (task.state, task.cause) == (TaskState::Failed, Some(CauseCode::AgentLost)))
    );
}

#[test]
fn history_keeps_the_newest_within_its_bounds() {
    let mut world = World::new();
    for _ in 0..30 {
        world.run(submit("web", 2, 1)).unwrap();
        world.run(StopJob { namespace: "default".into(), job: "web".into(), instance: None }).unwrap();
    }
    let trim = |tasks_max, bytes_max| TrimHistory {
        namespace: "default".into(),
        bounds: HistoryBounds { tasks_max, bytes_max },
    };
    let trimmed = world.run(trim(10, u64::MAX)).unwrap();
    assert_eq!((trimmed.tasks, trimmed.more), (50, false));
    assert_eq!(world.tasks()[0].attempt, 26);
    let bytes = world.tasks()[0].history_bytes();
    world.run(trim(10, bytes * 4)).unwrap();
    assert_eq!(world.tasks().len(), 4);
}
