//! The doors do what the committed document says of them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::dev::{Dev, PATIENCE, folder};

const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");
const TYPE: &str = "content-type: application/json";

/// An answer with its head.
struct Answer {
    status: u16,
    head: Vec<String>,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// One request with these further lines of head. Of an answer without end, only the head is read.
fn ask(dev: &Dev, method: &str, path: &str, more: &[&str], body: &str) -> Answer {
    let mut stream = TcpStream::connect(&dev.address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("is a socket");
    let ours = [format!("{method} {path} HTTP/1.0"), format!("host: {}", dev.address)];
    let length = format!("content-length: {}", body.len());
    let lines = [&[&*ours[0], &*ours[1], &*length], more, &["", body]].concat();
    stream.write_all(lines.join("\r\n").as_bytes()).expect("takes a request");
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("answers");
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let status = head.first().and_then(|line| line.get(9..12)?.parse().ok()).expect("has a status");
    let mut body = Vec::new();
    if !head.iter().any(|line| line == "content-type: text/event-stream") {
        reader.read_to_end(&mut body).expect("is whole");
    }
    Answer { status, head, body }
}

/// What of a value is not as its schema says. Knows what our document uses, and refuses a schema with anything else.
fn problems(document: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut wrong = |what: String| found.push(format!("{place}: {what}"));
    let mut inner = Vec::new();
    for (word, rule) in schema.as_object().expect("a schema is an object") {
        match word.as_str() {
            "$ref" => {
                let pointer = rule.as_str().and_then(|text| text.strip_prefix('#')).expect("is in this document");
                let schema = document.pointer(pointer).expect("is in this document");
                inner.extend(problems(document, schema, value, place));
            }
            "type" => {
                let types: Vec<&Value> = rule.as_array().map_or_else(|| vec![rule], |types| types.iter().collect());
                if !types.iter().any(|name| is_of(value, name.as_str().unwrap_or_default())) {
                    wrong(format!("{value} is no {rule}"));
                }
            }
            "enum" if !rule.as_array().expect("is a list").contains(value) => {
                wrong(format!("{value} is none of {rule}"))
            }
            "minimum" if value.as_i64() < rule.as_i64() => wrong(format!("{value} is less than {rule}")),
            "pattern"
                if value
                    .as_str()
                    .is_none_or(|text| text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit())) =>
            {
                assert_eq!(rule, "^[0-9a-f]{32}$", "the only one in answers");
                wrong(format!("{value} is no identifier"));
            }
            "required" => {
                for name in rule.as_array().expect("is a list").iter().filter_map(Value::as_str) {
                    if value.get(name).is_none() {
                        wrong(format!("has no {name}"));
                    }
                }
            }
            "properties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    match rule.get(name) {
                        Some(schema) => inner.extend(problems(document, schema, field, &format!("{place}.{name}"))),
                        None => wrong(format!("has {name}, which is not described")),
                    }
                }
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    inner.extend(problems(document, rule, item, &format!("{place}[]")));
                }
            }
            "enum" | "minimum" | "pattern" | "description" | "format" | "contentEncoding" => {}
            other => panic!("{place}: the test does not know `{other}`"),
        }
    }
    found.extend(inner);
    found
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("no type {other}"),
    }
}

/// The described path that a path of a request belongs to.
fn described<'d>(document: &'d Value, path: &str) -> &'d str {
    let bare = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = bare.split('/').collect();
    let paths = document["paths"].as_object().expect("has paths");
    let fits = |described: &&String| {
        let wanted: Vec<&str> = described.split('/').collect();
        let same = |(wanted, part): (&&str, &&str)| wanted == part || wanted.starts_with('{');
        wanted.len() == parts.len() && wanted.iter().zip(&parts).all(same)
    };
    paths.keys().find(fits).unwrap_or_else(|| panic!("{path} is not described"))
}

/// Asks, and holds the answer against the document; gives which operation and status it was.
fn check(dev: &Dev, document: &Value, (method, path, more, body): (&str, &str, &[&str], &str)) -> (String, u16) {
    let answer = ask(dev, method, path, more, body);
    let status = answer.status;
    let operation = &document["paths"][described(document, path)][method.to_lowercase()];
    let response = &operation["responses"][status.to_string()];
    assert!(response.is_object(), "{method} {path} answers {status}, which is not described");
    if let Some(content) = response["content"].as_object() {
        let (content_type, media) = content.iter().next().expect("has a type");
        let told = answer.header("content-type").unwrap_or_default();
        assert_eq!(told.split(';').next(), Some(content_type.as_str()), "{method} {path} {status}");
        if content_type == "application/json" {
            let value: Value = serde_json::from_slice(&answer.body).expect("is JSON");
            let wrong = problems(document, &media["schema"], &value, "answer");
            assert!(path.ends_with("openapi.json") || wrong.is_empty(), "{method} {path} {status}: {wrong:?}");
            if status >= 400 {
                let code = value["code"].as_str().expect("has a code");
                let codes = response["description"].as_str().expect("has a description");
                assert!(codes.contains(&format!("`{code}`")), "{method} {path} {status}: {code} is not in {codes}");
            }
        }
    } else {
        assert!(answer.body.is_empty(), "{method} {path} {status}");
    }
    (operation["operationId"].as_str().expect("has a name").to_owned(), status)
}

