//! Tests of lists: from the query part of an address to the bytes of an answer.

use super::{Chunk, LIMIT_MAX, ListBody, ListRequest};
use crate::testing::{Everything, store_of};
use rollcall_schema::{Row, Time};
use rollcall_store::{AsOf, PAGE_ROWS_MAX, Store, Version};
use rollcall_types::Task;
use serde_json::{Value as Json, json};
use std::collections::HashSet;

fn row(count: u64) -> Everything {
    Everything { count, flag: count.is_multiple_of(3), text: format!("t{}", count % 7), ..Everything::example() }
}

fn ask(store: &Store, query: &str) -> Result<Json, String> {
    let request = ListRequest::parse(query, Everything::schema()).map_err(|error| error.message)?;
    let snapshot = request.snapshot(store).map_err(|error| error.message)?;
    let body = ListBody::<Everything>::new(snapshot, &request, None).map_err(|error| error.message)?;
    let bytes = body.into_bytes();
    Ok(serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes))))
}

fn counts(answer: &Json) -> Vec<u64> {
    answer["rows"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).collect()
}

#[test]
fn parameters_become_a_request_or_an_error_that_names_them() {
    for (query, message, hint) in [
        ("limit=0", "limit: '0' is not a number from 1 to 10000", "ask for one row or more"),
        (
            "limit=10001",
            "limit: '10001' is not a number from 1 to 10000",
            "ask for the first ones, then go on with `after` and the `next` of the answer; without limit all rows come",
        ),
        ("limit=-1", "limit: '-1' is not a number from 1 to 10000", "without limit all rows come"),
        ("sort=-startd", "sort: no column `startd`; did you mean `started`?", "columns of tasks: "),
        ("sort=events", "sort: `events` is a list and has no order", ""),
        ("where=agnet='n1'", "where:1: no column `agnet`; did you mean `agent`?", "columns of tasks: "),
        ("after=x", "after: this is no cursor; give back `next` of the answer before, as it came", ""),
        (
            "as_of=yesterday",
            "as_of: 'yesterday' is not a time; write it as '2026-11-30T03:07:12Z'",
            "give the number of a version, or a time in RFC 3339; in an address, write + as %2B",
        ),
        ("wher=active", "no parameter `wher`; did you mean `where`?", "parameters: where, sort, limit, after, as_of"),
    ] {
        let error = ListRequest::parse(query, Task::schema()).expect_err(query);
        assert_eq!((error.message.as_str(), error.status()), (message, 400), "{query}");
        assert!(error.hint.as_deref().unwrap_or_default().starts_with(hint), "{query}: {:?}", error.hint);
    }
    let request = ListRequest::parse("limit=10000&as_of=7&sort=-job", Task::schema()).expect("all is right");
    assert_eq!((request.limit, request.as_of), (Some(LIMIT_MAX), Some(AsOf::Version(Version(7)))));
    let request = ListRequest::parse("as_of=1970-01-01T01:00:00%2B01:00", Task::schema()).expect("a time");
    assert_eq!(request.as_of, Some(AsOf::Time(Time::EPOCH)));
}

#[test]
fn an_answer_has_version_time_rows_cursor_and_explanation() {
    let (store, _writer) = store_of((0..2).map(row).collect());
    let request = ListRequest::parse("where=text='t0'&limit=1", Everything::schema()).expect("all is right");
    let body = ListBody::<Everything>::new(store.snapshot(), &request, None).expect("it can be asked");
    let version = store.snapshot().version();
    let expected = format!(
        concat!(
            r#"{{"version":{version},"time":"1970-01-01T00:00:01.000000Z","rows":["#,
            "\n",
            r#"{{"row":{number},"version":{version},"name":"t00","flag":true,"count":0,"balance":-1,"#,
            r#""at":"1970-01-01T00:00:00.000000Z","colour":"red","id":"00000000000000000000000000000000","text":"t0","#,
            r#""data":"","notes":[]}}"#,
            "\n",
            r#"],"next":null,"read":{{"rows":1,"index":"text"}}}}"#,
            "\n"
        ),
        version = version,
        number = store.snapshot().table::<Everything>().select(request.query(None)).unwrap().next().unwrap().number.0
    );
    assert_eq!((body.rows(), body.next_cursor()), (1, None));
    assert_eq!(String::from_utf8(body.into_bytes()).unwrap(), expected);
    let none = ask(&store, "where=count=9").expect("it can be asked");
    assert_eq!(
        (&none["rows"], &none["next"], &none["read"]),
        (&json!([]), &Json::Null, &json!({"rows": 2, "index": null}))
    );
}

