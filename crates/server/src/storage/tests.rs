//! What a data folder must be to be opened.

use super::{StorageError, open};
use rollcall_log::{DurabilityClass, Epoch, Log, OpenError, Options, RealDisk};
use rollcall_schema::{Row, Time, Unknown};
use rollcall_store::{Store, StoreBuilder, StoreLimits};
use std::collections::BTreeMap;
use std::path::Path;

/// A row.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(table = "dots", number = 1, partition())]
struct Dot {
    /// A column.
    #[row(tag = 1)]
    size: u64,
    #[row(unknown)]
    unknown: Unknown,
}

fn builder() -> StoreBuilder {
    Store::builder(StoreLimits::default()).table::<Dot>()
}

fn options(epoch: u64) -> Options {
    Options::new(Epoch(epoch), 1, "0.1.0")
}

/// Makes a folder of a checkpoint, if there is to be one, and so many records, which all change one row; `spoil` may change the bytes of each.
fn fill(folder: &Path, checkpoint: bool, records: u64, spoil: impl Fn(u64, &mut Vec<u8>)) {
    let (_, mut writer) = builder().build();
    let opening = Log::open(RealDisk::new(folder).unwrap(), options(1)).unwrap();
    let (mut log, _) = opening.replay(|_| Ok::<(), OpenError>(())).unwrap();
    for record in 1..=records {
        let mut batch = writer.begin(Time::from_micros(record as i64));
        let dot = Dot { size: record, unknown: Unknown::default() };
        let done = batch.attempt(|change| match record {
            1 => change.insert(dot).map(drop),
            _ => change.update(rollcall_store::RowNumber(1), dot),
        });
        done.unwrap();
        let prepared = batch.prepare().unwrap();
        let mut bytes = prepared.record();
        spoil(record, &mut bytes);
        let version = rollcall_log::Version(prepared.snapshot().version().0);
        log.append(version, &[&bytes], Epoch(1), DurabilityClass::Committed).unwrap();
        let snapshot = prepared.snapshot().clone();
        writer.publish(prepared);
        if checkpoint && record == records / 2 {
            let mut file = log.checkpoint_writer(version).unwrap();
            snapshot.write_checkpoint(|chunk| file.write(chunk)).unwrap();
            log.checkpoint_done(file.finish().unwrap()).unwrap();
        }
    }
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file() && !path.ends_with("lock"));
    files.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
}

#[test]
fn the_newest_version_of_a_row_is_loaded_from_checkpoint_and_log() {
    for checkpoint in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path(), checkpoint, 200, |_, _| {});
        let opened = open(RealDisk::new(folder.path()).unwrap(), options(2), builder()).unwrap();
        assert_eq!(opened.replayed, if checkpoint { 100 } else { 200 });
        let snapshot = opened.store.snapshot();
        let rows = snapshot.table::<Dot>().select(rollcall_store::Query::all()).unwrap();
        assert_eq!(rows.map(|row| row.row().size).collect::<Vec<_>>(), [200]);
        assert!(snapshot.version().0 >= 200);
    }
}

#[test]
fn a_broken_record_is_named_and_its_folder_left_as_it_was() {
    for (checkpoint, broken) in [(false, 1), (false, 150), (true, 150), (true, 200)] {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path(), checkpoint, 200, |record, bytes| {
            if record == broken {
                bytes.pop();
            }
        });
        let before = files(folder.path());
        match open(RealDisk::new(folder.path()).unwrap(), options(2), builder()).map(drop) {
            Err(StorageError::Content { place, .. }) => {
                assert!(place.starts_with("record "), "{place}");
                let sequence: u64 = place["record ".len()..].parse().unwrap();
                // The reserve of the first start is a record too.
                assert!((broken..broken + 5).contains(&sequence), "{place} for the record of change {broken}");
            }
            other => panic!("{other:?}"),
        }
        assert!(files(folder.path()) == before, "the folder was changed");
    }
}
