use proptest::prelude::{ProptestConfig, any, proptest};

use super::{Command, JobFile, Resources, example_web};
use crate::JobKind;

/// The one place that calls the parser: a file and what a person sees of it.
fn check(text: &str, expected: &str) {
    let seen = match JobFile::parse(text, "web.toml") {
        Ok(job) => format!("{} {} {} {}", job.namespace, job.name, job.kind, job.instances),
        Err(errors) => errors.to_string(),
    };
    assert_eq!(seen, expected, "of {text}");
}

fn minimal(line: &str) -> String {
    format!("name = \"web\"\ncommand = [\"a\"]\n{line}\n")
}

#[test]
fn a_name_and_a_command_are_enough() {
    check("name = 'web'\ncommand = ['./web']", "default web service 1");
    let job = JobFile::parse("name = 'web'\ncommand = './web | tee log'", "f").expect("is right");
    assert_eq!(job.command, Command::Shell("./web | tee log".into()));
    assert_eq!(job.resources, Resources { cpus: 250, memory: 256 << 20, disk: 0 });
    assert_eq!(job.user, None);
}

#[test]
fn every_field_of_this_release_is_read() {
    let text = r#"
        name = "import"
        namespace = "shop"
        kind = "batch"
        instances = 1_000
        command = ["./import", "--day", "${DAY}"]
        user = "www-data"
        [environment]
        DAY = "monday"
        [resources]
        cpus = 1.5
        memory = "7.5G"
        disk = "1T"
    "#;
    let job = JobFile::parse(text, "f").expect("is right");
    let expected = JobFile {
        name: "import".into(),
        namespace: "shop".into(),
        kind: JobKind::Batch,
        instances: 1000,
        command: Command::Argv(vec!["./import".into(), "--day".into(), "${DAY}".into()]),
        environment: [("DAY".to_owned(), "monday".to_owned())].into(),
        user: Some("www-data".into()),
        resources: Resources { cpus: 1500, memory: 8_053_063_680, disk: 1 << 40 },
    };
    assert_eq!(job, expected);
    assert_eq!(job.problems(), Vec::<String>::new());
    let json = serde_json::to_string(&job).expect("is serialisable");
    assert_eq!(serde_json::from_str::<JobFile>(&json).expect("is what we wrote"), expected);
}

#[test]
fn all_mistakes_are_told_at_once_with_their_places() {
    check(
        "# the first hour\nname = \"web\"\ncommand = [\"./web\"]\ninstance = 3\n\n\n[resources]\n\nmemory = 64\n",
        "web.toml:4:1   unknown field `instance`; did you mean `instances`?\n\
         web.toml:9:10  memory = 64: the unit is missing; did you mean \"64M\"?\n\
         2 errors, nothing changed. All fields: rollcall help job-file",
    );
    check(
        "comand = 'x'",
        "web.toml:1:1  unknown field `comand`; did you mean `command`?\n\
         web.toml:1:1  `name` is missing\n\
         web.toml:1:1  `command` is missing\n\
         3 errors, nothing changed. All fields: rollcall help job-file",
    );
}

fn check_mistake(line: &str, expected: &str) {
    let expected = format!("web.toml:3:{expected}\n1 error, nothing changed. All fields: rollcall help job-file");
    check(&minimal(line), &expected);
}

#[test]
fn a_field_of_a_later_release_is_refused_by_name() {
    let fields = [
        "working_dir = '/srv'",
        "env_file = 'web.env'",
        "labels = { team = 'shop' }",
        "stop_signal = 'SIGTERM'",
        "stop_grace = '10s'",
        "at_most_one = false",
        "self_stop_after = '90s'",
        "lost_after = '60s'",
        "ports = { http = 'any' }",
        "restart = { policy = 'always' }",
        "place = { spread = 'zone' }",
        "update = { at_a_time = 1 }",
        "logs = { files = 5 }",
        "image = 'web:1.4'",
        "volumes = []",
        "secrets = {}",
        "schedule = '0 3 * * *'",
        "time_zone = 'Europe/Berlin'",
        "overlap = 'skip'",
        "missed = 'run-once'",
        "health = { http = '/' }",
        "priority = 50",
    ];
    for line in fields {
        let (field, _) = line.split_once(' ').expect("has a field");
        check_mistake(line, &format!("1  `{field}` is not yet supported"));
    }
    check_mistake("resources.pids = 5", "11  `resources.pids` is not yet supported");
    check_mistake("resources.cpu_limit = true", "11  `resources.cpu_limit` is not yet supported");
    check_mistake("kind = 'cron'", "8  kind = \"cron\" is not yet supported");
    check_mistake("kind = 'daemon'", "8  kind = \"daemon\" is not yet supported");
}