#[test]
fn a_whole_table_is_sent_as_shared_pages_and_reads_as_one_array() {
    for rows in [0, 1, PAGE_ROWS_MAX, 1000] {
        let (store, _writer) = store_of((0..=rows as u64).map(row).collect());
        let answer = ask(&store, "").expect("all rows can be asked for");
        assert_eq!(answer["rows"].as_array().unwrap().len(), rows + 1);
        assert_eq!(answer["read"], json!({"rows": rows + 1, "index": null}));
        let request = ListRequest::parse("", Everything::schema()).expect("nothing is asked");
        let body = ListBody::<Everything>::new(store.snapshot(), &request, None).expect("it can be asked");
        let own: usize = body.map(|chunk| if let Chunk::Own(bytes) = chunk { bytes.len() } else { 0 }).sum();
        assert!(own < 200, "{own} bytes of this answer alone");
        let serialised = store.encoding_counts().rows_serialised;
        assert_eq!(serialised, rows as u64 + 1, "the second answer serialised nothing");
    }
    let (store, mut writer) = store_of(vec![row(1)]);
    let mut batch = writer.begin(Time::from_micros(2_000_000));
    let number = rollcall_store::RowNumber(ask(&store, "").unwrap()["rows"][0]["row"].as_u64().unwrap());
    batch.attempt(|change| change.delete::<Everything>(number)).unwrap();
    let prepared = batch.prepare().unwrap();
    writer.publish(prepared);
    assert_eq!(ask(&store, "").unwrap()["rows"], json!([]));
}

#[test]
fn going_on_with_the_cursor_gives_every_row_once_in_order() {
    let (store, _writer) = store_of((0..500).map(row).collect());
    for parameters in
        ["", "sort=text", "sort=-text,count", "sort=-count", "where=flag", "where=not+flag&sort=-maybe_text,text"]
    {
        let whole = counts(&ask(&store, parameters).unwrap());
        let mut pages: Vec<u64> = Vec::new();
        let mut after = String::new();
        loop {
            let answer = ask(&store, &format!("{parameters}&limit=37{after}")).unwrap();
            assert!(counts(&answer).len() <= 37, "{parameters}");
            pages.extend(counts(&answer));
            let Some(next) = answer["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        let distinct: HashSet<_> = pages.iter().collect();
        assert_eq!(distinct.len(), pages.len(), "{parameters}");
        if parameters.is_empty() {
            // Rows in no certain order are all there all the same.
            assert_eq!(distinct, whole.iter().collect::<HashSet<_>>());
        } else {
            assert_eq!(pages, whole, "{parameters}");
        }
    }
    // A limit that is just met promises no more.
    assert_eq!(ask(&store, "limit=500").unwrap()["next"], Json::Null);
}

#[test]
fn the_past_is_answered_from_the_version_that_is_asked_for() {
    let (store, mut writer) = store_of((0..3).map(row).collect());
    let before = store.snapshot().version();
    let mut batch = writer.begin(Time::from_micros(2_000_000));
    batch.attempt(|change| change.insert(row(3))).unwrap();
    let prepared = batch.prepare().unwrap();
    writer.publish(prepared);
    let rows = |query: &str| ask(&store, query).map(|answer| (answer["version"].clone(), counts(&answer).len()));
    assert_eq!(rows(""), Ok((json!(before.0 + 1), 4)));
    assert_eq!(rows(&format!("as_of={before}")), Ok((json!(before.0), 3)));
    assert_eq!(rows("as_of=1970-01-01T00:00:01.5Z&limit=9"), Ok((json!(before.0), 3)));
    assert_eq!(rows("as_of=99"), Err("as_of: that has not happened yet".to_owned()));
    assert_eq!(rows("as_of=99999999999999999999999"), Err("as_of: that has not happened yet".to_owned()));
    // The version before anything happened is held too; there is nothing before the start of 1970 here.
    assert_eq!(rows("as_of=1969-01-01T00:00:00Z"), Err("as_of: that is no longer held".to_owned()));
}

#[test]
fn many_rows_that_are_no_pages_come_in_chunks() {
    let (store, _writer) = store_of((0..3000).map(row).collect());
    let request = ListRequest::parse("where=count>=0", Everything::schema()).expect("all is right");
    let chunks: Vec<_> =
        ListBody::<Everything>::new(store.snapshot(), &request, None).expect("it can be asked").collect();
    assert!(chunks.len() > 5, "{} chunks", chunks.len());
    assert!(chunks.iter().all(|chunk| !chunk.as_ref().is_empty() && chunk.as_ref().len() < 80 * 1024));
    let bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.as_ref()).copied().collect();
    let answer: Json = serde_json::from_slice(&bytes).expect("the chunks are one object");
    assert_eq!(counts(&answer), (0..3000).collect::<Vec<_>>());
}
