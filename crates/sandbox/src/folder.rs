//! The folders of sandboxes: who owns what, and whether the tasks' user can get there.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use crate::user::{Access, User};

/// A folder that others may pass through but not list.
const PASS_THROUGH: u32 = 0o711;
/// What a task wrote is for us alone: readers are checked by the server.
const LOG_MODE: u32 = 0o600;
/// A task's own folder.
const WORK_MODE: u32 = 0o700;
const PROGRAM_MODE: u32 = 0o755;

/// The files of one task.
#[derive(Debug, Clone)]
pub(crate) struct TaskFolder {
    pub(crate) path: PathBuf,
}

impl TaskFolder {
    pub(crate) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.path.join("out")
    }

    pub(crate) fn err(&self) -> PathBuf {
        self.path.join("err")
    }

    /// Makes the folder with both logs. Fails when the folder is there: no task runs twice.
    pub(crate) fn make(&self, owner: &User) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(PASS_THROUGH).create(&self.path)?;
        for log in [self.out(), self.err()] {
            std::fs::OpenOptions::new().append(true).create_new(true).mode(LOG_MODE).open(log)?;
        }
        let work = self.work();
        std::fs::DirBuilder::new().mode(WORK_MODE).create(&work)?;
        if rustix::process::geteuid().is_root() {
            chown(&work, Some(owner.uid), Some(owner.gid))?;
        }
        Ok(())
    }
}

/// Makes a folder of ours, and lets others pass through it when it was made closed.
pub(crate) fn make_passable(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(PASS_THROUGH).create(path)?;
    let metadata = path.metadata()?;
    let mode = metadata.mode() & 0o7777;
    if rustix::process::geteuid().is_root() && metadata.uid() == 0 && mode & 0o011 != 0o011 {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode | 0o011))?;
    }
    Ok(())
}

/// Puts the program into `folder` under `name` in a way that `user` can run it: as a link when the program's own place
/// is open to that user, else as the same file or a copy. (root's home is closed on most machines.)
pub(crate) fn offer_program(program: &Path, folder: &Path, name: &str, user: &User) -> io::Result<()> {
    let offered = folder.join(name);
    let fresh = folder.join(format!(".{name}.new"));
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if user.blocked_at(program, Access::Run)?.is_none() {
        symlink(program.canonicalize()?, &fresh)?;
    } else {
        let readable_by_all = program.metadata()?.mode() & 0o005 == 0o005;
        if !readable_by_all || std::fs::hard_link(program, &fresh).is_err() {
            std::fs::copy(program, &fresh)?;
            std::fs::set_permissions(&fresh, PermissionsExt::from_mode(PROGRAM_MODE))?;
        }
    }
    std::fs::rename(&fresh, &offered)?;
    // Renaming one name of a file onto another name of the same file does nothing, and leaves both.
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
