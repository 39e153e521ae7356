//! Parts of a benchmark that run in a process of their own, so that their memory and processor time are theirs alone.
//!
//! A part is this same program, started with a first argument that no person gives.

use crate::storm;
use crate::tasks::restart;
use anyhow::Context;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The first argument of a part.
const PART: &str = "benchmark-part";

/// In what the kernel tells processor time: a constant of its interface.
const TICKS_PER_SECOND: u64 = 100;

/// Fills a data folder, and waits to be killed.
pub(crate) const FILL: &str = "restart-fill";
/// Opens a data folder.
pub(crate) const OPEN: &str = "restart-open";
/// Reads a flat file of rows.
pub(crate) const READ_FLAT: &str = "restart-read-flat";
/// Serves a filled data folder.
pub(crate) const SERVE_OURS: &str = "storm-serve";
/// Serves bytes that were made beforehand.
pub(crate) const SERVE_PLAIN: &str = "storm-serve-plain";

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
        Some(SERVE_OURS) => storm::serve_ours(&rest),
        Some(SERVE_PLAIN) => storm::serve_plain(&rest),
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

    /// Tells it something, and waits until it has done it.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn tell(&mut self, what: &str) -> anyhow::Result<()> {
        let input = self.child.stdin.as_mut().context("the part's input is a pipe")?;
        writeln!(input, "{what}")?;
        self.line().map(drop)
    }

    /// Processor time that it has used.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name, in brackets, may have spaces in it. The 14th and 15th fields are user and system time in ticks.
        let fields = stat.rsplit_once(')').context("a process without a name")?.1;
        let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
    }

    /// Memory that it holds now, in bytes, and the most that it has held since the last [`Part::reset_peak`].
    pub(crate) fn memory(&self) -> anyhow::Result<(u64, u64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
        };
        field("VmRSS:").zip(field("VmHWM:")).context("a process without memory")
    }

    /// Starts a new reading of the most memory.
    pub(crate) fn reset_peak(&self) {
        // Refusal only makes the figure larger than need be.
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5");
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
