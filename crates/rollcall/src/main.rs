//! Placeholder of the room `rollcall`.
fn main() {}
