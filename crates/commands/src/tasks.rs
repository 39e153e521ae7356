//! Commands about tasks.

use crate::{Command, CommandError};
use rollcall_schema::Time;
use rollcall_store::{Query, RowNumber, RowRef, Stored, Transaction, Version};
use rollcall_types::{AgentName, AgentRow, AgentState, CauseCode, SharedText, Task, TaskState, Uid};
use std::sync::Arc;

/// Gives a pending task to an agent.
#[derive(Clone, Debug)]
pub struct PlaceTask {
    /// The task's row.
    pub task: RowNumber,
    /// The version at which the planner read it.
    pub read_at: Version,
    /// The agent.
    pub agent: AgentName,
}

impl Command for PlaceTask {
    type Answer = ();

    fn apply(self, change: &mut Transaction<'_>) -> Result<(), CommandError> {
        change.require_unchanged::<Task>(self.task, self.read_at)?;
        let query = Query::all().equal(AgentRow::AGENT, &self.agent);
        let agent = change.table::<AgentRow>().select(query)?.next().map(|agent| agent.row().clone());
        let Some(agent) = agent.filter(|agent| agent.state == AgentState::Ready) else {
            return Err(CommandError::NoSuchAgent(self.agent));
        };
        let stored = task_at(change, self.task)?;
        let task = &stored.row;
        let moved = move_task(task, TaskState::Starting, change.now(), None, 0)?;
        change.update(self.task, Task { agent: Some(agent.agent), ..moved })?;
        Ok(())
    }
}

/// Says why a task is still pending; changes nothing if that is what its row says already.
#[derive(Clone, Debug)]
pub struct ExplainPending {
    /// The task's row.
    pub task: RowNumber,
    /// The version at which the planner read it.
    pub read_at: Version,
    /// Why.
    pub cause: CauseCode,
    /// The same as a sentence.
    pub text: SharedText,
}

impl Command for ExplainPending {
    type Answer = ();

    fn apply(self, change: &mut Transaction<'_>) -> Result<(), CommandError> {
        change.require_unchanged::<Task>(self.task, self.read_at)?;
        let stored = task_at(change, self.task)?;
        let task = &stored.row;
        if task.state != TaskState::Pending {
            return Err(CommandError::IllegalMove { task: task.uid, from: task.state, to: TaskState::Pending });
        }
        change.update(self.task, Task { cause: Some(self.cause), cause_text: Some(self.text), ..task.clone() })?;
        Ok(())
    }
}

/// What an agent says of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The state it is in.
    pub state: TaskState,
    /// Why, for an end.
    pub cause: Option<CauseCode>,
    /// The exit code or signal number that belongs to the cause; zero for none.
    pub detail: i32,
    /// The cause as a sentence.
    pub text: Option<SharedText>,
    /// The number of the main process, while it runs.
    pub pid: Option<u32>,
    /// When it happened, by the agent's clock; the commit's time if not given.
    pub at: Option<Time>,
}

/// Says what became of a task. The same report again changes nothing.
#[derive(Clone, Debug)]
pub struct ReportTask {
    /// The task.
    pub task: Uid,
    /// Who says it.
    pub agent: AgentName,
    /// What.
    pub report: Report,
}

impl Command for ReportTask {
    type Answer = ();

    fn apply(self, change: &mut Transaction<'_>) -> Result<(), CommandError> {
        let (number, stored) = find_task(change, self.task)?;
        let task = &stored.row;
        if task.agent.as_ref() != Some(&self.agent) {
            return Err(CommandError::NotGiven { task: self.task, agent: self.agent });
        }
        let Report { state, cause, detail, text, pid, at } = self.report;
        if task.state == state {
            return Ok(());
        }
        // A task that was told to stop and ended, ended because of that, whatever its exit code says.
        let told = task.state == TaskState::Stopping
            && matches!(state, TaskState::Finished | TaskState::Failed | TaskState::Stopped);
        let (state, cause, text) = match told {
            true => (TaskState::Stopped, task.cause, end_of_stopped(task, text)),
            false => (state, cause, text),
        };
        if task.state == TaskState::Stopping && state == TaskState::Running {
            // The report crossed the order to stop; only the process number is news.
            change.update(number, Task { pid, ..task.clone() })?;
            return Ok(());
        }
        let moved = move_task(task, state, at.unwrap_or(change.now()), cause, detail)?;
        let pid = if state == TaskState::Running { pid } else { moved.pid };
        change.update(number, Task { cause_text: text, pid, ..moved })?;
        Ok(())
    }
}

/// The sentence of a task that was told to stop: why it was told, and how it then ended.
pub(crate) fn end_of_stopped(task: &Task, how: Option<SharedText>) -> Option<SharedText> {
    match (&task.cause_text, how) {
        (Some(why), Some(how)) => Some(format!("{why}; {how}").into()),
        (why, how) => how.or_else(|| why.clone()),
    }
}

fn task_at(change: &Transaction<'_>, number: RowNumber) -> Result<Arc<Stored<Task>>, CommandError> {
    let missing = rollcall_store::ChangeError::NoSuchRow { table: "tasks", number };
    Ok(change.table::<Task>().get(number).map(|task| task.stored.clone()).ok_or(missing)?)
}

fn find_task(change: &Transaction<'_>, uid: Uid) -> Result<(RowNumber, Arc<Stored<Task>>), CommandError> {
    let found = change.table::<Task>().select(Query::all().equal(Task::UID, uid))?.next();
    found.map(|task: RowRef<'_, Task>| (task.number, task.stored.clone())).ok_or(CommandError::NoSuchTask(uid))
}

pub(crate) fn move_task(
    task: &Task,
    to: TaskState,
    now: Time,
    cause: Option<CauseCode>,
    detail: i32,
) -> Result<Task, CommandError> {
    let illegal = CommandError::IllegalMove { task: task.uid, from: task.state, to };
    task.moved(to, now, cause, detail).ok_or(illegal)
}
