//! The example job, run by a real agent with this binary as its program and its guard.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rollcall_agent::{
    Agent, Ending, FromAgent, Intent, LogFrame, LogRequest, LogStart, RoleCommand, SandboxSettings, ServerLink, Stream,
    TaskSpec, TaskState, TaskUid, ToAgent, WantedTask, link, system_clock,
};
use rollcall_types::{JobFile, example_web};

const PATIENCE: Duration = Duration::from_secs(60);
const TASK: TaskUid = TaskUid(1);

fn wanted(intent: Intent) -> WantedTask {
    let job = JobFile::parse(example_web(), "web.toml").expect("is right");
    let environment: BTreeMap<String, String> = job.environment;
    let spec = TaskSpec { command: job.command, environment, user: job.user, stop_grace: PATIENCE };
    WantedTask { uid: TASK, name: "web.0.1".into(), spec: Arc::new(spec), intent }
}

/// What the task wrote until `enough`.
async fn log_until(server: &mut ServerLink, enough: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    while !enough(&text) {
        match tokio::time::timeout(PATIENCE, server.logs.recv()).await.expect("more comes") {
            Some(LogFrame::Bytes { bytes, .. }) => text.push_str(&String::from_utf8(bytes).expect("is text")),
            other => panic!("{other:?} after {text:?}"),
        }
    }
    text
}

#[tokio::test]
async fn the_example_serves_its_page_and_stops_when_asked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program: std::path::PathBuf = env!("CARGO_BIN_EXE_rollcall").into();
    let settings = SandboxSettings {
        folder: folder.path().join("agent"),
        task_user: "nobody".into(),
        allow_root: false,
        program: program.clone(),
        guard: RoleCommand { program: program.clone(), arguments: vec!["sandbox-guard".into()] },
        stage: RoleCommand { program, arguments: vec!["sandbox-stage".into()] },
    };
    let mut agent = Agent::open("n1", settings, system_clock).expect("opens");
    let (mut server, agent_link) = link();
    let serving = tokio::spawn(async move { agent.serve(agent_link).await });
    let first = ToAgent::Wanted { number: 1, tasks: vec![wanted(Intent::Run)] };
    server.wanted.send(first).await.expect("the agent lives");
    let request = LogRequest { request: 1, task: TASK, stream: Stream::Out, start: LogStart::Offset(0), follow: true };
    server.wanted.send(ToAgent::ReadLogs(request)).await.expect("the agent lives");
    let said = log_until(&mut server, |text| text.ends_with('\n')).await;
    let address = said.trim_end().strip_prefix("listening on http://").expect("says where").to_owned();
    let mut stream = TcpStream::connect(&address).expect("listens");
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").expect("takes a request");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("answers");
    assert!(page.contains("<h1>Hello from rollcall</h1>\n<p>This is web.0.1.</p>"), "{page}");
    log_until(&mut server, |text| text.contains("GET / HTTP/1.1 200\n")).await;
    let change = ToAgent::Changed { number: 2, tasks: vec![wanted(Intent::Stop)] };
    server.wanted.send(change).await.expect("the agent lives");
    let ending = loop {
        match tokio::time::timeout(PATIENCE, server.status.recv()).await.expect("more comes").expect("lives") {
            FromAgent::Status(status) => {
                if let TaskState::Ended { ending, .. } = status.state {
                    break ending;
                }
            }
            FromAgent::Hello { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ending, Ending::Exited { code: 0 });
    drop(server);
    serving.await.expect("the session ends");
}
