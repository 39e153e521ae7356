//! Damage is refused by name and place, unless nothing proves that it is any; and then only what nothing proves goes.

use std::collections::BTreeMap;

use rollcall_log::Disk;
use rollcall_log::DurabilityClass::Committed;
use rollcall_log::DurabilityClass::Relaxed;
use rollcall_log::Epoch;
use rollcall_log::OpenError;
use rollcall_log::Version;
use rollcall_sim::Fault;
use rollcall_sim::SimulatedDisk;

use crate::server::Batch;
use crate::server::Promises;
use crate::server::Server;

type Folder = BTreeMap<String, Vec<u8>>;
type Found = Result<(Vec<Batch>, Vec<String>), OpenError>;

/// Opens a copy of a folder; a refusal must have changed nothing.
fn open(folder: &Folder) -> Found {
    let disk = SimulatedDisk::new(0);
    folder.iter().for_each(|(name, bytes)| disk.put(name, bytes));
    let found = Server::open(disk.clone(), 1).map(|(_, batches, warnings)| (batches, warnings));
    if found.is_err() {
        let mut after = disk.contents();
        after.remove("lock");
        assert!(after == *folder, "a refused folder was changed");
    }
    found
}

fn folder_of(disk: &SimulatedDisk) -> Folder {
    let mut folder = disk.contents();
    folder.remove("lock");
    folder
}

/// A log of three segments with records of every kind, ended cleanly or not, and what is in it.
fn sample(clean: bool) -> (Folder, Vec<Batch>) {
    let disk = SimulatedDisk::new(0);
    let mut promises = Promises::default();
    let (mut server, ..) = Server::open(disk.clone(), 1).unwrap();
    for number in 0..24u8 {
        let class = if number % 4 == 0 { Committed } else { Relaxed };
        server.append(&mut promises, &vec![number; usize::from(number) * 11], class).unwrap();
        if number % 7 == 0 {
            server.idle(&mut promises).unwrap();
        }
    }
    server.append(&mut promises, b"the last", Committed).unwrap();
    if clean {
        server.log.close().unwrap();
    }
    (folder_of(&disk), promises.state)
}

struct Place {
    file: String,
    offset: usize,
    end: usize,
    sequence: u64,
    durable: u64,
    batch: bool,
}

/// Finds the records by the documented layout, not by the log's own code.
fn places(folder: &Folder) -> Vec<Place> {
    let mut places = Vec::new();
    for (file, bytes) in folder.iter().filter(|(name, _)| name.starts_with("segment-")) {
        let mut offset = 64;
        while bytes.get(offset + 4..offset + 8) == Some(b"RCRD") {
            let number = |at: usize| u64::from_le_bytes(bytes[offset + at..offset + at + 8].try_into().unwrap());
            let length = (number(8) & 0xffff_ffff) as usize;
            let end = offset + 64 + length.next_multiple_of(8);
            let batch = number(8) >> 32 == 1;
            places.push(Place { file: file.clone(), offset, end, sequence: number(16), durable: number(32), batch });
            offset = end;
        }
    }
    places
}

fn check_flip(folder: &Folder, places: &[Place], place: &Place, at: usize, mask: u8, all: &[Batch]) {
    let what = format!("{} byte {at} mask {mask:#x} (record {})", place.file, place.sequence);
    let mut folder = folder.clone();
    folder.get_mut(&place.file).unwrap()[at] ^= mask;
    let later_segment = places.iter().any(|other| other.file > place.file);
    let proven =
        later_segment || places.iter().any(|other| other.sequence > place.sequence && other.durable >= place.sequence);
    match open(&folder) {
        Err(OpenError::Damaged { file, offset, .. }) => {
            assert!(proven, "{what}: refused without proof");
            assert_eq!((file, offset), (place.file.clone(), place.offset as u64), "{what}");
        }
        Err(error) => panic!("{what}: {error}"),
        Ok((found, warnings)) => {
            assert!(!proven, "{what}: damage was not seen");
            let lost = places.iter().filter(|other| other.sequence >= place.sequence && other.batch).count();
            assert_eq!(found, all[..all.len() - lost], "{what}");
            assert_eq!(warnings.len(), 1, "{what}");
            assert!(warnings[0].contains(&format!("{} ends in a torn record {}", place.file, place.sequence)));
            assert!(warnings[0].contains(&format!("at byte {}", place.offset)));
        }
    }
}

