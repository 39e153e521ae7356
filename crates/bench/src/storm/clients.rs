//! The clients of the storm: many that read everything again and again, and one that asks for a little. All of them throw away what they read, into one
//! buffer each thread, and do no more than find the end of an answer.

use anyhow::{Context, bail, ensure};
use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// The one buffer that all answers are read into.
const BUFFER_BYTES: usize = 256 << 10;

/// A head longer than this is none of these servers'.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// How often it is looked whether the storm has ended.
const BEAT: Duration = Duration::from_millis(10);

/// What ends a body that comes in chunks. No JSON has such bytes in it.
const LAST_CHUNK: [u8; 5] = *b"0\r\n\r\n";

/// When the storm ends.
pub(super) struct Ending {
    /// Each dumper has read so many dumps, or…
    pub(super) dumps_each: u64,
    /// …so much time has passed; but the one that asks for a little…
    pub(super) time_max: Duration,
    /// …has asked so often.
    pub(super) small_min: u64,
}

/// What the dumpers saw.
#[derive(Default)]
pub(super) struct Dumped {
    /// How long each dump took.
    pub(super) times: Vec<Duration>,
    pub(super) bytes: u64,
    pub(super) errors: u64,
    /// From the first request to the last answer.
    pub(super) time: Duration,
}

/// What the one that asks for a little saw.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) times: Vec<Duration>,
    pub(super) errors: u64,
    pub(super) time: Duration,
}

/// A request for `path`.
pub(super) fn request(path: &str, port: u16) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n")
}

/// Lets so many dumpers read `dump`, and one client ask for what `small` says, until the end has come.
pub(super) fn storm(
    port: u16,
    dumpers: usize,
    dump: &str,
    small: impl FnMut() -> String + Send,
    ending: &Ending,
) -> anyhow::Result<(Dumped, Asked)> {
    let (stop, asked_so_far) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(port, small, || stop.load(Relaxed), &asked_so_far));
        let dumped = read_dumps(port, dumpers, request(dump, port), ending, &asked_so_far);
        stop.store(true, Relaxed);
        let asked = asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((dumped?, asked))
    })
}

/// Lets one client ask for so long.
pub(super) fn ask_alone(port: u16, small: impl FnMut() -> String, time: Duration) -> anyhow::Result<Asked> {
    let start = Instant::now();
    ask(port, small, || start.elapsed() >= time, &AtomicU64::new(0))
}

/// One client asks, reads, and asks again.
fn ask(
    port: u16,
    mut small: impl FnMut() -> String,
    stop: impl Fn() -> bool,
    asked_so_far: &AtomicU64,
) -> anyhow::Result<Asked> {
    let mut stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    let (mut buffer, mut asked, began) = (vec![0; BUFFER_BYTES], Asked::default(), Instant::now());
    while !stop() {
        let request = small();
        let start = Instant::now();
        stream.write_all(request.as_bytes())?;
        let mut answer = Answer::default();
        while !answer.ended {
            let length = stream.read(&mut buffer)?;
            ensure!(length > 0, "the server closed the connection of the small client");
            answer.take(&buffer[..length])?;
        }
        asked.times.push(start.elapsed());
        asked.errors += u64::from(answer.status != 200 || answer.bytes < 2);
        asked_so_far.store(asked.times.len() as u64, Relaxed);
    }
    asked.time = began.elapsed();
    Ok(asked)
}

/// The whole of one answer, head and all.
pub(super) fn fetch(port: u16, path: &str) -> anyhow::Result<Answer> {
    let mut stream = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.write_all(request(path, port).as_bytes())?;
    let (mut buffer, mut answer) = (vec![0; BUFFER_BYTES], Answer::default());
    while !answer.ended {
        let length = stream.read(&mut buffer)?;
        ensure!(length > 0, "the server closed the connection");
        answer.take(&buffer[..length])?;
    }
    Ok(answer)
}

fn read_dumps(
    port: u16,
    dumpers: usize,
    request: String,
    ending: &Ending,
    asked: &AtomicU64,
) -> anyhow::Result<Dumped> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let all = Rc::new(Dumpers { request, port, dumps_each: ending.dumps_each, ..Dumpers::default() });
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let start = Instant::now();
        for _ in 0..dumpers {
            let all = all.clone();
            tokio::task::spawn_local(async move {
                let read = Cell::new(0);
                if let Err(error) = all.read_again(&read).await {
                    eprintln!("a dump failed: {error:#}");
                    all.dumped.borrow_mut().errors += 1;
                    // One that failed holds up nobody.
                    all.ready.set(all.ready.get() + usize::from(read.get() < all.dumps_each));
                }
            });
        }
        let mut beat = tokio::time::interval(BEAT);
        while all.ready.get() < dumpers || asked.load(Relaxed) < ending.small_min {
            beat.tick().await;
            if start.elapsed() >= ending.time_max {
                break;
            }
        }
        all.dumped.borrow_mut().time = start.elapsed();
    });
    // Dumps that are not at their end are given up; what was read of them counts.
    drop(local);
    Ok(all.dumped.take())
}

