//! The folder in which `dev` keeps everything, and its lock.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::failure::Failure;

/// Below the user's own folder for data.
const BELOW_HOME: &str = "rollcall/dev";
/// For root, whose home is closed to the tasks' user.
const FOR_ROOT: &str = "/var/lib/rollcall/dev";
/// Others may pass through to the folders of their tasks, but not look around.
const MODE: u32 = 0o711;
const CLOSED_MODE: u32 = 0o700;
const LOCK: &str = "lock";
const PARTS: [&str; 2] = ["agent", "store"];

/// The folder, held by this process alone until it ends.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    is_new: bool,
    /// Open for as long as the folder is ours.
    _lock: File,
}

impl DataFolder {
    /// Takes the folder, makes it when it is missing, and empties it when `fresh`.
    pub fn open(path: Option<&Path>, fresh: bool) -> Result<Self, Failure> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => default_path()?,
        };
        let failed = |what: &str, error: std::io::Error| {
            Failure::work(format!("cannot {what} the data folder {}: {error}", path.display()))
        };
        let made = std::fs::DirBuilder::new().recursive(true).mode(MODE).create(&path);
        made.map_err(|error| {
            let path = path.display();
            Failure::work(format!(
                "cannot make the data folder {path}: {error}. Keep it elsewhere: rollcall dev --data DIR"
            ))
        })?;
        let lock = lock(&path).map_err(|error| failed("lock", error))?;
        let Ok(lock) = lock else {
            let holder = lock.expect_err("is held").map(|pid| format!(" (pid {pid})")).unwrap_or_default();
            let path = path.display();
            return Err(Failure::work(format!(
                "{path} is in use by rollcall dev{holder}. Use that one, or: rollcall dev --port 0 --data DIR"
            )));
        };
        let parts = PARTS.map(|part| path.join(part));
        if fresh {
            // Only what is ours: the folder may have been given by mistake.
            for part in parts.iter().filter(|part| part.exists()) {
                std::fs::remove_dir_all(part).map_err(|error| failed("empty", error))?;
            }
        }
        let is_new = !parts.iter().any(|part| part.exists());
        let path = path.canonicalize().map_err(|error| failed("find", error))?;
        Ok(Self { path, is_new, _lock: lock })
    }

    /// Where the agent keeps its tasks.
    pub fn agent(&self) -> PathBuf {
        self.path.join("agent")
    }

    /// Where the server keeps its store.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// The same, made when it is missing, and closed to the tasks' user: what other tasks run and with which environment is in there.
    pub fn closed_store(&self) -> Result<PathBuf, Failure> {
        let path = self.store();
        let made = std::fs::DirBuilder::new().recursive(true).mode(CLOSED_MODE).create(&path);
        let closed = made.and_then(|()| std::fs::set_permissions(&path, Permissions::from_mode(CLOSED_MODE)));
        closed.map_err(|error| Failure::work(format!("cannot make the folder {}: {error}", path.display())))?;
        Ok(path)
    }

    /// Whether nothing was kept.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The path as a person would write it.
    pub fn shown(&self) -> String {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        match home.as_deref().and_then(|home| self.path.strip_prefix(home).ok()) {
            Some(below) => format!("~/{}", below.display()),
            None => self.path.display().to_string(),
        }
    }
}

/// The lock file, or the number of the process that holds it, if it says so.
fn lock(folder: &Path) -> std::io::Result<Result<File, Option<u32>>> {
    let mut options = File::options();
    let mut file = options.read(true).write(true).create(true).truncate(false).open(folder.join(LOCK))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())?;
            Ok(Ok(file))
        }
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let holder = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            Ok(Err(holder))
        }
        Err(error) => Err(error.into()),
    }
}

fn default_path() -> Result<PathBuf, Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(FOR_ROOT.into());
    }
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let folder = data.or_else(home).map(|data| data.join(BELOW_HOME));
    folder.ok_or_else(|| Failure::usage("HOME is not set; say where to keep the data: rollcall dev --data DIR"))
}

#[cfg(test)]
mod tests {
    use super::DataFolder;

    #[test]
    fn a_folder_has_one_owner_and_is_kept_unless_fresh() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("data");
        let first = DataFolder::open(Some(&path), false).expect("is free");
        assert!(first.is_new());
        std::fs::create_dir(first.store()).expect("is made");
        std::fs::write(path.join("mine"), "kept").expect("is written");
        let refused = DataFolder::open(Some(&path), true).expect_err("is in use");
        assert_eq!(refused.exit_code(), 1);
        assert!(first.store().exists(), "what is in use is not emptied");
        drop(first);
        let again = DataFolder::open(Some(&path), false).expect("is free again");
        assert!(!again.is_new());
        drop(again);
        let fresh = DataFolder::open(Some(&path), true).expect("is free again");
        assert!(fresh.is_new() && !fresh.store().exists() && path.join("mine").exists());
    }
}
