//! What server and agent say to each other, and the channels that carry it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rollcall_sandbox::Stream;
use rollcall_types::Command;
use tokio::sync::mpsc;

use crate::host::HostFacts;

/// The version of these frames.
pub const PROTOCOL: u32 = 1;
/// So many frames wait in each direction before the sender waits.
pub const LINK_FRAMES_MAX: usize = 256;
/// So many pieces of logs wait before their readers wait.
const LOG_FRAMES_MAX: usize = 16;

/// The identity of a task: never used twice. Its text is 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskUid(pub u128);

impl fmt::Display for TaskUid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

impl fmt::Debug for TaskUid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl FromStr for TaskUid {
    type Err = std::num::ParseIntError;

    /// The inverse of the text form; any other length or digit is refused.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        // The empty text gives the error that says so.
        u128::from_str_radix(if digits { text } else { "" }, 16).map(Self)
    }
}

/// What a task runs. Shared between the tasks of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSpec {
    /// The program, or the line for the shell.
    pub command: Command,
    /// Added to the task's environment.
    pub environment: BTreeMap<String, String>,
    /// The user; none: the agent's `task_user`.
    pub user: Option<String>,
    /// From the request to end to the kill.
    pub stop_grace: Duration,
}

/// What shall become of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// It shall run, or have run.
    Run,
    /// It shall have ended. Its logs stay.
    Stop,
    /// It shall have ended and its logs are not needed: no word of it any more.
    Forget,
}

/// A task that the server wants here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedTask {
    /// Its identity.
    pub uid: TaskUid,
    /// Its name for people, `web.0.1`; the task finds it in `ROLLCALL_TASK`.
    pub name: String,
    /// What it runs. Counts when the task starts only.
    pub spec: Arc<TaskSpec>,
    /// What shall become of it.
    pub intent: Intent,
}

/// A question for a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    /// Chosen by the server, back in every frame of the answer. Not used twice in a session.
    pub request: u64,
    /// Whose log.
    pub task: TaskUid,
    /// Which of its two.
    pub stream: Stream,
    /// Where to begin.
    pub start: LogStart,
    /// Whether to wait for more until the task has ended.
    pub follow: bool,
}

/// Where to begin in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStart {
    /// At this byte.
    Offset(u64),
    /// Before so many last lines.
    LastLines(usize),
}

/// From the server to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToAgent {
    /// Everything that is wanted here; first in each session. Tasks that it does not name go on.
    Wanted {
        /// Starts the count of this session.
        number: u64,
        /// All of them.
        tasks: Vec<WantedTask>,
    },
    /// What changed since the frame before, which had the number before.
    Changed {
        /// One more than the last.
        number: u64,
        /// The changed ones.
        tasks: Vec<WantedTask>,
    },
    /// Send a log.
    ReadLogs(LogRequest),
    /// Send no more of it.
    StopLogs {
        /// The number of the request.
        request: u64,
    },
}

/// From the agent to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromAgent {
    /// First in each session; the status of every known task follows.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// What this machine is.
        facts: HostFacts,
    },
    /// The newest status of a task.
    Status(Status),
    /// A change was missed: send everything.
    NeedWanted {
        /// The number of the last frame that was followed, if any.
        last: Option<u64>,
    },
}

/// All that the agent knows of one task. The higher number of two for the same task is the newer, also over sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Grows with each change of any task of this daemon's run.
    pub number: u64,
    /// The task.
    pub task: TaskUid,
    /// Where it is.
    pub state: TaskState,
}

/// Where a task is. Times are microseconds UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// Its process is being started.
    Starting,
    /// Its process runs.
    Running {
        /// The main process.
        pid: i32,
        /// Since when.
        started_at: i64,
    },
    /// Nothing of it runs, for ever.
    Ended {
        /// How it ended.
        ending: Ending,
        /// Since when it ran, if it did and this daemon saw it.
        started_at: Option<i64>,
        /// Until when.
        ended_at: i64,
    },
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Its main process exited.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// Its main process was killed.
    Signaled {
        /// The signal.
        signal: i32,
    },
    /// It never ran.
    NotStarted {
        /// Why, in one line.
        reason: String,
    },
    /// It ended with an earlier run of this daemon, which did not see how.
    Lost,
}

/// Of logs, on a channel of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFrame {
    /// A piece.
    Bytes {
        /// The number of the request.
        request: u64,
        /// The offset of the first byte. Behind the end of the piece before: the task cut its log.
        from: u64,
        /// At least one.
        bytes: Vec<u8>,
    },
    /// Nothing more comes.
    End {
        /// The number of the request.
        request: u64,
        /// Why it ended too early, if it did.
        error: Option<String>,
    },
}

/// The agent's end of a session.
#[derive(Debug)]
pub struct AgentLink {
    pub(crate) wanted: mpsc::Receiver<ToAgent>,
    pub(crate) status: mpsc::Sender<FromAgent>,
    pub(crate) logs: mpsc::Sender<LogFrame>,
}

/// The server's end of a session. Dropping `wanted` ends it.
#[derive(Debug)]
pub struct ServerLink {
    /// To the agent.
    pub wanted: mpsc::Sender<ToAgent>,
    /// From the agent; ends when the agent does.
    pub status: mpsc::Receiver<FromAgent>,
    /// Logs; must be read by someone other than who reads the status.
    pub logs: mpsc::Receiver<LogFrame>,
}

/// One session inside one process.
pub fn link() -> (ServerLink, AgentLink) {
    let (wanted_sender, wanted) = mpsc::channel(LINK_FRAMES_MAX);
    let (status, status_receiver) = mpsc::channel(LINK_FRAMES_MAX);
    let (logs, logs_receiver) = mpsc::channel(LOG_FRAMES_MAX);
    let server = ServerLink { wanted: wanted_sender, status: status_receiver, logs: logs_receiver };
    (server, AgentLink { wanted, status, logs })
}

#[cfg(test)]
mod tests {
    use super::TaskUid;

    #[test]
    fn the_text_of_a_task_uid_is_its_exact_inverse() {
        for number in [0, 1, 0xabc, u128::MAX] {
            let text = TaskUid(number).to_string();
            assert_eq!((text.len(), text.parse()), (32, Ok(TaskUid(number))));
        }
        let long = "0".repeat(33);
        for text in ["", "1", "+0000000000000000000000000000001", "G0000000000000000000000000000000", &long] {
            assert!(text.parse::<TaskUid>().is_err(), "{text}");
        }
    }
}
