//! Verbs that are not built, and words that are none.

use std::ffi::OsString;

use rollcall_types::nearest;

use crate::failure::Failure;

/// Verbs that this release has.
const VERBS: &[&str] = &[
    "dev",
    "run",
    "tasks",
    "logs",
    "stop",
    "example",
    #[cfg(feature = "bench")]
    "bench",
    "version",
    "help",
];

/// Verbs that a later release will have.
const VERBS_LATER: [&str; 21] = [
    "plan", "validate", "show", "scale", "start", "restart", "revert", "remove", "status", "why", "events", "jobs",
    "agents", "watch", "server", "agent", "token", "backup", "restore", "config", "unit",
];

/// What to say to a word that is no verb here.
pub fn refuse(words: &[OsString]) -> Failure {
    let word = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let here = format!("This release has: {}", VERBS.join(", "));
    if word == "bench" {
        return Failure::usage("this program was built without benchmarks; build it with the feature `bench`");
    }
    if VERBS_LATER.contains(&word.as_str()) || word == "completions" {
        return Failure::usage(format!("`{word}` is not yet supported. {here}"));
    }
    let word = word.escape_debug();
    match nearest(&word.to_string(), VERBS.iter().copied().chain(VERBS_LATER)) {
        Some(meant) => Failure::usage(format!("no verb `{word}`; did you mean `{meant}`?")),
        None => Failure::usage(format!("no verb `{word}`. {here}")),
    }
}
