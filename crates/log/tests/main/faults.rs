//! Full disks, failed writes and failed syncs, one by one.

use std::io;

use rollcall_log::AppendError;
use rollcall_log::CheckpointError;
use rollcall_log::DurabilityClass::Committed;
use rollcall_log::DurabilityClass::Relaxed;
use rollcall_log::Epoch;
use rollcall_log::OpenError;
use rollcall_log::Version;
use rollcall_sim::CallKind;
use rollcall_sim::Fault;
use rollcall_sim::SimulatedDisk;

use crate::server::Promises;
use crate::server::Server;

const ERROR: Fault = Fault::Error(io::ErrorKind::Other);

fn server(seed: u64) -> (SimulatedDisk, Server<SimulatedDisk>, Promises) {
    let disk = SimulatedDisk::new(seed);
    let mut promises = Promises::default();
    let server = Server::start(disk.clone(), 1, &mut promises).unwrap().unwrap();
    (disk, server, promises)
}

#[test]
fn no_acknowledgement_leaves_before_its_sync_has_ended() {
    let (disk, mut server, mut promises) = server(1);
    disk.record();
    for number in 0..100u8 {
        let bytes = vec![number; 90];
        let class = if number % 2 == 0 { Committed } else { Relaxed };
        server.append(&mut promises, &bytes, class).unwrap();
        disk.mark(if class == Committed { "committed" } else { "relaxed" });
    }
    let mut unsynced = Vec::new();
    let (mut committed, mut writes) = (0, 0);
    for call in disk.recorded() {
        assert!(call.succeeded);
        match call.kind {
            CallKind::Write if call.path.starts_with("segment-") => {
                writes += 1;
                unsynced.push(call.path);
            }
            CallKind::SyncData | CallKind::SyncAll => unsynced.retain(|path| *path != call.path),
            CallKind::Mark if call.path == "committed" => {
                committed += 1;
                assert_eq!(unsynced, [""; 0], "acknowledgement {committed} left before its sync");
            }
            _ => {}
        }
    }
    assert_eq!(committed, 50);
    assert!((100..120).contains(&writes), "a batch is one write, but there were {writes} for 100");
}

#[test]
fn a_segment_has_its_name_and_its_zeros_before_its_first_record() {
    let (disk, mut server, mut promises) = server(1);
    disk.record();
    (0..200).for_each(|_| server.append(&mut promises, &[1; 90], Relaxed).unwrap());
    let calls = disk.recorded();
    let mut segments = 0;
    for (index, call) in calls.iter().enumerate().filter(|(_, call)| call.kind == CallKind::Rename) {
        segments += 1;
        let kinds: Vec<_> = calls[index - 4..=index + 2].iter().map(|call| call.kind).collect();
        use CallKind::{Allocate, Rename, SyncAll, SyncFolder, Write};
        assert_eq!(kinds, [Allocate, SyncAll, Write, SyncAll, Rename, SyncFolder, Write]);
        assert_eq!(calls[index + 2].path, call.path, "the first record goes to the new segment");
    }
    assert!(segments > 3);
}

