//! Tests of rows as JSON.

use super::{JsonRow, JsonRows, ObjectWriter, Part, put_text, put_unsigned};
use crate::testing::{Colour, Everything, Notes, store_of};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::{Strategy, any, prop, prop_assert_eq, proptest};
use rollcall_schema::{Time, Unknown};
use rollcall_store::{Query, RowNumber, Version};
use rollcall_types::{
    AgentName, CauseCode, Event, Events, JobName, Namespace, SpecHash, Task, TaskState, Uid, UserName,
};
use serde_json::{Value as Json, json};

impl JsonRow for Everything {
    const EXTRA: &'static [(&'static str, &'static str)] = &[("name", "Text and count.")];

    fn put_extra(&self, object: &mut ObjectWriter<'_>) {
        object.text("name", &[Part::Text(&self.text), Part::Number(self.count)]);
    }
}

fn everything() -> impl Strategy<Value = Everything> {
    let notes = prop::collection::vec((any::<Option<String>>(), any::<Option<i64>>()), 0..3).prop_map(Notes);
    let micros = -62_167_219_200_000_000i64..253_402_207_200_000_000;
    let first = (any::<bool>(), any::<u64>(), any::<i64>(), micros.clone(), any::<bool>(), any::<u128>());
    let second = (
        any::<String>(),
        any::<Vec<u8>>(),
        notes,
        any::<Option<String>>(),
        any::<Option<u32>>(),
        prop::option::of(micros),
    );
    (first, second).prop_map(
        |((flag, count, balance, at, odd, id), (text, data, notes, maybe_text, maybe_count, maybe_at))| Everything {
            flag,
            count,
            balance,
            at: Time::from_micros(at),
            colour: if odd { Colour::Odd } else { Colour::Red },
            id,
            text,
            data,
            notes,
            maybe_text,
            maybe_count,
            maybe_at: maybe_at.map(Time::from_micros),
            unknown: Unknown::default(),
        },
    )
}

/// The same object, built by another library from the row itself.
fn expected(number: u64, changed: u64, row: &Everything) -> Json {
    let time = |time: Time| format!("{:.6}", jiff::Timestamp::from_microsecond(time.micros()).unwrap());
    let notes = row.notes.0.iter().map(|(text, number)| without_nulls(json!({"text": text, "number": number})));
    without_nulls(json!({
        "row": number, "version": changed, "name": format!("{}{}", row.text, row.count),
        "flag": row.flag, "count": row.count, "balance": row.balance, "at": time(row.at), "colour": row.colour.word(),
        "id": format!("{:032x}", row.id), "text": row.text, "data": STANDARD.encode(&row.data),
        "notes": notes.collect::<Vec<_>>(), "maybe_text": row.maybe_text, "maybe_count": row.maybe_count,
        "maybe_at": row.maybe_at.map(time),
    }))
}

fn without_nulls(mut object: Json) -> Json {
    object.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    object
}

