//! The writer's and the log's thread over real and simulated disks.

use super::{WriteError, WriterHandle, WriterSettings, WriterThreads};
use crate::{builder, open};
use rollcall_commands::{CommandError, RegisterAgent, StopJob};
use rollcall_log::{Disk, Epoch, Options, RealDisk};
use rollcall_schema::Time;
use rollcall_sim::{CallKind, Fault, SimulatedDisk};
use rollcall_store::{Query, Store, StoreLimits};
use rollcall_types::AgentRow;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::task::JoinSet;

fn options() -> Options {
    Options { first_segment_bytes: 64 << 10, segment_bytes: 256 << 10, ..Options::new(Epoch(1), 7, "0.1.0-test") }
}

fn start<D: Disk>(disk: D, checkpoint_after_bytes: u64) -> (WriterHandle, WriterThreads) {
    let opened = open(disk, options(), builder(StoreLimits::default())).expect("the folder opens");
    let settings = WriterSettings { clock: || Time::from_micros(1), checkpoint_after_bytes };
    WriterHandle::start(opened.writer, opened.log, settings).expect("there is room for threads")
}

fn agent(number: usize) -> RegisterAgent {
    RegisterAgent { agent: format!("n{number}").as_str().into(), cpus_thousandths: 1, memory_bytes: 1, disk_bytes: 1 }
}

fn names(store: &Store) -> BTreeSet<String> {
    let snapshot = store.snapshot();
    let rows = snapshot.table::<AgentRow>().select(Query::all()).expect("everything can be asked for");
    rows.map(|agent| agent.row().agent.to_string()).collect()
}

