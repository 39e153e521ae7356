//! Random sequences of everything that changes a store, compared with the model after each commit.

use crate::generator::with_seeds;
use crate::rows::{Item, Phase, Sighting};
use crate::world::{Failed, LARGE_ROWS, SMALL, Space, WIDE, World};
use rollcall_schema::{Literal, Time, Unknown};
use rollcall_store::{ChangeError, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Query, RowNumber, StoreLimits, Version};

fn run(seeds: u64, space: Space, commits: usize, commands_max: usize) {
    with_seeds(seeds, |_, mut random| {
        let mut world = World::new(StoreLimits::default());
        for _ in 0..commits {
            let commands = 1 + random.below(commands_max);
            world.commit(&mut random, space, commands);
            world.check();
        }
    });
}

#[test]
fn a_store_of_few_names_equals_its_model_after_each_commit() {
    run(6, SMALL, 60, 12);
}

#[test]
fn a_store_of_many_names_equals_its_model_after_each_commit() {
    run(2, WIDE, 10, 200);
}

#[test]
fn pages_keep_their_bounds_when_rows_are_large_or_grow() {
    run(3, LARGE_ROWS, 30, 30);
}

/// How many pages the items lie in.
fn item_pages(world: &World) -> usize {
    let snapshot = world.snapshot();
    let rows = snapshot.table::<Item>().select(Query::all()).unwrap();
    rows.whole_pages().unwrap().count()
}

#[test]
fn pages_fill_in_arrival_order_and_join_when_rows_go() {
    let mut world = World::new(StoreLimits::default());
    let numbers = world.change(|both| {
        (0..10 * PAGE_ROWS_MAX).map(|name| both.insert(Item::named(format!("{name}")))).collect::<Result<Vec<_>, _>>()
    });
    world.check();
    assert_eq!(item_pages(&world), 10, "rows that come in order fill pages");
    for keep in [4, 40] {
        world.change(|both| {
            for number in numbers.iter().filter(|number| number.0 % keep != 0) {
                if both.model.items.rows.contains_key(&number.0) {
                    both.delete::<Item>(number.0)?;
                }
            }
            Ok(())
        });
        world.check();
    }
    assert!(item_pages(&world) <= 2, "16 rows lie in {} pages", item_pages(&world));
    world.change(|both| both.model.items.rows.clone().keys().try_for_each(|number| both.delete::<Item>(*number)));
    world.check();
    assert_eq!(item_pages(&world), 0);
}

#[test]
fn a_row_that_outgrows_its_page_stands_alone_and_leaves_its_neighbours_together() {
    let mut world = World::new(StoreLimits::default());
    let numbers = world
        .change(|both| (0..60).map(|name| both.insert(Item::named(format!("{name}")))).collect::<Result<Vec<_>, _>>());
    for (position, pages) in [(30, 3), (0, 4), (59, 5)] {
        world.change(|both| {
            let mut item = Item::named(format!("{position}"));
            item.payload = vec![7; PAGE_BYTES_MAX];
            both.update(numbers[position].0, item)
        });
        world.check();
        assert_eq!(item_pages(&world), pages);
    }
}

#[test]
fn a_moved_row_keeps_its_number_and_its_place_by_number_in_the_other_partition() {
    let mut world = World::new(StoreLimits::default());
    // Two partitions whose rows come by turns, so that moved rows go between others.
    let numbers = world.change(|both| {
        let item = |name: usize| Item { owner: format!("{}", name % 2).into(), ..Item::named(format!("{name}")) };
        (0..600).map(|name| both.insert(item(name))).collect::<Result<Vec<_>, _>>()
    });
    for half in [0, 1] {
        world.change(|both| {
            for (name, number) in numbers.iter().enumerate().filter(|(name, _)| name % 2 == half) {
                both.update(number.0, Item { owner: "0".into(), ..Item::named(format!("{name}")) })?;
            }
            Ok(())
        });
        world.check();
    }
    let snapshot = world.snapshot();
    assert_eq!(snapshot.table::<Item>().partition_count(), 1);
    let rows = snapshot.table::<Item>().select(Query::all()).unwrap();
    assert!(rows.map(|row| row.number).eq(numbers), "one partition is read in order of numbers");
}

