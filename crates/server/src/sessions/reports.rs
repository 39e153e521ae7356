//! From what an agent says of its tasks to commands.

use super::{SessionContext, SessionError};
use crate::WriteError;
use crate::loops::DISK_RETRY;
use crate::pipeline::run_all;
use rollcall_agent::{Ending, FromAgent, Status, TaskState as AgentTaskState};
use rollcall_commands::{Report, ReportTask};
use rollcall_schema::Time;
use rollcall_store::{Query, Snapshot};
use rollcall_types::{AgentName, CauseCode, SharedText, Task, TaskState, Uid};
use tokio::sync::{Notify, mpsc};

/// So many frames of the agent are taken at once; their reports share commits.
const FRAMES_AT_ONCE_MAX: usize = 256;

/// Takes in what the agent says until its end is gone. A report that the disk refuses is sent again: the agent says it once a session.
pub(super) async fn take(
    agent: &AgentName,
    context: &SessionContext,
    mut status: mpsc::Receiver<FromAgent>,
    send_all: &Notify,
) -> Result<(), SessionError> {
    let mut frames = Vec::with_capacity(FRAMES_AT_ONCE_MAX);
    while status.recv_many(&mut frames, FRAMES_AT_ONCE_MAX).await > 0 {
        let is_stopping = *context.stopping.borrow();
        let snapshot = context.writer.store().snapshot();
        let mut commands = Vec::with_capacity(frames.len());
        for frame in frames.drain(..) {
            match frame {
                FromAgent::Status(status) => {
                    let why = match is_stopping {
                        true => Why::DaemonStops,
                        false if was_told(&snapshot, Uid(status.task.0)) => Why::Told,
                        false => Why::Itself,
                    };
                    commands.extend(reports(agent, status, why));
                }
                FromAgent::NeedWanted { .. } => send_all.notify_one(),
                FromAgent::Hello { .. } => return Err(SessionError::NoHello),
            }
        }
        while !commands.is_empty() {
            let outcomes = run_all(&context.writer, commands.clone()).await;
            commands = unwritten(commands, &outcomes)?;
            if !commands.is_empty() {
                tokio::time::sleep(DISK_RETRY).await;
            }
        }
    }
    Err(SessionError::Gone)
}

/// The reports that the disk refused, in their order.
fn unwritten<A>(
    commands: Vec<ReportTask>,
    outcomes: &[Result<A, WriteError>],
) -> Result<Vec<ReportTask>, SessionError> {
    let mut again = Vec::new();
    for (command, outcome) in commands.into_iter().zip(outcomes) {
        match outcome {
            Ok(_) => {}
            Err(WriteError::Refused(refused)) => tracing::debug!(%refused, "a report was refused"),
            Err(WriteError::Stopping) => return Err(WriteError::Stopping.into()),
            Err(error) => {
                tracing::warn!(%error, task = %command.task, "a report waits for the disk");
                again.push(command);
            }
        }
    }
    Ok(again)
}

/// Why a task that ended may have ended.
#[derive(Clone, Copy)]
enum Why {
    Itself,
    /// It was told to stop.
    Told,
    /// All tasks of the daemon were.
    DaemonStops,
}

/// Whether the task is being stopped.
fn was_told(snapshot: &Snapshot, task: Uid) -> bool {
    let query = Query::all().equal(Task::UID, task);
    let task = snapshot.table::<Task>().select(query).expect("a task has a uid").next();
    task.is_some_and(|task| task.row().state == TaskState::Stopping)
}

/// What a status means for the row of its task: nothing while it starts; a start and an end where the agent folded both into one word.
fn reports(agent: &AgentName, status: Status, why: Why) -> Vec<ReportTask> {
    let task = Uid(status.task.0);
    let report = |report| ReportTask { task, agent: agent.clone(), report };
    match status.state {
        AgentTaskState::Starting => Vec::new(),
        AgentTaskState::Running { pid, started_at } => vec![report(running(Some(pid), started_at))],
        AgentTaskState::Ended { ending, started_at, ended_at } => {
            // Known already, it changes nothing.
            let start = started_at.map(|started_at| report(running(None, started_at)));
            let end = report(ended(agent, ending, ended_at, why));
            start.into_iter().chain([end]).collect()
        }
    }
}

fn running(pid: Option<i32>, started_at: i64) -> Report {
    let pid = pid.and_then(|pid| u32::try_from(pid).ok());
    Report {
        state: TaskState::Running,
        cause: None,
        detail: 0,
        text: None,
        pid,
        at: Some(Time::from_micros(started_at)),
    }
}

/// The end of a task: its state, the cause of any end but a good one, and the cause as a sentence. Why a task was told to stop is known to its row.
fn ended(agent: &AgentName, ending: Ending, ended_at: i64, why: Why) -> Report {
    let failed = |cause, detail, text: String| (TaskState::Failed, Some(cause), detail, Some(text));
    let stopped = |text| (TaskState::Stopped, Some(CauseCode::StoppedBy), 0, Some(text));
    let (state, cause, detail, text) = match (ending, why) {
        (Ending::Exited { .. } | Ending::Signaled { .. }, Why::DaemonStops) => {
            stopped(format!("ended with the daemon of {agent}, which was stopped"))
        }
        (Ending::Exited { code }, Why::Told) => stopped(format!("exit code {code}")),
        (Ending::Signaled { signal }, Why::Told) => stopped(format!("ended by {}", signal_name(signal))),
        (Ending::Exited { code: 0 }, _) => (TaskState::Finished, None, 0, None),
        (Ending::Exited { code }, _) => failed(CauseCode::ExitNonzero, code, format!("exit code {code}")),
        (Ending::Signaled { signal }, _) => {
            failed(CauseCode::Signal, signal, format!("ended by {}", signal_name(signal)))
        }
        (Ending::NotStarted { reason }, _) => failed(CauseCode::StartFailed, 0, reason),
        (Ending::Lost, _) => {
            failed(CauseCode::AgentLost, 0, format!("the daemon of {agent} ended, and the task with it"))
        }
    };
    let text = text.map(SharedText::from);
    Report { state, cause, detail, text, pid: None, at: Some(Time::from_micros(ended_at)) }
}

/// `SIGTERM`, or the number of a signal that has no common name.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests;
