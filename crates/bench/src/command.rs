//! The command line of benchmarks: `bench NAME …` of this crate's own program, and `rollcall bench NAME …`.

use crate::table::{LEGEND, case_lines, footer, header};
use crate::{BENCHES, Effort, Options, count_allocations, run};
use anyhow::bail;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

/// What can be typed behind `bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArguments {
    /// Which benchmark: tasks or storm.
    pub name: String,
    /// Only cases that match, such as 'indexed:*' or update_one:1M.
    #[arg(long, value_name = "PATTERN")]
    pub case: Option<String>,
    /// Only show that everything runs; the figures mean nothing.
    #[arg(long)]
    pub quick: bool,
    /// Leave out floors and peers, so that a profiler sees our own work alone.
    #[arg(long)]
    pub alone: bool,
    /// Print one JSON object and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Where cases that need a disk make their files; must be on a real disk.
    #[arg(long, value_name = "PATH")]
    pub folder: Option<PathBuf>,
}

/// Runs a benchmark, with allocations counted where the program runs on [`CountingAllocator`](crate::CountingAllocator), and prints each case when it is done.
///
/// # Errors
/// If there is no such benchmark, no case matches, a load does not fit the store's limits, or nobody reads what is printed.
pub fn print_run(arguments: BenchArguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let BenchArguments { name, case, quick, alone, json, folder } = arguments;
    if !BENCHES.contains(&name.as_str()) {
        bail!("there is no benchmark `{}`; there is: {}", name.escape_debug(), BENCHES.join(", "));
    }
    count_allocations();
    let effort = Effort { alone, ..if quick { Effort::quick() } else { Effort::full() } };
    if !json {
        writeln!(out, "{LEGEND}{}", header())?;
    }
    let mut printed = Ok(());
    let report = run(&name, &Options { case, effort, folder }, &mut |case| {
        if !json && printed.is_ok() {
            printed = out.write_all(case_lines(case).as_bytes()).and_then(|()| out.flush());
        }
    })?;
    printed?;
    writeln!(out, "{}", if json { report.to_json() } else { footer(&report) })?;
    Ok(())
}
