//! Process groups: made, signalled, counted and waited for.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;

use process_wrap::std::{CommandWrap, CommandWrapper, ProcessSession};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, test_kill_process_group};
use tokio::io::unix::AsyncFd;

use crate::readable::readable;

/// Makes the command start in a session and group of its own, away from our terminal.
///
/// The standard library has this only as an unstable call, and a hook before exec needs unsafe code; the wrapper crate is
/// used for its hook alone.
pub(crate) fn own_session(command: &mut Command) -> io::Result<()> {
    let unused = CommandWrap::from(Command::new(""));
    ProcessSession.pre_spawn(command, &unused)
}

/// A descriptor that becomes readable when the process ends, registered with the runtime.
pub(crate) fn watch_end(process: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    let descriptor = pidfd_open(process, PidfdFlags::NONBLOCK)?;
    readable(descriptor)
}

/// Sends a signal to every process of a group whose leader is ours and not yet reaped. Nobody left is no error.
pub(crate) fn signal(group: Pid, signal: Signal) {
    match kill_process_group(group, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        // Possible when a task changed its user with a setuid program.
        Err(error) => tracing::error!(group = group.as_raw_nonzero(), ?signal, %error, "cannot signal a process group"),
    }
}

/// Whether any process of the group is left, a reaped leader not counted. Costs one system call.
pub(crate) fn has_processes(group: Pid) -> bool {
    !matches!(test_kill_process_group(group), Err(rustix::io::Errno::SRCH))
}

/// Waits until no process of the group but its leader runs. Looks through /proc, so only for groups that are ending.
pub(crate) async fn wait_for_others(group: Pid) -> io::Result<()> {
    loop {
        let members = tokio::task::spawn_blocking(move || members(group)).await.map_err(io::Error::other)??;
        if members.is_empty() {
            return Ok(());
        }
        for member in members {
            match watch_end(member) {
                Ok(end) => _ = end.readable().await?,
                // It ended meanwhile.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The processes of a group without its leader and without the dead.
fn members(group: Pid) -> io::Result<Vec<Pid>> {
    let mut members = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else { continue };
        // A process may end between the listing and the reading.
        let Ok(stat) = std::fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())) else { continue };
        if process != group && group_if_alive(&stat) == Some(group) {
            members.push(process);
        }
    }
    Ok(members)
}

/// The group of a process from `/proc/PID/stat`; none when it is dead and only waits to be reaped.
fn group_if_alive(stat: &[u8]) -> Option<Pid> {
    // The name may hold spaces and brackets, so the fields count from its last bracket: state, parent, group.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok().and_then(Pid::from_raw)?;
    (!matches!(state, "Z" | "X" | "x")).then_some(group)
}

#[cfg(test)]
mod tests {
    use rustix::process::Pid;

    use super::group_if_alive;

    #[test]
    fn the_group_is_read_behind_any_name() {
        let table: [(&[u8], Option<i32>); 5] = [
            (b"12 (sleep) S 1 77 77 0 -1", Some(77)),
            (b"12 (a) Z (b) R 1 77 77 0 -1", Some(77)),
            (b"12 (\xff) S 1 77 77 0 -1", Some(77)),
            (b"12 (sleep) Z 1 77 77 0 -1", None),
            (b"", None),
        ];
        for (stat, group) in table {
            assert_eq!(group_if_alive(stat), group.and_then(Pid::from_raw));
        }
    }
}
