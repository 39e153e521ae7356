//! Verbs that ask a server.

use serde_json::{Value, json};

use crate::server::Server;
use crate::support::rollcall;

fn task(instance: u32, attempt: u32, state: &str, cause: Option<&str>) -> Value {
    json!({
        "task": format!("web.{instance}.{attempt}"), "namespace": "default", "job": "web", "instance": instance,
        "attempt": attempt, "state": state, "agent": "n1", "started": "2026-07-01T11:56:00Z", "cause": cause,
    })
}

fn rows(rows: &[Value], next: Option<&str>) -> String {
    json!({ "version": 7, "time": "2026-07-01T12:00:00Z", "rows": rows, "next": next }).to_string()
}

/// A file with the example job.
fn example() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), rollcall_types::example_web()).expect("is written");
    file
}

fn run_against(change: &'static str, tasks: Vec<Value>, more: &[&str]) -> (i32, String, String, Server) {
    let server = Server::start(move |line| match line.split(' ').next() {
        Some("POST") => {
            (200, json!({ "version": 7, "job": "web", "change": change, "spec_number": 1, "tasks": [] }).to_string())
        }
        _ => (200, rows(&tasks, None)),
    });
    let file = example();
    let mut arguments = vec!["run", file.path().to_str().expect("is UTF-8"), "--server", &server.address];
    arguments.extend(more);
    let (code, out, err) = rollcall(&arguments);
    (code, out, err, server)
}

#[test]
fn run_sends_the_job_and_waits_until_it_runs() {
    let tasks = (0..3).map(|instance| task(instance, 2, "running", None)).chain([task(0, 1, "failed", None)]).collect();
    let (code, out, err, server) = run_against("new", tasks, &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (last, lines) = out.trim_end().rsplit_once("\n").expect("has lines");
    let expected = [
        "web   new: service, 3 instances of 0.25 cpus, 64M",
        "  web.0.2  running  n1",
        "  web.1.2  running  n1",
        "  web.2.2  running  n1",
    ];
    assert_eq!(last.lines().collect::<Vec<_>>(), expected);
    assert!(lines.starts_with("3 of 3 running after 0."), "{lines}");
    let asked = server.asked();
    let place = "where=namespace%20%3D%20%27default%27%20and%20job%20%3D%20%27web%27";
    let lines: Vec<&str> = asked.iter().map(|asked| asked.line.as_str()).collect();
    // What may change is watched before it is looked at.
    let expected = [format!("GET /v1/watch?{place}"), format!("GET /v1/tasks?{place}&limit=10000")];
    assert_eq!(lines[1..], expected);
    assert_eq!(asked[0].line, "POST /v1/jobs");
    let job: rollcall_types::JobFile = serde_json::from_str(&asked[0].body).expect("is a job");
    assert_eq!(Ok(job), rollcall_types::JobFile::parse(rollcall_types::example_web(), ""));
}

#[test]
fn run_of_the_same_file_says_that_nothing_changed() {
    let tasks = (0..3).map(|instance| task(instance, 1, "running", None)).collect();
    let (code, out, _, _) = run_against("unchanged", tasks, &[]);
    assert_eq!((code, out.as_str()), (0, "web   unchanged: spec 1, 3 of 3 running\n"));
}

#[test]
fn a_failure_is_exit_code_1_with_what_to_look_at() {
    let tasks =
        vec![task(0, 1, "running", None), task(1, 1, "failed", Some("exit_nonzero")), task(2, 1, "running", None)];
    let (code, out, err, _) = run_against("new", tasks, &[]);
    assert_eq!(code, 1);
    assert!(out.contains("\n  web.1.1  failed   n1  exit_nonzero\n"), "{out}");
    assert!(out.contains("\n2 of 3 running after"), "{out}");
    assert_eq!(err, "1 of 3 did not work. What it wrote:\n  rollcall logs web.1.1\n");
}

#[test]
fn waiting_ends_at_the_timeout_with_exit_code_6() {
    let (code, _, err, _) = run_against("new", vec![task(0, 1, "pending", None)], &["--timeout", "50ms"]);
    assert_eq!((code, err.as_str()), (6, "--timeout passed; web goes on: rollcall tasks web\n"));
    let (code, out, _, server) = run_against("new", vec![], &["--detach", "--output", "json"]);
    assert_eq!(code, 0);
    assert_eq!(serde_json::from_str::<Value>(&out).expect("is JSON")["change"], "new");
    assert_eq!(server.asked().len(), 1, "nobody waits");
}

#[test]
fn tasks_are_gathered_page_by_page_unless_limited() {
    let start = || {
        Server::start(|line| {
            let second = line.contains("after=c1");
            let next = (!second).then_some("c1");
            (200, rows(&[task(u32::from(second), 1, "running", None)], next))
        })
    };
    let server = start();
    let (code, out, err) = rollcall(&["tasks", "--server", &server.address, "--sort", "-started"]);
    let expected = "\
TASK     STATE    AGENT  STARTED    RAN    CAUSE
web.0.1  running  n1     4 min ago  4 min
web.1.1  running  n1     4 min ago  4 min
";
    assert_eq!((code, out.as_str(), err.as_str()), (0, expected, ""));
    assert_eq!(server.asked()[0].line, "GET /v1/tasks?sort=-started&limit=1000");
    let server = start();
    let arguments = ["tasks", "web.0", "--limit", "1", "--columns", "task,pid", "--output", "csv", "--server"];
    let (code, out, err) = rollcall(&[&arguments[..], &[&server.address]].concat());
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (0, "task,pid\nweb.0.1,\n", "1 shown; next: --after c1    (version 7)\n")
    );
}

