//! Commands about agents.

use crate::tasks::{end_of_stopped, move_task};
use crate::{Command, CommandError};
use rollcall_schema::{SharedText, Unknown};
use rollcall_store::{Query, Transaction};
use rollcall_types::{AgentName, AgentRow, AgentState, CauseCode, Namespace, Task, TaskState};

/// The namespace of rows that belong to the whole cluster.
const CLUSTER: &str = "cluster";

/// Says what an agent has, and that it is ready.
#[derive(Clone, Debug)]
pub struct RegisterAgent {
    /// Its name.
    pub agent: AgentName,
    /// Processors, in thousandths.
    pub cpus_thousandths: u32,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Disk space for tasks, in bytes.
    pub disk_bytes: u64,
}

impl Command for RegisterAgent {
    type Answer = ();

    fn apply(self, change: &mut Transaction<'_>) -> Result<(), CommandError> {
        let query = Query::all().equal(AgentRow::AGENT, &self.agent);
        let before = change.table::<AgentRow>().select(query)?.next().map(|agent| (agent.number, agent.row().clone()));
        let row = AgentRow {
            agent: self.agent.clone(),
            namespace: Namespace::from(CLUSTER),
            state: AgentState::Ready,
            cpus_thousandths: self.cpus_thousandths,
            memory_bytes: self.memory_bytes,
            disk_bytes: self.disk_bytes,
            joined: before.as_ref().map_or(change.now(), |(_, agent)| agent.joined),
            unknown: before.as_ref().map_or_else(Unknown::default, |(_, agent)| agent.unknown.clone()),
        };
        match before {
            Some((number, _)) => change.update(number, row)?,
            None => drop(change.insert(row)?),
        }
        Ok(())
    }
}

/// Ends the tasks that were given to an agent and that it, having started anew, does not run. In this release tasks die with their daemon.
#[derive(Clone, Debug)]
pub struct LoseTasks {
    /// The agent.
    pub agent: AgentName,
    /// The most tasks that are ended at once; send it again until it answers zero.
    pub tasks_max: usize,
}

impl Command for LoseTasks {
    type Answer = usize;

    fn apply(self, change: &mut Transaction<'_>) -> Result<usize, CommandError> {
        let query = Query::all().equal(Task::AGENT, &self.agent).equal(Task::ACTIVE, true).limit(self.tasks_max);
        let tasks: Vec<_> =
            change.table::<Task>().select(query)?.map(|task| (task.number, task.row().clone())).collect();
        let text: SharedText = format!("the daemon of {} ended, and the task with it", self.agent).into();
        for (number, task) in &tasks {
            let how = Some(text.clone());
            let (state, cause, cause_text) = match task.state {
                TaskState::Stopping => (TaskState::Stopped, task.cause, end_of_stopped(task, how)),
                _ => (TaskState::Failed, Some(CauseCode::AgentLost), how),
            };
            let moved = move_task(task, state, change.now(), cause, 0)?;
            change.update(*number, Task { cause_text, ..moved })?;
        }
        Ok(tasks.len())
    }
}
