//! Old versions: snapshots that are held, `as_of`, what is kept for how long, and what it is said to cost.

use crate::allocator::counted;
use crate::generator::{Generator, with_seeds};
use crate::model::Model;
use crate::queries::{numbered, ten_thousand};
use crate::rows::{Item, Link};
use crate::world::{SMALL, Space, World};
use rollcall_schema::{Time, Unknown};
use rollcall_store::{
    AsOf, AsOfError, EVERY_SECOND_MICROS, EVERY_VERSION_MICROS, RowNumber, Snapshot, Store, StoreLimits, Version,
    Writer,
};
use std::sync::Arc;

#[test]
fn old_snapshots_equal_their_models_after_ten_thousand_later_commits() {
    with_seeds(1, |_, mut random| {
        let mut world = World::new(StoreLimits { watch_bytes_max: 1 << 20, ..StoreLimits::default() });
        let space = Space { names: 400, ..SMALL };
        let mut held: Vec<(Snapshot, Model)> = Vec::new();
        let mut commits = 0;
        while commits < 10_050 {
            if commits % 500 == 50 {
                held.push((world.snapshot(), world.model.clone()));
            }
            commits += usize::from(world.commit(&mut random, space, 1));
            // What the model does not need any more.
            world.records.clear();
        }
        for (snapshot, model) in held {
            model.check(&snapshot);
        }
        world.check();
    });
}

/// A store of one link whose weight changes with each commit.
struct Clock {
    store: Arc<Store>,
    writer: Writer,
    number: RowNumber,
    now: i64,
}

impl Clock {
    fn new(limits: StoreLimits) -> Clock {
        let (store, mut writer) = Store::builder(limits).table::<Link>().build();
        let mut batch = writer.begin(Time::from_micros(1));
        let number = batch.attempt(|change| change.insert(link(0))).unwrap();
        let prepared = batch.prepare().unwrap();
        writer.publish(prepared);
        Clock { store, writer, number, now: 1 }
    }

    fn tick(&mut self, micros: i64) {
        self.now += micros;
        let mut batch = self.writer.begin(Time::from_micros(self.now));
        let weight = batch.version().0;
        batch.attempt(|change| change.update(self.number, link(weight))).unwrap();
        let prepared = batch.prepare().unwrap();
        self.writer.publish(prepared);
    }

    /// All old versions that can be asked for, oldest first.
    fn kept(&self) -> Vec<(Version, Time)> {
        let newest = self.store.snapshot().version();
        let asked = (0..newest.0).filter_map(|version| self.store.as_of(AsOf::Version(Version(version))).ok());
        let mut kept: Vec<_> = asked.map(|snapshot| (snapshot.version(), snapshot.time())).collect();
        kept.dedup();
        kept
    }
}

fn link(weight: u64) -> Link {
    Link { from: 1, to: 2, weight, unknown: Unknown::default() }
}

/// The rule of thinning, applied until nothing more goes.
fn thin(kept: &mut Vec<(Version, Time)>, now: i64) {
    for (age, step) in [(EVERY_VERSION_MICROS as i64, 1_000_000), (EVERY_SECOND_MICROS as i64, 60_000_000)] {
        let slot = |time: Time| time.micros().div_euclid(step);
        while let Some(gone) = (1..kept.len()).find(|position| {
            let (elder, younger) = (kept[position - 1].1, kept[*position].1);
            younger.micros() < now - age && slot(elder) == slot(younger)
        }) {
            kept.remove(gone - 1);
        }
    }
}

