//! The naive model of a table, and the comparison of a table with it.

use crate::oracle::{Cell, cells};
use crate::rows::{Event, File, Item, Link, Sighting};
use rollcall_schema::{BlobReference, Literal, Row};
use rollcall_store::{
    AnyRow, ChangeError, Condition, Operator, Order, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Query, RowNumber, Snapshot, Sort,
    Table, Totals, Version,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A row of the model and the version that last changed it.
#[derive(Clone, Debug)]
pub struct ModelRow<R> {
    pub row: Arc<R>,
    pub changed: Version,
}

#[derive(Clone, Debug)]
pub struct ModelTable<R> {
    pub rows: BTreeMap<u64, ModelRow<R>>,
    /// The last version that changed each partition that has rows.
    pub partitions: BTreeMap<Vec<Cell>, Version>,
    pub changed_at: Version,
    /// The last version at which the set of partitions was another one than before.
    pub set_changed_at: Version,
    touched: BTreeSet<Vec<Cell>>,
}

impl<R> Default for ModelTable<R> {
    fn default() -> Self {
        ModelTable {
            rows: BTreeMap::new(),
            partitions: BTreeMap::new(),
            changed_at: Version::NOTHING,
            set_changed_at: Version::NOTHING,
            touched: BTreeSet::new(),
        }
    }
}

/// Every table.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub items: ModelTable<Item>,
    pub events: ModelTable<Event>,
    pub sightings: ModelTable<Sighting>,
    pub links: ModelTable<Link>,
    pub files: ModelTable<File>,
    pub next_number: u64,
    pub version: Version,
}

/// A row type that the model knows.
pub trait Modelled: Row {
    fn of(model: &Model) -> &ModelTable<Self>;
    fn of_mut(model: &mut Model) -> &mut ModelTable<Self>;
}

macro_rules! modelled {
    ($($row:ty => $field:ident),*) => {$(
        impl Modelled for $row {
            fn of(model: &Model) -> &ModelTable<Self> {
                &model.$field
            }
            fn of_mut(model: &mut Model) -> &mut ModelTable<Self> {
                &mut model.$field
            }
        }
    )*};
}

modelled!(Item => items, Event => events, Sighting => sightings, Link => links, File => files);

impl Model {
    pub fn new() -> Model {
        Model { next_number: 1, ..Model::default() }
    }

    /// Starts a batch that will have this version.
    pub fn begin(&mut self, version: Version) {
        self.version = version;
    }

    pub fn insert<R: Modelled>(&mut self, row: R) -> Result<RowNumber, ChangeError> {
        let number = self.next_number;
        let version = self.version;
        R::of_mut(self).put(number, row, version)?;
        self.next_number += 1;
        Ok(RowNumber(number))
    }

    pub fn update<R: Modelled>(&mut self, number: u64, row: R) -> Result<(), ChangeError> {
        let version = self.version;
        match R::of(self).rows.get(&number) {
            None => Err(no_such_row::<R>(number)),
            Some(old) if *old.row == row => Ok(()),
            Some(_) => R::of_mut(self).put(number, row, version),
        }
    }

    pub fn delete<R: Modelled>(&mut self, number: u64) -> Result<(), ChangeError> {
        let table = R::of_mut(self);
        let old = table.rows.remove(&number).ok_or_else(|| no_such_row::<R>(number))?;
        table.touched.insert(cells(&*old.row, R::schema().partition));
        Ok(())
    }

    /// Ends a batch; false if it changed nothing.
    pub fn end(&mut self) -> bool {
        let version = self.version;
        let changed = [
            self.items.end(version),
            self.events.end(version),
            self.sightings.end(version),
            self.links.end(version),
            self.files.end(version),
        ];
        changed.contains(&true)
    }

    /// Compares every table of a snapshot with the model.
    pub fn check(&self, snapshot: &Snapshot) {
        check_table(snapshot.table(), &self.items);
        check_table(snapshot.table(), &self.events);
        check_table(snapshot.table(), &self.sightings);
        check_table(snapshot.table(), &self.links);
        check_table(snapshot.table(), &self.files);
        self.check_blobs(snapshot);
    }