fn sighting(what: u64, size: u64) -> Sighting {
    Sighting { source: 1, what, size, address: None, unknown: Unknown::default() }
}

#[test]
fn replacing_a_partition_by_what_it_holds_is_no_commit() {
    let mut world = World::new(StoreLimits::default());
    let rows: Vec<_> = (0..300).map(|what| sighting(what, what)).collect();
    assert_eq!(world.change(|both| both.replace(1, rows.clone())), 300);
    let version = world.snapshot().version();
    assert_eq!(world.change(|both| both.replace(1, rows.iter().rev().cloned().collect())), 0);
    assert_eq!(world.snapshot().version(), version, "equal content has no version of its own");
    let fewer: Vec<_> = (5..301).map(|what| sighting(what, what / 10 * 10)).collect();
    world.change(|both| both.replace(1, fewer));
    world.check();
    assert_eq!(world.change(|both| both.replace(1, Vec::new())), 296);
    world.check();
    assert_eq!(world.snapshot().table::<Sighting>().partition_count(), 0);
}

#[test]
fn a_failed_command_leaves_no_number_no_partition_and_no_version_behind() {
    let mut world = World::new(StoreLimits::default());
    world.change(|both| both.insert(Item::named("first")));
    let before = world.snapshot();
    let mut batch = world.writer.begin(Time::from_micros(9));
    let failed: Result<(), Failed> = batch.attempt(|change| {
        let mut item = Item::named("second");
        item.owner = "somebody new".into();
        assert_eq!(change.insert(item.clone())?, RowNumber(2));
        item.phase = Phase::Running;
        change.update(RowNumber(2), item)?;
        change.delete::<Item>(RowNumber(1))?;
        change.insert(sighting(1, 1))?;
        Err(Failed::OnPurpose)
    });
    assert_eq!(failed, Err(Failed::OnPurpose));
    assert!(batch.prepare().is_none());
    world.check();
    assert_eq!(world.snapshot().version(), before.version());
    assert_eq!(world.change(|both| both.insert(Item::named("second"))), RowNumber(2));
    assert_eq!(world.snapshot().version(), before.version().next());
    world.check();
}

#[test]
fn a_table_that_only_a_failed_command_touched_is_published_as_it_was() {
    let mut world = World::new(StoreLimits::default());
    let number = world.change(|both| both.insert(Item::named("kept")));
    for deletes in [false, true] {
        let mut batch = world.writer.begin(Time::from_micros(9));
        let failed: Result<(), Failed> = batch.attempt(|change| {
            change.insert(Item::named("undone"))?;
            if deletes {
                change.delete::<Item>(number)?;
            }
            Err(Failed::OnPurpose)
        });
        assert_eq!(failed, Err(Failed::OnPurpose));
        batch.attempt(|change| change.insert(sighting(u64::from(deletes), 1))).unwrap();
        let prepared = batch.prepare().expect("a row was inserted");
        let items = prepared.snapshot().table::<Item>();
        let found: Vec<_> =
            items.select(Query::all().equal(Item::NAME, "kept")).unwrap().map(|row| row.number).collect();
        assert_eq!((found, items.len()), (vec![number], 1));
        world.writer.publish(prepared);
    }
}

