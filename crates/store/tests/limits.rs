//! Limits of commands, append tables and their bound, blobs and their counts, keys and their length.

use crate::generator::with_seeds;
use crate::rows::{Event, File, Item, Link, Sighting, Word};
use crate::world::{Failed, SMALL, World, all_tables, blob};
use rollcall_schema::{BlobReference, Row, Time, Unknown};
use rollcall_store::{ChangeError, Prepared, Query, RowNumber, Snapshot, Store, StoreLimits, Writer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn link(weight: u64) -> Link {
    Link { from: 1, to: 1, weight, unknown: Unknown::default() }
}

fn event(at: i64, source: u32, text: String) -> Event {
    Event { source, at: Time::from_micros(at), text, unknown: Unknown::default() }
}

#[test]
fn one_command_changes_at_most_so_many_rows() {
    let mut world = World::new(StoreLimits { command_rows_max: 10, ..StoreLimits::default() });
    let mut batch = world.writer.begin(Time::EPOCH);
    let insert = |count: u64| {
        move |change: &mut rollcall_store::Transaction<'_>| {
            (0..count).map(|weight| change.insert(link(weight))).collect::<Result<Vec<_>, _>>()
        }
    };
    let number = RowNumber(11);
    assert_eq!(batch.attempt(insert(11)), Err(ChangeError::TooManyRows { table: "links", number, rows_max: 10 }));
    // The limit is each command's own.
    assert_eq!(batch.attempt(insert(10)).unwrap().len(), 10);
    assert_eq!(batch.attempt(insert(10)).unwrap()[0], RowNumber(11));
    let prepared = batch.prepare().unwrap();
    assert_eq!(prepared.snapshot().table::<Link>().len(), 20);
}

#[test]
fn one_command_writes_at_most_so_many_bytes() {
    let mut world = World::new(StoreLimits { command_bytes_max: 50_000, ..StoreLimits::default() });
    let mut batch = world.writer.begin(Time::EPOCH);
    let item = |name: &str| Item { payload: vec![0; 24_000], ..Item::named(name) };
    let two = batch.attempt(|change| change.insert(item("a")).and_then(|_| change.insert(item("b"))));
    assert!(two.is_ok());
    let three = batch.attempt(|change| ["c", "d", "e"].iter().try_for_each(|name| change.insert(item(name)).map(drop)));
    assert_eq!(three, Err(ChangeError::TooManyBytes { table: "items", bytes_max: 50_000 }));
    let large = batch.attempt(|change| change.insert(Item { payload: vec![0; 50_000], ..Item::named("large") }));
    assert_eq!(large, Err(ChangeError::TooManyBytes { table: "items", bytes_max: 50_000 }));
    assert_eq!(batch.prepare().unwrap().snapshot().table::<Item>().len(), 2);
}

#[test]
fn a_key_that_is_too_long_is_refused_wherever_it_stands() {
    let (_, mut writer) = all_tables(StoreLimits::default()).table::<Word>().build();
    let mut batch = writer.begin(Time::EPOCH);
    let long = "x".repeat(4090);
    let mut refused = |item: Item| match batch.attempt(|change| change.insert(item)) {
        Err(ChangeError::KeyTooLong { index, .. }) => index,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Item::named(long.clone())), "name");
    assert_eq!(refused(Item { label: Some(long.clone()), ..Item::named("a") }), "label");
    // Bytes below 2 take two bytes in a key.
    assert_eq!(refused(Item::named("\0".repeat(2050))), "name");
    assert_eq!(refused(Item { owner: "x".repeat(4096).into(), ..Item::named("a") }), "partition");
    let word = |word: String| Word { word, unknown: Unknown::default() };
    let refused = batch.attempt(|change| change.insert(word("x".repeat(5000))));
    assert!(matches!(refused, Err(ChangeError::KeyTooLong { table: "words", index: "by_word", .. })), "{refused:?}");
    // As long as it may be: 4,096 bytes with an end mark, a null mark and a row number of six, or a partition's number of three.
    let fits = batch.attempt(|change| {
        for letter in ["a", "b", "c", "d", "e"] {
            change.insert(Item::named(letter.repeat(4096 - 8)))?;
            change.insert(word(letter.repeat(4096 - 4)))?;
        }
        change.insert(Item { owner: "x".repeat(4094).into(), ..Item::named("long owner") })
    });
    assert_eq!(fits, Ok(RowNumber(11)));
    let snapshot = batch.prepare().unwrap().snapshot().clone();
    let name = "c".repeat(4088);
    assert_eq!(snapshot.table::<Item>().select(Query::all().equal(Item::NAME, name.as_str())).unwrap().count(), 1);
    let word = "d".repeat(4092);
    assert_eq!(snapshot.table::<Word>().totals("by_word", &[word.as_str().into()], None).unwrap().count, 1);
}

