//! What must not go wrong: deaths, strangers, damage.

use std::io::Read;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::dev::{Dev, dev, folder, line_with, lines, wait_until_gone};
use crate::support::{command, seen};

const JSON: &str = "content-type: application/json";

/// A job of a shell that waits with a child, and prints both numbers.
const FAMILY: &str = "name = \"family\"\ncommand = \"sleep 1000 & echo $$ $!; wait\"\n";

/// Memory that no machine has: such a job is kept and never started.
const TOO_MUCH: u64 = 64 << 40;

/// The numbers that the family printed.
fn family(dev: &Dev) -> Vec<u32> {
    assert_eq!(dev.run(FAMILY, &[]).0, 0);
    numbers(dev, "family", 2)
}

/// So many numbers that a job prints on one line.
fn numbers(dev: &Dev, job: &str, count: usize) -> Vec<u32> {
    let mut following = dev.command(&["logs", "-f", "--raw", job]);
    let mut following = following.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let line = line_with(&lines(following.stdout.take().expect("is a pipe")), "");
    following.kill().and_then(|()| following.wait()).expect("is our child");
    let numbers: Vec<u32> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers.len(), count, "{line}");
    numbers
}

/// Whether a process runs; what has ended and was not yet taken note of by its parent does not.
fn is_there(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn after_ctrl_c_no_process_is_left_and_its_end_is_known() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let numbers = family(&dev);
    assert!(numbers.iter().all(|pid| is_there(*pid)));
    assert!(dev.interrupt().success());
    assert!(!numbers.iter().any(|pid| is_there(*pid)), "{numbers:?}");
    let dev = Dev::start(folder.path());
    let tasks = dev.tasks("job = 'family'");
    assert_eq!((&tasks[0]["state"], &tasks[0]["cause"]), (&"stopped".into(), &"stopped_by".into()));
    assert_eq!(tasks[0]["cause_text"], "ended with the daemon of n1, which was stopped");
    assert!(dev.terminate().success());
    assert!(Dev::start_fresh(folder.path()).tasks("active or not active").is_empty());
}

/// Submits jobs, each when the one before was acknowledged, has the server killed after so many, and gives the names of those that were
/// acknowledged.
fn submit_until_killed(dev: &Dev, round: usize, enough: usize) -> Vec<String> {
    let killed = AtomicBool::new(false);
    let (tell, reached) = std::sync::mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        let submitting = scope.spawn(|| {
            let mut acknowledged = Vec::new();
            loop {
                let name = format!("job-{round}-{}", acknowledged.len());
                let body = format!(r#"{{"name":"{name}","command":"true","resources":{{"memory":{TOO_MUCH}}}}}"#);
                match dev.try_ask(&format!("POST /v1/jobs\n{JSON}"), &body) {
                    Ok((200, _)) => acknowledged.push(name),
                    _ => break,
                }
                if acknowledged.len() == enough {
                    tell.send(()).expect("somebody waits");
                }
            }
            assert!(killed.load(Ordering::SeqCst), "nothing is refused before");
            acknowledged
        });
        reached.recv().expect("enough were submitted");
        killed.store(true, Ordering::SeqCst);
        dev.kill();
        submitting.join().expect("submits until the end")
    })
}