    fn check_blobs(&self, snapshot: &Snapshot) {
        let mut counts: HashMap<[u8; 32], u64> = HashMap::new();
        let mut count = |blob: &BlobReference| *counts.entry(blob.0).or_default() += 1;
        self.items.rows.values().for_each(|found| found.row.blobs(&mut count));
        self.files.rows.values().for_each(|found| found.row.blobs(&mut count));
        for seed in 0..=u8::MAX {
            let expected = counts.remove(&[seed; 32]).unwrap_or(0);
            assert_eq!(snapshot.blob_references(&[seed; 32]), expected, "references to blob {seed}");
        }
        assert!(counts.is_empty(), "the tests name blobs by one byte");
    }
}

fn no_such_row<R: Row>(number: u64) -> ChangeError {
    ChangeError::NoSuchRow { table: R::schema().name, number: RowNumber(number) }
}

fn is_true<R: Row>(only_where: Option<usize>, row: &R) -> bool {
    only_where.is_none_or(|column| Cell::of(row.value(column)) == Cell::Boolean(true))
}

impl<R: Row> ModelTable<R> {
    fn put(&mut self, number: u64, row: R, version: Version) -> Result<(), ChangeError> {
        for index in R::schema().indexes.iter().filter(|index| index.unique && is_true(index.only_where, &row)) {
            let key = cells(&row, index.columns);
            if key.contains(&Cell::Null) {
                continue;
            }
            let taken = self.rows.iter().find(|(other, found)| {
                **other != number
                    && is_true(index.only_where, &*found.row)
                    && index.columns.iter().zip(&key).all(|(column, cell)| {
                        let value = cell.literal();
                        found.row.value(*column).equals(&value.value())
                    })
            });
            if let Some((other, _)) = taken {
                let (table, other) = (R::schema().name, RowNumber(*other));
                return Err(ChangeError::NotUnique { table, index: index.name, other });
            }
        }
        self.touched.insert(cells(&row, R::schema().partition));
        if let Some(old) = self.rows.insert(number, ModelRow { row: Arc::new(row), changed: version }) {
            self.touched.insert(cells(&*old.row, R::schema().partition));
        }
        Ok(())
    }

    fn end(&mut self, version: Version) -> bool {
        if self.touched.is_empty() {
            return false;
        }
        self.changed_at = version;
        for partition in std::mem::take(&mut self.touched) {
            let has_rows = self.rows.values().any(|found| cells(&*found.row, R::schema().partition) == partition);
            let known = if has_rows {
                self.partitions.insert(partition, version).is_some()
            } else {
                // One that came and went within the commit was never there.
                self.partitions.remove(&partition).is_none()
            };
            if !known {
                self.set_changed_at = version;
            }
        }
        true
    }

    /// The rows that pass, with their numbers, in an order.
    pub fn select(&self, passes: impl Fn(u64, &R) -> bool) -> Vec<(u64, Arc<R>)> {
        let passing = self.rows.iter().filter(|(number, found)| passes(**number, &found.row));
        passing.map(|(number, found)| (*number, found.row.clone())).collect()
    }
}

/// Compares a table with the model: rows, pages, partitions, indexes, rollups and sizes.
pub fn check_table<R: Row>(table: &Table<R>, model: &ModelTable<R>) {
    let name = R::schema().name;
    assert_eq!(table.len(), model.rows.len(), "rows of {name}");
    assert_eq!(table.is_empty(), model.rows.is_empty());
    assert_eq!(table.changed_at(), model.changed_at, "changed_at of {name}");
    check_content(table, model);
    for partition in table.partitions() {
        let values: Vec<_> = partition.values.iter().map(|value| Cell::of(value.value())).collect();
        assert_eq!(Some(&partition.changed_at), model.partitions.get(&values), "changed_at of {values:?} of {name}");
    }
    assert_eq!(table.partitions_changed_at(), model.set_changed_at, "when the set of partitions of {name} changed");
    check_changed_at_for(table, model);
}

