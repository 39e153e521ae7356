//! The command line: parses, calls, prints.
//!
//! # Model
//!
//! Each verb is a function from its arguments to an end: done, or a [`failure::Failure`] with its exit code. All but the
//! verbs of the house (`dev`, `example`, `version`) ask a server over HTTP and print what it answers. How answers look is
//! made by pure functions ([`table`], [`times`], [`rows`]) from what the server said, its time included, so the same
//! answer is always printed the same way.
//!
//! # What it never does
//!
//! It decides nothing about jobs: what a name means, what changes and why is the server's word. Standard output carries
//! answers only; hints and progress go to standard error. A verb of a later release is refused, never ignored.

#![forbid(unsafe_code)]

mod arguments;
mod client;
mod failure;
mod names;
mod output;
mod rows;
mod table;
mod times;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Verb};
use crate::failure::Failure;

fn main() -> ExitCode {
    // A benchmark starts this program again for the parts that need a process of their own.
    #[cfg(feature = "bench")]
    if let Some(part) = rollcall_bench::run_part() {
        return match part {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error:#}");
                ExitCode::FAILURE
            }
        };
    }
    let arguments = Arguments::parse();
    match start(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.exit_code())
        }
    }
}

/// The allocator that the figures of the store were measured on; it counts in benchmarks only.
#[cfg(feature = "bench")]
#[global_allocator]
static ALLOCATOR: rollcall_bench::CountingAllocator = rollcall_bench::CountingAllocator;
#[cfg(not(feature = "bench"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// More than so many calls that block, such as starts of tasks, wait for each other.
const BLOCKING_THREADS_MAX: usize = 64;

/// Verbs that serve get all cores, verbs that ask get one thread, and the guard and the stage none at all.
fn start(arguments: Arguments) -> Result<(), Failure> {
    let mut builder = match arguments.verb {
        Verb::SandboxGuard => {
            return rollcall_agent::guard_main().map_err(|error| Failure::work(format!("guard: {error}")));
        }
        Verb::SandboxStage => {
            return rollcall_agent::stage_main().map_err(|error| Failure::work(format!("stage: {error}")));
        }
        // Benchmarks make their own threads, and nothing shall run beside them.
        #[cfg(feature = "bench")]
        Verb::Bench(bench) => return verbs::bench(bench, arguments.common.output),
        Verb::Dev(_) => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.max_blocking_threads(BLOCKING_THREADS_MAX);
            builder
        }
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime =
        builder.enable_all().build().map_err(|error| Failure::work(format!("cannot start the runtime: {error}")))?;
    let end = runtime.block_on(verbs::run(arguments));
    // A read of a log may still wait on the disk; nobody needs it any more.
    runtime.shutdown_background();
    end
}
