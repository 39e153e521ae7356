//! The table for people.

use crate::latency::Latency;
use crate::report::{CaseReport, Floor, Ratio, Report};
use std::fmt::Write;

/// What the figures of the table mean; printed above it.
pub const LEGEND: &str = "\
times in microseconds; ops/s within operations; of three turns, taken alternately with the floor's, the best
x64 behind a sample count: a sample is the mean of a block of 64 operations, which are too fast to be timed one by one
cpu, B: processor time (us) and bytes allocated per operation; peak: memory of the process, load and floor included
";

const WIDTH: usize = 24;

/// The heads of the columns.
pub fn header() -> String {
    let mut line = format!("{:WIDTH$} {:>10} {:>13}", "case", "ops/s", "samples");
    for head in ["min", "p25", "p50", "p75", "p90", "p99", "p99.9", "max", "cpu", "B", "peak MB"] {
        let _ = write!(line, " {head:>9}");
    }
    line
}

/// The lines of one case.
pub fn case_lines(case: &CaseReport) -> String {
    let block = if case.block > 1 { format!("{} x{}", case.samples, case.block) } else { case.samples.to_string() };
    let mut lines = format!("{:WIDTH$} {:>10} {block:>13}", case.case, case.ops_per_s.map_or_else(dash, rate));
    for figure in case.latency_us.map_or([None; 8], columns) {
        let _ = write!(lines, " {:>9}", figure.map_or_else(dash, micros));
    }
    let _ = write!(lines, " {:>9}", case.cpu_us_per_op.map_or_else(dash, micros));
    let _ = write!(lines, " {:>9}", case.bytes_alloc_per_op.map_or_else(dash, |bytes| format!("{bytes:.0}")));
    let _ = writeln!(lines, " {:>9}", case.peak_rss_bytes.map_or_else(dash, |bytes| (bytes >> 20).to_string()));
    if case.errors > 0 {
        let _ = writeln!(lines, "  {} OPERATIONS FAILED", case.errors);
    }
    if let Some(bytes) = case.live_bytes_per_row {
        let _ = writeln!(lines, "  {bytes:.1} live bytes per row");
    }
    if let (Some(floor), Some(ratio)) = (case.floor, case.ratio) {
        floor_line(&mut lines, floor, ratio);
    }
    if let (Some(peer), Some(ours)) = (case.peer, case.ops_per_s) {
        let _ =
            writeln!(lines, "  {} {} ops/s; ours / {0}: {:.2}", peer.name, rate(peer.ops_per_s), ours / peer.ops_per_s);
    }
    for note in &case.notes {
        let _ = writeln!(lines, "  {note}");
    }
    lines
}

fn floor_line(lines: &mut String, floor: Floor, ratio: Ratio) {
    let _ = write!(lines, "  floor {} ops/s", rate(floor.ops_per_s));
    let latency = floor.latency_us;
    for (name, time) in [("p50", latency.map(|latency| latency.p50)), ("p99", latency.and_then(|latency| latency.p99))]
    {
        let _ = time.map_or(Ok(()), |time| write!(lines, ", {name} {}", micros(time)));
    }
    let _ = floor.live_bytes_per_row.map_or(Ok(()), |bytes| write!(lines, ", live bytes per row {bytes:.1}"));
    let _ = write!(lines, "; ours / floor: ops/s {:.3}", ratio.ops_per_s);
    for (name, ratio) in [("p50", ratio.p50), ("p99", ratio.p99), ("live bytes", ratio.live_bytes)] {
        let _ = ratio.map_or(Ok(()), |ratio| write!(lines, ", {name} {ratio:.3}"));
    }
    lines.push('\n');
}

/// What stands below the table.
pub fn footer(report: &Report) -> String {
    let notes: String = report.notes.iter().map(|note| format!("{note}\n")).collect();
    let cases = report.cases.len();
    let plural = if cases == 1 { "" } else { "s" };
    format!("{notes}{cases} case{plural} in {:.1} s on {} cores", report.seconds, report.cores)
}

fn columns(latency: Latency) -> [Option<f64>; 8] {
    let Latency { min, p25, p50, p75, p90, p99, p999, max } = latency;
    [Some(min), Some(p25), Some(p50), Some(p75), Some(p90), p99, p999, Some(max)]
}

fn dash() -> String {
    "-".to_owned()
}

fn micros(micros: f64) -> String {
    match micros {
        _ if micros < 10.0 => format!("{micros:.3}"),
        _ if micros < 1_000.0 => format!("{micros:.1}"),
        _ => format!("{micros:.0}"),
    }
}

fn rate(per_second: f64) -> String {
    match per_second {
        _ if per_second >= 1e6 => format!("{:.2}M", per_second / 1e6),
        _ if per_second >= 1e4 => format!("{:.1}k", per_second / 1e3),
        _ if per_second >= 10.0 => format!("{per_second:.0}"),
        _ => format!("{per_second:.2}"),
    }
}
