//! The listener: connections in, each served on a task of its own, within limits.

use super::guard::Guard;
use super::stream::{ClientStream, last_word};
use super::{House, router};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_socket_send_buffer_size;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// The most connections at a time; who comes then waits in the system's queue.
const CONNECTIONS_MAX: usize = 4096;
/// A request's line and headers must have come after so long; a connection that asks nothing is closed then, silently.
const HEADERS_WAIT_MAX: Duration = Duration::from_secs(30);
/// A request's line and headers have at most so many bytes.
const HEADERS_BYTES_MAX: usize = 128 << 10;
/// A request has at most so many headers.
const HEADERS_MAX: usize = 64;
/// The system holds at most about twice so many bytes for a client that takes its answer slowly; left alone, it holds ten times as many.
const SEND_BUFFER_BYTES: usize = 256 << 10;
/// After a failed accept, such as one without file descriptors, so long passes.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Answers on their way may take so long when the server stops.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Serves until told to close; then ends what is idle at once and what is being answered soon.
pub(crate) async fn serve(listener: TcpListener, house: Arc<House>, mut closing: watch::Receiver<bool>) {
    let Ok(address) = listener.local_addr() else { return };
    let guard = Guard { port: address.port(), loopback: address.ip().is_loopback() };
    let router = router(house, guard);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    let for_connections = closing.clone();
    loop {
        let permit = tokio::select! {
            permit = room.clone().acquire_owned() => permit.expect("the semaphore is never closed"),
            () = said(&mut closing) => break,
        };
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let serving = connection(stream, router.clone(), for_connections.clone());
                    connections.spawn(async move {
                        serving.await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = said(&mut closing) => break,
        }
    }
    drop(listener);
    let ends = async { while connections.join_next().await.is_some() {} };
    // Who follows a log is cut off; whoever else had a second.
    let _ = tokio::time::timeout(CLOSE_WAIT_MAX, ends).await;
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, router: Router, mut closing: watch::Receiver<bool>) {
    // Small answers must not wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let _ = set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS_WAIT_MAX);
    builder.max_buf_size(HEADERS_BYTES_MAX).max_headers(HEADERS_MAX);
    let service = TowerToHyperService::new(router);
    let mut connection = builder.serve_connection(TokioIo::new(ClientStream::new(stream)), service);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = said(&mut closing) => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    let parts = connection.into_parts();
    // How a client leaves is its own affair, but one that waits for a word gets it.
    let last_word = ended.err().and_then(|error| last_word(&error, !parts.read_buf.is_empty()));
    parts.io.into_inner().close(last_word).await;
}

/// Returns when it is said, or nobody is left who could say it. No guard of the channel is held afterwards.
async fn said(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

#[cfg(test)]
mod tests {
    use super::{HEADERS_WAIT_MAX, connection};
    use axum::Router;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::watch;
    use tokio::time::Instant;

    /// What a client is told that says so much and then waits; the clock runs ahead while all wait.
    async fn told(said: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let mut client = TcpStream::connect(listener.local_addr().expect("has one")).await.expect("is there");
        let (stream, _) = listener.accept().await.expect("has come");
        client.write_all(said.as_bytes()).await.expect("is taken");
        let (_open, closing) = watch::channel(false);
        let begun = Instant::now();
        let serving = tokio::spawn(connection(stream, Router::new(), closing));
        let mut told = String::new();
        client.read_to_string(&mut told).await.expect("is closed cleanly");
        assert!((HEADERS_WAIT_MAX..HEADERS_WAIT_MAX * 2).contains(&begun.elapsed()));
        drop(client);
        serving.await.expect("does not panic");
        told
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_whole_is_refused_and_a_client_that_asks_nothing_is_let_go_of() {
        for half in ["GET /v1/ta", "GET /v1/tasks HTTP/1.1\r\nhost: localhost\r\nx: "] {
            let told = told(half).await;
            assert!(told.starts_with("HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\n"), "{told}");
            assert!(told.contains("{\"code\":\"too_slow\","), "{told}");
        }
        assert_eq!(told("").await, "");
    }
}
