//! What the tests share: a folder with sandboxes, and this test program in other roles.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rollcall_sandbox::{Outcome, RoleCommand, Sandbox, SandboxSpec, Sandboxes, Settings, Stream};
use rollcall_types::Command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tempfile::TempDir;

/// Long enough for anything that works; only a failing test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Place {
    pub sandboxes: Sandboxes,
    pub folder: TempDir,
}

/// This test program in another role: the name of a test is how one gets into it, the next word makes it act, and the
/// folder tells it from those of other tests in this process.
fn role_command(test: &str, role: &str, folder: &Path) -> RoleCommand {
    let program = std::env::current_exe().expect("this program has a path");
    let mut arguments = [test, "--exact", "--nocapture", role].map(Into::into).to_vec();
    arguments.push(folder.into());
    RoleCommand { program, arguments }
}

pub fn settings(folder: &Path) -> Settings {
    Settings {
        folder: folder.to_owned(),
        task_user: "nobody".into(),
        allow_root: false,
        program: "/bin/true".into(),
        guard: role_command("guarding::guard_entry", "run-as-guard", folder),
        stage: role_command("guarding::stage_entry", "run-as-stage", folder),
    }
}

pub fn place() -> Place {
    let folder = TempDir::new().expect("a temporary folder");
    let sandboxes = Sandboxes::open(settings(folder.path())).expect("sandboxes open");
    Place { sandboxes, folder }
}

pub fn spec(id: &str, command: Command) -> SandboxSpec {
    SandboxSpec { id: id.into(), command, environment: BTreeMap::new(), user: None }
}

pub fn shell(id: &str, line: &str) -> SandboxSpec {
    spec(id, Command::Shell(line.into()))
}

impl Place {
    pub fn start(&self, spec: SandboxSpec) -> Sandbox {
        self.sandboxes.start(spec).expect("the id is right")
    }

    /// Runs a line of shell to its end: the outcome and what it wrote to both outputs.
    pub async fn run(&self, id: &str, line: &str) -> (Outcome, String, String) {
        let sandbox = self.start(shell(id, line));
        let outcome = end(&sandbox).await;
        (outcome, text(&sandbox, Stream::Out), text(&sandbox, Stream::Err))
    }
}

pub async fn end(sandbox: &Sandbox) -> Outcome {
    tokio::time::timeout(PATIENCE, sandbox.ended()).await.expect("the sandbox ends")
}

pub fn text(sandbox: &Sandbox, stream: Stream) -> String {
    let chunk = sandbox.logs().read(stream, 0, usize::MAX).expect("the log is there");
    String::from_utf8_lossy(&chunk.bytes).into_owned()
}

/// Waits until the task wrote a whole first line, and gives it.
pub async fn first_line(sandbox: &Sandbox) -> String {
    let reading = async {
        let mut line = Vec::new();
        let mut follow = sandbox.logs().follow(Stream::Out, 0).expect("the log is there");
        while !line.contains(&b'\n') {
            line.extend(follow.next().await.expect("the log is readable").bytes);
        }
        String::from_utf8(line).expect("is text").lines().next().expect("has a line").to_owned()
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the task writes a line")
}

/// Waits until the sandbox runs, and with it its logs exist.
pub async fn running(sandbox: &Sandbox) -> i32 {
    use rollcall_sandbox::SandboxState;
    let mut states = sandbox.watch();
    let state = states.wait_for(|state| *state != SandboxState::Starting).await.expect("the actor lives").clone();
    match state {
        SandboxState::Running { pid } => pid,
        other => panic!("not running but {other:?}"),
    }
}

/// Waits for the end of any process, also one that is not our child.
pub fn wait_for_end(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a process number");
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience)).expect("poll works");
    assert_eq!(ready, 1, "process {pid:?} still runs");
}

/// Whether a process runs; the dead that nobody reaped do not count.
pub fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|fields| !fields.is_empty() && !fields.trim_start().starts_with('Z'))
}