#[test]
fn every_door_answers_as_the_document_says() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let served = ask(&dev, "GET", "/v1/openapi.json", &[], "");
    assert!(served.body == DOCUMENT.as_bytes(), "the server says what is committed");
    let document: Value = serde_json::from_str(DOCUMENT).expect("is JSON");
    let (code, _, err) = dev.run("name = \"web\"\ncommand = \"echo hello; exec sleep 1000\"\n", &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    let job = r#"{"name":"import","kind":"batch","command":["false"]}"#;
    let foreign: &[&str] = &["origin: http://evil.example"];
    let requests: &[(&str, &str, &[&str], &str)] = &[
        ("GET", "/v1/tasks", &[], ""),
        ("GET", "/v1/tasks?where=job%3D%27web%27&sort=-started&limit=1&as_of=1", &[], ""),
        ("GET", "/v1/tasks?where=jb%3D1", &[], ""),
        ("GET", "/v1/tasks?where=%28", &[], ""),
        ("GET", "/v1/tasks?sort=", &[], ""),
        ("GET", "/v1/tasks?limit=0", &[], ""),
        ("GET", "/v1/tasks?after=x", &[], ""),
        ("GET", "/v1/tasks?as_of=99999999", &[], ""),
        ("GET", "/v1/tasks?as_of=x", &[], ""),
        ("GET", "/v1/tasks?like=x", &[], ""),
        ("GET", "/v1/tasks", &["if-none-match: *"], ""),
        ("GET", "/v1/tasks", foreign, ""),
        ("GET", "/v1/jobs", &[], ""),
        ("GET", "/v1/agents", &[], ""),
        ("GET", "/v1/specs", &[], ""),
        ("POST", "/v1/jobs", &[TYPE], job),
        ("POST", "/v1/jobs", &[TYPE], job),
        ("POST", "/v1/jobs", &[TYPE], r#"{"name":"import"}"#),
        ("POST", "/v1/jobs", &[], job),
        ("POST", "/v1/jobs", &[TYPE, foreign[0]], job),
        ("POST", "/v1/jobs/default/web/stop?instance=0", &[TYPE], "{}"),
        ("POST", "/v1/jobs/default/web/stop?instance=x", &[TYPE], "{}"),
        ("POST", "/v1/jobs/default/web/stop?instance=7", &[TYPE], "{}"),
        ("POST", "/v1/jobs/default/nothing/stop", &[TYPE], "{}"),
        ("GET", "/v1/logs/web.0.1?lines=5&stream=out", &[], ""),
        ("GET", "/v1/logs/web.0.1?lines=x", &[], ""),
        ("GET", "/v1/logs/web.0.9", &[], ""),
        ("GET", "/v1/watch", &[], ""),
        ("GET", "/v1/watch?table=agents&where=agent%3D%27n1%27", &[], ""),
        ("GET", "/v1/watch?table=agnets", &[], ""),
        ("GET", "/v1/watch?from=99999999", &[], ""),
        ("GET", "/v1/version", &[], ""),
        ("GET", "/v1/version", foreign, ""),
        ("GET", "/v1/openapi.json", &[], ""),
        ("GET", "/metrics", &[], ""),
    ];
    let seen: BTreeSet<(String, u16)> = requests.iter().map(|request| check(&dev, &document, *request)).collect();
    let big = format!(r#"{{"name":"big","command":"true","environment":{{"A":"{}"}}}}"#, "x".repeat(600 << 10));
    assert_eq!(check(&dev, &document, ("POST", "/v1/jobs", &[TYPE], &big)), ("submit_job".into(), 413));
    let long = format!("/v1/tasks?where={}", "x".repeat(40 << 10));
    assert_eq!(check(&dev, &document, ("GET", &long, &[], "")), ("list_tasks".into(), 414));
    let paths = document["paths"].as_object().expect("has paths").values();
    let operations = paths.flat_map(|path| path.as_object().expect("has methods").values());
    for operation in operations {
        let id = operation["operationId"].as_str().expect("has a name");
        assert!(seen.contains(&(id.to_owned(), 200)), "no test asks {id}");
    }
    assert!(seen.contains(&("list_tasks".into(), 304)), "{seen:?}");
}

#[test]
fn what_was_not_changed_is_not_sent_again() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let tag = |path: &str| ask(&dev, "GET", path, &[], "").header("etag").expect("rows have a tag").to_owned();
    let asked_again = |path: &str, tag: &str| {
        let answer = ask(&dev, "GET", path, &[&format!("if-none-match: \"other\", {tag}")], "");
        (answer.status, answer.body.is_empty(), answer.header("etag").map(str::to_owned))
    };
    let (agents, jobs) = (tag("/v1/agents"), tag("/v1/jobs?limit=5"));
    assert_eq!(asked_again("/v1/agents", &agents), (304, true, Some(agents.clone())));
    assert_eq!(asked_again("/v1/agents?limit=1", &agents).0, 200, "another question");
    // Tasks come and go; agents do not change by that, and jobs do.
    let (code, out, _) = dev.run("name = \"import\"\nkind = \"batch\"\ncommand = \"true\"\n", &[]);
    assert_eq!(code, 0, "{out}");
    assert_eq!(asked_again("/v1/agents", &agents).0, 304);
    let (status, is_empty, newer) = asked_again("/v1/jobs?limit=5", &jobs);
    assert!(status == 200 && !is_empty && newer.as_ref() != Some(&jobs));
    let condition = "/v1/tasks?where=job%3D%27import%27";
    let tasks = tag(condition);
    assert_eq!(asked_again("/v1/tasks?where=(job%20=%20%27import%27)", &tasks).0, 304, "the same question");
    // As of a version between which and now nothing of the table changed, the rows are the same.
    let newest: Value = serde_json::from_slice(&ask(&dev, "GET", condition, &[], "").body).expect("is JSON");
    assert_eq!(asked_again(&format!("{condition}&as_of={}", newest["version"]), &tasks).0, 304);
    assert_eq!(asked_again(&format!("{condition}&as_of=1"), &tasks).0, 200);
    assert_eq!(json!(newest["rows"][0]["state"]), "finished");
}
