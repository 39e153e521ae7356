//! `dev`: server and agent in one process on loopback.

mod data;

use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use rollcall_agent::{Agent, HostFacts, RoleCommand, SandboxSettings, link, system_clock};
use rollcall_sandbox::User;
use rollcall_server::{HistoryBounds, RunningServer, Server, ServerSettings};
use rollcall_types::units::{format_cpus, show_bytes, show_duration};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::data::DataFolder;
use crate::arguments::{DEFAULT_PORT, DevArguments, Output};
use crate::failure::Failure;
use crate::output::{print, print_line};
use crate::table::printable;
use crate::times::{between, time_of};

/// The one agent of a development cluster.
const AGENT_NAME: &str = "n1";
/// Who tasks run as that name no user, when we are root.
const TASK_USER: &str = "nobody";
/// From Ctrl-C to the kill of what still runs.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Whoever holds our port has so long to say who it is.
const HOLDER_WAIT_MAX: Duration = Duration::from_secs(1);

pub async fn run(arguments: DevArguments, output: Output) -> Result<(), Failure> {
    if arguments.keep_tasks {
        return Err(Failure::usage("--keep-tasks is not yet supported: in this release tasks end with dev"));
    }
    if !arguments.listen.is_loopback() && !arguments.insecure {
        return Err(Failure::usage(open_to_all(arguments.listen)));
    }
    show_warnings();
    raise_file_limit();
    let begun = Instant::now();
    let failed = |what: &str, error: std::io::Error| Failure::work(format!("cannot {what}: {error}"));
    let mut interrupts = Interrupts::listen().map_err(|error| failed("listen for signals", error))?;
    let Started { address, greeting, running, agent, _data } = tokio::select! {
        started = start(&arguments) => started?,
        () = interrupts.next() => return Err(Failure::interrupted("ended before it was ready")),
    };
    match output {
        Output::Table => print(&format!("{greeting}{}", ready_text(address, begun.elapsed())))?,
        _ => print_line(&json!({ "address": address.to_string(), "pid": std::process::id() }).to_string())?,
    }
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(running.serve_until(async {
        // A sender that is gone means stop as well.
        let _ = stopped.await;
    }));
    let ending = async {
        let served = serving.await.map_err(|error| Failure::work(format!("the server ended: {error}")));
        // Its own end is told by the server already.
        let _ = agent.await;
        served?.map_err(|error| Failure::work(told_whole(&error)))
    };
    tokio::pin!(ending);
    tokio::select! {
        end = &mut ending => return end,
        () = interrupts.next() => {}
    }
    eprintln!("stopping the tasks, then the server; Ctrl-C again ends at once");
    drop(stop);
    tokio::select! {
        end = ending => end,
        () = interrupts.next() => Err(Failure::interrupted("ended at once; the tasks were killed")),
    }
}

/// Everything, running.
struct Started {
    address: SocketAddr,
    greeting: String,
    running: RunningServer,
    agent: JoinHandle<()>,
    /// Held until the end, so that nobody else takes the folder.
    _data: DataFolder,
}

async fn start(arguments: &DevArguments) -> Result<Started, Failure> {
    let listener = listen(SocketAddr::new(arguments.listen, arguments.port)).await?;
    let address = listener.local_addr().map_err(|error| Failure::work(format!("cannot read the port: {error}")))?;
    let data = DataFolder::open(arguments.data.as_deref(), arguments.fresh)?;
    let mut agent = open_agent(&data.agent()).await?;
    let server = open_server(&data, arguments.watch_memory).await?;
    let facts = StartFacts { address, agent: agent.facts(), data: &data.shown(), fresh: data.is_new() };
    let greeting = start_text(&facts);
    let (server_link, agent_link) = link();
    let agent = tokio::spawn(async move {
        agent.serve(agent_link).await;
        // The session ends when all its tasks have; what is left is told to end once more.
        agent.stop_all(STOP_GRACE).await;
    });
    let running = server.start(listener, server_link).await.map_err(|error| Failure::work(told_whole(&error)))?;
    Ok(Started { address, greeting, running, agent, _data: data })
}

/// Ctrl-C, and how others ask a process to end.
struct Interrupts {
    interrupted: Signal,
    terminated: Signal,
}

impl Interrupts {
    fn listen() -> std::io::Result<Self> {
        let (interrupted, terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupted, terminated })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
        }
    }
}

/// Warnings of all parts go to standard error, one line each.
fn show_warnings() {
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::WARN);
    // Set before, it stays; that is a matter of tests only.
    let _ = lines.with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init();
}

/// Every task and connection is an open file, and most systems allow few at first and many to who asks.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays at {:?}", limit.current);
    }
}

async fn open_server(data: &DataFolder, watch_memory: u64) -> Result<Server, Failure> {
    let folder = data.closed_store()?;
    let settings = ServerSettings {
        agent_disk_bytes: disk_bytes(data).unwrap_or(0),
        folder,
        version: env!("CARGO_PKG_VERSION"),
        task_user: task_user().as_str().into(),
        history: HistoryBounds::default(),
        watch_bytes_max: usize::try_from(watch_memory).unwrap_or(usize::MAX),
    };
    let opening = tokio::task::spawn_blocking(move || Server::open(settings));
    let opened = opening.await.map_err(|error| Failure::work(format!("the server did not start: {error}")))?;
    let (server, warnings) = opened.map_err(|error| Failure::work(told_whole(&error)))?;
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    Ok(server)
}

