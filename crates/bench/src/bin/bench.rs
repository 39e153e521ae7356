//! Runs benchmarks by hand: `bench tasks --case 'indexed:*'`.

use clap::Parser;
use rollcall_bench::{CountingAllocator, Effort, LEGEND, Options, case_lines, footer, header, run, run_part};
use std::path::PathBuf;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Measures what Rollcall costs on this machine.
#[derive(Parser)]
struct Arguments {
    /// Which benchmark.
    name: String,
    /// Only cases that match, such as 'indexed:*' or update_one:1M.
    #[arg(long, value_name = "PATTERN")]
    case: Option<String>,
    /// Only show that everything runs; the figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Leave out floors and peers, so that a profiler sees our own work alone.
    #[arg(long)]
    alone: bool,
    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
    /// Where cases that need a disk make their files; must be on a real disk.
    #[arg(long, value_name = "PATH")]
    folder: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    if let Some(done) = run_part() {
        return done;
    }
    let Arguments { name, case, quick, alone, json, folder } = Arguments::parse();
    let effort = Effort { alone, ..if quick { Effort::quick() } else { Effort::full() } };
    if !json {
        println!("{LEGEND}{}", header());
    }
    let report = run(&name, &Options { case, effort, folder }, &mut |case| {
        if !json {
            print!("{}", case_lines(case));
        }
    })?;
    if json {
        println!("{}", report.to_json());
    } else {
        println!("{}", footer(&report));
    }
    Ok(())
}
