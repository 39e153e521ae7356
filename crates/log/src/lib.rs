//! Placeholder of the room `log`.
