//! The row of a task.

use crate::{AgentName, CauseCode, Event, Events, JobName, Namespace, Section, SpecHash, TaskState, Uid, UserName};
use rollcall_schema::{Row, SharedText, Time, Unknown};

/// One attempt to fill an instance of a job.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(
    table = "tasks",
    number = 1,
    partition(namespace, section, user),
    computed(name = "active", with = Task::is_active, of = bool, doc = "Whether it runs, will run or is being stopped."),
    computed(name = "section", with = Task::section, of = Section, doc = "Whether it is live, unreachable or completed."),
    computed(name = "history_bytes", with = Task::history_bytes, of = u64, doc = "Bytes that it takes in the history of its namespace; zero while it is active."),
    index(name = "uid", columns(uid), unique),
    index(name = "job+instance", columns(job, instance)),
    index(name = "job+state", columns(job, state)),
    index(name = "state", columns(state)),
    index(name = "agent", columns(agent), only_where = active),
    index(name = "namespace+active", columns(namespace, active)),
    rollup(name = "by_agent", key(agent), sums(cpus_thousandths, memory_bytes, disk_bytes), only_where = active),
    rollup(name = "by_namespace", key(namespace, active), sums(cpus_thousandths, memory_bytes, disk_bytes, history_bytes)),
    rollup(name = "by_job_and_state", key(namespace, job, state), sums())
)]
pub struct Task {
    /// Its identity for ever.
    #[row(tag = 1)]
    pub uid: Uid,
    /// The namespace of its job.
    #[row(tag = 2)]
    pub namespace: Namespace,
    /// The name of its job.
    #[row(tag = 3)]
    pub job: JobName,
    /// The slot of the job that it fills, from 0.
    #[row(tag = 4)]
    pub instance: u32,
    /// Which attempt to fill the slot it is, from 1.
    #[row(tag = 5)]
    pub attempt: u32,
    /// What it runs: the key of a row of `specs`.
    #[row(tag = 6)]
    pub spec: SpecHash,
    /// Who it runs as.
    #[row(tag = 7)]
    pub user: UserName,
    /// The agent that it was given to.
    #[row(tag = 8)]
    pub agent: Option<AgentName>,
    /// Where it is in its life.
    #[row(tag = 9)]
    pub state: TaskState,
    /// Why it is in this state.
    #[row(tag = 10)]
    pub cause: Option<CauseCode>,
    /// The cause as a sentence.
    #[row(tag = 11)]
    pub cause_text: Option<SharedText>,
    /// Processor time that is reserved for it, in thousandths of a processor.
    #[row(tag = 12)]
    pub cpus_thousandths: u32,
    /// Memory that is reserved for it, in bytes.
    #[row(tag = 13)]
    pub memory_bytes: u64,
    /// Disk space that is reserved for it, in bytes.
    #[row(tag = 14)]
    pub disk_bytes: u64,
    /// When it was made.
    #[row(tag = 15)]
    pub created: Time,
    /// When its main process started.
    #[row(tag = 16)]
    pub started: Option<Time>,
    /// When it ended.
    #[row(tag = 17)]
    pub ended: Option<Time>,
    /// The number of its main process on its host, while it runs.
    #[row(tag = 18)]
    pub pid: Option<u32>,
    /// The last things that happened to it, oldest first.
    #[row(tag = 19)]
    pub events: Events,
    /// Fields of a later version.
    #[row(unknown)]
    pub unknown: Unknown,
}

impl Task {
    /// Whether it runs, will run or is being stopped.
    pub fn is_active(&self) -> bool {
        self.state.is_active()
    }

    /// Whether it is live, unreachable or completed.
    pub fn section(&self) -> Section {
        self.state.section()
    }

    /// Bytes that its row takes in the history of its namespace, which is bounded by their sum; zero while it is active.
    pub fn history_bytes(&self) -> u64 {
        if self.is_active() { 0 } else { (size_of::<Task>() + Row::heap_bytes(self)) as u64 }
    }

    /// Its name within its namespace: `web.0.3`.
    pub fn name(&self) -> String {
        format!("{}.{}.{}", self.job, self.instance, self.attempt)
    }

    /// This task in another state, with the event and the times that belong to it; `None` if the state may not follow the present one.
    pub fn moved(&self, state: TaskState, now: Time, cause: Option<CauseCode>, detail: i32) -> Option<Task> {
        if !self.state.may_become(state) {
            return None;
        }
        // Field by field: a clone would copy the old events as well.
        let mut task = Task {
            uid: self.uid,
            namespace: self.namespace.clone(),
            job: self.job.clone(),
            instance: self.instance,
            attempt: self.attempt,
            spec: self.spec,
            user: self.user.clone(),
            agent: self.agent.clone(),
            state,
            cause,
            cause_text: None,
            cpus_thousandths: self.cpus_thousandths,
            memory_bytes: self.memory_bytes,
            disk_bytes: self.disk_bytes,
            created: self.created,
            started: self.started,
            ended: self.ended,
            pid: self.pid,
            events: self.events.with(Event { at: now, detail, repeats: 0, state, cause }),
            unknown: self.unknown.clone(),
        };
        match state {
            TaskState::Running => task.started = task.started.or(Some(now)),
            TaskState::Finished | TaskState::Failed | TaskState::Stopped | TaskState::Lost => {
                task.ended = Some(now);
                task.pid = None;
            }
            TaskState::Pending | TaskState::Starting | TaskState::Stopping => {}
        }
        if state == TaskState::Running {
            task.ended = None;
        }
        Some(task)
    }
}
