use std::collections::BTreeSet;
use std::io;
use std::io::IoSlice;

use rollcall_log::Disk;
use rollcall_log::DiskFile;
use rollcall_log::LockAttempt;
use rollcall_sim::Fault;
use rollcall_sim::SimulatedDisk;
use rollcall_sim::SimulatedFile;
use rollcall_sim::VirtualClock;

fn write(file: &SimulatedFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_at(&[IoSlice::new(bytes)], offset)
}

/// A durable file of 2,048 ones, then a write of twos over all of it that is not synced.
fn overwritten(seed: u64) -> (SimulatedDisk, SimulatedFile) {
    let disk = SimulatedDisk::new(seed);
    let file = disk.create("file").unwrap();
    write(&file, &[1; 2048], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_folder("").unwrap();
    write(&file, &[2; 2048], 0).unwrap();
    (disk, file)
}

#[test]
fn an_unsynced_write_is_lost_kept_or_torn_and_a_synced_one_is_kept() {
    let (mut lost, mut kept, mut sectors, mut bytes) = (0, 0, 0, 0);
    for seed in 0..200 {
        let (disk, file) = overwritten(seed);
        let after = disk.power_cut().contents()["file"].clone();
        let whole = |piece: &[u8]| piece.iter().all(|byte| *byte == piece[0]);
        match after.iter().filter(|byte| **byte == 2).count() {
            0 => lost += 1,
            2048 => kept += 1,
            _ if after.chunks(512).all(whole) => sectors += 1,
            _ => bytes += 1,
        }
        assert!(write(&file, b"x", 0).is_err(), "the handle outlived its machine");

        let (disk, file) = overwritten(seed);
        file.sync_data().unwrap();
        assert_eq!(disk.power_cut().contents()["file"], [2; 2048]);
    }
    assert!([lost, kept, sectors, bytes].iter().all(|count| *count > 10), "{lost} {kept} {sectors} {bytes}");
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    for seed in 0..50 {
        assert_eq!(overwritten(seed).0.power_cut().contents(), overwritten(seed).0.power_cut().contents());
    }
}

#[test]
fn names_are_durable_after_a_sync_of_their_folder_alone() {
    let mut found = BTreeSet::new();
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed);
        disk.create("old").unwrap().sync_all().unwrap();
        disk.sync_folder("").unwrap();
        disk.rename("old", "new").unwrap();
        let after = disk.power_cut();
        found.insert(after.list("").unwrap());
        after.create("sure").unwrap();
        after.sync_folder("").unwrap();
        assert!(after.power_cut().exists("sure").unwrap());
    }
    assert!(found.contains(&vec!["old".to_owned()]) && found.contains(&vec!["new".to_owned()]), "{found:?}");
}

#[test]
fn after_a_failed_sync_writes_are_read_but_may_be_gone() {
    let mut lost = 0;
    for seed in 0..100 {
        let (disk, file) = overwritten(seed);
        disk.plant(disk.calls() + 1, Fault::Error(io::ErrorKind::Other));
        file.sync_data().unwrap_err();
        file.sync_data().unwrap();
        assert_eq!(disk.contents()["file"], [2; 2048], "a running process sees what it wrote");
        lost += u32::from(disk.power_cut().contents()["file"] == [1; 2048]);
    }
    assert!((20..80).contains(&lost), "{lost}");
}

#[test]
fn a_full_disk_takes_what_fits() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(Some(1000));
    let file = disk.create("file").unwrap();
    write(&file, &[1; 600], 0).unwrap();
    assert_eq!(write(&file, &[2; 600], 600).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.size().unwrap(), 1000);
    write(&file, &[3; 1000], 0).unwrap();
    let other = disk.create("other").unwrap();
    assert_eq!(write(&other, b"x", 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
    disk.remove("file").unwrap();
    write(&other, b"x", 0).unwrap();
}

#[test]
fn a_lock_ends_with_its_holder_or_its_process() {
    let disk = SimulatedDisk::new(1);
    let taken = |disk: &SimulatedDisk| matches!(disk.lock("lock").unwrap(), LockAttempt::Taken(_));
    let held = disk.lock("lock").unwrap();
    assert!(!taken(&disk));
    drop(held);
    assert!(taken(&disk));
    let _held = disk.lock("lock").unwrap();
    assert!(taken(&disk.kill()));
}

#[test]
fn a_clock_moves_forward_when_told() {
    let clock = VirtualClock::starting_at(5);
    let same = clock.clone();
    assert_eq!(clock.advance(10), 15);
    assert_eq!(same.advance_to(7), 15);
    assert_eq!(same.advance_to(70), 70);
    assert_eq!(clock.now(), 70);
}
