//! The load: the rows that a cluster of some size has, the same on every machine.
//!
//! Jobs are spread over namespaces, each namespace with a user of its own. Every instance of every job has one task; one task in ten is active, the others
//! have ended. Tasks arrive in random order, so that no index is filled in its own order, and have random identities and agents.

use crate::clock;
use crate::random::Random;
use rollcall_schema::{Row, SharedText, Time, Unknown};
use rollcall_store::{ChangeError, Snapshot, Store, StoreLimits, Stored, Writer};
use rollcall_types::{
    AgentName, AgentRow, AgentState, CauseCode, Event, Events, JobKind, JobName, JobRow, Namespace, SpecHash, SpecRow,
    Task, TaskState, Uid, UserName,
};
use std::sync::Arc;

/// Jobs of a usual load.
pub(crate) const JOBS: usize = 1_000;

/// Agents of every load.
pub(crate) const AGENTS: usize = 1_000;

/// Distinct specs of every load.
pub(crate) const SPECS: usize = 1_000;

/// Namespaces of every load.
pub(crate) const NAMESPACES: usize = 100;

/// Of so many tasks one is active.
const ONE_ACTIVE_OF: usize = 10;

/// Bytes of the text of a spec: about what the configuration of a task of Aurora's benchmarks has as JSON.
const SPEC_TEXT_BYTES: usize = 800;

const SEED: u64 = 20_180_119;

const CPUS_THOUSANDTHS: u32 = 6_000;
const MEMORY_BYTES: u64 = 8 << 30;
const DISK_BYTES: u64 = 128 << 30;

/// How many jobs a load has, and of how many instances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) jobs: usize,
    pub(crate) instances: usize,
}

impl Shape {
    /// The usual load: a thousand jobs share all tasks.
    pub(crate) fn usual(tasks: usize) -> Shape {
        let jobs = JOBS.min(tasks);
        Shape { jobs, instances: (tasks / jobs).max(1) }
    }

    /// Jobs of a hundred instances.
    pub(crate) fn of_hundreds(tasks: usize) -> Shape {
        Shape { jobs: (tasks / 100).max(1), instances: 100 }
    }

    pub(crate) fn tasks(self) -> usize {
        self.jobs * self.instances
    }
}

/// The names that rows of a load share.
#[derive(Clone)]
pub(crate) struct Names {
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) users: Vec<UserName>,
    pub(crate) jobs: Vec<JobName>,
    pub(crate) agents: Vec<AgentName>,
    pub(crate) specs: Vec<SpecHash>,
}

impl Names {
    fn new(shape: Shape, random: &mut Random) -> Names {
        Names {
            namespaces: (0..NAMESPACES).map(|at| Namespace::from(&*format!("team-{at:03}"))).collect(),
            users: (0..NAMESPACES).map(|at| UserName::from(&*format!("team-{at:03}-user"))).collect(),
            jobs: (0..shape.jobs).map(|at| JobName::from(&*format!("job-{at:05}"))).collect(),
            agents: (0..AGENTS).map(|at| AgentName::from(&*format!("agent-{at:04}"))).collect(),
            specs: (0..SPECS).map(|_| SpecHash(random.identifier())).collect(),
        }
    }

    pub(crate) fn any_agent(&self, random: &mut Random) -> AgentName {
        self.agents[random.below(self.agents.len())].clone()
    }
}

/// The rows of a load, before they are in a store.
pub(crate) struct Load {
    pub(crate) shape: Shape,
    pub(crate) names: Names,
    random: Random,
}

impl Load {
    pub(crate) fn new(shape: Shape) -> Load {
        let mut random = Random::new(SEED);
        let names = Names::new(shape, &mut random);
        Load { shape, names, random }
    }

