//! The server's side, as small as can be.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rollcall_agent::{
    Agent, Ending, FromAgent, Intent, LogFrame, LogRequest, LogStart, RoleCommand, SandboxSettings, ServerLink, Status,
    Stream, TaskSpec, TaskState, TaskUid, ToAgent, WantedTask, link, system_clock,
};
use rollcall_types::Command;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Long enough for anything that works; only a failing test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A session with an agent that runs beside the test.
pub struct Server {
    pub link: ServerLink,
    agent: JoinHandle<Agent>,
    number: u64,
}

pub fn open(folder: &Path) -> Agent {
    let program = std::env::current_exe().expect("this program has a path");
    let role = |test: &str, role: &str| RoleCommand {
        program: program.clone(),
        arguments: [test, "--exact", "--nocapture", role].map(Into::into).to_vec(),
    };
    let settings = SandboxSettings {
        folder: folder.to_owned(),
        task_user: "nobody".into(),
        allow_root: false,
        program: program.clone(),
        guard: role("guard_entry", "run-as-guard"),
        stage: role("stage_entry", "run-as-stage"),
    };
    Agent::open("n1", settings, system_clock).expect("opens")
}

pub fn folder() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

pub fn uid(number: u128) -> TaskUid {
    TaskUid(number)
}

pub fn task(number: u128, line: &str, intent: Intent) -> WantedTask {
    let spec = TaskSpec {
        command: Command::Shell(line.into()),
        environment: BTreeMap::new(),
        user: None,
        stop_grace: PATIENCE,
    };
    WantedTask { uid: uid(number), name: format!("t.{number}.1"), spec: Arc::new(spec), intent }
}

impl Server {
    /// Starts a session and hears the hello.
    pub async fn start(mut agent: Agent) -> Self {
        let (link, agent_link) = link();
        let agent = tokio::spawn(async move {
            agent.serve(agent_link).await;
            agent
        });
        let mut server = Self { link, agent, number: 0 };
        let hello = server.hear().await;
        assert!(matches!(&hello, FromAgent::Hello { protocol: 1, facts } if facts.name == "n1"), "{hello:?}");
        server
    }

    pub async fn hear(&mut self) -> FromAgent {
        let word = tokio::time::timeout(PATIENCE, self.link.status.recv()).await;
        word.expect("the agent says something").expect("the agent lives")
    }

    pub async fn want(&mut self, tasks: Vec<WantedTask>) {
        self.number = 0;
        self.link.wanted.send(ToAgent::Wanted { number: 0, tasks }).await.expect("the agent lives");
    }

    pub async fn change(&mut self, tasks: Vec<WantedTask>) {
        self.number += 1;
        self.link.wanted.send(ToAgent::Changed { number: self.number, tasks }).await.expect("the agent lives");
    }

    /// The next status; nothing else may come.
    pub async fn status(&mut self) -> Status {
        match self.hear().await {
            FromAgent::Status(status) => status,
            other => panic!("not a status: {other:?}"),
        }
    }

    /// The first status of this task that is of this kind.
    pub async fn until(&mut self, task: u128, wanted: impl Fn(&TaskState) -> bool) -> TaskState {
        loop {
            let status = self.status().await;
            if status.task == uid(task) && wanted(&status.state) {
                return status.state;
            }
        }
    }

    pub async fn until_running(&mut self, task: u128) -> i32 {
        match self.until(task, |state| matches!(state, TaskState::Running { .. })).await {
            TaskState::Running { pid, .. } => pid,
            other => panic!("{other:?}"),
        }
    }

    pub async fn until_ended(&mut self, task: u128) -> Ending {
        match self.until(task, |state| matches!(state, TaskState::Ended { .. })).await {
            TaskState::Ended { ending, .. } => ending,
            other => panic!("{other:?}"),
        }
    }

    pub async fn ask_log(&mut self, request: u64, task: u128, start: LogStart, follow: bool) {
        let request = LogRequest { request, task: uid(task), stream: Stream::Out, start, follow };
        self.link.wanted.send(ToAgent::ReadLogs(request)).await.expect("the agent lives");
    }

    /// The whole answer to one request, when nothing else is asked meanwhile.
    pub async fn log(&mut self, request: u64) -> (String, Option<String>) {
        let mut text = Vec::new();
        loop {
            let frame = tokio::time::timeout(PATIENCE, self.link.logs.recv()).await.expect("the agent answers");
            match frame.expect("the agent lives") {
                LogFrame::Bytes { request: about, bytes, .. } if about == request => text.extend(bytes),
                LogFrame::End { request: about, error } if about == request => {
                    return (String::from_utf8(text).expect("is text"), error);
                }
                _ => {}
            }
        }
    }

    /// Ends the session; the agent and its tasks go on.
    pub async fn end(self) -> Agent {
        drop(self.link);
        tokio::time::timeout(PATIENCE, self.agent).await.expect("the session ends").expect("the agent is whole")
    }
}
