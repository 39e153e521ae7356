//! `run` and `stop`.

use std::cell::Cell;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use rollcall_types::units::{format_bytes, format_cpus, show_duration};
use rollcall_types::{JOB_FILE_BYTES_MAX, JobFile, JobKind};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::arguments::{Output, RunArguments, StopArguments};
use crate::client::Server;
use crate::failure::Failure;
use crate::names::Name;
use crate::output::{print, print_line};
use crate::rows::{cause, task_name};
use crate::table::{indented, printable};
use crate::verbs::waiting::{Standing, newest, standing, tasks, until};

/// More failed tasks of one job are not named.
const FAILED_SHOWN_MAX: usize = 3;

pub async fn run(server: &Server, output: Output, arguments: &RunArguments) -> Result<(), Failure> {
    let job = read(&arguments.file)?;
    let asked = Instant::now();
    let answer = server.post("/v1/jobs", &job).await?;
    if output != Output::Table {
        print_line(&answer.to_string())?;
    }
    let name = Name { namespace: job.namespace.clone(), job: job.name.clone(), instance: None, attempt: None };
    let change = answer["change"].as_str().unwrap_or("changed").to_owned();
    let people = output == Output::Table;
    let spec = answer["spec_number"].as_u64().unwrap_or(1);
    let is_unchanged = change == "unchanged";
    if arguments.detach && is_unchanged {
        let rows = wanted(&job, newest(tasks(server, &name).await?.rows));
        return if people { print_line(&unchanged(&name, &job, spec, &rows)) } else { Ok(()) };
    }
    if people && !is_unchanged {
        let made = answer["tasks"].as_array().map_or(0, Vec::len);
        print_line(&head(&name, (&change, made), spec, &job))?;
    }
    if arguments.detach {
        return Ok(());
    }
    let goes_on = format!("{name} goes on: rollcall tasks {name}");
    let warned = Cell::new(false);
    let done = |rows: &[Value]| {
        if let Some(warning) = waits(rows).filter(|_| !warned.get()) {
            warned.set(true);
            eprintln!("{warning}");
        }
        is_done(&job, rows)
    };
    let rows = wanted(&job, until(server, &name, arguments.timeout, &goes_on, done).await?);
    if people && is_unchanged {
        print_line(&unchanged(&name, &job, spec, &rows))?;
    } else if people {
        print(&indented(&rows.iter().map(shown).collect::<Vec<_>>()))?;
        print_line(&summary(&job, spec, &rows, asked.elapsed()))?;
    }
    failed(&rows).map_or(Ok(()), Err)
}

pub async fn stop(server: &Server, output: Output, arguments: &StopArguments) -> Result<(), Failure> {
    let name = Name::parse(&arguments.name)?;
    if name.instance.is_some() {
        return Err(Failure::usage(format!(
            "stopping one instance is not yet supported; the job: rollcall stop {}",
            name.job
        )));
    }
    let path = format!("/v1/jobs/{}/{}/stop", name.namespace, name.job);
    let asked = Instant::now();
    let answer = server.post(&path, &json!({})).await?;
    if output != Output::Table {
        print_line(&answer.to_string())?;
    }
    if arguments.detach {
        return Ok(());
    }
    let goes_on = format!("{name} goes on stopping: rollcall tasks {name}");
    let ended = |row: &Value| !matches!(standing(row), Standing::Coming | Standing::Running);
    let rows = until(server, &name, arguments.timeout, &goes_on, |rows| rows.iter().all(ended)).await?;
    if output == Output::Table {
        print_line(&match answer["tasks"].as_array().map_or(rows.len(), Vec::len) {
            0 => format!("{name}   stopped; there was nothing left to stop"),
            count => format!("{name}   stopped: {} after {}", instances(count), show_duration(asked.elapsed())),
        })?;
    }
    Ok(())
}

fn read(file: &Path) -> Result<JobFile, Failure> {
    let name = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    let unreadable = |error: std::io::Error| Failure::usage(format!("cannot read {name}: {error}"));
    let mut bytes = Vec::new();
    // One byte more than is allowed, so that the parser sees that there is more.
    let limit = JOB_FILE_BYTES_MAX as u64 + 1;
    if file == Path::new("-") {
        std::io::stdin().take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        std::fs::File::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes)).map_err(unreadable)?;
    }
    let text = String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{name} is not UTF-8 text")))?;
    JobFile::parse(&text, &name).map_err(|errors| Failure::usage(errors.to_string()))
}

