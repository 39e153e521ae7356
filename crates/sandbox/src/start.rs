//! From a spec to a running process.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Child;

use rollcall_types::{ExpandError, expand};
use rustix::process::{Pid, Signal};
use thiserror::Error;

use crate::folder::TaskFolder;
use crate::group;
use crate::guard::Guard;
use crate::role::RoleCommand;
use crate::sandboxes::SandboxSpec;
use crate::stage::{Order, StageLink, os};
use crate::user::{User, UserError};

/// Where programs are looked for, after the folder with our own.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const LANG: &str = "C.UTF-8";
const SHELL: &str = "/bin/sh";

/// Why a sandbox did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The id cannot name a folder.
    #[error("`{id}` is not the id of a task: letters, digits, - _ . are, the dot not first")]
    Id {
        /// What was given.
        id: String,
    },
    /// The task's folder could not be made or removed. One that is there already belongs to an earlier task.
    #[error("cannot prepare the task's folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The job's user is none of this machine.
    #[error("cannot run as the job's user")]
    User(#[from] UserError),
    /// The job's user is not for tasks here.
    #[error("user `{user}` is not allowed here: {reason}")]
    UserNotAllowed {
        /// Whom the job names.
        user: String,
        /// What would allow it.
        reason: &'static str,
    },
    /// A word of the command names an environment variable that is not there.
    #[error("cannot expand word {word} of the command")]
    Expand {
        /// The number of the word, the program being 1.
        word: usize,
        /// What is wrong with it.
        #[source]
        source: ExpandError,
    },
    /// There is no such program, or its interpreter is missing.
    #[error("no program `{program}` in the task's folder or on its PATH ({path})")]
    NoProgram {
        /// The first word of the command.
        program: String,
        /// The task's PATH.
        path: String,
    },
    /// The system refused to start the program.
    #[error("cannot start `{program}`")]
    Spawn {
        /// The first word of the command.
        program: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It was to stop before it had started.
    #[error("stopped before it had started")]
    Stopped,
}

impl StartError {
    /// The error with its causes in one line, for people and for status reports.
    pub fn sentence(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
    }
}

/// What all sandboxes of an agent share.
#[derive(Debug)]
pub(crate) struct Starter {
    pub(crate) bin: PathBuf,
    pub(crate) task_user: User,
    pub(crate) current: User,
    pub(crate) allow_root: bool,
    pub(crate) guard: Guard,
    pub(crate) stage: RoleCommand,
}

/// A process that was started and is guarded. Its group has the number of the process.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) group: Pid,
}

/// A process that waits for the order to become a task.
struct Stage {
    child: Child,
    group: Pid,
    link: StageLink,
}

impl Stage {
    /// Has it guarded first: a task that is not guarded could outlive us, so it does not run.
    fn become_task(self, order: &[u8], guard: &Guard) -> io::Result<Started> {
        let Stage { mut child, group, link } = self;
        let listed = guard.add(group);
        let is_listed = listed.is_ok();
        let Err(error) = listed.and_then(|()| link.send(order)) else { return Ok(Started { child, group }) };
        group::signal(group, Signal::KILL);
        let _ = child.wait();
        if is_listed {
            guard.remove(group);
        }
        Err(error)
    }
}

impl Starter {
    /// Blocks on the disk and on the start of the process.
    pub(crate) fn start(&self, spec: &SandboxSpec, folder: &TaskFolder) -> Result<Started, StartError> {
        let user = self.user(spec.user.as_deref())?;
        let environment = self.environment(spec, folder);
        let words = words(&spec.command, &environment)?;
        folder.make(&user).map_err(|source| StartError::Folder { path: folder.path.clone(), source })?;
        let path = environment.get("PATH").cloned().unwrap_or_default();
        let Some(program) = words.first().cloned() else {
            return Err(StartError::NoProgram { program: String::new(), path });
        };
        let order = Order {
            user: self.current.is_root().then_some((user.uid, user.gid)),
            folder: folder.work(),
            out: folder.out(),
            err: folder.err(),
            words: words.into_iter().map(Into::into).collect(),
            environment: environment.iter().map(|(name, value)| (os(name), os(value))).collect(),
        };
        let started = order.encode().and_then(|order| self.start_stage(folder)?.become_task(&order, &self.guard));
        started.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StartError::NoProgram { program, path },
            _ => StartError::Spawn { program, source },
        })
    }

    /// The process of a task before it is one.
    fn start_stage(&self, folder: &TaskFolder) -> io::Result<Stage> {
        let (link, input) = StageLink::new()?;
        let mut command = self.stage.command("rollcall-stage")?;
        let child = command.stdin(input).current_dir(&folder.path).spawn()?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("the kernel's ids are positive i32");
        Ok(Stage { child, group, link })
    }

    fn user(&self, named: Option<&str>) -> Result<User, StartError> {
        let Some(name) = named else { return Ok(self.task_user.clone()) };
        let user = User::named(name)?;
        if !self.current.is_root() && user.uid != self.current.uid {
            let reason = "this agent is not root and runs every task as itself";
            return Err(StartError::UserNotAllowed { user: user.name, reason });
        }
        if self.current.is_root() && user.is_root() && !self.allow_root {
            let reason = "the agent's configuration does not allow tasks of root";
            return Err(StartError::UserNotAllowed { user: user.name, reason });
        }
        Ok(user)
    }

    fn environment(&self, spec: &SandboxSpec, folder: &TaskFolder) -> BTreeMap<String, String> {
        let path = format!("{}:{SYSTEM_PATH}", self.bin.display());
        let home = folder.work().display().to_string();
        let ours = [("PATH".to_owned(), path), ("HOME".to_owned(), home), ("LANG".to_owned(), LANG.to_owned())];
        let mut environment = BTreeMap::from(ours);
        environment.extend(spec.environment.clone());
        environment
    }
}

/// The program and its arguments. The line of a shell is left to the shell.
fn words(command: &rollcall_types::Command, environment: &BTreeMap<String, String>) -> Result<Vec<String>, StartError> {
    let lookup = |name: &str| environment.get(name).map(String::as_str);
    match command {
        rollcall_types::Command::Shell(line) => Ok(vec![SHELL.to_owned(), "-c".to_owned(), line.clone()]),
        rollcall_types::Command::Argv(words) => words
            .iter()
            .enumerate()
            .map(|(at, word)| expand(word, lookup).map_err(|source| StartError::Expand { word: at + 1, source }))
            .collect(),
    }
}
