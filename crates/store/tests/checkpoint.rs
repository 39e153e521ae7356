//! Checkpoints and records: what they hold is loaded as it was, and what is broken is an error.

use crate::generator::{Generator, with_seeds};
use crate::model::{Model, ModelTable, check_content};
use crate::rows::{Event, File, Item, Link, Sighting, ThingEarlier, ThingLater};
use crate::world::{LARGE_ROWS, SMALL, Space, WIDE, World, all_tables};
use rollcall_schema::codec::{put_field, put_varint};
use rollcall_schema::{NamePool, Row, Time, Unknown};
use rollcall_store::{
    ChangeError, Compacted, Loader, Query, RecordError, RowNumber, Snapshot, Store, StoreLimits, Version, Watch, Writer,
};
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;

/// The chunks of a checkpoint.
pub fn chunks(snapshot: &Snapshot) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    let written: Result<(), Infallible> = snapshot.write_checkpoint(|chunk| {
        chunks.push(chunk.to_vec());
        Ok(())
    });
    written.unwrap();
    chunks
}

/// Loads a checkpoint and the records after it with several readers.
fn load(chunks: &[Vec<u8>], records: &[Vec<u8>], reserved: Version) -> (Arc<Store>, Writer) {
    let loader = all_tables(StoreLimits::default()).load();
    read_on_threads(&loader, chunks, records);
    loader.finish(reserved)
}

/// Records are read before chunks by one of the threads, and last first by all.
fn read_on_threads(loader: &Loader, chunks: &[Vec<u8>], records: &[Vec<u8>]) {
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                let mut reader = loader.reader();
                let records = records.iter().rev().skip(thread).step_by(3).filter(|record| !record.is_empty());
                let chunks = chunks.iter().skip(thread).step_by(3);
                if thread == 0 {
                    records.clone().for_each(|record| reader.record(record).unwrap());
                }
                chunks.for_each(|chunk| reader.chunk(chunk).unwrap());
                if thread > 0 {
                    records.for_each(|record| reader.record(record).unwrap());
                }
            });
        }
    });
}

fn check_loaded(snapshot: &Snapshot, model: &Model, reserved: Version) {
    check_content(snapshot.table::<Item>(), &model.items);
    check_content(snapshot.table::<Event>(), &model.events);
    check_content(snapshot.table::<Link>(), &model.links);
    check_content(snapshot.table::<File>(), &model.files);
    check_content(snapshot.table::<Sighting>(), &ModelTable::default());
    for byte in 0..=u8::MAX {
        let named =
            |blob: &Option<rollcall_schema::BlobReference>| usize::from(blob.is_some_and(|blob| blob.0[0] == byte));
        let items: usize = model.items.rows.values().map(|item| named(&item.row.blob)).sum();
        let files = model.files.rows.values().map(|file| named(&file.row.before) + named(&Some(file.row.content)));
        assert_eq!(snapshot.blob_references(&[byte; 32]), (items + files.sum::<usize>()) as u64, "blob {byte}");
    }
    assert!(snapshot.version() >= reserved);
}

fn random_loads(seeds: u64, space: Space, commands: usize) {
    with_seeds(seeds, |_, mut random| {
        let mut world = World::new(StoreLimits::default());
        for _ in 0..10 {
            world.commit(&mut random, space, commands);
        }
        let checkpoint = world.snapshot();
        let chunks = chunks(&checkpoint);
        world.records.clear();
        for _ in 0..10 {
            world.commit(&mut random, space, commands);
        }
        // Numbers given to volatile rows alone are in no record; a last record of another table tells them.
        world.change(|both| both.insert(Link { from: 0, to: 0, weight: 0, unknown: Unknown::default() }));
        let reserved = Version(world.snapshot().version().0 + 50);
        let (store, writer) = load(&chunks, &world.records, reserved);
        check_loaded(&store.snapshot(), &world.model, reserved);
        goes_on(world, store, writer, &mut random, space);
    });
}

