//! Encodings: two toy wire forms, always equal to a fresh encoding, made once per change and shared.

use crate::generator::{Generator, with_seeds};
use crate::rows::{Item, Link};
use crate::world::{LARGE_ROWS, SMALL, Space, World};
use rollcall_schema::{Row, Time, Unknown};
use rollcall_store::{
    AnyRow, ChangeError, Encoder, EncodingCounts, Fragments, Page, Query, RowNumber, Snapshot, Store, StoreLimits,
    Table, Transaction, Unchanged, Version, Writer,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

/// A byte-wise form: number, changed stamp and stored form of each row.
struct Bytes;

fn fragment<R: Row>(page: &Page<R>, position: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&page.number(position).0.to_le_bytes());
    out.extend_from_slice(&page.rows()[position].changed.0.to_le_bytes());
    page.rows()[position].encode_row(out);
}

impl<R: Row> Encoder<R> for Bytes {
    type Encoded = Fragments;

    fn encode(&self, page: &Page<R>, unchanged: &Unchanged<'_, Fragments>) -> Fragments {
        Fragments::splice(page, unchanged, |position, out| fragment(page, position, out))
    }

    fn bytes(&self, encoded: &Fragments) -> usize {
        encoded.bytes.len() + encoded.ends.len() * 4
    }
}

fn fresh_bytes<R: Row>(page: &Page<R>) -> Fragments {
    let mut fresh = Fragments::default();
    for position in 0..page.len() {
        fragment(page, position, &mut fresh.bytes);
        fresh.ends.push(fresh.bytes.len() as u32);
    }
    fresh
}

/// A columnar form: a vector for each of some columns.
struct Vectors;

#[derive(Debug, Default, PartialEq)]
struct Columns {
    names: Vec<String>,
    cpus: Vec<u64>,
    ranks: Vec<Option<i64>>,
}

impl Columns {
    fn push(&mut self, name: String, cpus: u64, rank: Option<i64>) {
        self.names.push(name);
        self.cpus.push(cpus);
        self.ranks.push(rank);
    }

    fn push_row(&mut self, row: &Item) {
        self.push(row.name.clone(), row.cpus, row.rank);
    }
}

impl Encoder<Item> for Vectors {
    type Encoded = Columns;

    fn encode(&self, page: &Page<Item>, unchanged: &Unchanged<'_, Columns>) -> Columns {
        let mut columns = Columns::default();
        for (position, stored) in page.rows().iter().enumerate() {
            match unchanged.source(position) {
                Some((source, row)) => {
                    columns.push(source.names[row].clone(), source.cpus[row], source.ranks[row]);
                }
                None => columns.push_row(&stored.row),
            }
        }
        assert!(unchanged.source(page.len()).is_none());
        columns
    }

    fn bytes(&self, encoded: &Columns) -> usize {
        encoded.names.len() * 60
    }
}

fn fresh_columns(page: &Page<Item>) -> Columns {
    let mut columns = Columns::default();
    page.rows().iter().for_each(|stored| columns.push_row(&stored.row));
    columns
}

fn pages<R: Row>(table: &Table<R>) -> Vec<Arc<Page<R>>> {
    table.select(Query::all()).unwrap().whole_pages().unwrap().cloned().collect()
}

/// Reads the encodings of all items and compares each with a fresh one.
fn read_all(snapshot: &Snapshot) {
    let table = snapshot.table::<Item>();
    for page in pages(table) {
        assert_eq!(*table.encoded(&page, &Bytes), fresh_bytes(&page));
        assert_eq!(*table.encoded(&page, &Vectors), fresh_columns(&page));
    }
}

/// Reads the encodings of all items twice: the second time nothing is made, and the very same encodings are given.
fn read_shared(store: &Store, snapshot: &Snapshot) {
    let table = snapshot.table::<Item>();
    for page in pages(table) {
        let (bytes, columns) = (table.encoded(&page, &Bytes), table.encoded(&page, &Vectors));
        let counts = store.encoding_counts();
        assert!(Arc::ptr_eq(&bytes, &table.encoded(&page, &Bytes)), "an encoding is made twice");
        assert!(Arc::ptr_eq(&columns, &table.encoded(&page, &Vectors)), "an encoding is made twice");
        assert_eq!(store.encoding_counts(), counts);
    }
}

fn stamps(snapshot: &Snapshot) -> BTreeMap<RowNumber, Version> {
    snapshot.table::<Item>().select(Query::all()).unwrap().map(|row| (row.number, row.stored.changed)).collect()
}

