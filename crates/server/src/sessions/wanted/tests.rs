//! Rows in, wanted tasks out.

use super::{LOGS_KEPT_MAX, Wants};
use rollcall_agent::{Intent, TaskUid, WantedTask};
use rollcall_commands::{Command, PlaceTask, RegisterAgent, Report, ReportTask, StopJob, SubmitJob, TrimHistory};
use rollcall_schema::Time;
use rollcall_store::{Query, Snapshot, Store, StoreLimits, Stored, Watch, Writer};
use rollcall_types::{JobFile, Task, TaskState, example_web};
use std::sync::Arc;

struct World {
    store: Arc<Store>,
    writer: Writer,
    commands: i64,
    wants: Wants,
    watch: Watch,
}

impl World {
    fn new() -> World {
        let (store, writer) = crate::builder(StoreLimits::default()).build();
        let agent = "n1".into();
        let watch = super::watch_of(&agent, &store, store.snapshot().version());
        let mut world = World { store, writer, commands: 0, wants: Wants::new(agent), watch };
        world.run(RegisterAgent { agent: "n1".into(), cpus_thousandths: 8000, memory_bytes: 1 << 40, disk_bytes: 0 });
        world
    }

    fn run<C: Command>(&mut self, command: C) -> C::Answer {
        self.commands += 1;
        let mut batch = self.writer.begin(Time::from_micros(self.commands));
        let answer = batch.attempt(|change| command.apply(change)).expect("the command fits the world");
        if let Some(prepared) = batch.prepare() {
            self.writer.publish(prepared);
        }
        answer
    }

    /// Submits the example with so many instances and places all of them.
    fn start(&mut self, instances: u32) {
        let job = JobFile::parse(example_web(), "web.toml").expect("is right");
        let spec_text = crate::specs::canonical_text(&job);
        let random = (self.commands as u128) << 64;
        self.run(SubmitJob {
            namespace: "default".into(),
            job: "web".into(),
            kind: job.kind,
            user: "nobody".into(),
            instances,
            spec: crate::specs::hash(&spec_text),
            spec_text,
            cpus_thousandths: 1,
            memory_bytes: 1,
            disk_bytes: 0,
            random,
        });
        let snapshot = self.store.snapshot();
        let pending = Query::all().equal(Task::STATE, TaskState::Pending);
        for task in snapshot.table::<Task>().select(pending).expect("fits") {
            self.run(PlaceTask { task: task.number, read_at: snapshot.version(), agent: "n1".into() });
        }
    }

    fn end(&mut self, task: &Task) {
        let report = Report { state: TaskState::Finished, cause: None, detail: 0, text: None, pid: None, at: None };
        self.run(ReportTask { task: task.uid, agent: "n1".into(), report });
    }

    fn tasks(&self, snapshot: &Snapshot) -> Vec<Task> {
        snapshot.table::<Task>().select(Query::all()).expect("fits").map(|task| task.row().clone()).collect()
    }

    /// What the changes since the last call mean.
    fn changes(&mut self) -> Vec<WantedTask> {
        let snapshot = self.store.snapshot();
        for event in self.watch.next(&self.store, None, usize::MAX).expect("nothing is compacted") {
            let task = event.row().as_any().downcast_ref::<Stored<Task>>().expect("is a task");
            self.wants.note(&snapshot, &task.row, event.kind);
        }
        self.wants.take()
    }
}

fn intents(tasks: &[WantedTask]) -> Vec<Intent> {
    tasks.iter().map(|task| task.intent).collect()
}

#[test]
fn tasks_are_wanted_when_placed_and_stopped_when_told() {
    let mut world = World::new();
    world.start(1);
    let wanted = world.changes();
    assert_eq!((intents(&wanted), wanted[0].name.as_str()), (vec![Intent::Run], "web.0.1"));
    assert_eq!(wanted[0].spec.environment["GREETING"], "Hello from rollcall");
    world.run(StopJob { namespace: "default".into(), job: "web".into(), instance: None });
    assert_eq!(intents(&world.changes()), [Intent::Stop]);
    let task = world.tasks(&world.store.snapshot()).remove(0);
    world.end(&task);
    assert_eq!(world.changes(), [], "its logs are kept");
    let bounds = rollcall_commands::HistoryBounds { tasks_max: 0, bytes_max: 0 };
    world.run(TrimHistory { namespace: "default".into(), bounds });
    let gone = world.changes();
    assert_eq!((intents(&gone), gone[0].uid), (vec![Intent::Forget], TaskUid(task.uid.0)));
}

#[test]
fn everything_at_once_is_what_the_changes_were_and_nothing_that_has_ended() {
    let mut world = World::new();
    world.start(3);
    let mut changed: Vec<_> = world.changes().into_iter().map(|task| task.uid).collect();
    let snapshot = world.store.snapshot();
    world.end(&world.tasks(&snapshot)[1].clone());
    let snapshot = world.store.snapshot();
    world.wants.note_all(&snapshot);
    let all = world.wants.take();
    let ended = TaskUid(world.tasks(&snapshot).iter().find(|task| !task.is_active()).expect("one has").uid.0);
    changed.retain(|uid| *uid != ended);
    assert_eq!(all.iter().map(|task| task.uid).collect::<Vec<_>>(), changed);
    world.wants.stopping = true;
    world.wants.note_all(&snapshot);
    assert_eq!(intents(&world.wants.take()), [Intent::Stop; 2]);
}

#[test]
fn only_the_newest_ended_tasks_keep_their_logs() {
    let mut world = World::new();
    let mut forgotten = Vec::new();
    let mut ended = Vec::new();
    for _ in 0..LOGS_KEPT_MAX.div_ceil(500) + 1 {
        world.start(500);
        let active: Vec<Task> = world.tasks(&world.store.snapshot()).into_iter().filter(Task::is_active).collect();
        for task in active {
            world.end(&task);
            ended.push(TaskUid(task.uid.0));
        }
        forgotten.extend(world.changes().into_iter().filter(|task| task.intent == Intent::Forget).map(|task| task.uid));
        world.run(StopJob { namespace: "default".into(), job: "web".into(), instance: None });
    }
    assert_eq!(forgotten, ended[..ended.len() - LOGS_KEPT_MAX]);
    let snapshot = world.store.snapshot();
    world.wants.note_all(&snapshot);
    assert_eq!((world.wants.take().len(), world.wants.ended.len()), (0, LOGS_KEPT_MAX));
}