#[test]
fn every_version_of_half_a_minute_is_kept_then_one_a_second_then_one_a_minute() {
    with_seeds(4, |_, mut random| {
        let mut clock = Clock::new(StoreLimits::default());
        let mut kept = vec![(Version(0), Time::EPOCH)];
        let tick = |clock: &mut Clock, kept: &mut Vec<_>, step: i64| {
            let newest = clock.store.snapshot();
            kept.push((newest.version(), newest.time()));
            clock.tick(step);
            thin(kept, clock.now);
        };
        for _ in 0..700 {
            let step: i64 = match random.below(100) {
                0..=29 => 100_000,
                30..=69 => 700_000,
                70..=89 => 3_000_000,
                90..=97 => 25_000_000,
                _ => 300_000_000,
            };
            tick(&mut clock, &mut kept, step + random.below(50_000) as i64);
            // One commit looks at a bounded number of versions; after a long silence the next ones go on.
            (0..if step > 10_000_000 { 6 } else { 0 }).for_each(|_| tick(&mut clock, &mut kept, 1));
            assert_eq!(clock.store.retained().1, kept.len(), "at {}", clock.now);
        }
        assert_eq!(clock.kept(), kept);
        check_as_of(&clock, &kept, &mut random);
    });
}

fn check_as_of(clock: &Clock, kept: &[(Version, Time)], random: &mut Generator) {
    let newest = clock.store.snapshot();
    let mut all = kept.to_vec();
    all.push((newest.version(), newest.time()));
    let found = |when| clock.store.as_of(when).map(|snapshot| (snapshot.version(), snapshot.time()));
    for _ in 0..200 {
        let version = Version(random.next() % (newest.version().0 + 3));
        let expected = match all.iter().rev().find(|(kept, _)| *kept <= version) {
            _ if version > newest.version() => Err(AsOfError::NotYet { newest: (newest.version(), newest.time()) }),
            Some(found) => Ok(*found),
            None => Err(AsOfError::TooOld { oldest: all[0] }),
        };
        assert_eq!(found(AsOf::Version(version)), expected);
        let time = Time::from_micros((random.next() % (clock.now as u64 + 10)) as i64 - 5);
        let expected = all.iter().rev().find(|(_, kept)| *kept <= time).copied();
        assert_eq!(found(AsOf::Time(time)), expected.ok_or(AsOfError::TooOld { oldest: all[0] }));
    }
    for (version, _) in kept.iter().filter(|(version, _)| version.0 > 1) {
        let snapshot = clock.store.as_of(AsOf::Version(*version)).unwrap();
        assert_eq!(snapshot.table::<Link>().get(clock.number).unwrap().row().weight, version.0);
    }
}

#[test]
fn a_burst_before_a_long_silence_is_thinned_by_the_commits_after_it() {
    let mut clock = Clock::new(StoreLimits::default());
    // A second's worth of 50 versions, ten times.
    for _ in 0..500 {
        clock.tick(20_000);
    }
    clock.tick(40_000_000);
    for _ in 0..20 {
        clock.tick(1000);
    }
    let kept = clock.kept();
    let of_burst = kept.iter().filter(|(_, time)| time.micros() < 20_000_000).count();
    assert!(of_burst <= 12, "{of_burst} versions of ten seconds are kept");
}

#[test]
fn versions_of_one_moment_are_found_by_their_order() {
    let mut clock = Clock::new(StoreLimits::default());
    for step in [0, 0, 5, 0, 0] {
        clock.tick(step);
    }
    let at = |micros| clock.store.as_of(AsOf::Time(Time::from_micros(micros))).unwrap().version();
    assert_eq!((at(0), at(1), at(5), at(6), at(100)), (Version(0), Version(3), Version(3), Version(6), Version(6)));
}

#[test]
fn what_is_no_longer_held_or_not_yet_there_is_said_exactly() {
    let mut clock = Clock::new(StoreLimits::default());
    clock.tick(1_500_000);
    clock.store.release_history();
    assert_eq!(clock.store.retained(), (0, 0));
    let error = clock.store.as_of(AsOf::Version(Version(1))).map(drop).unwrap_err();
    assert_eq!(error, AsOfError::TooOld { oldest: (Version(2), Time::from_micros(1_500_001)) });
    assert_eq!(error.to_string(), "that is no longer held: the oldest version held is 2, committed at 1.500001");
    let error = clock.store.as_of(AsOf::Version(Version(3))).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "that has not happened yet: the newest version is 2, committed at 1.500001");
    assert_eq!(clock.store.as_of(AsOf::Version(Version(2))).unwrap().version(), Version(2));
    clock.tick(1);
    assert_eq!(clock.kept(), [(Version(2), Time::from_micros(1_500_001))]);
}