/// The loaded store goes on as the one that was left would have, with newer versions and without reusing numbers.
fn goes_on(world: World, store: Arc<Store>, writer: Writer, random: &mut Generator, space: Space) {
    let loaded = store.snapshot();
    assert_eq!(store.retained(), (0, 0));
    let mut model = world.model;
    model.sightings = ModelTable::default();
    // A restart does not know when tables were changed before, only that it was not after; what is known is never too low.
    for (changed_at, before) in [
        (loaded.table::<Item>().changed_at(), model.items.changed_at),
        (loaded.table::<Link>().changed_at(), model.links.changed_at),
    ] {
        assert!(changed_at >= before || changed_at == Version::NOTHING, "{changed_at} after {before}");
    }
    let mut world = World { store, writer, model, micros: world.micros, records: Vec::new(), released: Vec::new() };
    for _ in 0..5 {
        world.commit(random, space, 10);
        let snapshot = world.snapshot();
        check_content(snapshot.table::<Item>(), &world.model.items);
        check_content(snapshot.table::<Sighting>(), &world.model.sightings);
        check_content(snapshot.table::<File>(), &world.model.files);
    }
    assert!(world.snapshot().version() > loaded.version());
}

#[test]
fn a_checkpoint_and_the_records_after_it_give_the_store_back() {
    random_loads(4, SMALL, 10);
    random_loads(1, WIDE, 60);
    random_loads(1, LARGE_ROWS, 20);
}

#[test]
fn records_alone_and_a_checkpoint_alone_give_the_store_back() {
    let mut random = Generator::new(5);
    let mut world = World::new(StoreLimits::default());
    for _ in 0..20 {
        world.commit(&mut random, SMALL, 8);
    }
    let (store, _) = load(&[], &world.records, Version(0));
    check_loaded(&store.snapshot(), &world.model, world.snapshot().version());
    let (store, _) = load(&chunks(&world.snapshot()), &[], Version(0));
    check_loaded(&store.snapshot(), &world.model, world.snapshot().version());
    let (again, _) = load(&chunks(&store.snapshot()), &[], Version(0));
    check_loaded(&again.snapshot(), &world.model, world.snapshot().version());
}

#[test]
fn numbers_versions_and_times_outlive_a_store_without_rows() {
    let mut world = World::new(StoreLimits::default());
    let numbers = world
        .change(|both| (0..10).map(|name| both.insert(Item::named(format!("{name}")))).collect::<Result<Vec<_>, _>>());
    world.micros = 1_000_000;
    world.change(|both| numbers.iter().try_for_each(|number| both.delete::<Item>(number.0)));
    let chunks = chunks(&world.snapshot());
    assert!(!chunks.is_empty(), "there is always one chunk");
    let (store, mut writer) = load(&chunks, &[], Version(1000));
    assert_eq!(store.snapshot().version(), Version(1000));
    assert_eq!(store.snapshot().time(), Time::from_micros(1_000_001));
    let mut batch = writer.begin(Time::EPOCH);
    assert_eq!(batch.version(), Version(1001));
    assert_eq!(batch.attempt(|change| change.insert(Item::named("next"))), Ok(RowNumber(11)));
    assert_eq!(batch.prepare().unwrap().snapshot().time(), Time::from_micros(1_000_001));
}

#[test]
fn watchers_from_before_a_restart_are_told_to_read_again() {
    let mut world = World::new(StoreLimits::default());
    world.change(|both| both.insert(Item::named("a")));
    let position = world.snapshot().version();
    let (store, _) = load(&chunks(&world.snapshot()), &[], Version(500));
    let mut watch = Watch::new::<Item>(&store, position, Vec::new()).unwrap();
    let compacted = watch.next(&store, None, 10).map(drop).unwrap_err();
    assert_eq!(compacted, Compacted { position, floor: Version(500) });
}