/// The part of [`check_table`] that also holds after a restart, which knows less of when a table was changed.
pub fn check_content<R: Row>(table: &Table<R>, model: &ModelTable<R>) {
    let name = R::schema().name;
    for (number, expected) in &model.rows {
        let found = table.get(RowNumber(*number)).unwrap_or_else(|| panic!("row {number} of {name} is not there"));
        assert_eq!(found.number.0, *number);
        assert_eq!(*found.row(), *expected.row, "row {number} of {name}");
        assert_eq!(found.stored.changed, expected.changed, "changed stamp of row {number} of {name}");
    }
    let past = model.rows.last_key_value().map_or(1, |(number, _)| number + 1);
    for absent in (0..=past).chain([u64::MAX, RowNumber::MAX.0]).filter(|number| !model.rows.contains_key(number)) {
        assert!(table.get(RowNumber(absent)).is_none(), "row {absent} of {name} is there");
    }
    check_pages(table, model);
    check_partitions(table, model);
    for index in 0..R::schema().indexes.len() {
        check_index(table, model, index);
    }
    check_rollups(table, model);
}

fn check_pages<R: Row>(table: &Table<R>, model: &ModelTable<R>) {
    let name = R::schema().name;
    let rows = table.select(Query::all()).unwrap();
    let pages: Vec<_> = rows.whole_pages().expect("a query for everything has whole pages").collect();
    let (mut numbers, mut bytes, mut last) = (Vec::new(), 0, None);
    for page in pages {
        let partition = table.partition(page.partition()).expect("a page's partition is one of the table's");
        assert!(!page.is_empty() && page.len() <= PAGE_ROWS_MAX, "a page of {name} has {} rows", page.len());
        assert_eq!((page.len(), page.is_empty()), (page.rows().len(), false));
        let page_bytes: usize = page.rows().iter().map(|row| row.row_bytes()).sum();
        assert!(
            page_bytes <= PAGE_BYTES_MAX || page.len() == 1,
            "a page of {name} has {} rows of {page_bytes} bytes",
            page.len()
        );
        bytes += page_bytes;
        for (number, stored) in page.numbers().zip(page.rows()) {
            let at = Some((page.partition(), number));
            assert!(last < at, "pages of {name} are not in order at {at:?}");
            last = at;
            let values: Vec<_> = partition.values.iter().map(|value| Cell::of(value.value())).collect();
            assert_eq!(values, cells(&stored.row, R::schema().partition), "{name} mixes partitions in a page");
            numbers.push(number.0);
        }
    }
    assert_eq!(table.row_bytes(), bytes, "row_bytes of {name}");
    numbers.sort_unstable();
    assert!(numbers.iter().eq(model.rows.keys()), "pages of {name} lack rows or have them twice");
}

fn check_partitions<R: Row>(table: &Table<R>, model: &ModelTable<R>) {
    let name = R::schema().name;
    let mut expected: BTreeMap<Vec<Cell>, usize> = BTreeMap::new();
    for found in model.rows.values() {
        *expected.entry(cells(&*found.row, R::schema().partition)).or_default() += 1;
    }
    let mut found = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for partition in table.partitions() {
        let values: Vec<_> = partition.values.iter().map(|value| Cell::of(value.value())).collect();
        assert!(found.insert(values, partition.rows).is_none(), "a partition of {name} is there twice");
        assert!(ids.insert(partition.id), "two partitions of {name} have one number");
        assert_eq!(table.partition(partition.id).unwrap().values, partition.values);
    }
    assert_eq!(found, expected, "partitions of {name}");
    assert_eq!(table.partition_count(), expected.len());
}

