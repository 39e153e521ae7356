//! # bench: what Rollcall costs, measured
//!
//! Benchmarks are part of the product: a user runs `rollcall bench NAME` on his own machine and sees what we promise beside the **floor**, which is
//! the same calls with none of our work in the way, measured in the same run. Machines differ, ratios do not.
//!
//! ## Model
//!
//! - A benchmark is a list of cases (`catalog`); a case has sizes, and a function that measures it for one size.
//! - A case makes its load (`load`), then holds a contest (`measure`): ours, the floor and peers take turns, three rounds of them, and of each
//!   the best turn is told. A turn gives a histogram of times, processor time and bytes allocated.
//! - The figures are one object (`report`), printed as JSON or as a table.
//!
//! | benchmark | what it asks | where |
//! |---|---|---|
//! | `tasks` | how fast tasks are read and changed in memory and on disk, and what they weigh | `tasks` |
//! | `storm` | whether a small question is answered while 500 clients read everything | `storm` |
//!
//! To add a case, write its function beside its kin and name it in the list of its benchmark.
//!
//! ## Invariants
//!
//! - What a case did not measure is left out of its figures, never zero.
//! - Making the load, choosing random keys and setting a store back are outside of what is timed.
//! - A run is repeatable: all randomness comes from one constant.
//!
//! ## Unsafe code
//!
//! One block: the counting allocator must implement an unsafe trait. It passes every call on unchanged.
#![deny(unsafe_code)]

mod allocation;
mod catalog;
mod clock;
mod command;
mod data;
mod latency;
mod load;
mod measure;
mod part;
mod pattern;
#[cfg(feature = "peers")]
mod peers;
mod random;
mod report;
mod storm;
mod table;
mod tasks;

pub use allocation::{Allocated, CountingAllocator, allocated, count_allocations};
pub use catalog::Options;
pub use command::{BenchArguments, print_run};
pub use latency::{Latency, P99_SAMPLES_MIN, P999_SAMPLES_MIN};
pub use measure::{Budget, Effort};
pub use part::run_part;
pub use report::{CaseReport, Floor, FloorLatency, Peer, Ratio, Report};
pub use table::{LEGEND, case_lines, footer, header};

/// The names of all benchmarks.
pub const BENCHES: &[&str] = &["tasks", "storm"];

/// Runs the benchmark of this name and calls `done` after each case.
///
/// # Errors
/// If there is no such benchmark, no case matches, or a load does not fit the store's limits.
pub fn run(bench: &str, options: &Options, done: &mut dyn FnMut(&CaseReport)) -> anyhow::Result<Report> {
    match bench {
        "tasks" => tasks::run(options, done),
        "storm" => storm::run(options, done),
        other => anyhow::bail!("there is no benchmark `{other}`; there are {}", BENCHES.join(", ")),
    }
}
