//! The agent's loop: wanted state in, sandboxes, status out.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use rollcall_sandbox::{OpenError, Outcome, Sandbox, SandboxSpec, SandboxState, Sandboxes, Settings};
use thiserror::Error;
use tokio::sync::mpsc;

use crate::frames::{
    AgentLink, Ending, FromAgent, Intent, LogRequest, PROTOCOL, Status, TaskState, TaskUid, ToAgent, WantedTask,
};
use crate::host::HostFacts;
use crate::log_reader::LogReaders;

/// More tasks are not held at a time, ended ones that were not forgotten counted; one beyond it does not start.
pub const TASKS_MAX: usize = 4096;
/// So many changes of sandboxes wait for the loop before their watchers wait.
const CHANGES_MAX: usize = 256;
/// The variable in which a task finds its own name.
const NAME_VARIABLE: &str = "ROLLCALL_TASK";

/// Where times come from: whole microseconds UTC.
pub type Clock = fn() -> i64;

/// Why an agent cannot work here.
#[derive(Debug, Error)]
pub enum AgentError {
    /// No sandboxes.
    #[error(transparent)]
    Sandboxes(#[from] OpenError),
    /// The folder with the tasks of earlier runs, or the machine's facts, cannot be read.
    #[error("cannot read {what}")]
    Unreadable {
        /// What was being read.
        what: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

/// A host's daemon. Its tasks live on between sessions.
#[derive(Debug)]
pub struct Agent {
    facts: HostFacts,
    sandboxes: Sandboxes,
    clock: Clock,
    tasks: BTreeMap<TaskUid, Task>,
    /// Tasks of earlier runs of this daemon: they have ended, and must not start again.
    earlier: HashSet<TaskUid>,
    /// Tasks whose newest status was not sent in this session.
    unsent: BTreeSet<TaskUid>,
    status_number: u64,
    change_sender: mpsc::Sender<Change>,
    changes: mpsc::Receiver<Change>,
}

#[derive(Debug)]
struct Task {
    number: u64,
    state: TaskState,
    /// None when it never got one.
    sandbox: Option<Sandbox>,
    stop_grace: Duration,
    forget: bool,
}

/// A sandbox came into a state at a time.
#[derive(Debug)]
struct Change {
    task: TaskUid,
    state: SandboxState,
    at: i64,
}

impl Agent {
    /// Prepares the sandboxes and reads what earlier runs left. Blocks on the disk.
    ///
    /// # Errors
    /// When no sandbox can run here, or the folder or the machine's facts cannot be read.
    pub fn open(name: &str, settings: Settings, clock: Clock) -> Result<Self, AgentError> {
        let sandboxes = Sandboxes::open(settings)?;
        let unreadable = |what| move |source| AgentError::Unreadable { what, source };
        let existing = sandboxes.existing().map_err(unreadable("the folders of earlier tasks"))?;
        let facts = HostFacts::read(name).map_err(unreadable("the memory of this machine"))?;
        let earlier = existing.iter().filter_map(|id| id.parse().ok()).collect();
        let (change_sender, changes) = mpsc::channel(CHANGES_MAX);
        Ok(Self {
            facts,
            sandboxes,
            clock,
            tasks: BTreeMap::new(),
            earlier,
            unsent: BTreeSet::new(),
            status_number: 0,
            change_sender,
            changes,
        })
    }

    /// What this machine is.
    pub fn facts(&self) -> &HostFacts {
        &self.facts
    }

    /// One session: returns when the server's end is gone. The tasks go on, and the next session hears all of them.
    pub async fn serve(&mut self, mut link: AgentLink) {
        let hello = FromAgent::Hello { protocol: PROTOCOL, facts: self.facts.clone() };
        if link.status.send(hello).await.is_err() {
            return;
        }
        self.unsent = self.tasks.keys().copied().collect();
        let mut session = Session { last: None, need_wanted: false, readers: LogReaders::default() };
        loop {
            let has_word = session.need_wanted || !self.unsent.is_empty();
            tokio::select! {
                frame = link.wanted.recv() => match frame {
                    Some(frame) => self.hear(frame, &mut session, &link).await,
                    None => return,
                },
                Some(change) = self.changes.recv() => self.observe(change).await,
                permit = link.status.reserve(), if has_word => match permit {
                    Ok(permit) => permit.send(self.next_word(&mut session)),
                    Err(_) => return,
                },
            }
        }
    }

    /// Asks all tasks to end and returns when they have. Grace counts from now.
    pub async fn stop_all(&mut self, grace: Duration) {
        let running: Vec<&Sandbox> = self.tasks.values().filter_map(|task| task.sandbox.as_ref()).collect();
        running.iter().for_each(|sandbox| sandbox.stop(grace));
        for sandbox in running {
            sandbox.ended().await;
        }
    }

    async fn hear(&mut self, frame: ToAgent, session: &mut Session, link: &AgentLink) {
        match frame {
            ToAgent::Wanted { number, tasks } => {
                session.last = Some(number);
                session.need_wanted = false;
                self.want(tasks).await;
            }
            ToAgent::Changed { number, tasks } => {
                if session.last.is_some_and(|last| last.checked_add(1) == Some(number)) {
                    session.last = Some(number);
                    self.want(tasks).await;
                } else {
                    // Nothing of it may be followed: a stop may have been missed.
                    tracing::warn!(number, last = ?session.last, "a change of the wanted state was missed; asking for all");
                    session.need_wanted = true;
                }
            }
            ToAgent::ReadLogs(request) => self.read_logs(request, session, link),
            ToAgent::StopLogs { request } => session.readers.stop(request),
        }
    }

    async fn want(&mut self, tasks: Vec<WantedTask>) {
        for task in tasks {
            let uid = task.uid;
            match (self.tasks.get_mut(&uid), task.intent) {
                (None, Intent::Run) => self.start(task),
                (None, Intent::Stop) if self.earlier.contains(&uid) => self.add_ended(&task, Ending::Lost),
                (None, Intent::Stop) => {
                    let reason = "stopped before it had started".to_owned();
                    self.add_ended(&task, Ending::NotStarted { reason });
                }
                (None, Intent::Forget) => self.forget(uid).await,
                // A task runs once. What was asked to stop cannot be called back.
                (Some(_), Intent::Run) => {}
                (Some(known), intent) => {
                    known.forget |= intent == Intent::Forget;
                    if let Some(sandbox) = &known.sandbox {
                        sandbox.stop(known.stop_grace);
                    }
                    if known.forget && matches!(known.state, TaskState::Ended { .. }) {
                        self.forget(uid).await;
                    }
                }
            }
        }
    }

    fn start(&mut self, task: WantedTask) {
        if self.earlier.contains(&task.uid) {
            return self.add_ended(&task, Ending::Lost);
        }
        if self.tasks.len() >= TASKS_MAX {
            let reason = format!("this agent holds {TASKS_MAX} tasks already, which is the most");
            return self.add_ended(&task, Ending::NotStarted { reason });
        }
        let mut environment = task.spec.environment.clone();
        environment.entry(NAME_VARIABLE.to_owned()).or_insert_with(|| task.name.clone());
        let spec = SandboxSpec {
            id: task.uid.to_string(),
            command: task.spec.command.clone(),
            environment,
            user: task.spec.user.clone(),
        };
        match self.sandboxes.start(spec) {
            Ok(sandbox) => {
                tokio::spawn(tell_changes(task.uid, sandbox.watch(), self.clock, self.change_sender.clone()));
                self.add(&task, TaskState::Starting, Some(sandbox));
            }
            Err(error) => self.add_ended(&task, Ending::NotStarted { reason: error.sentence() }),
        }
    }

    fn add_ended(&mut self, task: &WantedTask, ending: Ending) {
        let ended_at = (self.clock)();
        self.add(task, TaskState::Ended { ending, started_at: None, ended_at }, None);
    }

    fn add(&mut self, task: &WantedTask, state: TaskState, sandbox: Option<Sandbox>) {
        self.status_number += 1;
        let (number, stop_grace) = (self.status_number, task.spec.stop_grace);
        self.tasks.insert(task.uid, Task { number, state, sandbox, stop_grace, forget: false });
        self.unsent.insert(task.uid);
    }

    /// Takes in what became of a sandbox.
    async fn observe(&mut self, change: Change) {
        let Some(task) = self.tasks.get_mut(&change.task) else { return };
        let since = match task.state {
            TaskState::Running { started_at, .. } => Some(started_at),
            _ => None,
        };
        task.state = match change.state {
            SandboxState::Starting => TaskState::Starting,
            SandboxState::Running { pid } => TaskState::Running { pid, started_at: change.at },
            SandboxState::Ended(outcome) => {
                // A process that ended at once may never have been seen running.
                let ran = !matches!(outcome, Outcome::NotStarted { .. });
                let started_at = since.or(ran.then_some(change.at));
                TaskState::Ended { ending: ending(outcome), started_at, ended_at: change.at }
            }
        };
        self.status_number += 1;
        task.number = self.status_number;
        self.unsent.insert(change.task);
        if task.forget && matches!(task.state, TaskState::Ended { .. }) {
            self.forget(change.task).await;
        }
    }

    /// Removes all traces of a task that has ended.
    async fn forget(&mut self, uid: TaskUid) {
        self.tasks.remove(&uid);
        self.unsent.remove(&uid);
        self.earlier.remove(&uid);
        let sandboxes = self.sandboxes.clone();
        let removal = tokio::task::spawn_blocking(move || sandboxes.remove(&uid.to_string())).await;
        if let Ok(Err(error)) = removal {
            tracing::error!(task = %uid, error = error.sentence(), "cannot remove the folder of a forgotten task");
        }
    }

    fn read_logs(&self, request: LogRequest, session: &mut Session, link: &AgentLink) {
        let state = match self.tasks.get(&request.task) {
            Some(task) => task.sandbox.as_ref().map(Sandbox::watch),
            None if self.earlier.contains(&request.task) => None,
            None => {
                let error = format!("task {} is not on this agent", request.task);
                return session.readers.refuse(request.request, error, link.logs.clone());
            }
        };
        match self.sandboxes.logs(&request.task.to_string()) {
            Ok(logs) => session.readers.start(request, logs, state, link.logs.clone()),
            Err(error) => session.readers.refuse(request.request, error.sentence(), link.logs.clone()),
        }
    }

    fn next_word(&mut self, session: &mut Session) -> FromAgent {
        let status = self.unsent.pop_first().and_then(|uid| {
            let task = self.tasks.get(&uid)?;
            Some(FromAgent::Status(Status { number: task.number, task: uid, state: task.state.clone() }))
        });
        status.unwrap_or_else(|| {
            session.need_wanted = false;
            FromAgent::NeedWanted { last: session.last }
        })
    }
}

/// What lasts as long as a session.
struct Session {
    /// The number of the last frame of wanted state.
    last: Option<u64>,
    need_wanted: bool,
    readers: LogReaders,
}

/// Watches one sandbox to its end.
async fn tell_changes(
    task: TaskUid,
    mut states: tokio::sync::watch::Receiver<SandboxState>,
    clock: Clock,
    sender: mpsc::Sender<Change>,
) {
    loop {
        let state = states.borrow_and_update().clone();
        let ended = matches!(state, SandboxState::Ended(_));
        if state != SandboxState::Starting && sender.send(Change { task, state, at: clock() }).await.is_err() {
            return;
        }
        if ended || states.changed().await.is_err() {
            return;
        }
    }
}

fn ending(outcome: Outcome) -> Ending {
    match outcome {
        Outcome::Exited { code } => Ending::Exited { code },
        Outcome::Signaled { signal } => Ending::Signaled { signal },
        Outcome::NotStarted { reason } => Ending::NotStarted { reason },
    }
}
