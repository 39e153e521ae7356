//! Parts of a benchmark that run in a process of their own, so that their memory and processor time are theirs alone.
//!
//! A part is this same program, started with a first argument that no person gives.

use crate::tasks::restart;
use anyhow::Context;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The first argument of a part.
const PART: &str = "benchmark-part";

/// Fills a data folder, and waits to be killed.
pub(crate) const FILL: &str = "restart-fill";
/// Opens a data folder.
pub(crate) const OPEN: &str = "restart-open";
/// Reads a flat file of rows.
pub(crate) const READ_FLAT: &str = "restart-read-flat";

/// If this process was started as a part of a benchmark, does the part. Programs that offer benchmarks call it before anything else.
pub fn run_part() -> Option<anyhow::Result<()>> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != PART {
        return None;
    }
    let name = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    Some(match name.to_str() {
        Some(FILL) => restart::fill(&rest),
        Some(OPEN) => restart::open(&rest),
        Some(READ_FLAT) => restart::read_flat(&rest),
        _ => Err(anyhow::anyhow!("there is no part {}", name.display())),
    })
}

/// A running part. Dropping it kills it.
pub(crate) struct Part {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Part {
    pub(crate) fn start(name: &str, arguments: &[String]) -> anyhow::Result<Part> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([PART, name]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting the part {name}"))?;
        let lines = BufReader::new(child.stdout.take().context("the part's output is a pipe")?).lines();
        Ok(Part { child, lines })
    }

    /// The next line that it says.
    ///
    /// # Errors
    /// If it has ended without.
    pub(crate) fn line(&mut self) -> anyhow::Result<String> {
        let line = self.lines.next().context("a part of the benchmark ended early; it says above why")?;
        Ok(line?)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