#[test]
fn a_shared_answer_from_before_a_restart_is_not_taken_for_one_of_after_it() {
    let mut world = World::new(StoreLimits::default());
    let item = |name: &str| Item { owner: "o".into(), ..Item::named(name) };
    world.change(|both| both.insert(item("stays")));
    let gone = world.change(|both| both.insert(item("goes")));
    let answered_at = world.snapshot().table::<Item>().changed_at();
    world.change(|both| both.delete::<Item>(gone.0));
    let (store, _) = load(&chunks(&world.snapshot()), &[], Version(500));
    let snapshot = store.snapshot();
    let table = snapshot.table::<Item>();
    let visible = table.visible(|_| true);
    // The rows that are left were last changed before the answer, but the answer holds one more.
    for changed_at in
        [table.changed_at(), table.changed_at_for(Some(&visible)), table.partitions().next().unwrap().changed_at]
    {
        assert!(changed_at > answered_at, "{changed_at} after {answered_at}");
    }
}

fn decode<R: Row>(bytes: &[u8]) -> R {
    R::decode(bytes, &mut NamePool::default()).unwrap()
}

#[test]
fn fields_that_an_earlier_version_does_not_know_pass_through_it() {
    let later = ThingLater { name: "n".into(), size: 3, color: Some("red".into()), unknown: Unknown::default() };
    let (store, mut writer) = Store::builder(StoreLimits::default()).table::<ThingLater>().build();
    let mut batch = writer.begin(Time::EPOCH);
    batch.attempt(|change| change.insert(later.clone())).unwrap();
    let prepared = batch.prepare().unwrap();
    let record = prepared.record();
    writer.publish(prepared);
    let newer_chunks = chunks(&store.snapshot());

    // The earlier version reads checkpoint or record, changes the row, and writes it.
    let from_record = Store::builder(StoreLimits::default()).table::<ThingEarlier>().load();
    from_record.reader().record(&record).unwrap();
    let from_chunks = Store::builder(StoreLimits::default()).table::<ThingEarlier>().load();
    newer_chunks.iter().for_each(|chunk| from_chunks.reader().chunk(chunk).unwrap());
    for loader in [from_record, from_chunks] {
        let (store, mut writer) = loader.finish(Version(9));
        let snapshot = store.snapshot();
        let row = snapshot.table::<ThingEarlier>().get(RowNumber(1)).unwrap().row().clone();
        let mut batch = writer.begin(Time::EPOCH);
        batch.attempt(|change| change.update(RowNumber(1), ThingEarlier { name: "m".into(), ..row })).unwrap();
        let prepared = batch.prepare().unwrap();

        let back = Store::builder(StoreLimits::default()).table::<ThingLater>().load();
        newer_chunks.iter().for_each(|chunk| back.reader().chunk(chunk).unwrap());
        back.reader().record(&prepared.record()).unwrap();
        let (store, _) = back.finish(Version(9));
        let snapshot = store.snapshot();
        let found = snapshot.table::<ThingLater>().get(RowNumber(1)).unwrap();
        assert_eq!(*found.row(), ThingLater { name: "m".into(), ..later.clone() });
    }
}

#[test]
fn missing_fields_take_their_defaults_and_those_without_one_are_named() {
    let mut bytes = Vec::new();
    put_field(&mut bytes, 1, b"n");
    let expected = ThingLater { name: "n".into(), size: 7, color: None, unknown: Unknown::default() };
    assert_eq!(decode::<ThingLater>(&bytes), expected);
    let error = ThingLater::decode(&[], &mut NamePool::default()).unwrap_err();
    assert_eq!(error.to_string(), "decoding a row of things: field name (tag 1) is missing and has no default");
    // Fields in another order are read too, and unknown ones are kept in the order in which they came.
    let mut bytes = Vec::new();
    put_field(&mut bytes, 9, b"?");
    put_field(&mut bytes, 2, &[5]);
    put_field(&mut bytes, 8, b"!");
    put_field(&mut bytes, 1, b"n");
    let row: ThingLater = decode(&bytes);
    assert_eq!(row.size, 5);
    let mut written = Vec::new();
    row.encode(&mut written);
    assert_eq!(decode::<ThingLater>(&written), row);
    assert_eq!(row.unknown.bytes(), [9, 1, b'?', 8, 1, b'!']);
}

#[test]
fn every_column_type_comes_back_as_it_was() {
    with_seeds(3, |_, mut random| {
        for _ in 0..300 {
            let item = crate::world::random_item(&mut random, LARGE_ROWS);
            let mut bytes = Vec::new();
            item.encode(&mut bytes);
            assert_eq!(decode::<Item>(&bytes), item);
        }
    });
}

