//! What a task wrote, by offset.
//!
//! A log is a file that only grows, so an offset means the same byte for ever. (A task can cut its own log, since it
//! holds it open; a reader behind the new end starts again from zero.)

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::inotify;
use thiserror::Error;
use tokio::io::unix::AsyncFd;

use crate::readable::readable;

/// No read returns more bytes.
pub const READ_BYTES_MAX: usize = 1 << 20;
/// The last lines of a log are looked for in so many bytes at its end.
pub const LAST_LINES_BYTES_MAX: u64 = 16 << 20;
const FOLLOW_BYTES_MAX: usize = 64 << 10;
const BACKWARDS_BYTES: u64 = 64 << 10;
const INOTIFY_BUFFER_BYTES: usize = 4 << 10;

/// One of the two outputs of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    /// `out` or `err`: the name of the file and the word in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::Err => "err",
        }
    }
}

/// Bytes of a log. They are the task's and may be anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The offset of the first byte.
    pub from: u64,
    /// The bytes; none at the end of the log.
    pub bytes: Vec<u8>,
    /// The length of the log when it was read.
    pub length: u64,
}

impl Chunk {
    /// Where to read on.
    pub fn next(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }
}

/// Why a log cannot be read.
#[derive(Debug, Error)]
#[error("cannot read the log {}", path.display())]
pub struct LogError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl LogError {
    /// Whether there is no such log: the task never started, or its folder was removed.
    pub fn is_missing(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Both logs of one task. All reads block on the disk.
#[derive(Debug, Clone)]
pub struct Logs {
    folder: PathBuf,
}

impl Logs {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Up to `limit` bytes (at most [`READ_BYTES_MAX`]) from an offset on. An offset behind the end counts as 0, since
    /// the task has cut its log.
    ///
    /// # Errors
    /// When there is no such log or the disk fails.
    pub fn read(&self, stream: Stream, from: u64, limit: usize) -> Result<Chunk, LogError> {
        self.with_file(stream, |file| read(file, from, limit.min(READ_BYTES_MAX)))
    }

    /// The offset where the last `lines` lines begin, an unfinished one counted. Looks at no more than
    /// [`LAST_LINES_BYTES_MAX`] bytes; of longer lines there are fewer.
    ///
    /// # Errors
    /// When there is no such log or the disk fails.
    pub fn start_of_last_lines(&self, stream: Stream, lines: usize) -> Result<u64, LogError> {
        self.with_file(stream, |file| start_of_last_lines(file, lines))
    }

    /// Reads what is there from an offset on and then what comes. Must be called inside a runtime.
    ///
    /// # Errors
    /// When there is no such log, or no watch is to be had.
    pub fn follow(&self, stream: Stream, from: u64) -> Result<Follow, LogError> {
        let path = self.folder.join(stream.name());
        let growth = Growth::of(&path).map_err(|source| LogError { path, source })?;
        Ok(Follow { logs: self.clone(), stream, from, growth })
    }

    fn with_file<T>(&self, stream: Stream, work: impl FnOnce(&File) -> io::Result<T>) -> Result<T, LogError> {
        let path = self.folder.join(stream.name());
        File::open(&path).and_then(|file| work(&file)).map_err(|source| LogError { path, source })
    }
}

fn read(file: &File, from: u64, limit: usize) -> io::Result<Chunk> {
    let length = file.metadata()?.len();
    let from = if from > length { 0 } else { from };
    let limit = limit.min(usize::try_from(length - from).unwrap_or(usize::MAX));
    let mut bytes = vec![0; limit];
    let mut filled = 0;
    while filled < limit {
        match file.read_at(&mut bytes[filled..], from + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(Chunk { from, bytes, length })
}

fn start_of_last_lines(file: &File, lines: usize) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let lowest = length.saturating_sub(LAST_LINES_BYTES_MAX);
    let mut missing = lines;
    let mut end = length;
    while end > lowest && missing > 0 {
        let start = end.saturating_sub(BACKWARDS_BYTES).max(lowest);
        let block = read(file, start, (end - start) as usize)?.bytes;
        for (at, _) in block.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let line_start = start + at as u64 + 1;
            // The end of the last line begins no line.
            if line_start == length {
                continue;
            }
            missing -= 1;
            if missing == 0 {
                return Ok(line_start);
            }
        }
        end = start;
    }
    Ok(if missing == 0 { length } else { lowest })
}

/// A reader that waits for more.
#[derive(Debug)]
pub struct Follow {
    logs: Logs,
    stream: Stream,
    from: u64,
    growth: Growth,
}

impl Follow {
    /// The next bytes, at least one. Waits for ever at the end of the log: race it with the end of the task, and then
    /// read the rest with [`Follow::rest`]. May be dropped and called again; nothing is lost.
    ///
    /// # Errors
    /// When the log is gone or the disk fails.
    pub async fn next(&mut self) -> Result<Chunk, LogError> {
        loop {
            let chunk = self.rest().await?;
            if !chunk.bytes.is_empty() {
                return Ok(chunk);
            }
            let path = || self.logs.folder.join(self.stream.name());
            self.growth.wait().await.map_err(|source| LogError { path: path(), source })?;
        }
    }

    /// The next bytes without waiting; none at the end of the log.
    ///
    /// # Errors
    /// When the log is gone or the disk fails.
    pub async fn rest(&mut self) -> Result<Chunk, LogError> {
        let (logs, stream, from) = (self.logs.clone(), self.stream, self.from);
        let reading = tokio::task::spawn_blocking(move || logs.read(stream, from, FOLLOW_BYTES_MAX));
        let chunk = reading.await.map_err(|error| LogError {
            path: self.logs.folder.join(stream.name()),
            source: io::Error::other(error),
        })??;
        self.from = chunk.next();
        Ok(chunk)
    }
}

/// Becomes ready when a file was written to. Watches from its making on, so a write before the first wait counts.
#[derive(Debug)]
struct Growth {
    watch: AsyncFd<OwnedFd>,
}

impl Growth {
    fn of(path: &std::path::Path) -> io::Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        inotify::add_watch(&watch, path, inotify::WatchFlags::MODIFY)?;
        Ok(Self { watch: readable(watch)? })
    }

    async fn wait(&self) -> io::Result<()> {
        let mut ready = self.watch.readable().await?;
        let mut buffer = [MaybeUninit::uninit(); INOTIFY_BUFFER_BYTES];
        let mut events = inotify::Reader::new(&self.watch, &mut buffer);
        loop {
            match events.next() {
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        ready.clear_ready();
        Ok(())
    }
}