/// Sends `count` commands from `clients` at once; gives the names of those that were acknowledged.
async fn register(handle: &WriterHandle, from: usize, count: usize, clients: usize) -> BTreeSet<String> {
    let mut running = JoinSet::new();
    for client in 0..clients {
        let handle = handle.clone();
        running.spawn(async move {
            let mut done = Vec::new();
            for number in (from..from + count).filter(|number| number % clients == client) {
                if let Ok((_, version)) = handle.run(agent(number)).await {
                    // Read-your-writes: what was acknowledged is visible.
                    assert!(handle.store().snapshot().version() >= version);
                    done.push(format!("n{number}"));
                }
            }
            done
        });
    }
    running.join_all().await.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_there_after_a_restart_with_and_without_checkpoints() {
    for checkpoint_after_bytes in [u64::MAX, 20_000] {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let mut expected = BTreeSet::new();
        let (mut last_version, mut checkpoints_written) = (0, 0);
        for round in 0..3 {
            let disk = RealDisk::new(folder.path()).expect("the folder is there");
            let (handle, threads) = start(disk, checkpoint_after_bytes);
            assert_eq!(names(handle.store()), expected);
            assert!(handle.store().snapshot().version().0 >= last_version);
            expected.extend(register(&handle, round * 1000, 1000, 16).await);
            assert_eq!(expected.len(), (round + 1) * 1000);
            let commits = handle.counts().commits.load(std::sync::atomic::Ordering::Relaxed);
            assert!(commits < 1000, "sixteen clients at once share commits, {commits} were made");
            let checkpoints = handle.counts().checkpoints.load(std::sync::atomic::Ordering::Relaxed);
            assert!(checkpoint_after_bytes != u64::MAX || checkpoints == 0);
            checkpoints_written += checkpoints;
            last_version = handle.store().snapshot().version().0;
            drop(handle);
            threads.join();
        }
        assert_eq!(checkpoints_written > 0, checkpoint_after_bytes != u64::MAX);
    }
}

#[tokio::test]
async fn a_refusal_leaves_the_other_commands_of_its_batch_alone() {
    let (handle, threads) = start(SimulatedDisk::new(1), u64::MAX);
    let stop = StopJob { namespace: "default".into(), job: "web".into(), instance: None };
    let (first, refused, second) = tokio::join!(handle.run(agent(1)), handle.run(stop), handle.run(agent(2)));
    assert!(first.is_ok() && second.is_ok());
    assert!(matches!(refused, Err(WriteError::Refused(CommandError::NoSuchJob { .. }))));
    assert_eq!(names(handle.store()).len(), 2);
    drop(handle);
    threads.join();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_leaves_before_its_fdatasync_ended() {
    let disk = SimulatedDisk::new(2);
    let (handle, threads) = start(disk.clone(), u64::MAX);
    disk.record();
    for number in 0..50 {
        handle.run(agent(number)).await.expect("the disk is well");
        disk.mark("answered");
    }
    let calls = disk.recorded();
    let (mut written, mut durable, mut answers) = (false, 0, 0);
    for call in &calls {
        match call.kind {
            CallKind::Write => written = true,
            CallKind::SyncData | CallKind::SyncAll if call.succeeded && std::mem::take(&mut written) => durable += 1,
            CallKind::Mark => {
                answers += 1;
                assert!(durable >= answers, "answer {answers} left before the fdatasync of its batch ended: {calls:?}");
            }
            _ => {}
        }
    }
    assert_eq!(answers, 50);
    drop(handle);
    threads.join();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_batch_is_proven_durable_soon_after_the_last_client_whichever_thread_wrote_it() {
    for clients in [1, 16] {
        let disk = SimulatedDisk::new(2);
        let (handle, threads) = start(disk.clone(), u64::MAX);
        register(&handle, 0, 50, clients).await;
        let before = disk.calls();
        handle.run(agent(50)).await.expect("the disk is well");
        // Two calls write a record, two more the one that proves it.
        let proven = async {
            while disk.calls() < before + 4 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), proven).await.expect("an idle record comes");
        drop(handle);
        threads.join();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_keeps_reads_and_recovers_when_space_returns() {
    let disk = SimulatedDisk::new(3);
    let (handle, threads) = start(disk.clone(), u64::MAX);
    let mut expected = register(&handle, 0, 200, 8).await;
    let used: usize = disk.contents().values().map(Vec::len).sum();
    disk.set_capacity(Some(used as u64));
    expected.extend(register(&handle, 1000, 2000, 8).await);
    assert!(expected.len() < 2200, "the disk was full, yet everything was taken");
    // A batch that was too large for what is left of the segment is refused; a single command may still fit, until it is full.
    let mut number = 99_999;
    let refused = loop {
        match handle.run(agent(number)).await {
            Ok(_) => expected.insert(format!("n{number}")),
            Err(refused) => break refused,
        };
        number += 1;
    };
    assert!(matches!(&refused, WriteError::NotDurable { reason } if !reason.is_empty()), "{refused:?}");
    assert_eq!(names(handle.store()), expected);
    disk.set_capacity(None);
    expected.extend(register(&handle, 5000, 100, 8).await);
    assert!(expected.contains("n5099"));
    assert_eq!(names(handle.store()), expected);
    drop(handle);
    threads.join();
    let (handle, threads) = start(disk.power_cut(), u64::MAX);
    assert_eq!(names(handle.store()), expected);
    drop(handle);
    threads.join();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failed_fsync_a_checkpoint_comes_before_the_next_acknowledgement() {
    for seed in 0..40 {
        println!("seed {seed}");
        let disk = SimulatedDisk::new(seed);
        let (handle, threads) = start(disk.clone(), u64::MAX);
        let mut expected = register(&handle, 0, 20, 4).await;
        disk.plant(disk.calls() + 1 + seed % 7, Fault::Error(std::io::ErrorKind::Other));
        expected.extend(register(&handle, 100, 40, 4).await);
        // The log mends itself by a checkpoint; until then every write says why it is refused.
        let mut next = 1000;
        loop {
            match handle.run(agent(next)).await {
                Ok(_) => {
                    expected.insert(format!("n{next}"));
                    break;
                }
                Err(WriteError::NotDurable { .. } | WriteError::Uncertain { .. }) => next += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(names(handle.store()), expected);
        drop(handle);
        let survivor = disk.power_cut();
        threads.join();
        let (handle, threads) = start(survivor, u64::MAX);
        assert!(names(handle.store()).is_superset(&expected), "something acknowledged was lost");
        drop(handle);
        threads.join();
    }
}

#[tokio::test]
async fn a_second_server_never_opens_the_same_folder() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let disk = || RealDisk::new(folder.path()).expect("the folder is there");
    let (handle, threads) = start(disk(), u64::MAX);
    let second = open(disk(), options(), builder(StoreLimits::default()));
    let text = second.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains(&format!("{}", std::process::id())), "{text}");
    drop(handle);
    threads.join();
    assert!(open(disk(), options(), builder(StoreLimits::default())).is_ok());
}
