//! What needs no server.

use crate::support::{command, rollcall, seen};

#[test]
fn verbs_of_later_releases_are_refused_and_slips_are_understood() {
    for verb in ["plan", "status", "why", "events", "jobs", "agents", "watch", "server", "completions"] {
        let (code, out, err) = rollcall(&[verb, "web", "--any-flag"]);
        assert_eq!((code, out.as_str()), (2, ""), "{verb}");
        assert!(err.starts_with(&format!("`{verb}` is not yet supported. This release has: dev, run, ")), "{err}");
    }
    let (code, _, err) = rollcall(&["taks"]);
    assert_eq!((code, err.as_str()), (2, "no verb `taks`; did you mean `tasks`?\n"));
    assert_eq!(rollcall(&["run"]).0, 2, "a file is needed");
    let (code, _, err) = rollcall(&["dev", "--keep-tasks"]);
    assert_eq!((code, err.contains("not yet supported")), (2, true), "{err}");
}

#[test]
fn nobody_there_is_exit_code_5_with_what_to_do() {
    // Bound once and closed again: nobody listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("has one").port();
    let address = format!("127.0.0.1:{port}");
    let (code, out, err) = rollcall(&["tasks", "--server", &address]);
    assert_eq!((code, out.as_str()), (5, ""));
    assert_eq!(err, format!("cannot reach {address} (connection refused). Start one: rollcall dev\n"));
    let by_variable = command(&["tasks"]).env("ROLLCALL_SERVER", &address).output().expect("starts");
    assert_eq!(seen(by_variable).2, err);
    assert_eq!(rollcall(&["tasks", "--server", "nowhere"]).0, 2);
}

#[test]
fn a_wrong_file_is_told_whole_and_nothing_is_asked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("web.toml");
    std::fs::write(&file, "name = \"web\"\ncommand = [\"a\"]\ninstance = 3\n[resources]\nmemory = 64\n")
        .expect("written");
    let mut run = command(&["run", "web.toml", "--server", "127.0.0.1:1"]);
    let (code, out, err) = seen(run.current_dir(folder.path()).output().expect("starts"));
    assert_eq!((code, out.as_str()), (2, ""));
    let expected = "\
web.toml:3:1   unknown field `instance`; did you mean `instances`?
web.toml:5:10  memory = 64: the unit is missing; did you mean \"64M\"?
2 errors, nothing changed. All fields: rollcall help job-file
";
    assert_eq!(err, expected);
    assert_eq!(rollcall(&["run", "/no/such/file.toml"]).0, 2);
}

#[test]
fn the_house_answers_by_itself() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("has one");
    let expected = (0, format!("binary {}\n", env!("CARGO_PKG_VERSION")), String::new());
    assert_eq!(rollcall(&["version", "--server", &nobody.to_string()]), expected);
    let (code, out, _) = rollcall(&["example", "web"]);
    assert_eq!((code, out.as_str()), (0, rollcall_types::example_web()));
    assert_eq!(rollcall(&["example", "wbe"]).0, 3);
    assert!(rollcall(&["help", "job-file"]).1.contains("instances = 3"));
    assert!(rollcall(&["help", "tasks"]).1.contains("--where"));
    assert!(rollcall(&["help", "bench"]).1.contains("--case <PATTERN>"));
    let (_, out, _) = rollcall(&["--help"]);
    assert!(out.lines().all(|line| line.chars().count() <= 110), "{out}");
    assert!(!out.contains("guard") && !out.contains("serve-example-page"), "{out}");
}

#[test]
fn a_benchmark_runs_without_a_server() {
    let (code, out, err) = rollcall(&["bench", "tasks", "--quick", "--case", "indexed:10k"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("\nindexed:10k ") && out.contains("floor "), "{out}");
    let (code, out, _) = rollcall(&["bench", "tasks", "--quick", "--case", "indexed:10k", "--output", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).expect("one object and nothing else");
    let case = &report["cases"][0];
    assert_eq!((code, &report["bench"], &case["case"]), (0, &"tasks".into(), &"indexed:10k".into()));
    assert!(case["bytes_alloc_per_op"].is_number(), "allocations are counted: {case}");
    let (code, out, err) = rollcall(&["bench", "taks"]);
    assert_eq!((code, out.as_str(), err.as_str()), (3, "", "no benchmark `taks`; there is: tasks, storm\n"));
    assert_eq!(rollcall(&["bench", "tasks", "--case", "nothing"]).0, 1);
}
