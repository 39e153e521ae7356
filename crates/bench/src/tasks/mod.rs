//! The benchmark `tasks`: the store of tasks in memory, without disk or sockets. Its ancestor's cases are `aurora.*`.

mod aurora;
mod churn;
mod durable;
mod memory;
mod mixed;
mod reads;
pub(crate) mod restart;
mod writes;

use crate::catalog::{self, Case, Options};
use crate::pattern::size_text;
use crate::report::{CaseReport, Report};

const READ_SIZES: &[usize] = &[10_000, 50_000, 100_000];
const ALL_SIZES: &[usize] = &[10_000, 100_000, 1_000_000];
const LARGE_SIZES: &[usize] = &[100_000, 1_000_000];

const CLIENTS: &[usize] = &[1, 64, 1024];

const CASES: &[Case] = &[
    Case { name: "aurora.fetch_all", sizes: READ_SIZES, run: aurora::fetch_all },
    Case { name: "aurora.indexed", sizes: READ_SIZES, run: aurora::indexed },
    Case { name: "fetch_all.shared", sizes: READ_SIZES, run: reads::fetch_all_shared },
    Case { name: "fetch_all.touch", sizes: READ_SIZES, run: reads::fetch_all_touch },
    Case { name: "fetch_all.refs", sizes: READ_SIZES, run: reads::fetch_all_refs },
    Case { name: "indexed", sizes: ALL_SIZES, run: reads::indexed },
    Case { name: "indexed100", sizes: LARGE_SIZES, run: reads::indexed100 },
    Case { name: "jobs_by_namespace_active", sizes: &[], run: reads::jobs_by_namespace_active },
    Case { name: "by_agent_active", sizes: &[], run: reads::by_agent_active },
    Case { name: "update_one", sizes: LARGE_SIZES, run: writes::update_one },
    Case { name: "update_batch", sizes: LARGE_SIZES, run: writes::update_batch },
    Case { name: "bulk_load", sizes: LARGE_SIZES, run: writes::bulk_load },
    Case { name: "mixed_95_5", sizes: LARGE_SIZES, run: mixed::mixed },
    Case { name: "memory_at_rest", sizes: LARGE_SIZES, run: memory::memory_at_rest },
    Case { name: "churn", sizes: &[100_000], run: churn::churn },
    Case { name: "durable_changes", sizes: CLIENTS, run: durable::durable_changes },
    Case { name: "restart", sizes: LARGE_SIZES, run: restart::restart },
    Case { name: "restart_after_changes", sizes: &[1_000_000], run: restart::restart_after_changes },
];

/// Runs the cases that are wanted.
pub(crate) fn run(options: &Options, done: &mut dyn FnMut(&CaseReport)) -> anyhow::Result<Report> {
    let mut report = catalog::run("tasks", CASES, options, done)?;
    report.notes = falls(&report);
    Ok(report)
}

/// How much slower an indexed read becomes from each size to the next, ours and the floor's: what is left of the growth when the machine's
/// caches are taken out of it.
fn falls(report: &Report) -> Vec<String> {
    let of_indexed = |case: &CaseReport| {
        let size = crate::pattern::size_of(case.case.strip_prefix("indexed:")?)?;
        Some((size, case.ops_per_s?, case.floor?.ops_per_s))
    };
    let sizes: Vec<_> = report.cases.iter().filter_map(of_indexed).collect();
    let note = |pair: &[(usize, f64, f64)]| {
        let (small, large) = (pair[0], pair[1]);
        let (ours, floor) = (small.1 / large.1, small.2 / large.2);
        format!(
            "indexed, fall from {} to {}: ours {ours:.2}, BTreeMap {floor:.2}, ours / BTreeMap {:.2}",
            size_text(small.0),
            size_text(large.0),
            ours / floor
        )
    };
    sizes.windows(2).map(note).collect()
}
