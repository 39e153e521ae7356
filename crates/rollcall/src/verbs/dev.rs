//! `dev`: server and agent in one process on loopback.

mod data;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use rollcall_agent::{Agent, GuardCommand, HostFacts, SandboxSettings, ServerLink, link, system_clock};
use rollcall_types::units::{format_cpus, show_bytes, show_duration};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use self::data::DataFolder;
use crate::arguments::{DEFAULT_PORT, DevArguments};
use crate::failure::Failure;
use crate::output::print;

/// The one agent of a development cluster.
const AGENT_NAME: &str = "n1";
/// Who tasks run as that name no user, when we are root.
const TASK_USER: &str = "nobody";
/// From Ctrl-C to the kill of what still runs.
const STOP_GRACE: Duration = Duration::from_secs(10);

pub async fn run(arguments: DevArguments) -> Result<(), Failure> {
    if arguments.keep_tasks {
        return Err(Failure::usage("--keep-tasks is not yet supported: in this release tasks end with dev"));
    }
    let begun = Instant::now();
    let failed = |what: &str, error: std::io::Error| Failure::work(format!("cannot {what}: {error}"));
    let (mut interrupted, mut terminated) = (
        signal(SignalKind::interrupt()).map_err(|error| failed("listen for signals", error))?,
        signal(SignalKind::terminate()).map_err(|error| failed("listen for signals", error))?,
    );
    let listener = listen(arguments.port).await?;
    let address = listener.local_addr().map_err(|error| failed("read the port", error))?;
    let data = DataFolder::open(arguments.data.as_deref(), arguments.fresh)?;
    let mut agent = open_agent(&data.agent()).await?;
    let text = start_text(&StartFacts { address, agent: agent.facts(), data: &data.shown(), fresh: data.is_new() });
    let (server_link, agent_link) = link();
    let (stop, stopping) = watch::channel(false);
    let serving = tokio::spawn(serve(listener, data.store(), server_link, stopping));
    let agent = tokio::spawn(async move {
        agent.serve(agent_link).await;
        // The session ends with the server; the tasks end with us.
        agent.stop_all(STOP_GRACE).await;
    });
    print(&format!("{text}{}", ready_text(address, begun.elapsed())))?;
    tokio::pin!(serving);
    let early = tokio::select! {
        end = &mut serving => Some(end),
        _ = interrupted.recv() => None,
        _ = terminated.recv() => None,
    };
    let end = match early {
        Some(end) => end,
        None => {
            eprintln!("stopping the tasks, then the server; again Ctrl-C to end at once");
            stop.send_replace(true);
            tokio::select! {
                end = &mut serving => end,
                _ = interrupted.recv() => return Err(Failure::interrupted("ended at once; the tasks were killed")),
            }
        }
    };
    let end = end.unwrap_or_else(|error| Err(Failure::work(format!("the server ended: {error}"))));
    tokio::select! {
        _ = agent => end,
        _ = interrupted.recv() => Err(Failure::interrupted("ended at once; the tasks were killed")),
    }
}

/// The server's part of this process: serves HTTP until told to stop, and drops its end of the session last.
async fn serve(
    _listener: TcpListener,
    _store: std::path::PathBuf,
    _agent: ServerLink,
    _stopping: watch::Receiver<bool>,
) -> Result<(), Failure> {
    Err(Failure::work("this build has no server yet"))
}

async fn listen(port: u16) -> Result<TcpListener, Failure> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            Failure::work(format!("port {port} is in use. Use what runs there, or: rollcall dev --port 0 --data DIR"))
        }
        _ => Failure::work(format!("cannot listen on port {port}: {error}")),
    })
}

async fn open_agent(folder: &Path) -> Result<Agent, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::work(format!("cannot find this program: {error}")))?;
    let settings = SandboxSettings {
        folder: folder.to_owned(),
        task_user: TASK_USER.to_owned(),
        allow_root: false,
        program: program.clone(),
        guard: GuardCommand { program, arguments: vec!["sandbox-guard".into()] },
    };
    let opening = tokio::task::spawn_blocking(move || Agent::open(AGENT_NAME, settings, system_clock));
    let opened = opening.await.map_err(|error| Failure::work(format!("the agent did not start: {error}")))?;
    opened.map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Failure::work(format!("{error}{cause}"))
    })
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
    let kept = if *fresh { "new" } else { "kept; --fresh starts empty" };
    format!(
        "rollcall {version}   all in one process, loopback only
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