#[test]
fn an_append_table_is_never_changed_and_drops_its_oldest_page_whole() {
    with_seeds(2, |_, mut random| {
        let bound = 60_000;
        let limits = StoreLimits { append_table_bytes_max: bound, ..StoreLimits::default() };
        let mut world = World::new(limits);
        let mut came: BTreeMap<u64, Event> = BTreeMap::new();
        let mut pages_before: Vec<Vec<u64>> = Vec::new();
        let mut dropped_any = false;
        for commit in 0..120 {
            let mut batch = world.writer.begin(Time::from_micros(commit));
            for _ in 0..1 + random.below(20) {
                let event = event(commit, random.below(3) as u32, "x".repeat(random.below(300)));
                let number = batch.attempt(|change| change.insert(event.clone())).unwrap();
                came.insert(number.0, event);
            }
            let prepared = batch.prepare().unwrap();
            let went: BTreeSet<u64> =
                prepared.changes().iter().filter(|change| change.new.is_none()).map(|change| change.number.0).collect();
            world.writer.publish(prepared);
            let snapshot = world.store.snapshot();
            let table = snapshot.table::<Event>();
            assert!(table.row_bytes() <= bound);
            // What went was whole pages, and with them the oldest row each time.
            for page in &pages_before {
                let gone = page.iter().filter(|number| went.contains(number)).count();
                assert!(gone == 0 || gone == page.len(), "{gone} of {} rows of a page went", page.len());
            }
            if !went.is_empty() {
                assert!(went.contains(pages_before.iter().flatten().min().unwrap()), "the oldest row stays");
                dropped_any = true;
            }
            came.retain(|number, _| !went.contains(number));
            let found: BTreeMap<u64, Event> =
                table.select(Query::all()).unwrap().map(|row| (row.number.0, row.row().clone())).collect();
            assert_eq!(found, came);
            let rows = table.select(Query::all()).unwrap();
            pages_before = rows
                .whole_pages()
                .unwrap()
                .map(|page| page.numbers().map(|number| number.0).collect::<Vec<_>>())
                .collect();
        }
        assert!(dropped_any);
        let number = RowNumber(*came.first_key_value().unwrap().0);
        let mut batch = world.writer.begin(Time::EPOCH);
        let only_grows = Err(ChangeError::OnlyGrows { table: "events", number });
        assert_eq!(batch.attempt(|change| change.update(number, event(0, 0, String::new()))), only_grows);
        assert_eq!(batch.attempt(|change| change.delete::<Event>(number)), only_grows);
        assert!(batch.prepare().is_none());
    });
}

#[test]
fn a_failed_command_brings_the_dropped_pages_of_an_append_table_back() {
    let mut world = World::new(StoreLimits { append_table_bytes_max: 30_000, ..StoreLimits::default() });
    let fill = |change: &mut rollcall_store::Transaction<'_>, count: i64| {
        (0..count).try_for_each(|at| change.insert(event(at, 0, "x".repeat(50))).map(drop))
    };
    let mut batch = world.writer.begin(Time::EPOCH);
    batch.attempt(|change| fill(change, 180)).unwrap();
    let prepared = batch.prepare().unwrap();
    world.writer.publish(prepared);
    let rows = |snapshot: &Snapshot| -> Vec<u64> {
        snapshot.table::<Event>().select(Query::all()).unwrap().map(|row| row.number.0).collect()
    };
    let before = rows(&world.store.snapshot());
    assert_eq!(before.len(), 180);
    let mut batch = world.writer.begin(Time::EPOCH);
    batch
        .attempt(|change| -> Result<(), Failed> {
            fill(change, 150)?;
            assert!(change.table::<Event>().get(RowNumber(1)).is_none(), "the first page went");
            Err(Failed::OnPurpose)
        })
        .unwrap_err();
    batch.attempt(|change| change.insert(link(1))).unwrap();
    let prepared = batch.prepare().unwrap();
    assert_eq!(rows(prepared.snapshot()), before);
}

#[test]
fn a_row_that_just_came_to_an_append_table_is_never_what_is_dropped_for_it() {
    for every in 2..12 {
        let limits = StoreLimits { append_table_bytes_max: 30_000, ..StoreLimits::default() };
        let (store, mut writer) = all_tables(limits).build();
        for at in 0..200 {
            // The oldest row is one of the quiet source, and so the oldest page may be the one that its next row comes to.
            let source = if at % every == 0 { 1 } else { 2 };
            let text = "x".repeat(500);
            let prepared = prepare(&mut writer, |change| change.insert(event(at, source, text)).map(drop));
            writer.publish(prepared);
            let snapshot = store.snapshot();
            let newest = snapshot.table::<Event>().select(Query::all()).unwrap().map(|row| row.row().at.micros()).max();
            assert_eq!(newest, Some(at), "with one row of the quiet source in {every}");
        }
    }
}

