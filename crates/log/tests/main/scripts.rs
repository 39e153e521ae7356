//! Scripts of what a server does, drawn from a seed, and their run with one fault in it.

use rollcall_log::Disk;
use rollcall_log::DurabilityClass;
use rollcall_sim::Fault;
use rollcall_sim::Random;
use rollcall_sim::SimulatedDisk;

use crate::server::Promises;
use crate::server::Server;
use crate::server::payload;

const STEPS: usize = 60;

#[derive(Clone, Copy, Debug)]
enum Step {
    Append(usize, DurabilityClass),
    Sync,
    Idle,
    Prepare,
    Show(u64),
    BeginCheckpoint,
    FinishCheckpoint,
    /// Ends cleanly and starts again.
    Close,
    /// Ends by kill -9 and starts again.
    Kill,
}

fn script(random: &mut Random) -> Vec<Step> {
    let draw = |random: &mut Random| match random.below(24) {
        0..=6 => Step::Append(usual_size(random), DurabilityClass::Committed),
        7..=12 => Step::Append(usual_size(random), DurabilityClass::Relaxed),
        13 => Step::Append(random.below(6000) as usize, DurabilityClass::Committed),
        14 => Step::Append(random.below(1500) as usize, DurabilityClass::Relaxed),
        15 => Step::Sync,
        16 => Step::Idle,
        17 => Step::Prepare,
        18 => Step::Show(random.below(12)),
        19 => Step::BeginCheckpoint,
        20 | 21 => Step::FinishCheckpoint,
        22 => Step::Close,
        _ => Step::Kill,
    };
    (0..STEPS).map(|_| draw(random)).collect()
}

/// Many records are of the same few sizes: then one that should be gone lies just where a successor is looked for.
fn usual_size(random: &mut Random) -> usize {
    if random.one_in(2) { [0, 64][random.below(2) as usize] } else { random.below(200) as usize }
}

/// One seed's script, with faults planted at calls.
#[derive(Clone, Debug)]
pub struct Run {
    pub seed: u64,
    pub faults: Vec<(u64, Fault)>,
}

/// How a run went: how many calls it made, or which promise was broken.
pub type Outcome = Result<u64, String>;

/// Runs the script over `wrap(disk)`, then cuts the power (again, in the middle of the start, if the seed says so) and
/// goes on for a while. Every start is checked.
pub fn run<D: Disk>(wrap: fn(SimulatedDisk) -> D, run: &Run) -> Outcome {
    let mut random = Random::new(run.seed);
    let script = script(&mut random);
    let mut disk = SimulatedDisk::new(run.seed.wrapping_mul(31) + run.faults.first().map_or(0, |fault| fault.0));
    for (call, fault) in &run.faults {
        disk.plant(*call, *fault);
    }
    let mut promises = Promises::default();
    play(wrap, &mut disk, &script, &mut random, &mut promises)?;
    let calls = disk.calls();

    // A cut in the middle of the start, more than once: recovery must be able to die anywhere too.
    for _ in 0..random.below(3) {
        disk = disk.power_cut();
        disk.plant(disk.calls() + 1 + random.below(12), Fault::Crash);
        if let Ok(server) = Server::start(wrap(disk.clone()), 1, &mut promises)? {
            drop(server);
        }
    }
    disk = disk.power_cut();
    play(wrap, &mut disk, &script[..STEPS / 4], &mut random, &mut promises)?;
    disk = disk.power_cut();
    let last = Server::start(wrap(disk), 1, &mut promises)?;
    last.map_err(|error| format!("the last start failed: {error}")).map(|_| calls)
}

/// Plays steps until they are over or the machine is down.
fn play<D: Disk>(
    wrap: fn(SimulatedDisk) -> D,
    disk: &mut SimulatedDisk,
    script: &[Step],
    random: &mut Random,
    promises: &mut Promises,
) -> Result<(), String> {
    let Some(mut server) = start(wrap, disk, promises)? else { return Ok(()) };
    for step in script {
        match *step {
            Step::Append(bytes, class) => {
                let bytes = payload(random, server.next_version, bytes);
                let _ = server.append(promises, &bytes, class);
            }
            Step::Sync => drop(server.sync(promises)),
            Step::Idle => drop(server.idle(promises)),
            Step::Show(leap) => drop(server.show(promises, leap)),
            Step::Prepare => drop(server.log.segment_preparer().map(|preparer| preparer.prepare())),
            Step::BeginCheckpoint => drop(server.begin_checkpoint(promises)),
            Step::FinishCheckpoint => drop(server.finish_checkpoint(promises)),
            Step::Close | Step::Kill => {
                let written = promises.state.len();
                let whole = server.log.needs_checkpoint().is_none();
                match step {
                    Step::Close => drop(server.log.close()),
                    _ => drop(server),
                }
                *disk = if disk.crashed() { return Ok(()) } else { disk.kill() };
                let Some(next) = start(wrap, disk, promises)? else { return Ok(()) };
                server = next;
                if whole && promises.state.len() < written {
                    return Err(format!(
                        "{written} batches were written, a killed server left {}",
                        promises.state.len()
                    ));
                }
            }
        }
        // A server heals its log at once; a fault in that must do no harm either.
        for _ in 0..3 {
            if server.log.needs_checkpoint().is_some() {
                let _ = server.begin_checkpoint(promises);
                let _ = server.finish_checkpoint(promises);
            }
        }
        if disk.crashed() {
            return Ok(());
        }
        if let Some(reason) = server.log.needs_checkpoint() {
            return Err(format!("the log did not heal: {reason}"));
        }
    }
    Ok(())
}

/// Starts a server; a start that fails on a planted error is tried again by the next process.
fn start<D: Disk>(
    wrap: fn(SimulatedDisk) -> D,
    disk: &mut SimulatedDisk,
    promises: &mut Promises,
) -> Result<Option<Server<D>>, String> {
    let mut last = String::new();
    for _ in 0..4 {
        match Server::start(wrap(disk.clone()), 1, promises)? {
            Ok(server) => return Ok(Some(server)),
            Err(_) if disk.crashed() => return Ok(None),
            Err(error) => last = format!("{error}: {:?}", std::error::Error::source(&error)),
        }
        *disk = disk.kill();
    }
    Err(format!("no start succeeds: {last}"))
}
