//! `logs`: what tasks wrote.

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::arguments::LogsArguments;
use crate::client::{Server, with_query};
use crate::failure::Failure;
use crate::names::Name;
use crate::output::print_bytes;
use crate::rows::task_name;
use crate::times::{clock, time_of};
use crate::verbs::waiting::{newest, tasks};

/// More tasks are not followed at a time.
const TASKS_FOLLOWED_MAX: usize = 64;
/// So many lines wait to be printed before their readers wait.
const LINES_WAITING_MAX: usize = 256;

pub async fn run(server: &Server, arguments: &LogsArguments) -> Result<(), Failure> {
    let name = Name::parse(&arguments.name)?;
    let mut rows = tasks(server, &name).await?.rows;
    if rows.is_empty() {
        return Err(Failure::missing(format!("no task of `{name}`; all there are: rollcall tasks")));
    }
    if name.attempt.is_none() {
        rows = newest(rows);
    }
    let names: Vec<String> = rows.iter().map(task_name).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let stream = match (arguments.out, arguments.err) {
        (true, _) => Some("out".to_owned()),
        (_, true) => Some("err".to_owned()),
        _ => None,
    };
    let path = |name: &str| {
        let follow = arguments.follow.then(|| "true".to_owned());
        let parameters = [("lines", Some(arguments.lines.to_string())), ("follow", follow), ("stream", stream.clone())];
        with_query(&format!("/v1/logs/{name}"), &parameters)
    };
    if arguments.follow {
        if names.len() > TASKS_FOLLOWED_MAX {
            let count = names.len();
            let most = format!("{name} has {count} tasks; at most {TASKS_FOLLOWED_MAX} are followed at a time");
            return Err(Failure::usage(format!("{most}. One of them: rollcall logs -f {}", names[0])));
        }
        let sources = names.iter().map(|name| (name.clone(), path(name))).collect();
        return follow(server, sources, width, arguments.raw).await;
    }
    for name in &names {
        let mut lines = server.lines(&path(name)).await?;
        while let Some(line) = lines.next().await? {
            print_bytes(&shown(name, width, &line, arguments.raw))?;
        }
    }
    Ok(())
}

/// Prints the lines of several tasks as they come, until all have ended or one cannot be read.
async fn follow(server: &Server, sources: Vec<(String, String)>, width: usize, raw: bool) -> Result<(), Failure> {
    let (sender, mut waiting) = mpsc::channel(LINES_WAITING_MAX);
    let mut readers = JoinSet::new();
    for (name, path) in sources {
        let (server, sender) = (server.clone(), sender.clone());
        readers.spawn(async move {
            let mut lines = server.lines(&path).await?;
            while let Some(line) = lines.next().await? {
                if sender.send(shown(&name, width, &line, raw)).await.is_err() {
                    break;
                }
            }
            Ok::<(), Failure>(())
        });
    }
    drop(sender);
    while let Some(line) = waiting.recv().await {
        print_bytes(&line)?;
    }
    while let Some(end) = readers.join_next().await {
        end.map_err(|error| Failure::work(format!("a reader of logs ended: {error}")))??;
    }
    Ok(())
}

/// One line for people: `web.0.1 out | 03:12:44.102  GET / 200`, with its end. Raw, it is what the task wrote byte for byte, and nothing for a
/// line that is none of the task's; for people, what is not UTF-8 is replaced.
fn shown(name: &str, width: usize, line: &[u8], raw: bool) -> Vec<u8> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let mut part = || parts.next().unwrap_or_default();
    let (stream, time, text) = (String::from_utf8_lossy(part()), String::from_utf8_lossy(part()), part());
    if raw {
        return if stream == "--" { Vec::new() } else { [text, b"\n"].concat() };
    }
    // A dash where the time is not known.
    let time = time_of(&serde_json::Value::String(time.into_owned()));
    let time = time.map(|time| format!("{}  ", clock(time))).unwrap_or_default();
    format!("{name:width$} {stream:>3} | {time}{}\n", String::from_utf8_lossy(text)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn lines_are_shown_with_task_output_and_time() {
        let table = [
            ("out 2026-07-01T03:12:44.102Z GET / 200", "web.0.1  out | 03:12:44.102  GET / 200", "GET / 200"),
            ("err - slow  client ", "web.0.1  err | slow  client ", "slow  client "),
            ("-- 2026-07-01T03:12:44.102Z exited 1", "web.0.1   -- | 03:12:44.102  exited 1", ""),
            ("out - ", "web.0.1  out | ", ""),
            ("out", "web.0.1  out | ", ""),
        ];
        for (line, for_people, raw) in table {
            assert_eq!(shown("web.0.1", 8, line.as_bytes(), false), format!("{for_people}\n").as_bytes());
            let raw = if line.starts_with("--") { String::new() } else { format!("{raw}\n") };
            assert_eq!(shown("web.0.1", 8, line.as_bytes(), true), raw.as_bytes());
        }
        assert_eq!(shown("web.0.1", 8, b"out - \xff \xfe", true), b"\xff \xfe\n");
    }
}