#[test]
fn the_servers_no_is_passed_on() {
    let server = Server::start(|_| {
        let message = "where:1: no column `agnet`; did you mean `agent`? Columns: rollcall help tasks";
        (400, json!({ "code": "bad_query", "message": message, "hint": null }).to_string())
    });
    let (code, out, err) = rollcall(&["tasks", "--where", "agnet = 'n1'", "--server", &server.address]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(err, "--where:1: no column `agnet`; did you mean `agent`? Columns: rollcall help tasks\n");
    let server = Server::start(|_| (404, r#"{"code":"no_job","message":"no job `web`"}"#.to_owned()));
    let (code, _, err) = rollcall(&["stop", "web", "--server", &server.address]);
    assert_eq!((code, err.as_str()), (3, "no job `web`\n"));
    assert_eq!(server.asked()[0].line, "POST /v1/jobs/default/web/stop");
}

#[test]
fn logs_of_a_job_are_those_of_its_newest_tasks() {
    let server = Server::start(|line| match line {
        line if line.starts_with("GET /v1/tasks") => {
            (200, rows(&[task(0, 1, "failed", None), task(0, 2, "running", None), task(10, 1, "running", None)], None))
        }
        line if line.starts_with("GET /v1/logs/web.0.2?") => {
            (200, "out 2026-07-01T03:12:44.102Z GET / 200\nerr - ünfinished".to_owned())
        }
        _ => (200, "out - other\n".to_owned()),
    });
    let (code, out, err) = rollcall(&["logs", "web", "--lines", "5", "--server", &server.address]);
    let expected = "\
web.0.2  out | 03:12:44.102  GET / 200
web.0.2  err | ünfinished
web.10.1 out | other
";
    assert_eq!((code, out.as_str(), err.as_str()), (0, expected, ""));
    let asked: Vec<String> = server.asked().into_iter().map(|asked| asked.line).skip(1).collect();
    assert_eq!(asked, ["GET /v1/logs/web.0.2?lines=5", "GET /v1/logs/web.10.1?lines=5"]);
    let (code, out, _) = rollcall(&["logs", "-f", "web", "--err", "--raw", "--server", &server.address]);
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((code, lines), (0, vec!["GET / 200", "other", "ünfinished"]));
    assert!(server.asked().iter().skip(1).all(|asked| asked.line.ends_with("?lines=100&follow=true&stream=err")));
}

#[test]
fn stop_waits_until_nothing_runs() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let server = Server::start(move |line| {
        let state =
            match line.starts_with("GET /v1/tasks") && asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2 {
                true => "running",
                false => "stopped",
            };
        (200, rows(&[task(0, 1, state, None)], None))
    });
    let (code, out, _) = rollcall(&["stop", "web", "--server", &server.address]);
    assert_eq!(code, 0);
    assert!(out.starts_with("web   stopped: 1 instance after 0."), "{out}");
    assert_eq!(server.asked().iter().filter(|asked| asked.line.starts_with("GET /v1/tasks")).count(), 3);
    assert_eq!(rollcall(&["stop", "web.0", "--server", &server.address]).0, 2);
}