/// What the dumpers share; they take turns on one thread.
#[derive(Default)]
struct Dumpers {
    request: String,
    port: u16,
    dumps_each: u64,
    /// How many have read so many dumps.
    ready: Cell<usize>,
    dumped: RefCell<Dumped>,
    buffer: RefCell<Vec<u8>>,
}

impl Dumpers {
    /// One dumper; it counts the dumps that it has read.
    async fn read_again(&self, read: &Cell<u64>) -> anyhow::Result<()> {
        let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))).await?;
        self.buffer.borrow_mut().resize(BUFFER_BYTES, 0);
        loop {
            let start = Instant::now();
            stream.write_all(self.request.as_bytes()).await?;
            let mut answer = Answer::default();
            while !answer.ended {
                stream.readable().await?;
                let mut buffer = self.buffer.borrow_mut();
                match stream.try_read(&mut buffer) {
                    Ok(0) => bail!("the server closed the connection after {} bytes", answer.bytes),
                    Ok(length) => {
                        answer.take(&buffer[..length])?;
                        self.dumped.borrow_mut().bytes += length as u64;
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
            }
            ensure!(answer.status == 200, "status {}", answer.status);
            self.dumped.borrow_mut().times.push(start.elapsed());
            read.set(read.get() + 1);
            if read.get() == self.dumps_each {
                self.ready.set(self.ready.get() + 1);
            }
        }
    }
}

/// An answer as its bytes come.
#[derive(Default)]
pub(super) struct Answer {
    head: Vec<u8>,
    pub(super) status: u16,
    /// Bytes of the body that are still to come; `None` if it comes in chunks.
    left: Option<u64>,
    tail: [u8; 5],
    /// Bytes of the body, with what holds its chunks together.
    pub(super) bytes: u64,
    pub(super) ended: bool,
}

impl Answer {
    fn take(&mut self, mut bytes: &[u8]) -> anyhow::Result<()> {
        if self.status == 0 {
            let before = self.head.len();
            self.head.extend_from_slice(bytes);
            let Some(end) = self.head.windows(4).position(|window| window == b"\r\n\r\n") else {
                ensure!(self.head.len() < HEAD_BYTES_MAX, "the head of an answer has no end");
                return Ok(());
            };
            self.read_head(end)?;
            bytes = &bytes[end + 4 - before..];
        }
        self.bytes += bytes.len() as u64;
        match &mut self.left {
            Some(left) => {
                *left = left.checked_sub(bytes.len() as u64).context("an answer is longer than it says")?;
                self.ended = *left == 0;
            }
            None => {
                let new = bytes.len().min(self.tail.len());
                self.tail.copy_within(new.., 0);
                self.tail[LAST_CHUNK.len() - new..].copy_from_slice(&bytes[bytes.len() - new..]);
                self.ended = self.tail == LAST_CHUNK;
            }
        }
        Ok(())
    }

    fn read_head(&mut self, end: usize) -> anyhow::Result<()> {
        let head = String::from_utf8_lossy(&self.head[..end]).to_ascii_lowercase();
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        self.status = status.context("an answer without a status")?;
        self.left = lines.find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;

    /// Gives the bytes in pieces of this size; tells after how many of them the answer was ended.
    fn ended_after(bytes: &[u8], piece: usize) -> usize {
        let mut answer = Answer::default();
        for (number, piece) in bytes.chunks(piece).enumerate() {
            answer.take(piece).expect("is an answer");
            if answer.ended {
                return number + 1;
            }
        }
        0
    }

    #[test]
    fn the_end_of_an_answer_is_found_however_it_is_cut() {
        let counted = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n0\r\n\r\n";
        let chunked =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n";
        for bytes in [&counted[..], &chunked[..]] {
            for piece in 1..=bytes.len() {
                assert_eq!(ended_after(bytes, piece), bytes.len().div_ceil(piece), "{piece}");
            }
        }
    }
}
