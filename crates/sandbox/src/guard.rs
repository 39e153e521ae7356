//! The guard: a process that kills every listed group when the daemon that started it is gone.
//!
//! The daemon writes `+GROUP` when a process was started, before it becomes a task, and `-GROUP` when its group is empty, one a line. The guard
//! reads until the pipe ends, which also happens when the daemon is killed, then kills what is still listed. A parent
//! death signal would reach the main processes only, and is sent when a *thread* of the daemon ends.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::role::RoleCommand;

/// More groups are not guarded at a time; a start beyond it fails.
pub const GUARDED_GROUPS_MAX: usize = 16_384;
/// No line of the protocol is longer, sign and newline included.
const LINE_BYTES_MAX: u64 = 16;

/// What a guard process does: reads groups from standard input until its end, then kills those that are left.
///
/// # Errors
/// When standard input cannot be read. The groups are killed also then.
pub fn guard_main() -> io::Result<()> {
    let mut groups = HashSet::new();
    let result = follow(&mut BufReader::new(io::stdin()), &mut groups);
    for group in groups {
        // A group that ended just now is what we want.
        let _ = kill_process_group(group, Signal::KILL);
    }
    result
}

fn follow(input: &mut impl BufRead, groups: &mut HashSet<Pid>) -> io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        let read = io::Read::take(&mut *input, LINE_BYTES_MAX).read_line(&mut line)?;
        // A line without its end was cut off by the death of the daemon.
        if read == 0 || !line.ends_with('\n') {
            return Ok(());
        }
        let (sign, number) = line.trim_end().split_at_checked(1).unwrap_or_default();
        // Group 1 would be everything that may be signalled, and none of ours.
        let group = number.parse().ok().filter(|number| *number > 1).and_then(Pid::from_raw);
        match (sign, group) {
            ("+", Some(group)) => _ = groups.insert(group),
            ("-", Some(group)) => _ = groups.remove(&group),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, format!("not a line of a guard: {line:?}"))),
        }
    }
}

/// The daemon's end. Starts a guard with the first group, and a new one when the old one died.
#[derive(Debug)]
pub(crate) struct Guard {
    command: RoleCommand,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    groups: HashSet<Pid>,
    child: Option<Child>,
}

impl Guard {
    pub(crate) fn new(command: RoleCommand) -> Self {
        Self { command, state: Mutex::default() }
    }

    /// Lists a group. Blocks for one small write.
    pub(crate) fn add(&self, group: Pid) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.groups.len() >= GUARDED_GROUPS_MAX {
            return Err(io::Error::other(format!(
                "{GUARDED_GROUPS_MAX} process groups run already, which is the most"
            )));
        }
        state.groups.insert(group);
        let told = self.tell(&mut state, &format!("+{}\n", group.as_raw_nonzero()));
        if told.is_err() {
            state.groups.remove(&group);
        }
        told
    }

    /// Takes a group off the list, once no process of it is left.
    pub(crate) fn remove(&self, group: Pid) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.groups.remove(&group);
        if let Err(error) = self.tell(&mut state, &format!("-{}\n", group.as_raw_nonzero())) {
            tracing::error!(%error, "no guard runs: tasks will outlive this daemon if it is killed");
        }
    }

    fn tell(&self, state: &mut State, line: &str) -> io::Result<()> {
        if let Some(input) = state.child.as_mut().and_then(|child| child.stdin.as_mut()) {
            match input.write_all(line.as_bytes()) {
                Ok(()) => return Ok(()),
                Err(error) => tracing::warn!(%error, "the guard process is gone; starting another"),
            }
        }
        if let Some(mut dead) = state.child.take() {
            drop(dead.stdin.take());
            // It closed its end, so it is ending.
            let _ = dead.wait();
        }
        let mut child = self.start()?;
        let whole: String = state.groups.iter().map(|group| format!("+{}\n", group.as_raw_nonzero())).collect();
        child.stdin.as_mut().expect("stdin was asked to be a pipe").write_all(whole.as_bytes())?;
        state.child = Some(child);
        Ok(())
    }

    fn start(&self) -> io::Result<Child> {
        self.command.command("rollcall-guard")?.stdin(Stdio::piped()).spawn()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::follow;

    #[test]
    fn a_guard_lists_what_was_added_and_not_removed() {
        let table = [
            ("+5\n+6\n-5\n", Ok(vec![6])),
            ("+5\n+6\n+7", Ok(vec![5, 6])),
            ("", Ok(vec![])),
            ("-5\n", Ok(vec![])),
            ("+1\n", Err(())),
            ("+-5\n", Err(())),
            ("hello\n", Err(())),
            ("\n", Err(())),
        ];
        for (input, expected) in table {
            let mut groups = HashSet::new();
            let result = follow(&mut input.as_bytes(), &mut groups);
            let mut listed: Vec<i32> = groups.iter().map(|group| group.as_raw_nonzero().get()).collect();
            listed.sort_unstable();
            assert_eq!(result.map(|()| listed).map_err(|_| ()), expected, "{input:?}");
        }
    }
}
