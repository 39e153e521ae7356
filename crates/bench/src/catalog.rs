//! Which cases there are, and which of them a run takes.

use crate::clock;
use crate::measure::Effort;
use crate::pattern::{matches, size_of, size_text};
use crate::report::{CaseReport, Report};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How a run is to be made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only cases that match this pattern, in which `*` stands for any text.
    pub case: Option<String>,
    /// How much is done for each figure.
    pub effort: Effort,
    /// Where cases that need a disk make their files; the system's folder for temporary files if not given.
    pub folder: Option<PathBuf>,
}

/// One case of a benchmark, for all of its sizes.
pub(crate) struct Case {
    /// Its name, without a size.
    pub(crate) name: &'static str,
    /// The sizes that it runs with when none is asked for; none for a case whose name carries no size.
    pub(crate) sizes: &'static [usize],
    /// Measures it.
    pub(crate) run: fn(&Run<'_>) -> anyhow::Result<CaseReport>,
}

/// What a case is told.
pub(crate) struct Run<'a> {
    /// Its full name.
    pub(crate) case: String,
    /// Its size.
    pub(crate) size: usize,
    pub(crate) effort: &'a Effort,
    /// Where to make files.
    pub(crate) folder: &'a Path,
}

/// The size of cases whose name carries none.
const USUAL_SIZE: usize = 100_000;

/// The size of all cases when only seen to run.
const QUICK_SIZE: usize = 10_000;

/// The cases that a pattern picks, in the order of the catalog. A name with a size that is not among a case's own is taken as well.
fn pick<'c>(cases: &'c [Case], options: &Options) -> Vec<(&'c Case, String, usize)> {
    let mut picked = Vec::new();
    for case in cases {
        let sizes = if options.effort.quick { &[QUICK_SIZE] } else { case.sizes };
        let named = match case.sizes.is_empty() {
            true => vec![(case.name.to_owned(), sizes.first().copied().unwrap_or(USUAL_SIZE))],
            false => sizes.iter().map(|size| (format!("{}:{}", case.name, size_text(*size)), *size)).collect(),
        };
        let wanted = |name: &str| options.case.as_deref().is_none_or(|pattern| matches(pattern, name));
        picked.extend(named.into_iter().filter(|(name, _)| wanted(name)).map(|(name, size)| (case, name, size)));
    }
    if picked.is_empty()
        && let Some((name, size)) = options.case.as_deref().and_then(|pattern| pattern.split_once(':'))
        && let Some(size) = size_of(size)
    {
        let sized = cases.iter().filter(|case| case.name == name && !case.sizes.is_empty());
        picked.extend(sized.map(|case| (case, format!("{name}:{}", size_text(size)), size)));
    }
    picked
}

/// Runs the cases that are wanted and calls `done` after each.
pub(crate) fn run(
    bench: &'static str,
    cases: &[Case],
    options: &Options,
    done: &mut dyn FnMut(&CaseReport),
) -> anyhow::Result<Report> {
    let picked = pick(cases, options);
    if picked.is_empty() {
        let names: Vec<_> = cases.iter().map(|case| case.name).collect();
        bail!("no case of {bench} matches; there are {} (a size follows after a colon)", names.join(", "));
    }
    let folder = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let started = Instant::now();
    let mut reports = Vec::new();
    for (case, name, size) in picked {
        clock::reset_peak_rss();
        let run = Run { case: name, size, effort: &options.effort, folder: &folder };
        let report = (case.run)(&run).with_context(|| format!("measuring {}", run.case))?;
        done(&report);
        reports.push(report);
    }
    Ok(Report {
        bench,
        version: env!("CARGO_PKG_VERSION"),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        seconds: (started.elapsed().as_secs_f64() * 1e3).round() / 1e3,
        cases: reports,
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Case, Options, pick};
    use crate::measure::Effort;
    use crate::report::CaseReport;

    const CASES: [Case; 3] = [
        Case { name: "indexed", sizes: &[10_000, 1_000_000], run: |run| Ok(CaseReport::empty(&run.case)) },
        Case { name: "indexed100", sizes: &[100_000], run: |run| Ok(CaseReport::empty(&run.case)) },
        Case { name: "by_agent", sizes: &[], run: |run| Ok(CaseReport::empty(&run.case)) },
    ];

    fn picked(pattern: Option<&str>, effort: Effort) -> Vec<String> {
        let options = Options { case: pattern.map(str::to_owned), effort, folder: None };
        pick(&CASES, &options).into_iter().map(|(_, name, _)| name).collect()
    }

    #[test]
    fn a_pattern_picks_cases_by_their_full_names() {
        let all = ["indexed:10k", "indexed:1M", "indexed100:100k", "by_agent"];
        assert_eq!(picked(None, Effort::full()), all);
        assert_eq!(picked(Some("indexed:*"), Effort::full()), all[..2]);
        assert_eq!(picked(Some("*:1M"), Effort::full()), all[1..2]);
        assert_eq!(picked(Some("by_agent"), Effort::full()), all[3..]);
        assert_eq!(picked(None, Effort::quick()), ["indexed:10k", "indexed100:10k", "by_agent"]);
    }

    #[test]
    fn any_size_can_be_asked_for_by_name() {
        assert_eq!(picked(Some("indexed:200k"), Effort::full()), ["indexed:200k"]);
        assert!(picked(Some("indexed:x"), Effort::full()).is_empty());
        assert!(picked(Some("by_agent:5"), Effort::full()).is_empty());
    }
}
