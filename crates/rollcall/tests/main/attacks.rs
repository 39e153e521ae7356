//! What comes to the door and is no honest request. Each gets one clear error of the one shape, changes nothing, and takes nobody's place.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::dev::{Dev, PATIENCE, folder};
use crate::talk::{Connection, encoded};

/// So many connections at a time, which is less than half of what a test may open on most systems.
const CONNECTIONS: usize = 400;

/// Sends bytes as they are, `HOST` replaced, and says that no more come when `ends`; gives the status, the code and the message of the answer.
fn send(dev: &Dev, bytes: &[u8], ends: bool) -> (u16, String, String) {
    let mut connection = Connection::open(&dev.address).expect("the server listens");
    connection.send(bytes).expect("is taken");
    if ends {
        connection.stream().get_ref().shutdown(Shutdown::Write).expect("is open");
    }
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
    let (status, headers) = connection.head().unwrap_or_else(|error| panic!("{shown:?}: {error}"));
    assert!(headers.contains(&"content-type: application/json".to_owned()), "{shown:?}: {status} {headers:?}");
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: ")).expect("has a length");
    let mut body = vec![0; length.parse().expect("is a length")];
    connection.stream().read_exact(&mut body).unwrap_or_else(|error| panic!("{shown:?}: {error}"));
    let error: Value = serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{shown:?}: {body:?}"));
    let text =
        |name: &str| error[name].as_str().unwrap_or_else(|| panic!("{shown:?}: no {name} in {error}")).to_owned();
    (status, text("code"), text("message"))
}

/// Asks with a good head, and gives the status and code.
fn refused(dev: &Dev, line: &str, rest: &str) -> (u16, String) {
    let request = format!("{line} HTTP/1.1\r\nhost: {}\r\n{rest}\r\n", dev.address);
    let (status, code, _) = send(dev, request.as_bytes(), false);
    (status, code)
}

fn version(dev: &Dev) -> u64 {
    let (status, body) = dev.ask("GET /v1/tasks?limit=1", "");
    assert_eq!(status, 200);
    serde_json::from_slice::<Value>(&body).expect("is JSON")["version"].as_u64().expect("has a version")
}