    /// All tasks, in the order in which they arrive.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = Task> {
        let mut random = self.random.clone();
        let mut order: Vec<u32> = (0..self.shape.tasks() as u32).collect();
        random.shuffle(&mut order);
        order.into_iter().enumerate().map(move |(arrival, slot)| self.task(arrival, slot as usize, &mut random))
    }

    fn task(&self, arrival: usize, slot: usize, random: &mut Random) -> Task {
        let (job, instance) = (slot / self.shape.instances, slot % self.shape.instances);
        let state = state_of(arrival);
        let pending = new_task(&self.names, job, instance as u32, random);
        let agent = (state != TaskState::Pending).then(|| self.names.any_agent(random));
        let cause = (state == TaskState::Failed).then_some(CauseCode::ExitNonzero);
        let (first, second) = (Time::from_micros(0), Time::from_micros(1));
        let ended = !state.is_active();
        Task {
            agent,
            state,
            cause,
            cause_text: cause.map(|_| SharedText::from("the main process ended with exit code 1")),
            started: (ended || state == TaskState::Running).then_some(first),
            ended: ended.then_some(second),
            pid: (state == TaskState::Running).then(|| 1_000 + random.below(1 << 20) as u32),
            events: pending.events.with(Event { at: second, detail: 0, repeats: 0, state, cause }),
            ..pending
        }
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = JobRow> {
        let mut random = self.random.clone();
        let names = &self.names;
        names.jobs.iter().enumerate().map(move |(at, job)| JobRow {
            uid: Uid(random.identifier()),
            namespace: names.namespaces[at % NAMESPACES].clone(),
            job: job.clone(),
            kind: JobKind::Service,
            user: names.users[at % NAMESPACES].clone(),
            instances: self.shape.instances as u32,
            spec: names.specs[at % SPECS],
            stopped: false,
            created: Time::from_micros(0),
            changed: Time::from_micros(0),
            spec_number: 1,
            unknown: Unknown::default(),
        })
    }

    pub(crate) fn specs(&self) -> impl Iterator<Item = SpecRow> {
        self.names.specs.iter().enumerate().map(|(at, spec)| SpecRow {
            spec: *spec,
            namespace: self.names.namespaces[at % NAMESPACES].clone(),
            text: spec_text(*spec),
            created: Time::from_micros(0),
            unknown: Unknown::default(),
        })
    }

    pub(crate) fn agents(&self) -> impl Iterator<Item = AgentRow> {
        let namespace = Namespace::from("cluster");
        self.names.agents.iter().map(move |agent| AgentRow {
            agent: agent.clone(),
            namespace: namespace.clone(),
            state: AgentState::Ready,
            cpus_thousandths: 64_000,
            memory_bytes: 256 << 30,
            disk_bytes: 4 << 40,
            joined: Time::from_micros(0),
            unknown: Unknown::default(),
        })
    }

    /// A store that holds the load.
    pub(crate) fn stored(self) -> Result<Loaded, ChangeError> {
        let (store, mut writer) = empty_store();
        self.insert_all_but_tasks(&mut writer)?;
        insert(&mut writer, self.tasks())?;
        store.release_history();
        Ok(Loaded { names: self.names, shape: self.shape, store, writer })
    }

    pub(crate) fn insert_all_but_tasks(&self, writer: &mut Writer) -> Result<(), ChangeError> {
        insert(writer, self.agents())?;
        insert(writer, self.specs())?;
        insert(writer, self.jobs())
    }
}

/// The text of a spec: of the usual length, and different for each.
pub(crate) fn spec_text(spec: SpecHash) -> SharedText {
    let mut text = format!("{spec} ").repeat(SPEC_TEXT_BYTES / 32);
    text.truncate(SPEC_TEXT_BYTES);
    SharedText::from(text)
}

/// The state of the task that arrives at this place: exactly one in ten active.
fn state_of(arrival: usize) -> TaskState {
    let turn = arrival / ONE_ACTIVE_OF % 10;
    match (arrival.is_multiple_of(ONE_ACTIVE_OF), turn) {
        (true, 0) => TaskState::Pending,
        (true, 1) => TaskState::Starting,
        (true, 2) => TaskState::Stopping,
        (true, _) => TaskState::Running,
        (false, 0) => TaskState::Failed,
        (false, 1) => TaskState::Stopped,
        (false, _) => TaskState::Finished,
    }
}

