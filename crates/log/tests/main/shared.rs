//! What must hold on any disk, run on the real one and on the simulated one.

use std::collections::BTreeMap;
use std::io::IoSlice;

use rollcall_log::AppendError;
use rollcall_log::BlobError;
use rollcall_log::CheckpointError;
use rollcall_log::Disk;
use rollcall_log::DiskFile;
use rollcall_log::DurabilityClass::Committed;
use rollcall_log::DurabilityClass::Relaxed;
use rollcall_log::Epoch;
use rollcall_log::FORMAT_NUMBER;
use rollcall_log::Log;
use rollcall_log::MAX_NUMBER;
use rollcall_log::MAX_RECORD_BYTES;
use rollcall_log::OpenError;
use rollcall_log::Options;
use rollcall_log::RealDisk;
use rollcall_log::Recovered;
use rollcall_log::Version;
use rollcall_sim::SimulatedDisk;

use crate::server::small;

/// Each test of the suite, once for each disk.
macro_rules! on_both_disks {
    ($($name:ident)*) => {
        mod real {
            $(#[test] fn $name() {
                let folder = tempfile::tempdir().unwrap();
                super::$name(super::RealDisk::new(folder.path().join("deep/data")).unwrap());
            })*
        }
        mod simulated {
            $(#[test] fn $name() { super::$name(super::SimulatedDisk::new(1)); })*
        }
    };
}

on_both_disks! {
    batches_come_back_in_order
    a_batch_larger_than_a_segment_gets_its_own
    a_batch_above_the_limit_is_refused
    a_segment_made_ready_on_another_thread_is_used
    a_checkpoint_replaces_what_came_before_it
    chunks_are_read_in_any_order_by_two_threads
    a_checkpoint_that_lacks_batches_is_refused
    an_unfinished_checkpoint_leaves_nothing
    a_version_is_never_used_twice
    an_older_epoch_is_shut_out
    an_idle_log_proves_its_last_batch_once
    a_second_server_is_kept_out
    a_newer_format_is_refused_and_left_untouched
    the_format_file_names_the_last_writer
    blobs_are_kept_once_and_checked
}

/// Everything in a folder, to the byte.
pub fn contents<D: Disk>(disk: &D) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let file = disk.open(&name).unwrap();
        let mut bytes = vec![0; file.size().unwrap() as usize];
        let read = file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(read, bytes.len());
        (name, bytes)
    };
    disk.list("").unwrap().into_iter().filter(|name| name != "blobs").map(read).collect()
}

type Batches = Vec<(u64, Vec<u8>)>;

fn open_with<D: Disk>(disk: &D, options: Options) -> Result<(Log<D>, Recovered, Batches), OpenError> {
    let mut batches = Vec::new();
    let (log, recovered) = Log::open(disk.clone(), options)?.replay(|record| {
        batches.push((record.version.0, record.payload.to_vec()));
        Ok::<(), OpenError>(())
    })?;
    Ok((log, recovered, batches))
}

fn open<D: Disk>(disk: &D) -> (Log<D>, Recovered, Batches) {
    open_with(disk, small(1)).unwrap()
}

fn put<D: Disk>(disk: &D, name: &str, bytes: &[u8]) {
    if disk.exists(name).unwrap() {
        disk.remove(name).unwrap();
    }
    let file = disk.create(name).unwrap();
    file.write_at(&[IoSlice::new(bytes)], 0).unwrap();
    file.sync_all().unwrap();
}

fn batches_come_back_in_order<D: Disk>(disk: D) {
    let mut written = Vec::new();
    for start in 0..4 {
        let (mut log, recovered, found) = open(&disk);
        assert_eq!(found, written, "start {start}");
        assert_eq!(recovered.warnings, []);
        assert_eq!(recovered.batches, written.len() as u64);
        assert_eq!(recovered.last_version.0, written.last().map_or(0, |(version, _)| *version));
        for number in 0..40u64 {
            let version = recovered.next_version.0 + number;
            let payload = vec![number as u8; (number * 13 % 301) as usize];
            let (front, back) = payload.split_at(payload.len() / 3);
            let class = if number % 3 == 0 { Committed } else { Relaxed };
            let appended = log.append(Version(version), &[front, &[], back], Epoch(1), class).unwrap();
            assert_eq!(appended.durable, class == Committed);
            assert_eq!(log.needs_sync(), !appended.durable);
            written.push((version, payload));
        }
        if start % 2 == 0 {
            log.close().unwrap();
        }
    }
    let segments = disk.list("").unwrap().iter().filter(|name| name.starts_with("segment-")).count();
    assert!(segments > 4, "the test crosses few borders: {segments} segments");
}