/// Whether a task fills an instance that the job has. One beyond is left from a time when the job had more.
fn is_wanted(job: &JobFile, row: &Value) -> bool {
    row["instance"].as_u64().is_none_or(|instance| instance < u64::from(job.instances))
}

/// The tasks that the job is about: that one beyond its instances was stopped is no failure, it was asked for.
fn wanted(job: &JobFile, rows: Vec<Value>) -> Vec<Value> {
    rows.into_iter().filter(|row| is_wanted(job, row)).collect()
}

fn is_done(job: &JobFile, rows: &[Value]) -> bool {
    let (rows, beyond): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| is_wanted(job, row));
    if beyond.iter().any(|row| matches!(standing(row), Standing::Coming | Standing::Running)) {
        return false;
    }
    let wanted = match job.kind {
        JobKind::Service => Standing::Running,
        JobKind::Batch => Standing::Finished,
    };
    let reached = rows.iter().filter(|row| standing(row) == wanted).count();
    // A failure ends the waiting once nothing else is on its way.
    let settled = |row: &&Value| match standing(row) {
        Standing::Coming => false,
        Standing::Running => job.kind == JobKind::Service,
        _ => true,
    };
    reached >= job.instances as usize || (rows.len() >= job.instances as usize && rows.iter().all(settled))
}

/// Why tasks are not even begun, said by the first of them.
fn waits(rows: &[Value]) -> Option<String> {
    let waiting = |row: &&Value| row["state"] == "pending" && row["cause"].is_string();
    let first = rows.iter().find(waiting)?;
    let count = rows.iter().filter(waiting).count();
    Some(format!("warning: {count} of {} pending: {}", rows.len(), printable(&cause(first))))
}

fn instances(count: usize) -> String {
    format!("{count} instance{}", if count == 1 { "" } else { "s" })
}

/// `web   new: service, 3 instances of 0.25 cpus, 64M`, or `web   spec 1 -> 2: …`, or `web   restarted: 2 of 3 instances had ended`.
fn head(name: &Name, (change, made): (&str, usize), spec: u64, job: &JobFile) -> String {
    if change == "restarted" {
        return format!("{name}   restarted: {made} of {} had ended", instances(job.instances as usize));
    }
    let change = match (change, spec) {
        ("changed", 2..) => format!("spec {} -> {spec}", spec - 1),
        _ => change.to_owned(),
    };
    let (cpus, memory) = (format_cpus(job.resources.cpus), format_bytes(job.resources.memory));
    format!("{name}   {change}: {}, {} of {cpus} cpus, {memory}", job.kind, instances(job.instances as usize))
}

fn unchanged(name: &Name, job: &JobFile, spec: u64, rows: &[Value]) -> String {
    let of = |wanted: Standing| rows.iter().filter(|row| standing(row) == wanted).count();
    match job.kind {
        JobKind::Service => {
            format!("{name}   unchanged: spec {spec}, {} of {} running", of(Standing::Running), job.instances)
        }
        JobKind::Batch => {
            format!("{name}   unchanged: spec {spec}, {} of {} finished", of(Standing::Finished), job.instances)
        }
    }
}

/// `web.0.1  running  n1`, with the cause where there is one.
fn shown(row: &Value) -> Vec<String> {
    let text = |column: &str| row[column].as_str().unwrap_or_default().to_owned();
    vec![task_name(row), text("state"), text("agent"), cause(row)]
}

fn summary(job: &JobFile, spec: u64, rows: &[Value], took: Duration) -> String {
    let (wanted, word) = match job.kind {
        JobKind::Service => (Standing::Running, "running"),
        JobKind::Batch => (Standing::Finished, "finished"),
    };
    let reached = rows.iter().filter(|row| standing(row) == wanted).count();
    format!("{reached} of {} {word} after {}. spec {spec}", job.instances, show_duration(took))
}