#[test]
fn every_byte_of_every_record_is_guarded() {
    for clean in [true, false] {
        let (folder, all) = sample(clean);
        let places = places(&folder);
        assert!(places.iter().map(|place| &place.file).collect::<std::collections::BTreeSet<_>>().len() >= 3);
        assert_eq!(places.iter().filter(|place| place.batch).count(), all.len());
        assert_eq!(open(&folder).unwrap(), (all.clone(), Vec::new()));
        for place in &places {
            for at in place.offset..place.end {
                for mask in [1, 0x80, 0xff] {
                    check_flip(&folder, &places, place, at, mask, &all);
                }
            }
        }
        // Nothing of a cleanly closed log can be taken for a crash, except the record that proves the others.
        let last = places.last().unwrap();
        assert_eq!(last.batch, !clean);
    }
}

#[test]
fn a_lost_sector_is_damage_where_the_records_were_durable() {
    let (folder, _) = sample(true);
    let places = places(&folder);
    for place in &places[..places.len() - 1] {
        let mut folder = folder.clone();
        let bytes = folder.get_mut(&place.file).unwrap();
        let sector = place.offset / 512 * 512;
        let end = bytes.len().min(place.offset + 512);
        bytes[place.offset..end].fill(0);
        let refused = open(&folder);
        let last_in_file = places.iter().rfind(|other| other.file == place.file).unwrap();
        let proof_is_gone = place.file == places.last().unwrap().file && last_in_file.offset < end;
        if !proof_is_gone {
            let error = refused.unwrap_err();
            assert!(
                matches!(&error, OpenError::Damaged { file, .. } if *file == place.file),
                "sector {sector}: {error}"
            );
        }
    }
}

#[test]
fn every_byte_of_a_segment_header_is_guarded() {
    let (folder, _) = sample(true);
    for name in folder.keys().filter(|name| name.starts_with("segment-")) {
        for at in 0..64 {
            let mut folder = folder.clone();
            folder.get_mut(name).unwrap()[at] ^= 0x10;
            let error = open(&folder).unwrap_err();
            assert!(matches!(&error, OpenError::Damaged { file, .. } if file == name), "{name} byte {at}: {error}");
        }
    }
}

#[test]
fn bytes_after_the_last_record_of_a_segment_do_no_harm() {
    let (folder, all) = sample(true);
    let places = places(&folder);
    for (name, bytes) in folder.iter().filter(|(name, _)| name.starts_with("segment-")) {
        let end = places.iter().rfind(|place| place.file == *name).unwrap().end;
        for at in [end, end + 5, bytes.len() - 1] {
            let mut folder = folder.clone();
            folder.get_mut(name).unwrap()[at] ^= 1;
            assert_eq!(open(&folder).unwrap().0, all, "{name} byte {at}");
        }
    }
}

#[test]
fn a_missing_or_cut_segment_is_refused() {
    let (folder, _) = sample(true);
    let names: Vec<_> = folder.keys().filter(|name| name.starts_with("segment-")).cloned().collect();
    for (index, name) in names.iter().enumerate() {
        let mut without = folder.clone();
        let mut bytes = without.remove(name).unwrap();
        // Without its last segment a log looks like one that never had it: nothing can tell, but for the checkpoint.
        if index + 1 < names.len() {
            let error = open(&without).unwrap_err();
            assert!(matches!(&error, OpenError::Missing { .. } | OpenError::Damaged { .. }), "{name}: {error}");
            if index == 0 {
                assert!(matches!(&error, OpenError::Missing { file, .. } if file == name), "{error}");
            }
        }
        bytes.truncate(bytes.len() - 1);
        without.insert(name.clone(), bytes);
        let error = open(&without).unwrap_err();
        assert!(matches!(&error, OpenError::Damaged { file, .. } if file == name), "{name}: {error}");
    }
    let mut without = folder;
    without.remove("format");
    assert!(matches!(open(&without), Err(OpenError::Missing { file, .. }) if file == "format"));
}