fn random_changes(seeds: u64, space: Space, commands: usize) {
    with_seeds(seeds, |_, mut random| {
        let mut world = World::new(StoreLimits::default());
        let mut seen = BTreeMap::new();
        let mut serialised = 0;
        for round in 0..60 {
            // Some rounds grow the table, others shrink it, so that pages split and join.
            let space = Space { insert_percent: if round % 20 < 12 { 75 } else { 5 }, ..space };
            for _ in 0..1 + random.below(3) {
                world.commit(&mut random, space, commands);
            }
            let snapshot = world.snapshot();
            read_all(&snapshot);
            read_shared(&world.store, &snapshot);
            let now = stamps(&snapshot);
            let changed = now.iter().filter(|(number, stamp)| seen.get(*number) != Some(*stamp)).count();
            serialised += 2 * changed as u64;
            seen = now;
            let counts = world.store.encoding_counts();
            assert_eq!(counts.rows_evicted, 0);
            if space.undo {
                // A failed command may empty a page and fill it again, which is a new page then.
                assert!(counts.rows_serialised >= serialised, "round {round}");
                serialised = counts.rows_serialised;
            } else {
                assert_eq!(counts.rows_serialised, serialised, "round {round}");
            }
        }
    });
}

#[test]
fn exactly_the_changed_rows_are_serialised_whatever_changes_splits_and_joins() {
    random_changes(3, Space { undo: false, ..SMALL }, 10);
    random_changes(2, Space { names: 100_000, owners: 1, undo: false, ..SMALL }, 40);
}

#[test]
fn encodings_are_right_when_commands_fail_and_are_undone() {
    random_changes(3, SMALL, 10);
}

#[test]
fn large_rows_are_encoded_like_others() {
    random_changes(1, Space { undo: false, ..LARGE_ROWS }, 10);
}

#[test]
fn with_a_tiny_budget_every_answer_is_still_right_and_the_counts_add_up() {
    with_seeds(3, |_, mut random| {
        let limits = StoreLimits { encoding_bytes_max: 12_000, ..StoreLimits::default() };
        let mut world = World::new(limits);
        let mut before = world.store.encoding_counts();
        let (mut seen, mut evicted_before) = (BTreeMap::new(), 0);
        for _ in 0..40 {
            world.commit(&mut random, Space { names: 100_000, insert_percent: 70, undo: false, ..SMALL }, 10);
            let snapshot = world.snapshot();
            read_all(&snapshot);
            let now = stamps(&snapshot);
            let changed = now.iter().filter(|(number, stamp)| seen.get(*number) != Some(*stamp)).count();
            seen = now;
            let counts = world.store.encoding_counts();
            let serialised = counts.rows_serialised - before.rows_serialised;
            assert!(serialised >= 2 * changed as u64);
            // Everything is read in each round, so what is made again was evicted in this round or the one before.
            let evicted = counts.rows_evicted - evicted_before;
            assert!(serialised <= 2 * changed as u64 + evicted, "{serialised} rows for {changed} changes");
            evicted_before = before.rows_evicted;
            before = counts;
        }
        assert!(before.rows_evicted > 1000, "{before:?}");
        // One encoding may be larger than the budget; what is there besides fits.
        assert!(before.bytes <= 12_000 + 40_000, "{before:?}");
    });
}

/// A store of `count` links, which all lie in pages of one partition.
fn links(count: u64, limits: StoreLimits) -> (Arc<Store>, Writer) {
    let (store, mut writer) = Store::builder(limits).table::<Link>().build();
    commit(&mut writer, |change| (0..count).try_for_each(|weight| change.insert(link(weight)).map(drop)));
    (store, writer)
}

fn link(weight: u64) -> Link {
    Link { from: 1, to: 2, weight, unknown: Unknown::default() }
}

/// What one commit does.
type Step<'a> = dyn Fn(&mut Transaction<'_>) -> Result<(), ChangeError> + 'a;