/// What to look at when tasks failed. One that never ran wrote nothing, so its cause is told, whole.
fn failed(rows: &[Value]) -> Option<Failure> {
    let ended = |row: &&Value| matches!(standing(row), Standing::Failed | Standing::Stopped);
    let failed: Vec<&Value> = rows.iter().filter(ended).collect();
    if failed.is_empty() {
        return None;
    }
    let count = failed.len();
    let (never_ran, ran): (Vec<&Value>, Vec<&Value>) =
        failed.into_iter().partition(|row| row["cause"] == "start_failed");
    let mut text = format!("{count} of {} did not work.", rows.len());
    if !ran.is_empty() {
        text.push_str(if ran.len() == 1 { " What it wrote:" } else { " What they wrote:" });
    }
    for row in ran.iter().take(FAILED_SHOWN_MAX) {
        text.push_str(&format!("\n  rollcall logs {}", task_name(row)));
    }
    for row in never_ran.iter().take(FAILED_SHOWN_MAX) {
        text.push_str(&format!("\n  {} never ran: {}", task_name(row), printable(&cause(row))));
    }
    Some(Failure::work(text))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rollcall_types::{JobFile, example_web};
    use serde_json::{Value, json};

    use super::{failed, head, is_done, summary, unchanged, wanted};
    use crate::failure::Failure;
    use crate::names::Name;

    fn job(kind: &str) -> JobFile {
        let text = format!("kind = \"{kind}\"\n{}", example_web());
        JobFile::parse(&text, "web.toml").expect("is right")
    }

    fn rows(states: &[&str]) -> Vec<Value> {
        let row =
            |(instance, state)| json!({ "task": format!("web.{instance}.1"), "instance": instance, "state": state });
        states.iter().enumerate().map(row).collect()
    }

    #[test]
    fn waiting_ends_when_all_are_there_or_none_can_come() {
        let table: [(&str, &[&str], bool); 9] = [
            ("service", &[], false),
            ("service", &["running", "running", "starting"], false),
            ("service", &["running", "running", "running"], true),
            ("service", &["running", "failed", "running"], true),
            ("service", &["failed", "pending", "running"], false),
            ("batch", &["running", "finished", "finished"], false),
            ("batch", &["finished", "finished", "finished"], true),
            ("batch", &["failed", "finished", "running"], false),
            ("batch", &["failed", "finished", "finished"], true),
        ];
        for (kind, states, done) in table {
            assert_eq!(is_done(&job(kind), &rows(states)), done, "{kind} {states:?}");
        }
    }

    #[test]
    fn a_job_made_smaller_has_not_failed() {
        // The example has three instances; the fourth is left from before.
        let job = job("service");
        assert!(!is_done(&job, &rows(&["running", "running", "starting", "running"])), "one too many is no stand-in");
        assert!(!is_done(&job, &rows(&["running", "running", "running", "stopping"])), "it is still there");
        let rows = rows(&["running", "running", "running", "stopped"]);
        assert!(is_done(&job, &rows));
        assert_eq!(failed(&wanted(&job, rows)), None);
    }

    #[test]
    fn the_cause_of_what_never_ran_is_told_whole() {
        let text = "no program `x` ".repeat(20);
        let row = json!({ "task": "web.0.1", "state": "failed", "cause": "start_failed", "cause_text": text });
        let expected = format!("1 of 1 did not work.\n  web.0.1 never ran: start_failed: {text}");
        assert_eq!(failed(&[row]), Some(Failure::work(expected)));
    }

    #[test]
    fn the_lines_of_run_are_those_of_the_manual() {
        let (job, name) = (job("service"), Name::parse("web").expect("is a name"));
        assert_eq!(head(&name, ("new", 3), 1, &job), "web   new: service, 3 instances of 0.25 cpus, 64M");
        assert_eq!(head(&name, ("restarted", 2), 1, &job), "web   restarted: 2 of 3 instances had ended");
        assert_eq!(unchanged(&name, &job, 1, &rows(&["running"; 3])), "web   unchanged: spec 1, 3 of 3 running");
        let took = Duration::from_millis(120);
        assert_eq!(summary(&job, 2, &rows(&["running"; 3]), took), "3 of 3 running after 0.1 s. spec 2");
        assert_eq!(failed(&rows(&["running"; 3])), None);
        let failure = failed(&rows(&["running", "failed"])).expect("one failed");
        assert_eq!(failure.exit_code(), 1);
    }
}