fn a_batch_larger_than_a_segment_gets_its_own<D: Disk>(disk: D) {
    let (mut log, recovered, _) = open(&disk);
    let large = vec![7; 50_000];
    let version = recovered.next_version.0;
    log.append(Version(version), &[&[1; 2900]], Epoch(1), Relaxed).unwrap();
    // The segment that is ready is too small.
    log.segment_preparer().unwrap().prepare().unwrap();
    log.append(Version(version + 1), &[&large], Epoch(1), Committed).unwrap();
    log.append(Version(version + 2), &[b"after"], Epoch(1), Committed).unwrap();
    drop(log);
    let (_, _, found) = open(&disk);
    assert_eq!(found.iter().map(|(_, payload)| payload.len()).collect::<Vec<_>>(), [2900, 50_000, 5]);
}

fn a_batch_above_the_limit_is_refused<D: Disk>(disk: D) {
    let (mut log, recovered, _) = open(&disk);
    let mebibyte = vec![0; 1 << 20];
    let mut parts = vec![mebibyte.as_slice(); MAX_RECORD_BYTES >> 20];
    parts.push(&[1]);
    let result = log.append(recovered.next_version, &parts, Epoch(1), Committed);
    assert!(matches!(result, Err(AppendError::TooLarge { bytes }) if bytes == MAX_RECORD_BYTES as u64 + 1));
    log.append(recovered.next_version, &[b"small"], Epoch(1), Committed).unwrap();
}

fn a_segment_made_ready_on_another_thread_is_used<D: Disk>(disk: D) {
    let (mut log, recovered, _) = open(&disk);
    assert!(log.segment_preparer().is_none(), "nothing is made ready before it is near");
    let mut version = recovered.next_version.0;
    let preparer = loop {
        log.append(Version(version), &[&[3; 100]], Epoch(1), Relaxed).unwrap();
        version += 1;
        if let Some(preparer) = log.segment_preparer() {
            break preparer;
        }
    };
    std::thread::scope(|scope| scope.spawn(|| preparer.prepare()).join().unwrap()).unwrap();
    assert!(log.segment_preparer().is_none(), "one is ready");
    assert!(disk.exists("segment.temporary").unwrap());
    while disk.exists("segment.temporary").unwrap() {
        log.append(Version(version), &[&[3; 100]], Epoch(1), Relaxed).unwrap();
        version += 1;
    }
    log.sync().unwrap();
    drop(log);
    assert_eq!(open(&disk).2.len() as u64, version - recovered.next_version.0);
}

fn a_checkpoint_replaces_what_came_before_it<D: Disk>(disk: D) {
    let (mut log, recovered, _) = open(&disk);
    let first = recovered.next_version.0;
    let append = |log: &mut Log<D>, version: u64| {
        log.append(Version(version), &[&version.to_le_bytes(), &[1; 200]], Epoch(1), Relaxed).unwrap();
    };
    (first..first + 30).for_each(|version| append(&mut log, version));
    let before = disk.list("").unwrap();
    let mut writer = log.checkpoint_writer(Version(first + 29)).unwrap();
    assert!(!log.needs_sync(), "a checkpoint covers durable batches alone");
    let writing = std::thread::spawn(move || {
        writer.write(b"thirty ").unwrap();
        writer.write(b"").unwrap();
        writer.write(b"batches").unwrap();
        writer.finish().unwrap()
    });
    (first + 30..first + 60).for_each(|version| append(&mut log, version));
    let finished = writing.join().unwrap();
    assert!(before.iter().all(|name| disk.exists(name).unwrap()), "nothing goes before the checkpoint is in use");
    log.checkpoint_done(finished).unwrap();
    assert!(!disk.exists("segment-00000000000000000001").unwrap());
    let since = log.bytes_since_checkpoint();
    assert_eq!(since / (64 + 208), 30, "batches appended meanwhile are not in the checkpoint");
    log.close().unwrap();

    let opening = Log::open(disk.clone(), small(1)).unwrap();
    let checkpoint = opening.checkpoint().unwrap();
    assert_eq!(checkpoint.version(), Version(first + 29));
    let mut buffer = Vec::new();
    let chunks: Vec<_> = (0..checkpoint.chunk_count())
        .map(|index| checkpoint.read_chunk(index, &mut buffer).unwrap().to_vec())
        .collect();
    assert_eq!(chunks, [&b"thirty "[..], b"", b"batches"]);
    let mut versions = Vec::new();
    let replayed = opening.replay(|record| {
        versions.push(record.version.0);
        Ok::<(), OpenError>(())
    });
    assert_eq!(versions, (first + 30..first + 60).collect::<Vec<_>>());
    assert_eq!(replayed.unwrap().1.last_version, Version(first + 59));
}

