//! Tables made at once against tables made row by row.

use crate::encoding::EncodingBudget;
use crate::load::ReadRows;
use crate::page::{AnyRow, Stored};
use crate::table::{Before, Scratch, Table};
use crate::tree::tests::Random;
use crate::tree::{KeyRange, PackedMap};
use crate::words::{PartitionId, RowNumber, Version};
use rollcall_schema::{Literal, Row, SharedText, Time, Unknown};
use std::sync::Arc;

/// A row whose keys are of every type, short and long.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(
    table = "keys",
    number = 1,
    partition(name, flag),
    computed(name = "even", with = Keys::is_even, of = bool, doc = "Whether its size is even."),
    index(name = "identifier", columns(identifier)),
    index(name = "identifier+name", columns(identifier, name)),
    index(name = "nullable identifier", columns(other_identifier)),
    index(name = "three identifiers", columns(other_identifier, identifier, size)),
    index(name = "name+size", columns(name, size), only_where = even),
    index(name = "size", columns(size)),
    index(name = "nullable size", columns(other_size, flag), only_where = flag),
    index(name = "signed+at", columns(signed, at)),
    index(name = "nullable at", columns(other_at)),
    index(name = "text+bytes", columns(other_name, bytes)),
    rollup(name = "by name", key(name, other_size), sums(size, other_size)),
    rollup(name = "by everything", key(identifier, signed, name), sums(), only_where = even),
    rollup(name = "all", key(), sums(size), only_where = flag)
)]
struct Keys {
    /// A column.
    #[row(tag = 1)]
    name: SharedText,
    /// A column.
    #[row(tag = 2)]
    other_name: Option<String>,
    /// A column.
    #[row(tag = 3)]
    flag: bool,
    /// A column.
    #[row(tag = 4)]
    size: u64,
    /// A column.
    #[row(tag = 5)]
    other_size: Option<u64>,
    /// A column.
    #[row(tag = 6)]
    signed: i64,
    /// A column.
    #[row(tag = 7)]
    at: Time,
    /// A column.
    #[row(tag = 8)]
    other_at: Option<Time>,
    /// A column.
    #[row(tag = 9)]
    identifier: u128,
    /// A column.
    #[row(tag = 10)]
    other_identifier: Option<u128>,
    /// A column.
    #[row(tag = 11)]
    bytes: Vec<u8>,
    /// Fields of a later version.
    #[row(unknown)]
    unknown: Unknown,
}

impl Keys {
    fn is_even(&self) -> bool {
        self.size.is_multiple_of(2)
    }

    /// A row with values below `spread`, and now and then the greatest and the least.
    fn any(random: &mut Random, spread: u64) -> Keys {
        let number = |random: &mut Random| match random.below(20) {
            0 => u64::MAX,
            1 => 0,
            2 => 1 << 63,
            _ => random.below(spread),
        };
        let (size, signed, at) = (number(random), number(random) as i64, number(random) as i64);
        let wide = |random: &mut Random| u128::from(number(random)) << 64 | u128::from(number(random));
        let (identifier, other) = (wide(random), wide(random));
        let some = |random: &mut Random| random.below(3) > 0;
        let name = |random: &mut Random| ["", "a", "a\0", "a\u{1}", "ab", "b"][random.below(6) as usize];
        Keys {
            name: name(random).into(),
            other_name: some(random).then(|| name(random).to_owned()),
            flag: some(random),
            size,
            other_size: some(random).then_some(size),
            signed,
            at: Time::from_micros(at),
            other_at: some(random).then(|| Time::from_micros(at)),
            identifier,
            other_identifier: some(random).then_some(other),
            bytes: name(random).as_bytes().to_vec(),
            unknown: Unknown::default(),
        }
    }
}

type Rows = Vec<(RowNumber, Arc<Stored<Keys>>)>;

/// Rows with different numbers, in any order.
fn rows(random: &mut Random, count: usize, spread: u64) -> Rows {
    let mut numbers: Vec<u64> = (0..count).map(|_| 1 + random.below(spread.max(4 * count as u64))).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, random.below(at as u64 + 1) as usize);
    }
    let stored = |number: u64, random: &mut Random| {
        Arc::new(Stored { changed: Version(1 + number % 7), row: Keys::any(random, spread) })
    };
    numbers.into_iter().map(|number| (RowNumber(number), stored(number, random))).collect()
}

