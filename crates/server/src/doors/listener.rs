//! The listener: connections in, each served on a task of its own, within limits.

use super::guard::Guard;
use super::{House, router};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// The most connections at a time; who comes then waits in the system's queue.
const CONNECTIONS_MAX: usize = 4096;
/// A request's line and headers must have come after so long; a connection that asks nothing is closed then.
const HEADERS_WAIT_MAX: Duration = Duration::from_secs(30);
/// A request's line and headers have at most so many bytes; as many of an answer are gathered for one write, which costs less the larger it is.
const BUFFER_BYTES_MAX: usize = 256 << 10;
/// A request has at most so many headers.
const HEADERS_MAX: usize = 64;
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
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS_WAIT_MAX);
    builder.max_buf_size(BUFFER_BYTES_MAX).max_headers(HEADERS_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        // How a client leaves is its own affair.
        _ = connection.as_mut() => return,
        () = said(&mut closing) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Returns when it is said, or nobody is left who could say it. No guard of the channel is held afterwards.
async fn said(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}
