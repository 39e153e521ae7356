//! Crashes and errors at every call. A failure prints the run; `run(|disk| disk, &Run { … })` replays it exactly.

use std::io;
use std::io::IoSlice;

use rollcall_log::Disk;
use rollcall_log::DiskFile;
use rollcall_log::DurabilityClass;
use rollcall_log::LockAttempt;
use rollcall_sim::Fault;
use rollcall_sim::Random;
use rollcall_sim::SimulatedDisk;
use rollcall_sim::SimulatedFile;
use rollcall_sim::SimulatedLock;

use crate::scripts::Run;
use crate::scripts::run;
use crate::server::Promises;
use crate::server::Server;

const SEEDS: u64 = 12;

/// Plants faults at every call of every seed's script. Gives how many runs there were, or the first that broke a
/// promise.
fn explore<D: Disk>(
    wrap: fn(SimulatedDisk) -> D,
    seeds: u64,
    faults: impl Fn(u64, &mut Random) -> Vec<(u64, Fault)>,
) -> Result<u64, String> {
    let mut runs = 0;
    for seed in 0..seeds {
        let check = |faults: Vec<(u64, Fault)>| {
            let one = Run { seed, faults };
            run(wrap, &one).map_err(|broken| format!("{one:?}: {broken}"))
        };
        let calls = check(Vec::new())?;
        let mut random = Random::new(seed);
        for call in 1..=calls {
            check(faults(call, &mut random))?;
            runs += 1;
        }
    }
    Ok(runs)
}

#[test]
fn a_crash_at_any_call_loses_nothing_that_was_acknowledged() {
    let runs = explore(|disk| disk, SEEDS, |call, _| vec![(call, Fault::Crash)]).unwrap();
    assert!(runs >= 1000, "only {runs} kill points");
    println!("{runs} kill points");
}

#[test]
fn an_error_at_any_call_and_a_crash_later_lose_nothing_that_was_acknowledged() {
    for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
        let runs = explore(
            |disk| disk,
            SEEDS,
            |call, random| vec![(call, Fault::Error(kind)), (call + 1 + random.below(20), Fault::Crash)],
        );
        println!("{} runs with {kind}", runs.unwrap());
    }
}

#[test]
fn two_errors_near_any_call_lose_nothing_that_was_acknowledged() {
    let error = Fault::Error(io::ErrorKind::Other);
    let runs = explore(|disk| disk, SEEDS, |call, random| vec![(call, error), (call + 1 + random.below(4), error)]);
    println!("{} runs", runs.unwrap());
}

#[test]
fn a_log_without_its_fsync_is_caught() {
    let broken = explore(WithoutSync, SEEDS, |call, _| vec![(call, Fault::Crash)]);
    let broken = broken.unwrap_err();
    assert!(broken.contains("were acknowledged as durable"), "{broken}");
}

/// Whole records may lie beyond a torn one, and one of them just where the first record of the next process ends.
/// A crash while they are being cut must not bring them back.
#[test]
fn records_beyond_a_torn_one_never_come_back() {
    let mut torn = 0;
    for seed in 0..2000 {
        let disk = SimulatedDisk::new(seed);
        let mut promises = Promises::default();
        let mut server = Server::start(disk.clone(), 1, &mut promises).unwrap().unwrap();
        (0..4).for_each(|_| server.append(&mut promises, b"", DurabilityClass::Relaxed).unwrap());
        drop(server);
        let disk = disk.power_cut();
        disk.plant(disk.calls() + 1 + seed % 6, Fault::Crash);
        drop(Server::start(disk.clone(), 1, &mut promises).unwrap());
        let disk = disk.power_cut();
        drop(Server::start(disk.clone(), 1, &mut promises).unwrap_or_else(|broken| panic!("seed {seed}: {broken}")));
        torn += u32::from(promises.state.len() < 4);
    }
    assert!(torn > 1000, "{torn}");
}

/// A disk that says it has synced, and has not.
#[derive(Clone, Debug)]
struct WithoutSync(SimulatedDisk);

#[derive(Debug)]
struct FileWithoutSync(SimulatedFile);

impl Disk for WithoutSync {
    type File = FileWithoutSync;
    type Lock = SimulatedLock;

    fn describe(&self) -> String {
        self.0.describe()
    }
    fn create(&self, path: &str) -> io::Result<FileWithoutSync> {
        self.0.create(path).map(FileWithoutSync)
    }
    fn open(&self, path: &str) -> io::Result<FileWithoutSync> {
        self.0.open(path).map(FileWithoutSync)
    }
    fn exists(&self, path: &str) -> io::Result<bool> {
        self.0.exists(path)
    }
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.0.list(folder)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        self.0.remove(path)
    }
    fn create_folder(&self, path: &str) -> io::Result<()> {
        self.0.create_folder(path)
    }
    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        self.0.sync_folder(folder)
    }
    fn lock(&self, path: &str) -> io::Result<LockAttempt<SimulatedLock>> {
        self.0.lock(path)
    }
}

impl DiskFile for FileWithoutSync {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.0.write_at(parts, offset)
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.0.allocate(bytes)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}
