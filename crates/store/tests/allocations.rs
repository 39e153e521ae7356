//! What reading and changing ask of the allocator.

use crate::allocator::counted;
use crate::queries::ten_thousand;
use crate::rows::{Item, Sighting};
use crate::world::Failed;
use rollcall_schema::{Time, Unknown};
use rollcall_store::{Query, RowNumber, StoreLimits};

#[test]
fn reading_all_rows_of_a_snapshot_allocates_next_to_nothing() {
    let world = ten_thousand(StoreLimits::default());
    let (found, counts) = counted(|| {
        let snapshot = world.store.snapshot();
        let rows = snapshot.table::<Item>().select(Query::all()).unwrap();
        rows.map(|row| row.row().cpus as usize + 1).sum::<usize>()
    });
    println!("10,000 rows: {counts:?}");
    assert_eq!(found, 10_000);
    assert!(counts.allocated <= 1024, "{counts:?}");
}

#[test]
fn a_lookup_by_an_index_allocates_little() {
    let world = ten_thousand(StoreLimits::default());
    let snapshot = world.store.snapshot();
    let table = snapshot.table::<Item>();
    let lookups: [fn() -> Query<'static>; 3] = [
        || Query::all().equal(Item::NAME, "item 04321"),
        || Query::all().equal(Item::JOB, 7u32).equal(Item::INSTANCE, 5u32),
        || Query::all().equal(Item::ACTIVE, true).equal(Item::HOST, "host 05").limit(3),
    ];
    for query in lookups {
        let (found, counts) = counted(|| table.select(query()).unwrap().count());
        println!("{:?}: {counts:?}", query());
        assert!(found > 0);
        assert!(counts.allocated <= 512, "{:?}: {counts:?}", query());
    }
    let (row, counts) = counted(|| table.get(RowNumber(5000)).is_some());
    assert!(row);
    assert_eq!(counts.allocated, 0);
}

#[test]
fn a_change_of_one_row_copies_little() {
    let mut world = ten_thousand(StoreLimits::default());
    let mut most = 0;
    for step in 0..100 {
        let number = RowNumber(1 + step * 97);
        let mut item = world.store.snapshot().table::<Item>().get(number).unwrap().row().clone();
        item.cpus += 1;
        let ((), counts) = counted(|| {
            let mut batch = world.writer.begin(Time::from_micros(1_000_000));
            batch.attempt(|change| change.update(number, item)).unwrap();
            let prepared = batch.prepare().unwrap();
            world.writer.publish(prepared);
        });
        most = most.max(counts.allocated);
    }
    println!("a change alone: at most {most} bytes");
    assert!(most <= 24 * 1024, "a change of one row asked for {most} bytes");
}

#[test]
fn what_a_failed_command_did_costs_readers_of_the_next_version_nothing() {
    let mut world = ten_thousand(StoreLimits::default());
    let mut batch = world.writer.begin(Time::from_micros(1_000_000));
    let failed: Result<(), Failed> = batch.attempt(|change| {
        for number in (1..=2_000).map(RowNumber) {
            change.delete::<Item>(number)?;
        }
        Err(Failed::OnPurpose)
    });
    assert_eq!(failed, Err(Failed::OnPurpose));
    batch
        .attempt(|change| {
            change.insert(Sighting { source: 1, what: 1, size: 1, address: None, unknown: Unknown::default() })
        })
        .unwrap();
    let prepared = batch.prepare().unwrap();
    world.writer.publish(prepared);
    let snapshot = world.store.snapshot();
    let (row, counts) = counted(|| snapshot.table::<Item>().get(RowNumber(5000)).is_some());
    assert!(row);
    assert_eq!(counts.allocated, 0);
}
