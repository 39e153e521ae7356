//! The transcripts of the first hour, on a real server with real processes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use crate::dev::{Dev, PATIENCE, folder, line_with, lines};

/// Where times stood: `3 of 3 running after 0.1 s.` with `*` in its place.
fn without_times(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        let is_unit = words[at].trim_end_matches('.').trim_end_matches('\n') == "s";
        if is_unit && words[at - 1].parse::<f64>().is_ok() {
            words[at - 1] = "*".to_owned();
        }
    }
    words.join(" ")
}

fn example(dev: &Dev) -> String {
    let (code, out, _) = dev.rollcall(&["example", "web"]);
    assert_eq!(code, 0);
    out
}

#[test]
fn a_service_runs_is_seen_is_followed_and_stops() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let job = example(&dev);
    let (code, out, err) = dev.run(&job, &[]);
    let expected = "\
web   new: service, 3 instances of 0.25 cpus, 64M
  web.0.1  running  n1
  web.1.1  running  n1
  web.2.1  running  n1
3 of 3 running after * s. spec 1
";
    assert_eq!((code, without_times(&out).as_str(), err.as_str()), (0, expected, ""));
    assert_eq!(dev.run(&job, &[]), (0, "web   unchanged: spec 1, 3 of 3 running\n".into(), String::new()));
    let (code, out, _) = dev.rollcall(&["tasks"]);
    assert_eq!((code, out.lines().next()), (0, Some("TASK     STATE    AGENT  STARTED    RAN    CAUSE")));
    assert_eq!(out.lines().filter(|line| line.starts_with("web.") && line.contains("  running  n1  ")).count(), 3);

    let mut following = dev.command(&["logs", "-f", "web.0"]);
    let mut following = following.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let followed = lines(following.stdout.take().expect("is a pipe"));
    let listening = line_with(&followed, "web.0.1 out | listening on http://");
    let page = listening.rsplit_once("http://").expect("has an address").1;
    let mut stream = TcpStream::connect(page).expect("the task listens");
    stream.write_all(b"GET /hello HTTP/1.1\r\nhost: x\r\n\r\n").expect("takes a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answers");
    assert!(answer.contains("<p>This is web.0.1.</p>"), "{answer}");
    line_with(&followed, "web.0.1 out | GET /hello HTTP/1.1 200");

    let (code, out, _) = dev.rollcall(&["stop", "web"]);
    assert_eq!((code, without_times(&out).as_str()), (0, "web   stopped: 3 instances after * s\n"));
    line_with(&followed, "  -- | ");
    assert!(following.wait().expect("is our child").success(), "following ends with the task");
    let states: Vec<_> = dev.tasks("job = 'web'").iter().map(|task| task["state"].to_string()).collect();
    assert_eq!(states, ["\"stopped\""; 3]);
    let (_, out, _) = dev.rollcall(&["tasks", "web.0"]);
    assert!(out.contains("  stopped_by: stopped by request; exit code 0\n"), "{out}");
    let (code, out, _) = dev.run(&job, &[]);
    assert_eq!((code, out.contains("web.0.2  running")), (0, true), "{out}");
    let (code, out, _) = dev.run(&job.replace("Hello from rollcall", "Hello again"), &[]);
    assert_eq!((code, out.starts_with("web   spec 1 -> 2: service, 3 instances")), (0, true), "{out}");
    let replaced = dev.tasks("job = 'web' and cause = 'superseded'");
    let told = |task: &serde_json::Value| {
        task["cause_text"].as_str().is_some_and(|text| text.starts_with("replaced by spec 2"))
    };
    assert_eq!((replaced.len(), replaced.iter().all(told)), (3, true), "{replaced:?}");
    // Fewer instances are what was asked for, and no failure, today and when the same file is run again.
    let fewer = job.replace("instances = 3", "instances = 2");
    let (code, out, err) = dev.run(&fewer, &[]);
    assert_eq!((code, out.contains("\n2 of 2 running"), err.as_str()), (0, true, ""), "{out}");
    assert_eq!(dev.run(&fewer, &[]), (0, "web   unchanged: spec 3, 2 of 2 running\n".into(), String::new()));
    assert_eq!(dev.rollcall(&["version"]).1, format!("binary {0}   server {0}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_batch_job_is_waited_for_to_its_end_and_its_failure_is_exit_code_1() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let (code, out, _) = dev.run("name = \"good\"\nkind = \"batch\"\ncommand = \"id -u; echo oops >&2\"\n", &[]);
    assert_eq!((code, out.lines().nth(1)), (0, Some("  good.0.1  finished  n1")));
    let (code, out, _) = dev.rollcall(&["logs", "good"]);
    // As root, tasks are not root.
    let ours = rustix::process::geteuid();
    let (_, nobody, _) =
        crate::support::seen(std::process::Command::new("id").args(["-u", "nobody"]).output().expect("runs"));
    let user = if ours.is_root() { nobody.trim().to_owned() } else { ours.as_raw().to_string() };
    assert_eq!((code, out), (0, format!("good.0.1 out | {user}\ngood.0.1 err | oops\n")));
    let (code, out, err) = dev.run("name = \"bad\"\nkind = \"batch\"\ncommand = \"exit 3\"\n", &[]);
    assert_eq!((code, out.lines().nth(1)), (1, Some("  bad.0.1  failed  n1  exit_nonzero: exit code 3")));
    assert_eq!(err, "1 of 1 did not work. What it wrote:\n  rollcall logs bad.0.1\n");
    // Run again, what failed is tried again, and what finished is done.
    let (code, out, _) = dev.run("name = \"bad\"\nkind = \"batch\"\ncommand = \"exit 3\"\n", &[]);
    assert_eq!((code, out.lines().next()), (1, Some("bad   restarted: 1 of 1 instance had ended")));
    let (code, out, _) = dev.run("name = \"good\"\nkind = \"batch\"\ncommand = \"id -u; echo oops >&2\"\n", &[]);
    assert_eq!((code, out.as_str()), (0, "good   unchanged: spec 1, 1 of 1 finished\n"));
    let (code, out, _) = dev.run("name = \"none\"\nkind = \"batch\"\ncommand = [\"/no/such/program\"]\n", &[]);
    assert_eq!((code, out.contains("start_failed: ")), (1, true), "{out}");
    let (code, out, _) = dev.run("name = \"killed\"\nkind = \"batch\"\ncommand = \"kill -9 $$\"\n", &[]);
    assert_eq!((code, out.contains("signal: ended by SIGKILL")), (1, true), "{out}");
}