#[test]
fn tables_that_are_not_known_are_refused_by_number() {
    let mut world = World::new(StoreLimits::default());
    world.change(|both| both.insert(Item::named("a")));
    let builder = || Store::builder(StoreLimits::default()).table::<ThingLater>();
    let refused = builder().load().reader().record(&world.records[0]);
    assert_eq!(refused, Err(RecordError::NoTable(1)));
    let refused = builder().load().reader().chunk(&chunks(&world.snapshot())[0]);
    assert_eq!(refused, Err(RecordError::NoTable(1)));
}

/// Whether loading these bytes, as chunk and as record, is an error; it must never panic, nor what follows.
pub fn read_broken(bytes: &[u8]) -> (bool, bool) {
    let with_tables = || all_tables(StoreLimits::default()).table::<crate::rows::Word>();
    let loader = with_tables().load();
    let as_chunk = loader.reader().chunk(bytes).is_ok();
    if as_chunk {
        use_loaded(loader);
    }
    let loader = with_tables().load();
    let as_record = loader.reader().record(bytes).is_ok();
    if as_record {
        use_loaded(loader);
    }
    (as_chunk, as_record)
}

/// What was loaded without an error can be read, changed and written again.
fn use_loaded(loader: Loader) {
    let (store, mut writer) = loader.finish(Version::NOTHING);
    let snapshot = store.snapshot();
    let numbers: Vec<RowNumber> =
        snapshot.table::<Item>().select(Query::all()).unwrap().map(|row| row.number).collect();
    let distinct: HashSet<RowNumber> = numbers.iter().copied().collect();
    assert_eq!(distinct.len(), numbers.len(), "a row is loaded twice");
    let mut batch = writer.begin(Time::EPOCH);
    let inserted = batch.attempt(|change| change.insert(Item::named("a name that no other row has")));
    assert!(inserted.as_ref().map_or(true, |number| !distinct.contains(number)), "a number is used twice");
    for number in numbers {
        let deleted: Result<(), ChangeError> = batch.attempt(|change| change.delete::<Item>(number));
        assert_eq!(deleted, Ok(()));
    }
    let Some(prepared) = batch.prepare() else { return };
    writer.publish(prepared);
    chunks(&store.snapshot());
}

fn small_store() -> World {
    let mut random = Generator::new(11);
    let mut world = World::new(StoreLimits::default());
    for _ in 0..4 {
        world.commit(&mut random, SMALL, 5);
    }
    world
}

#[test]
fn bytes_that_end_early_are_errors_and_never_more() {
    let world = small_store();
    let record = world.records.iter().max_by_key(|record| record.len()).unwrap();
    let chunk = chunks(&world.snapshot()).swap_remove(0);
    let mut kept = 0;
    for length in 0..record.len() {
        // A record that ends between two changes is one with fewer; the log knows its length.
        kept += usize::from(read_broken(&record[..length]).1);
    }
    assert!(kept < 60, "{kept} of {} beginnings of a record are taken", record.len());
    for length in 10..chunk.len() {
        assert!(!read_broken(&chunk[..length]).0 || length < 20, "{length} of {} bytes of a chunk", chunk.len());
    }
}

#[test]
fn flipped_bits_never_panic() {
    with_seeds(2, |_, mut random| {
        let world = small_store();
        let record = world.records.iter().max_by_key(|record| record.len()).unwrap();
        let chunk = chunks(&world.snapshot()).swap_remove(0);
        for _ in 0..400 {
            let mut bytes = if random.chance(50) { record.clone() } else { chunk.clone() };
            for _ in 0..1 + random.below(4) {
                let position = random.below(bytes.len());
                bytes[position] ^= 1 << random.below(8);
            }
            read_broken(&bytes);
        }
    });
}