fn check_changed_at_for<R: Row>(table: &Table<R>, model: &ModelTable<R>) {
    assert_eq!(table.changed_at_for(None), model.changed_at);
    for chosen in model.partitions.keys() {
        let visible = table.visible(|values| values.map(Cell::of).eq(chosen.iter().cloned()));
        let expected = model.partitions[chosen].max(model.set_changed_at);
        assert_eq!(table.changed_at_for(Some(&visible)), expected);
    }
}

/// A query that wants the whole of an index, or as much of it as a partial one holds.
pub fn whole_index<R: Row>(index: usize, falling: bool) -> Query<'static> {
    let index = &R::schema().indexes[index];
    let sorts = index.columns.iter().map(|column| Sort { column: *column, falling }).collect();
    let query = Query::all().order(Order::By(sorts)).limit(usize::MAX);
    match index.only_where {
        Some(column) => query.filter(Condition::Compare { column, operator: Operator::Equal, value: true.into() }),
        None => query,
    }
}

fn check_index<R: Row>(table: &Table<R>, model: &ModelTable<R>, position: usize) {
    let index = &R::schema().indexes[position];
    let included = model.rows.iter().filter(|(_, found)| is_true(index.only_where, &*found.row));
    let mut expected: Vec<_> = included.map(|(number, found)| (cells(&*found.row, index.columns), *number)).collect();
    expected.sort();
    for falling in [false, true] {
        let mut rows = table.select(whole_index::<R>(position, falling)).unwrap();
        let found: Vec<u64> = rows.by_ref().map(|row| row.number.0).collect();
        assert_eq!(rows.explanation().index, Some(index.name), "the planner takes another index");
        assert_eq!(rows.explanation().rows_read, expected.len(), "the index holds as many rows as it should");
        assert!(found.iter().eq(expected.iter().map(|(_, number)| number)), "order of index {}", index.name);
        expected.reverse();
    }
}

fn check_rollups<R: Row>(table: &Table<R>, model: &ModelTable<R>) {
    // Every second partition is visible.
    let seen: Vec<_> = table.partitions().filter(|partition| partition.id.0 % 2 == 0).collect();
    let seen: Vec<Vec<Cell>> =
        seen.iter().map(|partition| partition.values.iter().map(|value| Cell::of(value.value())).collect()).collect();
    let visible = table.visible(|values| {
        let values: Vec<_> = values.map(Cell::of).collect();
        seen.contains(&values)
    });
    for rollup in R::schema().rollups {
        let mut groups: BTreeMap<Vec<Cell>, [Totals; 2]> = BTreeMap::new();
        let mut entries = BTreeSet::new();
        for found in model.rows.values().filter(|found| is_true(rollup.only_where, &*found.row)) {
            let key = cells(&*found.row, rollup.key);
            let partition = cells(&*found.row, R::schema().partition);
            entries.insert((key.clone(), partition.clone()));
            let wanted = if seen.contains(&partition) { 2 } else { 1 };
            // Each row counts in its group and in every group of fewer columns.
            for length in 0..=key.len() {
                let totals = groups.entry(key[..length].to_vec()).or_default();
                for total in &mut totals[..wanted] {
                    total.count += 1;
                    total.sums.resize(rollup.sums.len(), 0);
                    for (sum, column) in total.sums.iter_mut().zip(rollup.sums) {
                        let Cell::Unsigned(number) = Cell::of(found.row.value(*column)) else { continue };
                        *sum += number;
                    }
                }
            }
        }
        assert_eq!(table.group_count(rollup.name), Some(entries.len()), "groups of {}", rollup.name);
        for (key, [mut all, mut visible_only]) in groups {
            let group: Vec<Literal<'_>> = key.iter().map(Cell::literal).collect();
            all.sums.resize(rollup.sums.len(), 0);
            visible_only.sums.resize(rollup.sums.len(), 0);
            assert_eq!(table.totals(rollup.name, &group, None), Some(all), "{} of {key:?}", rollup.name);
            assert_eq!(table.totals(rollup.name, &group, Some(&visible)), Some(visible_only), "{}", rollup.name);
        }
    }
    assert_eq!(table.totals("no such rollup", &[], None), None);
}
