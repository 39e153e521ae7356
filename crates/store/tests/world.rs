//! A store with all tables beside its model, and random work for both.

use crate::generator::Generator;
use crate::model::{Model, Modelled};
use crate::rows::{Event, File, Item, Link, Notes, Phase, Section, Sighting};
use rollcall_schema::{BlobReference, Literal, Time, Unknown};
use rollcall_store::{
    ChangeError, Prepared, RowNumber, Snapshot, Store, StoreBuilder, StoreLimits, Transaction, Writer,
};
use std::sync::Arc;

pub struct World {
    pub store: Arc<Store>,
    pub writer: Writer,
    pub model: Model,
    pub micros: i64,
    /// The records of all commits so far, oldest first.
    pub records: Vec<Vec<u8>>,
    /// Blobs that the last commit let go of.
    pub released: Vec<[u8; 32]>,
}

/// How varied random rows are.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    pub owners: usize,
    pub names: usize,
    pub jobs: usize,
    pub hosts: usize,
    /// One item in so many carries up to 200 KiB; none if zero.
    pub large_every: usize,
    /// The share of inserts among the operations on items.
    pub insert_percent: usize,
    /// Whether commands do several things, of which the last may fail.
    pub undo: bool,
}

pub const SMALL: Space =
    Space { owners: 3, names: 40, jobs: 3, hosts: 2, large_every: 0, insert_percent: 40, undo: true };
pub const WIDE: Space =
    Space { owners: 6, names: 100_000, jobs: 40, hosts: 30, large_every: 0, insert_percent: 60, undo: true };
pub const LARGE_ROWS: Space =
    Space { owners: 2, names: 100_000, jobs: 5, hosts: 5, large_every: 8, insert_percent: 45, undo: true };

/// Why a command fails: the store's reason, or its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Failed {
    Change(ChangeError),
    OnPurpose,
}

impl From<ChangeError> for Failed {
    fn from(error: ChangeError) -> Failed {
        Failed::Change(error)
    }
}

pub fn all_tables(limits: StoreLimits) -> StoreBuilder {
    Store::builder(limits).table::<Item>().table::<Event>().table::<Sighting>().table::<Link>().table::<File>()
}

impl World {
    pub fn new(limits: StoreLimits) -> World {
        let (store, writer) = all_tables(limits).build();
        World { store, writer, model: Model::new(), micros: 0, records: Vec::new(), released: Vec::new() }
    }

    pub fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    pub fn check(&self) {
        self.model.check(&self.store.snapshot());
    }

    /// One commit of random commands; false if it changed nothing.
    pub fn commit(&mut self, random: &mut Generator, space: Space, commands: usize) -> bool {
        self.micros += random.below(3_000_000) as i64;
        let mut batch = self.writer.begin(Time::from_micros(self.micros));
        self.model.begin(batch.version());
        for _ in 0..commands {
            let before = self.model.clone();
            let model = &mut self.model;
            let result = batch.attempt(|change| command(&mut Both { change, model }, random, space));
            if result.is_err() {
                self.model = before;
            }
        }
        let prepared = batch.prepare();
        self.settle(prepared)
    }

    /// One commit of one command that must pass.
    pub fn change<T>(&mut self, command: impl FnOnce(&mut Both<'_, '_>) -> Result<T, ChangeError>) -> T {
        self.micros += 1;
        let mut batch = self.writer.begin(Time::from_micros(self.micros));
        self.model.begin(batch.version());
        let model = &mut self.model;
        let result = batch.attempt(|change| command(&mut Both { change, model })).unwrap();
        let prepared = batch.prepare();
        self.settle(prepared);
        result
    }

    fn settle(&mut self, prepared: Option<Prepared>) -> bool {
        let changed = self.model.end();
        assert_eq!(prepared.is_some(), changed, "a batch has a version if and only if it changed something");
        if let Some(prepared) = prepared {
            assert_eq!(prepared.version(), self.model.version);
            self.records.push(prepared.record());
            self.released.clone_from(&prepared.released_blobs);
            self.writer.publish(prepared);
        }
        changed
    }
}

