//! The clocks and the memory gauge of this process: the one place where the benchmarks ask the machine.

use rollcall_schema::Time;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Processor time that this thread has used.
pub(crate) fn thread_cpu() -> Duration {
    of_clock(ClockId::ThreadCPUTime)
}

/// Processor time that all threads of this process have used.
pub(crate) fn process_cpu() -> Duration {
    of_clock(ClockId::ProcessCPUTime)
}

fn of_clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The time of day, as commits carry it.
// A benchmark owns its clock.
#[allow(clippy::disallowed_methods)]
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Starts a new reading of [`peak_rss_bytes`]. Where the kernel refuses, the peak is that of the whole process so far.
pub(crate) fn reset_peak_rss() {
    // Refusal only makes the figure larger than need be.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that the process has held in RAM since the last reset; `None` where the kernel does not say.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
