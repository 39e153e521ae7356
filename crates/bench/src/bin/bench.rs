//! Runs benchmarks by hand, as `rollcall bench` does: `bench tasks --case 'indexed:*'`.

use clap::Parser;
use rollcall_bench::{BenchArguments, CountingAllocator, print_run, run_part};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Measures what Rollcall costs on this machine.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    bench: BenchArguments,
}

fn main() -> anyhow::Result<()> {
    if let Some(done) = run_part() {
        return done;
    }
    print_run(Arguments::parse().bench, &mut std::io::stdout())
}
