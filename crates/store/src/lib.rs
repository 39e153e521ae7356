//! Placeholder of the room `store`.
