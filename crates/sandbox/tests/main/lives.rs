//! How sandboxes end: by themselves, when stopped, and with what they left behind.

use std::time::{Duration, Instant};

use rollcall_sandbox::{Outcome, SandboxState, Stream};

use crate::support::{PATIENCE, end, first_line, place, running, runs, shell, text};

const KILLED: Outcome = Outcome::Signaled { signal: 9 };

#[tokio::test]
async fn the_exit_of_the_main_process_is_the_outcome() {
    let place = place();
    let table = [
        ("true", Outcome::Exited { code: 0 }),
        ("false", Outcome::Exited { code: 1 }),
        ("exit 255", Outcome::Exited { code: 255 }),
        ("kill -9 $$", KILLED),
        ("kill -TERM $$", Outcome::Signaled { signal: 15 }),
        ("no-such-program", Outcome::Exited { code: 127 }),
    ];
    for (number, (line, expected)) in table.into_iter().enumerate() {
        assert_eq!(place.run(&number.to_string(), line).await.0, expected, "{line}");
    }
}

#[tokio::test]
async fn a_stop_is_a_request_that_the_task_may_answer() {
    let place = place();
    // A child that is started just as the signal comes may miss it, so none lives long.
    let sandbox = place.start(shell("a", "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done"));
    running(&sandbox).await;
    assert_eq!(first_line(&sandbox).await, "ready");
    sandbox.stop(PATIENCE);
    assert_eq!(end(&sandbox).await, Outcome::Exited { code: 3 });
    assert_eq!(text(&sandbox, Stream::Out), "ready\nbye\n");
    // Stopping what has ended changes nothing.
    sandbox.stop(Duration::ZERO);
    assert_eq!(sandbox.state(), SandboxState::Ended(Outcome::Exited { code: 3 }));
}

#[tokio::test]
async fn who_ignores_the_request_is_killed_after_the_grace() {
    let place = place();
    let sandbox = place.start(shell("a", "trap '' TERM; echo ready; while :; do sleep 1000; done"));
    running(&sandbox).await;
    first_line(&sandbox).await;
    let asked = Instant::now();
    sandbox.stop(Duration::from_millis(200));
    assert_eq!(end(&sandbox).await, KILLED);
    assert!(asked.elapsed() >= Duration::from_millis(200), "killed before its grace was over");
}

#[tokio::test]
async fn a_second_stop_can_only_shorten_the_grace() {
    let place = place();
    let sandbox = place.start(shell("a", "trap '' TERM; echo ready; while :; do sleep 1000; done"));
    running(&sandbox).await;
    first_line(&sandbox).await;
    sandbox.stop(PATIENCE * 10);
    sandbox.stop(Duration::ZERO);
    sandbox.stop(PATIENCE * 10);
    assert_eq!(end(&sandbox).await, KILLED);
}

#[tokio::test]
async fn the_grace_is_also_for_what_the_main_process_started() {
    let place = place();
    // The shell itself dies of SIGTERM at once.
    let child = "(trap 'sleep 0.2; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done) & wait";
    let sandbox = place.start(shell("a", child));
    running(&sandbox).await;
    first_line(&sandbox).await;
    sandbox.stop(PATIENCE);
    assert_eq!(end(&sandbox).await, Outcome::Signaled { signal: 15 });
    assert_eq!(text(&sandbox, Stream::Out), "ready\nsaved\n");
}

#[tokio::test]
async fn what_the_main_process_left_behind_is_dead_when_the_sandbox_has_ended() {
    let place = place();
    let (outcome, out, _) = place.run("a", "trap '' TERM; sleep 1000 & echo $!; (sleep 1000 & echo $!)").await;
    assert_eq!(outcome, Outcome::Exited { code: 0 });
    let left: Vec<i32> = out.lines().map(|line| line.parse().expect("a process number")).collect();
    assert_eq!(left.len(), 2);
    assert!(!left.iter().any(|pid| runs(*pid)), "still running: {left:?}");
}

#[tokio::test]
async fn a_stop_before_the_start_is_not_lost() {
    let place = place();
    for number in 0..20 {
        let sandbox = place.start(shell(&format!("a{number}"), "sleep 1000"));
        sandbox.stop(PATIENCE);
        let outcome = end(&sandbox).await;
        let stopped = matches!(outcome, Outcome::NotStarted { .. } | Outcome::Signaled { signal: 15 });
        assert!(stopped, "{outcome:?}");
    }
}

#[tokio::test]
async fn many_sandboxes_run_side_by_side() {
    const SANDBOXES: usize = 100;
    let place = place();
    let all: Vec<_> = (0..SANDBOXES)
        .map(|number| place.start(shell(&number.to_string(), &format!("echo {number}; sleep 1000"))))
        .collect();
    for (number, sandbox) in all.iter().enumerate() {
        running(sandbox).await;
        assert_eq!(first_line(sandbox).await, number.to_string());
    }
    all.iter().for_each(|sandbox| sandbox.stop(PATIENCE));
    for sandbox in &all {
        assert_eq!(end(sandbox).await, Outcome::Signaled { signal: 15 });
    }
}
