//! Watching: what a watcher pieces together from events is what a query would have told it, at every version.

use crate::generator::{Generator, with_seeds};
use crate::oracle::{self, Cell};
use crate::rows::{Item, Link, Phase};
use crate::world::{SMALL, Space, World};
use rollcall_schema::{Row, Time, Unknown};
use rollcall_store::{
    AnyRow, ChangeError, Compacted, Condition, ConditionError, EventKind, Operator, Query, RowNumber, Snapshot, Store,
    StoreLimits, Stored, Table, Transaction, Version, Visible, Watch, Writer,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A watcher with the copy that it keeps by what it is told.
struct Watcher {
    watch: Watch,
    conditions: Vec<Condition<'static>>,
    /// The owners whose items it may see; all of them if `None`.
    owners: Option<BTreeSet<String>>,
    copy: BTreeMap<u64, (Item, Version)>,
    last: (Version, usize),
}

fn visible_to(owners: Option<&BTreeSet<String>>, table: &Table<Item>) -> Option<Visible> {
    let owners = owners?;
    Some(table.visible(|values| match Cell::of(values.next().unwrap()) {
        Cell::Text(owner) => owners.contains(&owner),
        _ => false,
    }))
}

impl Watcher {
    fn new(store: &Store, conditions: Vec<Condition<'static>>, owners: Option<BTreeSet<String>>) -> Watcher {
        let snapshot = store.snapshot();
        let watch = Watch::new::<Item>(store, snapshot.version(), conditions.clone()).unwrap();
        let mut watcher = Watcher { watch, conditions, owners, copy: BTreeMap::new(), last: (snapshot.version(), 0) };
        watcher.copy = watcher.wanted(&snapshot);
        watcher
    }

    fn random(store: &Store, random: &mut Generator) -> Watcher {
        let condition = match random.below(5) {
            0 => None,
            1 => Some(Condition::equal(Item::ACTIVE, true)),
            2 => Some(Condition::equal(Item::HOST, "host 1")),
            3 => {
                let at_least = Condition::Compare {
                    column: Item::CPUS.position(),
                    operator: Operator::GreaterOrEqual,
                    value: 1500u64.into(),
                };
                let null = Condition::IsNull { column: Item::RANK.position() };
                Some(Condition::Or(vec![at_least, Condition::Not(Box::new(null))]))
            }
            _ => Some(Condition::equal(Item::PHASE, Phase::Waiting)),
        };
        let owners = random
            .chance(60)
            .then(|| (0..3).filter(|_| random.chance(50)).map(|owner| format!("owner {owner}")).collect());
        Watcher::new(store, condition.into_iter().collect(), owners)
    }

    /// What a query with its filter finds.
    fn wanted(&self, snapshot: &Snapshot) -> BTreeMap<u64, (Item, Version)> {
        let table = snapshot.table::<Item>();
        let visible = visible_to(self.owners.as_ref(), table);
        let query = self.conditions.iter().cloned().fold(Query::all(), Query::filter).visible(visible.as_ref());
        let rows = table.select(query).unwrap();
        rows.map(|row| (row.number.0, (row.row().clone(), row.stored.changed))).collect()
    }

    fn go_on(&mut self, store: &Store, commits_max: usize) -> Result<usize, Compacted> {
        let newest = store.snapshot();
        let visible = visible_to(self.owners.as_ref(), newest.table::<Item>());
        let before = self.watch.position();
        let events = self.watch.next(store, visible.as_ref(), commits_max)?;
        for event in &events {
            assert!(event.version > before && event.version <= self.watch.position());
            assert!((event.version, event.index) > self.last || self.last.0 == before, "events are in order");
            self.last = (event.version, event.index);
            let stored: &Stored<Item> = event.row().as_any().downcast_ref().unwrap();
            let matches = self.conditions.iter().all(|condition| oracle::matches(&stored.row, condition));
            assert!(matches, "a watcher is shown a row that it did not ask for");
            let owner_seen = self.owners.as_ref().is_none_or(|owners| owners.contains(&*stored.row.owner));
            assert!(owner_seen, "a watcher is shown a row that it may not see");
            let new = (stored.row.clone(), stored.changed);
            let known = match event.kind {
                EventKind::Went => self.copy.remove(&event.number.0).map(|old| assert_eq!(old, new)),
                EventKind::Came => {
                    assert_eq!(self.copy.insert(event.number.0, new), None, "a row that is there comes");
                    None
                }
                EventKind::Changed => self.copy.insert(event.number.0, new).map(drop),
            };
            assert_eq!(known.is_some(), event.kind != EventKind::Came, "a row that was not there changes or goes");
        }
        Ok(events.len())
    }
}

#[test]
fn events_piece_together_what_a_query_finds_at_each_version() {
    with_seeds(6, |_, mut random| {
        let mut world = World::new(StoreLimits::default());
        let mut versions: BTreeMap<Version, Snapshot> = BTreeMap::new();
        let mut watchers: Vec<Watcher> = Vec::new();
        let mut events = 0;
        for round in 0..120 {
            // Few rows at times, so that partitions come and go.
            let insert_percent = if round / 20 % 2 == 0 { 40 } else { 3 };
            world.commit(&mut random, Space { names: 30, insert_percent, ..SMALL }, 4);
            versions.insert(world.snapshot().version(), world.snapshot());
            if watchers.len() < 8 {
                watchers.push(Watcher::random(&world.store, &mut random));
            }
            for watcher in &mut watchers {
                if random.chance(50) {
                    events += watcher.go_on(&world.store, 1 + random.below(6)).unwrap();
                    let at = watcher.watch.position();
                    assert_eq!(watcher.copy, watcher.wanted(&versions[&at]), "at version {at}");
                }
            }
        }
        for watcher in &mut watchers {
            watcher.go_on(&world.store, usize::MAX).unwrap();
            assert_eq!(watcher.watch.position(), world.snapshot().version());
            assert_eq!(watcher.copy, watcher.wanted(&world.snapshot()));
        }
        assert!(events > 300, "{events} events");
    });
}

#[test]
fn a_watcher_hears_of_the_last_row_of_a_partition_going() {
    let mut world = World::new(StoreLimits::default());
    let number = world.change(|both| both.insert(Item { owner: "owner 1".into(), ..Item::named("only") }));
    let hidden = world.change(|both| both.insert(Item { owner: "owner 2".into(), ..Item::named("hidden") }));
    let owners = || Some(BTreeSet::from(["owner 1".to_owned(), "owner 3".to_owned()]));
    let mut watcher = Watcher::new(&world.store, Vec::new(), owners());
    let mut late = Watcher::new(&world.store, Vec::new(), owners());
    world.change(|both| both.delete::<Item>(number.0));
    world.change(|both| both.delete::<Item>(hidden.0));
    assert_eq!(watcher.go_on(&world.store, 10).unwrap(), 1);
    assert!(watcher.copy.is_empty());
    // A partition that comes, moves away and comes again, all before the watcher looks.
    let item = |owner: &str| Item { owner: owner.into(), ..Item::named("again") };
    let number = world.change(|both| both.insert(item("owner 1")));
    world.change(|both| both.update(number.0, item("owner 3")));
    world.change(|both| both.update(number.0, item("owner 2")));
    world.change(|both| both.update(number.0, item("owner 1")));
    for watcher in [&mut watcher, &mut late] {
        watcher.go_on(&world.store, 10).unwrap();
        assert_eq!(watcher.copy, watcher.wanted(&world.snapshot()));
        assert_eq!(watcher.copy.len(), 1);
    }
    world.check();
}

#[test]
fn grants_of_today_apply_to_changes_of_yesterday() {
    let mut world = World::new(StoreLimits::default());
    let mut watcher = Watcher::new(&world.store, Vec::new(), Some(BTreeSet::new()));
    world.change(|both| both.insert(Item { owner: "owner 1".into(), ..Item::named("a") }));
    assert_eq!(watcher.go_on(&world.store, 10).unwrap(), 0, "nothing is granted");
    world.change(|both| both.insert(Item { owner: "owner 1".into(), ..Item::named("b") }));
    watcher.owners = Some(BTreeSet::from(["owner 1".to_owned()]));
    assert_eq!(watcher.go_on(&world.store, 10).unwrap(), 1, "granted when it asks, whenever the row came");
    world.change(|both| both.insert(Item { owner: "owner 1".into(), ..Item::named("c") }));
    watcher.owners = Some(BTreeSet::new());
    assert_eq!(watcher.go_on(&world.store, 10).unwrap(), 0, "revoked when it asks");
}

fn link(weight: u64) -> Link {
    Link { from: 1, to: 2, weight, unknown: Unknown::default() }
}

fn commit(writer: &mut Writer, change: impl FnOnce(&mut Transaction<'_>) -> Result<(), ChangeError>) {
    let mut batch = writer.begin(Time::EPOCH);
    batch.attempt(change).unwrap();
    let prepared = batch.prepare().unwrap();
    writer.publish(prepared);
}

fn links(limits: StoreLimits) -> (Arc<Store>, Writer) {
    Store::builder(limits).table::<Link>().build()
}

#[test]
fn who_is_too_far_behind_is_told_to_read_again() {
    let (store, mut writer) = links(StoreLimits { watch_bytes_max: 4000, ..StoreLimits::default() });
    let mut behind = Watch::new::<Link>(&store, Version::NOTHING, Vec::new()).unwrap();
    for weight in 0..100 {
        commit(&mut writer, |change| change.insert(link(weight)).map(drop));
    }
    let compacted = behind.next(&store, None, 10).map(drop).unwrap_err();
    assert_eq!(compacted.position, Version::NOTHING);
    assert!(compacted.floor > Version(50) && compacted.floor < Version(100), "{compacted:?}");
    assert_eq!(behind.position(), Version::NOTHING, "the watch does not move");
    let mut at_floor = Watch::new::<Link>(&store, compacted.floor, Vec::new()).unwrap();
    let events = at_floor.next(&store, None, usize::MAX).unwrap();
    assert_eq!(events.len() as u64, 100 - compacted.floor.0);
    assert_eq!(events[0].version, compacted.floor.next());
    // A commit that is larger than the ring is not held at all.
    commit(&mut writer, |change| (0..100).try_for_each(|weight| change.insert(link(weight)).map(drop)));
    let floor = store.snapshot().version();
    assert_eq!(at_floor.next(&store, None, 1).map(drop).unwrap_err(), Compacted { position: Version(100), floor });
}

#[test]
fn history_released_compacts_every_watch_that_is_behind() {
    let (store, mut writer) = links(StoreLimits::default());
    let mut behind = Watch::new::<Link>(&store, Version::NOTHING, Vec::new()).unwrap();
    let mut ahead = Watch::new::<Link>(&store, Version(1), Vec::new()).unwrap();
    commit(&mut writer, |change| change.insert(link(1)).map(drop));
    store.release_history();
    assert_eq!(behind.next(&store, None, 1).map(drop).unwrap_err().floor, Version(1));
    assert_eq!(ahead.next(&store, None, 1).unwrap().len(), 0);
    commit(&mut writer, |change| change.insert(link(2)).map(drop));
    assert_eq!(ahead.next(&store, None, 1).unwrap().len(), 1);
}

#[test]
fn no_event_is_lost_when_history_is_released_beside_commits() {
    let (store, mut writer) = links(StoreLimits::default());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // More threads than cores, so that some are held up between any two steps.
        for _ in 0..6 {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    store.release_history();
                }
            });
        }
        let mut watch = Watch::new::<Link>(&store, Version::NOTHING, Vec::new()).unwrap();
        let (mut seen, mut compacted) = (0, 0);
        for weight in 0..5_000 {
            commit(&mut writer, |change| match weight {
                0 => change.insert(link(1)).map(drop),
                _ => change.update(RowNumber(1), link(weight + 1)),
            });
            match watch.next(&store, None, 10) {
                Ok(events) if events.is_empty() => {
                    done.store(true, Ordering::SeqCst);
                    panic!("version {} came and was not shown, after {seen} that were", store.snapshot().version());
                }
                Ok(events) => seen += events.len(),
                Err(Compacted { floor, .. }) => {
                    compacted += 1;
                    watch = Watch::new::<Link>(&store, floor, Vec::new()).unwrap();
                }
            }
        }
        done.store(true, Ordering::SeqCst);
        println!("{seen} events, compacted {compacted} times");
    });
}

