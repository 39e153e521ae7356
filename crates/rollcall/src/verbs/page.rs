//! `serve-example-page`: the program of the example job, so that trying rollcall needs nothing else.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::arguments::PageArguments;
use crate::failure::Failure;
use crate::output::print_line;

/// More visitors wait their turn.
const VISITORS_MAX: usize = 64;
/// A longer request is not read.
const REQUEST_BYTES_MAX: usize = 8 << 10;
const REQUEST_WAIT_MAX: Duration = Duration::from_secs(5);

pub async fn run(arguments: &PageArguments) -> Result<(), Failure> {
    let failed = |what: &str, error: std::io::Error| Failure::work(format!("cannot {what}: {error}"));
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| failed("listen for signals", error))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).await;
    let listener = listener.map_err(|error| failed(&format!("listen on port {}", arguments.port), error))?;
    let address = listener.local_addr().map_err(|error| failed("read the port", error))?;
    print_line(&format!("listening on http://{address}"))?;
    let page: Arc<str> = answer(&page(&arguments.greeting)).into();
    let visitors = Arc::new(Semaphore::new(VISITORS_MAX));
    loop {
        let permit = Arc::clone(&visitors).acquire_owned().await.expect("the semaphore is never closed");
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.map_err(|error| failed("accept a visitor", error))?;
                let page = Arc::clone(&page);
                tokio::spawn(async move {
                    // A visitor that says nothing or leaves early is no trouble of ours.
                    let _ = timeout(REQUEST_WAIT_MAX, serve(stream, &page)).await;
                    drop(permit);
                });
            }
            _ = terminated.recv() => return print_line("asked to stop"),
        }
    }
}

async fn serve(mut stream: TcpStream, answer: &str) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= REQUEST_BYTES_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().escape_debug().to_string();
    // Nobody may read our output; the page is served all the same.
    let _ = print_line(&format!("{line} 200"));
    Ok(())
}

fn page(greeting: &str) -> String {
    let task = std::env::var("ROLLCALL_TASK").unwrap_or_else(|_| "no task".to_owned());
    let (greeting, task) = (escaped(greeting), escaped(&task));
    format!("<!doctype html>\n<title>{greeting}</title>\n<h1>{greeting}</h1>\n<p>This is {task}.</p>\n")
}

fn answer(page: &str) -> String {
    let length = page.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{page}"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
