//! A server's data on a real disk: the folder, the load in it, and changes without end.

use crate::load::{Load, Names};
use crate::random::Random;
use anyhow::{Context, bail};
use rollcall_commands::{Command, CommandError, Report, ReportTask};
use rollcall_log::{Epoch, Options, RealDisk};
use rollcall_schema::Row;
use rollcall_server::{Opened, WriteError, WriterHandle, builder};
use rollcall_store::{Query, Snapshot, StoreLimits, Transaction};
use rollcall_types::{AgentName, Task, TaskState, Uid};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// File systems that keep nothing on a disk, by the numbers that Linux gives them.
const IN_MEMORY: [(u64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// File systems on disks, for the report.
const ON_DISK: [(u64, &str); 6] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x794c_7630, "overlay"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
];

/// A new folder on a real disk, removed in the end.
pub(crate) struct DiskFolder {
    folder: TempDir,
    /// Its file system, in words.
    pub(crate) file_system: String,
}

impl DiskFolder {
    /// Makes one below `parent`.
    ///
    /// # Errors
    /// If that is kept in memory: writing there says nothing about disks.
    pub(crate) fn new(parent: &Path) -> anyhow::Result<DiskFolder> {
        let about = rustix::fs::statfs(parent).with_context(|| format!("looking at {}", parent.display()))?;
        let kind = about.f_type as u64;
        let named =
            |kinds: &[(u64, &'static str)]| kinds.iter().find(|(number, _)| *number == kind).map(|found| found.1);
        if let Some(name) = named(&IN_MEMORY) {
            bail!("{} is a {name}, which is no disk; name a folder on a disk with --folder", parent.display());
        }
        let file_system = named(&ON_DISK).map_or_else(|| format!("file system {kind:#x}"), str::to_owned);
        let folder = tempfile::Builder::new().prefix("rollcall-bench-").tempdir_in(parent);
        Ok(DiskFolder {
            folder: folder.with_context(|| format!("making a folder in {}", parent.display()))?,
            file_system,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Opens a data folder as a server does.
pub(crate) fn open_data(folder: &Path) -> anyhow::Result<Opened<RealDisk>> {
    let disk = RealDisk::new(folder)?;
    Ok(rollcall_server::open(disk, Options::new(Epoch(1), 7, "bench"), builder(StoreLimits::default()))?)
}

/// Rows that a load has, put in as they are.
struct InsertRows<R>(Vec<R>);

impl<R: Row> Command for InsertRows<R> {
    type Answer = ();

    fn apply(self, change: &mut Transaction<'_>) -> Result<(), CommandError> {
        Ok(self.0.into_iter().try_for_each(|row| change.insert(row).map(drop))?)
    }
}

/// Puts a load into a server's store, through its writer.
pub(crate) async fn insert_load(writer: &WriterHandle, load: &Load) -> Result<(), WriteError> {
    insert_all(writer, load.agents()).await?;
    insert_all(writer, load.specs()).await?;
    insert_all(writer, load.jobs()).await?;
    insert_all(writer, load.tasks()).await
}

async fn insert_all<R: Row>(writer: &WriterHandle, rows: impl IntoIterator<Item = R>) -> Result<(), WriteError> {
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let some = rows.by_ref().take(writer.store().limits().command_rows_max).collect();
        writer.run(InsertRows(some)).await?;
    }
    Ok(())
}

/// Status changes without end: all active tasks, in a random order, start running; then in the same order they are told to stop; then they are set
/// back to starting, which no real command does, at the cost of one that does.
pub(crate) struct Changes {
    tasks: Vec<(Uid, AgentName)>,
    /// The tasks as they are when starting.
    starting: Vec<Arc<Task>>,
}

impl Changes {
    pub(crate) fn of(snapshot: &Snapshot, names: &Names) -> anyhow::Result<Changes> {
        let mut random = Random::new(4);
        let rows = snapshot.table::<Task>().select(Query::all())?.filter(|row| row.row().is_active());
        let mut starting: Vec<Arc<Task>> = rows
            .map(|row| {
                let agent = row.row().agent.clone().unwrap_or_else(|| names.any_agent(&mut random));
                let (state, agent) = (TaskState::Starting, Some(agent));
                Arc::new(Task { agent, state, started: None, pid: None, ..row.row().clone() })
            })
            .collect();
        random.shuffle(&mut starting);
        let agent = |task: &Task| task.agent.clone().unwrap_or_else(|| names.agents[0].clone());
        let tasks = starting.iter().map(|task| (task.uid, agent(task))).collect();
        Ok(Changes { tasks, starting })
    }

    /// How many tasks are changed.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The change of this number, from 0; those of the first round set tasks back that may already be so.
    pub(crate) fn number(&self, number: u64) -> StatusChange {
        let (turn, place) = (number / self.tasks.len() as u64 % 3, (number % self.tasks.len() as u64) as usize);
        let report = |state, pid| {
            let (task, agent) = self.tasks[place].clone();
            let report = Report { state, cause: None, detail: 0, text: None, pid, at: None };
            StatusChange::Report(ReportTask { task, agent, report })
        };
        match turn {
            0 => StatusChange::SetBack(self.starting[place].clone()),
            1 => report(TaskState::Running, Some(1_000 + place as u32)),
            _ => report(TaskState::Stopping, None),
        }
    }
}

/// Status changes that are one command.
pub(crate) struct StatusChanges(pub(crate) Vec<StatusChange>);

impl Command for StatusChanges {
    type Answer = ();

    fn apply(self, change: &mut Transaction<'_>) -> Result<(), CommandError> {
        self.0.into_iter().try_for_each(|one| one.apply(change))
    }
}

/// One status change of a task.
pub(crate) enum StatusChange {
    /// An agent's report.
    Report(ReportTask),
    /// The way back.
    SetBack(Arc<Task>),
}

impl Command for StatusChange {
    type Answer = ();

    fn apply(self, change: &mut Transaction<'_>) -> Result<(), CommandError> {
        let task = match self {
            StatusChange::Report(report) => return report.apply(change),
            StatusChange::SetBack(task) => task,
        };
        let query = Query::all().equal(Task::UID, task.uid);
        let found = change.table::<Task>().select(query)?.next().map(|found| found.number);
        let number = found.ok_or(CommandError::NoSuchTask(task.uid))?;
        Ok(change.update(number, Task::clone(&task))?)
    }
}
