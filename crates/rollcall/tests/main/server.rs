//! A server that answers each request with what the test says, and keeps what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// A test asks no more often.
const REQUESTS_MAX: usize = 64;

/// One request as it came.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    pub line: String,
    pub body: String,
}

pub struct Server {
    pub address: String,
    asked: Receiver<Asked>,
}

impl Server {
    /// Answers with the status and body that `answer` gives for a request line such as `GET /v1/tasks`.
    pub fn start(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("has an address").to_string();
        let (sender, asked) = sync_channel(REQUESTS_MAX);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // The binary may have gone already; that is its own affair.
                let _ = serve(stream, &answer, &sender);
            }
        });
        Self { address, asked }
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.try_iter().collect()
    }
}

fn serve(
    mut stream: TcpStream,
    answer: &impl Fn(&str) -> (u16, String),
    asked: &SyncSender<Asked>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim_end().is_empty() {
            break;
        }
        head.push(line.trim_end().to_owned());
    }
    let length = head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let line = head.first().map(|line| line.trim_end_matches(" HTTP/1.1").to_owned()).unwrap_or_default();
    let (status, text) = answer(&line);
    let _ = asked.try_send(Asked { line, body: String::from_utf8_lossy(&body).into_owned() });
    // In two chunks, as a log comes.
    let (first, second) = text.split_at(text.len() / 2);
    write!(stream, "HTTP/1.1 {status} X\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n")?;
    for chunk in [first, second].into_iter().filter(|chunk| !chunk.is_empty()) {
        write!(stream, "{:x}\r\n{chunk}\r\n", chunk.len())?;
        stream.flush()?;
    }
    write!(stream, "0\r\n\r\n")
}