#[test]
fn each_mistake_says_what_to_write_instead() {
    let table = [
        ("zzz = 1", "1  unknown field `zzz`"),
        ("kind = 'bach'", "8  kind = \"bach\": unknown kind; did you mean \"batch\"?"),
        ("kind = 'x'", "8  kind = \"x\": unknown kind; kinds are \"service\" and \"batch\""),
        ("instances = 0", "13  instances = 0: must be 1 to 1000"),
        ("instances = -3", "13  instances = -3: must be 1 to 1000"),
        ("instances = 1001", "13  instances = 1001: must be 1 to 1000"),
        ("instances = '3'", "13  instances is a string; write a whole number"),
        ("namespace = 'a.b'", "13  namespace = \"a.b\": a name is 1 to 63 of a-z 0-9 - _, no dots, no dash first"),
        ("namespace = 7", "13  namespace is an integer; write a string: namespace = \"web\""),
        ("user = '../root'", "8  user = \"../root\": not the name of a user"),
        ("environment = { A = 1 }", "21  environment \"A\": the value must be a string; did you mean \"1\"?"),
        (
            "environment = { 'A=B' = 'x' }",
            "17  environment \"A=B\": a name is letters, digits and _, and starts with no digit",
        ),
        ("environment = 3", "15  environment must be a table: environment = { LOG_LEVEL = \"info\" }"),
        ("resources = 3", "13  resources must be a table: [resources]"),
        ("resources.memroy = 'x'", "11  unknown field `resources.memroy`; did you mean `memory`?"),
        (
            "resources.memory = '64MB'",
            "20  memory = \"64MB\": unknown unit `MB`; units are K, M, G, T (powers of 1024) and B",
        ),
        ("resources.memory = '0M'", "20  memory = 0B: must be 1B to 64T"),
        ("resources.disk = 1.5", "18  disk = 1.5: the unit is missing; did you mean \"1.5M\"?"),
        ("resources.cpus = 0", "18  cpus = 0: must be 0.001 to 1024"),
        (
            "resources.cpus = 0.0001",
            "18  cpus = 0.0001: not a number: `0.0001`; write digits with at most three decimals, like 0.25",
        ),
        ("resources.cpus = '1'", "18  cpus is a string; write a number: cpus = 0.25"),
    ];
    for (line, expected) in table {
        check_mistake(line, expected);
    }
}

#[test]
fn commands_that_cannot_run_are_refused() {
    let table = [
        ("[]", "command is empty; its first word is the program"),
        ("['']", "command is empty; its first word is the program"),
        ("' '", "command is empty"),
        ("7", "command is an integer; write a list of words, or a string for /bin/sh"),
        ("\"a\\u0000b\"", "command holds a NUL character"),
    ];
    for (command, expected) in table {
        let expected =
            format!("web.toml:2:11  {expected}\n1 error, nothing changed. All fields: rollcall help job-file");
        check(&format!("name = 'w'\ncommand = {command}"), &expected);
    }
}

#[test]
fn a_file_that_is_not_toml_is_told_where() {
    let errors = JobFile::parse("name = \"web\"\ncommand = [\n", "web.toml").expect_err("is not closed");
    assert!(errors.to_string().starts_with("web.toml:"), "{errors}");
    let errors = JobFile::parse("name = 'a'\nname = 'b'\ncommand = 'c'", "f").expect_err("has a name twice");
    assert_eq!((errors.errors[0].line, errors.errors[0].column), (2, 1), "{errors}");
    let long = format!("# {}", "x".repeat(super::JOB_FILE_BYTES_MAX));
    assert!(JobFile::parse(&long, "f").is_err());
}

#[test]
fn the_example_is_a_right_job() {
    check(example_web(), "default web service 3");
}

#[test]
fn a_job_that_came_as_json_obeys_the_same_rules() {
    let mut job = JobFile::parse(example_web(), "f").expect("is right");
    job.name = "A".into();
    job.instances = 0;
    job.environment.insert("1X".into(), String::new());
    job.resources.cpus = 0;
    assert_eq!(job.problems().len(), 4, "{:?}", job.problems());
    let odd = serde_json::from_str::<JobFile>(r#"{"name":"a","command":"b","ports":{}}"#);
    assert!(odd.expect_err("has an unknown field").to_string().contains("ports"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_text_is_too_odd_to_be_refused(text in any::<String>(), words in "([a-z]{1,9} ?[=.\\[\\]{}\"'] ?[0-9a-zA-Z\"']{0,5}\n?){0,20}") {
        for text in [text.clone(), words.clone(), format!("{}{text}", minimal("")), format!("{}{words}", minimal(""))] {
            if let Ok(job) = JobFile::parse(&text, "f") {
                assert_eq!(job.problems(), Vec::<String>::new(), "accepted with problems: {text}");
            }
        }
    }
}
