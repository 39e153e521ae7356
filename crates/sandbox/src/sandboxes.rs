//! The sandboxes of one agent: their folder, their user, their guard.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollcall_types::Command;
use thiserror::Error;

use crate::actor::Sandbox;
use crate::folder::{TaskFolder, make_passable, offer_program};
use crate::guard::Guard;
use crate::logs::Logs;
use crate::role::RoleCommand;
use crate::start::{StartError, Starter};
use crate::user::{Access, User, UserError};

/// The name under which the program is found on the PATH of every task.
const PROGRAM_NAME: &str = "rollcall";
/// A sandbox id has at most so many bytes: it is the name of a folder.
const ID_BYTES_MAX: usize = 128;

/// How an agent runs its sandboxes.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where their folders are. Made when missing.
    pub folder: PathBuf,
    /// Who tasks run as that name no user, when we are root. Otherwise they run as we do.
    pub task_user: String,
    /// Whether a job may name root.
    pub allow_root: bool,
    /// What `rollcall` on a task's PATH is.
    pub program: PathBuf,
    /// How the guard is started that ends all tasks with us: its `main` calls [`guard_main`](crate::guard_main).
    pub guard: RoleCommand,
    /// How the stage is started that becomes a task: its `main` calls [`stage_main`](crate::stage_main).
    pub stage: RoleCommand,
}

/// What runs in one sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSpec {
    /// The name of its folder: letters, digits, `-`, `_`, `.`. Never used twice.
    pub id: String,
    /// The program, or the line for the shell. `${NAME}` in a program's words comes from the task's environment.
    pub command: Command,
    /// Added to PATH, HOME and LANG, and wins over them.
    pub environment: BTreeMap<String, String>,
    /// The user; none: the agent's `task_user`.
    pub user: Option<String>,
}

/// Why an agent cannot run sandboxes at all.
#[derive(Debug, Error)]
pub enum OpenError {
    /// A folder could not be made, or the program not offered.
    #[error("cannot prepare the folder for tasks {}", path.display())]
    Folder {
        /// What was being made.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The tasks' user is none.
    #[error("cannot run tasks as task_user")]
    User(#[from] UserError),
    /// The tasks' user cannot get to its folders.
    #[error(
        "tasks run as user `{user}`, who may not enter {}; choose a data folder elsewhere (--data DIR), or chmod o+x {}",
        blocked.display(), blocked.display()
    )]
    Unreachable {
        /// Who tasks run as.
        user: String,
        /// The closed folder.
        blocked: PathBuf,
    },
}

/// The sandboxes of one agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sandboxes {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    tasks: PathBuf,
    starter: Arc<Starter>,
}

impl Sandboxes {
    /// Prepares the folder: made, open to the tasks' user, with the program in it. Blocks on the disk.
    ///
    /// # Errors
    /// When a folder cannot be made or the tasks' user does not exist or cannot get there.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        let current = User::current();
        let task_user = if current.is_root() { User::named(&settings.task_user)? } else { current.clone() };
        let (bin, tasks) = (settings.folder.join("bin"), settings.folder.join("tasks"));
        for path in [&settings.folder, &bin, &tasks] {
            make_passable(path).map_err(|source| OpenError::Folder { path: path.clone(), source })?;
        }
        let blocked = task_user.blocked_at(&tasks, Access::Enter);
        if let Some(blocked) = blocked.map_err(|source| OpenError::Folder { path: tasks.clone(), source })? {
            return Err(OpenError::Unreachable { user: task_user.name, blocked });
        }
        let absolute =
            |path: &Path| path.canonicalize().map_err(|source| OpenError::Folder { path: path.into(), source });
        let (bin, tasks) = (absolute(&bin)?, absolute(&tasks)?);
        offer_program(&settings.program, &bin, PROGRAM_NAME, &task_user)
            .map_err(|source| OpenError::Folder { path: bin.join(PROGRAM_NAME), source })?;
        let guard = Guard::new(settings.guard);
        let (allow_root, stage) = (settings.allow_root, settings.stage);
        let starter = Arc::new(Starter { bin, task_user, current, allow_root, guard, stage });
        Ok(Self { inner: Arc::new(Inner { tasks, starter }) })
    }

    /// Starts a sandbox; how that goes is told by its state. Must be called inside a runtime.
    ///
    /// # Errors
    /// When the id cannot name a folder.
    pub fn start(&self, spec: SandboxSpec) -> Result<Sandbox, StartError> {
        let folder = self.folder(&spec.id)?;
        Ok(Sandbox::start(spec, folder, Arc::clone(&self.inner.starter)))
    }

    /// What a sandbox wrote, also one of an earlier run of this agent.
    ///
    /// # Errors
    /// When the id cannot name a folder. That there is no such sandbox shows when reading.
    pub fn logs(&self, id: &str) -> Result<Logs, StartError> {
        Ok(Logs::new(self.folder(id)?.path))
    }

    /// The ids of all sandboxes that have a folder, in no order. Blocks on the disk.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn existing(&self) -> io::Result<Vec<String>> {
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&self.inner.tasks)? {
            ids.extend(entry?.file_name().into_string().ok().filter(|id| is_id(id)));
        }
        Ok(ids)
    }

    /// Removes the folder and logs of a sandbox that has ended. Nothing there is no error. Blocks on the disk.
    ///
    /// # Errors
    /// When the id cannot name a folder, or the disk refuses.
    pub fn remove(&self, id: &str) -> Result<(), StartError> {
        let folder = self.folder(id)?;
        match std::fs::remove_dir_all(&folder.path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StartError::Folder { path: folder.path, source })
            }
            _ => Ok(()),
        }
    }

    fn folder(&self, id: &str) -> Result<TaskFolder, StartError> {
        if !is_id(id) {
            return Err(StartError::Id { id: id.chars().take(ID_BYTES_MAX).collect() });
        }
        Ok(TaskFolder { path: self.inner.tasks.join(id) })
    }
}

fn is_id(id: &str) -> bool {
    let letters = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    (1..=ID_BYTES_MAX).contains(&id.len()) && letters && !id.starts_with('.')
}
