//! From the rows of `tasks` to what an agent is told to run.

use super::{SessionContext, SessionError};
use crate::specs::task_spec;
use rollcall_agent::{Intent, TaskSpec, TaskUid, ToAgent, WantedTask};
use rollcall_store::{Condition, EventKind, Order, Query, Snapshot, Stored, Version, Watch};
use rollcall_types::{AgentName, SpecHash, SpecRow, Task, Uid};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

/// So many ended tasks of an agent keep their logs; the logs of the oldest go first.
pub(crate) const LOGS_KEPT_MAX: usize = 1000;

/// So many commits are read from the watch at a time.
const COMMITS_AT_ONCE_MAX: usize = 256;

/// More specs are not remembered at a time.
const SPECS_KEPT_MAX: usize = 1024;

/// Tells the agent all that is wanted, and then each change. Returns when everything was stopped as it should be.
pub(super) async fn send(
    agent: &AgentName,
    context: &SessionContext,
    to_agent: mpsc::Sender<ToAgent>,
    send_all: &Notify,
) -> Result<(), SessionError> {
    let store = &**context.writer.store();
    let (mut changes, mut stopping) = (context.changes.clone(), context.stopping.clone());
    let mut wants = Wants::new(agent.clone());
    let (mut number, mut watch) = (0, None);
    loop {
        changes.borrow_and_update();
        wants.stopping = *stopping.borrow_and_update();
        let snapshot = store.snapshot();
        let events = watch.as_mut().map(|watch: &mut Watch| watch.next(store, None, COMMITS_AT_ONCE_MAX));
        let frame = match events {
            Some(Ok(events)) => {
                for event in &events {
                    if let Some(task) = event.row().as_any().downcast_ref::<Stored<Task>>() {
                        wants.note(&snapshot, &task.row, event.kind);
                    }
                }
                number += 1;
                ToAgent::Changed { number, tasks: wants.take() }
            }
            // At the start, when the agent missed something, when all shall stop, and when the watch has lost its place.
            None | Some(Err(_)) => {
                watch = Some(watch_of(agent, store, snapshot.version()));
                wants.note_all(&snapshot);
                number = 0;
                ToAgent::Wanted { number, tasks: wants.take() }
            }
        };
        if matches!(&frame, ToAgent::Changed { tasks, .. } if tasks.is_empty()) {
            number -= 1;
        } else if to_agent.send(frame).await.is_err() {
            return Err(SessionError::Gone);
        }
        if wants.stopping && nothing_runs(&snapshot, agent) {
            return Ok(());
        }
        if watch.as_ref().is_some_and(|watch| watch.position() < store.snapshot().version()) {
            continue;
        }
        tokio::select! {
            changed = changes.changed() => changed.map_err(|_| SessionError::Gone)?,
            _ = stopping.changed(), if !wants.stopping => watch = None,
            () = send_all.notified() => watch = None,
        }
    }
}

fn watch_of(agent: &AgentName, store: &rollcall_store::Store, position: Version) -> Watch {
    let given = Condition::equal(Task::AGENT, agent).into_owned();
    Watch::new::<Task>(store, position, vec![given]).expect("a task has an agent")
}

fn nothing_runs(snapshot: &Snapshot, agent: &AgentName) -> bool {
    let given = snapshot.table::<Task>().totals("by_agent", &[agent.into()], None);
    given.is_none_or(|totals| totals.count == 0)
}

/// What is to be told in the next frame.
struct Wants {
    agent: AgentName,
    /// Whether all tasks shall end with the daemon.
    stopping: bool,
    next: Vec<WantedTask>,
    /// Ended tasks whose logs are kept, oldest first.
    ended: VecDeque<Uid>,
    specs: HashMap<SpecHash, Arc<TaskSpec>>,
    /// What tasks run that only have to stop or to be forgotten.
    nothing: Arc<TaskSpec>,
}

impl Wants {
    fn new(agent: AgentName) -> Wants {
        let nothing = TaskSpec {
            command: rollcall_types::Command::Argv(Vec::new()),
            environment: Default::default(),
            user: None,
            stop_grace: crate::specs::STOP_GRACE,
        };
        let (next, ended, specs) = (Vec::new(), VecDeque::new(), HashMap::new());
        Wants { agent, stopping: false, next, ended, specs, nothing: Arc::new(nothing) }
    }

    fn take(&mut self) -> Vec<WantedTask> {
        std::mem::take(&mut self.next)
    }

    /// All tasks of the agent that have not ended, and the newest ended ones, whose logs are kept.
    fn note_all(&mut self, snapshot: &Snapshot) {
        self.next.clear();
        let agent = self.agent.clone();
        let given = Query::all().equal(Task::AGENT, &agent);
        let active = given.clone().equal(Task::ACTIVE, true);
        for found in snapshot.table::<Task>().select(active).expect("a task has an agent") {
            self.note(snapshot, found.row(), EventKind::Came);
        }
        let ended = given.equal(Task::ACTIVE, false).order(Order::Number);
        let ended = snapshot.table::<Task>().select(ended).expect("a task has an agent");
        self.ended.clear();
        for found in ended {
            // What is older was forgotten before.
            if self.ended.len() == LOGS_KEPT_MAX {
                self.ended.pop_front();
            }
            self.ended.push_back(found.row().uid);
        }
    }

    fn note(&mut self, snapshot: &Snapshot, task: &Task, kind: EventKind) {
        if kind == EventKind::Went {
            self.ended.retain(|uid| *uid != task.uid);
            self.forget(task.uid);
        } else if task.is_active() {
            let stop = self.stopping || task.state == rollcall_types::TaskState::Stopping;
            let (intent, spec) = match stop {
                true => (Intent::Stop, Some(self.nothing.clone())),
                false => (Intent::Run, self.spec(snapshot, task.spec)),
            };
            let Some(spec) = spec else {
                return tracing::error!(task = %task.name(), spec = %task.spec, "the spec of a task is missing");
            };
            let name = full_name(task);
            self.next.push(WantedTask { uid: TaskUid(task.uid.0), name, spec, intent });
        } else if !self.ended.contains(&task.uid) {
            self.ended.push_back(task.uid);
            while self.ended.len() > LOGS_KEPT_MAX
                && let Some(oldest) = self.ended.pop_front()
            {
                self.forget(oldest);
            }
        }
    }

    fn forget(&mut self, uid: Uid) {
        let (uid, spec) = (TaskUid(uid.0), self.nothing.clone());
        self.next.push(WantedTask { uid, name: String::new(), spec, intent: Intent::Forget });
    }

    fn spec(&mut self, snapshot: &Snapshot, hash: SpecHash) -> Option<Arc<TaskSpec>> {
        if let Some(known) = self.specs.get(&hash) {
            return Some(known.clone());
        }
        let query = Query::all().equal(SpecRow::SPEC, hash);
        let found = snapshot.table::<SpecRow>().select(query).expect("a spec has a name").next()?;
        let spec = Arc::new(task_spec(&found.row().text)?);
        if self.specs.len() >= SPECS_KEPT_MAX {
            self.specs.clear();
        }
        self.specs.insert(hash, spec.clone());
        Some(spec)
    }
}

/// The task's name as people type it; the default namespace is not said.
pub(crate) fn full_name(task: &Task) -> String {
    match task.namespace.as_str() {
        rollcall_types::DEFAULT_NAMESPACE => task.name(),
        namespace => format!("{namespace}/{}", task.name()),
    }
}

#[cfg(test)]
mod tests;
