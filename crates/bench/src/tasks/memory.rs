//! What tasks weigh.

use crate::allocation::allocated;
use crate::catalog::Run;
use crate::load::{Load, Loaded, Shape};
use crate::report::CaseReport;
use anyhow::Context;

/// Bytes that are allocated and not freed.
pub(super) fn live_bytes() -> anyhow::Result<u64> {
    let counts = allocated().context("this program does not count allocations")?;
    Ok(counts.live)
}

/// A store is filled and left alone: rows of tasks, jobs, specs and agents with all their names, pages, indexes and rollups. Old versions and the
/// watch ring are let go; everything else in the process is taken out by difference.
pub(super) fn memory_at_rest(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let before = live_bytes()?;
    let Loaded { store, writer, names, shape } = Load::new(Shape::usual(run.size)).stored()?;
    drop(names);
    let filled = live_bytes()? - before;
    let per_row = filled as f64 / shape.tasks() as f64;
    let rows: usize = store.snapshot().tables().map(|table| table.bytes()).sum();
    drop(writer);
    let mut report = CaseReport::empty(&run.case);
    report.ops = shape.tasks() as u64;
    report.live_bytes_per_row = Some(crate::latency::rounded(per_row));
    Ok(report.note(format!("{filled} live bytes; rows alone, as the store counts them, {rows}")))
}
