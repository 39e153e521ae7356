//! What a task finds when it starts, and why one does not start.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rollcall_sandbox::{OpenError, Outcome, Sandboxes, Stream, User};
use rollcall_types::Command;

use crate::support::{end, place, settings, shell, spec, text};

const DONE: Outcome = Outcome::Exited { code: 0 };

fn argv(words: &[&str]) -> Command {
    Command::Argv(words.iter().map(|word| (*word).to_owned()).collect())
}

#[tokio::test]
async fn a_task_gets_path_home_lang_and_its_own_environment_and_nothing_else() {
    let place = place();
    let mut spec = spec("a", argv(&["env"]));
    spec.environment.insert("LEVEL".into(), "a b=c".into());
    let sandbox = place.start(spec);
    assert_eq!(end(&sandbox).await, DONE);
    let root = place.folder.path().canonicalize().expect("is there");
    let mut lines: Vec<String> = text(&sandbox, Stream::Out).lines().map(str::to_owned).collect();
    lines.sort();
    let system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let expected = [
        format!("HOME={}/tasks/a/work", root.display()),
        "LANG=C.UTF-8".to_owned(),
        "LEVEL=a b=c".to_owned(),
        format!("PATH={}/bin:{system}", root.display()),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_task_is_alone_in_its_session_with_a_folder_of_its_own_and_no_input() {
    let place = place();
    // As a daemon inherits them from a careless parent: not closed on exec.
    let open = || rustix::fs::open("/dev/zero", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty());
    let inherited: Vec<_> = (0..3).map(|_| open().expect("opens")).collect();
    let line = "cat; pwd; echo $HOME; echo $$ $(cut -d' ' -f5,6 /proc/$$/stat); touch mine; ls
        ls -m /proc/$$/fd; readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2";
    let (outcome, out, err) = place.run("a", line).await;
    assert_eq!((&outcome, err.as_str()), (&DONE, ""));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], lines[1]);
    let numbers: Vec<&str> = lines[2].split(' ').collect();
    assert!(numbers.iter().all(|number| *number == numbers[0]), "leads its group and session: {numbers:?}");
    assert_eq!(lines[3], "mine");
    assert_eq!(lines[4], "0, 1, 2", "no descriptor of the daemon reaches a task");
    let folder = place.folder.path().canonicalize().expect("is there").join("tasks/a");
    let logs = [folder.join("out"), folder.join("err")].map(|log| log.display().to_string());
    assert_eq!(lines[5..], ["/dev/null", &logs[0], &logs[1]]);
    drop(inherited);
}

#[tokio::test]
async fn as_root_tasks_run_as_nobody_without_other_groups() {
    let place = place();
    let (outcome, out, _) = place.run("a", "id -u; id -g; id -G").await;
    assert_eq!(outcome, DONE);
    let current = User::current();
    let user = if current.is_root() { User::named("nobody").expect("nobody exists") } else { current };
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..2], [user.uid.to_string(), user.gid.to_string()]);
    if User::current().is_root() {
        assert_eq!(lines[2], user.gid.to_string());
        let log = place.folder.path().join("tasks/a/out").metadata().expect("is there");
        assert_eq!((log.uid(), log.mode() & 0o777), (0, 0o600), "a task cannot replace its log");
    }
}

#[tokio::test]
async fn words_are_expanded_from_the_environment_and_not_by_a_shell() {
    let place = place();
    let mut spec = spec("a", argv(&["printf", "%s|", "${PORT}", "$${PORT}", "*", "a b"]));
    spec.environment.insert("PORT".into(), "80".into());
    let sandbox = place.start(spec);
    assert_eq!(end(&sandbox).await, DONE);
    assert_eq!(text(&sandbox, Stream::Out), "80|${PORT}|*|a b|");
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let place = place();
    let reason = async |id: &str, command: Command, user: Option<&str>| {
        let mut spec = spec(id, command);
        spec.user = user.map(str::to_owned);
        match end(&place.start(spec)).await {
            Outcome::NotStarted { reason } => reason,
            other => panic!("started: {other:?}"),
        }
    };
    let missing = reason("a", argv(&["no-such-program"]), None).await;
    assert!(missing.starts_with("no program `no-such-program` in the task's folder or on its PATH ("), "{missing}");
    let folder = reason("b", argv(&["/etc"]), None).await;
    assert!(folder.starts_with("cannot start `/etc`: Permission denied"), "{folder}");
    let word = reason("c", argv(&["echo", "${PROT}"]), None).await;
    assert!(word.starts_with("cannot expand word 2 of the command: column 1: ${PROT} is not in the task's"), "{word}");
    let user = reason("d", argv(&["true"]), Some("no-such-user")).await;
    assert_eq!(user, "cannot run as the job's user: no user `no-such-user` in /etc/passwd");
    let root = reason("e", argv(&["true"]), Some("root")).await;
    assert!(root.starts_with("user `root` is not allowed here: "), "{root}");
    // No task runs twice under one id.
    assert_eq!(end(&place.start(shell("f", "true"))).await, DONE);
    let again = reason("f", argv(&["true"]), None).await;
    assert!(again.starts_with("cannot prepare the task's folder "), "{again}");
    for id in ["", "..", "a/b", ".hidden", &"x".repeat(200)] {
        assert!(place.sandboxes.start(shell(id, "true")).is_err(), "{id:?}");
    }
}

#[tokio::test]
async fn the_program_is_found_even_when_its_own_folder_is_closed() {
    let place = place();
    let closed = closed_folder();
    let program = closed.path().join("some-name");
    std::fs::write(&program, "#!/bin/sh\necho I am $1\n").expect("is written");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).expect("is ours");
    let mut settings = settings(place.folder.path());
    settings.program = program;
    // Twice, as after a restart.
    drop(Sandboxes::open(settings.clone()).expect("opens"));
    let sandboxes = Sandboxes::open(settings).expect("opens again");
    let sandbox = sandboxes.start(spec("a", argv(&["rollcall", "here"]))).expect("the id is right");
    assert_eq!(end(&sandbox).await, DONE);
    assert_eq!(text(&sandbox, Stream::Out), "I am here\n");
}

#[test]
fn a_folder_that_the_tasks_user_cannot_enter_is_refused_at_once() {
    if !User::current().is_root() {
        // Tasks run as ourselves, who made the folder.
        return;
    }
    let closed = closed_folder();
    let refused = Sandboxes::open(settings(&closed.path().join("below"))).expect_err("nobody may not enter");
    assert!(matches!(&refused, OpenError::Unreachable { blocked, .. } if *blocked == closed.path()), "{refused}");
}

fn closed_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).expect("is ours");
    folder
}