#[test]
fn old_versions_keep_to_their_budget_and_the_oldest_go_first() {
    let mut clock = Clock::new(StoreLimits { retained_bytes_max: 30_000, ..StoreLimits::default() });
    let mut most = 0;
    for _ in 0..200 {
        clock.tick(1000);
        let (bytes, count) = clock.store.retained();
        assert!(bytes <= 30_000);
        most = most.max(count);
        let kept = clock.kept();
        let newest = clock.store.snapshot().version().0;
        let expected: Vec<_> = (newest - count as u64..newest).map(Version).collect();
        assert!(kept.iter().map(|(version, _)| *version).eq(expected), "the youngest are kept: {kept:?}");
    }
    assert!(most > 5 && most < 150, "{most} versions in 30,000 bytes");
}

/// Runs commits, then compares what the store says it holds for old versions with what comes free when they go.
fn check_charge(what: &str, world: &mut World, commits: usize, mut change: impl FnMut(&mut World, usize)) {
    world.store.release_history();
    for commit in 0..commits {
        change(world, commit);
    }
    let (charged, count) = world.store.retained();
    assert_eq!(count, commits, "{what}: nothing has gone yet");
    let ((), counts) = counted(|| world.store.release_history());
    let ratio = charged as f64 / (counts.freed - counts.allocated) as f64;
    println!("{what}: charged {charged}, freed {}, ratio {ratio:.2}", counts.freed);
    assert!((0.7..=1.5).contains(&ratio), "{what}: {charged} bytes charged, {} freed", counts.freed);
}

