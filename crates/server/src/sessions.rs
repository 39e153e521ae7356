//! The server's side of an agent's session: wanted state out, reports in.
//!
//! ```text
//! rows of `tasks` ──wanted──► Wanted, Changed ──► agent
//! ReportTask      ◄─reports── Status          ◄── agent
//! doors           ◄─logs───── log bytes       ◄── agent (second channel)
//! ```
//!
//! All three run beside each other, so that none waits for another. A session begins with the agent's hello: what a run of the daemon before
//! this one left is ended, since in this release tasks die with their daemon; then the agent is ready.

mod logs;
mod reports;
mod wanted;

pub(crate) use logs::{LogReader, LogRelay};

use crate::loops::DISK_RETRY;
use crate::{WriteError, WriterHandle};
use rollcall_agent::{FromAgent, PROTOCOL, ServerLink};
use rollcall_commands::{Command, LoseTasks, RegisterAgent};
use rollcall_store::Version;
use rollcall_types::AgentName;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{Notify, watch};

/// The most tasks that are ended in one commit when a daemon starts anew.
const LOST_AT_ONCE_MAX: usize = 1024;

/// After its grace a task is killed; so long may pass until its agent has said so.
const STOP_MARGIN: Duration = Duration::from_secs(5);

/// Why a session ended.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The agent's end is gone.
    #[error("the agent has ended its session")]
    Gone,
    /// The first frame was no hello.
    #[error("the agent did not say hello first")]
    NoHello,
    /// The agent speaks another protocol.
    #[error("agent {agent} speaks protocol {protocol}; this server speaks {PROTOCOL}. Use the same release for both")]
    OtherProtocol {
        /// The agent.
        agent: String,
        /// What it speaks.
        protocol: u32,
    },
    /// The server is stopping.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What a session needs.
#[derive(Clone)]
pub(crate) struct SessionContext {
    pub(crate) writer: WriterHandle,
    /// The newest version that is visible.
    pub(crate) changes: watch::Receiver<Version>,
    /// Becomes true when all tasks shall end with the daemon.
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) agents: ConnectedAgents,
    /// Disk space that tasks may use on the agent's host, which its hello does not say yet.
    pub(crate) disk_bytes: u64,
}

/// The agents that are in touch, and the way to their logs.
#[derive(Clone, Default)]
pub(crate) struct ConnectedAgents {
    relays: Arc<Mutex<HashMap<AgentName, LogRelay>>>,
}

impl ConnectedAgents {
    /// The way to an agent's logs; `None` if it is out of touch.
    pub(crate) fn logs(&self, agent: &AgentName) -> Option<LogRelay> {
        self.lock().get(agent).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<AgentName, LogRelay>> {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session whose agent has said hello.
pub(crate) struct Session {
    agent: AgentName,
    link: ServerLink,
    relay: LogRelay,
    context: SessionContext,
}

impl Session {
    /// Hears the hello, ends what an earlier run of the daemon left, and says that the agent is ready.
    ///
    /// # Errors
    /// When the agent is gone or speaks otherwise.
    pub(crate) async fn begin(mut link: ServerLink, context: SessionContext) -> Result<Session, SessionError> {
        let agent = greet(&mut link, &context).await?;
        let relay = LogRelay::new(&link.wanted);
        context.agents.lock().insert(agent.clone(), relay.clone());
        Ok(Session { agent, link, relay, context })
    }

    /// The session, to its end. Once it is told to stop it has all tasks stopped, and returns when they have ended or their grace is over.
    ///
    /// # Errors
    /// When it ends without having been told to.
    pub(crate) async fn serve(self) -> Result<(), SessionError> {
        let Session { agent, link, relay, context } = self;
        let ServerLink { wanted: to_agent, status, logs } = link;
        let send_all = Notify::new();
        let wants = wanted::send(&agent, &context, to_agent, &send_all);
        let reports = reports::take(&agent, &context, status, &send_all);
        let outcome = tokio::select! {
            outcome = wants => outcome,
            outcome = reports => outcome,
            () = relay.carry(logs) => Err(SessionError::Gone),
            () = grace_is_over(&context) => {
                tracing::warn!(%agent, "tasks did not end in time; they are left to the guard");
                Ok(())
            }
        };
        context.agents.lock().remove(&agent);
        outcome
    }
}

async fn greet(link: &mut ServerLink, context: &SessionContext) -> Result<AgentName, SessionError> {
    let (protocol, facts) = match link.status.recv().await.ok_or(SessionError::Gone)? {
        FromAgent::Hello { protocol, facts } => (protocol, facts),
        _ => return Err(SessionError::NoHello),
    };
    if protocol != PROTOCOL {
        return Err(SessionError::OtherProtocol { agent: facts.name, protocol });
    }
    let agent = AgentName::from(facts.name.as_str());
    let lose = LoseTasks { agent: agent.clone(), tasks_max: LOST_AT_ONCE_MAX };
    while insist(&context.writer, lose.clone()).await? > 0 {}
    let register = RegisterAgent {
        agent: agent.clone(),
        cpus_thousandths: facts.cpus,
        memory_bytes: facts.memory,
        disk_bytes: context.disk_bytes,
    };
    insist(&context.writer, register).await?;
    Ok(agent)
}

/// Runs a command until the disk takes it.
async fn insist<C>(writer: &WriterHandle, command: C) -> Result<C::Answer, WriteError>
where
    C: Command + Clone + Send + 'static,
    C::Answer: Send + 'static,
{
    loop {
        match writer.run(command.clone()).await {
            Err(error @ (WriteError::NotDurable { .. } | WriteError::Uncertain { .. })) => {
                tracing::warn!(%error, "the session waits for the disk");
                tokio::time::sleep(DISK_RETRY).await;
            }
            outcome => return outcome.map(|(answer, _)| answer),
        }
    }
}

/// Returns so long after the order to stop that every task must have ended.
async fn grace_is_over(context: &SessionContext) {
    let mut stopping = context.stopping.clone();
    if stopping.wait_for(|stopping| *stopping).await.is_ok() {
        tokio::time::sleep(crate::specs::STOP_GRACE + STOP_MARGIN).await;
    }
}