#[test]
fn after_kill_9_what_was_acknowledged_is_there_and_tasks_have_a_cause() {
    let folder = folder();
    let mut dev = Dev::start(folder.path());
    let family = family(&dev);
    let mut acknowledged = Vec::new();
    for (round, enough) in [1, 9, 30].into_iter().enumerate() {
        acknowledged.extend(submit_until_killed(&dev, round, enough));
        drop(dev);
        dev = Dev::start(folder.path());
        let jobs: Value = serde_json::from_slice(&dev.ask("GET /v1/jobs", "").1).expect("is JSON");
        let rows = jobs["rows"].as_array().expect("has rows");
        let kept: Vec<&str> = rows.iter().filter_map(|job| job["job"].as_str()).collect();
        assert!(acknowledged.iter().all(|job| kept.contains(&job.as_str())), "{acknowledged:?} {kept:?}");
    }
    family.iter().for_each(|pid| wait_until_gone(*pid));
    let tasks = dev.tasks("job = 'family'");
    assert_eq!((&tasks[0]["state"], &tasks[0]["cause"]), (&"failed".into(), &"agent_lost".into()));
    assert_eq!(tasks[0]["cause_text"], "the daemon of n1 ended, and the task with it");
    let (code, _, err) = dev.run(FAMILY, &[]);
    assert_eq!((code, err.contains("rollcall stop family && rollcall run job.toml")), (1, true), "{err}");
    // Its logs are still there.
    assert_eq!(dev.rollcall(&["logs", "family.0.1"]).1.lines().count(), 1);
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_leaves_no_process_either() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    // The shell does not mind being asked to stop.
    let job = "name = \"stubborn\"\ncommand = \"trap : TERM; echo $$; while :; do sleep 1000; done\"\n";
    assert_eq!(dev.run(job, &[]).0, 0);
    let shell = numbers(&dev, "stubborn", 1)[0];
    let (code, told) = dev.interrupt_twice();
    assert_eq!((code, told.ends_with("ended at once; the tasks were killed\n")), (Some(130), true), "{told}");
    wait_until_gone(shell);
}

#[test]
fn pages_of_others_and_forms_are_refused_and_change_nothing() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let job = r#"{"name":"evil","command":"true"}"#;
    let port = dev.address.rsplit_once(':').expect("has a port").1;
    for (head, status) in [
        (format!("POST /v1/jobs\nhost: evil.example\n{JSON}"), 403),
        (format!("POST /v1/jobs\nhost: evil.example:{port}\n{JSON}"), 403),
        (format!("POST /v1/jobs\nhost: 127.0.0.1:{port}\norigin: http://evil.example\n{JSON}"), 403),
        (format!("POST /v1/jobs\nhost: 127.0.0.1:{port}\norigin: null\n{JSON}"), 403),
        (format!("POST http://evil.example/v1/jobs\nhost: 127.0.0.1:{port}\n{JSON}"), 403),
        ("POST /v1/jobs\ncontent-type: text/plain".to_owned(), 400),
        ("POST /v1/jobs".to_owned(), 400),
        ("GET /v1/tasks\nhost: evil.example".to_owned(), 403),
        ("GET /metrics\norigin: http://evil.example".to_owned(), 403),
        (format!("GET /v1/tasks\nhost: localhost:{port}\norigin: http://localhost:{port}"), 200),
    ] {
        let (seen, answer) = dev.ask(&head, job);
        assert_eq!(seen, status, "{head}: {}", String::from_utf8_lossy(&answer));
    }
    let text = String::from_utf8(dev.ask("GET /v1/tasks\nhost: evil.example", "").1).expect("is text");
    assert!(text.contains("this server answers on this machine only, and not to the host `evil.example`"), "{text}");
    assert!(dev.tasks("job = 'evil'").is_empty());
}

#[test]
fn a_second_dev_is_refused_with_the_first_ones_name() {
    let folder = folder();
    let dev_first = Dev::start(folder.path());
    let pid = dev_first.pid();
    let (code, out, err) = seen(dev(folder.path()).output().expect("the binary starts"));
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains(&format!("/data is in use by rollcall dev (pid {pid})")), "{err}");
    let port = dev_first.address.rsplit_once(':').expect("has a port").1;
    let (code, _, err) = seen(command(&["dev", "--port", port]).output().expect("the binary starts"));
    let expected = format!("port {port} is in use by rollcall dev (pid {pid}, since ");
    assert_eq!((code, err.starts_with(&expected)), (1, true), "{err}");
    assert!(err.ends_with(" s). Use it, or: rollcall dev --port 0 --data DIR\n"), "{err}");
    assert_eq!(dev_first.rollcall(&["tasks"]).0, 0, "the first one is not disturbed");
    let (code, _, err) = seen(command(&["dev", "--listen", "0.0.0.0"]).output().expect("the binary starts"));
    assert_eq!((code, err.contains("--insecure")), (2, true), "{err}");
}