#[test]
fn a_condition_that_does_not_fit_is_refused_and_other_tables_are_not_heard() {
    let mut world = World::new(StoreLimits::default());
    let refused = Watch::new::<Item>(&world.store, Version(0), vec![Condition::equal(Item::JOB, "x")]).map(drop);
    assert_eq!(refused, Err(ConditionError::WrongType { table: "items", column: "job", expected: "unsigned" }));
    let mut watch = Watch::new::<Item>(&world.store, Version(0), Vec::new()).unwrap();
    world.change(|both| both.insert(link(1)));
    assert_eq!(watch.next(&world.store, None, 5).unwrap().len(), 0);
    assert_eq!(watch.position(), Version(1), "what is of other tables is passed over");
    world.change(|both| {
        both.insert(link(2))?;
        let number = both.insert(Item::named("a"))?;
        both.update(number.0, Item { cpus: 1, ..Item::named("a") })
    });
    let events = watch.next(&world.store, None, 5).unwrap();
    let kinds: Vec<_> = events.iter().map(|event| (event.index, event.kind, event.time)).collect();
    let time = world.snapshot().time();
    assert_eq!(kinds, [(1, EventKind::Came, time), (2, EventKind::Changed, time)]);
    let row: &dyn AnyRow = events[1].row();
    assert_eq!(Cell::of(row.column(Item::schema().column("cpus").unwrap())), Cell::Unsigned(1));
}