#[test]
fn what_is_no_whole_request_of_http_1_1_is_refused_in_the_one_shape() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let before = version(&dev);
    let host = format!("host: {}\r\n", dev.address);
    let post = format!("POST /v1/jobs HTTP/1.1\r\n{host}content-type: application/json\r\n");
    let many = "x: y\r\n".repeat(100);
    let long = "x".repeat(200 << 10);
    let job = r#"{"name":"evil","command":"true"}"#;
    for (bytes, ends, status, code) in [
        ("\0\u{1}\u{2}\r\n\r\n".to_owned(), false, 400, "bad_request"),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{fc}\u{3}\u{3}\r\n\r\n".to_owned(), false, 400, "bad_request"),
        ("GET /v1/tasks\r\n\r\n".to_owned(), false, 400, "bad_request"),
        (format!("GET /v1/tasks HTTP/3.0\r\n{host}\r\n"), false, 400, "bad_request"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), false, 400, "bad_request"),
        (format!("GET /v1/tasks HTTP/1.1\r\n{host}bad header\r\n\r\n"), false, 400, "bad_request"),
        (format!("GET /v1/tasks HTTP/1.1\r\n{host}a: \u{7}\r\n\r\n"), false, 400, "bad_request"),
        (format!("GET  /v1/tasks HTTP/1.1\r\n{host}\r\n"), false, 400, "bad_request"),
        (format!("GET /v1/ta sks HTTP/1.1\r\n{host}\r\n"), false, 400, "bad_request"),
        (format!("GET /v1/tasks HTTP/1.1\r\n{host}"), true, 400, "bad_request"),
        ("GET /v1/ta".to_owned(), true, 400, "bad_request"),
        (format!("GET /v1/tasks HTTP/1.1\r\n{host}{many}\r\n"), false, 431, "headers_too_large"),
        (format!("GET /v1/tasks HTTP/1.1\r\n{host}x: {long}\r\n\r\n"), false, 431, "headers_too_large"),
        (format!("GET /v1/{long} HTTP/1.1\r\n{host}\r\n"), false, 431, "headers_too_large"),
        (format!("{post}content-length: x\r\n\r\n{job}"), false, 400, "bad_request"),
        (format!("{post}content-length: -1\r\n\r\n{job}"), false, 400, "bad_request"),
        (format!("{post}content-length: 3\r\ncontent-length: 4\r\n\r\n{job}"), false, 400, "bad_request"),
        (format!("{post}transfer-encoding: gzip\r\n\r\n{job}"), false, 400, "bad_request"),
        (format!("{post}content-length: 99\r\n\r\n{job}"), true, 400, "bad_body"),
        (format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n{job}\r\n"), false, 400, "bad_body"),
        (format!("{post}transfer-encoding: chunked\r\n\r\n-1\r\n{job}\r\n"), false, 400, "bad_body"),
        (format!("{post}transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n{job}\r\n"), false, 400, "bad_body"),
        (format!("{post}transfer-encoding: chunked\r\n\r\n5\r\n{job}\r\n"), false, 400, "bad_body"),
        (format!("{post}transfer-encoding: chunked\r\n\r\n20\r\n{job}\r\n"), true, 400, "bad_body"),
        (format!("{post}content-length: 600000\r\n\r\n{}", "x".repeat(600_000)), false, 413, "too_large"),
        (
            format!("{post}transfer-encoding: chunked\r\n\r\n927c0\r\n{}\r\n0\r\n\r\n", "x".repeat(600_000)),
            false,
            413,
            "too_large",
        ),
        (format!("{post}content-length: 99999999999999999999\r\n\r\n{job}"), false, 400, "bad_request"),
        (format!("{post}content-length: 4\r\n\r\nnull"), false, 400, "bad_body"),
        (format!("{post}content-length: 6\r\n\r\n[[[[[["), false, 400, "bad_body"),
        (format!("{post}content-length: 20000\r\n\r\n{}", "[".repeat(20_000)), false, 400, "bad_body"),
    ] {
        let (seen, seen_code, message) = send(&dev, bytes.as_bytes(), ends);
        assert_eq!((seen, seen_code.as_str()), (status, code), "{:?}: {message}", &bytes[..bytes.len().min(200)]);
        assert!(message.len() < 400 && !message.is_empty(), "{message}");
    }
    let bad = [format!("{post}content-length: 4\r\n\r\n").into_bytes(), vec![b'"', 0xff, 0xfe, b'"']].concat();
    assert_eq!(send(&dev, &bad, false).1, "bad_body");
    let bad = [b"GET /v1/tasks?where=\xff HTTP/1.1\r\n".to_vec(), host.into_bytes(), b"\r\n".to_vec()].concat();
    assert_eq!(send(&dev, &bad, false).0, 400);
    assert_eq!(version(&dev), before, "nothing was changed");
}

