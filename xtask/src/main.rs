//! Every developer task.
fn main() {}