/// A transaction and the model, which must agree about everything that is done to both.
pub struct Both<'a, 'b> {
    pub change: &'a mut Transaction<'b>,
    pub model: &'a mut Model,
}

impl Both<'_, '_> {
    pub fn insert<R: Modelled>(&mut self, row: R) -> Result<RowNumber, ChangeError> {
        let expected = self.model.insert(row.clone());
        let found = self.change.insert(row);
        assert_eq!(found, expected, "an insert");
        found
    }

    pub fn update<R: Modelled>(&mut self, number: u64, row: R) -> Result<(), ChangeError> {
        let expected = self.model.update(number, row.clone());
        let found = self.change.update(RowNumber(number), row);
        assert_eq!(found, expected, "an update");
        found
    }

    pub fn delete<R: Modelled>(&mut self, number: u64) -> Result<(), ChangeError> {
        let expected = self.model.delete::<R>(number);
        let found = self.change.delete::<R>(RowNumber(number));
        assert_eq!(found, expected, "a delete");
        found
    }

    /// Replaces what one source sees; the model deletes what is not seen any more, then changes and inserts in order.
    pub fn replace(&mut self, source: u32, rows: Vec<Sighting>) -> Result<usize, ChangeError> {
        let expected = self.model_replace(source, &rows);
        let found = self.change.replace_partition(&[Literal::from(source)], Sighting::WHAT, rows);
        assert_eq!(found, expected, "a partition replaced");
        found
    }

    fn model_replace(&mut self, source: u32, rows: &[Sighting]) -> Result<usize, ChangeError> {
        let before = self.model.sightings.select(|_, row| row.source == source);
        let mut changed = 0;
        for (number, old) in &before {
            if !rows.iter().any(|row| row.what == old.what) {
                self.model.delete::<Sighting>(*number)?;
                changed += 1;
            }
        }
        for row in rows {
            match before.iter().find(|(_, old)| old.what == row.what) {
                Some((_, old)) if **old == *row => {}
                Some((number, _)) => {
                    self.model.update(*number, row.clone())?;
                    changed += 1;
                }
                None => {
                    self.model.insert(row.clone())?;
                    changed += 1;
                }
            }
        }
        Ok(changed)
    }
}

/// A random command: some operations, after which one in eight fails on purpose.
fn command(both: &mut Both<'_, '_>, random: &mut Generator, space: Space) -> Result<(), Failed> {
    let operations = if space.undo && random.chance(30) { 1 + random.below(12) } else { 1 };
    for _ in 0..operations {
        match random.below(20) {
            0 => change_link(both, random)?,
            1 => change_file(both, random)?,
            2 => {
                let at = Time::from_micros(random.below(50) as i64);
                let (source, text) = (random.below(3) as u32, format!("event {}", random.below(1000)));
                both.insert(Event { source, at, text, unknown: Unknown::default() })?;
            }
            3 => {
                let source = random.below(3) as u32;
                let rows = random_sightings(random, source);
                both.replace(source, rows)?;
            }
            _ => change_item(both, random, space)?,
        }
    }
    if space.undo && random.chance(12) { Err(Failed::OnPurpose) } else { Ok(()) }
}

fn any_number<R: Modelled>(model: &Model, random: &mut Generator) -> u64 {
    let numbers: Vec<u64> = R::of(model).rows.keys().copied().collect();
    // Now and then a number that is not there, or one of another table.
    if numbers.is_empty() || random.chance(2) {
        random.next() % (model.next_number + 3)
    } else {
        *random.pick(&numbers)
    }
}

fn change_link(both: &mut Both<'_, '_>, random: &mut Generator) -> Result<(), ChangeError> {
    let mut number = || random.below(8) as u64;
    let link = Link { from: number(), to: number(), weight: number(), unknown: Unknown::default() };
    match random.below(4) {
        0 | 1 => both.insert(link).map(drop),
        2 => both.update(any_number::<Link>(both.model, random), link),
        _ => both.delete::<Link>(any_number::<Link>(both.model, random)),
    }
}