#[test]
fn addresses_methods_and_parameters_that_mean_nothing_are_refused_in_the_one_shape() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let before = version(&dev);
    let port = dev.address.rsplit_once(':').expect("has a port").1.to_owned();
    let json = "content-type: application/json\r\ncontent-length: 0\r\n";
    for (line, rest, status, code) in [
        ("GET /v1/../metrics", "", 404, "no_such_path"),
        ("GET /v1/%2e%2e/metrics", "", 404, "no_such_path"),
        ("GET /v1//tasks", "", 404, "no_such_path"),
        ("GET //v1/tasks", "", 404, "no_such_path"),
        ("GET /v1/tasks/", "", 404, "no_such_path"),
        ("GET /v1%2ftasks", "", 404, "no_such_path"),
        ("GET /V1/tasks", "", 404, "no_such_path"),
        ("GET /v1/tasks%00", "", 404, "no_such_path"),
        ("GET /v1/logs/..%2f..%2fetc%2fpasswd", "", 400, "bad_parameter"),
        ("GET /v1/logs/../../etc/passwd", "", 400, "bad_parameter"),
        ("GET /v1/logs/%ff.0.1", "", 400, "bad_request"),
        ("GET /v1/logs/web.0.99999999999", "", 400, "bad_parameter"),
        ("GET /v1/logs/web.0.1", "", 404, "no_such_thing"),
        ("POST /v1/jobs/%ff/x/stop", json, 400, "bad_request"),
        ("POST /v1/jobs/a%2fb/x/stop", json, 404, "no_such_thing"),
        ("POST /v1/jobs/default/../stop", json, 404, "no_such_thing"),
        ("POST /v1/jobs//x/stop", json, 404, "no_such_thing"),
        ("POST /v1/jobs/default/x/stop?instance=-1", json, 400, "bad_parameter"),
        ("DELETE /v1/tasks", json, 405, "wrong_method"),
        ("PUT /v1/jobs", json, 405, "wrong_method"),
        ("OPTIONS /v1/tasks", json, 405, "wrong_method"),
        ("TRACE /v1/tasks", json, 405, "wrong_method"),
        ("BREW /v1/tasks", json, 405, "wrong_method"),
        ("OPTIONS /v1/tasks", "", 405, "wrong_method"),
        ("OPTIONS *", "", 404, "no_such_path"),
        ("CONNECT 127.0.0.1:1", "", 403, "foreign_origin"),
        ("GET http://evil.example/v1/tasks", "", 403, "foreign_origin"),
        ("GET http://evil.example@127.0.0.1/v1/tasks", "", 403, "foreign_origin"),
        ("GET /v1/tasks", "origin: http://evil.example\r\n", 403, "foreign_origin"),
        ("GET /v1/tasks", "host: evil.example\r\n", 403, "foreign_origin"),
        ("GET /v1/tasks?limit=0", "", 400, "bad_limit"),
        ("GET /v1/tasks?limit=99999999999999999999", "", 400, "bad_limit"),
        ("GET /v1/tasks?limit=1&limit=1", "", 400, "bad_parameter"),
        ("GET /v1/tasks?after=AQ", "", 400, "bad_cursor"),
        ("GET /v1/tasks?as_of=99999999", "", 400, "not_yet"),
        ("GET /v1/tasks?as_of=99999999999999999999999", "", 400, "not_yet"),
        ("GET /v1/tasks?as_of=1900-01-01T00:00:00Z", "", 410, "too_old"),
        ("GET /v1/tasks?as_of=-1", "", 400, "bad_as_of"),
        ("GET /v1/tasks?where=%zz", "", 400, "bad_parameter"),
        ("GET /v1/tasks?where=%ff", "", 400, "bad_parameter"),
        ("GET /v1/watch?table=nothing", "", 404, "no_such_table"),
        ("GET /v1/watch?from=99999999", "", 400, "not_yet"),
        ("GET /v1/watch?from=99999999.1", "", 400, "not_yet"),
        ("GET /v1/watch", "last-event-id: x\r\n", 400, "bad_parameter"),
        ("GET /v1/watch", "last-event-id: \u{fc}\r\n", 400, "bad_parameter"),
        ("GET /v1/watch", "last-event-id: 1\r\nlast-event-id: 2\r\n", 400, "bad_parameter"),
        ("GET /v1/watch?where=agnet%3D1", "", 400, "no_such_column"),
    ] {
        assert_eq!(refused(&dev, line, rest), (status, code.to_owned()), "{line} {rest}");
    }
    for (condition, status, code) in [
        ("(".repeat(5000), 400, "bad_where"),
        ("not ".repeat(2000) + "active", 400, "bad_where"),
        (vec!["active"; 1000].join(" or "), 400, "bad_where"),
        (format!("job in ({})", vec!["'a'"; 2500].join(",")), 400, "bad_where"),
        (format!("job = '{}'", "a".repeat(9000)), 400, "bad_where"),
        ("a".repeat(20_000), 414, "query_too_long"),
        ("job = '\u{0}'' or 1 = 1 --".to_owned(), 400, "bad_where"),
    ] {
        let line = format!("GET /v1/tasks?where={}", encoded(&condition));
        assert_eq!(refused(&dev, &line, ""), (status, code.to_owned()), "{}", &condition[..condition.len().min(60)]);
    }
    // By whatever of its own names it is asked, it answers.
    let line = format!("GET http://localhost:{port}/v1/tasks HTTP/1.1\r\nhost: localhost:{port}\r\n\r\n");
    let mut connection = Connection::open(&dev.address).expect("the server listens");
    connection.send(line.as_bytes()).expect("is taken");
    assert_eq!(connection.answer().expect("is answered").0, 200);
    assert_eq!(version(&dev), before, "nothing was changed");
}

