//! A whole server: data folder, writer, loops, sessions, doors.

use crate::doors::{self, Dumps, House, Metrics};
use crate::loops::{self, Loop};
use crate::sessions::{ConnectedAgents, Session, SessionContext, SessionError};
use crate::writer::WriterThreads;
use crate::{StorageError, WriterHandle, WriterSettings, builder, clock, random, storage};
use rollcall_agent::ServerLink;
use rollcall_commands::HistoryBounds;
use rollcall_log::{Epoch, Options, RealDisk, Warning};
use rollcall_store::{StoreLimits, Version};
use rollcall_types::UserName;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The only server of a data folder writes in this epoch; more than one will take turns in higher ones.
const EPOCH: Epoch = Epoch(1);

/// How a server works.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where its data is.
    pub folder: PathBuf,
    /// The program's version, told to who asks and noted in the data.
    pub version: &'static str,
    /// Who the tasks of a job run as that names nobody.
    pub task_user: UserName,
    /// Disk space that tasks may use on the agent's host, in bytes.
    pub agent_disk_bytes: u64,
    /// How much of what has ended each namespace keeps.
    pub history: HistoryBounds,
    /// How many bytes of changes are held for watchers that are slow or come back; who wants older ones must read again.
    pub watch_bytes_max: usize,
}

/// Why a server cannot start. Nothing in its data was changed.
#[derive(Debug, Error)]
pub enum StartError {
    /// The folder cannot be made.
    #[error("cannot make the data folder {}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The data cannot be opened.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The system gives no random numbers or no threads.
    #[error("cannot start the server: {action}")]
    System {
        /// What was being done.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

/// Why a running server ended before it was told to.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A part of it has failed.
    #[error("the server's {part} ended unexpectedly")]
    Part {
        /// Which.
        part: &'static str,
    },
    /// The session with the agent has ended.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// A server whose data is open.
pub struct Server {
    settings: ServerSettings,
    writer: WriterHandle,
    threads: WriterThreads,
    changes: watch::Receiver<Version>,
}

impl Server {
    /// Opens the data. Blocks on the disk. The warnings are for a person.
    ///
    /// # Errors
    /// See [`StartError`]; each says what to do.
    pub fn open(settings: ServerSettings) -> Result<(Server, Vec<Warning>), StartError> {
        let system = |action| move |source| StartError::System { action, source };
        let folder = settings.folder.clone();
        let disk = RealDisk::new(&settings.folder).map_err(|source| StartError::Folder { folder, source })?;
        let salt = random::random().map_err(system("drawing a random number"))? as u64;
        let (newest, changes) = watch::channel(Version::NOTHING);
        let notify = Box::new(move |version| {
            newest.send_replace(version);
        });
        let limits = StoreLimits { watch_bytes_max: settings.watch_bytes_max, ..StoreLimits::default() };
        let tables = builder(limits).on_publish(notify);
        let opened = storage::open(disk, Options::new(EPOCH, salt, settings.version), tables)?;
        let started = WriterHandle::start(opened.writer, opened.log, WriterSettings::new());
        let (writer, threads) = started.map_err(system("starting a thread"))?;
        Ok((Server { settings, writer, threads, changes }, opened.warnings))
    }

    /// Who changes the store.
    pub fn writer(&self) -> &WriterHandle {
        &self.writer
    }

    /// Opens the doors alone, without agent, planner or housekeeping, until `stop` ends; then closes them and writes what is left. For benchmarks and
    /// for looking at data without running anything. All other handles of the writer must be gone by then.
    pub async fn serve_doors(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let Server { settings, writer, threads, changes } = self;
        let (close_doors, closing) = watch::channel(false);
        let house = House {
            writer,
            agents: ConnectedAgents::default(),
            settings,
            started: clock::now(),
            metrics: Metrics::new(),
            dumps: Dumps::new(),
            changes,
        };
        let doors = tokio::spawn(doors::serve(listener, Arc::new(house), closing));
        stop.await;
        close_doors.send_replace(true);
        // A panic of the listener was told where it happened.
        let _ = doors.await;
        let _ = tokio::task::spawn_blocking(move || threads.join()).await;
    }

    /// Begins the session with the agent, and then opens the doors: what the first visitor sees is settled.
    ///
    /// # Errors
    /// When the agent cannot be used.
    pub async fn start(self, listener: TcpListener, agent: ServerLink) -> Result<RunningServer, ServeError> {
        let Server { settings, writer, threads, changes } = self;
        let (stop_tasks, stopping) = watch::channel(false);
        let (close_doors, closing) = watch::channel(false);
        let agents = ConnectedAgents::default();
        let context = SessionContext {
            writer: writer.clone(),
            changes: changes.clone(),
            stopping,
            agents: agents.clone(),
            disk_bytes: settings.agent_disk_bytes,
        };
        let session = Session::begin(agent, context).await?;
        let session = tokio::spawn(session.serve());
        let on = Loop { writer: writer.clone(), changes: changes.clone() };
        let mut background = JoinSet::new();
        background.spawn(loops::place(on.clone()));
        background.spawn(loops::keep_house(on, settings.history));
        let (metrics, dumps) = (Metrics::new(), Dumps::new());
        let house = House { writer, agents, settings, started: clock::now(), metrics, dumps, changes };
        let doors = tokio::spawn(doors::serve(listener, Arc::new(house), closing));
        Ok(RunningServer { threads, stop_tasks, close_doors, session, background, doors })
    }
}

/// A server with its agent and open doors.
pub struct RunningServer {
    threads: WriterThreads,
    stop_tasks: watch::Sender<bool>,
    close_doors: watch::Sender<bool>,
    session: JoinHandle<Result<(), SessionError>>,
    background: JoinSet<()>,
    doors: JoinHandle<()>,
}

impl RunningServer {
    /// Serves until `stop` ends: then places nothing more, has the agent stop its tasks, closes the doors, and writes what is left. In this order,
    /// so that the ends of the tasks are seen and kept.
    ///
    /// # Errors
    /// When a part of it fails first; the rest is then ended in the same order.
    pub async fn serve_until(mut self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let failed = tokio::select! {
            () = stop => None,
            ended = &mut self.session => Some(match ended {
                Ok(Err(error)) => error.into(),
                Ok(Ok(())) | Err(_) => ServeError::Part { part: "session with the agent" },
            }),
            _ = &mut self.doors => Some(ServeError::Part { part: "listener" }),
            _ = self.background.join_next() => Some(ServeError::Part { part: "planner or housekeeping" }),
        };
        self.background.shutdown().await;
        self.stop_tasks.send_replace(true);
        let told = if self.session.is_finished() { Ok(()) } else { self.session.await.unwrap_or(Ok(())) };
        self.close_doors.send_replace(true);
        if !self.doors.is_finished() {
            // Its end, good or bad, is the end of the server all the same.
            let _ = self.doors.await;
        }
        // All handles are gone now, so the threads end once all is written.
        let _ = tokio::task::spawn_blocking(move || self.threads.join()).await;
        failed.map_or_else(|| told.map_err(Into::into), Err)
    }
}