/// A log with a checkpoint that is finished, and the files that it replaces still there, as after a crash.
fn with_checkpoint(done: bool) -> (Folder, Vec<Batch>) {
    let disk = SimulatedDisk::new(0);
    let mut promises = Promises::default();
    let (mut server, ..) = Server::open(disk.clone(), 1).unwrap();
    let append = |server: &mut Server<_>, promises: &mut Promises| {
        (0..20u8).for_each(|number| server.append(promises, &[number; 100], Committed).unwrap());
    };
    for _ in 0..2 {
        append(&mut server, &mut promises);
        server.begin_checkpoint(&mut promises).unwrap();
        server.finish_checkpoint(&mut promises).unwrap();
    }
    append(&mut server, &mut promises);
    server.begin_checkpoint(&mut promises).unwrap();
    let mut folder = folder_of(&disk);
    server.finish_checkpoint(&mut promises).unwrap();
    append(&mut server, &mut promises);
    server.log.close().unwrap();
    if done {
        folder.clear();
    }
    folder.extend(folder_of(&disk));
    folder.retain(|name, _| !name.ends_with("temporary"));
    (folder, promises.state)
}

fn checkpoints(folder: &Folder) -> Vec<String> {
    folder.keys().filter(|name| name.starts_with("checkpoint-")).cloned().collect()
}

#[test]
fn every_byte_of_a_checkpoint_is_guarded() {
    let (folder, all) = with_checkpoint(true);
    let [name] = &checkpoints(&folder)[..] else { panic!("one checkpoint was expected") };
    assert_eq!(open(&folder).unwrap(), (all, Vec::new()));
    for at in 0..folder[name].len() {
        let mut folder = folder.clone();
        folder.get_mut(name).unwrap()[at] ^= 0x04;
        let error = open(&folder).unwrap_err();
        assert!(matches!(&error, OpenError::Damaged { file, .. } if file == name), "byte {at}: {error}");
    }
}

#[test]
fn a_damaged_checkpoint_is_replaced_by_older_files_if_they_have_it_all() {
    let (folder, all) = with_checkpoint(false);
    let [_, name] = &checkpoints(&folder)[..] else { panic!("two checkpoints were expected") };
    let mut damaged = folder.clone();
    damaged.get_mut(name).unwrap()[100] ^= 1;
    let (found, warnings) = open(&damaged).unwrap();
    assert_eq!(found, all);
    assert!(warnings.len() == 1 && warnings[0].contains(name), "{warnings:?}");

    // One segment less, and it is refused: each in turn, except the last, which the checkpoint does not cover.
    let segments: Vec<_> = damaged.keys().filter(|name| name.starts_with("segment-")).cloned().collect();
    for segment in &segments[..segments.len() - 1] {
        let mut damaged = damaged.clone();
        damaged.remove(segment);
        let error = open(&damaged).unwrap_err();
        assert!(matches!(&error, OpenError::Damaged { file, .. } if file == name), "without {segment}: {error}");
    }
}

/// The log must reach as far as the checkpoint did; where it ends earlier, the end is no torn tail.
#[test]
fn older_files_that_end_too_early_do_not_stand_in_for_a_checkpoint() {
    let disk = SimulatedDisk::new(0);
    let mut promises = Promises::default();
    let (mut server, ..) = Server::open(disk.clone(), 1).unwrap();
    (0..3).for_each(|_| server.append(&mut promises, b"covered", Committed).unwrap());
    server.begin_checkpoint(&mut promises).unwrap();
    server.finish_checkpoint(&mut promises).unwrap();
    drop(server);
    let mut folder = folder_of(&disk);
    let [name] = &checkpoints(&folder)[..] else { panic!("one checkpoint was expected") };
    let name = name.clone();
    folder.get_mut(&name).unwrap()[70] ^= 1;
    assert_eq!(open(&folder).unwrap().0, promises.state);
    let last = places(&folder).pop().unwrap();
    folder.get_mut(&last.file).unwrap()[last.offset + 70] ^= 1;
    assert!(matches!(open(&folder), Err(OpenError::Damaged { file, offset: 64, .. }) if file == name));
}

