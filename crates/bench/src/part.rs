//! Parts of a benchmark that run in a process of their own, so that their memory and processor time are theirs alone.
//!
//! A part is this same program, started with a first argument that no person gives.

use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The first argument of a part.
const PART: &str = "benchmark-part";

/// If this process was started as a part of a benchmark, does the part. Programs that offer benchmarks call it before anything else.
pub fn run_part() -> Option<anyhow::Result<()>> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != PART {
        return None;
    }
    let name = arguments.next().unwrap_or_default();
    let rest: Vec<OsString> = arguments.collect();
    Some(match name.to_str() {
        _ => {
            let _ = rest;
            Err(anyhow::anyhow!("there is no part {}", name.display()))
        }
    })
}

/// A part that is about to start; what it prints comes through a pipe.
#[allow(dead_code)]
pub(crate) fn part(name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([PART, name]).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}
