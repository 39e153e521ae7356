//! The owner of one sandbox: from its start to the end of its last process.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::folder::TaskFolder;
use crate::group;
use crate::logs::Logs;
use crate::sandboxes::SandboxSpec;
use crate::start::{StartError, Started, Starter};

/// How long the end of killed processes is waited for before the sandbox counts as ended all the same. Only a process
/// that hangs inside the kernel takes longer.
pub const KILL_WAIT_MAX: Duration = Duration::from_secs(30);
/// A longer grace is cut to this.
const STOP_GRACE_MAX: Duration = Duration::from_secs(24 * 3600);

/// How a sandbox ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The main process exited with this code.
    Exited {
        /// 0 to 255.
        code: i32,
    },
    /// The main process was killed by this signal.
    Signaled {
        /// The number of the signal.
        signal: i32,
    },
    /// The main process never ran.
    NotStarted {
        /// Why, in one line.
        reason: String,
    },
}

/// Where a sandbox is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxState {
    /// Its folder is being made and its process started.
    Starting,
    /// Its main process runs.
    Running {
        /// The number of the main process.
        pid: i32,
    },
    /// Nothing of it runs, for ever.
    Ended(Outcome),
}

/// The handle of one sandbox. The sandbox goes on when it is dropped.
#[derive(Debug)]
pub struct Sandbox {
    state: watch::Receiver<SandboxState>,
    stop: watch::Sender<Option<Instant>>,
    logs: Logs,
}

impl Sandbox {
    pub(crate) fn start(spec: SandboxSpec, folder: TaskFolder, starter: Arc<Starter>) -> Self {
        let (state_sender, state) = watch::channel(SandboxState::Starting);
        let (stop, stop_receiver) = watch::channel(None);
        let logs = Logs::new(folder.path.clone());
        let actor = Actor { starter, state: state_sender, stop: stop_receiver };
        tokio::spawn(actor.run(spec, folder));
        Self { state, stop, logs }
    }

    /// Where it is now.
    pub fn state(&self) -> SandboxState {
        self.state.borrow().clone()
    }

    /// A receiver that sees the states from now on; a state may be passed over when the next one follows at once.
    pub fn watch(&self) -> watch::Receiver<SandboxState> {
        self.state.clone()
    }

    /// Asks all processes to end with SIGTERM, and kills those that still run after `grace`. Said again, the earlier of
    /// the two ends counts, so a grace of zero kills at once.
    pub fn stop(&self, grace: Duration) {
        let deadline = Instant::now() + grace.min(STOP_GRACE_MAX);
        self.stop.send_modify(|stop| *stop = Some(stop.map_or(deadline, |earlier| earlier.min(deadline))));
    }

    /// Waits for the end.
    pub async fn ended(&self) -> Outcome {
        let mut state = self.state.clone();
        let ended = state.wait_for(|state| matches!(state, SandboxState::Ended(_))).await;
        match ended.as_deref() {
            Ok(SandboxState::Ended(outcome)) => outcome.clone(),
            // The runtime is going down and took the actor with it.
            _ => Outcome::NotStarted { reason: "the agent is ending".to_owned() },
        }
    }

    /// What it wrote.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }
}

struct Actor {
    starter: Arc<Starter>,
    state: watch::Sender<SandboxState>,
    stop: watch::Receiver<Option<Instant>>,
}

impl Actor {
    async fn run(mut self, spec: SandboxSpec, folder: TaskFolder) {
        let outcome = match self.start(spec, folder).await {
            Ok((started, end)) => self.attend(started, end).await,
            Err(error) => Outcome::NotStarted { reason: error.sentence() },
        };
        self.state.send_replace(SandboxState::Ended(outcome));
    }

    async fn start(&self, spec: SandboxSpec, folder: TaskFolder) -> Result<(Started, AsyncFd<OwnedFd>), StartError> {
        if self.stop.borrow().is_some() {
            return Err(StartError::Stopped);
        }
        let starter = Arc::clone(&self.starter);
        let program = spec.id.clone();
        let failed = |source| StartError::Spawn { program: program.clone(), source };
        let mut started = tokio::task::spawn_blocking(move || starter.start(&spec, &folder))
            .await
            .map_err(|error| failed(std::io::Error::other(error)))??;
        match group::watch_end(started.group) {
            Ok(end) => Ok((started, end)),
            Err(source) => {
                group::signal(started.group, Signal::KILL);
                let _ = started.child.wait();
                self.starter.guard.remove(started.group);
                Err(failed(source))
            }
        }
    }

    /// From the running process to the end of its group.
    async fn attend(&mut self, mut started: Started, end: AsyncFd<OwnedFd>) -> Outcome {
        let group = started.group;
        self.state.send_replace(SandboxState::Running { pid: group.as_raw_nonzero().get() });
        self.wait_for_main(group, &end).await;
        // The leader is dead but not reaped, so its group's number is still ours to signal. While stopping, the others of
        // a group keep their grace: the shell of `a | b` dies of SIGTERM at once, what it started may be saving its work.
        let deadline = *self.stop.borrow();
        if let Some(deadline) = deadline {
            let _ = timeout_at(deadline, group::wait_for_others(group)).await;
        }
        group::signal(group, Signal::KILL);
        let status = started.child.wait();
        if group::has_processes(group) {
            match timeout(KILL_WAIT_MAX, group::wait_for_others(group)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%group, %error, "cannot see whether a killed group has ended"),
                Err(_) => tracing::error!(%group, "killed processes still run after {KILL_WAIT_MAX:?}"),
            }
        }
        let starter = Arc::clone(&self.starter);
        // The write to the guard's pipe could block when the guard hangs.
        let _ = tokio::task::spawn_blocking(move || starter.guard.remove(group)).await;
        match status {
            Ok(status) => outcome(status),
            Err(error) => Outcome::NotStarted { reason: format!("its end could not be read: {error}") },
        }
    }

    /// Returns when the main process is dead. Meanwhile hears of stops and carries them out.
    async fn wait_for_main(&mut self, group: Pid, end: &AsyncFd<OwnedFd>) {
        let mut deadline = None;
        let mut asked = false;
        let mut handle_dropped = false;
        loop {
            // A stop may have come between the check before the start and now.
            let wanted = *self.stop.borrow_and_update();
            if wanted.is_some() && !asked {
                group::signal(group, Signal::TERM);
                asked = true;
            }
            if wanted.is_some() {
                deadline = wanted;
            }
            tokio::select! {
                biased;
                _ = end.readable() => return,
                changed = self.stop.changed(), if !handle_dropped => handle_dropped = changed.is_err(),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    group::signal(group, Signal::KILL);
                    let _ = end.readable().await;
                    return;
                }
            }
        }
    }
}

fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited { code },
        (None, signal) => Outcome::Signaled { signal: signal.unwrap_or_default() },
    }
}
