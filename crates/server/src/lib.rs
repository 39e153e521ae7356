//! Placeholder of the room `server`.