#[test]
fn dropping_old_rows_of_an_append_table_takes_nothing_from_what_a_command_may_change() {
    let limits = StoreLimits { append_table_bytes_max: 30_000, command_rows_max: 100, ..StoreLimits::default() };
    let mut world = World::new(limits);
    for commit in 0..20 {
        let mut batch = world.writer.begin(Time::from_micros(commit));
        let result = batch
            .attempt(|change| (0..100).try_for_each(|_| change.insert(event(commit, 0, "x".repeat(50))).map(drop)));
        assert_eq!(result, Ok(()), "commit {commit}");
        let prepared = batch.prepare().unwrap();
        world.writer.publish(prepared);
    }
}

fn file(path: &str, content: u8, before: Option<u8>) -> File {
    let name = |byte| BlobReference([byte; 32]);
    File {
        shelf: None,
        path: path.into(),
        content: name(content),
        before: before.map(name),
        unknown: Unknown::default(),
    }
}

#[test]
fn a_blob_is_released_exactly_when_the_last_row_that_names_it_goes() {
    let mut world = World::new(StoreLimits::default());
    let a = world.change(|both| both.insert(file("a", 1, Some(2)))).0;
    let b = world.change(|both| both.insert(file("b", 1, Some(1)))).0;
    assert_eq!(world.snapshot().blob_references(&[1; 32]), 3);
    world.change(|both| both.update(a, file("a", 3, Some(2))));
    assert_eq!((world.released.len(), world.snapshot().blob_references(&[1; 32])), (0, 2));
    world.change(|both| both.update(b, file("b", 3, None)));
    assert_eq!(world.released, [[1; 32]]);
    assert_eq!(world.snapshot().blob_references(&[1; 32]), 0);
    // One row lets go of what another takes up in the same commit, in either order.
    world.change(|both| {
        both.update(a, file("a", 3, None))?;
        both.update(b, file("b", 2, None))
    });
    assert_eq!(world.released, [[0u8; 32]; 0]);
    world.change(|both| {
        both.delete::<File>(a)?;
        both.delete::<File>(b)
    });
    let mut released = world.released.clone();
    released.sort();
    assert_eq!(released, [[2; 32], [3; 32]]);
    // A blob that came and went within one commit is let go too: its file is there.
    world.change(|both| {
        let number = both.insert(file("c", 4, None))?;
        both.delete::<File>(number.0)
    });
    assert_eq!(world.released, [[4; 32]]);
    world.check();
}

#[test]
fn released_blobs_are_those_that_lost_their_last_name_whatever_failed_on_the_way() {
    with_seeds(4, |_, mut random| {
        let mut world = World::new(StoreLimits::default());
        let count = |snapshot: &Snapshot| -> Vec<bool> {
            (0..=u8::MAX).map(|byte| snapshot.blob_references(&[byte; 32]) > 0).collect()
        };
        for _ in 0..60 {
            let before = count(&world.snapshot());
            let named = blob(&mut random).0[0];
            world.change(|both| {
                both.insert(file(&format!("unique {named} {}", both.model.next_number), named, None)).map(drop)
            });
            if world.commit(&mut random, SMALL, 6) {
                let after = count(&world.snapshot());
                let released: BTreeSet<u8> = world.released.iter().map(|blob| blob[0]).collect();
                assert_eq!(released.len(), world.released.len(), "a blob is released twice");
                for byte in 0..=u8::MAX {
                    let (was, is) = (before[usize::from(byte)] || byte == named, after[usize::from(byte)]);
                    assert!(!released.contains(&byte) || !is, "blob {byte} is released and named");
                    assert!(
                        released.contains(&byte) || is || !was,
                        "blob {byte} lost its last name and is not released"
                    );
                }
            }
        }
    });
}

fn prepare(
    writer: &mut Writer,
    change: impl FnOnce(&mut rollcall_store::Transaction<'_>) -> Result<(), ChangeError>,
) -> Prepared {
    let mut batch = writer.begin(Time::EPOCH);
    batch.attempt(change).unwrap();
    batch.prepare().unwrap()
}

#[test]
fn a_commit_is_as_durable_as_the_strictest_table_that_it_changed() {
    use rollcall_schema::Durability::{Committed, Relaxed, Volatile};
    let (_, mut writer): (Arc<Store>, Writer) = all_tables(StoreLimits::default()).build();
    let sighting = |what| Sighting { source: 1, what, size: 1, address: None, unknown: Unknown::default() };
    let volatile = prepare(&mut writer, |change| change.insert(sighting(1)).map(drop));
    assert_eq!((volatile.durability, volatile.record().len()), (Volatile, 0));
    let relaxed =
        prepare(&mut writer, |change| change.insert(link(1)).and_then(|_| change.insert(sighting(2))).map(drop));
    assert_eq!(relaxed.durability, Relaxed);
    let committed = prepare(&mut writer, |change| {
        change.insert(link(2))?;
        change.insert(sighting(3))?;
        change.insert(Item::named("a")).map(drop)
    });
    assert_eq!(committed.durability, Committed);
    assert!(!relaxed.record().is_empty() && !committed.record().is_empty());
    assert_eq!(Sighting::schema().durability, Volatile);
}
