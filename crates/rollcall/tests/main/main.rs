//! The real binary: alone, against a server that speaks the contract, and as the program of its own example job.

mod alone;
mod asking;
mod attacks;
mod bad_nights;
mod dev;
mod documents;
mod example;
mod first_hour;
mod kills;
mod openapi;
mod orphans;
mod random;
mod server;
mod support;
mod talk;
mod watching;
