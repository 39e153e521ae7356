//! This program in another role.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::group::own_session;

/// How a process of ours is started in another role: a program whose `main` calls what the role does.
#[derive(Debug, Clone)]
pub struct RoleCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, which say the role.
    pub arguments: Vec<OsString>,
}

impl RoleCommand {
    /// The command, with nothing of our environment and terminal; it begins in `/`, and is silent.
    pub(crate) fn command(&self, name: &str) -> io::Result<Command> {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().current_dir("/");
        command.arg0(name).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C in the daemon's terminal is for the daemon alone.
        own_session(&mut command)?;
        Ok(command)
    }
}