#[test]
fn a_full_disk_fails_batches_alone_and_writing_goes_on_when_there_is_space() {
    let (disk, mut server, mut promises) = server(2);
    let used: usize = disk.contents().values().map(Vec::len).sum();
    disk.set_capacity(Some(used as u64 + 3000));
    let (mut passed, mut failed) = (0, 0);
    for number in 0..200u8 {
        match server.append(&mut promises, &[number; 150], Committed) {
            Ok(()) => passed += 1,
            Err(AppendError::NoSpace { .. }) => failed += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(passed > 1 && failed > 100, "{passed} passed, {failed} failed");
    assert!(!disk.contents().contains_key("segment.temporary"), "what could not be finished takes no space");
    // The last batch can be proven durable, and the folder opened again and again, with no space at all.
    server.idle(&mut promises).unwrap();
    drop(server);
    let mut disk = disk;
    for _ in 0..4 {
        disk = disk.power_cut();
        let server = Server::start(disk.clone(), 1, &mut promises).unwrap().unwrap();
        server.log.close().unwrap();
    }
    assert_eq!(promises.state.len(), passed);
    let mut server = Server::start(disk.clone(), 1, &mut promises).unwrap().unwrap();
    server.append(&mut promises, &[1; 1500], Committed).unwrap_err();
    disk.set_capacity(None);
    server.append(&mut promises, &[1; 1500], Committed).unwrap();
    drop(server);
    Server::start(disk.power_cut(), 1, &mut promises).unwrap().unwrap();
    assert_eq!(promises.state.len(), passed + 1);
}

#[test]
fn a_failed_write_fails_its_batch_alone() {
    for seed in 0..50 {
        for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
            let (disk, mut server, mut promises) = server(seed);
            server.append(&mut promises, b"before", Relaxed).unwrap();
            disk.plant(disk.calls() + 1, Fault::Error(kind));
            let error = server.append(&mut promises, b"failed", Committed).unwrap_err();
            let expected = match kind {
                io::ErrorKind::Other => matches!(error, AppendError::Io { .. }),
                _ => matches!(error, AppendError::NoSpace { .. }),
            };
            assert!(expected, "{error}");
            assert!(promises.doubtful.is_none());
            if seed % 2 == 0 {
                server.append(&mut promises, b"afterw", Committed).unwrap();
            }
            drop(server);
            Server::start(disk.power_cut(), 1, &mut promises).unwrap().unwrap();
        }
    }
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_before_a_checkpoint() {
    for seed in 0..50 {
        let (disk, mut server, mut promises) = server(seed);
        server.append(&mut promises, b"durable", Committed).unwrap();
        let durable = server.next_version - 1;
        server.append(&mut promises, b"relaxed", Relaxed).unwrap();
        disk.plant(disk.calls() + 2, ERROR);
        let error = server.append(&mut promises, b"lost", Committed).unwrap_err();
        assert!(matches!(&error, AppendError::NeedsCheckpoint { reason } if reason.contains("fdatasync of segment-")));
        assert!(server.log.needs_checkpoint().is_some());

        let before = disk.calls();
        let version = Version(server.next_version + 10);
        let refusals = [
            server.log.append(version, &[b"x"], Epoch(1), Relaxed).map(|_| ()),
            server.log.append(version, &[b"x"], Epoch(1), Committed).map(|_| ()),
            server.log.sync(),
            server.log.idle_record(),
        ];
        assert!(refusals.iter().all(|result| matches!(result, Err(AppendError::NeedsCheckpoint { .. }))));
        assert_eq!(disk.calls(), before, "a log that is not trusted does not write");
        let too_old = server.log.checkpoint_writer(Version(durable - 1));
        assert!(matches!(too_old, Err(CheckpointError::TooOld { .. })));

        server.begin_checkpoint(&mut promises).unwrap();
        server.finish_checkpoint(&mut promises).unwrap();
        assert!(server.log.needs_checkpoint().is_none());
        assert_eq!(promises.acknowledged, 2, "the relaxed batch is in the checkpoint");
        server.append(&mut promises, b"after", Committed).unwrap();
        drop(server);
        Server::start(disk.power_cut(), 1, &mut promises).unwrap().unwrap();
        assert_eq!(promises.state.len(), 3);
    }
}

/// The pages of a failed sync read as if they were on disk, until the power goes.
#[test]
fn what_a_failed_sync_left_in_the_page_cache_is_not_believed_by_the_next_process() {
    for seed in 0..50 {
        let (disk, mut server, mut promises) = server(seed);
        server.append(&mut promises, b"durable", Committed).unwrap();
        disk.plant(disk.calls() + 2, ERROR);
        server.append(&mut promises, b"failed", Committed).unwrap_err();
        drop(server);
        let disk = disk.kill();
        // This process reads the failed batch, and takes it for written, as it must: it cannot know.
        let mut server = Server::start(disk.clone(), 1, &mut promises).unwrap().unwrap();
        assert_eq!(promises.state.len(), 2);
        server.append(&mut promises, b"after", Committed).unwrap();
        drop(server);
        Server::start(disk.power_cut(), 1, &mut promises).unwrap().unwrap();
        assert_eq!(promises.state.len(), 3, "seed {seed}");
    }
}

/// A checkpoint that was begun before the log broke does not hold the batches since, so it cannot mend it.
#[test]
fn a_checkpoint_from_before_the_failure_does_not_mend_the_log() {
    let (disk, mut server, mut promises) = server(5);
    server.append(&mut promises, b"one", Committed).unwrap();
    let writer = server.log.checkpoint_writer(Version(server.next_version - 1)).unwrap();
    server.append(&mut promises, b"two", Committed).unwrap();
    disk.plant(disk.calls() + 2, ERROR);
    server.append(&mut promises, b"lost", Committed).unwrap_err();
    let finished = writer.finish().unwrap();
    server.log.checkpoint_done(finished).unwrap();
    assert!(server.log.needs_checkpoint().is_some());
    let blocked = server.append(&mut promises, b"still", Committed);
    assert!(matches!(blocked, Err(AppendError::NeedsCheckpoint { .. })));

    // Nor does one from an earlier failure.
    let earlier = server.log.checkpoint_writer(Version(server.next_version - 1)).unwrap();
    server.begin_checkpoint(&mut promises).unwrap();
    server.finish_checkpoint(&mut promises).unwrap();
    disk.plant(disk.calls() + 2, ERROR);
    server.append(&mut promises, b"lost", Committed).unwrap_err();
    let finished = earlier.finish().unwrap();
    server.log.checkpoint_done(finished).unwrap();
    assert!(server.log.needs_checkpoint().is_some());
}

#[test]
fn a_blob_that_was_put_outlives_any_crash() {
    // The SHA-256 of "abc".
    let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let hash = std::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap());
    let mut kept = 0;
    for call in 1..16 {
        for fault in [Fault::Crash, ERROR] {
            for seed in 0..40 {
                let (disk, server, _) = server(seed);
                disk.plant(disk.calls() + call, fault);
                let mut put = server.log.blobs().put(&hash, b"abc");
                if fault == ERROR && seed % 2 == 0 && put.is_err() {
                    put = server.log.blobs().put(&hash, b"abc");
                    put.as_ref().unwrap();
                }
                drop(server);
                let (server, ..) = Server::open(disk.power_cut(), 1).unwrap();
                let found = server.log.blobs().get(&hash).unwrap();
                assert!(found.is_some() || put.is_err(), "seed {seed}, {fault:?} at call {call}");
                assert!(found.is_none_or(|found| found == b"abc"));
                kept += u32::from(put.is_ok());
                server.log.blobs().put(&hash, b"abc").unwrap();
                assert_eq!(disk_names(&server), [""; 0], "leftovers stay");
            }
        }
    }
    assert!(kept > 100);
}

fn disk_names(server: &Server<SimulatedDisk>) -> Vec<String> {
    use rollcall_log::Disk;
    server.disk.list("blobs/unfinished").unwrap()
}

/// A sync that succeeds after one that failed proves nothing.
#[test]
fn a_checkpoint_is_given_up_at_its_first_failed_sync() {
    let (disk, mut server, mut promises) = server(1);
    server.append(&mut promises, b"x", Committed).unwrap();
    let mut writer = server.log.checkpoint_writer(Version(server.next_version - 1)).unwrap();
    disk.plant(disk.calls() + 2, ERROR);
    assert!(matches!(writer.write(&[1; 2 << 20]), Err(CheckpointError::Io { .. })));
    assert!(matches!(writer.write(b"more"), Err(CheckpointError::Io { .. })));
    assert!(matches!(writer.finish(), Err(CheckpointError::Io { .. })));
    assert!(disk.contents().keys().all(|name| !name.starts_with("checkpoint-")));
}

#[test]
fn a_failed_checkpoint_changes_nothing() {
    for at in 1..12 {
        let (disk, mut server, mut promises) = server(at);
        (0..30).for_each(|_| server.append(&mut promises, &[1; 80], Committed).unwrap());
        disk.plant(disk.calls() + at, ERROR);
        let result = server.begin_checkpoint(&mut promises).and_then(|()| server.finish_checkpoint(&mut promises));
        server.append(&mut promises, b"after", Committed).unwrap();
        drop(server);
        Server::start(disk.power_cut(), 1, &mut promises).unwrap().unwrap();
        assert_eq!(promises.state.len(), 31, "{result:?}");
    }
}

/// A restored state is not what the batches before it make, so they can never stand in for it.
#[test]
fn a_restore_replaces_the_log_as_a_whole() {
    for finished in [true, false] {
        let (disk, mut server, mut promises) = server(1);
        (0..5).for_each(|_| server.append(&mut promises, b"before", Committed).unwrap());
        let restored = Promises { state: vec![crate::server::Batch::of(7, b"restored")], ..Promises::default() };
        let mut writer = server.log.restore_writer(Version(server.next_version)).unwrap();
        crate::server::write_chunks(&mut writer, &restored.state).unwrap();
        let blocked = server.log.append(Version(server.next_version + 1), &[b"x"], Epoch(1), Committed);
        assert!(matches!(blocked, Err(AppendError::NeedsCheckpoint { .. })));
        if !finished {
            drop((writer, server));
            Server::start(disk.power_cut(), 1, &mut promises).unwrap().unwrap();
            assert_eq!(promises.state.len(), 5);
            continue;
        }
        let done = writer.finish().unwrap();
        server.log.checkpoint_done(done).unwrap();
        server.next_version += 1;
        promises = restored;
        server.append(&mut promises, b"after", Committed).unwrap();
        drop(server);
        let disk = disk.power_cut();
        drop(Server::start(disk.clone(), 1, &mut promises).unwrap().unwrap());
        let checkpoint = disk.contents().into_keys().find(|name| name.starts_with("checkpoint-")).unwrap();
        disk.flip(&checkpoint, 70, 1).unwrap();
        let refused = Server::open(disk.kill(), 1).map(|_| ()).unwrap_err();
        assert!(matches!(&refused, OpenError::Damaged { file, .. } if *file == checkpoint), "{refused}");
    }
}
