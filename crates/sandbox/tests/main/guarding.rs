//! No task outlives its daemon. This test program plays the guard, and a daemon that is killed.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rollcall_sandbox::{Sandboxes, guard_main, stage_main};

use crate::support::{Place, first_line, place, running, runs, settings, shell, wait_for_end};

fn argument_after(marker: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != marker);
    arguments.next().and(Some(arguments.next().unwrap_or_default()))
}

/// The guard when this program is run as one; otherwise nothing.
#[test]
fn guard_entry() {
    if argument_after("run-as-guard").is_some() {
        guard_main().expect("standard input is readable");
    }
}

/// The stage before a task when this program is run as one; otherwise nothing.
#[test]
fn stage_entry() {
    if argument_after("run-as-stage").is_some() {
        stage_main().expect("becomes the task");
        std::process::exit(1);
    }
}

/// A daemon when this program is run as one: starts a task, says so, and waits to be killed.
#[tokio::test]
async fn daemon_entry() {
    let Some(folder) = argument_after("run-as-daemon") else { return };
    let sandboxes = Sandboxes::open(settings(&PathBuf::from(folder))).expect("opens");
    let line = "trap '' TERM HUP INT; sleep 1000 & echo $$ $!; wait; while :; do sleep 1000; done";
    let sandbox = sandboxes.start(shell("a", line)).expect("the id is right");
    running(&sandbox).await;
    println!("started {}", first_line(&sandbox).await);
    sandbox.ended().await;
}

#[test]
fn tasks_and_their_children_die_with_a_killed_daemon() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut daemon = Command::new(std::env::current_exe().expect("has a path"))
        .args(["guarding::daemon_entry", "--exact", "--nocapture", "run-as-daemon"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the daemon starts");
    let out = BufReader::new(daemon.stdout.take().expect("is a pipe"));
    let started = out.lines().map_while(Result::ok).find_map(|line| {
        let (_, numbers) = line.split_once("started ")?;
        Some(numbers.split(' ').map(|number| number.parse().expect("a number")).collect::<Vec<i32>>())
    });
    let tasks = started.expect("the task starts");
    assert!(tasks.len() == 2 && tasks.iter().all(|pid| runs(*pid)), "{tasks:?}");
    daemon.kill().expect("is ours");
    daemon.wait().expect("is ours");
    tasks.into_iter().for_each(wait_for_end);
}

#[tokio::test]
async fn a_guard_that_died_is_replaced_and_told_everything() {
    let place = place();
    let first = place.start(shell("a", "sleep 1000"));
    let pid = running(&first).await;
    kill_guards(&place);
    let second = place.start(shell("b", "sleep 1000"));
    running(&second).await;
    assert!(runs(pid), "the death of a guard kills no task");
    assert_eq!(guards(&place).len(), 1);
    first.stop(std::time::Duration::ZERO);
    second.stop(std::time::Duration::ZERO);
    first.ended().await;
    second.ended().await;
}

/// The guards that this process started for a place.
fn guards(place: &Place) -> Vec<i32> {
    let children = std::fs::read_dir("/proc/self/task").expect("proc is mounted").flatten().flat_map(|thread| {
        let list = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        list.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    let folder = place.folder.path().to_string_lossy();
    let is_guard = |pid: &String| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with("rollcall-guard") && line.contains(&*folder)
    };
    children.filter(is_guard).map(|pid| pid.parse().expect("a number")).collect()
}

fn kill_guards(place: &Place) {
    for guard in guards(place) {
        let pid = rustix::process::Pid::from_raw(guard).expect("a number");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("is ours");
        wait_for_end(guard);
    }
}