/// A task that nobody has given to an agent yet.
pub(crate) fn new_task(names: &Names, job: usize, instance: u32, random: &mut Random) -> Task {
    let created = Time::from_micros(0);
    Task {
        uid: Uid(random.identifier()),
        namespace: names.namespaces[job % NAMESPACES].clone(),
        job: names.jobs[job].clone(),
        instance,
        attempt: 1,
        spec: names.specs[job % SPECS],
        user: names.users[job % NAMESPACES].clone(),
        agent: None,
        state: TaskState::Pending,
        cause: None,
        cause_text: None,
        cpus_thousandths: CPUS_THOUSANDTHS,
        memory_bytes: MEMORY_BYTES,
        disk_bytes: DISK_BYTES,
        created,
        started: None,
        ended: None,
        pid: None,
        events: first_events(created),
        unknown: Unknown::default(),
    }
}

/// The next attempt to fill the slot of a task.
pub(crate) fn next_attempt(task: &Task, now: Time, random: &mut Random) -> Task {
    Task {
        uid: Uid(random.identifier()),
        attempt: task.attempt + 1,
        agent: None,
        state: TaskState::Pending,
        cause: None,
        cause_text: None,
        created: now,
        started: None,
        ended: None,
        pid: None,
        events: first_events(now),
        ..task.clone()
    }
}

fn first_events(at: Time) -> Events {
    Events::default().with(Event { at, detail: 0, repeats: 0, state: TaskState::Pending, cause: None })
}

/// A store with a load in it.
pub(crate) struct Loaded {
    pub(crate) names: Names,
    pub(crate) shape: Shape,
    pub(crate) store: Arc<Store>,
    pub(crate) writer: Writer,
}

impl Loaded {
    pub(crate) fn usual(tasks: usize) -> Result<Loaded, ChangeError> {
        Load::new(Shape::usual(tasks)).stored()
    }
}

/// A store without rows, with the default limits.
pub(crate) fn empty_store() -> (Arc<Store>, Writer) {
    Store::builder(StoreLimits::default())
        .table::<Task>()
        .table::<JobRow>()
        .table::<SpecRow>()
        .table::<AgentRow>()
        .build()
}

/// Inserts rows in batches of one command, each as large as a command may be.
pub(crate) fn insert<R: Row>(writer: &mut Writer, rows: impl IntoIterator<Item = R>) -> Result<(), ChangeError> {
    let command_rows = writer.store().limits().command_rows_max;
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let mut batch = writer.begin(clock::now());
        batch.attempt(|change| rows.by_ref().take(command_rows).try_for_each(|row| change.insert(row).map(drop)))?;
        if let Some(prepared) = batch.prepare() {
            std::hint::black_box(prepared.record());
            writer.publish(prepared);
        }
    }
    Ok(())
}

/// All tasks of a snapshot, shared, in the order in which the store reads them: the plain list that floors work on.
pub(crate) fn plain_list(snapshot: &Snapshot) -> Vec<Arc<Stored<Task>>> {
    let rows = snapshot.table::<Task>().select(rollcall_store::Query::all());
    rows.map_or_else(|_| Vec::new(), |rows| rows.map(|row| row.stored.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::{Load, Shape};
    use rollcall_types::Task;
    use std::collections::HashSet;

    #[test]
    fn every_instance_has_one_task_and_one_in_ten_is_active() {
        let load = Load::new(Shape::usual(10_000));
        let tasks: Vec<Task> = load.tasks().collect();
        let slots: HashSet<_> = tasks.iter().map(|task| (task.job.clone(), task.instance)).collect();
        assert_eq!((tasks.len(), slots.len()), (10_000, 10_000));
        assert_eq!(tasks.iter().filter(|task| task.is_active()).count(), 1_000);
        assert!(tasks.iter().all(|task| task.events.iter().count() <= 2));
        assert_eq!(tasks, load.tasks().collect::<Vec<_>>());
        assert_eq!(load.specs().map(|spec| spec.text).collect::<HashSet<_>>().len(), 1_000);
    }

    #[test]
    fn a_loaded_store_holds_every_row() {
        let loaded = Load::new(Shape::of_hundreds(2_000)).stored().expect("the load fits the limits");
        let snapshot = loaded.store.snapshot();
        let counts: Vec<_> = snapshot.tables().map(|table| (table.schema().name, table.row_count())).collect();
        assert_eq!(counts, [("tasks", 2_000), ("jobs", 20), ("specs", 1_000), ("agents", 1_000)]);
    }
}
