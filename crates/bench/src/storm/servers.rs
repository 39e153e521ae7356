//! The servers of the storm, each a part in a process of its own, so that its memory and processor time are told apart from the clients'.
//!
//! A part says its port when it can be asked; then it does what it is told, line by line, and says `done`.

use crate::data::{Changes, open_data};
use crate::load::{Load, Shape};
use anyhow::Context;
use rollcall_server::{HistoryBounds, Server, ServerSettings, WriterHandle, WriterSettings};
use rollcall_store::StoreLimits;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Told to a server: its changes begin, or end. The plain server has none.
pub(super) const CHANGE: &str = "change";
pub(super) const REST: &str = "rest";

/// The plain server's paths: what everyone asks for, and a small answer.
pub(super) const DUMP: &str = "/dump";
pub(super) const SMALL: &str = "/small";

/// Changes in a second.
const CHANGES_PER_SECOND: u64 = 1_000;

/// How often changes are made that are due.
const BEAT: Duration = Duration::from_millis(5);

/// Changes made before anyone is answered, so that the watch ring and the old versions hold all that they may: what they take is there without
/// readers too.
const WARM_CHANGES: u64 = 100_000;

/// Clients that make them.
const WARM_CLIENTS: u64 = 64;

/// Dumps that the plain server sends at a time.
const PLAIN_DUMPS_AT_ONCE: usize = 4;

/// Fills the data folder of the server to come.
pub(super) fn fill(folder: &Path, load: &Load) -> anyhow::Result<()> {
    let opened = open_data(folder)?;
    let (writer, threads) = WriterHandle::start(opened.writer, opened.log, WriterSettings::new())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(crate::data::insert_load(&writer, load))?;
    drop(writer);
    threads.join();
    Ok(())
}

/// The part that is ours: the real server on a filled folder, doors only.
pub(crate) fn serve_ours(arguments: &[String]) -> anyhow::Result<()> {
    let [folder, tasks, quick] = arguments else { anyhow::bail!("wrong arguments") };
    let names = Load::new(Shape::usual(tasks.parse()?)).names;
    let settings = ServerSettings {
        folder: folder.into(),
        version: env!("CARGO_PKG_VERSION"),
        task_user: "nobody".into(),
        agent_disk_bytes: 0,
        history: HistoryBounds::default(),
        watch_bytes_max: StoreLimits::default().watch_bytes_max,
    };
    let (server, _) = Server::open(settings)?;
    let writer = server.writer().clone();
    let changes = Arc::new(Changes::of(&writer.store().snapshot(), &names)?);
    drop(names);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let made = if quick == "true" { 0 } else { warm(&writer, &changes).await };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        let changing = Arc::new(AtomicBool::new(false));
        tokio::spawn(change(writer, changes, changing.clone(), made));
        server.serve_doors(listener, obey(changing)).await;
        Ok(())
    })
}

/// Makes changes as fast as they go.
async fn warm(writer: &WriterHandle, changes: &Arc<Changes>) -> u64 {
    let next = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..WARM_CLIENTS {
        let (writer, changes, next) = (writer.clone(), changes.clone(), next.clone());
        clients.spawn(async move {
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= WARM_CHANGES || writer.run(changes.number(number)).await.is_err() {
                    return;
                }
            }
        });
    }
    clients.join_all().await;
    WARM_CHANGES
}

/// Makes changes at their pace for as long as they are wanted; what could not be made in time is made as soon as it can be.
async fn change(writer: WriterHandle, changes: Arc<Changes>, wanted: Arc<AtomicBool>, mut number: u64) {
    let mut beat = tokio::time::interval(BEAT);
    let mut running = JoinSet::new();
    loop {
        beat.tick().await;
        while running.try_join_next().is_some() {}
        if wanted.load(Relaxed) {
            for _ in 0..CHANGES_PER_SECOND * BEAT.as_millis() as u64 / 1_000 {
                let (writer, change) = (writer.clone(), changes.number(number));
                number += 1;
                running.spawn(async move { writer.run(change).await.is_ok() });
            }
        }
    }
}

/// Does what is told until nobody is left who could tell.
async fn obey(changing: Arc<AtomicBool>) {
    let listen = move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            changing.store(line == CHANGE, Relaxed);
            println!("done");
        }
    };
    // It cannot panic, and if it did, that would be the end as well.
    let _ = tokio::task::spawn_blocking(listen).await;
}

/// The part that is the floor: a plain server of bytes that were made beforehand, each answer one write. Dumps are sent first come, first served, a few
/// at a time; small answers are sent as they are asked for or, if `in_line`, take their turn among the dumps.
pub(crate) fn serve_plain(arguments: &[String]) -> anyhow::Result<()> {
    let [dump_bytes, small_bytes, in_line] = arguments else { anyhow::bail!("wrong arguments") };
    let answer = |bytes: &str| -> anyhow::Result<Arc<[u8]>> {
        let bytes: usize = bytes.parse().context("the length of an answer")?;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\n\r\n");
        Ok([head.into_bytes(), vec![b'x'; bytes]].concat().into())
    };
    let plain = Plain {
        dump: answer(dump_bytes)?,
        small: answer(small_bytes)?,
        places: Arc::new(Semaphore::new(PLAIN_DUMPS_AT_ONCE)),
        in_line: in_line == "true",
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(plain.clone().answer(stream));
            }
        });
        obey(Arc::default()).await;
        Ok(())
    })
}

#[derive(Clone)]
struct Plain {
    dump: Arc<[u8]>,
    small: Arc<[u8]>,
    places: Arc<Semaphore>,
    in_line: bool,
}

impl Plain {
    /// Answers one connection until it ends.
    async fn answer(self, mut stream: TcpStream) -> Option<()> {
        let _ = stream.set_nodelay(true);
        let mut request = vec![0; 4096];
        loop {
            // Requests are short and come in one piece.
            let length = stream.read(&mut request).await.ok().filter(|length| *length > 0)?;
            let is_dump = request[..length].windows(DUMP.len()).any(|window| window == DUMP.as_bytes());
            let _place = match is_dump || self.in_line {
                true => Some(self.places.acquire().await.ok()?),
                false => None,
            };
            stream.write_all(if is_dump { &self.dump } else { &self.small }).await.ok()?;
        }
    }
}
