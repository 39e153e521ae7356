//! Every command that the documents show works. What is not run here is run elsewhere, and listed with the place.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::dev::{Dev, folder};

const DOCUMENTS: [(&str, &str); 3] = [
    ("README.md", include_str!("../../../../README.md")),
    ("CONTRIBUTING.md", include_str!("../../../../CONTRIBUTING.md")),
    ("ARCHITECTURE.md", include_str!("../../../../ARCHITECTURE.md")),
];

/// Commands that this test does not run, and who does.
const ELSEWHERE: &[(&str, &str)] = &[
    ("cargo xtask test", "CI: this test is a part of it"),
    ("cargo xtask demo", "a step of `cargo xtask test`, with --once"),
    ("cargo xtask check-dependencies", "a step of `cargo xtask test`"),
    ("cargo test -p rollcall-store", "a part of `cargo xtask test`"),
    ("rollcall dev", "the server that this test asks, on a free port"),
    ("cargo run --release -- dev", "the server that this test asks, on a free port"),
    ("cargo install cargo-fuzz", "by hand: needs the network; the corpora are replayed by tests"),
    (
        "cd fuzz && cargo +nightly fuzz run log_reader",
        "by hand: needs the nightly compiler; the corpora are replayed by tests",
    ),
];

/// Commands that print until they are ended; they work if they print something.
const ENDLESS: &[&str] = &["curl -N 'http://127.0.0.1:5050/v1/watch?table=tasks'"];

/// How a reader starts what he has built.
const BUILT: &str = "cargo run --release --";
/// Where the server of the documents listens.
const ADDRESS: &str = "127.0.0.1:5050";
/// What a command begins with; other code spans are names.
const BEGINNINGS: [&str; 4] = ["rollcall ", "cargo ", "curl ", "cd "];

/// The commands of a document in their order: lines of blocks of `sh`, and code spans that are commands.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block = None;
    for line in text.lines() {
        match (block, line.strip_prefix("```")) {
            (None, Some(kind)) => block = Some(kind),
            (Some(_), Some(_)) => block = None,
            (Some("sh"), None) => found.push(without_comment(line).to_owned()),
            (Some(_), None) => {}
            (None, None) => {
                found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned).filter(|span| is_command(span)))
            }
        }
    }
    found.retain(|command| !command.is_empty());
    found
}

fn is_command(span: &str) -> bool {
    // Capitals stand for something.
    let has_placeholder =
        span.split([' ', '=']).any(|word| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase()));
    BEGINNINGS.iter().any(|beginning| span.starts_with(beginning)) && !has_placeholder
}

fn without_comment(line: &str) -> &str {
    line.split_once(" #").map_or(line, |(command, _)| command).trim()
}

/// The command as it is run here: with the binary under test, asking the server under test.
fn here(command: &str, dev: &Dev) -> String {
    let command = command.replace(BUILT, "rollcall").replace(ADDRESS, &dev.address);
    // What benchmarks measure is not of interest here.
    if command.starts_with("rollcall bench ") { command + " --quick" } else { command }
}

fn shell(command: &str, dev: &Dev, folder: &Path) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_rollcall")).parent().expect("is in a folder");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").expect("there is a PATH"));
    // One that does not end is a failure, and not a test that never ends.
    let mut shell = Command::new("timeout");
    shell.args(["60", "sh", "-c", command]).current_dir(folder).stdin(Stdio::null());
    shell.env("PATH", path).env("ROLLCALL_SERVER", &dev.address);
    shell
}

fn run(command: &str, dev: &Dev, folder: &Path) {
    let output = shell(&here(command, dev), dev, folder).output().expect("a shell starts");
    let told = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    assert!(output.status.success(), "{command}\n{told}");
    // The server's errors are no failures to curl.
    assert!(!told.starts_with("{\"code\""), "{command}\n{told}");
}

/// Runs a command until it has printed a line.
fn run_endless(command: &str, dev: &Dev, folder: &Path) {
    let command = format!("exec {}", here(command, dev));
    let mut child =
        shell(&command, dev, folder).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a shell starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("is a pipe")).read_line(&mut line).expect("is text");
    // It passes this on to what it runs.
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("is our child");
    child.wait().expect("is our child");
    assert!(line.starts_with("id: "), "{command}: {line:?}");
}

#[test]
fn every_command_of_the_documents_works() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let mut seen = BTreeSet::new();
    for (document, text) in DOCUMENTS {
        for command in commands(text) {
            println!("{document}: {command}");
            if ENDLESS.contains(&command.as_str()) {
                run_endless(&command, &dev, folder.path());
            } else if !ELSEWHERE.iter().any(|(elsewhere, _)| *elsewhere == command) {
                run(&command, &dev, folder.path());
            }
            seen.insert(command);
        }
    }
    let listed = ELSEWHERE.iter().map(|(command, _)| *command).chain(ENDLESS.iter().copied());
    let gone: Vec<&str> = listed.filter(|command| !seen.contains(*command)).collect();
    assert!(gone.is_empty(), "no document shows these any more: {gone:?}");
}

#[test]
fn commands_are_found_in_blocks_and_among_words() {
    let text = "Say `rollcall tasks` and `tasks`, never `rollcall bench NAME`.\n```sh\na b   # comment\n\nc 'd#e'\n```\n```\nno\n```\n";
    assert_eq!(commands(text), ["rollcall tasks", "a b", "c 'd#e'"]);
}