fn at_once(budget: &Arc<EncodingBudget>, rows: &Rows) -> Table<Keys> {
    let runs = rows.chunks(1000).map(|run| run.iter().map(|(number, row)| (*number, row.clone() as Arc<dyn AnyRow>)));
    Table::from_rows(budget, &ReadRows::of_runs(runs.map(Iterator::collect).collect()), Version(9)).0
}

/// What a map holds: keys, and values, in which a partition is told by its values.
fn content(table: &Table<Keys>, map: &PackedMap, rollup: bool) -> Vec<(Vec<u8>, Vec<u8>, Vec<Literal<'static>>)> {
    let entries = map.range(KeyRange::all()).map(|entry| {
        let (mut key, mut value) = (Vec::new(), entry.value.to_vec());
        entry.put_key(&mut key);
        let partition = if rollup { key.split_off(key.len() - 3) } else { std::mem::take(&mut value) };
        let partition = table.partition(PartitionId::from_bytes(&partition)).expect("it is a partition of the table");
        (key, value, partition.values.to_vec())
    });
    entries.collect()
}

/// The content of a rollup with the groups of different partitions in an order that does not depend on their numbers.
fn groups(table: &Table<Keys>, map: &PackedMap) -> Vec<String> {
    let mut groups: Vec<String> = content(table, map, true).iter().map(|group| format!("{group:?}")).collect();
    groups.sort_unstable();
    groups
}

fn check_same(left: &Table<Keys>, right: &Table<Keys>) {
    assert_eq!((left.len(), left.row_bytes()), (right.len(), right.row_bytes()));
    let plain = |table: &Table<Keys>, map: &PackedMap| format!("{:?}", content(table, map, false));
    assert!(plain(left, left.numbers()) == plain(right, right.numbers()), "the map of numbers differs");
    for (position, index) in Keys::schema().indexes.iter().enumerate() {
        let (left_map, right_map) = (left.index(position), right.index(position));
        assert_eq!(left_map.len(), right_map.len(), "{}", index.name);
        assert!(plain(left, left_map) == plain(right, right_map), "index {} differs", index.name);
    }
    for (position, rollup) in Keys::schema().rollups.iter().enumerate() {
        let (left_map, right_map) = (left.rollups[position].read(), right.rollups[position].read());
        assert!(groups(left, left_map) == groups(right, right_map), "rollup {} differs", rollup.name);
    }
}

#[test]
fn a_table_made_at_once_is_the_one_made_row_by_row() {
    // Values that are few, some and all different; once so many rows that threads and buckets are used.
    let (few, some, many) = (2, 1_000, 1 << 47);
    for (seed, count, spread) in
        [(1, 0, some), (2, 1, many), (3, 300, few), (4, 300, some), (5, 2_000, many), (6, 40_000, some)]
    {
        println!("seed {seed}, spread {spread}");
        let budget = EncodingBudget::new(0);
        let rows = rows(&mut Random(seed), count, spread);
        let mut slowly = Table::new(&budget);
        let mut scratch = Scratch::default();
        for (number, row) in &rows {
            let changed = slowly.change(*number, Some(row.clone()), Before::Either, Version(9), &mut scratch).unwrap();
            let (partition, _) = changed.and_then(|changed| changed.new).unwrap();
            slowly.touch(partition, 1, Version(9));
        }
        let table = at_once(&budget, &rows);
        check_same(&table, &slowly);
        for (number, row) in &rows {
            assert_eq!(table.get(*number).map(|found| found.stored), Some(row));
        }
    }
}

#[test]
fn of_rows_that_come_twice_the_newest_is_taken() {
    for spread in [4, 1 << 40] {
        let budget = EncodingBudget::new(0);
        let once = rows(&mut Random(7), 500, spread);
        let older = once.iter().step_by(3).map(|(number, row)| {
            let mut row = Stored::clone(row);
            row.changed = Version(0);
            row.row.size ^= 1;
            (*number, Arc::new(row))
        });
        let twice = once.iter().cloned().chain(older).collect();
        check_same(&at_once(&budget, &twice), &at_once(&budget, &once));
    }
}