proptest! {
    #[test]
    fn another_reader_reads_what_the_row_holds(row in everything(), number in any::<u64>(), changed in any::<u64>()) {
        let mut out = Vec::new();
        JsonRows::new().put_row(&mut out, RowNumber(number), Version(changed), &row);
        prop_assert_eq!(serde_json::from_slice::<Json>(&out).unwrap(), expected(number, changed, &row));
        prop_assert_eq!(out.contains(&b'\n'), false, "a row is one line");
    }

    #[test]
    fn every_text_and_number_is_what_another_writer_writes(text in any::<String>(), number in any::<u64>(), bits in 0..64) {
        let number = number >> bits;
        let mut out = Vec::new();
        put_text(&mut out, &text);
        put_unsigned(&mut out, number);
        let expected = format!("{}{number}", serde_json::to_string(&text).unwrap());
        prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn control_characters_quotes_and_backslashes_are_escaped() {
    for letter in (0..=0x2030).filter_map(char::from_u32) {
        let text = format!("a{letter}b{letter}");
        let mut out = Vec::new();
        put_text(&mut out, &text);
        assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
    }
}

#[test]
fn a_task_is_shown_as_the_documentation_shows_it() {
    let started = Time::from_micros(1_796_008_032_000_001);
    let event = |state, cause, detail| Event { at: started, detail, repeats: 0, state, cause };
    let task = Task {
        uid: Uid(255),
        namespace: Namespace::from("default"),
        job: JobName::from("web"),
        instance: 0,
        attempt: 3,
        spec: SpecHash(1 << 127),
        user: UserName::from("nobody"),
        agent: Some(AgentName::from("n1")),
        state: TaskState::Running,
        cause: None,
        cause_text: None,
        cpus_thousandths: 250,
        memory_bytes: 64 << 20,
        disk_bytes: 0,
        created: Time::EPOCH,
        started: Some(started),
        ended: None,
        pid: Some(4711),
        events: Events::default().with(event(TaskState::Failed, Some(CauseCode::ExitNonzero), 1)).with(event(
            TaskState::Running,
            None,
            0,
        )),
        unknown: Unknown::default(),
    };
    let mut out = Vec::new();
    JsonRows::new().put_row(&mut out, RowNumber(12), Version(1204), &task);
    let expected = concat!(
        r#"{"row":12,"version":1204,"task":"web.0.3","uid":"000000000000000000000000000000ff","namespace":"default","#,
        r#""job":"web","instance":0,"attempt":3,"spec":"80000000000000000000000000000000","user":"nobody","agent":"n1","#,
        r#""state":"running","cpus_thousandths":250,"memory_bytes":67108864,"disk_bytes":0,"#,
        r#""created":"1970-01-01T00:00:00.000000Z","started":"2026-11-30T03:07:12.000001Z","pid":4711,"#,
        r#""events":[{"at":"2026-11-30T03:07:12.000001Z","state":"failed","cause":"exit_nonzero","detail":1,"repeats":0},"#,
        r#"{"at":"2026-11-30T03:07:12.000001Z","state":"running","detail":0,"repeats":0}],"active":true,"section":"live"}"#,
    );
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with(r#"{"row":12,"version":1204,"task":"web.0.3","uid":"000"#), "{text}");
    // Columns of later versions may join these.
    let (found, expected): (Json, Json) =
        (serde_json::from_str(&text).unwrap(), serde_json::from_str(expected).unwrap());
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&found[name], value, "{name}");
    }
    for without in ["cause", "cause_text", "ended"] {
        assert!(found.get(without).is_none(), "{without} has no value and is left out");
    }
}

#[test]
fn a_page_is_spliced_from_what_was_encoded_before() {
    let row = |count: u64| Everything { count, text: format!("row {count}"), ..Everything::example() };
    let (store, mut writer) = store_of((0..300).map(row).collect());
    let encode = || {
        let snapshot = store.snapshot();
        let table = snapshot.table::<Everything>();
        let encoder = JsonRows::<Everything>::new();
        let rows = table.select(Query::all()).expect("all rows can be asked for");
        let pages = rows.whole_pages().expect("all rows are whole pages");
        let bytes: Vec<u8> = pages.flat_map(|page| table.encoded(page, &encoder).bytes.clone()).collect();
        serde_json::from_slice::<Vec<Json>>(&[b"[", &bytes[1..], b"]"].concat()).unwrap()
    };
    let first = encode();
    assert_eq!(first.len(), 300);
    let serialised = store.encoding_counts().rows_serialised;
    let mut batch = writer.begin(Time::from_micros(7));
    let number = RowNumber(first[5]["row"].as_u64().unwrap());
    batch.attempt(|change| change.update(number, row(1000))).unwrap();
    let prepared = batch.prepare().unwrap();
    writer.publish(prepared);
    let second = encode();
    assert_eq!(store.encoding_counts().rows_serialised, serialised + 1, "one row changed, so one row was serialised");
    for (position, (before, after)) in first.iter().zip(&second).enumerate() {
        if position == 5 {
            assert_eq!(
                (&after["count"], after["version"].as_u64()),
                (&json!(1000), Some(store.snapshot().version().0))
            );
        } else {
            assert_eq!(before, after);
        }
    }
}