fn chunks_are_read_in_any_order_by_two_threads<D: Disk>(disk: D) {
    let (mut log, recovered, _) = open(&disk);
    let mut writer = log.checkpoint_writer(recovered.next_version).unwrap();
    for index in 0..100u32 {
        writer.write(&index.to_le_bytes().repeat(1 + index as usize)).unwrap();
    }
    // More than is written between two syncs.
    writer.write(&[9; 3 << 20]).unwrap();
    let finished = writer.finish().unwrap();
    log.checkpoint_done(finished).unwrap();
    drop(log);
    let opening = Log::open(disk, small(1)).unwrap();
    let reader = opening.checkpoint().unwrap();
    std::thread::scope(|scope| {
        for odd in [0, 1] {
            scope.spawn(move || {
                let mut buffer = Vec::new();
                for index in (0..100u32).rev().filter(|index| index % 2 == odd) {
                    let chunk = reader.read_chunk(index as usize, &mut buffer).unwrap();
                    assert_eq!(chunk, index.to_le_bytes().repeat(1 + index as usize));
                }
            });
        }
    });
    assert!(reader.read_chunk(100, &mut Vec::new()).unwrap() == [9; 3 << 20]);
    assert!(matches!(reader.read_chunk(101, &mut Vec::new()), Err(OpenError::Damaged { .. })));
}

fn a_checkpoint_that_lacks_batches_is_refused<D: Disk>(disk: D) {
    let (mut log, recovered, _) = open(&disk);
    let version = recovered.next_version.0 + 5;
    log.append(Version(version), &[b"x"], Epoch(1), Committed).unwrap();
    assert!(matches!(log.checkpoint_writer(Version(version - 1)), Err(CheckpointError::TooOld { .. })));
    // A version that no batch has is well: volatile rows have versions too. But it is used up then.
    drop(log.checkpoint_writer(Version(version + 7)).unwrap());
    let again = log.append(Version(version + 7), &[b"x"], Epoch(1), Committed);
    assert!(matches!(again, Err(AppendError::VersionUsed { .. })));
}

fn an_unfinished_checkpoint_leaves_nothing<D: Disk>(disk: D) {
    let (mut log, recovered, _) = open(&disk);
    let before = disk.list("").unwrap();
    let mut writer = log.checkpoint_writer(recovered.next_version).unwrap();
    writer.write(b"half").unwrap();
    assert_ne!(disk.list("").unwrap(), before);
    drop(writer);
    assert_eq!(disk.list("").unwrap(), before);

    // Two at once do not get in each other's way.
    let mut one = log.checkpoint_writer(recovered.next_version).unwrap();
    let mut other = log.checkpoint_writer(recovered.next_version).unwrap();
    one.write(b"one").unwrap();
    other.write(b"other").unwrap();
    drop(one.finish().unwrap());
    let reader = |log: Log<D>| {
        drop(log);
        let opening = Log::open(disk.clone(), small(1)).unwrap();
        let mut buffer = Vec::new();
        let chunk = opening.checkpoint().unwrap().read_chunk(0, &mut buffer).unwrap().to_vec();
        assert_eq!(chunk, b"one");
        let (log, _) = opening.replay(|_| Ok::<(), OpenError>(())).unwrap();
        log
    };
    let mut log = reader(log);
    drop(other);
    let before = disk.list("").unwrap();

    // A crash leaves the file; the next start removes it.
    let mut writer = log.checkpoint_writer(Version(recovered.next_version.0 + 100)).unwrap();
    writer.write(b"half").unwrap();
    std::mem::forget(writer);
    drop(log);
    drop(open(&disk));
    assert_eq!(disk.list("").unwrap(), before);
}

fn a_version_is_never_used_twice<D: Disk>(disk: D) {
    let mut highest = 0;
    for _ in 0..5 {
        let (mut log, recovered, _) = open(&disk);
        assert!(recovered.next_version.0 > highest);
        assert!(log.reserved_version() >= recovered.next_version, "the first version may be shown at once");
        highest = recovered.next_version.0;
        log.append(Version(highest), &[b"x"], Epoch(1), Relaxed).unwrap();
        for used in [0, highest - 1, highest] {
            let again = log.append(Version(used), &[b"x"], Epoch(1), Relaxed);
            assert!(matches!(again, Err(AppendError::VersionUsed { last, .. }) if last.0 == highest));
        }
        // Readers may see versions that were never appended, if they were reserved.
        highest += 1000;
        let far = Version(MAX_NUMBER + 1);
        let refused = log.append(far, &[b"x"], Epoch(1), Relaxed);
        assert!(matches!(refused, Err(AppendError::VersionOutOfRange { .. })));
        assert!(matches!(log.reserve(far), Err(AppendError::VersionOutOfRange { .. })));
        log.reserve(Version(highest)).unwrap();
        assert!(log.reserved_version().0 >= highest);
    }
}