#[test]
fn rows_that_do_not_fit_are_errors() {
    let head = |next_number: u64| {
        let mut bytes = vec![5];
        bytes.extend_from_slice(&[0; 8]);
        put_varint(&mut bytes, next_number);
        bytes
    };
    let name = |length: usize| {
        let mut row = Vec::new();
        Item::named("x".repeat(length)).encode(&mut row);
        row
    };
    let change = |number: u64, row: &[u8]| {
        let mut bytes = vec![1, 1];
        put_varint(&mut bytes, number);
        put_varint(&mut bytes, row.len() as u64);
        bytes.extend_from_slice(row);
        bytes
    };
    let run = |number: u64, row: &[u8]| {
        let mut bytes = vec![1, 1];
        put_varint(&mut bytes, number);
        bytes.push(3);
        put_varint(&mut bytes, row.len() as u64);
        bytes.extend_from_slice(row);
        bytes
    };
    let replay = |bytes: Vec<u8>| all_tables(StoreLimits::default()).load().reader().record(&bytes);
    let read = |bytes: Vec<u8>| all_tables(StoreLimits::default()).load().reader().chunk(&bytes);
    assert_eq!(replay([head(8), change(7, &name(5))].concat()), Ok(()));
    assert_eq!(read([head(8), run(7, &name(5))].concat()), Ok(()));
    let misfit = |number| Err(RecordError::Misfit { table: "items", number });
    // A number that is yet to be given would be given twice.
    assert_eq!(replay([head(8), change(8, &name(5))].concat()), misfit(8));
    assert_eq!(read([head(8), run(8, &name(5))].concat()), misfit(8));
    // A name that no index takes.
    assert_eq!(replay([head(8), change(7, &name(5000))].concat()), misfit(7));
    assert_eq!(read([head(8), run(7, &name(5000))].concat()), misfit(7));
    assert_eq!(replay([head(u64::MAX), change(1 << 48, &name(5))].concat()), Err(RecordError::Broken { offset: 19 }));
}

#[test]
fn a_broken_record_is_refused_though_a_later_one_changes_its_rows_again() {
    let mut world = World::new(StoreLimits::default());
    let number = world.change(|both| both.insert(Item::named("a")));
    world.change(|both| both.update(number.0, Item::named("b")));
    let [first, second] = &world.records[..] else { panic!("a record each") };
    let loader = all_tables(StoreLimits::default()).load();
    let mut reader = loader.reader();
    assert_eq!(reader.record(second), Ok(()));
    // The row's own bytes, which are the last of the record, are broken; then the record itself.
    let name = first.iter().rposition(|byte| *byte == b'a').unwrap();
    let mut bytes = first.clone();
    bytes[name] = 0xff;
    assert!(matches!(reader.record(&bytes), Err(RecordError::Row(_))));
    assert!(matches!(reader.record(&first[..first.len() - 1]), Err(RecordError::Broken { .. })));
    assert_eq!(reader.record(first), Ok(()));
    let (store, _) = loader.finish(Version(0));
    assert_eq!(store.snapshot().table::<Item>().get(RowNumber(1)).unwrap().row().name, Item::named("b").name);
}

#[test]
fn a_chunk_that_is_read_twice_gives_each_row_once() {
    let world = small_store();
    let mut twice = chunks(&world.snapshot());
    twice.extend(chunks(&world.snapshot()));
    let (store, _) = load(&twice, &[], Version(0));
    check_loaded(&store.snapshot(), &world.model, Version(0));
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_at_once_with_the_reason() {
    let mut world = World::new(StoreLimits::default());
    for row in 0..40 {
        world.change(|both| both.insert(Item { payload: vec![row; 60_000], ..Item::named(format!("{row}")) }));
    }
    world.change(|both| both.insert(Link { from: 0, to: 0, weight: 0, unknown: Unknown::default() }));
    let whole = chunks(&world.snapshot());
    assert!(whole.len() > 5 && whole.iter().all(|chunk| chunk.len() < 400_000), "a checkpoint comes in pieces");
    for fails_at in [0, 2, whole.len() - 1] {
        let mut calls = 0;
        let written = world.snapshot().write_checkpoint(|chunk| {
            assert_eq!(chunk, whole[calls]);
            calls += 1;
            if calls > fails_at { Err("no space") } else { Ok(()) }
        });
        assert_eq!((written, calls), (Err("no space"), fails_at + 1));
    }
}