pub fn blob(random: &mut Generator) -> BlobReference {
    BlobReference([random.below(6) as u8; 32])
}

fn change_file(both: &mut Both<'_, '_>, random: &mut Generator) -> Result<(), ChangeError> {
    let file = File {
        shelf: random.chance(70).then(|| format!("shelf {}", random.below(3))),
        path: format!("/{}", random.below(30)),
        content: blob(random),
        before: random.chance(50).then(|| blob(random)),
        unknown: Unknown::default(),
    };
    match random.below(4) {
        0 | 1 => both.insert(file).map(drop),
        2 => both.update(any_number::<File>(both.model, random), file),
        _ => both.delete::<File>(any_number::<File>(both.model, random)),
    }
}

pub fn random_sightings(random: &mut Generator, source: u32) -> Vec<Sighting> {
    let mut rows = Vec::new();
    for what in 0..40 {
        if random.chance(40) {
            let address = random.chance(20).then(|| random.below(60) as u64);
            rows.push(Sighting { source, what, size: random.below(3) as u64, address, unknown: Unknown::default() });
        }
    }
    rows
}

fn change_item(both: &mut Both<'_, '_>, random: &mut Generator, space: Space) -> Result<(), ChangeError> {
    let kind = random.below(100);
    if kind < space.insert_percent {
        let item = random_item(random, space);
        return both.insert(item).map(drop);
    }
    let number = any_number::<Item>(both.model, random);
    if kind > 80 {
        return both.delete::<Item>(number);
    }
    let Some(old) = both.model.items.rows.get(&number).map(|found| (*found.row).clone()) else {
        return both.update(number, random_item(random, space));
    };
    let new = changed_item(random, space, old);
    both.update(number, new)
}

pub fn random_item(random: &mut Generator, space: Space) -> Item {
    let mut item = Item::named(format!("item {}", random.below(space.names)));
    item.owner = format!("owner {}", random.below(space.owners)).into();
    item.section = *random.pick(Section::ALL);
    (item.job, item.instance) = (random.below(space.jobs) as u32, random.below(200) as u32);
    item.label = random.chance(10).then(|| format!("label {}", random.below(space.names)));
    item.host = random.chance(70).then(|| format!("host {}", random.below(space.hosts)).into());
    item.rank = random.chance(60).then(|| random.below(7) as i64 - 3);
    item.phase = *random.pick(Phase::ALL);
    item.at = Time::from_micros(random.below(20) as i64 - 10);
    (item.cpus, item.memory) = (random.below(3000) as u64, random.below(1000) as u32);
    item.trace = u128::from(random.next()) << random.below(64);
    item.payload = random_payload(random, space);
    if random.chance(20) {
        item.notes = Notes((0..random.below(3)).map(|weight| (weight as u64, format!("note {weight}"))).collect());
    }
    item.blob = random.chance(10).then(|| blob(random));
    item
}

fn random_payload(random: &mut Generator, space: Space) -> Vec<u8> {
    let length = match space.large_every {
        0 => random.below(40),
        every if random.below(every) == 0 => *random.pick(&[3_000, 20_000, 60_000, 131_000, 132_000, 200_000]),
        _ => random.below(2000),
    };
    vec![length as u8; length]
}

/// The item with some columns, or all, changed; now and then with none.
pub fn changed_item(random: &mut Generator, space: Space, mut item: Item) -> Item {
    let other = random_item(random, space);
    match random.below(12) {
        0 => return other,
        1 => item.owner = other.owner,
        2 => item.section = other.section,
        3 => (item.phase, item.at) = (other.phase, other.at),
        4 => item.host = other.host,
        5 => item.rank = other.rank,
        6 => item.cpus = other.cpus,
        7 => item.payload = other.payload,
        8 => item.name = other.name,
        9 => (item.label, item.blob) = (other.label, other.blob),
        10 => (item.section, item.phase, item.memory) = (Section::Live, Phase::Running, other.memory),
        _ => {}
    }
    item
}