#[test]
fn a_cursor_is_good_for_its_own_table_and_query_only() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    for name in ["a", "b"] {
        let job = format!(r#"{{"name":"{name}","command":"true","resources":{{"memory":70368744177664}}}}"#);
        assert_eq!(dev.ask("POST /v1/jobs\ncontent-type: application/json", &job).0, 200);
    }
    let (_, body) = dev.ask("GET /v1/jobs?limit=1", "");
    let answer: Value = serde_json::from_slice(&body).expect("is JSON");
    let cursor = answer["next"].as_str().expect("there are more");
    assert_eq!(dev.ask(&format!("GET /v1/jobs?limit=1&after={cursor}"), "").0, 200);
    for line in [
        format!("GET /v1/tasks?limit=1&after={cursor}"),
        format!("GET /v1/jobs?limit=1&sort=job&after={cursor}"),
        format!("GET /v1/jobs?limit=1&where=stopped&after={cursor}"),
        format!("GET /v1/jobs?limit=1&after={cursor}A"),
    ] {
        assert_eq!(refused(&dev, &line, ""), (400, "bad_cursor".to_owned()), "{line}");
    }
}

#[test]
fn requests_that_come_together_are_answered_in_their_order_and_heads_alone_have_no_body() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let mut connection = Connection::open(&dev.address).expect("the server listens");
    let host = format!("host: {}\r\n", dev.address);
    let one = |line: &str| format!("{line} HTTP/1.1\r\n{host}\r\n");
    let many: String = (0..200).map(|number| one(&format!("GET /v1/nothing-{number}"))).collect();
    let all = format!("{many}{}{}GARBAGE\r\n\r\n", one("HEAD /v1/tasks"), one("GET /v1/tasks"));
    // Cut at odd places: where a request ends is not where a packet does.
    for piece in all.as_bytes().chunks(777) {
        connection.send(piece).expect("is taken");
    }
    for number in 0..200 {
        let (status, body) = connection.answer().expect("is answered");
        assert_eq!(status, 404);
        assert!(String::from_utf8_lossy(&body).contains(&format!("/v1/nothing-{number}\"")), "{number}");
    }
    let (status, headers) = connection.head().expect("is answered");
    assert_eq!((status, headers.iter().any(|line| line.starts_with("content-length: "))), (200, true), "{headers:?}");
    assert_eq!(connection.answer().expect("is answered").0, 200);
    let (status, body) = connection.answer().expect("is answered");
    assert_eq!((status, body.starts_with(b"{\"code\":\"bad_request\"")), (400, true));
    assert_eq!(connection.stream().read(&mut [0]).expect("is closed cleanly"), 0);
}

#[test]
fn crowds_that_ask_nothing_end_nothing_and_take_nothing_disturb_nobody() {
    let folder = folder();
    let dev = Dev::start(folder.path());
    let memory_before = memory_of(dev.pid());
    let open = || TcpStream::connect(&dev.address).expect("the server listens");
    let host = format!("host: {}\r\n", dev.address);
    let mut crowd: Vec<TcpStream> = Vec::new();
    for number in 0..CONNECTIONS {
        let mut stream = open();
        let said = match number % 4 {
            0 => String::new(),
            1 => format!("GET /v1/tasks HTTP/1.1\r\n{host}x: "),
            2 => format!(
                "POST /v1/jobs HTTP/1.1\r\n{host}content-type: application/json\r\ncontent-length: 400000\r\n\r\n{{"
            ),
            _ => format!("GET /v1/watch?where=active%20or%20not%20active HTTP/1.1\r\n{host}\r\n"),
        };
        stream.write_all(said.as_bytes()).expect("is taken");
        crowd.push(stream);
    }
    // Changes that the watchers among them do not take.
    let mut connection = Connection::open(&dev.address).expect("the server listens");
    let mut slowest = Duration::ZERO;
    for number in 0..40 {
        let begun = Instant::now();
        let job = format!(
            r#"{{"name":"job-{number}","command":"true","instances":100,"resources":{{"memory":70368744177664}}}}"#
        );
        assert_eq!(connection.ask("POST /v1/jobs", &job).expect("is answered").0, 200);
        assert_eq!(connection.ask("GET /v1/tasks?limit=10", "").expect("is answered").0, 200);
        slowest = slowest.max(begun.elapsed());
    }
    let memory = memory_of(dev.pid());
    println!("{CONNECTIONS} connections: slowest answer {slowest:.0?}, memory {memory_before} KiB, then {memory} KiB");
    assert!(slowest < PATIENCE / 10, "{slowest:?}");
    assert!(memory < memory_before + (200 << 10), "{memory} KiB");
    drop(crowd);
    assert!(dev.interrupt().success(), "it ends whoever is connected");
}

/// Memory that a process has, in KiB.
fn memory_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("has memory");
    line.trim().trim_end_matches(" kB").trim().parse().expect("is a number")
}
