//! store
#![forbid(unsafe_code)]
mod tree;