/// The kinds of events of a watch, with the state of their rows, up to the first one in this state; and its position.
fn watched(dev: &Dev, head: &str, until: &str) -> (Vec<String>, String) {
    let mut stream = TcpStream::connect(&dev.address).expect("listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("is a socket");
    write!(stream, "{head}host: {}\r\n\r\n", dev.address).expect("takes a request");
    let (mut seen, mut position, mut kind) = (Vec::new(), String::new(), String::new());
    for line in BufReader::new(stream).lines() {
        let line = line.expect("more comes");
        if let Some(id) = line.strip_prefix("id: ") {
            position = id.to_owned();
        } else if let Some(event) = line.strip_prefix("event: ") {
            kind = event.to_owned();
        } else if let Some(row) = line.strip_prefix("data: ") {
            let row: serde_json::Value = serde_json::from_str(row).expect("a row is JSON");
            let state = row["state"].as_str().expect("a task has a state").to_owned();
            seen.push(format!("{kind} {state}"));
            if state == until {
                break;
            }
        }
    }
    (seen, position)
}

#[test]
fn a_watch_tells_each_change_once_and_goes_on_where_it_was() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let answer: serde_json::Value = serde_json::from_slice(&dev.ask("GET /v1/version", "").1).expect("is JSON");
    let version = answer["version"].as_u64().expect("is a number");
    let job = "name = \"once\"\nkind = \"batch\"\ncommand = \"true\"\n";
    assert_eq!(dev.run(job, &[]).0, 0);
    let watch = "GET /v1/watch?where=job%20=%20'once'";
    let (seen, _) = watched(&dev, &format!("{watch}&from={version} HTTP/1.0\r\n"), "finished");
    assert_eq!(seen, ["came pending", "changed starting", "changed running", "changed finished"]);
    let (seen, position) = watched(&dev, &format!("{watch}&from={version} HTTP/1.0\r\n"), "starting");
    assert_eq!(seen, ["came pending", "changed starting"]);
    let resumed = format!("{watch} HTTP/1.0\r\nlast-event-id: {position}\r\n");
    assert_eq!(watched(&dev, &resumed, "finished").0, ["changed running", "changed finished"]);
    assert_eq!(dev.ask("GET /v1/watch?from=99999999", "").0, 400);
}

#[test]
fn metrics_count_each_kind_of_request() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    assert_eq!(dev.ask("GET /v1/tasks", "").0, 200);
    assert_eq!(dev.ask("GET /v1/tasks/unknown/and/odd", "").0, 404);
    let (status, text) = dev.ask("GET /metrics", "");
    let text = String::from_utf8(text).expect("is text");
    assert_eq!((status, text.ends_with("# EOF\n")), (200, true));
    for expected in [
        r#"rollcall_request_duration_seconds_count{method="GET",path="/v1/tasks",status="200"} 1"#,
        r#"rollcall_request_duration_seconds_count{method="GET",path="other",status="404"} 1"#,
        "rollcall_rows_agents 1",
        "rollcall_failed_commits_total 0",
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
    }
}