fn commit(writer: &mut Writer, change: impl FnOnce(&mut Transaction<'_>) -> Result<(), ChangeError>) {
    let mut batch = writer.begin(Time::EPOCH);
    batch.attempt(change).unwrap();
    let prepared = batch.prepare().unwrap();
    writer.publish(prepared);
}

fn encode_links(snapshot: &Snapshot) -> Vec<Arc<Fragments>> {
    let table = snapshot.table::<Link>();
    pages(table).iter().map(|page| table.encoded(page, &Bytes)).collect()
}

#[test]
fn rows_serialised_are_rows_held_and_rows_evicted_when_nothing_changes() {
    let (store, _writer) = links(1000, StoreLimits { encoding_bytes_max: 20_000, ..StoreLimits::default() });
    let snapshot = store.snapshot();
    let mut random = Generator::new(3);
    let pages = pages(snapshot.table::<Link>());
    for _ in 0..300 {
        let page = random.pick(&pages);
        assert_eq!(*snapshot.table::<Link>().encoded(page, &Bytes), fresh_bytes(page));
        let EncodingCounts { bytes, rows_serialised, rows_evicted } = store.encoding_counts();
        assert!(bytes <= 20_000);
        // Each row of a link takes as many bytes as another but for the length of its number.
        let held = rows_serialised - rows_evicted;
        assert!(bytes as u64 >= held * 26 && bytes as u64 <= held * 32, "{bytes} bytes for {held} rows");
    }
    let counts = store.encoding_counts();
    assert!(counts.rows_evicted > 3000, "{counts:?}");
}

#[test]
fn encodings_used_last_are_evicted_last() {
    let (store, _writer) = links(1280, StoreLimits { encoding_bytes_max: 20_000, ..StoreLimits::default() });
    let snapshot = store.snapshot();
    let table = snapshot.table::<Link>();
    let pages = pages(table);
    let favourite = table.encoded(&pages[0], &Bytes);
    for page in pages.iter().cycle().take(100) {
        table.encoded(page, &Bytes);
        assert!(Arc::ptr_eq(&favourite, &table.encoded(&pages[0], &Bytes)), "what everybody uses is evicted");
    }
    assert!(store.encoding_counts().rows_evicted > 0);
}

#[test]
fn an_old_reader_gets_the_old_content_and_leaves_the_newest_alone() {
    let (store, mut writer) = links(128, StoreLimits::default());
    let first = store.snapshot();
    let steps: [(&str, &Step<'_>); 5] = [
        ("a changed row", &|change| change.update(RowNumber(50), link(1000))),
        ("the newest row deleted", &|change| change.delete::<Link>(RowNumber(50))),
        ("a row deleted", &|change| change.delete::<Link>(RowNumber(7))),
        ("rows appended", &|change| (0..40).try_for_each(|weight| change.insert(link(weight)).map(drop))),
        ("rows gone", &|change| (60..120).try_for_each(|number| change.delete::<Link>(RowNumber(number)))),
    ];
    let mut held = vec![first];
    for (what, step) in steps {
        encode_links(held.last().unwrap());
        commit(&mut writer, step);
        let newest = store.snapshot();
        // Old readers before and after the newest was read.
        for _ in 0..2 {
            for old in &held {
                for (page, encoded) in pages(old.table::<Link>()).iter().zip(encode_links(old)) {
                    assert_eq!(*encoded, fresh_bytes(page), "{what}");
                }
            }
            let newest_before = encode_links(&newest);
            let counts = store.encoding_counts();
            for old in &held {
                encode_links(old);
            }
            let newest_after = encode_links(&newest);
            for (before, after) in newest_before.iter().zip(&newest_after) {
                assert!(Arc::ptr_eq(before, after), "{what}: an old reader spoiled the newest encoding");
            }
            for (page, encoded) in pages(newest.table::<Link>()).iter().zip(newest_after) {
                assert_eq!(*encoded, fresh_bytes(page), "{what}");
            }
            // What an old reader needs again may be made again, but of the newest nothing is.
            assert_eq!(store.encoding_counts().bytes, counts.bytes, "{what}");
        }
        held.push(newest);
    }
}

#[test]
fn encodings_outlive_any_number_of_splits_and_joins_that_readers_see() {
    let (store, mut writer) = links(1, StoreLimits::default());
    encode_links(&store.snapshot());
    let mut expected = 1;
    for round in 0..12 {
        // Two pages' worth of rows come, then all but the first 20 go: the first page joins and splits each time.
        let first = store.snapshot().table::<Link>().len() as u64;
        commit(&mut writer, |change| (first..200).try_for_each(|weight| change.insert(link(weight)).map(drop)));
        expected += 200 - first;
        encode_links(&store.snapshot());
        assert_eq!(store.encoding_counts().rows_serialised, expected, "round {round}, grown");
        let numbers: Vec<_> =
            store.snapshot().table::<Link>().select(Query::all()).unwrap().map(|row| row.number).skip(20).collect();
        for half in numbers.chunks(90) {
            commit(&mut writer, |change| half.iter().try_for_each(|number| change.delete::<Link>(*number)));
            encode_links(&store.snapshot());
        }
        assert_eq!(store.encoding_counts().rows_serialised, expected, "round {round}, shrunk");
    }
}

/// Counts how often it is called, and gives the other readers time to come.
struct Counting<'a> {
    calls: &'a AtomicUsize,
}

impl Encoder<Item> for Counting<'static> {
    type Encoded = Fragments;

    fn encode(&self, page: &Page<Item>, unchanged: &Unchanged<'_, Fragments>) -> Fragments {
        self.calls.fetch_add(1, Ordering::SeqCst);
        // Long enough for the others to arrive while it runs.
        (0..50).for_each(|_| drop(std::hint::black_box(fresh_bytes(page))));
        Bytes.encode(page, unchanged)
    }

    fn bytes(&self, encoded: &Fragments) -> usize {
        encoded.bytes.len()
    }
}