#[test]
fn later_commands_of_a_batch_see_earlier_ones_and_not_failed_ones() {
    let mut world = World::new(StoreLimits::default());
    let mut batch = world.writer.begin(Time::from_micros(9));
    let insert =
        |name: &'static str| move |change: &mut rollcall_store::Transaction<'_>| change.insert(Item::named(name));
    let first = batch.attempt(insert("a")).unwrap();
    let taken = ChangeError::NotUnique { table: "items", index: "name", other: first };
    assert_eq!(batch.attempt(insert("a")), Err(taken));
    batch
        .attempt(|change| -> Result<(), Failed> {
            insert("b")(change)?;
            Err(Failed::OnPurpose)
        })
        .unwrap_err();
    let second = batch.attempt(insert("b")).unwrap();
    assert_eq!(second, RowNumber(2));
    let prepared = batch.prepare().unwrap();
    assert_eq!(prepared.changes().len(), 2);
    assert_eq!(prepared.snapshot().table::<Item>().len(), 2);
    assert_eq!(world.store.snapshot().table::<Item>().len(), 0, "nothing is visible before it is published");
    world.writer.publish(prepared);
    assert_eq!(world.store.snapshot().table::<Item>().len(), 2);
}

#[test]
fn batches_prepared_behind_each_other_are_abandoned_together_and_their_versions_are_gone() {
    let mut world = World::new(StoreLimits::default());
    world.change(|both| both.insert(Item::named("kept")));
    let mut prepare = |name: &'static str, micros| {
        let mut batch = world.writer.begin(Time::from_micros(micros));
        batch.attempt(|change| change.insert(Item::named(name))).unwrap();
        batch.prepare().unwrap()
    };
    let (first, second) = (prepare("lost", 50), prepare("lost too", 40));
    assert_eq!((first.version(), second.version()), (Version(2), Version(3)));
    assert_eq!(second.snapshot().table::<Item>().len(), 3, "the second is prepared on top of the first");
    assert_eq!(second.snapshot().time(), Time::from_micros(50), "time does not go back");
    drop((first, second));
    world.writer.abandon();
    world.check();
    world.writer.skip_versions(Version(100));
    world.change(|both| both.insert(Item::named("later")));
    assert_eq!(world.snapshot().version(), Version(101));
    world.check();
}

#[test]
fn commands_are_refused_when_what_they_relied_on_has_changed() {
    let mut world = World::new(StoreLimits::default());
    let number = world.change(|both| both.insert(Item::named("a")));
    let read = world.snapshot().version();
    let mut batch = world.writer.begin(Time::from_micros(9));
    batch
        .attempt(|change| {
            change.require_unchanged::<Item>(number, read)?;
            change.require_table_unchanged::<Item>(read)?;
            change.update(number, Item::named("b"))
        })
        .unwrap();
    let outdated = Err(ChangeError::Outdated { table: "items", changed_at: 2, since: 1 });
    let unchanged = batch.attempt(|change| change.require_unchanged::<Item>(number, read));
    assert_eq!(unchanged, outdated);
    assert_eq!(batch.attempt(|change| change.require_table_unchanged::<Item>(read)), outdated);
    assert_eq!(batch.attempt(|change| change.require_table_unchanged::<Sighting>(read)), Ok(()));
    let absent = ChangeError::NoSuchRow { table: "items", number: RowNumber(77) };
    assert_eq!(batch.attempt(|change| change.require_unchanged::<Item>(RowNumber(77), read)), Err(absent));
}

#[test]
fn a_partition_is_found_by_its_values_however_odd_they_are() {
    let mut world = World::new(StoreLimits::default());
    let owners = ["", "\0", "\u{1}", "a", "a\0", "aa", "\u{10ffff}"];
    world.change(|both| {
        owners.iter().try_for_each(|owner| {
            both.insert(Item { owner: (*owner).into(), ..Item::named(format!("of {owner}")) }).map(drop)
        })
    });
    world.check();
    let snapshot = world.snapshot();
    let table = snapshot.table::<Item>();
    for owner in owners {
        let visible =
            table.visible(|values| matches!(values.next(), Some(rollcall_schema::Value::Text(text)) if text == owner));
        let found: Vec<_> = table.select(Query::all().visible(Some(&visible))).unwrap().collect();
        assert_eq!(found.len(), 1);
        assert_eq!(&*found[0].row().owner, owner);
        assert_eq!(
            Literal::from(owner),
            table.partitions().find(|partition| visible.contains(partition.id)).unwrap().values[0]
        );
    }
}