#[test]
fn what_fits_nowhere_waits_and_says_why_and_starts_when_there_is_room() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let job = "name = \"big\"\ncommand = \"exec sleep 1000\"\nresources = { memory = \"64T\" }\n";
    let (code, out, err) = dev.run(job, &["--timeout", "300ms"]);
    assert_eq!((code, out.as_str()), (6, "big   new: service, 1 instance of 0.25 cpus, 64T\n"));
    let (warning, rest) = err.split_once('\n').expect("has lines");
    assert!(warning.starts_with("warning: 1 of 1 pending: no_fit: needs 64T memory; the only ready"), "{err}");
    assert_eq!(rest, "--timeout passed; big goes on: rollcall tasks big\n");
    let (_, out, _) = dev.rollcall(&["tasks", "big"]);
    assert!(out.contains("no_fit: needs 64T memory; the only ready agent has "), "{out}");
    let (code, _, err) = dev.rollcall(&["logs", "big"]);
    assert_eq!((code, err.starts_with("no logs of big.0.1: it has not started: needs 64T memory")), (3, true), "{err}");
    let (code, out, _) = dev.rollcall(&["stop", "big"]);
    assert_eq!((code, out.starts_with("big   stopped: 1 instance")), (0, true));

    let whole = dev.ask("GET /v1/agents", "").1;
    let whole: serde_json::Value = serde_json::from_slice(&whole).expect("is JSON");
    let cpus = whole["rows"][0]["cpus_thousandths"].as_u64().expect("is a number") as f64 / 1000.0;
    let all = |name: &str| {
        format!("name = \"{name}\"\ncommand = \"exec sleep 1000\"\nresources = {{ cpus = {cpus}, memory = \"1M\" }}\n")
    };
    assert_eq!(dev.run(&all("first"), &[]).0, 0);
    assert_eq!(dev.run(&all("second"), &["--timeout", "200ms"]).0, 6);
    assert_eq!(dev.rollcall(&["stop", "first"]).0, 0);
    let (code, out, err) = dev.run(&all("second"), &["--timeout", "60s"]);
    assert_eq!((code, out.as_str()), (0, "second   unchanged: spec 1, 1 of 1 running\n"), "{err}");
}

#[test]
fn mistakes_have_their_exit_codes_and_say_what_to_do() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let (code, _, err) = dev.rollcall(&["stop", "nope"]);
    assert_eq!((code, err.starts_with("there is no job nope in namespace default\n")), (3, true), "{err}");
    let (code, _, err) = dev.rollcall(&["tasks", "web", "--where", "agnet = 'n1'"]);
    assert_eq!((code, err.starts_with("--where:1: no column `agnet`; did you mean `agent`?\n")), (2, true), "{err}");
    assert_eq!(dev.rollcall(&["tasks", "--sort", "colour"]).0, 2);
    assert_eq!(dev.rollcall(&["logs", "web.0.1"]).0, 3);
    let refusals = [
        ("GET /v1/nothing", "", 404, "no_such_path"),
        ("DELETE /v1/tasks\ncontent-type: application/json", "", 405, "wrong_method"),
        ("GET /v1/tasks?limt=1", "", 400, "bad_parameter"),
        ("POST /v1/jobs\ncontent-type: application/json", "{}", 400, "bad_body"),
        ("POST /v1/jobs\ncontent-type: application/json", r#"{"name":"A.b","command":"true"}"#, 400, "bad_body"),
        ("POST /v1/jobs/default/web/stop?instance=x\ncontent-type: application/json", "", 400, "bad_parameter"),
        ("GET /v1/logs/web", "", 400, "bad_parameter"),
        ("GET /v1/logs/web.0.1", "", 404, "no_such_thing"),
    ];
    for (head, body, status, code) in refusals {
        let (seen, answer) = dev.ask(head, body);
        let answer: serde_json::Value = serde_json::from_slice(&answer).expect("an error is JSON");
        assert_eq!((seen, answer["code"].as_str()), (status, Some(code)), "{head}: {answer}");
        assert!(answer["message"].is_string());
    }
    let huge = format!(r#"{{"name":"a","command":"{}"}}"#, "x".repeat(1 << 20));
    assert_eq!(dev.ask("POST /v1/jobs\ncontent-type: application/json", &huge).0, 413);
    assert!(dev.tasks("active").is_empty());
}
