//! The real binary: alone, against a server that speaks the contract, and as the program of its own example job.

mod alone;
mod asking;
mod example;
mod server;
mod support;
