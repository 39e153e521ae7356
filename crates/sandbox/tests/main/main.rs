//! Real processes in real sandboxes, as an ordinary user or, when the tests run as root, as `nobody`.

mod guarding;
mod lives;
mod logs;
mod starting;
mod support;
