//! Placeholder of the room `types`.
