//! Why a command was refused.

use rollcall_store::{ChangeError, QueryError};
use rollcall_types::{AgentName, JobName, Namespace, TaskState, Uid};
use thiserror::Error;

/// Why a command was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// There is no such job.
    #[error("there is no job {job} in namespace {namespace}")]
    NoSuchJob {
        /// The namespace.
        namespace: Namespace,
        /// The name.
        job: JobName,
    },
    /// The job has no such instance.
    #[error("job {job} has no instance {instance}; it has {instances}, numbered from 0")]
    NoSuchInstance {
        /// The job.
        job: JobName,
        /// The number that was asked for.
        instance: u32,
        /// How many it has.
        instances: u32,
    },
    /// There is no such task, or none any more.
    #[error("there is no task {0}; it may have been removed with the history of its namespace")]
    NoSuchTask(Uid),
    /// There is no such agent.
    #[error("there is no agent {0}")]
    NoSuchAgent(AgentName),
    /// The agent was not given the task.
    #[error("task {task} was not given to agent {agent}")]
    NotGiven {
        /// The task.
        task: Uid,
        /// The agent.
        agent: AgentName,
    },
    /// The state may not follow the present one.
    #[error("task {task} is {from} and cannot become {to}")]
    IllegalMove {
        /// The task.
        task: Uid,
        /// What it is.
        from: TaskState,
        /// What it was to be.
        to: TaskState,
    },
    /// The job wants more instances than a job may have.
    #[error("a job may have at most {instances_max} instances, {instances} were asked for")]
    TooManyInstances {
        /// What was asked for.
        instances: u32,
        /// The limit.
        instances_max: u32,
    },
    /// A row could not be changed.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A row could not be looked for: a mistake of ours.
    #[error(transparent)]
    Query(#[from] QueryError),
}