fn commit(
    world: &mut World,
    changes: impl Fn(&mut rollcall_store::Transaction<'_>) -> Result<(), rollcall_store::ChangeError>,
) {
    world.micros += 10;
    let mut batch = world.writer.begin(Time::from_micros(world.micros));
    batch.attempt(changes).unwrap();
    let prepared = batch.prepare().unwrap();
    world.writer.publish(prepared);
}

fn row_of(world: &World, random: &mut Generator) -> (RowNumber, Item) {
    let snapshot = world.snapshot();
    loop {
        let number = RowNumber(1 + random.below(10_000) as u64);
        if let Some(row) = snapshot.table::<Item>().get(number) {
            return (number, row.row().clone());
        }
    }
}

#[test]
fn what_old_versions_are_charged_is_what_comes_free_when_they_go() {
    let mut random = Generator::new(1);
    // Watchers hold rows too; here only old versions are to hold any.
    let mut world = ten_thousand(limits_of(usize::MAX));
    check_charge("one column of one row", &mut world, 500, |world, commit_number| {
        let (number, mut item) = row_of(world, &mut random);
        item.cpus = commit_number as u64 + 1;
        commit(world, |change| change.update(number, item.clone()));
    });
    check_charge("an indexed column of one row", &mut world, 500, |world, commit_number| {
        let (number, mut item) = row_of(world, &mut random);
        item.at = Time::from_micros(commit_number as i64 + 100_000);
        commit(world, |change| change.update(number, item.clone()));
    });
    check_charge("rows of 4 KiB", &mut world, 300, |world, commit_number| {
        let (number, mut item) = row_of(world, &mut random);
        item.payload = vec![commit_number as u8; 4096 + commit_number / 256];
        commit(world, |change| change.update(number, item.clone()));
    });
    check_charge("moves between partitions", &mut world, 300, |world, commit_number| {
        let (number, mut item) = row_of(world, &mut random);
        item.owner = format!("owner {}", commit_number % 20).into();
        item.cpus += 1;
        commit(world, |change| change.update(number, item.clone()));
    });
    check_charge("batches of 64 rows", &mut world, 50, |world, commit_number| {
        let rows: Vec<_> = (0..64).map(|_| row_of(world, &mut random)).collect();
        commit(world, |change| {
            for (number, item) in &rows {
                change.update(*number, Item { cpus: commit_number as u64 + 7000, ..item.clone() })?;
            }
            Ok(())
        });
    });
    check_charge("rows changed three times in a batch", &mut world, 100, |world, commit_number| {
        let (number, item) = row_of(world, &mut random);
        commit(world, |change| {
            (0..3).try_for_each(|time| {
                change.update(number, Item { cpus: (commit_number * 3 + time) as u64 + 9000, ..item.clone() })
            })
        });
    });
    check_charge("inserts", &mut world, 500, |world, commit_number| {
        commit(world, |change| change.insert(numbered(20_000 + commit_number)).map(drop));
    });
    check_charge("deletes", &mut world, 500, |world, _| {
        let (number, _) = row_of(world, &mut random);
        commit(world, |change| change.delete::<Item>(number));
    });
}

#[test]
fn the_charge_of_a_small_store_with_many_partitions_is_honest_too() {
    let mut world = World::new(limits_of(usize::MAX));
    commit(&mut world, |change| {
        (0..1000)
            .try_for_each(|row| change.insert(Item { owner: format!("owner {row}").into(), ..numbered(row) }).map(drop))
    });
    check_charge("a thousand partitions of one row", &mut world, 500, |world, commit_number| {
        let number = RowNumber(commit_number as u64 + 1);
        let item = world.snapshot().table::<Item>().get(number).unwrap().row().clone();
        commit(world, |change| change.update(number, Item { cpus: 5, ..item.clone() }));
    });
    let mut clock = Clock::new(limits_of(usize::MAX));
    for _ in 0..300 {
        clock.tick(10);
    }
    let (charged, _) = clock.store.retained();
    let ((), counts) = counted(|| clock.store.release_history());
    let ratio = charged as f64 / counts.freed as f64;
    println!("a table of one row: charged {charged}, freed {}, ratio {ratio:.2}", counts.freed);
    assert!((0.7..=1.5).contains(&ratio), "{charged} bytes charged, {} freed", counts.freed);
}

fn limits_of(retained_bytes_max: usize) -> StoreLimits {
    StoreLimits { watch_bytes_max: 0, retained_bytes_max, ..StoreLimits::default() }
}

#[test]
fn the_charge_does_not_understate_what_is_held_when_versions_are_thinned() {
    let mut random = Generator::new(2);
    let mut world = ten_thousand(limits_of(usize::MAX));
    world.store.release_history();
    for commit_number in 0..2000 {
        let (number, mut item) = row_of(&world, &mut random);
        item.cpus = commit_number + 1;
        world.micros += 100_000;
        commit(&mut world, |change| change.update(number, item.clone()));
    }
    let (charged, count) = world.store.retained();
    assert!(count < 600, "{count} versions are kept of 200 s");
    let ((), counts) = counted(|| world.store.release_history());
    let ratio = charged as f64 / counts.freed as f64;
    println!("thinned: {count} versions, charged {charged}, freed {}, ratio {ratio:.2}", counts.freed);
    assert!((0.7..=4.0).contains(&ratio), "{charged} bytes charged, {} freed", counts.freed);
}

#[test]
fn a_version_that_was_seen_can_be_asked_for_while_the_next_ones_are_published() {
    let mut clock = Clock::new(StoreLimits::default());
    let store = clock.store.clone();
    let (told, done) = std::sync::mpsc::sync_channel::<()>(0);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while done.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                let seen = store.snapshot().version();
                let found = store.as_of(AsOf::Version(seen)).map(|snapshot| snapshot.version());
                assert_eq!(found, Ok(seen));
            }
        });
        // Within the time in which every version is kept.
        (0..20_000).for_each(|_| clock.tick(1));
        drop(told);
    });
}