#[test]
fn a_checkpoint_whose_segment_is_gone_is_refused() {
    let (mut folder, _) = with_checkpoint(true);
    let segment = folder.keys().find(|name| name.starts_with("segment-")).cloned().unwrap();
    folder.remove(&segment);
    assert!(matches!(open(&folder), Err(OpenError::Missing { file, .. }) if file == segment));
}

/// The files before a mended log hold batches that failed: they can never stand in for the checkpoint that mended it.
#[test]
fn older_files_never_stand_in_for_the_checkpoint_of_a_mended_log() {
    let disk = SimulatedDisk::new(3);
    let mut promises = Promises::default();
    let (mut server, ..) = Server::open(disk.clone(), 1).unwrap();
    (0..5).for_each(|_| server.append(&mut promises, b"before", Committed).unwrap());
    disk.plant(disk.calls() + 2, Fault::Error(std::io::ErrorKind::Other));
    server.append(&mut promises, b"failed", Committed).unwrap_err();
    let before = folder_of(&disk);
    server.begin_checkpoint(&mut promises).unwrap();
    server.finish_checkpoint(&mut promises).unwrap();
    (0..5).for_each(|_| server.append(&mut promises, &[5; 1000], Committed).unwrap());
    server.log.close().unwrap();

    let mut folder = folder_of(&disk);
    // The segment after such a checkpoint may be missing only if it was never begun, and then no later one is there.
    let first = folder.keys().find(|name| name.starts_with("segment-")).cloned().unwrap();
    let mut without = folder.clone();
    without.remove(&first);
    assert!(matches!(open(&without), Err(OpenError::Missing { file, .. }) if file == first));
    folder.extend(before);
    assert_eq!(open(&folder).unwrap().0, promises.state);
    let [name] = &checkpoints(&folder)[..] else { panic!("one checkpoint was expected") };
    let mut damaged = folder.clone();
    damaged.get_mut(name).unwrap()[70] ^= 1;
    assert!(matches!(open(&damaged), Err(OpenError::Damaged { file, .. }) if file == *name));
    folder.remove(name);
    assert!(matches!(open(&folder), Err(OpenError::Missing { .. } | OpenError::Damaged { .. })));
}

/// A client may store a copy of a segment in a batch. When that batch is torn, the scan for later records passes over
/// it.
#[test]
fn a_record_inside_a_payload_is_not_taken_for_one() {
    let disk = SimulatedDisk::new(0);
    let mut promises = Promises::default();
    let (mut server, ..) = Server::open(disk.clone(), 1).unwrap();
    (0..3).for_each(|_| server.append(&mut promises, b"before", Committed).unwrap());
    let kept = promises.state.clone();
    // Records of another log, with sequences far ahead and everything durable.
    let foreign = SimulatedDisk::new(0);
    let options = rollcall_log::Options { salt: 99, ..crate::server::small(1) };
    let (mut log, recovered) =
        rollcall_log::Log::open(foreign.clone(), options).unwrap().replay(|_| Ok::<(), OpenError>(())).unwrap();
    for number in 0..12 {
        log.append(Version(recovered.next_version.0 + number), &[b"foreign"], Epoch(1), Committed).unwrap();
    }
    let copy = folder_of(&foreign)["segment-00000000000000000001"][64..1100].to_vec();
    server.append(&mut promises, &copy, Relaxed).unwrap();
    drop(server);
    let mut folder = folder_of(&disk);
    let place = places(&folder);
    let last = place.last().unwrap();
    folder.get_mut(&last.file).unwrap()[last.end - 1] ^= 1;
    let (found, warnings) = open(&folder).unwrap();
    assert_eq!((found, warnings.len()), (kept, 1));
}

#[test]
fn a_start_that_fails_to_read_says_so() {
    let (folder, _) = sample(true);
    let disk = SimulatedDisk::new(0);
    folder.iter().for_each(|(name, bytes)| disk.put(name, bytes));
    let dead = disk.clone();
    let _alive = disk.kill();
    assert!(matches!(Server::open(dead.clone(), 1), Err(OpenError::Io { .. })));
    assert!(dead.list("").is_err());
}
