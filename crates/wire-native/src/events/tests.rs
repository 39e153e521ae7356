//! Tests of watching.

use super::{EventPosition, WatchRequest, put_compacted, put_event, put_position};
use crate::json::JsonRows;
use crate::testing::{Everything, store_of};
use rollcall_schema::{Row, TableSchema, Time};
use rollcall_store::{Compacted, RowNumber, Version, Watch, Writer};
use rollcall_types::{JobRow, Task};

fn tables() -> [&'static TableSchema; 2] {
    [Task::schema(), JobRow::schema()]
}

#[test]
fn positions_are_read_as_they_are_written() {
    for (text, expected) in [
        ("1204.3", Some((1204, Some(3)))),
        ("1204", Some((1204, None))),
        ("0.0", Some((0, Some(0)))),
        ("", None),
        (".", None),
        ("1.", None),
        (".1", None),
        ("+1", None),
        ("1.-1", None),
        ("1.2.3", None),
        (" 1", None),
        ("18446744073709551616", None),
    ] {
        let position = text.parse::<EventPosition>().ok();
        assert_eq!(position.map(|position| (position.version.0, position.index)), expected, "{text}");
        if let Some(position) = position {
            assert_eq!(position.to_string(), text);
        }
    }
}

#[test]
fn a_watch_is_asked_for_by_table_condition_and_position() {
    let position = |text: &str| text.parse::<EventPosition>().ok();
    for (query, header, table, from) in [
        ("", None, "tasks", None),
        ("table=jobs&where=stopped", None, "jobs", None),
        ("from=7", None, "tasks", position("7")),
        ("from=7", Some("9.1"), "tasks", position("9.1")),
    ] {
        let request = WatchRequest::parse(query, header, &tables()).expect(query);
        assert_eq!((request.schema.name, request.from), (table, from), "{query}");
    }
    for (query, header, message) in [
        ("table=job", None, "table: no table `job`; did you mean `jobs`?"),
        ("where=agnet=1", None, "where:1: no column `agnet`; did you mean `agent`?"),
        ("form=1", None, "no parameter `form`; did you mean `from`?"),
        (
            "from=x",
            None,
            "from: a position is a version, or a version, a dot and a number: the `id` of the last event that was seen",
        ),
        (
            "",
            Some(""),
            "Last-Event-ID: a position is a version, or a version, a dot and a number: the `id` of the last event that was seen",
        ),
    ] {
        let error = WatchRequest::parse(query, header, &tables()).expect_err(query);
        assert_eq!(error.message, message, "{query}");
    }
}

/// Three commits: two rows come; one changes, one goes; nothing that is watched for happens.
fn three_commits(writer: &mut Writer) {
    let row = |count| Everything { count, text: "a\nb".to_owned(), ..Everything::example() };
    let mut numbers = Vec::new();
    let commit = |writer: &mut Writer, step: u64, numbers: &mut Vec<RowNumber>| {
        let mut batch = writer.begin(Time::from_micros(step as i64 * 1_000_000));
        batch
            .attempt(|change| {
                if step == 2 {
                    numbers.extend([change.insert(row(10))?, change.insert(row(11))?]);
                    return Ok(());
                }
                if step == 3 {
                    change.update(numbers[0], row(12))?;
                    return change.delete::<Everything>(numbers[1]);
                }
                change.insert(row(1)).map(|_| ())
            })
            .expect("the rows fit");
        let prepared = batch.prepare().expect("something changed");
        writer.publish(prepared);
    };
    (2..5).for_each(|step| commit(writer, step, &mut numbers));
}

#[test]
fn resuming_behind_any_event_gives_the_rest_and_nothing_twice() {
    let (store, mut writer) = store_of(vec![Everything::example()]);
    let start = store.snapshot().version();
    three_commits(&mut writer);
    let encoder = JsonRows::<Everything>::new();
    let condition = crate::parse_where("count >= 10", Everything::schema()).expect("all is right");
    let read = |from: EventPosition| {
        let mut watch = Watch::new::<Everything>(&store, from.watch_from(), vec![condition.clone()]).expect("it fits");
        let events = watch.next(&store, None, 100).expect("it is held");
        let mut out = Vec::new();
        events.iter().filter(|event| from.is_before(event)).for_each(|event| put_event(&mut out, &encoder, event));
        put_position(&mut out, EventPosition::behind(watch.position()));
        String::from_utf8(out).expect("events are text")
    };
    let all = read(EventPosition { version: start, index: None });
    let blocks: Vec<&str> = all.split_inclusive("\n\n").collect();
    let heads: Vec<String> = blocks
        .iter()
        .map(|block| block.lines().filter(|line| !line.starts_with("data: ")).collect::<Vec<_>>().join(" "))
        .collect();
    let after = |versions: u64| start.0 + versions;
    assert_eq!(
        heads.iter().map(|head| head.trim_end()).collect::<Vec<_>>(),
        [
            format!("id: {}.0 event: came", after(1)),
            format!("id: {}.1 event: came", after(1)),
            format!("id: {}.0 event: changed", after(2)),
            format!("id: {}.1 event: went", after(2)),
            format!("id: {}", after(3)),
        ]
    );
    let data = blocks[2].lines().find_map(|line| line.strip_prefix("data: ")).expect("an event has data");
    let row: serde_json::Value = serde_json::from_str(data).expect("data is one line of JSON");
    assert_eq!((row["count"].as_u64(), row["text"].as_str()), (Some(12), Some("a\nb")));
    for (position, block) in blocks.iter().enumerate() {
        let id = block.lines().find_map(|line| line.strip_prefix("id: ")).expect("every block has an id");
        let rest = read(id.parse().expect("an id is a position"));
        // The last block says where the watcher is, so it comes again.
        let expected = if position + 1 == blocks.len() { (*block).to_owned() } else { blocks[position + 1..].concat() };
        assert_eq!(rest, expected, "resumed behind {id}");
    }
}

#[test]
fn a_watcher_that_is_too_late_is_told_to_read_again() {
    let mut out = Vec::new();
    put_compacted(&mut out, Compacted { position: Version(3), floor: Version(9) });
    assert_eq!(
        String::from_utf8(out).expect("events are text"),
        concat!(
            "event: compacted\n",
            r#"data: {"code":"compacted","message":"changes after version 3 are no longer held","#,
            r#""hint":"read the table again, and watch from the version of that answer"}"#,
            "\n\n"
        )
    );
}