#[test]
fn readers_of_one_page_at_one_time_have_it_serialised_once() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let mut world = World::new(StoreLimits::default());
    let mut random = Generator::new(1);
    let numbers = world
        .change(|both| (0..60).map(|name| both.insert(Item::named(format!("{name}")))).collect::<Result<Vec<_>, _>>());
    for round in 0..10 {
        let snapshot = world.snapshot();
        let table = snapshot.table::<Item>();
        let pages = pages(table);
        assert_eq!(pages.len(), 1);
        let (before, calls) = (world.store.encoding_counts(), CALLS.load(Ordering::SeqCst));
        let barrier = Barrier::new(4);
        let encoded: Vec<Arc<Fragments>> = std::thread::scope(|scope| {
            let read = || {
                barrier.wait();
                table.encoded(&pages[0], &Counting { calls: &CALLS })
            };
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        assert_eq!(CALLS.load(Ordering::SeqCst) - calls, 1, "the page is serialised once for all");
        assert!(encoded.iter().all(|other| Arc::ptr_eq(other, &encoded[0])));
        let serialised = world.store.encoding_counts().rows_serialised - before.rows_serialised;
        assert_eq!(serialised, if round == 0 { 60 } else { 1 });
        let number = numbers[random.below(60)];
        let old = world.model.items.rows[&number.0].row.clone();
        let cpus = old.cpus + 1;
        world.change(|both| both.update(number.0, Item { cpus, ..(*old).clone() }));
    }
}

#[test]
fn readers_on_threads_get_right_encodings_while_the_writer_goes_on_and_pages_are_evicted() {
    with_seeds(2, |seed, mut random| {
        let limits = StoreLimits { encoding_bytes_max: 15_000, ..StoreLimits::default() };
        let mut world = World::new(limits);
        let space = Space { names: 100_000, ..SMALL };
        world.commit(&mut random, Space { insert_percent: 100, ..space }, 200);
        let store = world.store.clone();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let (store, done) = (&store, &done);
                scope.spawn(move || {
                    let mut random = Generator::new(seed * 10 + reader);
                    let mut held = Vec::new();
                    while !done.load(Ordering::SeqCst) {
                        let snapshot = store.snapshot();
                        read_all(&snapshot);
                        if held.len() < 5 {
                            held.push(snapshot);
                        } else {
                            read_all(&held[random.below(5)]);
                        }
                    }
                });
            }
            for _ in 0..60 {
                world.commit(&mut random, space, 5);
            }
            done.store(true, Ordering::SeqCst);
        });
        read_all(&store.snapshot());
    });
}

#[test]
fn what_is_freed_is_given_back_to_the_budget() {
    let (store, mut writer) = links(300, StoreLimits::default());
    encode_links(&store.snapshot());
    assert!(store.encoding_counts().bytes > 300 * 20);
    commit(&mut writer, |change| (1..=300).try_for_each(|number| change.delete::<Link>(RowNumber(number))));
    store.release_history();
    assert_eq!(store.encoding_counts().bytes, 0);
}

/// Panics when it is told to.
struct Panicking(bool);

impl Encoder<Link> for Panicking {
    type Encoded = Fragments;

    fn encode(&self, page: &Page<Link>, unchanged: &Unchanged<'_, Fragments>) -> Fragments {
        assert!(!self.0, "on purpose");
        Bytes.encode(page, unchanged)
    }

    fn bytes(&self, encoded: &Fragments) -> usize {
        encoded.bytes.len()
    }
}

#[test]
fn an_encoder_that_panics_hurts_nobody_else() {
    let (store, mut writer) = links(100, StoreLimits::default());
    let snapshot = store.snapshot();
    let table = snapshot.table::<Link>();
    let pages = pages(table);
    let panicked =
        std::thread::scope(|scope| scope.spawn(|| table.encoded(&pages[0], &Panicking(true))).join().is_err());
    assert!(panicked);
    assert_eq!(*table.encoded(&pages[0], &Panicking(false)), fresh_bytes(&pages[0]));
    commit(&mut writer, |change| (0..100).try_for_each(|weight| change.insert(link(weight)).map(drop)));
    let newest = store.snapshot();
    for page in self::pages(newest.table::<Link>()) {
        assert_eq!(*newest.table::<Link>().encoded(&page, &Panicking(false)), fresh_bytes(&page));
    }
}