#[test]
fn what_a_task_writes_comes_as_it_is() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let job = r#"
name = "bytes"
kind = "batch"
command = ['/bin/sh', '-c', 'printf "a\377b\000c\nno end" ; printf "\033[2Jx\n" >&2']
"#;
    assert_eq!(dev.run(job, &[]).0, 0);
    let (status, body) = dev.ask("GET /v1/logs/bytes.0.1", "");
    assert_eq!((status, body.as_slice()), (200, b"out - a\xffb\0c\nout - no end\nerr - \x1b[2Jx\n".as_slice()));
    let (code, out, _) = dev.rollcall(&["logs", "bytes", "--out"]);
    assert_eq!((code, out.as_str()), (0, "bytes.0.1 out | a\u{fffd}b\0c\nbytes.0.1 out | no end\n"));
    let mut raw = dev.command(&["logs", "bytes", "--out", "--raw"]);
    let mut raw = raw.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let mut bytes = Vec::new();
    raw.stdout.take().expect("is a pipe").read_to_end(&mut bytes).expect("is read");
    assert_eq!(bytes, b"a\xffb\0c\nno end\n");
    raw.wait().expect("is our child");
}

#[test]
fn data_that_cannot_be_read_is_refused_by_name_and_not_touched() {
    let folder = folder();
    let first = Dev::start(folder.path());
    for job in ["a", "b", "c"] {
        let job = format!("name = \"{job}\"\nkind = \"batch\"\ncommand = \"true\"\n");
        assert_eq!(first.run(&job, &[]).0, 0);
    }
    assert!(first.interrupt().success());
    let store = folder.path().join("data/store");
    let segment = std::fs::read_dir(&store).expect("is there").flatten().map(|entry| entry.path());
    let segment = segment.into_iter().find(|path| path.to_string_lossy().contains("segment-")).expect("there is one");
    let whole = std::fs::read(&segment).expect("is read");
    let place = whole.windows(8).position(|bytes| bytes == b"\"command").expect("the first spec is in there");
    let mut damaged = whole.clone();
    damaged[place] ^= 1;
    std::fs::write(&segment, &damaged).expect("is written");
    let (code, _, err) = seen(dev(folder.path()).output().expect("the binary starts"));
    assert_eq!((code, err.contains("segment-") && err.contains("is damaged at byte ")), (1, true), "{err}");
    assert_eq!(std::fs::read(&segment).expect("is read"), damaged);
    std::fs::write(&segment, &whole).expect("is written");

    let format = store.join("format");
    let ours = std::fs::read_to_string(&format).expect("is read");
    std::fs::write(&format, "rollcall log\nformat 99\nwritten by 9.9.9\n").expect("is written");
    let (code, _, err) = seen(dev(folder.path()).output().expect("the binary starts"));
    assert_eq!(
        (code, err.contains("was written by 9.9.9 (format 99)") && err.contains("Nothing was touched.")),
        (1, true),
        "{err}"
    );
    std::fs::write(&format, ours).expect("is written");
    assert_eq!(Dev::start(folder.path()).tasks("job in ('a', 'b', 'c')").len(), 3);
    // What was being written when the machine died, and was never acknowledged, is cut with a warning.
    let whole = std::fs::read(&segment).expect("is read");
    let end = whole.iter().rposition(|byte| *byte != 0).expect("has records").next_multiple_of(8);
    let mut torn = whole.clone();
    torn[end + 8..end + 16].copy_from_slice(b"\x10\0\0\0torn");
    std::fs::write(&segment, &torn).expect("is written");
    let told = Dev::start(folder.path()).told();
    assert!(told.starts_with("warning: segment-") && told.contains(" ends in a torn record "), "{told}");
    let fresh = seen(dev(folder.path()).arg("--keep-tasks").output().expect("the binary starts"));
    assert_eq!(fresh.0, 2);
}