#[test]
fn everybody_is_told_after_a_version_is_visible() {
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let teller = told.clone();
    let builder = Store::builder(StoreLimits::default()).table::<Link>();
    let (store, mut writer) = builder.on_publish(Box::new(move |version| teller.lock().unwrap().push(version))).build();
    commit(&mut writer, |change| change.insert(link(1)).map(drop));
    assert_eq!(*told.lock().unwrap(), [Version(1)]);
    assert_eq!(store.snapshot().version(), Version(1));
}

#[test]
fn partitions_that_went_are_forgotten_with_the_changes_of_their_rows() {
    let mut world = World::new(StoreLimits { watch_bytes_max: 20_000, ..StoreLimits::default() });
    let mut most = 0;
    for round in 0..1000 {
        world.change(|both| {
            let number = both.insert(Item { owner: format!("owner {round}").into(), ..Item::named("a") })?;
            let gone = number.0.checked_sub(1).filter(|before| both.model.items.rows.contains_key(before));
            gone.map_or(Ok(()), |before| both.delete::<Item>(before))?;
            both.update(number.0, Item { owner: format!("owner {round}").into(), ..Item::named(format!("b{round}")) })
        });
        let snapshot = world.snapshot();
        let mut known = 0;
        snapshot.table::<Item>().visible(|_| {
            known += 1;
            true
        });
        most = most.max(known);
        assert_eq!(snapshot.table::<Item>().partition_count(), 1);
    }
    assert!(most > 2 && most < 40, "{most} partitions are known at once");
    world.check();
}