fn an_older_epoch_is_shut_out<D: Disk>(disk: D) {
    let (mut log, recovered, _) = open_with(&disk, small(3)).unwrap();
    let version = recovered.next_version.0;
    let fenced = |result| matches!(result, Err(AppendError::Fenced { newest: Epoch(4), .. }));
    log.append(Version(version), &[b"x"], Epoch(3), Committed).unwrap();
    log.append(Version(version + 1), &[b"x"], Epoch(4), Committed).unwrap();
    assert!(fenced(log.append(Version(version + 2), &[b"x"], Epoch(3), Committed).map(|_| ())));
    assert!(fenced(log.fence(Epoch(2))));
    log.fence(Epoch(4)).unwrap();
    drop(log);
    let before = contents(&disk);
    let refused = open_with(&disk, small(3)).unwrap_err();
    assert!(matches!(refused, OpenError::Fenced { epoch: Epoch(3), newest: Epoch(4) }), "{refused}");
    assert_eq!(contents(&disk), before);
    assert_eq!(open_with(&disk, small(4)).unwrap().2.len(), 2);
}

fn an_idle_log_proves_its_last_batch_once<D: Disk>(disk: D) {
    let (mut log, recovered, _) = open(&disk);
    log.append(recovered.next_version, &[b"x"], Epoch(1), Relaxed).unwrap();
    assert!(log.needs_idle_record());
    log.idle_record().unwrap();
    assert!(!log.needs_idle_record() && !log.needs_sync());
    let sequence = log.last_sequence();
    log.idle_record().unwrap();
    assert_eq!(log.last_sequence(), sequence, "an idle log does not grow");
    assert_eq!(log.durable_sequence(), sequence);
}

fn a_second_server_is_kept_out<D: Disk>(disk: D) {
    let (log, ..) = open(&disk);
    let OpenError::Locked { folder, holder } = Log::open(disk.clone(), small(1)).unwrap_err() else {
        panic!("the folder was not locked");
    };
    assert_eq!(folder, disk.describe());
    assert!(holder.is_some());
    let message = OpenError::Locked { folder, holder: Some(42) }.to_string();
    assert!(message.contains(&disk.describe()) && message.contains("process 42"), "{message}");
    drop(log);
    open(&disk);
}

fn a_newer_format_is_refused_and_left_untouched<D: Disk>(disk: D) {
    drop(open(&disk));
    disk.remove("lock").unwrap();
    put(&disk, "format", b"rollcall log\nformat 3\nwritten by 0.2.0\nand more\n");
    put(&disk, "segment-of-a-kind-unknown-here", b"\0\x01\x02");
    let before = contents(&disk);
    let refused = Log::open(disk.clone(), small(1)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "data in {} was written by 0.2.0 (format 3); this is 0.1.0 (format {FORMAT_NUMBER} at most). Nothing was touched.",
            disk.describe()
        )
    );
    assert_eq!(contents(&disk), before);
}

fn the_format_file_names_the_last_writer<D: Disk>(disk: D) {
    for version in ["0.1.0", "0.1.1"] {
        drop(open_with(&disk, Options::new(Epoch(1), 1, version)).unwrap());
        let text = format!("rollcall log\nformat {FORMAT_NUMBER}\nwritten by {version}\n");
        assert_eq!(contents(&disk)["format"], text.as_bytes());
    }
    put(&disk, "format", b"rollcall log\nformat many\n");
    assert!(matches!(Log::open(disk, small(1)), Err(OpenError::Damaged { file, .. }) if file == "format"));
}

fn blobs_are_kept_once_and_checked<D: Disk>(disk: D) {
    // The SHA-256 of "abc" and of nothing.
    let abc = hash("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let nothing = hash("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let (log, ..) = open(&disk);
    let blobs = log.blobs();
    assert_eq!(blobs.list().unwrap(), [[0; 32]; 0]);
    assert_eq!(blobs.get(&abc).unwrap(), None);
    for _ in 0..2 {
        blobs.put(&abc, b"abc").unwrap();
        log.blobs().put(&nothing, b"").unwrap();
    }
    drop(log);
    let (log, ..) = open(&disk);
    let blobs = log.blobs();
    assert_eq!(blobs.list().unwrap(), [abc, nothing]);
    assert_eq!(blobs.get(&abc).unwrap().unwrap(), b"abc");
    assert_eq!(blobs.get(&nothing).unwrap().unwrap(), b"");
    blobs.remove(&nothing).unwrap();
    blobs.remove(&nothing).unwrap();
    assert_eq!(blobs.list().unwrap(), [abc]);

    put(&disk, "blobs/ba/7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", b"abd");
    assert!(matches!(blobs.get(&abc), Err(BlobError::Damaged { file, .. }) if file.starts_with("blobs/ba/7816")));
}

fn hash(digits: &str) -> [u8; 32] {
    let byte = |index: usize| u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).unwrap();
    std::array::from_fn(byte)
}
