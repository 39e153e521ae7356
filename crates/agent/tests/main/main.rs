//! An agent with real processes, spoken to as the server does.

mod logs;
mod sessions;
mod support;

/// The guard when this program is run as one; otherwise nothing.
#[test]
fn guard_entry() {
    if std::env::args().any(|argument| argument == "run-as-guard") {
        rollcall_agent::guard_main().expect("standard input is readable");
    }
}

/// The stage before a task when this program is run as one; otherwise nothing.
#[test]
fn stage_entry() {
    if std::env::args().any(|argument| argument == "run-as-stage") {
        rollcall_agent::stage_main().expect("becomes the task");
        std::process::exit(1);
    }
}
