//! Descriptors whose readiness the runtime waits for.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor for reading. Must be called inside a runtime.
// Deprecated because a type could lie about its descriptor; an `OwnedFd` holds the same open one until it is dropped. The
// replacement is an unsafe call, which this crate forbids itself.
#[allow(deprecated)]
pub(crate) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}