/// What the file system of the data has in all.
fn disk_bytes(data: &DataFolder) -> Option<u64> {
    let facts = rustix::fs::statvfs(data.agent()).ok()?;
    facts.f_blocks.checked_mul(facts.f_frsize)
}

/// Who tasks run as that name nobody.
fn task_user() -> String {
    let user = User::current();
    if user.is_root() { TASK_USER.to_owned() } else { user.name }
}

/// An error and what caused it, in one line.
fn told_whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let port = address.port();
            Err(Failure::work(match holder(address).await {
                Some(holder) => {
                    format!("port {port} is in use{holder}. Use it, or: rollcall dev --port 0 --data DIR")
                }
                None => format!("port {port} is in use by another program. Take a free one: rollcall dev --port 0"),
            }))
        }
        Err(error) => {
            let instead = "Take a free port: rollcall dev --port 0";
            Err(Failure::work(format!("cannot listen at {address}: {error}. {instead}")))
        }
    }
}

/// Who listens there, if it is one of us: ` by rollcall dev (pid 4711, since 3 h)`.
async fn holder(address: SocketAddr) -> Option<String> {
    let server = crate::client::Server::parse(&address.to_string()).ok()?;
    let asked = tokio::time::timeout(HOLDER_WAIT_MAX, server.get("/v1/version"));
    let told = asked.await.ok()?.ok()?.json;
    let (mode, pid) = (told["mode"].as_str()?, told["pid"].as_u64()?);
    let since = time_of(&told["started"]).zip(time_of(&told["time"]));
    let since = since.map(|(started, now)| format!(", since {}", show_duration(between(started, now))));
    Some(format!(" by rollcall {} (pid {pid}{})", printable(mode), since.unwrap_or_default()))
}

fn open_to_all(address: IpAddr) -> String {
    format!(
        "--listen {address}: everybody who reaches this address could start programs here, and credentials are not yet
supported. For this machine only, leave it out; in a network where you trust everybody: --insecure"
    )
}

async fn open_agent(folder: &Path) -> Result<Agent, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::work(format!("cannot find this program: {error}")))?;
    let settings = SandboxSettings {
        folder: folder.to_owned(),
        task_user: TASK_USER.to_owned(),
        allow_root: false,
        program: program.clone(),
        guard: RoleCommand { program: program.clone(), arguments: vec!["sandbox-guard".into()] },
        stage: RoleCommand { program, arguments: vec!["sandbox-stage".into()] },
    };
    let opening = tokio::task::spawn_blocking(move || Agent::open(AGENT_NAME, settings, system_clock));
    let opened = opening.await.map_err(|error| Failure::work(format!("the agent did not start: {error}")))?;
    opened.map_err(|error| Failure::work(told_whole(&error)))
}

/// What the first lines are made from.
struct StartFacts<'a> {
    address: SocketAddr,
    agent: &'a HostFacts,
    data: &'a str,
    fresh: bool,
}

fn start_text(facts: &StartFacts<'_>) -> String {
    let StartFacts { address, agent, data, fresh } = facts;
    let version = env!("CARGO_PKG_VERSION");
    let (cpus, memory) = (format_cpus(agent.cpus), show_bytes(agent.memory));
    let reach = if address.ip().is_loopback() { "loopback only" } else { "OPEN TO EVERYBODY who reaches it" };
    let kept = if *fresh { "new" } else { "kept; --fresh starts empty" };
    format!(
        "rollcall {version}   all in one process, {reach}
  API     http://{address}
  agent   {}: {cpus} cpus, {memory} memory, counted, not enforced in this release
  data    {data}  ({kept})
",
        agent.name
    )
}

fn ready_text(address: SocketAddr, took: Duration) -> String {
    let took = show_duration(took);
    let elsewhere = match address.port() {
        DEFAULT_PORT => String::new(),
        _ => format!("  export ROLLCALL_SERVER={address}\n"),
    };
    format!(
        "
ready in {took}. In another terminal (the example needs nothing but this binary):
{elsewhere}  rollcall example web > web.toml && rollcall run web.toml
  rollcall tasks
Ctrl-C stops the tasks, then the server. In this release no task outlives dev, however it ends.
"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rollcall_agent::HostFacts;

    use super::{StartFacts, ready_text, start_text};

    #[test]
    fn the_start_says_where_everything_is_and_what_to_try() {
        let agent = HostFacts { name: "n1".into(), cpus: 2000, memory: 15 << 29 };
        let address = "127.0.0.1:5050".parse().expect("is an address");
        let facts = StartFacts { address, agent: &agent, data: "~/.local/share/rollcall/dev", fresh: false };
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "rollcall {version}   all in one process, loopback only
  API     http://127.0.0.1:5050
  agent   n1: 2 cpus, 7.5G memory, counted, not enforced in this release
  data    ~/.local/share/rollcall/dev  (kept; --fresh starts empty)
"
        );
        assert_eq!(start_text(&facts), expected);
        let ready = ready_text(address, Duration::from_millis(110));
        assert!(ready.starts_with("\nready in 0.1 s. In another terminal"), "{ready}");
        assert!(!ready.contains("export"), "the default port needs no saying");
        let ready = ready_text("127.0.0.1:40001".parse().expect("is an address"), Duration::ZERO);
        assert!(ready.contains("  export ROLLCALL_SERVER=127.0.0.1:40001\n"), "{ready}");
        assert!(ready.lines().all(|line| line.chars().count() <= 100));
    }
}
